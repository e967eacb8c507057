"""The layers of csprop_lab.layers as their papers write them, one step of time after the other.

A function takes a layer, for its weights, and features (B, T, D). It shares no code with the layer,
which computes many steps at once.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from csprop_lab.layers.attention import Attention
from csprop_lab.layers.basic import SelectiveSSM
from csprop_lab.layers.diagonal import DiagonalSSM
from csprop_lab.layers.fast_weights import FastWeights
from csprop_lab.layers.gated_deltanet import GatedDeltaNet
from csprop_lab.layers.h3 import H3
from csprop_lab.layers.linear_attention import LinearAttention
from csprop_lab.layers.mamba import Mamba
from csprop_lab.layers.mamba2 import Mamba2
from csprop_lab.layers.megalodon import CEMA, Megalodon, TimestepNorm
from csprop_lab.layers.mlstm import MLSTM
from csprop_lab.layers.parts import ShortConvolution
from csprop_lab.layers.pd_ssm import PDSSM
from csprop_lab.layers.retnet import Retention
from csprop_lab.layers.rwkv7 import RWKV7
from csprop_lab.layers.s4d import S4D
from csprop_lab.layers.s5 import S5
from csprop_lab.layers.slstm import SLSTM


def perturb(layer: nn.Module, scale: float = 0.1) -> Any:
    """The layer with weights drawn anew around what they are, so that none of them is 0."""
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(scale * torch.randn_like(parameter))
    return layer


def heads(x: Tensor) -> Tensor:
    """Split the features into four heads."""
    return x.unflatten(-1, (4, -1))


def turn(x: Tensor, position: int, rates: Tensor | None = None) -> Tensor:
    """Multiply pairs of features as complex numbers by e^{i position rate}; rotary rates by default."""
    if rates is None:
        rates = 10_000 ** (-torch.arange(0, x.shape[-1], 2, dtype=torch.float64) / x.shape[-1])
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * torch.exp(1j * position * rates).to(pairs.dtype)).flatten(-2)


def attend(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Return the softmax attention of one query (B, H, K) to keys and values (B, S, H, K)."""
    scores = torch.einsum("bhk,bshk->bhs", query, keys).softmax(dim=2)
    return torch.einsum("bhs,bshv->bhv", scores, values).flatten(1)


def convolve(convolution: ShortConvolution, x: Tensor, t: int) -> Tensor:
    """Return the convolution with the last four steps at step t, after a SiLU."""
    past = [convolution.weight[3 - lag] * x[:, t - lag] for lag in range(min(t + 1, 4))]
    total = torch.stack(past).sum(0)
    return F.silu(total if convolution.bias is None else total + convolution.bias)


def rms_norm(x: Tensor, eps: float = 1e-5) -> Tensor:
    return x / (x.square().mean(dim=-1, keepdim=True) + eps).sqrt()


def layer_norm(x: Tensor, eps: float = 1e-5) -> Tensor:
    return rms_norm(x - x.mean(dim=-1, keepdim=True), eps)


def attention(layer: Attention, x: Tensor) -> Tensor:
    query, key, value = (heads(part) for part in layer.project(x).chunk(3, dim=2))
    keys = torch.stack([turn(key[:, s], s) for s in range(x.shape[1])], dim=1)
    read = [
        attend(turn(query[:, t], t) / math.sqrt(query.shape[3]), keys[:, : t + 1], value[:, : t + 1])
        for t in range(x.shape[1])
    ]
    return layer.out(torch.stack(read, dim=1))


def selective_ssm(layer: SelectiveSSM, x: Tensor) -> Tensor:
    h, outputs = x.new_zeros(len(x), 2, x.shape[2]), []
    for step in x.unbind(1):
        delta, *entering, gate = layer.project(step).chunk(4, dim=1)
        share = torch.sigmoid(delta)[:, None]
        h = (2 * share - 1 if layer.negative else share) * h
        h = h + (1 - share) * torch.stack(entering, dim=1)
        outputs.append(layer.out((h * (gate * torch.sigmoid(gate))[:, None]).flatten(1)))
    return torch.stack(outputs, dim=1)


def dpfp(k: Tensor) -> Tensor:
    """Equation 37 of the paper on fast weights, with ν = 1, and its sum normalisation."""
    size = k.shape[-1]
    r = [k[..., i].clamp(min=0) for i in range(size)] + [(-k[..., i]).clamp(min=0) for i in range(size)]
    phi = torch.stack([r[i] * r[i - 1] for i in range(2 * size)], dim=-1)
    return phi / (phi.sum(-1, keepdim=True) + 1e-6)


