"""Writes a checkpoint of the training as a model folder in the released layout. Changes no values but by rounding."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import torch

from quantise import pack
from shape import Shape, config_json

sys.path.insert(0, str(Path(__file__).parents[2] / "fixtures"))
import safetensors_io  # noqa: E402
from formats import to_bf16  # noqa: E402

BODY = "language_model.model."
SHARDS = 3  # the last one holds embedding, head and final norms
SINGLE = ("_conv1d.weight", "A_log", "dt_bias", "o_norm.weight", "e_score_correction_bias")  # kept as F32


def stored(name: str, tensor: torch.Tensor, shape: Shape) -> np.ndarray:
    """One tensor in its type on disk. A_log is padded with zeros to the head width, as in the release."""
    values = tensor.detach().float().numpy()
    if name.endswith("A_log"):
        values = np.pad(values, (0, shape.kda_dim - shape.kda_heads))
    return values if name.endswith(SINGLE) else to_bf16(values)


def released(name: str) -> str:
    """The released name of a parameter: a residual mix has no dot before its two parts."""
    for part in ("norm", "proj"):
        name = name.replace(f"_res.{part}.", f"_res_{part}.")
    return name


def experts(prefix: str, weights: dict[str, torch.Tensor]) -> dict[str, np.ndarray]:
    """All experts of a layer: each one contiguous, in the order of the release."""
    tensors = {}
    for number in range(len(weights["w1"])):
        for part in ("w1", "w2", "w3"):
            packed, scale = pack(weights[part][number])
            at = f"{prefix}experts.{number}.{part}."
            tensors |= {at + "weight_packed": packed.numpy(), at + "weight_scale": scale.numpy()}
    return tensors


def export(network: dict[str, torch.Tensor], shape: Shape, tokenizer: Path, folder: Path) -> int:
    """Gives the size of the folder in bytes. What stood in it is replaced."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shards: list[dict] = [{} for _ in range(SHARDS)]
    for index in range(shape.layers):
        prefix, routed = f"layers.{index}.", {}
        shard = shards[index * (SHARDS - 1) // shape.layers]
        for name, tensor in network.items():
            if not name.startswith(prefix):
                continue
            part = name.rpartition(".")[2]
            if part in ("w1", "w2", "w3"):
                routed[part] = tensor
            else:
                shard[BODY + released(name)] = stored(name, tensor, shape)
        if routed:
            shard |= experts(f"{BODY}{prefix}block_sparse_moe.", routed)
    for name, tensor in network.items():
        if not name.startswith("layers."):
            head = "language_model." if name.startswith("lm_head") else BODY
            shards[-1][head + released(name)] = stored(name, tensor, shape)
    places = {}
    for i, shard in enumerate(shards, 1):
        file = f"model-{i:05d}-of-{SHARDS:06d}.safetensors"
        safetensors_io.write(folder / file, shard, {"format": "pt"})
        places |= dict.fromkeys(shard, file)
    size = sum(array.nbytes for shard in shards for array in shard.values())
    index = {"metadata": {"total_size": size}, "weight_map": dict(sorted(places.items()))}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")
    (folder / "config.json").write_text(json.dumps(config_json(shape), indent=2) + "\n")
    for file in ("tiktoken.model", "tokenizer_config.json"):
        shutil.copyfile(tokenizer / file, folder / file)
    return sum(file.stat().st_size for file in folder.iterdir())
