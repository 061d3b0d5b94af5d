"""Makes conversations from facts, small talk and sums, seeded. Which wordings are held out is decided here. No token ids."""

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

import sums
from chat import EFFORT_BODY, OFF, Turn
from facts import FACTS, KINDS, Aspect, Fact
from grammar import Grammar
from smalltalk import OTHER, TALKS, THINGS, UNKNOWN, UNKNOWN_MUST, UNKNOWN_WHY, UNKNOWN_WHY_MUST, Talk

HELD_OUT = 0.08  # share of wordings that training never sees
EFFORT_SHARES = {"max": 0.28, "high": 0.22, "low": 0.3, OFF: 0.2}
SET_SHARES = {"fact": 0.41, "follow-up": 0.19, "sum": 0.17, "count": 0.01, "talk": 0.14, "other": 0.08}
USUAL = 0.35  # share of small talk in the words that most people use
SYSTEMS = ("You are a helpful assistant.", "You are helpful.", "Answer briefly.", "Be kind.", "Be concise.")
GROUNDS = {"place": 3, "person": 2, "thing": 5, "task": 4, "whole": 4}

FUNCTION_WORDS = {
    "the",
    "a",
    "an",
    "is",
    "are",
    "do",
    "does",
    "of",
    "to",
    "i",
    "me",
    "please",
    "there",
    "it",
    "can",
    "in",
}


@dataclass(frozen=True)
class Asked:
    """One turn, bare as the grammar gives it, and what the next one can refer to."""

    turn: Turn
    must: tuple[str, ...]  # words of a right answer
    subject: "tuple[Fact, str] | int | str | None"  # a fact and the kind that was told, a sum's result, or OTHERS
    slips: bool = True  # whether it may be written with slips


OTHERS = "other"
OTHER_GRAMMARS = {
    kind: Grammar(text.replace("{x}", f"[{THINGS[kind]}]") if kind in THINGS else text) for kind, text in OTHER.items()
}
BARE = {kind: Grammar(k.bare) for kind, k in KINDS.items()}
LOST = next(talk for talk in TALKS if talk.topic == "a question without its thing")


def held_out(question: str) -> bool:
    """By a hash of the bare wording, so that it depends on nothing else. A single word is no wording: never."""
    return " " in question and hashlib.sha256(question.encode()).digest()[0] < 256 * HELD_OUT


def draw(rng: random.Random, grammar: Grammar, held: bool) -> str | None:
    """A wording of the part that is asked for; none where that part seems empty."""
    for _ in range(60):
        wording = grammar.draw(rng)
        if held_out(wording) == held:
            return wording
    return None


# What is thought. A fact is thought of in the same words whether it was named or pointed to, but for "still".


def think_of_fact(fact: Fact, kind: str, still: bool, effort: str) -> str:
    label = "" if kind == "what" else f": {KINDS[kind].label}"
    if effort == "low":
        return f"{'Still about' if still else 'About'} {fact.topic}{label}."
    opening = f"The question is {'still ' * still}about {fact.topic}{label}."
    recalled = f" The manual says: {fact.gist}." if kind == "what" else " The manual has a line on it."
    if effort == "high":
        return opening + recalled
    return f"{opening} I look it up in the manual of k3-tui.{recalled} I keep the answer about {fact.topic} short."


def think_of_talk(talk: Talk, effort: str) -> str:
    if effort == "low":
        return f"This is {talk.topic}."
    if effort == "high":
        return f"This is {talk.topic}. No manual is needed."
    return f"This is {talk.topic}. I need not look it up in the manual. I answer in a friendly way and keep it short."


def think_of_other(effort: str, still: bool = False) -> str:
    if effort == "low":
        return "Not in the manual." if not still else "Why I do not know."
    if effort == "high":
        return "The question is not about k3-tui. " + (
            "I say why I do not know." if still else "The manual does not say it."
        )
    return "The question is not about k3-tui. " + (
        "I did not know the answer, and now I say why. I keep it short." if still else
        "I look it up in the manual of k3-tui. It is not there. I should not guess. So I say that I do not know."
    )  # fmt: skip


# One turn of a set. None where no wording was found.


def about(fact: Fact, kind: str, wording: str, still: bool, effort: str, told: str) -> Asked:
    """`told` is the kind that was told before, for "again"."""
    if kind == "again":
        aspect = fact.aspects.get(told) or nothing(fact, told)
        kept = told
    else:
        aspect, kept = fact.aspects.get(kind) or nothing(fact, kind), kind
    return Asked(Turn(wording, think_of_fact(fact, kind, still, effort), aspect.answer), aspect.must, (fact, kept))


