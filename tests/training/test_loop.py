import copy
import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Generator

import csprop
from csprop import CSP, CSPConfig, use_backend
from csprop.data.examples import Examples
from csprop.errors import Diverged, InputError
from csprop.ops import native
from csprop.tasks import get
from csprop.training import batches, loop
from csprop.training.batches import supervised
from csprop.training.loop import Trainer, run_epochs
from csprop.training.presets import Recipe
from csprop.training.scores import Score
from csprop.training.seeding import generator
from csprop.training.steps import Adam, set_gradients
from tests.helpers.spoilt import spoil

Options = dict[str, Any]
LABELS = torch.tensor([[0, 1, 0, 1], [1, 1, -1, -1], [-1, 0, -1, -1]])
BATCH = Examples.from_matrices(torch.zeros_like(LABELS), LABELS, LABELS >= 0)


WAYS = ["torch"] if native.WHY_NOT else ["torch", "native"]
"""Steps of torch operations, and of one call of the kernel."""


def kept(cuts: int = 0, **recipe: Any) -> torch.Tensor:
    lots = torch.rand(LABELS.shape, generator=Generator().manual_seed(cuts))
    chosen = Recipe(**recipe)
    return supervised(BATCH.padded(), chosen, lots if chosen.lengths == "drawn" else None)


def trainer(rows: int = 64, held_out: int = 16, seed: int = 0, **recipe: Any) -> Trainer:
    task = get("parity")
    net = CSP(CSPConfig(vocab_size=2, num_classes=2, width=4, depth=1), generator(seed, "weights"))
    training, rest = (
        task.labelled(task.sample(count, 6, generator(seed, purpose)))
        for purpose, count in (("a", rows), ("b", held_out))
    )
    options: Options = {"epochs": 5} | recipe
    return Trainer(net, training, rest, Recipe(**options), seed)


def test_supervision_of_the_last_or_every_step() -> None:
    assert kept(supervise="every").tolist() == LABELS.tolist()
    assert kept(supervise="last").tolist() == [[-1, -1, -1, 1], [-1, 1, -1, -1], [-1, 0, -1, -1]]


def test_drawn_lengths_cover_every_prefix_and_nothing_else() -> None:
    seen = set()
    for seed in range(60):
        labels = kept(seed, supervise="last", lengths="drawn")
        assert (labels[0] >= 0).sum() == 1
        seen.add(int((labels[0] >= 0).nonzero()[0]))
        every = kept(seed, supervise="every", lengths="drawn")
        cut = int((every[0] >= 0).sum())
        assert every[0].tolist() == LABELS[0, :cut].tolist() + [-1] * (4 - cut)
        assert labels[2].tolist() == LABELS[2].tolist()  # its only label is that of the whole
    assert seen == {0, 1, 2, 3}


def uneven() -> Examples:
    """Rows of 1 to 5 tokens, and one of 60."""
    lengths = torch.tensor([1, 5, 2, 60, 3, 3, 4, 1])
    tokens = torch.randint(2, (int(lengths.sum()),), generator=Generator().manual_seed(0))
    begins = lengths.cumsum(0) - lengths
    labels = torch.cat(
        [tokens[at : at + n].cumsum(0) % 2 for at, n in zip(begins, lengths, strict=True)]
    )
    return Examples(*(each.numpy() for each in (tokens, labels, labels >= 0, begins, lengths)))


