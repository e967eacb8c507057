import pytest
import torch
from torch import Tensor

from csprop_lab.layers.delta_rule import delta_rule as chunked


def recurrence(q: Tensor, k: Tensor, v: Tensor, a: Tensor, log_w: Tensor, b: Tensor | None = None):
    """S_t = S_{t−1} diag(w_t) (I + a_t b_tᵀ) + v_t k_tᵀ with whole matrices, step by step."""
    b = k if b is None else b
    state = q.new_zeros(*q.shape[:2], v.shape[3], q.shape[3])
    read = []
    for t in range(q.shape[2]):
        decay = torch.diag_embed(log_w[:, :, t].exp().expand(k[:, :, t].shape))
        change = torch.eye(q.shape[3]).to(q) + a[:, :, t, :, None] * b[:, :, t, None]
        state = state @ decay @ change + v[:, :, t, :, None] * k[:, :, t, None]
        read.append(state @ q[:, :, t, :, None])
    return torch.cat(read, dim=3).mT


def drawn(steps: int, decays: int, keys: int = 8, own: bool = False) -> list[Tensor]:
    """Inputs whose matrices have norms of at most 1; with `own` keys to write, as RWKV-7 has."""
    q, v = (torch.randn(2, 3, steps, size, dtype=torch.float64) for size in (keys, 5))
    k = torch.nn.functional.normalize(torch.randn_like(q), dim=3)
    beta = 2 * torch.rand_like(k[..., :1])
    log_w = -torch.rand(2, 3, steps, decays, dtype=torch.float64)
    return [q, k, v, -beta * k, log_w] + ([torch.rand_like(k) * k] if own else [])


@pytest.mark.parametrize("steps", [1, 40, 64, 150])
@pytest.mark.parametrize(("decays", "own"), [(1, False), (8, True)])
def test_chunks_are_the_recurrence(steps: int, decays: int, own: bool) -> None:
    inputs = drawn(steps, decays, own=own)
    torch.testing.assert_close(chunked(*inputs), recurrence(*inputs), rtol=0, atol=1e-9)


def test_decays_that_underflow_lose_nothing_else() -> None:
    """A chunk's product of decays is far below the least float, and the last steps are still right."""
    inputs = drawn(150, 1)
    inputs[4][:, :, ::7] = -300.0
    inputs = [x.float().requires_grad_() for x in inputs]
    given = chunked(*inputs)
    torch.testing.assert_close(given, recurrence(*inputs), rtol=0, atol=1e-3)
    given.sum().backward()
    for x in inputs:
        assert x.grad is not None
        assert x.grad.isfinite().all()


def test_the_least_decays_of_each_key_are_right_in_single_precision() -> None:
    inputs = [x.float() for x in drawn(150, 8, own=True)]
    inputs[4] = torch.full_like(inputs[4], -1.0)
    torch.testing.assert_close(chunked(*inputs), recurrence(*inputs), rtol=0, atol=1e-4)
