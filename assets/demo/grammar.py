"""Small grammars of wordings: `[a|b|]` is a choice, `<name>` a part that has a name. Only reads and draws; no wordings."""

import random
import re

Tree = list["str | list[Tree]"]  # a sequence of texts and choices; a choice is a list of trees

# Parts that many wordings share.
PARTS = {
    "how": "[how [do|can|could|should|would|may] i|how to|how do you|how do we|what do i [type|press|use|do] to|"
    "what is the [command|way|key] to|is there a [way|command] to|i want to|i would like to|can i|where do i|"
    "which command do i need to|tell me how to|how is it possible to|i need to|how does one|show me how to]",
    "can": "[can|could|would|will|may]",
    "exist": "[are there|do you have|does it have|exist|can i use|can i choose from]",
}


def parse(text: str) -> list[Tree]:
    """The choice between the parts of `text` that stand between its outer bars. Raises ValueError where brackets do not
    match."""
    while names := re.findall(r"<(\w+)>", text):
        for name in names:
            text = text.replace(f"<{name}>", PARTS[name])
    stack: list[list[Tree]] = [[[]]]
    for piece in re.findall(r"[\[\]|]|[^\[\]|]+", text):
        if piece == "[":
            stack.append([[]])
        elif piece == "]":
            if len(stack) == 1:
                raise ValueError(f"a bracket too many in {text!r}")
            choice = stack.pop()
            stack[-1][-1].append(choice)
        elif piece == "|":
            stack[-1].append([])
        else:
            stack[-1][-1].append(piece)
    if len(stack) > 1:
        raise ValueError(f"an open bracket in {text!r}")
    return stack[0]


def count(choice: list[Tree]) -> int:
    """How many wordings there are, equal ones counted twice."""
    total = 0
    for tree in choice:
        product = 1
        for part in tree:
            product *= 1 if isinstance(part, str) else count(part)
        total += product
    return total


def weight(tree: Tree) -> float:
    """Wordings of many forms are drawn more often, but less than in proportion."""
    return count([tree]) ** 0.35


class Grammar:
    """One set of wordings."""

    def __init__(self, text: str):
        self.choice = parse(text)
        self.weights = [weight(tree) for tree in self.choice]

    def draw(self, rng: random.Random) -> str:
        """One wording, with single spaces."""
        (tree,) = rng.choices(self.choice, self.weights)
        return " ".join(walk(tree, rng).split())


def walk(tree: Tree, rng: random.Random) -> str:
    return "".join(part if isinstance(part, str) else walk(rng.choice(part), rng) for part in tree)
