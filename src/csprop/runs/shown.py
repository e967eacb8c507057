"""A run as HTML, for notebooks."""

from csprop import notebook
from csprop.runs.run import Run
from csprop.training.scores import percent


def html(run: Run) -> str:
    """Return the configuration, the accuracy and the proof."""
    title = f"{run.task.name}: {run.config.preset}, seed {run.config.seed}"
    return notebook.card(title, notebook.facts(_facts(run)))


def _facts(run: Run) -> list[tuple[str, str]]:
    task, options, result = run.task, run.config.model, run.result
    parameters = sum(each.numel() for each in run.model.parameters())
    layers = f"{options.depth} layer{'' if options.depth == 1 else 's'} of {options.width} channels"
    question = task.source if task.oracle is None else f"{task.name} ({task.description})"
    facts = [("task", question), ("model", f"{layers}, {parameters:,} parameters")]
    if result is None:
        facts.append(("training", f"unfinished after {len(run.metrics):,} epochs"))
    elif run.made == "trained":
        facts.append(("training", f"{result.epochs:,} epochs, until {result.ended}"))
        facts.append(("accuracy", f"{percent(result.accuracy)} of the held-out answers"))
    else:
        sequences = f"answers to sequences of length {run.config.recipe.length}"
        measured = "labels of all rows" if task.oracle is None else sequences
        facts.append(("made", result.ended))
        facts.append(("accuracy", f"{percent(result.accuracy)} of the {measured}"))
    if result is not None and (every := result.exhaustive):
        inputs = f"{every.count:,} inputs of length {every.length}"
        wrong = f"{every.wrong:,} of the {inputs}" if every.wrong else f"none of all {inputs}"
        facts.append(("wrong", wrong))
    facts.append(("proof", run.verdict or "none yet: run.certify() looks for one"))
    return facts + ([] if run.path is None else [("directory", str(run.path))])
