"""The selective scan of Mamba, whose states are computed again for the gradients instead of kept."""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

SEGMENT = 8  # steps between two states that are kept for the gradients


def selective_scan(
    delta: Float[Tensor, "B T D"],
    a: Float[Tensor, "N D"],
    b: Float[Tensor, "B T N"],
    c: Float[Tensor, "B T N"],
    x: Float[Tensor, "B T D"],
) -> Float[Tensor, "B T D"]:
    """y_t = C_t h_t, where h_t = exp(Δ_t A) h_{t−1} + Δ_t B_t x_t and every channel has N states.

    A loop over time holds one state at a time, as all states at once would be N times the input. The
    gradients begin at the last of the states that were kept and compute the ones after it again.
    """
    by_time = [part.transpose(0, 1).contiguous() for part in (delta, b, c, delta * x)]
    return _SelectiveScan.apply(a / math.log(2), *by_time).transpose(0, 1)


class _SelectiveScan(torch.autograd.Function):
    """The same over (T, B, ·), from A in powers of two, which torch computes faster, and u = Δ x."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, delta: Tensor, b: Tensor, c: Tensor, u: Tensor) -> Tensor:
        state = u.new_zeros(u.shape[1], *a.shape)
        decay, y, kept = torch.empty_like(state), torch.empty_like(u), []
        training = any(ctx.needs_input_grad)
        columns, rows = b[..., None].unbind(), (part[:, :, None].unbind() for part in (delta, c, u, y))
        for t, (column, delta_t, c_t, u_t, y_t) in enumerate(zip(columns, *rows, strict=True)):
            if training and t % SEGMENT == 0:
                kept.append(state.clone())
            torch.mul(delta_t, a, out=decay).exp2_()
            state.mul_(decay).addcmul_(column, u_t)
            torch.bmm(c_t, state, out=y_t)
        ctx.save_for_backward(a, delta, b, c, u, *kept)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        a, delta, b, c, u, *kept = ctx.saved_tensors
        y_grad = grads[0].contiguous()
        made = [torch.empty_like(part) for part in (delta, b, c, u)]
        h_grad, a_grad = torch.zeros_like(kept[0]), torch.zeros_like(kept[0])
        product = torch.empty_like(h_grad)
        states, decays = ([torch.empty_like(h_grad) for _ in range(SEGMENT)] for _ in range(2))
        b_columns, c_columns = (part[..., None].unbind() for part in (b, c))
        rows = [part[:, :, None].unbind() for part in (delta, b, u, y_grad, *made[1:])]
        deltas, b_rows, u_rows, y_grads, b_grads, c_grads, u_grads = rows
        for start in reversed(range(0, len(u), SEGMENT)):
            before = [kept.pop(), *states]
            now = range(start, min(start + SEGMENT, len(u)))
            for i, t in enumerate(now):
                torch.mul(deltas[t], a, out=decays[i]).exp2_()
                torch.mul(b_columns[t], u_rows[t], out=states[i]).addcmul_(decays[i], before[i])
            for i, t in reversed([*enumerate(now)]):
                h_grad.addcmul_(c_columns[t], y_grads[t])
                torch.bmm(y_grads[t], states[i].mT, out=c_grads[t])
                torch.bmm(u_rows[t], h_grad.mT, out=b_grads[t])
                torch.bmm(b_rows[t], h_grad, out=u_grads[t])
                torch.mul(h_grad.mul_(decays[i]), before[i], out=product)
                a_grad.addcmul_(product, deltas[t])
                torch.sum(product.mul_(a), dim=1, out=made[0][t])
        ln2 = math.log(2)
        return ln2 * a_grad.sum(0), ln2 * made[0], *made[1:]
