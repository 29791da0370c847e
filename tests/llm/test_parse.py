"""The parser: strict, total, and never wider than the schema."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloudrl import Simulator, load_scenario
from cloudrl.actions import N_OPS, OP_NAMES, Action, Op, n_actions
from cloudrl.llm.parse import NO_ACTION, Code, Parsed, parse
from cloudrl.llm.schema import MAX_CHARACTERS, MAX_REASON, action_schema, operations, reply
from cloudrl.safety.config import ActionSet
from cloudrl.types import INVALID
from tests.core.play import FULL
from tests.llm.fuzz import replies

N = 6
CHECK = jsonschema.Draft202012Validator(action_schema(N))
CHECK_ANY = jsonschema.Draft202012Validator(action_schema())


class _Twice(ValueError):
    """A key that comes twice at the top."""


@functools.lru_cache(100_000)
def contract_holds(text: str) -> bool:
    """The contract by other means: Python's own reading of JSON, told to be strict, and the schema."""

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in items}) < len(items):
            raise _Twice
        return dict(items)

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        if len(text.strip(" \t\n\r")) > MAX_CHARACTERS:
            return False
        value = json.loads(text.strip(" \t\n\r"), object_pairs_hook=pairs, parse_constant=refuse)
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return False
    return bool(CHECK.is_valid(value))


# ---------------------------------------------------------------- what is right


def test_every_action_has_one_canonical_text_and_it_is_understood() -> None:
    for index in range(n_actions(N)):
        action = Action.from_index(index, N)
        text = reply(action.op.name, action.slot)
        resource = None if action.op is Op.NOOP else f"r{action.slot}"
        assert parse(text, N) == Parsed(Code.ok, action.op, resource, index, None)
        assert contract_holds(text)


def test_flat_actions_follow_the_slots_of_the_space_not_the_resources_of_the_world() -> None:
    assert parse('{"action":"NOOP"}', 6, 25).action == 25 * N_OPS
    assert parse('{"action":"STOP","resource":"r5"}', 6, 25).action == 5 * N_OPS + Op.STOP
    assert parse('{"action":"STOP","resource":"r6"}', 6, 25).code == Code.unknown_resource


def test_order_of_keys_spaces_and_escapes_do_not_matter() -> None:
    text = ' \n{ "reason" : "\\u00e9" ,\t"resource":"r\\u0033", "\\u0061ction":"PATCH"}\r\n'
    assert parse(text, N) == Parsed(Code.ok, Op.PATCH, "r3", 3 * N_OPS + Op.PATCH, "é")


# ---------------------------------------------------------------- what is wrong

