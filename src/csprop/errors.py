"""What goes wrong because of what a user gave, told in one sentence."""


class InputError(ValueError):
    """Bad input: a file, a row, an option. The command line prints it and exits with 2."""
