"""The compiled kernel against the same block in torch operations, and as a torch operator."""

import dataclasses
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any, get_args
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator, Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from csprop import CSP, CSPConfig, scan, tasks, use_backend
from csprop.ops import fused, native
from csprop.ops.fused.calls import layers_of
from csprop.ops.native import layout, library, tensors
from csprop.ops.native.tensors import ABSENT, Layer
from csprop.ops.options import KernelOptions
from csprop.ops.planes import saturate
from csprop.training.presets import preset
from tests.helpers.options import HINTS, RELEASED, choices, sensible

pytestmark = pytest.mark.skipif(bool(native.WHY_NOT), reason=native.WHY_NOT)

PRESET = {
    f"{name} of {task}": dataclasses.asdict(preset(name, tasks.get(task)).model)
    for name, task in (("paper", "parity"), ("rotor", "parity"), ("rotor", "parenthesis"))
}
"""What users get: a switch, and a counter that neither turns nor decays."""


@pytest.fixture(autouse=True)
def poison() -> Iterator[None]:
    """Memory that torch has not filled holds NaN."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def model(width: int = 5, seed: int = 3, **options: Any) -> CSP:
    chosen = CSPConfig(vocab_size=3, num_classes=4, width=width, **options)
    net = CSP(chosen, Generator().manual_seed(seed))
    with torch.no_grad():
        for coupling in net.couplings:  # fresh ones are 0
            torch.nn.init.normal_(coupling.u, generator=Generator().manual_seed(1))  # pyright: ignore
    return net


def everything(net: CSP, backend: str, steps: int, resets: bool) -> list[Tensor]:
    """Scores, last states, and the gradients of a generic function of both."""
    g = Generator().manual_seed(steps)
    tokens = torch.randint(3, (3, steps), generator=g)
    reset = torch.rand(3, steps, generator=g) < 0.2 if resets else None
    shape = (3, net.config.depth, net.config.planes, net.config.width)
    state = torch.randn(shape, generator=g).to(net.embedding)
    if net.config.recurrence == "cumulative":  # its last plane is a product of decays
        state[:, :, -1] = state[:, :, -1].sigmoid()
    state.requires_grad_()
    net.zero_grad()
    with use_backend(backend):
        scores, last = net(tokens, state, reset=reset, return_state=True)
        weights = torch.randn(last.shape, generator=g).to(last)
        directions = last / (torch.linalg.vector_norm(last.detach(), dim=2, keepdim=True) + 1)
        (scores.square().mean() + (directions * weights).sum()).backward()
    gradients = [p.grad for p in net.parameters()]
    assert state.grad is not None
    return [scores, last, state.grad, *(torch.zeros(()) if g is None else g for g in gradients)]


def agree(net: CSP, steps: int, resets: bool, tolerance: float) -> None:
    """The same with the kernel as without; it is used just where it knows all options."""
    expected = everything(net, "torch", steps, resets)
    with patch.object(tensors, "stack", wraps=tensors.stack) as kernel:
        results = everything(net, "native", steps, resets)
    assert kernel.called == any(not block.options.beyond_kernel for block in net.layers)
    for got, want in zip(results, expected, strict=True):
        torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)


def test_every_option_has_values_to_draw() -> None:
    assert [name for name, values in choices().items() if not values] == []


@pytest.mark.parametrize("preset", PRESET)
@pytest.mark.parametrize(
    ("option", "value"), [(name, value) for name, values in choices().items() for value in values]
)
def test_every_single_option_agrees(preset: str, option: str, value: Any) -> None:
    """Changed alone, so that the kernel does all that it knows, whatever the draws below leave out."""
    options = sensible(PRESET[preset] | {"width": 6, "depth": 2, "recall": False, option: value})
    net = model(**options).double()
    agree(net, 17, False, 1e-7)
    agree(net, 17, True, 1e-7)
    with_it = {"places": {"decay"}, "recurrence": {"recurrence", "entrance"}}
    assert net.config.beyond_kernel <= with_it.get(option, {option})


@pytest.mark.parametrize("fixed", [{}, RELEASED])
@settings(max_examples=120)
@given(
    options=st.fixed_dictionaries({name: st.sampled_from(each) for name, each in choices().items()}),
    steps=st.sampled_from([1, 2, 15, 16, 17, 40]),
    resets=st.booleans(),
)
def test_any_combination_of_options_agrees(
    fixed: dict[str, Any], options: dict[str, Any], steps: int, resets: bool
) -> None:
    agree(model(**sensible(options | fixed)).double(), steps, resets, 1e-7)


@pytest.mark.parametrize("name", PRESET)
@pytest.mark.parametrize("width", [1, 3, 8, 33, 64])
@pytest.mark.parametrize("resets", [False, True])
def test_presets_agree_in_float32_at_any_width(name: str, width: int, resets: bool) -> None:
    net = model(**PRESET[name] | {"width": width})
    got = [each.detach().clone() for each in everything(net, "native", 50, resets)]
    for single, double in zip(got, everything(net.double(), "torch", 50, resets), strict=True):
        assert single.dtype == torch.float32
        assert (single - double).norm() <= 1e-4 * double.norm() + 1e-6


@pytest.mark.parametrize("name", PRESET)
@pytest.mark.parametrize("resets", [False, True])
def test_gradcheck(name: str, resets: bool) -> None:
    """A switch has the gradient of what it rounds, which no difference of values shows: "reset"."""
    decay = PRESET[name]["decay"].replace("switch", "reset")
    net = model(**PRESET[name] | {"width": 2, "depth": 2, "decay": decay}).double()
    given = [p.detach() for b in net.layers for p in b.kernel_parameters()]
    parameters = [p.requires_grad_() if p.numel() else p for p in given]
    g = Generator().manual_seed(0)
    z = torch.randn(2, 4, 2, 2, generator=g, dtype=torch.float64, requires_grad=True)
    state = torch.randn(2, 2, 2, 2, generator=g, dtype=torch.float64, requires_grad=True)
    reset = torch.rand(2, 4, generator=g) < 0.3 if resets else None

    def run(z: Tensor, state: Tensor, *parameters: Tensor) -> tuple[Tensor, Tensor]:
        return fused.blocks(z, state, reset, None, layers_of(parameters), net.config.of_kernel)

    assert torch.autograd.gradcheck(run, (z, state, *parameters), atol=1e-5)


@pytest.mark.parametrize("name", PRESET)
def test_saturated_states_agree(name: str) -> None:
    """A gate of softplus(3) in every layer: states pass 2^60 within 60 steps."""
    net = model(**PRESET[name] | {"decay": "softplus", "norm": "complex", "depth": 2}).double()
    with torch.no_grad():
        for block in net.layers:
            block.gate.bias.fill_(3.0)
    agree(net, 100, False, 1e-6)
    _, last = net(torch.zeros(1, 100, dtype=torch.int64), return_state=True)
    assert torch.linalg.vector_norm(last, dim=2).max().item() == pytest.approx(2.0**60)


@pytest.mark.parametrize("norm", ["layer", "none"])
def test_outputs_beyond_their_limit_agree(norm: str) -> None:
    """A first state of some 10^7, with the state kept as it is."""
    net = model(depth=1, decay="unit", activation="none", norm=norm, h0="learned").double()
    with torch.no_grad():
        net.layers[0].h0.mul_(1e7)
    tokens, results = torch.zeros(2, 5, dtype=torch.int64), []
    for backend in ("torch", "native"):
        net.zero_grad()
        with use_backend(backend):
            out, _ = net.layers[0](net.embedding[tokens], net.layers[0].h0.expand(2, 2, 5))
            weights = torch.randn(out.shape, generator=Generator().manual_seed(0), dtype=out.dtype)
            (out * weights).sum().backward()
        results.append([out.detach(), *(p.grad.clone() for p in net.layers[0].parameters())])  # pyright: ignore
    if norm == "none":
        assert torch.linalg.vector_norm(results[0][0], dim=2).max().item() == pytest.approx(2.0**20)
    for want, got in zip(*results, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-7, atol=1e-9)


def test_gradients_that_a_growing_state_passes_back_are_bounded_alike() -> None:
    """δ of some 20 and inputs of nothing: the gradient of the first state would be 20^60."""
    net = model(depth=1, rotate="none", skip=False, activation="none", norm="none").double()
    block = net.layers[0]
    with torch.no_grad():
        block.gate.weight.zero_()
        block.gate.bias.fill_(20.0)
    gradients = []
    for backend in ("reference", "native"):
        state = torch.zeros(1, 2, 5, dtype=torch.float64, requires_grad=True)
        with use_backend(backend):
            out, _ = block(torch.zeros(1, 60, 2, 5, dtype=torch.float64), state)
            (gradient,) = torch.autograd.grad(out[:, -1].sum(), state)
        gradients.append(gradient)
    assert gradients[0].abs().max() > 2.0**30
    torch.testing.assert_close(gradients[1], gradients[0])


def extreme(delta: float, theta: float, decay: str) -> CSP:
    net = model(depth=1, rotate="state", angle="free", decay=decay)
    with torch.no_grad():
        for layer, value in ((net.layers[0].gate, delta), (net.layers[0].angle, theta)):
            layer.weight.zero_()
            layer.bias.fill_(value)
    return net


@pytest.mark.parametrize("decay", sorted(set(choices()["decay"]) - {"none", "count"}))
@pytest.mark.parametrize("delta", [-1e30, -200.0, -89.0, -20.0, 0.0, 19.9, 20.1, 89.0, 200.0])
def test_gates_are_right_at_the_ends_of_the_numbers(decay: str, delta: float) -> None:
    agree(extreme(delta, 0.5, decay), 4, False, 1e-5)
    agree(extreme(delta, 0.5, decay).double(), 4, False, 1e-9)


@pytest.mark.parametrize("theta", [0.0, 1e-6, 0.7854, 3.1415926, -100.0, 8000.0, 1e5, 1e6, -1e9])
def test_angles_are_right_however_large(theta: float) -> None:
    agree(extreme(0.3, theta, "reset"), 4, False, 1e-5)
    agree(extreme(0.3, theta, "reset").double(), 4, False, 1e-9)


def test_silu_is_right_from_minus_to_plus_infinity() -> None:
    """One step with a = 1, b = 0: the block is SiLU of its first state."""
    x = torch.tensor([-1e18, -1e4, -104.0, -89.0, -88.0, -43.0, -1.0, 0.0, 1.0, 88.0, 89.0, 1e4, 1e18])
    for dtype in (torch.float32, torch.float64):
        width = len(x)
        weight, bias = torch.zeros(1, 2 * width, dtype=dtype), torch.full((1,), -1e30, dtype=dtype)
        state = torch.stack([x, x.flip(0)])[None, None].to(dtype)
        layer = Layer(ABSENT, ABSENT, weight, bias, skip=ABSENT, start=torch.zeros(2, width))
        z = torch.zeros(1, 1, 2, width, dtype=dtype)
        options = KernelOptions("none", "tanh", "unit", silu=True, norm=False)
        out, _ = fused.blocks(z, state, None, None, [layer], options)
        want = saturate(torch.nn.functional.silu(state[0]), 2.0**20)
        # Below 1e-30 SiLU may be 0: float32 has no normal numbers for e^-88.
        torch.testing.assert_close(out[0], want, rtol=1e-5, atol=1e-30)


def test_nan_stays_nan() -> None:
    a, u = (
        torch.ones(1, 3, 1, 1),
        torch.tensor([0.0, math.nan, 1.0])[None, :, None, None].repeat(1, 1, 2, 2),
    )
    h, _ = scan(a, u)
    assert h[0, 0].isfinite().all()
    assert h[0, 1:].isnan().all()


@pytest.mark.parametrize("name", PRESET)
def test_strided_and_permuted_inputs_give_the_same(name: str) -> None:
    net = model(**PRESET[name] | {"width": 4, "depth": 1}).double()
    block, g = net.layers[0], Generator().manual_seed(5)
    z = torch.randn(3, 7, 2, 4, generator=g, dtype=torch.float64)
    state = torch.randn(3, 2, 4, generator=g, dtype=torch.float64)
    want = block(z, state)
    permuted = z.permute(3, 1, 0, 2).contiguous().permute(2, 1, 3, 0)
    strided = torch.stack([z, -z], dim=-1)[..., 0]
    for form in (permuted, strided):
        assert not form.is_contiguous()
        leaf = form.clone(memory_format=torch.preserve_format).requires_grad_()
        got = block(leaf, state.mT.contiguous().mT)
        assert all(torch.equal(x, y) for x, y in zip(got, want, strict=True))
        seen = torch.randn(z.shape, generator=Generator().manual_seed(6), dtype=z.dtype)
        (gradient,) = torch.autograd.grad(
            got[0], leaf, seen.permute(1, 0, 2, 3).contiguous().permute(1, 0, 2, 3)
        )
        plain = z.clone().requires_grad_()
        (expected,) = torch.autograd.grad(block(plain, state)[0], plain, seen)
        torch.testing.assert_close(gradient, expected)


@pytest.mark.parametrize("name", PRESET)
def test_the_same_call_gives_the_same_bits_with_any_number_of_threads(name: str) -> None:
    net = model(**PRESET[name] | {"width": 32})
    tokens = torch.randint(3, (64, 80), generator=Generator().manual_seed(0))

    def bits() -> list[Tensor]:
        net.zero_grad()
        scores = net(tokens)
        scores.square().mean().backward()
        return [
            scores.detach(),
            *(p.grad.clone() for p in net.blocks.parameters() if p.grad is not None),
        ]

    first, again = bits(), bits()
    assert all(torch.equal(x, y) for x, y in zip(first, again, strict=True))
    for threads in (2, 3):
        torch.set_num_threads(threads)
        try:
            several, once_more = bits(), bits()
        finally:
            torch.set_num_threads(1)
        assert all(torch.equal(x, y) for x, y in zip(several, once_more, strict=True))
        for x, y in zip(first, several, strict=True):
            if "per_channel" not in PRESET[name].values():  # no matrix products, whose sums are torch's
                assert torch.equal(x, y)
            torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("planes", [(2, 64), (1, 1), (2, 2, 64), (3, 3, 64), (7, 7, 1)])
def test_scans_are_the_same_bits_with_two_threads(planes: tuple[int, ...]) -> None:
    g, order = Generator().manual_seed(0), max(2, planes[0])
    a = torch.rand(8, 300, *planes, generator=g) * 0.7 / order
    u = torch.randn(8, 300, order, 64, generator=g)

    def bits() -> list[Tensor]:
        leaves = [a.clone().requires_grad_(), u.clone().requires_grad_()]
        h, _ = scan(*leaves)
        return [h.detach(), *torch.autograd.grad(h.square().sum(), leaves)]

    one = bits()
    torch.set_num_threads(2)
    try:
        assert all(torch.equal(x, y) for x, y in zip(bits(), one, strict=True))
    finally:
        torch.set_num_threads(1)


def test_the_plain_kernel_equals_the_one_for_this_processor() -> None:
    code = (
        "import torch, csprop\n"
        "from csprop.ops import native\n"
        "assert native.TARGET == 'plain', native.TARGET\n"
        "from csprop.training.presets import preset\n"
        "for name, task in (('paper', 'parity'), ('rotor', 'parity'), ('rotor', 'parenthesis')):\n"
        "    o = dict(vars(preset(name, csprop.tasks.get(task)).model), width=9)\n"
        "    net = csprop.CSP(csprop.CSPConfig(vocab_size=2, num_classes=2, **o)).double()\n"
        "    x = torch.arange(80).reshape(2, 40) % 3 % 2\n"
        "    results = []\n"
        "    for backend in ('reference', 'native'):\n"
        "        net.zero_grad()\n"
        "        with csprop.use_backend(backend):\n"
        "            net(x).square().mean().backward()\n"
        "        results.append([p.grad.clone() for p in net.parameters() if p.grad is not None])\n"
        "    for want, got in zip(*results, strict=True):\n"
        "        torch.testing.assert_close(got, want, rtol=1e-7, atol=1e-9)\n"
        "    tracker = net.stream()\n"
        "    steps = torch.stack([tracker.step(int(token)) for token in x[0]])\n"
        "    torch.testing.assert_close(steps, net(x)[0].detach())\n"
        "for m in (2, 3, 4, 5, 7):\n"
        "    u = torch.randn(2, 40, m, 9).double()\n"
        "    for planes in ((1, 9), (m, m, 1), (m, m, 9)):\n"
        "        a = (torch.randn(2, 40, *planes).double() / m).requires_grad_()\n"
        "        results = []\n"
        "        for backend in ('reference', 'native'):\n"
        "            with csprop.use_backend(backend):\n"
        "                h, _ = csprop.scan(a, u)\n"
        "                results.append([h, *torch.autograd.grad(h.square().sum(), a)])\n"
        "        torch.testing.assert_close(*results)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"CSPROP_PLAIN": "1"})


@pytest.mark.parametrize("name", PRESET)
@pytest.mark.parametrize("backend", ["torch", "native"])
def test_operators_are_registered_so_that_compile_and_export_work(name: str, backend: str) -> None:
    """In a process of its own: the shape checks of these tests are nothing that torch could trace."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.helpers.tracing"]
    command += [*name.split(" of "), backend]
    root = Path(__file__).parents[2]
    subprocess.run(command, check=True, capture_output=True, text=True, cwd=root)


