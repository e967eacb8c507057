"""What is no tensor of the right kind is refused in one sentence that says what to give.

In a process of its own: here the shape checks of these tests would refuse it before csprop does.
"""

import json
import subprocess
import sys

import pytest

CODE = """
import json, numpy, torch, csprop
from csprop.errors import InputError

net = csprop.CSP(csprop.CSPConfig(vocab_size=3, num_classes=2, width=4, depth=2))
tokens, state = torch.zeros(2, 5, dtype=torch.int64), net.initial_state(2)
reset = torch.zeros(2, 5, dtype=torch.bool)
a, u, h0 = torch.ones(2, 5, 1, 1), torch.ones(2, 5, 2, 4), torch.ones(2, 2, 4)
z, block = torch.ones(2, 5, 2, 4), net.layers[0]
tracker, matrices = net.stream(), csprop.CSP(csprop.CSPConfig(
    vocab_size=3, num_classes=2, width=4, depth=2, cell=csprop.Rotor(order=3)))
planes, turning = matrices.initial_state(2).detach(), matrices.layers[0]


def set_state(value):
    tracker.state = value


TAKERS = {
    "tokens": (lambda value: net(value), tokens),
    "state": (lambda value: net(tokens, value), state),
    "reset": (lambda value: net(tokens, reset=value), reset),
    "state of a stream": (set_state, tracker.state),
    "token of a stream": (tracker.step, torch.tensor(1)),
    "a of scan": (lambda value: csprop.scan(value, u), a),
    "u of scan": (lambda value: csprop.scan(a, value), u),
    "h0 of scan": (lambda value: csprop.scan(a, u, value), h0),
    "reset of scan": (lambda value: csprop.scan(a, u, None, value), reset),
    "z of a block": (lambda value: block(value, h0), z),
    "state of a block": (lambda value: block(z, value), h0),
    "reset of a block": (lambda value: block(z, h0, value), reset),
    "coupled of a block": (lambda value: block(z, h0, None, value), z),
    "tokens of order 3": (lambda value: matrices(value), tokens),
    "state of order 3": (lambda value: matrices(tokens, value), planes),
    "state of a block of order 3": (lambda value: turning(torch.ones(2, 5, 3, 4), value), planes[:, 0]),
}
found = {}
for name, (take, right) in TAKERS.items():
    take(right)
    wrong = {
        "string": "0110", "float": 0.5, "object": object(),
        "list": right.tolist() if right.ndim else [1],
        "array": right.numpy() if right.ndim else numpy.ones(3), "meta": right.to("meta"),
        "complex": right.to(torch.complex64), "generator": (each for each in [1]),
    }
    if right.ndim:
        nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.strided)
        wrong |= {"sparse": right.to_sparse(), "shape": right[None], "nested": nested}
    if name not in ("state", "reset", "h0 of scan", "reset of scan", "reset of a block",
                    "coupled of a block", "state of order 3"):  # where None is the default
        wrong["None"] = None
    for kind, value in wrong.items():
        try:
            take(value)
            found[f"{name}: {kind}"] = "nothing was raised"
        except InputError as error:
            found[f"{name}: {kind}"] = ["InputError", str(error)]
        except BaseException as error:
            found[f"{name}: {kind}"] = [type(error).__name__, str(error)]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def refusals() -> dict[str, list[str]]:
    command = [sys.executable, "-W", "ignore", "-c", CODE]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def test_every_wrong_type_is_one_sentence(refusals: dict[str, list[str]]) -> None:
    assert len(refusals) > 100
    for case, (kind, sentence) in refusals.items():
        assert kind == "InputError", f"{case}: {kind}: {sentence}"
        assert "must be" in sentence, case
        assert "; got " in sentence, case
        assert "\n" not in sentence, case


@pytest.mark.parametrize(
    ("case", "sentence"),
    [
        ("tokens: list", "int64 tensor of shape (batch, time) on cpu; got an object of type list"),
        ("tokens: array", "int64 tensor of shape (batch, time) on cpu; got an object of type ndarray"),
        ("tokens: meta", "on cpu; got torch.int64 of shape (2, 5) on meta"),
        (
            "tokens: sparse",
            "a dense int64 tensor of shape (batch, time) on cpu; got a tensor of layout",
        ),
        (
            "state: string",
            "floating-point tensor of shape (2, 2, 2, 4) on cpu; got an object of type str",
        ),
        (
            "state of order 3: shape",
            "floating-point tensor of shape (2, 2, 3, 4) on cpu; got torch.float32 of shape",
        ),
        ("state of a block of order 3: None", "of shape (2, 3, 4) on cpu; got None"),
        ("reset: float", "bool tensor of shape (2, 5) on cpu; got an object of type float"),
        ("token of a stream: None", "a token must be a whole number; got None"),
        ("state of a stream: list", "of shape (1, 2, 2, 4); got an object of type list"),
        ("a of scan: None", "a must be (2, 5, 1 or 2, 1 or 4) or a matrix"),
        ("z of a block: None", "z must be a dense floating-point tensor of shape (batch, time, 2, 4)"),
    ],
)
def test_the_sentence_says_what_to_give(
    case: str, sentence: str, refusals: dict[str, list[str]]
) -> None:
    assert sentence in refusals[case][1]
