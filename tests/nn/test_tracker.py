"""A Tracker: pieces, resets, pruning, the groups of its rotations, and parity far beyond training."""

from itertools import permutations

import pytest
import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

import csprop
from csprop.cells.heads import Turns
from csprop.cells.snapping import find_group
from csprop.cells.tracker import WITHHELD, SparseHeads
from csprop.errors import InputError
from csprop.proof.models import FromLayer


def seeded(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def tracker(features: int = 8) -> SparseHeads:
    return SparseHeads(features, seeded())


# Groups of rotations ----------------------------------------------------------------------------------


def represent(permutation: tuple[int, ...]) -> Tensor:
    """A permutation as an orthogonal matrix of one order less: without the vector of ones."""
    size = len(permutation)
    matrix = torch.eye(size, dtype=torch.float64)[:, list(permutation)].T
    basis = torch.linalg.qr(torch.cat([torch.ones(size, 1), torch.eye(size)[:, 1:]], dim=1).double()).Q[
        :, 1:
    ]
    return basis.T @ matrix @ basis


def disturb(rotations: Tensor, by: float) -> Tensor:
    """Other coordinates, and a small rotation after each."""
    shape = len(rotations) + 1, *rotations.shape[1:]
    draws = torch.randn(shape, generator=seeded(), dtype=torch.float64)
    draws[1:] *= by / rotations.shape[1]
    frame, *small = torch.matrix_exp(draws - draws.mT)
    return torch.stack(small) @ frame @ rotations @ frame.T


@pytest.mark.parametrize(
    ("generators", "size"),
    [
        ([(1, 0, 2), (1, 2, 0)], 6),
        ([(1, 2, 3, 0), (1, 0, 2, 3)], 24),
        ([(1, 2, 0, 3, 4), (1, 2, 3, 4, 0)], 60),
        ([(1, 2, 3, 4, 0), (1, 0, 2, 3, 4)], 120),
    ],
)
def test_a_group_is_found_near_learned_rotations(generators: list[tuple[int, ...]], size: int) -> None:
    exact = torch.stack([represent(each) for each in generators])
    group = find_group(disturb(exact, 0.02))
    assert group is not None
    assert len(group.elements) == size
    # The table multiplies as the permutations do.
    element, reached = {tuple(range(len(generators[0]))): 0}, [tuple(range(len(generators[0])))]
    for state in reached:
        for number, generator in enumerate(generators):
            after = tuple(state[i] for i in generator)
            target = int(group.table[element[state], number])
            if after not in element:
                element[after] = target
                reached.append(after)
            assert element[after] == target
    assert len(set(element.values())) == size


def test_no_group_near_rotations_of_a_dense_one() -> None:
    assert (
        find_group(torch.linalg.qr(torch.randn(2, 3, 3, generator=seeded(), dtype=torch.float64)).Q)
        is None
    )


# The layer --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [True, False])
def test_pieces_and_resets(mode: bool) -> None:
    layer, x = tracker().train(mode), torch.randn(1, 12, 8, generator=seeded(1))
    layer.steps.fill_(WITHHELD)  # the row has its rotations then
    reset = torch.zeros(1, 12, dtype=torch.bool)
    reset[0, 5] = True
    whole, last = layer(x, None, reset)
    first, state = layer(x[:, :3])
    second, state = layer(x[:, 3:7], state, reset[:, 3:7])
    third, end = layer(x[:, 7:], state)
    torch.testing.assert_close(torch.cat([first, second, third], dim=1), whole)
    torch.testing.assert_close(end, last)
    torch.testing.assert_close(layer(x[:, 5:])[0], whole[:, 5:])


def test_it_sees_the_past_alone_and_learns_everywhere() -> None:
    layer, x = tracker(), torch.randn(8, 6, 8, generator=seeded(1))
    changed = x.clone()
    changed[:, 4:] += 1
    layer.eval()
    torch.testing.assert_close(layer(x)[0][:, :4], layer(changed)[0][:, :4])
    layer.train()(x)[0].square().sum().backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in layer.parameters())


def test_rotations_are_withheld_from_three_rows_of_eight() -> None:
    layer, x = tracker(), torch.randn(16, 6, 8, generator=seeded(1))
    with torch.no_grad():
        layer.readout.weight[:, ~layer.turned] = 0  # the rotations alone are read
        first = layer(x)[0]
        layer.penalty(torch.ones_like(layer.readout.weight))  # a backward pass goes on to other rows
        second = layer(x)[0]
    without = [(each.abs().amax(dim=(1, 2)) == 0) for each in (first, second)]
    assert [int(each.sum()) for each in without] == [6, 6]
    assert without[0].tolist() != without[1].tolist()


