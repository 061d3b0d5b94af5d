"""Elementwise parts of the network as differentiable functions over the compiled `fused.c`, and their check."""

import ctypes

import torch
from torch.nn import functional as F

from compiled import library, pointers, table

long, real = ctypes.c_long, ctypes.c_float


def code() -> ctypes.CDLL:
    return library("fused.c")


class Situ(torch.autograd.Function):
    """both [.., 2 w], gates before ups, and the two bounds -> [.., w]."""

    @staticmethod
    def forward(ctx, both, beta, linear_beta):
        both = both.contiguous()
        ctx.save_for_backward(both)
        ctx.bounds = real(beta), real(linear_beta)
        width = both.shape[-1] // 2
        out = both.new_empty(*both.shape[:-1], width)
        code().situ_forward(long(out.numel() // width), long(width), *ctx.bounds, *pointers(both, out))
        return out

    @staticmethod
    def backward(ctx, grad):
        (both,) = ctx.saved_tensors
        width, grad, to = both.shape[-1] // 2, grad.contiguous(), torch.empty_like(both)
        rows = long(grad.numel() // width)
        code().situ_backward(rows, long(width), *ctx.bounds, *pointers(both, grad, to))
        return to, None, None


class ConvSilu(torch.autograd.Function):
    """x [B, T, w], taps [K, w], the last one the present -> [B, T, w]."""

    @staticmethod
    def forward(ctx, x, taps):
        x, taps = x.contiguous(), taps.contiguous()
        ctx.save_for_backward(x, taps)
        out = torch.empty_like(x)
        code().conv_forward(*map(long, (*x.shape, len(taps))), *pointers(x, taps, out))
        return out

    @staticmethod
    def backward(ctx, grad):
        x, taps = ctx.saved_tensors
        grad, room = grad.contiguous(), torch.empty(x.shape[-1])
        gx, gtaps = torch.zeros_like(x), torch.zeros_like(taps)
        code().conv_backward(*map(long, (*x.shape, len(taps))), *pointers(x, taps, grad, gx, gtaps, room))
        return gx, gtaps


class Mixed(torch.autograd.Function):
    """fold [w], eps, sources [.., w] -> their mix [.., w]."""

    @staticmethod
    def forward(ctx, fold, eps, *sources):
        fold, sources = fold.contiguous(), [x.contiguous() for x in sources]
        width = len(fold)
        rows = sources[0].numel() // width
        ctx.sizes = long(rows), long(width), long(len(sources)), real(eps)
        out, shares = torch.empty_like(sources[0]), fold.new_empty(rows, len(sources))
        code().mix_forward(*ctx.sizes, table(sources), *pointers(fold, out, shares))
        ctx.save_for_backward(fold, shares, *sources)
        return out

    @staticmethod
    def backward(ctx, grad):
        fold, shares, *sources = ctx.saved_tensors
        grad, gfold, to = grad.contiguous(), torch.zeros_like(fold), [torch.empty_like(x) for x in sources]
        code().mix_backward(*ctx.sizes, table(sources), *pointers(fold, shares, grad), table(to), *pointers(gfold))
        return gfold, None, *to


def slow_situ(both, beta, linear_beta):
    gate, up = both.chunk(2, -1)
    return beta * torch.tanh(gate / beta) * torch.sigmoid(gate) * linear_beta * torch.tanh(up / linear_beta)


def slow_conv(x, taps):
    padded = F.pad(x, (0, 0, len(taps) - 1, 0))
    return F.silu(sum(padded[:, i : i + x.shape[1]] * tap for i, tap in enumerate(taps)))


def slow_mix(fold, eps, *sources):
    scores = torch.stack([x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) @ fold for x in sources], -1)
    return sum(share[..., None] * x for share, x in zip(scores.softmax(-1).unbind(-1), sources))


def check() -> float:
    """Largest error of outputs and gradients against float64, relative to the largest value of each."""
    torch.manual_seed(0)
    draw, worst = torch.randn, 0.0
    cases = [
        (Situ, slow_situ, (4 * draw(3, 5, 64), 4.0, 25.0)),
        (ConvSilu, slow_conv, (draw(2, 9, 32), draw(4, 32))),
        (Mixed, slow_mix, (draw(48), 1e-5, draw(2, 7, 48), draw(2, 7, 48), 3 * draw(2, 7, 48))),
    ]
    for fast, slow, inputs in cases:
        results, grad = [], None
        for function, dtype in ((fast.apply, torch.float32), (slow, torch.float64)):
            given = [x.to(dtype, copy=True).requires_grad_() if torch.is_tensor(x) else x for x in inputs]
            out = function(*given)
            grad = torch.randn(out.shape) if grad is None else grad
            out.backward(grad.to(dtype))
            results.append([out.detach(), *(x.grad for x in given if torch.is_tensor(x))])
        worst = max([worst, *(((x - y).abs().max() / y.abs().max()).item() for x, y in zip(*results))])
    return worst
