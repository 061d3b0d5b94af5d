"""Checks the parts of the recipe against independent code. Trains nothing; exits with 1 if a check fails."""

import os
import random
import re
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "fixtures"))
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np  # noqa: E402
import torch  # noqa: E402

import config  # noqa: E402
import data  # noqa: E402
import fused  # noqa: E402
import kda  # noqa: E402
import quantise  # noqa: E402
import reference  # noqa: E402
import sums  # noqa: E402
import tokenizer  # noqa: E402
from chat import EFFORTS, OFF, Chat  # noqa: E402
from export import export  # noqa: E402
from formats import mxfp4  # noqa: E402
from network import Network  # noqa: E402
from shape import Shape  # noqa: E402


def quantisation() -> float:
    """Packed bytes widened by the reference against the values that training computes with: must be equal."""
    weights = torch.randn(64, 96) * torch.exp2(torch.randint(-9, 4, (64, 1)))
    packed, scale = quantise.pack(weights)
    return np.abs(mxfp4(packed.numpy(), scale.numpy()) - quantise.fake(weights).double().numpy()).max()


def nearness() -> float:
    """How much more than half a step a weight is moved: must be nothing."""
    weights = torch.randn(64, 96)
    values, power = quantise.nearest(weights)
    units = weights.reshape(64, 3, 32) / torch.exp2(power)[..., None]
    codes = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    best = (units.abs()[..., None] - codes).abs().amin(-1)
    return ((values - units).abs() - best).max().item()


def network(folder: Path) -> float:
    """Logits of a random network against the float64 reference on its exported files."""
    shape = Shape()
    torch.manual_seed(1)
    model = Network(shape)
    for moe in model.moes():
        moe.quantised = True
        moe.gate.e_score_correction_bias.uniform_(-0.1, 0.1)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith("_res.proj.weight"):
                p.normal_(std=0.1)  # zero at the start, which would hide the mixes
            if p.dim() == 2 and "conv" not in name:
                p.copy_(p.bfloat16())
        ids = torch.randint(shape.vocab, (1, 24))
        got = model(ids, torch.ones_like(ids, dtype=torch.bool)).numpy()
    export(model.state_dict(), shape, folder, folder / "model")
    right = reference.Model(folder / "model", config.read(folder / "model" / "config.json")).forward(ids[0].tolist())
    return np.abs(got - right).max() / right.std()


def conversations(folder: Path) -> int:
    """Completions of the data that the strict parser does not give back as they were, or without the words that a right
    answer has: must be none."""
    chat, rng, bad = Chat(tokenizer.Tokenizer(folder)), random.Random(3), 0
    for effort in (*EFFORTS, OFF):
        subject = None
        for _ in range(300):
            name = rng.choice(list(data.SET_SHARES))
            asked = data.turn(rng, effort, name, rng.random() < 0.2, subject)
            subject, turn = asked.subject, asked.turn
            want = ("" if effort == OFF else turn.think, turn.response)
            bad += chat.parse(chat.completion(turn, effort), effort) != want
            bad += not all(word.lower() in turn.response.lower() for word in asked.must)
            bad += len(data.dress(rng, asked).user) == 0 or "{" in turn.user
    return bad


def addition() -> int:
    """Steps of sums that do not come to the result: must be none."""
    bad = 0
    for a in range(100):
        for b in range(100):
            steps = re.findall(r"(\d+(?:\+\d+)+)=(\d+)", sums.think(a, b, "max"))
            bad += any(sum(map(int, left.split("+"))) != int(right) for left, right in steps)
            digits = steps[0][1] if len(steps) == 1 else steps[1][1] + steps[0][1][-1]
            bad += int(digits) != a + b or f"= {a + b}." not in sums.answer(a, b)
    return bad


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tokenizer.write(folder, tokenizer.train(data.corpus(1, 60), Shape.ranks))
        results = [
            ("elementwise parts and their gradients, relative error", fused.check(), 1e-5),
            ("delta rule and its gradients, relative error", kda.check(), 1e-5),
            ("MXFP4 bytes against training values", quantisation(), 0),
            ("MXFP4 beyond the nearest value", nearness(), 1e-6),
            ("exported network against the reference, in standard deviations", network(folder), 1e-4),
            ("completions that do not parse back", conversations(folder), 0),
            ("sums that are not right", addition(), 0),
        ]
    for what, error, limit in results:
        print(f"{'ok  ' if error <= limit else 'FAIL'} {what}: {error:.2g} (at most {limit:g})")
    raise SystemExit(any(error > limit for _, error, limit in results))


if __name__ == "__main__":
    main()
