"""MXFP4: to the nearest representable weight, and to its packed bytes. Training and export use the same rounding."""

import torch

GROUP = 32
LARGEST = 6.0


def exponents(w: torch.Tensor) -> torch.Tensor:
    """w [rows, n] -> [rows, n/32]: the least power of two by which no element of the group is over the largest code."""
    top = w.detach().reshape(w.shape[0], -1, GROUP).abs().amax(-1).clamp(min=1e-30)
    return torch.ceil(torch.log2(top / LARGEST)).clamp(-127, 127)


def nearest(w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """w [rows, n] -> the values in units of their scale [rows, n/32, 32], and the exponents."""
    power = exponents(w)
    x = w.detach().reshape(w.shape[0], -1, GROUP) / torch.exp2(power)[..., None]
    size = x.abs()
    step = torch.where(size < 2, 0.5, torch.where(size < 4, 1.0, 2.0))
    return torch.round(x / step) * step, power


def fake(w: torch.Tensor) -> torch.Tensor:
    """[.., n]: quantised values forward, the gradient passes straight through."""
    flat = w.reshape(-1, w.shape[-1])
    values, power = nearest(flat)
    rounded = (values * torch.exp2(power)[..., None]).reshape(w.shape)
    return w + (rounded - w).detach()


def pack(w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """w [rows, n] -> packed bytes [rows, n/2], the even element in the low half, and scale bytes [rows, n/32]."""
    values, power = nearest(w)
    magnitudes = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    codes = torch.searchsorted(magnitudes, values.abs().contiguous()) + 8 * torch.signbit(values)
    codes = codes.reshape(w.shape).to(torch.uint8)
    return codes[:, 0::2] | codes[:, 1::2] << 4, (power + 127).to(torch.uint8)
