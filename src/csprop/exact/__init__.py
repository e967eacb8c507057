"""Models as finite automata: the machine itself, and its ways out of Python."""