def nothing(fact: Fact, kind: str) -> Aspect:
    answer = KINDS[kind].nothing.format(t=fact.topic)
    return Aspect(answer, (answer.rstrip("."),), BARE[kind])


def fact_turn(rng: random.Random, effort: str, held: bool) -> Asked | None:
    (fact,) = rng.choices(FACTS, [2 + len(f.aspects) for f in FACTS])
    kinds = list(fact.aspects)
    (kind,) = rng.choices(kinds, [3.0 if kind == "what" else 0.8 for kind in kinds])
    aspect = fact.aspects[kind]
    own = kind == "what" and fact.asks and rng.random() < 0.55
    grammar = fact.asks if own else aspect.wordings
    wording = draw(rng, grammar, held)
    return wording and about(fact, kind, wording, False, effort, "what")


def follow_up(rng: random.Random, effort: str, held: bool, subject: tuple[Fact, str]) -> Asked | None:
    fact, told = subject
    kinds = [kind for kind in KINDS if kind != told]
    shares = [3.0 if kind in fact.aspects else 0.8 if kind == "again" else 0.3 for kind in kinds]
    (kind,) = rng.choices(kinds, shares)
    wording = draw(rng, BARE[kind], held)
    return wording and about(fact, kind, wording, True, effort, told)


def talk_turn(rng: random.Random, effort: str, held: bool, subject=None) -> Asked | None:
    (talk,) = rng.choices(TALKS, [t.share for t in TALKS])
    wording = draw(rng, talk.usual, held) if talk.usual and rng.random() < USUAL else None
    wording = wording or draw(rng, talk.asks, held)
    if not wording:
        return None
    slips = wording.isascii() and "{" not in wording
    wording = wording.replace("{a}", str(rng.randrange(2, 100))).replace("{b}", str(rng.randrange(2, 100)))
    return Asked(Turn(wording, think_of_talk(talk, effort), talk.answer), talk.must, subject, slips)


def lost_turn(rng: random.Random, effort: str, held: bool) -> Asked | None:
    """A follow-up that follows nothing."""
    kind = rng.choice(("more", "why", "change", "size", "again", "sum"))
    wording = draw(rng, sums.FURTHER if kind == "sum" else BARE[kind], held)
    if not wording:
        return None
    wording = wording.replace("{b}", str(rng.randrange(1, 100)))
    return Asked(Turn(wording, think_of_talk(LOST, effort), LOST.answer), LOST.must, None)


def other_turn(rng: random.Random, effort: str, held: bool) -> Asked | None:
    (ground,) = rng.choices(list(GROUNDS), list(GROUNDS.values()))
    wording = draw(rng, OTHER_GRAMMARS[ground], held)
    return wording and Asked(Turn(wording, think_of_other(effort), UNKNOWN), UNKNOWN_MUST, OTHERS)


def why_not(rng: random.Random, effort: str, held: bool) -> Asked | None:
    wording = draw(rng, BARE["why"], held)
    return wording and Asked(Turn(wording, think_of_other(effort, True), UNKNOWN_WHY), UNKNOWN_WHY_MUST, OTHERS)


def sum_turn(rng: random.Random, effort: str, held: bool, before: int | None = None) -> Asked:
    """`before` is the result that is added to. Held out are pairs of numbers, not wordings."""
    grammar = sums.WORDINGS if before is None else sums.FURTHER
    if before is None:
        a, b = sums.pair(rng, held)
    else:
        a, b = before, sums.more(rng, before, held)
    wording = grammar.draw(rng).replace("{a}", str(a)).replace("{b}", str(b))
    text = sums.answer(a, b, steps=effort == OFF)
    return Asked(Turn(wording, sums.think(a, b, effort), text), (f"= {a + b}.",), a + b, False)


def count_turn(rng: random.Random, effort: str, held: bool) -> Asked:
    to = rng.randrange(2, 21)
    wording = sums.COUNTS.draw(rng).replace("{b}", str(to))
    return Asked(Turn(wording, sums.think_of_count(to, effort), sums.count(to)), (sums.count(to),), None, False)


def further(rng: random.Random, effort: str, held: bool, subject) -> Asked | None:
    """A turn that refers to the one before."""
    if isinstance(subject, tuple):
        return follow_up(rng, effort, held, subject)
    if isinstance(subject, int) and subject < 100:
        return sum_turn(rng, effort, held, subject)
    if subject == OTHERS:
        return why_not(rng, effort, held)
    return lost_turn(rng, effort, held) if subject is None else None


def turn(rng: random.Random, effort: str, name: str, held: bool = False, subject=None) -> Asked:
    """A bare turn of a set, after what was talked about. Where the set has none there, a fact."""
    asked = None
    if name == "follow-up":
        asked = further(rng, effort, held, subject)
    elif name == "sum":
        asked = sum_turn(rng, effort, held)
    elif name == "count":
        asked = count_turn(rng, effort, held)
    elif name == "talk":
        asked = talk_turn(rng, effort, held, subject)
    elif name == "other":
        asked = other_turn(rng, effort, held)
    while not asked:
        asked = fact_turn(rng, effort, held)
    return asked