@pytest.mark.parametrize("backend", ["torch", "native"])
@pytest.mark.parametrize("name", PRESET)
def test_vmap_over_models_is_each_model_alone(name: str, backend: str) -> None:
    nets = [model(**PRESET[name] | {"width": 4}, seed=seed) for seed in range(3)]
    tokens = torch.randint(3, (3, 2, 20), generator=Generator().manual_seed(0))
    stacked, _ = torch.func.stack_module_state(nets)  # pyright: ignore
    with use_backend(backend):
        got = torch.func.vmap(lambda p, x: torch.func.functional_call(nets[0], p, (x,)))(
            stacked, tokens
        )
        got.square().mean().backward()
        for i, net in enumerate(nets):
            want = net(tokens[i])
            torch.testing.assert_close(got[i], want)
            (want.square().mean() / 3).backward()
            for part, parameter in net.named_parameters():
                assert parameter.grad is not None, part
                torch.testing.assert_close(stacked[part].grad[i], parameter.grad)


def test_every_option_has_a_number() -> None:
    """Also those that only a training step knows."""
    known = {"rotate": layout.ROTATE, "decay": layout.DECAY, "activation": layout.ACTIVATION}
    for name, numbers in (known | {"norm": layout.NORM}).items():
        assert set(numbers) == set(get_args(HINTS[name]))


