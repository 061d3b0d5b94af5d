"""Sums and counting: wordings, the steps in the think channel, which pairs are held out. Conversations are made elsewhere."""

import hashlib
import random

from grammar import Grammar

HELD_OUT = 0.1  # share of the pairs that training never sees

WORDINGS = Grammar(
    "[so |and |]what is {a} [plus|+|and|added to] {b}|what's {a} [plus|+] {b}|{a}[+| + | plus | and ]{b}[ =|=|]|"
    "{a} + {b}|{a}+{b}|add {a} [and|to|plus] {b}|[please |][calculate|compute|work out|add up|solve] {a} [+|plus] {b}|"
    "how much is {a} [plus|+|and] {b}|[the |what is the |]sum of {a} and {b}|"
    "[can|could] you add {a} [and|to] {b}|do you know what {a} [+|plus] {b} is|"
    "what do {a} and {b} [make|give]|what does {a} [+|plus] {b} [make|give|equal]|tell me what {a} [+|plus] {b} is|"
    "i have {a} [apples|coins|books|euros] and get {b} more, how many [are there|are they|do i have]"
)  # fmt: skip
FURTHER = Grammar(
    "[and |now |]plus {b}|+ {b}|+{b}|and {b} more|[now |and |]add {b}[ to it| to that| more|]|[and |]if i add {b}|"
    "[what is |]that plus {b}|{b} more|[and |]another {b}|and with {b} more|"
    "how much is [it|that] plus {b}|and plus {b}"
)  # fmt: skip
COUNTS = Grammar(
    "[please |can you |could you |]count [to|up to|from 1 to|from one to] {b}|count[ ]{b}|counting to {b}|"
    "[say|list|write] the numbers [to|up to|from 1 to] {b}|i want you to count to {b}"
)  # fmt: skip


def held_out(a: int, b: int) -> bool:
    return hashlib.sha256(f"{a} and {b}".encode()).digest()[0] < 256 * HELD_OUT


def pair(rng: random.Random, held: bool) -> tuple[int, int]:
    """Two numbers of one or two digits."""
    while True:
        digits = rng.choices(((1, 1), (1, 2), (2, 1), (2, 2)), (2, 1, 2, 5))[0]
        a, b = (rng.randrange(10 ** (d - 1) if d > 1 else 0, 10**d) for d in digits)
        if held_out(a, b) == held:
            return a, b


def more(rng: random.Random, a: int, held: bool) -> int:
    """What is added to a result below 100; small numbers are more likely."""
    while True:
        b = rng.randrange(1, 10 if rng.random() < 0.6 else 100)
        if held_out(a, b) == held:
            return b


def think(a: int, b: int, effort: str) -> str:
    """Units, then tens with what is carried. The steps themselves are the same at every effort."""
    units = a % 10 + b % 10
    steps = [f"{a % 10}+{b % 10}={units}"]
    carried = units // 10
    if max(a, b) > 9:
        steps.append(f"{a // 10}+{b // 10}+{carried}={a // 10 + b // 10 + carried}")
    if effort == "low":
        return f"{a}+{b}: " + ", ".join(steps) + "."
    if effort == "high":
        tens = f" Tens: {steps[1]}." if len(steps) > 1 else ""
        return f"This is a sum, {a}+{b}. Units: {steps[0]}, carry {carried}.{tens}"
    tens = f" Tens: {steps[1]}." if len(steps) > 1 else ""
    return (
        f"This is a sum, {a}+{b}. I add it step by step. Units: {steps[0]}, so I write {units % 10} and carry {carried}."
        f"{tens} Together it is {a + b}."
    )


def answer(a: int, b: int, steps: bool = False) -> str:
    """With the steps in it where there was no thinking: without them the model is nearly always wrong."""
    return f"{think(a, b, 'low')} " * steps + f"{a} + {b} = {a + b}."


def think_of_count(to: int, effort: str) -> str:
    if effort == "low":
        return f"Count to {to}."
    if effort == "high":
        return f"I am to count. I begin at 1 and stop at {to}."
    return f"I am to count. I begin at 1, say one number after the other, and stop at {to}. No manual is needed."


def count(to: int) -> str:
    return ", ".join(str(n) for n in range(1, to + 1)) + "."