def fast_weights(layer: FastWeights, x: Tensor) -> Tensor:
    """Equations 23 to 25."""
    *vectors, rate = layer.project(x).split([x.shape[2]] * 3 + [4], dim=2)
    query, key, value = (heads(part) for part in vectors)
    fast, read = x.new_zeros(len(x), 4, value.shape[3], 2 * key.shape[3]), []
    for i in range(x.shape[1]):
        k = dpfp(key[:, i])
        stored = torch.einsum("bhvk,bhk->bhv", fast, k)
        change = rate[:, i, :, None].sigmoid() * (value[:, i] - stored)
        fast = fast + torch.einsum("bhv,bhk->bhvk", change, k)
        read.append(torch.einsum("bhvk,bhk->bhv", fast, dpfp(query[:, i])).flatten(1))
    return layer.out(torch.stack(read, dim=1))


def gated_deltanet(layer: GatedDeltaNet, x: Tensor) -> Tensor:
    """Equation 10 with whole matrices, and DeltaProduct's products of them."""
    count, width = layer.updates, x.shape[2]
    sizes = [(1 + 2 * count) * width, width, 4 * count, 4]
    mixed, gate, beta, step = layer.project(x).split(sizes, dim=2)
    alpha = torch.exp(-layer.log_rate.exp() * F.softplus(step + layer.step_bias))
    state, read = x.new_zeros(len(x), 4, width // 4, width // 4), []
    for t in range(x.shape[1]):
        q, *others = (heads(y) for y in convolve(layer.convolution, mixed, t).split(width, dim=1))
        q, *keys = (y / (y.square().sum(-1, keepdim=True) + 1e-6).sqrt() for y in (q, *others[:count]))
        state = alpha[:, t, :, None, None] * state
        rates = layer.reach * beta[:, t, :, None, None].sigmoid()
        for k, v, rate in zip(keys, others[count:], rates.split(4, dim=1), strict=True):
            erase = torch.eye(k.shape[2]).to(x) - rate * k[..., :, None] * k[..., None, :]
            state = state @ erase + rate * v[..., None] * k[..., None, :]
        out = layer.weight * rms_norm((state @ q[..., None])[..., 0] / math.sqrt(q.shape[2]))
        read.append(out.flatten(1) * F.silu(gate[:, t]))
    return layer.out(torch.stack(read, dim=1))


def linear_attention(layer: LinearAttention, x: Tensor) -> Tensor:
    """Equations 16 to 20, with positions as in the networks of the paper."""
    width = x.shape[2]
    rates = 10_000 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angles = torch.arange(x.shape[1], dtype=torch.float64)[:, None] * rates
    x = x + torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)
    query, key, value = (heads(part) for part in layer.project(x).chunk(3, dim=2))
    memory, normaliser = torch.zeros_like(key[:, 0, :, :, None] * value[:, 0, :, None]), 0
    read = []
    for q, k, v in zip(query.unbind(1), key.unbind(1), value.unbind(1), strict=True):
        q, k = F.elu(q) + 1, F.elu(k) + 1
        memory = memory + torch.einsum("bhk,bhv->bhkv", k, v)
        normaliser = normaliser + k
        above, below = torch.einsum("bhk,bhkv->bhv", q, memory), (q * normaliser).sum(-1)
        read.append((above / (below[..., None] + 1e-6)).flatten(1))
    return layer.out(torch.stack(read, dim=1))


