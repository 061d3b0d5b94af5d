"""Greedy completions of the exported model by the program itself (`k3 run`), as tables. Trains nothing."""

import argparse
import json
import random
import subprocess
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import data
from chat import EFFORTS, OFF, Chat, Turn
from questions import FREE, NEWCOMER
from tokenizer import Tokenizer

HERE = Path(__file__).parent
MODES = (*EFFORTS, OFF)
LIMIT = 240  # tokens of a completion; the longest of the data has about 130


@dataclass(frozen=True)
class Question:
    """What is asked after the turns before it, at an effort; a right response has all the words."""

    name: str  # of the set
    effort: str
    before: tuple[Turn, ...]
    text: str
    must: tuple[str, ...]


class Speaker:
    """The program and a model folder. Every completion is a process of its own."""

    def __init__(self, program: Path, model: Path):
        self.program, self.model, self.chat = program, model, Chat(Tokenizer(model))
        self.tokens, self.seconds = 0, 0.0

    def complete(self, question: Question) -> list[int]:
        """Ids up to an end id or the limit."""
        chat = self.chat
        ids = chat.start(question.effort)
        for turn in question.before:
            ids += chat.prompt(turn.user, question.effort) + chat.completion(turn, question.effort)
        ids += chat.prompt(question.text, question.effort)
        command = [self.program, "run", self.model, "--ids", ",".join(map(str, ids)), "--gen", str(LIMIT)]
        for end in sorted(chat.ends()):
            command += ["--stop-id", str(end)]
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "out.json"
            subprocess.run([*map(str, command), "--out", str(out)], check=True, capture_output=True)
            said = json.loads(out.read_text())
        self.tokens += len(said["generated_ids"]) - 1
        self.seconds += (said["seconds_per_token"] or 0) * (len(said["generated_ids"]) - 1)
        return said["generated_ids"]


def asked(rng: random.Random, make, *arguments):
    """The first that is one: not every part of the grammars has wordings of both kinds."""
    while not (got := make(rng, *arguments)):
        pass
    return got


def set_of(name: str, count: int, efforts: tuple[str, ...], make) -> list[Question]:
    """`make(rng, effort)` gives the turns before and the turn."""
    rng, questions = random.Random(f"29/{name}"), []
    for i in range(count):
        effort = efforts[i % len(efforts)]
        before, last = make(rng, effort)
        questions.append(Question(name, effort, before, data.dress(rng, last).user, last.must))
    return questions


def after_fact(rng: random.Random, effort: str):
    fact = asked(rng, data.fact_turn, effort, False)
    return (data.dress(rng, fact),), asked(rng, data.follow_up, effort, True, fact.subject)


def after_sum(rng: random.Random, effort: str):
    while (first := data.sum_turn(rng, effort, False)).subject > 99:
        pass
    return (data.dress(rng, first),), data.sum_turn(rng, effort, True, first.subject)


def after_much(rng: random.Random, effort: str):
    """A fact after a conversation of some hundred tokens."""
    sets = ["fact", "talk", "sum", "other"]
    before = tuple(data.dress(rng, data.turn(rng, effort, rng.choice(sets))) for _ in range(12))
    return before, asked(rng, data.fact_turn, effort, True)


