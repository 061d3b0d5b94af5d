"""Makes the demo model from nothing, or goes on where it was stopped: tokenizer, training, export. One command."""

import argparse
import os
from pathlib import Path

import torch

import data
import tokenizer
from export import export
from shape import Shape
from train import Plan, train

HERE = Path(__file__).parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=HERE / "work", help="folder for checkpoints (default: work)")
    parser.add_argument("--out", type=Path, default=HERE / "model", help="the exported folder (default: model)")
    parser.add_argument("--steps", type=int, default=Plan.steps, help="training steps (default: %(default)s)")
    parser.add_argument(
        "--processes", type=int, default=Plan.processes, help="of one thread each (default: %(default)s)"
    )
    parser.add_argument("--export-only", action="store_true", help="export the last checkpoint as it is")
    arguments = parser.parse_args()
    shape, plan = Shape(), Plan(steps=arguments.steps, processes=arguments.processes)
    arguments.work.mkdir(parents=True, exist_ok=True)
    if not (arguments.work / "tokenizer_config.json").exists():
        tokenizer.write(arguments.work, tokenizer.train(data.corpus(plan.seed, 2500), shape.ranks))
    if not arguments.export_only:
        train(plan, shape, arguments.work)
    saved = torch.load(arguments.work / "checkpoint.pt")
    size = export(saved["network"], shape, arguments.work, arguments.out)
    print(f"step {saved['step']}: {size / 1e6:.2f} MB in {arguments.out}")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