def test_the_penalty_is_least_for_the_largest_head() -> None:
    layer = tracker()
    layer.steps.fill_(100)
    layer.fast.fill_(1e-6)  # little is left to learn
    layer.slow.fill_(1e-2)
    with torch.no_grad():
        layer.readout.weight.fill_(0.01)
        layer.readout.weight[:, layer.group == 3] = 1.0
        penalty = layer.penalty(torch.full_like(layer.readout.weight, 1e-3))
    small, large = penalty[:, layer.group == 4].mean(), penalty[:, layer.group == 3].mean()
    assert small > 3 * large > 0
    layer.fast.fill_(1.0)  # much is
    assert not layer.penalty(torch.ones_like(layer.readout.weight)).any()


def test_a_gradient_that_is_not_finite_leaves_the_averages_alone() -> None:
    layer, x = tracker(), torch.randn(8, 6, 8, generator=seeded(1))
    (layer(x)[0].sum() * torch.inf).backward()
    assert not any(each.any() for each in (layer.fast, layer.slow, layer.without, layer.beside))
    assert layer.steps == 0
    layer.zero_grad()
    layer(x)[0].square().sum().backward()
    assert 0 < layer.slow < torch.inf
    assert layer.readout.weight.grad is not None
    assert layer.readout.weight.grad.isfinite().all()


