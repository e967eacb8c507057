"""`python -m csprop` is the command `csprop`, for where its script is not on the path."""

import sys

from csprop.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
