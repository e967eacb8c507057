"""A run as HTML, for notebooks."""

from csprop import notebook
from csprop.errors import InputError
from csprop.runs.run import Run
from csprop.training.scores import percent


def html(run: Run) -> str:
    """Return the configuration, the accuracy, the proof, and curves of the training.

    A certificate in the run's directory is checked, as always when it is read.
    """
    config = run.config
    return notebook.card(
        f"{run.task.name}: {config.preset}, seed {config.seed}",
        notebook.facts(_facts(run)),
        *_curves(run),
    )


def _facts(run: Run) -> list[tuple[str, str]]:
    task, options, result = run.task, run.config.model, run.result
    parameters = sum(each.numel() for each in run.model.parameters())
    layers = f"{options.depth} layer{'' if options.depth == 1 else 's'} of {options.width} channels"
    asked = task.source if task.oracle is None else f"{task.name} ({task.description})"
    found = [("task", asked), ("model", f"{layers}, {parameters:,} parameters")]
    if result is None:
        found.append(("training", f"unfinished after {len(run.metrics):,} epochs"))
    else:
        if run.made == "trained":
            found.append(("training", f"{result.epochs:,} epochs, until {result.ended}"))
        else:
            found.append(("made", result.ended))
        found.append(("accuracy", f"{percent(result.accuracy)} of {_measured(run)}"))
        if every := result.exhaustive:
            inputs = f"{every.count:,} inputs of length {every.length}"
            wrong = f"{every.wrong:,} of the {inputs}" if every.wrong else f"none of all {inputs}"
            found.append(("wrong", wrong))
    found.append(("proof", _proof(run)))
    return found + ([] if run.path is None else [("directory", str(run.path))])


def _measured(run: Run) -> str:
    """On what the accuracy of the result was measured."""
    if run.made == "trained":
        return "the held-out answers"
    if run.task.oracle is None:
        return "the labels of all rows"
    return f"the answers to sequences of length {run.config.recipe.length}"


def _proof(run: Run) -> str:
    try:
        certificate = run.certificate
    except InputError as error:
        return str(error)
    return "none yet: run.certify() looks for one" if certificate is None else certificate.summary


def _curves(run: Run) -> list[str]:
    if not run.metrics:
        return []
    loss, accuracy = ([float(row[name]) for row in run.metrics] for name in ("loss", "accuracy"))
    return [
        notebook.curve(f"loss, at last {loss[-1]:.2g}", loss, notebook.ORANGE),
        notebook.curve(f"accuracy, at last {percent(accuracy[-1])}", accuracy, notebook.BLUE, (0, 1)),
    ]
