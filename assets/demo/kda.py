"""The gated delta rule as a differentiable function, over the compiled `kda.c`, and its check."""

import ctypes

import torch

from compiled import library, pointers

HEAD = 32  # width of a head, fixed when the C file is compiled


def code() -> ctypes.CDLL:
    return library("kda.c", f"-DD={HEAD}")


class DeltaRule(torch.autograd.Function):
    """q, k, v, a [B, H, T, D] and b [B, H, T], float32 -> o [B, H, T, D]. `a` is the decay itself, not its log."""

    @staticmethod
    def forward(ctx, *inputs):
        inputs = [t.contiguous() for t in inputs]
        ctx.save_for_backward(*inputs)
        batch, heads, length, _ = inputs[0].shape
        out = torch.empty_like(inputs[0])
        code().kda_forward(batch * heads, length, *pointers(*inputs, out))
        return out

    @staticmethod
    def backward(ctx, grad):
        inputs = ctx.saved_tensors
        batch, heads, length, width = inputs[0].shape
        grads = [torch.empty_like(t) for t in inputs]
        states = torch.empty(length + 1, width, width)
        grad = grad.contiguous()  # named, so that it outlives the call
        code().kda_backward(batch * heads, length, *pointers(*inputs, grad, *grads, states))
        return tuple(grads)


def slow(q, k, v, a, b):
    """The same, step by step, for the check."""
    state, out = torch.zeros(*q.shape[:2], q.shape[3], q.shape[3], dtype=q.dtype), []
    for t in range(q.shape[2]):
        state = a[:, :, t, :, None] * state
        u = b[:, :, t, None] * (v[:, :, t] - (k[:, :, t, :, None] * state).sum(2))
        state = state + k[:, :, t, :, None] * u[:, :, None, :]
        out.append((q[:, :, t, :, None] * state).sum(2))
    return torch.stack(out, 2)


def check() -> float:
    """Largest error of output and gradients against float64, relative to the largest value of each."""
    torch.manual_seed(0)
    shape = (2, 2, 40, HEAD)
    unit = lambda x: torch.nn.functional.normalize(x, dim=-1)
    inputs = [unit(torch.randn(shape)), unit(torch.randn(shape)), torch.randn(shape)]
    inputs += [torch.exp(-5 * torch.rand(shape)), torch.rand(shape[:3])]
    grad = torch.randn(shape)
    results = []
    for function, dtype in ((DeltaRule.apply, torch.float32), (slow, torch.float64)):
        leaves = [t.detach().to(dtype, copy=True).requires_grad_() for t in inputs]
        out = function(*leaves)
        out.backward(grad.to(dtype))
        results.append([out.detach(), *(leaf.grad for leaf in leaves)])
    return max(((x - y).abs().max() / y.abs().max()).item() for x, y in zip(*results))
