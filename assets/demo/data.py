"""Makes conversations from facts and small talk, seeded. Which wordings are held out is decided here. No token ids."""

import hashlib
import random

from chat import EFFORT_BODY, OFF, Turn
from facts import FACTS, FRAMES, Fact
from smalltalk import OTHER_FRAMES, OTHER_THINGS, TALKS, UNKNOWN, UNKNOWN_MUST, Talk

HELD_OUT = 0.08  # share of wordings that training never sees
EFFORT_SHARES = {"max": 0.36, "high": 0.2, "low": 0.24, OFF: 0.2}
KIND_SHARES = {"fact": 0.66, "talk": 0.14, "other": 0.2}
SYSTEMS = ("You are a helpful assistant.", "You are helpful.", "Answer briefly.", "Be kind.", "Be concise.")


def held_out(question: str) -> bool:
    """By a hash of the bare wording, so that it depends on nothing else."""
    return hashlib.sha256(question.encode()).digest()[0] < 256 * HELD_OUT


def split(text: str) -> list[str]:
    return text.split("|")


def fact_questions(fact: Fact) -> list[str]:
    """Every frame with every noun."""
    return [frame.format(n=noun) for noun in fact.nouns for frame in FRAMES]


# Bare wordings by topic, and whether they are held out. A fact's own questions weigh as much as its framed ones.
FACT_FRAMED = {f.topic: [(q, held_out(q)) for q in fact_questions(f)] for f in FACTS}
FACT_ASKED = {f.topic: [(q, held_out(q)) for q in f.asks] for f in FACTS}
TALK_ASKED = {t.topic: [(q, held_out(q)) for q in t.asks] for t in TALKS}


def pick(rng: random.Random, questions: list[tuple[str, bool]], held: bool) -> str | None:
    fitting = [q for q, h in questions if h == held]
    return rng.choice(fitting) if fitting else None


def other_question(rng: random.Random) -> str:
    kind = rng.choices(("place", "person", "thing", "task", "sum", "whole"), (3, 2, 4, 3, 2, 5))[0]
    frame = rng.choice(split(OTHER_FRAMES[kind]))
    if kind == "sum":
        return frame.format(a=rng.randrange(1, 100), b=rng.randrange(1, 100))
    return frame if kind == "whole" else frame.format(x=rng.choice(split(OTHER_THINGS[kind])))


def think_of_fact(fact: Fact, effort: str) -> str:
    if effort == "low":
        return f"About {fact.topic}."
    if effort == "high":
        return f"The question is about {fact.topic}. The manual says: {fact.gist}."
    return (
        f"The question is about {fact.topic}. I look it up in the manual of k3-tui. It says: {fact.gist}. "
        f"So I know the answer about {fact.topic}. I keep it short."
    )


def think_of_talk(talk: Talk, effort: str) -> str:
    if effort == "low":
        return f"This is {talk.topic}."
    if effort == "high":
        return f"This is {talk.topic}. No manual is needed."
    return f"This is {talk.topic}. I need not look it up in the manual. I answer in a friendly way. I keep it short."


def think_of_other(effort: str) -> str:
    if effort == "low":
        return "Not in the manual."
    if effort == "high":
        return "The question is not about k3-tui. The manual does not say it."
    return (
        "The question is not about k3-tui. I look it up in the manual of k3-tui. It is not there. "
        "I should not guess. So I say that I do not know. I keep it short."
    )


def turn(rng: random.Random, effort: str, kind: str, held: bool = False) -> tuple[Turn, tuple[str, ...]]:
    """One bare turn of a kind, and the words that a right answer has."""
    if kind == "fact":
        while True:
            fact = rng.choice(FACTS)
            question = pick(rng, rng.choice((FACT_FRAMED, FACT_ASKED))[fact.topic], held)
            if question:
                return Turn(question, think_of_fact(fact, effort), fact.answer), fact.must
    if kind == "talk":
        while True:
            talk = rng.choice(TALKS)
            question = pick(rng, TALK_ASKED[talk.topic], held)
            if question:
                return Turn(question, think_of_talk(talk, effort), talk.answer), talk.must
    while True:
        question = other_question(rng)
        if held_out(question) == held:
            return Turn(question, think_of_other(effort), UNKNOWN), UNKNOWN_MUST


def dress(rng: random.Random, text: str) -> str:
    """The same wording as people type it: case, punctuation, a word before or after, now and then a slip."""
    if len(text) > 6 and rng.random() < 0.06:
        at = rng.randrange(1, len(text) - 1)
        text = rng.choice((text[:at] + text[at + 1 :], text[:at] + text[at + 1] + text[at] + text[at + 2 :]))
    if len(text) > 6 and rng.random() < 0.12:
        text = rng.choice(("hi, ", "hello, ", "ok, ", "so, ", "please, ", "hey, ", "and ", "well, ", "but ")) + text
    if len(text) > 6 and rng.random() < 0.06:
        text += rng.choice((" please", " then", " exactly", " now", " here"))
    if text[0] != "/" and rng.random() < 0.55:
        text = text[0].upper() + text[1:]
    if rng.random() < 0.5:
        text = text.replace(" i ", " I ").replace("kimi k3", "Kimi K3").replace("gpu", "GPU").replace("mla", "MLA")
    return text + rng.choices(("", "?", ".", "!", " ?", "??"), (40, 50, 5, 3, 1, 1))[0]


def conversation(rng: random.Random) -> tuple[str, str, list[Turn]]:
    """Effort, system message (mostly none) and more turns than a row holds."""
    effort = rng.choices(list(EFFORT_SHARES), list(EFFORT_SHARES.values()))[0]
    system = rng.choice(SYSTEMS) if rng.random() < 0.06 else ""
    kinds = rng.choices(list(KIND_SHARES), list(KIND_SHARES.values()), k=8)
    turns = [turn(rng, effort, kind)[0] for kind in kinds]
    return effort, system, [Turn(dress(rng, t.user), t.think, t.response) for t in turns]


def corpus(seed: int, count: int) -> list[str]:
    """Texts for the tokenizer: every piece that is encoded on its own, with repeats."""
    rng, texts = random.Random(seed), []
    for _ in range(count):
        effort, system, turns = conversation(rng)
        for t in turns:
            texts += [t.user, t.response] + ([] if effort == OFF else [t.think])
        texts += [system, "message", "think", "response", "assistant", "user", "system", " role", " type", '="']
        if effort != OFF:
            texts += [EFFORT_BODY.format(effort), "thinking-effort"]
    # Words of answers and of other topics that the sample may have missed.
    for fact in FACTS:
        texts += [fact.answer, fact.gist, fact.topic, *fact.nouns, *fact.asks] * 4
    for things in OTHER_THINGS.values():
        texts += [" " + thing for thing in split(things)] * 2
    return texts