NOOP = '{"action":"NOOP"}'
WRONG = [
    ("", Code.not_json),
    ("  ", Code.not_json),
    ("PATCH r3", Code.not_json),
    ("Sure: " + NOOP, Code.not_json),
    ("```json\n" + NOOP + "\n```", Code.not_json),
    ('{"action":"NOOP"', Code.not_json),
    ("{'action':'NOOP'}", Code.not_json),
    ('{"action":"NOOP",}', Code.not_json),
    ('{"action":NaN}', Code.not_json),
    ('{"action":Infinity}', Code.not_json),
    ('{"action":"NO\nOP"}', Code.not_json),
    ('{"action":"\\x41"}', Code.not_json),
    ('{"action":"NOOP","reason":"\\ud800"}', Code.not_json),
    ('{"action":"NOOP","reason":"\ud800"}', Code.not_json),
    ("\ufeff" + NOOP, Code.not_json),
    ("\u00a0" + NOOP, Code.not_json),
    ("[" * 500, Code.not_json),
    (NOOP + NOOP, Code.trailing_text),
    (NOOP + " // nothing is due", Code.trailing_text),
    (NOOP + "\u00a0", Code.trailing_text),
    (NOOP + "\x00", Code.trailing_text),
    ("1 2", Code.trailing_text),
    ("[]", Code.not_an_object),
    ("[" + NOOP + "]", Code.not_an_object),
    ('"NOOP"', Code.not_an_object),
    ("null", Code.not_an_object),
    ("9" * 500, Code.not_an_object),
    ("[" * 200 + "]" * 200, Code.not_an_object),
    ('{"action":"NOOP","action":"NOOP"}', Code.duplicate_key),
    ('{"action":"STOP","\\u0061ction":"NOOP"}', Code.duplicate_key),
    ('{"action":"NOOP","note":1}', Code.unknown_key),
    ('{"Action":"NOOP"}', Code.unknown_key),
    ('{"action":"NOOP","resource":"r1"}', Code.unknown_key),
    ("{}", Code.missing_key),
    ('{"resource":"r1"}', Code.missing_key),
    ('{"action":"PATCH"}', Code.missing_key),
    ('{"action":1}', Code.wrong_type),
    ('{"action":["NOOP"]}', Code.wrong_type),
    ('{"action":{"action":"NOOP"}}', Code.wrong_type),
    ('{"action":"PATCH","resource":3}', Code.wrong_type),
    ('{"action":"PATCH","resource":null}', Code.wrong_type),
    ('{"action":"NOOP","reason":null}', Code.wrong_type),
    ('{"action":"patch","resource":"r1"}', Code.unknown_action),
    ('{"action":"REBOOT","resource":"r1"}', Code.unknown_action),
    ('{"action":"REBOOT"}', Code.unknown_action),
    ('{"action":"PATCH","resource":"r6"}', Code.unknown_resource),
    ('{"action":"PATCH","resource":"r01"}', Code.unknown_resource),
    ('{"action":"PATCH","resource":"R1"}', Code.unknown_resource),
    ('{"action":"PATCH","resource":"r1 "}', Code.unknown_resource),
    ('{"action":"PATCH","resource":"r1\\n"}', Code.unknown_resource),
    ('{"action":"NOOP","reason":"' + "x" * (MAX_REASON + 1) + '"}', Code.too_long),
    (NOOP + "x" * MAX_CHARACTERS, Code.too_long),
    ("[" * 1_000_000, Code.too_long),
]


@pytest.mark.parametrize(("text", "code"), WRONG, ids=range(len(WRONG)))
def test_what_is_wrong_is_said(text: str, code: Code) -> None:
    parsed = parse(text, N)
    assert (parsed.code, parsed.action) == (code, NO_ACTION)
    assert not contract_holds(text)


def test_every_code_is_reached_and_is_a_plain_string() -> None:
    assert {code for _, code in WRONG} | {Code.ok} == set(Code)
    assert json.dumps(parse("", N).code) == '"not_json"'


@pytest.mark.parametrize("text", [None, 3, b'{"action":"NOOP"}', ["NOOP"]])
def test_what_is_no_text_is_rejected_too(text: Any) -> None:
    assert parse(text, N).code == Code.not_json


def test_a_rejected_reply_played_anyway_does_nothing_and_is_counted() -> None:
    sim = Simulator(load_scenario("easy"))
    sim.reset([0])
    sim.step([parse("garbage", N).action])
    assert sim.state.worlds["executed"][0] == sim.noop and sim.state.worlds["verdict"][0] == INVALID


# ---------------------------------------------------------------- thinking


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("<think></think>" + NOOP, Code.ok),
        ("\n<think>\nr3 looks bad {} </think>\n\n" + NOOP, Code.ok),
        ("<think>" + "hm " * 100_000 + "</think>" + NOOP, Code.ok),
        (NOOP, Code.ok),
        ("<think>" + NOOP, Code.not_json),
        ("<think>" + "x" * 10_000, Code.not_json),
        ("<think>a</think><think>b</think>" + NOOP, Code.not_json),
        ("well <think>a</think>" + NOOP, Code.not_json),
        ("</think>" + NOOP, Code.not_json),
        ("<think>a</think>" + NOOP + "<think>b</think>", Code.trailing_text),
        ("<think>a</think>" + NOOP + " " * 1000 + "x", Code.too_long),
    ],
)
def test_a_think_block_is_left_out_where_the_model_thinks(text: str, code: Code) -> None:
    assert parse(text, N, thinks=True).code == code
    if text.startswith("<"):
        assert parse(text, N).code in (Code.not_json, Code.too_long)