def learn_parity(steps: int = 160) -> tuple[nn.Embedding, csprop.CSPLayer, nn.Linear]:
    """A network of a user: an embedding, the layer and a decoder, in a loop of the user's own."""
    torch.manual_seed(0)
    draws = seeded(3)
    parts = (
        nn.Embedding(2, 32),
        csprop.CSPLayer(32, kind="tracker", generator=seeded()),
        nn.Linear(32, 2),
    )
    adam = torch.optim.Adam([p for part in parts for p in part.parameters()], lr=0.006)
    for step in range(steps):
        tokens = torch.randint(2, (16, 4 if step < steps // 4 else 16), generator=draws)
        scores = parts[2](parts[1](parts[0](tokens))[0])
        loss = F.cross_entropy(scores.flatten(0, 1), (tokens.cumsum(1) % 2).flatten())
        adam.zero_grad()
        loss.backward()
        adam.step()
    return parts


def test_parity_is_right_far_beyond_the_trained_length() -> None:
    embedding, layer, decoder = learn_parity()
    layer.eval()
    tokens = torch.randint(2, (4, 4096), generator=seeded(5))
    with torch.no_grad():
        answers = decoder(layer(embedding(tokens))[0]).argmax(dim=2)
    assert torch.equal(answers, tokens.cumsum(1) % 2)


X = torch.eye(3, 8)
"""Inputs: 0 turns nothing, 1 turns by nearly a third of a circle, and 2 is not in the training data."""


@torch.no_grad()
def turning() -> SparseHeads:
    """A layer whose first rotations are those of C3, and are off by a little; the first one is read."""
    layer = tracker()
    turns = layer.heads[0]
    assert isinstance(turns, Turns)
    angle = torch.tensor([0.0, 1.04, 0.3])  # half of a third of a circle is 1.047
    vectors = torch.zeros(3, 2, 3, turns.count)
    vectors[:, :, 0] = 1
    vectors[:, 1, 0], vectors[:, 1, 1] = angle.cos()[:, None], angle.sin()[:, None]
    layer.weight.zero_()
    layer.weight[: turns.inputs, :3] = vectors.flatten(1).T * 8**0.5
    layer.readout.weight.zero_()
    layer.readout.weight[0, 0] = 1
    layer.train()(X[None, :2].expand(8, -1, -1))
    layer.most.zero_()
    return layer.eval()


@torch.no_grad()
def test_rotations_follow_the_table_of_their_group() -> None:
    """Rotations that are off by a little stay exact in evaluation, and their state carries on."""
    layer, tokens = turning(), torch.randint(2, (1, 3000), generator=seeded())
    y, state = layer(X[tokens])
    again, _ = layer(X[tokens[:, :5]], state)
    counts = torch.cat([tokens, tokens[:, :5]], dim=1).cumsum(1) % 3
    expected = 3**0.5 * torch.where(counts == 0, 1.0, -0.5)
    torch.testing.assert_close(torch.cat([y, again], dim=1)[..., 0], expected, rtol=0, atol=1e-4)


@torch.no_grad()
def test_an_unknown_input_leaves_the_table_for_its_row_from_there_on() -> None:
    """What other rows have, or later steps, changes nothing; pieces and single steps are the whole."""
    layer = turning()
    known = torch.randint(2, (1, 300), generator=seeded())
    tokens = known.repeat(2, 1)
    tokens[1, 200] = 2
    both, last = layer(X[tokens])
    torch.testing.assert_close(both[:1], layer(X[known])[0])
    torch.testing.assert_close(both[1, :200], both[0, :200])
    head, u = layer.heads[0], layer.train().project(X[tokens[1:, 200:]])[0]
    before, rotations = layer.eval()(X[known[:, :200]])[1][:, 0, : head.stored], u[..., : head.inputs]
    plain = head.read(head.run(rotations, before, None), before)
    torch.testing.assert_close(both[1:, 200:250, 0], plain[:, :50, 0])
    reset = torch.zeros(2, 300, dtype=torch.bool)
    reset[:, 250] = True
    anew, _ = layer(X[tokens], None, reset)
    torch.testing.assert_close(anew[:, 250:], layer(X[tokens[:, 250:]])[0])
    state, pieces = None, []
    for some in tokens.split([1, 150, 49, 1, 99], dim=1):
        y, state = layer(X[some], state)
        pieces.append(y)
    assert state is not None
    torch.testing.assert_close((torch.cat(pieces, dim=1), state), (both, last))


def test_the_group_is_stored_with_the_weights() -> None:
    layer, copy = turning(), tracker().eval()
    copy.load_state_dict(layer.state_dict())
    assert [len(group.elements) for _, group in copy.followed.known.values()] == [3]
    tokens = torch.randint(2, (2, 500), generator=seeded())
    torch.testing.assert_close(copy(X[tokens]), layer(X[tokens]))


def test_single_steps_are_the_whole_in_training_too() -> None:
    layer, x = csprop.CSPLayer(6, kind="tracker", generator=seeded()), torch.randn(8, 5, 6)
    with torch.no_grad():
        whole, state, steps = layer(x)[0], layer.initial_state(8), []
        for each in x.unbind(1):
            y, state = layer.step(each, state)
            steps.append(y)
    torch.testing.assert_close(torch.stack(steps, dim=1), whole)


@pytest.mark.parametrize("kind", ["layer", "model"])
def test_a_network_without_values_gets_them_later(kind: str) -> None:
    def make() -> nn.Module:
        if kind == "layer":
            return csprop.CSPLayer(6, kind="tracker", generator=seeded())
        cell = csprop.Tracker()
        return csprop.CSP(
            csprop.CSPConfig(
                vocab_size=3, num_classes=2, width=8, depth=1, cell=cell, decoder="linear"
            ),
            seeded(),
        )

    want = make().eval()
    with torch.device("meta"):
        empty = make()
    made = empty.to_empty(device="cpu").eval()
    made.load_state_dict(want.state_dict())
    x = torch.randn(2, 4, 6) if kind == "layer" else torch.randint(3, (2, 4))
    torch.testing.assert_close(made(x), want(x))


def test_heads_that_were_left_out_return_when_training_goes_on() -> None:
    layer = tracker().eval()
    layer.keep(torch.zeros_like(layer.followed.used))
    layer.hard.fill_(1)
    layer.train()(torch.randn(8, 4, 8))[0].square().sum().backward()
    assert layer.kept.all()
    assert not layer.hard


def test_a_tracker_in_a_layer() -> None:
    layer = csprop.CSPLayer(6, kind="tracker", depth=2, bidirectional=True, vocab_size=3).eval()
    y, state = layer(torch.tensor([[0, 1, 2]]))
    assert y.shape == (1, 3, 6)
    assert state.shape[:2] == (1, 4)
    stream = csprop.CSPLayer(6, kind="tracker").eval()
    x = torch.randn(2, 3, 6)
    one, state = stream.step(x[:, 0], stream.initial_state(2))
    two, _ = stream.step(x[:, 1], state)
    torch.testing.assert_close(torch.stack([one, two], dim=1), stream(x[:, :2])[0])
    assert stream.half()(x.half())[0].dtype is torch.float16
    with pytest.raises(InputError, match="tracker has no option 'order'"):
        csprop.CSPLayer(6, kind="tracker", order=3)


def test_a_network_around_a_layer_is_read_as_a_machine_and_proven() -> None:
    certificate = csprop.certify(FromLayer(*learn_parity()), "parity", progress=False)
    assert certificate.verdict == "proven for all lengths"
    assert certificate.automaton is not None
    assert len(certificate.automaton) == 2
    unlearned = csprop.certify(FromLayer(*learn_parity(2)), "parity", progress=False)
    assert not unlearned.proven


def test_all_permutations_are_told_apart() -> None:
    """The helper of these tests represents a group: different permutations are different matrices."""
    matrices = torch.stack([represent(each) for each in permutations(range(4))])
    assert (torch.cdist(matrices.flatten(1), matrices.flatten(1)) + torch.eye(24)).min() > 0.9


def test_a_batch_that_is_not_finite_leaves_no_trace_in_evaluation() -> None:
    layer, x = tracker(), torch.randn(8, 4, 8, generator=seeded(1))
    layer(x)
    mean = layer.mean.clone()
    layer(torch.full_like(x, torch.nan))
    torch.testing.assert_close(layer.mean, mean)


def test_time_may_come_first_in_a_network_that_is_read() -> None:
    embedding, head = nn.Embedding(3, 6), nn.Linear(6, 2)
    layers = [
        csprop.CSPLayer(6, kind="tracker", batch_first=first, generator=seeded()).eval()
        for first in (True, False)
    ]
    tokens = torch.randint(3, (4, 7), generator=seeded())
    scores = [FromLayer(embedding, layer, head)(tokens) for layer in layers]
    torch.testing.assert_close(*scores)
