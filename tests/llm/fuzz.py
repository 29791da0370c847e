"""Replies as a confused model, or an attacker, would write them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from cloudrl.actions import OP_NAMES

PIECES = (
    *'{}[]":,\\/ \t\n\r0123456789.eE+-tfnrauN',
    *("true", "false", "null", "NaN", "-Infinity", "1e999", "\\u0000", "\\ud800", "\\ud83d\\ude00", "\\u0061"),
    *"\x00\x1f\x7f\x85\u2028\ufeff\u200b\u00a0é𝕁\ud800ʀＡ٣",
    *('"action"', '"resource"', '"reason"', "NOOP", "PATCH", "r3", "<think>", "</think>", "```json", "```", "//x"),
)
NAMES = (*OP_NAMES, "patch", "PATCH ", "REBOOT", "", "noop", "N00P", "PATCH\u0000")
RESOURCES = (*(f"r{k}" for k in range(8)), "r-1", "r03", "R1", "r1 ", "r", "r1\n", "web-1", "r999999", "r٣", "")
KEYS = ("action", "resource", "reason", "Action", "actions", "action ", "", "\u0430ction", "op")


def valid(rng: random.Random) -> str:
    """A reply that keeps the contract in a world of six resources, written in one of many ways."""
    op = rng.choice(OP_NAMES)
    pairs = [("action", op)]
    if op != "NOOP":
        pairs.append(("resource", f"r{rng.randrange(6)}"))
    if rng.random() < 0.3:
        pairs.append(("reason", rng.choice(["", "it is open", 'é 𝕁 \\ " / \n', "x" * 200, "{}[]", "</think>"])))
    rng.shuffle(pairs)
    text = json.dumps(
        dict(pairs), ensure_ascii=rng.random() < 0.5, indent=rng.choice([None, None, 0, 2, "\t"]),
        separators=rng.choice([None, (",", ":"), (" ,", " : ")]),
    )  # fmt: skip
    if rng.random() < 0.1:
        text = text.replace("a", "\\u0061", 1) if rng.random() < 0.5 else text.replace('"NOOP"', '"\\u004EOOP"')
    space = lambda: "".join(rng.choices(" \t\n\r", k=rng.randrange(3)))  # noqa: E731
    return space() + text + space()


def mutated(rng: random.Random) -> str:
    """A valid reply with a few wounds."""
    text = valid(rng)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        a, b = sorted((rng.randrange(len(text) + 1), rng.randrange(len(text) + 1)))
        b = min(b, a + rng.choice((1, 1, 2, 5, 40)))
        kind = rng.randrange(7)
        piece = "".join(rng.choices(PIECES, k=rng.choice((1, 1, 2, 4))))
        if kind == 0:
            text = text[:a] + text[b:]
        elif kind == 1:
            text = text[:a] + piece + text[a:]
        elif kind == 2:
            text = text[:a] + piece + text[b:]
        elif kind == 3:
            text = text[:b] + text[a:b] + text[b:]
        elif kind == 4:
            text = text[:a] if rng.random() < 0.5 else text[a:]
        elif kind == 5:
            text = text + rng.choice(("", " ", "\n", ",")) + valid(rng)
        else:
            text = text[:a] + text[a:b].swapcase() + text[b:]
    return text


def value(rng: random.Random, depth: int = 0) -> Any:
    """Any JSON value, and some that Python would write and JSON does not know."""
    kind = rng.randrange(10 if depth < 3 else 6)
    if kind < 2:
        return rng.choice(NAMES)
    if kind < 4:
        return rng.choice(RESOURCES)
    if kind == 4:
        return rng.choice([None, True, False, 0, -1, 3, 1.5, 1e308, 10**30, float("nan"), float("inf")])
    if kind == 5:
        return "".join(rng.choices(PIECES, k=rng.randrange(4)))
    if kind < 8:
        return {rng.choice(KEYS): value(rng, depth + 1) for _ in range(rng.randrange(4))}
    return [value(rng, depth + 1) for _ in range(rng.randrange(3))]


def structured(rng: random.Random) -> str:
    """JSON of another shape; keys may come twice."""
    pairs = [
        (rng.choice(KEYS), rng.choice(NAMES) if rng.random() < 0.5 else value(rng))
        for _ in range(rng.randrange(5))
    ]
    if rng.random() < 0.7:
        pairs = [("action", rng.choice(NAMES)), ("resource", rng.choice(RESOURCES)), *pairs]
    written = ", ".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in pairs)
    return "{" + written + "}" if rng.random() < 0.9 else json.dumps(value(rng))


def garbage(rng: random.Random) -> str:
    """Pieces in any order, or any characters at all."""
    if rng.random() < 0.5:
        return "".join(rng.choices(PIECES, k=rng.randrange(40)))
    return "".join(chr(rng.randrange(0x110000)) for _ in range(rng.randrange(40)))


def bomb(rng: random.Random) -> str:
    """Depth, length and numbers beyond reason."""
    n = rng.choice((50, 400, 511, 512, 513, 5_000, 100_000))
    deep = rng.choice(('{"action":', "[", '{"action":[', "[{", "[[], "))
    if (kind := rng.randrange(6)) == 0:
        return deep * n
    if kind == 1:
        return '{"action": ' + "[" * n + "]" * n + "}"
    if kind == 2:
        return '{"action": ' + rng.choice("-1") + "9" * n + rng.choice(("", ".5", "e9", "e" + "9" * 400)) + "}"
    if kind == 3:
        return '{"action":"NOOP","reason":"' + "x" * n + '"}'
    if kind == 4:
        return " " * n + '{"action":"NOOP"}' + "\n" * n
    return "<think>" + "hm " * n + rng.choice(("</think>", "")) + '{"action":"NOOP"}'


def megabyte(rng: random.Random) -> str:
    """One character, or one reply, until there is a megabyte of it."""
    unit = rng.choice((" ", "a", "{", '"', "\\", "\\u0061", "𝕁", '{"action":"NOOP"}', "<think>", "9"))
    return rng.choice(("", '{"action":"', '{"action":"NOOP","reason":"', '"')) + unit * (1_000_000 // len(unit))


_KINDS: tuple[tuple[Callable[[random.Random], str], int], ...] = (
    (valid, 300), (mutated, 1000), (structured, 400), (garbage, 200), (bomb, 40), (megabyte, 1),
)  # fmt: skip


def replies(seed: int, n: int) -> Iterator[str]:
    """`n` of them."""
    rng = random.Random(seed)
    makers, weights = zip(*_KINDS, strict=True)
    for make in rng.choices(makers, weights, k=n):
        yield make(rng)
