"""Compiles the C files beside it with the machine's compiler, once a process. Knows no network."""

import ctypes
import functools
import subprocess
import tempfile
from pathlib import Path

import torch


@functools.cache
def library(source: str, *flags: str) -> ctypes.CDLL:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "compiled.so"
        options = ["-O3", "-march=native", "-ffast-math", "-shared", "-fPIC", *flags]
        subprocess.run(["cc", *options, str(Path(__file__).with_name(source)), "-o", str(path), "-lm"], check=True)
        return ctypes.CDLL(str(path))


def pointers(*tensors: torch.Tensor) -> list[ctypes.c_void_p]:
    """Of contiguous tensors, which must outlive the call."""
    return [ctypes.c_void_p(t.data_ptr()) for t in tensors]


def table(tensors: list[torch.Tensor]):
    """Pointers as an array of C."""
    return (ctypes.c_void_p * len(tensors))(*(t.data_ptr() for t in tensors))
