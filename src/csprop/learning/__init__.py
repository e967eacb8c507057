"""From labelled rows to the best machine: candidates, choice, verdict."""