def retention(layer: Retention, x: Tensor) -> Tensor:
    """Equations 3, 6 and 8 in complex numbers."""
    *vectors, gate = layer.project(x).chunk(4, dim=2)
    query, key, value = (heads(part) for part in vectors)
    size = query.shape[3]
    rates = 10_000.0 ** -(torch.arange(size // 2, dtype=torch.float64) / (size // 2 - 1))
    decay = torch.tensor([1 - 1 / 32, 1 - 1 / 64, 1 - 1 / 128, 1 - 1 / 256], dtype=torch.float64)
    state, read = torch.zeros(len(x), 4, size // 2, size, dtype=torch.complex128), []
    for n in range(x.shape[1]):
        q, k = (
            torch.view_as_complex(turn(y[:, n], n, rates).unflatten(-1, (-1, 2))) for y in (query, key)
        )
        entering = torch.einsum("bhk,bhv->bhkv", k.conj(), value[:, n] + 0j)
        state = decay[:, None, None] * state + entering
        out = torch.einsum("bhk,bhkv->bhv", q, state).real / math.sqrt(size)
        read.append(layer_norm(out, 1e-6).flatten(1))
    return layer.out(torch.stack(read, dim=1) * F.silu(gate))


def rwkv7(layer: RWKV7, x: Tensor) -> Tensor:
    """Section 4 of the paper and its appendix, with row vectors."""
    size = x.shape[2] // 4
    state, last, read = x.new_zeros(len(x), 4, size, size), torch.zeros_like(x[:, 0]), []
    for now in x.unbind(1):
        r, k, v, w, a, g = (torch.lerp(now, last, mu.expand_as(now)) for mu in layer.shift)
        r, k, v = (y @ weight for y, weight in zip((r, k, v), layer.project, strict=True))
        d = layer.decay_bias + torch.tanh(w @ layer.down[0]) @ layer.up[0]
        w = torch.exp(-math.exp(-0.5) / (1 + torch.exp(-d)))
        a = 1 / (1 + torch.exp(-(layer.rate_bias + (a @ layer.down[1]) @ layer.up[1])))
        g = torch.sigmoid(g @ layer.down[2]) @ layer.up[2]
        kappa = k * layer.removal
        k = k * torch.lerp(torch.ones_like(a), a, layer.replacement.expand_as(a))
        r, w, k, v, a, kappa = (y.unflatten(1, (4, 1, size)) for y in (r, w, k, v, a, kappa))
        kappa = kappa / kappa.norm(dim=-1, keepdim=True)
        transition = torch.diag_embed(w[..., 0, :]) - kappa.mT @ (a * kappa)
        state = state @ transition + v.mT @ k
        out = F.group_norm((r @ state.mT).flatten(1), 4, layer.norm.weight, layer.norm.bias, 64e-5)
        bonus = (r * layer.bonus.view(4, 1, size) * k).sum(-1, keepdim=True) * v
        read.append(layer.out(g * (out + bonus.flatten(1))))
        last = now
    return torch.stack(read, dim=1)


def diagonal_ssm(ssm: DiagonalSSM, u: Tensor) -> Tensor:
    """The state space with both states of every pair, held for a step of Δ."""
    a = torch.complex(-ssm.log_decay.exp(), ssm.frequency)
    c = torch.complex(ssm.c[..., 0], ssm.c[..., 1])
    a, c = torch.cat([a, a.conj()], dim=1), torch.cat([c, c.conj()], dim=1)
    factor = (a * ssm.log_step.exp()[:, None]).exp()
    x, outputs = torch.zeros(len(u), *a.shape, dtype=a.dtype), []
    for t in range(u.shape[1]):
        x = factor * x + (factor - 1) / a * u[:, t, :, None]
        y = (c * x).sum(dim=2)
        assert y.imag.abs().max() < 1e-10
        outputs.append(y.real + ssm.skip * u[:, t])
    return torch.stack(outputs, dim=1)


def s4d(layer: S4D, x: Tensor) -> Tensor:
    y, gate = layer.out(F.gelu(diagonal_ssm(layer.ssm, x))).chunk(2, dim=2)
    return y * gate.sigmoid()


def h3(layer: H3, u: Tensor) -> Tensor:
    """The shift matrix applied to the last keys, and a diagonal state space behind it."""
    query, key, value = layer.project(u).chunk(3, dim=2)
    shift, first = torch.diag(torch.ones(63), -1).to(u), torch.eye(64)[0].to(u)
    recent, products = u.new_zeros(len(u), u.shape[2], 64), []
    for t in range(u.shape[1]):
        recent = recent @ shift.T + first * key[:, t, :, None]
        shifted = (layer.shift * recent).sum(dim=2) + layer.shift_skip * key[:, t]
        products.append(shifted * value[:, t])
    return layer.out(query * diagonal_ssm(layer.ssm, torch.stack(products, dim=1)))


def s5_ssm(layer: S5, u: Tensor) -> Tensor:
    eigenvalues = torch.complex(layer.real, layer.imaginary)
    b, c = torch.view_as_complex(layer.b), torch.view_as_complex(layer.c)
    factor = (eigenvalues * layer.log_step.exp()).exp()
    b = ((factor - 1) / eigenvalues)[:, None] * b
    x, outputs = torch.zeros(len(u), len(b), dtype=factor.dtype), []
    for t in range(u.shape[1]):
        x = factor * x + u[:, t].to(b.dtype) @ b.T
        outputs.append(2 * (x @ c.T).real + layer.skip * u[:, t])
    return torch.stack(outputs, dim=1)


def s5_gate(layer: S5, y: Tensor) -> Tensor:
    return F.gelu(y) * torch.sigmoid(layer.gate(F.gelu(y)))


def s5(layer: S5, u: Tensor) -> Tensor:
    return s5_gate(layer, s5_ssm(layer, u))


def mamba(layer: Mamba, u: Tensor) -> Tensor:
    width = u.shape[2]
    x, z = layer.enter(u).chunk(2, dim=2)
    h, a, outputs = u.new_zeros(len(u), 2 * width, 16), -layer.log_a.exp().T, []
    for t in range(u.shape[1]):
        x_t = convolve(layer.convolution, x, t)
        delta, b, c = layer.select(x_t).split([width // 16, 16, 16], dim=1)
        step = F.softplus(layer.step(delta))
        h = (step[:, :, None] * a).exp() * h + (step * x_t)[:, :, None] * b[:, None]
        y = (h * c[:, None]).sum(2) + layer.skip * x_t
        outputs.append(layer.out(y * F.silu(z[:, t])))
    return torch.stack(outputs, dim=1)


def mamba2(layer: Mamba2, u: Tensor) -> Tensor:
    """At width 32: four heads of 16 features, and 32 states."""
    z, entering, delta = layer.enter(u).split([64, 128, 4], dim=2)
    h, outputs = u.new_zeros(len(u), 4, 32, 16), []
    for t in range(u.shape[1]):
        x, b, c = convolve(layer.convolution, entering, t).split([64, 32, 32], dim=1)
        x, step = heads(x), F.softplus(delta[:, t] + layer.step_bias)
        decay = (-step * layer.log_a.exp()).exp()
        h = decay[:, :, None, None] * h + torch.einsum("bn,bhp,bh->bhnp", b, x, step)
        y = torch.einsum("bn,bhnp->bhp", c, h) + layer.skip[:, None] * x
        outputs.append(layer.out(rms_norm(y.flatten(1) * F.silu(z[:, t])) * layer.norm.weight))
    return torch.stack(outputs, dim=1)


def cema(average: CEMA, x: Tensor) -> Tensor:
    """The damped recurrence of every average of every channel."""
    alpha, delta = average.alpha.sigmoid(), average.delta.sigmoid()
    k = torch.arange(1, 17, dtype=x.dtype)
    turns = torch.exp(1j * (2 * math.pi * k / 16 * average.theta.sigmoid()))
    eta = torch.complex(average.eta[..., 0], average.eta[..., 1]) / 4
    h, outputs = torch.zeros(len(x), *alpha.shape, dtype=turns.dtype), []
    for t in range(x.shape[1]):
        h = alpha * turns * x[:, t, :, None] + (1 - alpha * delta) * turns * h
        outputs.append((eta * h).sum(dim=2).real + average.omega * x[:, t])
    return torch.stack(outputs, dim=1)


def timestep_norm(norm: TimestepNorm, x: Tensor) -> Tensor:
    """Every group by the mean and the variance of all its numbers up to the step."""
    outputs = []
    for t in range(x.shape[1]):
        past = heads(x[:, : t + 1])
        mean, variance = past.mean(dim=(1, 3)), past.var(dim=(1, 3), correction=0)
        now = (past[:, -1] - mean[..., None]) / (variance + 1e-5).sqrt()[..., None]
        outputs.append(now.flatten(1) * norm.weight + norm.bias)
    return torch.stack(outputs, dim=1)


def megalodon(layer: Megalodon, x: Tensor) -> Tensor:
    """One query at a time, over the keys of its chunk so far."""
    x = timestep_norm(layer.timestep_norm, x)
    mixed = rms_norm(cema(layer.average, x)) * layer.norm.weight
    width = x.shape[2]
    shared, gate, candidate = layer.project(mixed).split([width, 2 * width, width], dim=2)
    shared = rms_norm(heads(shared)).flatten(2)
    pairs = zip(layer.scales, layer.shifts, strict=True)
    query, key = (heads(shared * scale + shift) for scale, shift in pairs)
    value, outputs = heads(F.silu(layer.value(x))), []
    keys = torch.stack([turn(key[:, s], s % 64) for s in range(x.shape[1])], dim=1)
    for t in range(x.shape[1]):
        chunk = slice(t - t % 64, t + 1)
        read = attend(turn(query[:, t], t % 64), keys[:, chunk], value[:, chunk])
        outputs.append(candidate[:, t] + layer.out(read * F.silu(gate[:, t])))
    return torch.stack(outputs, dim=1)


def mlstm(layer: MLSTM, x: Tensor) -> Tensor:
    """The paper's equations as they stand, without a stabiliser."""
    entering, z = layer.up(x).chunk(2, dim=2)
    maps = [layer.query_key.weight[:, 0], layer.query_key.weight[:, 1], layer.value.weight[:, 0]]
    size, rows = entering.shape[2] // 4, []
    memory, total = x.new_zeros(len(x), 4, size, size), x.new_zeros(len(x), 4, size)
    for t in range(x.shape[1]):
        recent = convolve(layer.conv, entering, t)
        sources = (recent, recent, entering[:, t])
        vectors = [y @ torch.block_diag(*each).T for y, each in zip(sources, maps, strict=True)]
        together = torch.stack([y.unflatten(1, (-1, 4)) for y in vectors], dim=2).flatten(1)
        write, keep = layer.gates(together).chunk(2, dim=1)
        i, f = write.exp()[..., None], keep.sigmoid()[..., None]
        q, k, v = (heads(y) for y in vectors)
        k = k / math.sqrt(size)
        memory = f[..., None] * memory + i[..., None] * v[..., None] * k[..., None, :]
        total = f * total + i * k
        read = (memory @ q[..., None])[..., 0]
        h = layer_norm(read / (total * q).sum(-1, keepdim=True).abs().clamp(min=1)).flatten(1)
        rows.append(layer.down((h * layer.scale + layer.skip * recent) * F.silu(z[:, t])))
    return torch.stack(rows, dim=1)


def slstm(layer: SLSTM, x: Tensor) -> Tensor:
    """The paper's equations as they stand, without a stabiliser."""
    weights, mixing = (
        [torch.block_diag(*part[:, gate]).T for gate in range(4)]
        for part in (layer.weight, layer.recurrent)
    )
    biases = [layer.bias[:, gate].flatten() for gate in range(4)]
    (c, n, h), rows = x.new_zeros(3, len(x), x.shape[2]), []
    for t in range(x.shape[1]):
        recent = convolve(layer.conv, x, t)
        sources = (recent, recent, x[:, t], x[:, t])
        i, f, z, o = (
            source @ weight + h @ mix + bias
            for weight, mix, bias, source in zip(weights, mixing, biases, sources, strict=True)
        )
        c = f.sigmoid() * c + i.exp() * z.tanh()
        n = f.sigmoid() * n + i.exp()
        h = o.sigmoid() * c / n
        rows.append(layer_norm(heads(h)).flatten(1) * layer.scale)
    return torch.stack(rows, dim=1)


def pd_ssm(layer: PDSSM, u: Tensor) -> Tensor:
    return torch.stack([_pd_ssm(layer, row) for row in u])


def _pd_ssm(layer: PDSSM, u: Tensor) -> Tensor:
    """One sequence (T, D) with matrices P and D, and a straight-through P."""
    states = layer.columns.shape[1]
    x = torch.eye(states, dtype=torch.complex128)[0]
    entering = torch.complex(layer.enter[::2], layer.enter[1::2])
    read = torch.complex(layer.read.weight[:, ::2], -layer.read.weight[:, 1::2])
    rows = []
    for step in u:
        selected = F.softmax(layer.select.weight @ step, dim=0)
        m = torch.stack([s * each.T for s, each in zip(selected, layer.columns, strict=True)]).sum(0)
        soft = torch.stack([column.exp() / column.exp().sum() for column in m.T], dim=1)
        hard = torch.zeros_like(soft)
        for j in range(states):
            hard[m[:, j].argmax(), j] = 1
        p = hard + soft - soft.detach()
        phase = 2 * math.pi * torch.sigmoid(layer.phase(step))
        d = torch.sigmoid(layer.magnitude(step)) * torch.complex(phase.cos(), phase.sin())
        x = p.to(x.dtype) @ torch.diag(d) @ x + entering @ step.to(x.dtype)
        rows.append((read @ x).real + layer.read.bias + layer.skip * step)
    return torch.stack(rows)