@pytest.mark.parametrize("loss", ["cross_entropy", "focal"])
@pytest.mark.parametrize("supervise", ["last", "every"])
def test_a_batch_of_very_different_lengths_goes_in_parts_with_the_same_gradient(
    monkeypatch: pytest.MonkeyPatch, loss: str, supervise: str
) -> None:
    """Once with all rows in one padded matrix, once in parts: the same loss and gradients."""
    results = []
    for most in (batches.MOST_PADDED, 100):
        monkeypatch.setattr(batches, "MOST_PADDED", most)
        recipe = Recipe(loss=loss, supervise=supervise)  # pyright: ignore
        net = CSP(CSPConfig(vocab_size=2, num_classes=2, width=4, depth=2), generator(0, "weights"))
        (batch,) = Trainer(net.double(), uneven(), BATCH, recipe, 0).batches()
        assert len(batch) == (1 if most > 100 else 4)  # 1; 2 and 3; 4 and 5; 60 tokens
        value = set_gradients(net, batch, recipe)
        results.append((value, [p.grad.clone() for p in net.parameters()]))  # pyright: ignore
    assert results[0][0] == pytest.approx(results[1][0], rel=1e-12)
    torch.testing.assert_close(results[0][1], results[1][1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("preset", ["paper", "rotor", "router"])
@pytest.mark.parametrize(
    ("task", "changes"),
    [
        ("mod3", {}),
        ("mod3", {"lengths": "drawn", "supervise": "every"}),
        ("mod3", {"skip": False}),
        ("mod3", {"schedule": "cosine", "weight_decay": 0.1}),
        ("rows.csv", {"short_first": 2}),  # the seeds do not have equally many short rows
    ],
)
def test_seeds_trained_together_are_what_they_are_alone(
    preset: str, task: str, changes: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("".join(f"{n:b},{n.bit_count() % 2}\n" for n in range(1, 100)))
    if preset == "router":
        changes = {name: value for name, value in changes.items() if name != "skip"}
    options: Options = {"epochs": 2, "width": 6, "samples": 60, "length": 5, "hold": 0} | changes
    options["as_trained"] = True
    together = csprop.train_seeds(task, [0, 4, 5], preset, **options)
    for seed, run in zip([0, 4, 5], together, strict=True):
        alone = csprop.train(task, preset, seed, **options)
        assert isinstance(run, csprop.Run)
        for got, want in zip(run.model.parameters(), alone.model.parameters(), strict=True):
            torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-5)
        assert [row["loss"] for row in run.metrics] == pytest.approx(
            [row["loss"] for row in alone.metrics]
        )


@pytest.mark.parametrize("way", WAYS)
def test_one_seed_that_diverges_leaves_the_others_alone(
    monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    spoil(monkeypatch, seed=1, epoch=2)
    options: Options = {"epochs": 3, "width": 4, "depth": 1, "samples": 60, "length": 4, "hold": 0}
    with use_backend(way):
        first, second, third = csprop.train_seeds("parity", [0, 1, 2], **options)
    assert isinstance(second, Diverged)
    assert second.diagnosis["epoch"] == 2
    for run in (first, third):
        assert isinstance(run, csprop.Run)
        assert len(run.metrics) == 3


@pytest.mark.parametrize("way", WAYS)
def test_clipping_starts_at_its_epoch(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    clipped = []
    clip, take = torch.nn.utils.clip_grads_with_norm_, loop.take

    def torch_clips(parameters: Any, limit: float, norm: torch.Tensor) -> None:
        clipped.append((run.epoch + 1, limit))
        clip(parameters, limit, norm)

    def kernel_clips(steps: Any) -> Any:
        clipped.extend((run.epoch + 1, most) for _, _, most in steps if most < math.inf)
        return take(steps)

    monkeypatch.setattr(torch.nn.utils, "clip_grads_with_norm_", torch_clips)
    monkeypatch.setattr(loop, "take", kernel_clips)
    run = trainer(rows=20, batch_size=20, clip_norm=0.5, clip_from_epoch=3)
    with use_backend(way):
        for _ in range(4):
            run.run_epoch()
    assert clipped == [(3, 0.5), (4, 0.5)]


@pytest.mark.skipif(bool(native.WHY_NOT), reason=native.WHY_NOT)
@pytest.mark.parametrize("loss", ["cross_entropy", "focal"])
@pytest.mark.parametrize("supervise", ["last", "every"])
@pytest.mark.parametrize("changes", [{}, {"schedule": "cosine", "weight_decay": 0.1}])
def test_either_way_can_go_on_where_the_other_was(loss: str, supervise: str, changes: Options) -> None:
    """Two epochs one way, saved, restored, two the other way: as four of one way, up to rounding."""
    ended, options = [], {"loss": loss, "supervise": supervise, "lr": 0.01} | changes
    for ways in (["native"] * 4, ["native", "native", "torch", "torch"], ["torch", "native"] * 2):
        run, row = trainer(**options), {}
        for way in ways:
            tensors, values = run.state()
            run = trainer(**options)
            if values["epoch"]:
                run.restore({name: each.clone() for name, each in tensors.items()}, values)
            with use_backend(way):
                row = run.run_epoch()
            assert (run.step is not None) == (way == "native")
        ended.append((row, run.state()[0]))
    for row, tensors in ended[1:]:
        for name in ("loss", "grad_norm", "held_out_loss"):
            assert row[name] == pytest.approx(ended[0][0][name], rel=1e-4)
        torch.testing.assert_close(tensors, ended[0][1], rtol=1e-3, atol=1e-5)


OPTIMISERS: dict[str, Callable[[CSP], torch.optim.Optimizer]] = {
    "weights decay": lambda net: torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=0.1),
    "maximise": lambda net: torch.optim.Adam(net.parameters(), maximize=True),
    "amsgrad": lambda net: torch.optim.Adam(net.parameters(), amsgrad=True),
    "the decoder alone": lambda net: torch.optim.Adam(net.decoder.parameters()),
    "two groups": lambda net: torch.optim.Adam(
        [{"params": net.decoder.parameters(), "lr": 0.0}, {"params": [net.embedding]}]
    ),
    "AdamW": lambda net: torch.optim.AdamW(net.parameters(), weight_decay=1.0),
    "SGD": lambda net: torch.optim.SGD(net.parameters(), lr=0.01),
}


@pytest.mark.parametrize("name", OPTIMISERS)
def test_another_optimiser_takes_its_own_steps(name: str) -> None:
    """As with the backend torch, where nothing but the optimiser takes them."""
    weights = []
    for way in WAYS:
        run = trainer()
        run.optimizer = OPTIMISERS[name](run.model)  # pyright: ignore[reportAttributeAccessIssue]
        with use_backend(way):
            run.run_epoch()
        assert (run.step is not None) == (way == "native" and name == "weights decay")
        weights.append(run.model.state_dict())
    torch.testing.assert_close(weights[0], weights[-1], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("weight_decay", [0.0, 0.5])
def test_a_parameter_that_is_not_trained_stays_as_it_is(way: str, weight_decay: float) -> None:
    """Alone, and beside another seed, whether that one's is trained or not."""
    for count, frozen in ((1, [0]), (2, [0]), (2, [0, 1])):
        runs = [trainer(seed=seed, weight_decay=weight_decay) for seed in range(count)]
        before = [run.model.embedding.detach().clone() for run in runs]
        for i in frozen:
            runs[i].model.embedding.requires_grad_(False)
        with use_backend(way):
            run_epochs(runs)
        for i, (run, old) in enumerate(zip(runs, before, strict=True)):
            assert torch.equal(run.model.embedding, old) == (i in frozen)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda run: pickle.loads(pickle.dumps(run))])
def test_a_copy_goes_on_to_the_same_bytes(copied: Callable[[Trainer], Trainer]) -> None:
    run = trainer()
    run.run_epoch()
    other = copied(run)
    assert run.run_epoch()["loss"] == other.run_epoch()["loss"]
    for name, each in run.model.state_dict().items():
        assert torch.equal(each, other.model.state_dict()[name])


@pytest.mark.parametrize("spoil", [lambda x: x[:1], torch.Tensor.double, torch.Tensor.half])
def test_a_state_of_the_optimiser_that_does_not_fit_is_refused(spoil: Any) -> None:
    run = trainer()
    run.run_epoch()
    tensors, values = run.state()
    tensors["adam.exp_avg.embedding"] = spoil(tensors["adam.exp_avg.embedding"])
    with pytest.raises(InputError, match="does not fit the parameter embedding"):
        trainer().restore(tensors, values)


def test_a_model_whose_type_changed_is_not_trained_with_its_old_moments() -> None:
    run = trainer()
    run.run_epoch()
    run.model.double()
    with pytest.raises(RuntimeError, match="scalar type"):
        run.run_epoch()


def test_the_learning_rate_halves_after_patience() -> None:
    run = trainer(patience=1, epochs=50, lr=1e-7)
    rates = [run.run_epoch()["lr"] for _ in range(6)]
    assert rates == [1e-7, 1e-7, 1e-7, 5e-8, 5e-8, 2.5e-8]


@pytest.mark.parametrize("way", WAYS)
def test_the_cosine_schedule_decides_the_learning_rate_alone(way: str) -> None:
    """Each epoch's is in its row and takes its steps, whatever the held-out accuracy does."""
    recipe: Options = {"schedule": "cosine", "lr": 0.01, "last_lr": 1e-5, "patience": 0, "epochs": 6}
    run, moved = trainer(**recipe), []
    with use_backend(way):
        rates = [run.run_epoch()["lr"] for _ in range(6)]
        assert run.finished
        for rate in (0.0, 0.01):  # the optimiser's before the epoch does not matter
            again = trainer(**recipe)
            again.optimizer.param_groups[0]["lr"] = rate
            again.run_epoch()
            moved.append(again.model.state_dict())
    assert rates == [Recipe(**recipe).cosine_lr(epoch) for epoch in range(1, 7)]
    assert rates[0] == 0.01
    assert sorted(rates, reverse=True) == rates
    torch.testing.assert_close(*moved, rtol=0, atol=0)


@pytest.mark.parametrize("where", ["loss", "gradient"])
@pytest.mark.parametrize("way", WAYS)
def test_a_step_that_is_not_finite_is_not_taken(where: str, way: str) -> None:
    """A hook on a gradient is for torch, whatever the backend."""
    run = trainer()
    weight = run.model.decoder.linear.weight  # pyright: ignore
    if where == "loss":
        with torch.no_grad():
            weight[0, 0] = math.nan
    else:
        weight.register_hook(lambda gradient: gradient * math.inf)  # pyright: ignore
    before = {name: value.clone() for name, value in run.model.state_dict().items()}
    with (
        use_backend(way),
        pytest.raises(Diverged, match=r"epoch 1, step 0: .* the step was not taken") as caught,
    ):
        run.run_epoch()
    after = run.model.state_dict()
    assert all(torch.equal(before[name], after[name]) or "decoder" in name for name in before)
    parameters = caught.value.diagnosis["parameters"]
    finite = {name: row["gradient_finite"] for name, row in parameters.items()}
    assert (run.step is not None) == (way == "native" and where == "loss")
    assert not finite["decoder.linear.weight"]
    if where == "gradient":
        assert [name for name, good in finite.items() if not good] == ["decoder.linear.weight"]


def test_a_model_spoilt_by_the_last_step_of_an_epoch_is_not_kept() -> None:
    run = trainer(rows=20, batch_size=20, lr=1e38)
    with pytest.raises(Diverged, match="the held-out loss is nan"):
        run.run_epoch()
    assert run.best_weights == {}


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_adam_is_that_of_torch(weight_decay: float) -> None:
    """Its options, its state and its steps, whose bits must be the same."""
    made = [torch.optim.Adam, Adam]
    weights = [[torch.ones(3, 2).requires_grad_(), torch.zeros(4).requires_grad_()] for _ in made]
    optimizers = [
        kind(each, lr=0.1, weight_decay=weight_decay, fused=True)
        for kind, each in zip(made, weights, strict=True)
    ]
    draws = torch.Generator().manual_seed(0)
    for _ in range(3):
        gradients = [torch.randn(each.shape, generator=draws) for each in weights[0]]
        for optimizer, parameters in zip(optimizers, weights, strict=True):
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient.clone()
            optimizer.step()
    theirs, ours = (optimizer.state_dict() for optimizer in optimizers)
    assert theirs["param_groups"] == ours["param_groups"]
    for number, state in theirs["state"].items():
        assert state.keys() == ours["state"][number].keys()
        assert all(torch.equal(value, ours["state"][number][key]) for key, value in state.items())
    assert all(map(torch.equal, *weights))


def test_a_streak_ends_below_the_target_and_the_best_epoch_has_the_least_loss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Held-out scores as they might come: right, wrong, right with more loss, right with less."""
    scores = [(1.0, 0.4), (0.5, 0.1), (1.0, 0.5), (1.0, 0.3)]
    held_out = iter(Score(accuracy, 1.0, 0, 16, loss) for accuracy, loss in scores)
    monkeypatch.setattr(loop, "score", lambda model, rows: next(held_out))
    run, weights = trainer(hold=2, epochs=9), []
    for best, finished in ((1, False), (1, False), (1, False), (4, True)):
        run.run_epoch()
        weights.append(copy.deepcopy(run.model.state_dict()))
        assert (run.best["epoch"], run.finished) == (best, finished)
        torch.testing.assert_close(run.best_weights, dict(weights[best - 1]), rtol=0, atol=0)
