"""`csprop export`: write the model of a run to an ONNX file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from csprop.cli import common
from csprop.cli.options import Arg
from csprop.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Args(common.RunArguments):
    """Write the model of a run to an ONNX file, for batches and sequences of any size.

    Its inputs are tokens and a state; its outputs are the scores after every token, and the last state.

    Examples:
        csprop export runs/parity parity.onnx
    """

    file: Annotated[Path, Arg("FILE", positional=True)]
    """The file to write, such as model.onnx; one that exists is replaced."""


def run(args: Args) -> int:
    if args.file.suffix != ".onnx":
        raise InputError("the name must end in .onnx", "file", args.file)
    opened = common.TorchRun(args.run, args.as_trained)
    opened.run.to_onnx(args.file, as_trained=args.as_trained)
    if args.json:
        common.show_json({"run": str(args.run), "file": str(args.file), "locked": opened.locked})
    else:
        common.say(f"{args.run}: written to {args.file}")
    return 0