# ---------------------------------------------------------------- the schema


def test_the_schema_is_a_schema_and_agrees_on_the_action_sets() -> None:
    for actions in ActionSet:
        schema = action_schema(N, actions)
        jsonschema.Draft202012Validator.check_schema(schema)
        validator = jsonschema.Draft202012Validator(schema)
        for op in OP_NAMES:
            value = {"action": op} if op == "NOOP" else {"action": op, "resource": "r0"}
            known = op in operations(actions) or op == "NOOP"
            accepted = parse(json.dumps(value), N, actions=actions).code == Code.ok
            assert validator.is_valid(value) == known == accepted
    assert len(operations(ActionSet.core)) == 8 and len(operations()) == 12


def test_the_schema_without_a_world_accepts_what_some_world_does() -> None:
    for slot in (0, 9, 10, 999):
        assert CHECK_ANY.is_valid({"action": "PATCH", "resource": f"r{slot}"})
    for name in ("r", "r01", "x1", "r1x", " r1"):
        assert not CHECK_ANY.is_valid({"action": "PATCH", "resource": name})


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "cloudrl.llm.schema", *arguments], capture_output=True, text=True)


def test_the_schema_as_a_file(tmp_path: Path) -> None:
    out = tmp_path / "action.schema.json"
    done = command("--resources", "6", "--actions", "core", "--out", str(out))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert json.loads(out.read_text()) == action_schema(6, ActionSet.core)
    assert [path.name for path in tmp_path.iterdir()] == ["action.schema.json"]
    failed = command("--out", str(tmp_path / "no" / "folder.json"))
    assert failed.returncode == 1 and failed.stderr.count("\n") == 1 and "check --out" in failed.stderr
    failed = command("--resources", "0")
    assert failed.returncode == 1 and failed.stderr == "cloudrl: --resources 0: must be in [1, 1000]\n"


# ---------------------------------------------------------------- any text at all


def test_fuzz() -> None:
    """Never raises; accepts exactly what JSON and the schema accept. A million inputs at the full size."""
    n = 1_000_000 if FULL else 40_000
    codes: Counter[str] = Counter()
    for text in replies(seed=0, n=n):
        parsed = parse(text, N)
        codes[parsed.code] += 1
        accepted = parsed.code == Code.ok
        assert accepted == contract_holds(text), f"{parsed} of {text[:300]!r}"
        assert (0 <= parsed.action < n_actions(N)) == accepted
        thought = parse(text, N, thinks=True)
        if not text.lstrip(" \t\n\r").startswith("<think>"):
            assert thought == parsed
        elif thought.code == Code.ok:
            assert contract_holds(text.partition("</think>")[2])
    assert codes.keys() == set(Code), f"the fuzz misses {set(Code) - codes.keys()}"
    assert codes["ok"] > n // 20


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=80) | st.text(alphabet='{}[]":,\\ actionresuNOP0123', max_size=60))
def test_any_text(text: str) -> None:
    assert (parse(text, N).code == Code.ok) == contract_holds(text)


@settings(max_examples=300, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8) | st.sampled_from(OP_NAMES),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["action", "resource", "reason", "x"]) | st.text(max_size=3), inner, max_size=4
            )
        ),
        max_leaves=8,
    )
)
def test_any_json(value: Any) -> None:
    text = json.dumps(value)
    assert (parse(text, N).code == Code.ok) == contract_holds(text)


def test_it_is_fast() -> None:
    """50 us for a normal action, on a machine that may be busy: the best of several rounds."""
    texts = [
        '{"action":"PATCH","resource":"r3"}',
        '{"action": "ROTATE_CREDS", "resource": "r5", "reason": "credentials are 140 days old"}',
    ]
    for text in texts:
        best = min(_seconds(text, 1000) for _ in range(7))
        assert best < 50e-6, f"{best * 1e6:.1f} us"


def _seconds(text: str, n: int) -> float:
    start = time.perf_counter()
    for _ in range(n):
        parse(text, N)
    return (time.perf_counter() - start) / n