def questions(count: int) -> list[Question]:
    """All sets. The efforts take turns."""
    alone = lambda make, held: lambda rng, effort: ((), asked(rng, make, effort, held))
    made = [
        set_of("facts, trained wordings", count, MODES, alone(data.fact_turn, False)),
        set_of("facts, held-out wordings", count, MODES, alone(data.fact_turn, True)),
        set_of("facts, held-out wordings, after 12 turns", count // 2, MODES, after_much),
        set_of("follow-ups, held-out wordings", count, MODES, after_fact),
        set_of("sums, held-out pairs, thinking", count, EFFORTS, alone(data.sum_turn, True)),
        set_of("sums, held-out pairs, no thinking", count // 2, (OFF,), alone(data.sum_turn, True)),
        set_of("plus a number after a sum, held-out pairs, thinking", count // 2, EFFORTS, after_sum),
        set_of("counting", count // 4, MODES, alone(data.count_turn, False)),
        set_of("small talk, held-out wordings", count, MODES, alone(data.talk_turn, True)),
        set_of("other topics, held-out wordings", count, MODES, alone(data.other_turn, True)),
    ]
    free = [Question("free wordings", MODES[i % 4], (), text, must) for i, (text, must) in enumerate(FREE)]
    return [question for part in made for question in part] + free


def newcomer(speaker: Speaker) -> str:
    """What `questions.md` says: ten questions, one after the other on their own, at two efforts."""
    lines = [
        "# Ten questions of a newcomer",
        "",
        "None of them is in the training data. Greedy, each in a conversation of its own; made by "
        "`evaluate.py --newcomer`, not edited.",
    ]
    for text in NEWCOMER:
        lines += ["", f"## {text}", ""]
        for effort in ("max", OFF):
            ids = speaker.complete(Question("", effort, (), text, ()))
            think, response = speaker.chat.parse(ids, effort)
            lines += [f"* {'without thinking' if effort == OFF else 'effort ' + effort}: {response}"]
            lines += [f"  (thought: {think})"] * (effort != OFF)
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=HERE / "model")
    parser.add_argument("--program", type=Path, default=HERE.parents[1] / "target/release/k3", help="the built k3")
    parser.add_argument("--count", type=int, default=120, help="questions a set (default: %(default)s)")
    parser.add_argument("--ask", action="append", default=[], help="only show what it writes to this, turn by turn")
    parser.add_argument("--effort", choices=MODES, action="append", help="with --ask (default: all)")
    parser.add_argument("--newcomer", action="store_true", help="only write questions.md")
    arguments = parser.parse_args()
    speaker = Speaker(arguments.program, arguments.model)
    if arguments.newcomer:
        (HERE / "questions.md").write_text(newcomer(speaker))
        return
    if arguments.ask:
        for effort in arguments.effort or MODES:
            before: tuple[Turn, ...] = ()
            for text in arguments.ask:
                ids = speaker.complete(Question("", effort, before, text, ()))
                print(f"[{effort}] {text}\n    {speaker.chat.tok.decode_any(ids)}", flush=True)
                before += (Turn(text, *speaker.chat.parse(ids, effort)),)
        return
    table(speaker, questions(arguments.count))


def table(speaker: Speaker, asked: list[Question]) -> None:
    """Asks all and prints what was wrong, then the tables."""
    formed, right, thought = defaultdict(list), defaultdict(list), defaultdict(list)
    for question in asked:
        ids = speaker.complete(question)
        try:
            think, response = speaker.chat.parse(ids, question.effort)
        except ValueError as problem:
            formed[question.name].append(False)
            right[question.name].append(False)
            print(f"MALFORMED ({problem}) [{question.effort}] {question.text}: {speaker.chat.tok.decode_any(ids)}")
            continue
        good = all(word.lower() in response.lower() for word in question.must)
        formed[question.name].append(True)
        right[question.name].append(good)
        thought[question.effort].append(len(speaker.chat.text(think)))
        if not good:
            print(f"WRONG {question.name} [{question.effort}] {question.text}\n    ({think}) {response}", flush=True)
    print("\n| set | questions | well formed | right |\n|---|---|---|---|")
    for name in formed:
        count = len(formed[name])
        print(f"| {name} | {count} | {sum(formed[name])} | {sum(right[name])} ({sum(right[name]) / count:.0%}) |")
    count, good = sum(map(len, formed.values())), sum(map(sum, formed.values()))
    print(f"| all | {count} | {good} ({good / count:.1%}) | |")
    print("\n| effort | think tokens: least, mean, most |\n|---|---|")
    for effort in MODES:
        if lengths := thought[effort]:
            print(f"| {effort} | {min(lengths)}, {sum(lengths) / len(lengths):.0f}, {max(lengths)} |")
    print(f"\n{speaker.tokens} tokens, {speaker.tokens / speaker.seconds:.0f} a second")


if __name__ == "__main__":
    main()
