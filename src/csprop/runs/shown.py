"""A run as HTML, for notebooks."""

from csprop import notebook
from csprop.errors import InputError
from csprop.runs.run import Run
from csprop.training.scores import percent


def html(run: Run) -> str:
    """Return the configuration, the accuracy, the proof, and curves of the training."""
    curves: list[str] = []
    if run.metrics:
        loss, right = ([float(row[name]) for row in run.metrics] for name in ("loss", "accuracy"))
        curves = [
            notebook.curve(f"loss, at last {loss[-1]:.2g}", loss, notebook.ORANGE),
            notebook.curve(f"accuracy, at last {percent(right[-1])}", right, notebook.BLUE, (0, 1)),
        ]
    title = f"{run.task.name}: {run.config.preset}, seed {run.config.seed}"
    return notebook.card(title, notebook.facts(_facts(run)), *curves)


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
    try:
        proof = "none yet: run.certify() looks for one"
        proof = proof if run.certificate is None else run.certificate.summary
    except InputError as error:  # the certificate in the directory does not hold
        proof = str(error)
    facts.append(("proof", proof))
    return facts + ([] if run.path is None else [("directory", str(run.path))])