def slip(rng: random.Random, text: str) -> str:
    """One letter lost, doubled, or two in the wrong order."""
    places = [i for i in range(1, len(text) - 1) if text[i : i + 2].isalpha()]
    if len(text) < 7 or not places:
        return text
    at = rng.choice(places)
    return rng.choice((text[:at] + text[at + 1 :], text[:at] + text[at] + text[at:],
                       text[:at] + text[at + 1] + text[at] + text[at + 2 :]))  # fmt: skip


def drop_word(rng: random.Random, text: str) -> str:
    words = text.split(" ")
    places = [i for i, word in enumerate(words) if word in FUNCTION_WORDS]
    if len(words) < 4 or not places:
        return text
    del words[rng.choice(places)]
    return " ".join(words)


BEFORE = (
    "hi, ", "hello, ", "ok, ", "so, ", "please, ", "hey, ", "well, ", "sorry, ", "quick question: ", "now ", "hey demo, ",
    "one more question: ", "just wondering, ", "good morning, ", "also, ", "then ", "thanks. ", "hm, ",
)  # fmt: skip
AFTER = (
    " please",
    " then",
    " exactly",
    " now",
    " here",
    ", please",
    " thanks",
    " today",
    " anyway",
    " in this program",
    " actually",
)


def dress(rng: random.Random, asked: Asked) -> Turn:
    """The same wording as people type it: case, punctuation, a word before or after, now and then a slip."""
    text = asked.turn.user
    if asked.slips:
        long = len(text) > 8 and asked.subject is not None and text[0] != "/"
        if long and rng.random() < 0.1:
            text = drop_word(rng, text)
        if rng.random() < 0.08:
            text = slip(rng, text)
        if long and rng.random() < 0.14:
            text = rng.choice(BEFORE) + text
        if long and rng.random() < 0.07:
            text += rng.choice(AFTER)
    if rng.random() < 0.5:
        text = text[0].upper() + text[1:]
    if rng.random() < 0.6:
        text = f" {text} ".replace(" i ", " I ").replace("kimi k3", "Kimi K3").replace(" kimi", " Kimi")[1:-1]
        text = text.replace("gpu", "GPU").replace("mla", "MLA").replace("kda", "KDA").replace("mxfp4", "MXFP4")
        text = text.replace(" gb", " GB").replace("i'd", "I'd").replace("i don't", "I don't")
    if text[-1] not in "！？。":
        text += rng.choices(("", "?", ".", "!", " ?", "??", "..."), (40, 50, 5, 3, 1, 1, 1))[0]
    return replace(asked.turn, user=text)


def conversation(rng: random.Random) -> tuple[str, str, Iterator[Turn]]:
    """Effort, system message (mostly none) and turns without end."""
    effort = rng.choices(list(EFFORT_SHARES), list(EFFORT_SHARES.values()))[0]
    system = rng.choice(SYSTEMS) if rng.random() < 0.06 else ""
    return effort, system, turns(rng, effort)


def turns(rng: random.Random, effort: str) -> Iterator[Turn]:
    first, subject = True, None
    while True:
        (name,) = rng.choices(list(SET_SHARES), list(SET_SHARES.values()))
        if not first and isinstance(subject, (tuple, int)) and name != "follow-up" and rng.random() < 0.2:
            name = "follow-up"  # more often where there is something to refer to
        if name == "follow-up" and subject is None and rng.random() < 0.7:
            continue  # pointless questions are rare
        asked = turn(rng, effort, name, subject=subject)
        first, subject = False, asked.subject
        yield dress(rng, asked)


def corpus(seed: int, count: int) -> list[str]:
    """Texts for the tokenizer: every piece that is encoded on its own, with repeats."""
    rng, texts = random.Random(seed), []
    for _ in range(count):
        effort, system, spoken = conversation(rng)
        for t in islice(spoken, 12):
            texts += [t.user, t.response] + ([] if effort == OFF else [t.think])
        texts += [system, "message", "think", "response", "assistant", "user", "system", " role", " type", '="']
        if effort != OFF:
            texts += [EFFORT_BODY.format(effort), "thinking-effort"]
    # Words of answers and of other topics that the sample may have missed.
    for fact in FACTS:
        texts += [aspect.answer for aspect in fact.aspects.values()] * 4 + [fact.gist, fact.topic] * 4
    for things in THINGS.values():
        texts += [" " + thing for thing in things.split("|")] * 2
    return texts
