"""The chat format: renders conversations to token ids and checks completions strictly. Knows no facts, no training."""

from dataclasses import dataclass

from tokenizer import Tokenizer

EFFORTS = ("low", "high", "max")
OFF = "off"  # no think channel, and no effort message

EFFORT_BODY = (
    "`thinking_effort` guides on how much to think in your thinking channel (not including the response channel), "
    "supported values include `low`, `medium`, `high`, and `max`.\n"
    "Now the system is invoked with `thinking_effort={}`."
)


@dataclass(frozen=True)
class Turn:
    user: str
    think: str  # not rendered without thinking
    response: str


class Chat:
    """Renders as the official encoder does: every piece of text is encoded on its own, markers are single ids."""

    def __init__(self, tokenizer: Tokenizer):
        self.tok = tokenizer
        self.known: dict[str, list[int]] = {}

    def text(self, text: str) -> list[int]:
        if text not in self.known:
            self.known[text] = self.tok.encode(text)
        return self.known[text]

    def special(self, name: str) -> int:
        return self.tok.special[f"<|{name}|>"]

    def open(self, tag: str, **attributes: str) -> list[int]:
        ids = [self.special("open"), *self.text(tag)]
        for key, value in attributes.items():
            value = value.replace("&", "&amp;").replace('"', "&quot;")
            ids += self.text(" " + key) + self.text('="') + self.text(value) + self.text('"')
        return [*ids, self.special("sep")]

    def close(self, tag: str) -> list[int]:
        return [self.special("close"), *self.text(tag), self.special("sep")]

    def message(self, body: list[int], **attributes: str) -> list[int]:
        return self.open("message", **attributes) + body + self.close("message") + [self.special("end_of_msg")]

    def start(self, effort: str, system: str = "") -> list[int]:
        """What stands before the first turn."""
        ids = []
        if effort != OFF:
            ids += self.message(self.text(EFFORT_BODY.format(effort)), role="system", type="thinking-effort")
        return ids + (self.message(self.text(system), role="system") if system else [])

    def prompt(self, user: str, effort: str) -> list[int]:
        """A user message and the generation prompt."""
        ids = self.message(self.text(user), role="user") + self.open("message", role="assistant")
        return ids + self.open("response" if effort == OFF else "think")

    def completion(self, turn: Turn, effort: str) -> list[int]:
        """What the model is to write after `prompt`, its end id included."""
        think = [] if effort == OFF else self.text(turn.think) + self.close("think") + self.open("response")
        end = self.close("response") + self.close("message") + [self.special("end_of_msg")]
        return think + self.text(turn.response) + end

    def ends(self) -> set[int]:
        """The ids after which no more is generated."""
        return {self.special("end_of_msg"), self.tok.special["[EOS]"]}

    def parse(self, ids: list[int], effort: str) -> tuple[str, str]:
        """Think and response text of a completion. Raises ValueError for anything outside the grammar."""
        think = []
        if effort != OFF:
            think, ids = cut(ids, self.close("think") + self.open("response"), "no end of the think channel")
        response, rest = cut(ids, self.close("response") + self.close("message"), "no end of the response channel")
        if len(rest) != 1 or rest[0] not in self.ends():
            raise ValueError("no end id right after the message")
        if any(id >= self.tok.base for id in think + response):
            raise ValueError("a special token inside a channel")
        return self.tok.decode(think), self.tok.decode(response)


def cut(ids: list[int], pattern: list[int], problem: str) -> tuple[list[int], list[int]]:
    """What stands before and after the first occurrence of the pattern."""
    for at in range(len(ids) - len(pattern) + 1):
        if ids[at : at + len(pattern)] == pattern:
            return ids[:at], ids[at + len(pattern) :]
    raise ValueError(problem)