@pytest.mark.parametrize("what", ["a name", "a type", "the order", "a number"])
def test_a_library_with_other_fields_is_not_called(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each structure has as many fields as before: only names and types tell."""
    text = layout.description()
    compiled = library.library().csprop_layout().decode()
    assert compiled == text
    changed = {
        "a name": text.replace("int64 gates", "int64 doors"),
        "a type": text.replace("void* theta", "int64 theta"),
        "the order": text.replace("int64 batch, int64 steps", "int64 steps, int64 batch"),
        "a number": text.replace("exp 1, unit 2", "unit 1, exp 2"),
    }[what]
    assert changed != text
    monkeypatch.setattr(library, "description", lambda: changed)
    found, why = library.load(Path(library.__file__).parent)
    assert found is None
    assert why == "of another version: install csprop again"


def test_why_there_is_no_library(tmp_path: Path) -> None:
    assert library.load(tmp_path)[1].startswith("not compiled: install a C++ compiler")
    (tmp_path / f"kernel{EXTENSION_SUFFIXES[0]}").write_text("no library")
    assert library.load(tmp_path)[1].startswith("cannot be loaded: ")


def test_parameters_that_the_kernel_cannot_take_go_to_torch() -> None:
    tokens = torch.zeros(2, 4, dtype=torch.int64)
    odd = model()
    odd.blocks[1].skip = torch.nn.Parameter(torch.tensor([0.3]))  # pyright: ignore
    with use_backend("torch"):
        want = odd(tokens)
    torch.testing.assert_close(odd(tokens), want)
    mixed = model().double()
    mixed.blocks[1].float()
    with pytest.raises(RuntimeError, match="dtype"):
        mixed(tokens)
    other = model()
    other.decoder.double()
    with pytest.raises(RuntimeError, match="dtype"):
        other.stream().step(1)


def test_fake_tensors_see_the_operator() -> None:
    net, seen = model(), []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func)
            return func(*args, **kwargs or {})

    with FakeTensorMode(allow_non_fake_inputs=True), Watch():
        assert net(torch.zeros(2, 3, dtype=torch.int64)).shape == (2, 3, 4)
    assert seen.count(torch.ops.csprop.blocks.default) == 1


def test_second_derivatives_are_refused() -> None:
    a, u = (torch.rand(1, 4, 1, 2, requires_grad=True), torch.rand(1, 4, 2, 2, requires_grad=True))
    with pytest.raises(RuntimeError, match="no second derivatives"):
        torch.autograd.grad(scan(a, u)[0].sum(), a, create_graph=True)
    net = model()
    loss = net(torch.zeros(1, 4, dtype=torch.int64)).square().sum()
    with pytest.raises(RuntimeError, match="no second derivatives"):
        torch.autograd.grad(loss, net.embedding, create_graph=True)


def test_a_shortage_of_memory_is_an_exception() -> None:
    code = (
        "import resource, torch, csprop\n"
        "net = csprop.CSP(csprop.CSPConfig(vocab_size=2, num_classes=2, width=16384, depth=1))\n"
        "tokens = torch.zeros(1, 1, dtype=torch.int64)\n"
        "with torch.no_grad():\n"
        "    net(tokens)\n"
        "    held = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "    resource.setrlimit(resource.RLIMIT_AS, (held + 2**21, held + 2**21))\n"
        "    try:\n"
        "        net(tokens)\n"
        "    except (MemoryError, RuntimeError):\n"
        "        raise SystemExit(0)\n"
        "raise SystemExit('nothing was raised')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
