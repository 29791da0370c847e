"""How many tokens SmolLM2's tokenizer makes of a compact prompt, from a committed table of its pieces.

The tokenizer first cuts a text into words (each with the space before it), digits and signs, and never joins
two of them. So the length of a text is a sum over its pieces. `smollm2_tokens.json` has the pieces that compact
prompts are made of; CLOUDRL_SMOLLM2=<folder with tokenizer.json> python -m tests.llm.tokens writes it anew.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from cloudrl.llm import compact
from cloudrl.llm.bands import RESOURCE_FACTS, WORLD_FACTS

TABLE = Path(__file__).with_name("smollm2_tokens.json")
TEMPLATE = (
    "<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{user}<|im_end|>\n<|im_start|>assistant\n"
)  # fmt: skip
"""SmolLM2's chat template for one system and one user message."""
_PIECE = re.compile(r"<\|im_start\|>|<\|im_end\|>| ?[A-Za-z]+|[0-9]|[^A-Za-z0-9]")


def chat(user: str) -> str:
    """The whole prompt that the model gets: template, system line and state."""
    return TEMPLATE.format(system=compact.SYSTEM, user=user)


def count(text: str) -> int:
    """Tokens of a compact prompt. Raises KeyError for a piece that the table does not have."""
    return sum(_table()[piece] for piece in _PIECE.findall(text))


def real_tokenizer() -> Any:
    """SmolLM2's tokenizer from the folder CLOUDRL_SMOLLM2, None without it."""
    folder = os.environ.get("CLOUDRL_SMOLLM2")
    if folder is None:
        return None
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))


def pieces() -> list[str]:
    """Everything that a compact prompt is made of."""
    facts = (*RESOURCE_FACTS, *WORLD_FACTS)
    words = {word for fact in facts for word in (fact.name, *fact.bands) if word} | {*compact._OPS, "avoid", "r"}
    out = {form for word in words for form in (word, f" {word}")} | set(":\n0123456789")
    return sorted(out | set(_PIECE.findall(chat(""))))


_cache: dict[str, int] = {}


def _table() -> dict[str, int]:
    if not _cache:
        _cache.update(json.loads(TABLE.read_text()))
    return _cache


if __name__ == "__main__":
    tokenizer = real_tokenizer()
    if tokenizer is None:
        raise SystemExit("set CLOUDRL_SMOLLM2 to a folder with SmolLM2's tokenizer.json")
    table = {piece: len(tokenizer.encode(piece, add_special_tokens=False).ids) for piece in pieces()}
    TABLE.write_text(json.dumps(table, indent=1) + "\n")
