"""Greedy completions of the exported model through the NumPy reference of `fixtures/`, as a table. Trains nothing."""

import argparse
import copy
import os
import random
import sys
from collections import defaultdict
from pathlib import Path

for library in ("OMP", "OPENBLAS"):  # before NumPy: its products are too small to be worth more threads
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

import numpy as np  # noqa: E402

import data  # noqa: E402
from chat import EFFORTS, OFF, Chat  # noqa: E402
from questions import FREE  # noqa: E402
from tokenizer import Tokenizer  # noqa: E402

sys.path.insert(0, str(Path(__file__).parents[2] / "fixtures"))
import config  # noqa: E402
import reference  # noqa: E402

MODES = (*EFFORTS, OFF)
LIMIT = 200  # tokens of a completion; the longest of the data has about 110


class Speaker:
    """The model with the state after what stands before a first turn kept for each effort."""

    def __init__(self, folder: Path):
        self.chat = Chat(Tokenizer(folder))
        self.model = reference.Model(folder, config.read(folder / "config.json"), np.float32)
        self.started: dict[str, list[dict]] = {}

    def complete(self, question: str, effort: str) -> list[int]:
        """Ids up to an end id or the limit."""
        model, before = self.model, self.chat.start(effort)
        if effort not in self.started:
            model.reset()
            if before:
                model.forward(before)
            self.started[effort] = model.state
        # Layers replace what is in their dict and never write into an array: a copy of the dicts is enough.
        model.state = [copy.copy(layer) for layer in self.started[effort]]
        logits, ids = model.forward(self.chat.prompt(question, effort)), []
        while len(ids) < LIMIT:
            ids.append(int(logits[-1].argmax()))
            if ids[-1] in self.chat.ends():
                break
            logits = model.forward(ids[-1:])
        return ids


def questions(count: int) -> list[tuple[str, str, str, tuple[str, ...]]]:
    """Set, effort, question, words of a right answer. The efforts take turns."""
    rng, asked = random.Random(29), []
    for name, kind, held in (
        ("facts, trained wording", "fact", False),
        ("facts, held-out wording", "fact", True),
        ("small talk, held-out wording", "talk", True),
        ("other topics, held-out wording", "other", True),
    ):
        for i in range(count):
            turn, must = data.turn(rng, OFF, kind, held)
            asked.append((name, MODES[i % len(MODES)], data.dress(rng, turn.user), must))
    asked += [("free wording", MODES[i % len(MODES)], question, must) for i, (question, must) in enumerate(FREE)]
    return asked


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=Path(__file__).parent / "model")
    parser.add_argument("--count", type=int, default=28, help="questions a set (default: %(default)s)")
    parser.add_argument("--ask", action="append", default=[], help="only show what it writes to this")
    arguments = parser.parse_args()
    speaker = Speaker(arguments.model)
    if arguments.ask:
        for question in arguments.ask:
            for effort in MODES:
                print(f"[{effort}] {speaker.chat.tok.decode_any(speaker.complete(question, effort))}", flush=True)
        return
    formed, right, thought = defaultdict(list), defaultdict(list), defaultdict(list)
    for name, effort, question, must in questions(arguments.count):
        ids = speaker.complete(question, effort)
        try:
            think, response = speaker.chat.parse(ids, effort)
        except ValueError as problem:
            formed[name].append(False)
            right[name].append(False)
            print(f"MALFORMED ({problem}) [{effort}] {question}: {speaker.chat.tok.decode_any(ids)}")
            continue
        good = all(word.lower() in response.lower() for word in must)
        formed[name].append(True)
        right[name].append(good)
        thought[effort].append(len(speaker.chat.text(think)))
        if not good:
            print(f"WRONG [{effort}] {question}\n    ({think}) {response}", flush=True)
    print("\n| set | questions | well-formed | right |\n|---|---|---|---|")
    for name in formed:
        count = len(formed[name])
        print(f"| {name} | {count} | {sum(formed[name])} | {sum(right[name])} ({sum(right[name]) / count:.0%}) |")
    print("\n| effort | think tokens: least, mean, most |\n|---|---|")
    for effort in MODES:
        if thought[effort]:
            lengths = thought[effort]
            print(f"| {effort} | {min(lengths)}, {sum(lengths) / len(lengths):.0f}, {max(lengths)} |")


if __name__ == "__main__":
    main()
