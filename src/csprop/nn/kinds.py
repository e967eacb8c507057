"""The block that some options ask for."""

from torch import Generator

from csprop.nn.block import Block
from csprop.nn.config import ModelOptions
from csprop.nn.released import Released
from csprop.nn.router import Router


def make_block(options: ModelOptions, generator: Generator, vocab_size: int = 0) -> Block:
    """A block of the class that does these options; a router may need to know how many tokens there are."""
    if options.places:
        return Router(options, generator, vocab_size)
    return (Released if options.released else Block)(options, generator)
