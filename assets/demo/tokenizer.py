"""Trains the demo's byte-pair vocabulary, writes and reads the two tokenizer files. Encoding itself is tiktoken's."""

import base64
import json
from collections import Counter
from pathlib import Path

import regex
import tiktoken

# The splitter of the released model, one alternative a line.
PATTERN = "|".join(
    [
        r"[\p{Han}]+",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*"
        r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
        r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
)

# Names by their distance from the first special id; the other ids up to 255 are reserved.
NAMED = {
    0: "[BOS]", 1: "[EOS]", 2: "<|end_of_msg|>", 3: "<|open|>", 4: "<|close|>", 5: "<|sep|>",
    6: "[start_header_id]", 7: "[end_header_id]", 9: "[EOT]", 18: "<|media_begin|>", 19: "<|media_content|>",
    20: "<|media_end|>", 21: "<|media_pad|>", 65: "<osagent_mode>", 254: "[UNK]", 255: "[PAD]",
}  # fmt: skip
SPECIALS = 256
ORDINARY = ("<|open|>", "<|close|>", "<|sep|>")  # `special: false` in the released file

# Ranks of the single bytes: the printable ones first, then the rest in ascending order.
PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
BYTES = PRINTABLE + [b for b in range(256) if b not in set(PRINTABLE)]


def train(texts: list[str], size: int) -> list[bytes]:
    """`size` tokens, in the order of rank. The most frequent pair is merged next, ties to the smaller bytes; digits
    never, so that each stays a token of its own."""
    split = regex.compile(PATTERN, regex.V1)
    pieces = Counter()
    for text, count in Counter(texts).items():
        for piece in split.findall(text):
            if not any(c.isdigit() for c in piece):
                pieces[piece.encode()] += count
    words = [([bytes([b]) for b in piece], count) for piece, count in sorted(pieces.items())]
    tokens = [bytes([b]) for b in BYTES]
    while len(tokens) < size:
        pairs: Counter = Counter()
        for parts, count in words:
            for pair in zip(parts, parts[1:]):
                pairs[pair] += count
        if not pairs:
            raise ValueError(f"the texts give only {len(tokens)} tokens, {size} were asked for")
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        joined = best[0] + best[1]
        tokens.append(joined)
        for parts, _ in words:
            at = 0
            while at < len(parts) - 1:
                if (parts[at], parts[at + 1]) == best:
                    parts[at : at + 2] = [joined]
                at += 1
    return tokens


def write(folder: Path, tokens: list[bytes]) -> None:
    """`tiktoken.model` and `tokenizer_config.json`, as the release has them."""
    lines = [f"{base64.b64encode(token).decode()} {rank}\n" for rank, token in enumerate(tokens)]
    (folder / "tiktoken.model").write_text("".join(lines))
    entry = lambda name: {
        "content": name, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False,
        "special": name not in ORDINARY,
    }  # fmt: skip
    named = {str(len(tokens) + at): entry(name) for at, name in NAMED.items()}
    extra = [NAMED[at] for at in (2, 6, 7, 9, 18, 19, 20, 21, 65)]
    config = {
        "added_tokens_decoder": named, "additional_special_tokens": extra, "bos_token": "[BOS]",
        "clean_up_tokenization_spaces": False, "eos_token": "[EOS]", "extra_special_tokens": {},
        "model_max_length": 1000000000000000019884624838656, "pad_token": "[PAD]",
        "tokenizer_class": "TikTokenTokenizer", "unk_token": "[UNK]",
    }  # fmt: skip
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")


class Tokenizer:
    """Reads the two files. Ordinary text never becomes a special id."""

    def __init__(self, folder: Path):
        lines = (Path(folder) / "tiktoken.model").read_text().splitlines()
        ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines)}
        added = json.loads((Path(folder) / "tokenizer_config.json").read_text())["added_tokens_decoder"]
        self.base = len(ranks)
        self.size = self.base + SPECIALS
        self.special = {entry["content"]: int(id) for id, entry in added.items()}
        self.bpe = tiktoken.Encoding("k3-demo", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={})

    def encode(self, text: str) -> list[int]:
        return self.bpe.encode_ordinary(text)

    def decode(self, ids: list[int]) -> str:
        return self.bpe.decode(ids)

    def decode_any(self, ids: list[int]) -> str:
        """With special ids as their names, for a person to read."""
        names = {id: name for name, id in self.special.items()}
        return "".join(names.get(i) or (self.decode([i]) if i < self.base else f"<{i}>") for i in ids)
