"""`csprop export`: write the model of a run to an ONNX file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from csprop.cli import common
from csprop.cli.options import Arg


@dataclass(frozen=True, kw_only=True)
class Args(common.Arguments):
    """Write the model of a run to an ONNX file, for batches and sequences of any size.

    Its inputs are tokens and a state; its outputs are the scores after every token, and the last state.

    Examples:
        csprop export runs/parity parity.onnx
    """

    run: Annotated[Path, Arg("RUN", positional=True)]
    """A run directory, or one of `csprop zoo`, such as zoo:parity."""

    file: Annotated[Path, Arg("FILE", positional=True)]
    """The file to write, such as model.onnx; one that exists is replaced."""

    as_trained: common.Flag = False
    """Write the model as trained, even if the run is certified."""


def run(args: Args) -> int:
    loaded = common.load(args.run)
    model = common.answering(loaded, args.as_trained)
    loaded.to_onnx(args.file, as_trained=args.as_trained)
    if args.json:
        locked = model is not loaded.model
        common.show_json({"run": str(args.run), "file": str(args.file), "locked": locked})
    else:
        common.say(f"{args.run}: written to {args.file}")
    return 0
