"""Whether a difference is real: on differences that are, and on some that are not."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from cloudrl.errors import UserError
from evaluation import compare as module
from evaluation.compare import between, compare, within
from evaluation.results import Results
from tests.evaluation.synthetic import agent, noop_bills, results, usual


def test_a_difference_that_is_there() -> None:
    (found,) = within(usual(), ["noop", "runbook"])
    assert (found.a, found.b, found.worlds) == ("noop", "runbook", 40)
    assert found.real and found.saves.low > 15 and found.saves.mean == pytest.approx(20, abs=2)
    assert found.wins.mean == 1.0
    assert found.score is not None and found.score.mean == pytest.approx(50, abs=5)
    assert found.sentence().startswith("'runbook' is cheaper than 'noop': it saves $")


def test_the_other_way_round_is_the_same_sentence() -> None:
    (one,), (other,) = within(usual(), ["noop", "runbook"]), within(usual(), ["runbook", "noop"])
    assert other.saves.mean == -one.saves.mean and other.wins.mean == 1 - one.wins.mean
    assert one.sentence() == other.sentence()


def test_no_difference_is_shown_where_there_is_only_noise() -> None:
    """Two agents alike: at most one in ten of forty pairs may be called different (95 % intervals)."""
    rng = np.random.default_rng(11)
    noop = noop_bills()
    called = 0
    for _ in range(40):
        a, b = (agent(name, noop + 5 * rng.normal(size=40)) for name in "ab")
        called += compare(a, b).real
    assert called <= 4


def test_the_sentence_says_how_many_worlds_it_would_take() -> None:
    difference = np.tile([-9.0, 11.0], 20)  # mean 1, sd 10
    found = compare(agent("a", 100 + difference), agent("b", np.full(40, 100.0)))
    assert not found.real and found.saves.mean == 1.0
    assert "No difference between 'b' and 'a' is shown" in found.sentence()
    assert f"some {found.needed} worlds" in found.sentence() and found.needed == 395


def test_the_same_agent_twice() -> None:
    found = compare(agent("a", noop_bills()), agent("b", noop_bills()))
    assert (
        not found.real and found.needed is None and "cost the same in every one of 40 worlds" in found.sentence()
    )


def test_everybody_against_the_runbook_or_whom_one_names() -> None:
    assert [(c.a, c.b) for c in within(usual())] == [
        ("runbook", "noop"), ("runbook", "ruin"), ("runbook", "oracle (clairvoyant)"),
    ]  # fmt: skip
    assert {c.a for c in within(usual(), against="noop")} == {"noop"}
    without = results([agent("noop", noop_bills()), agent("x", noop_bills() + 1)])
    assert [(c.a, c.b) for c in within(without)] == [("noop", "x")]


def test_two_runs() -> None:
    a, b = usual(), usual()
    b.agents["runbook"] = agent("runbook", a.agents["runbook"]["bill"] - 3)
    found = between(a, b, name_a="old", name_b="new")
    assert [c.b for c in found][:2] == ["noop of new", "runbook of new"]
    assert found[0].saves.mean == 0 and found[1].saves.mean == pytest.approx(3)
    (other,) = between(a, b, ["ruin", "runbook"])
    assert other.a == "ruin of the first run" and other.b == "runbook of the second"


def with_suite(**changes: object) -> Results:
    made = usual()
    made.suite = dataclasses.replace(made.suite, **changes)  # type: ignore[arg-type]
    return made


REFUSED = {
    "suite": (with_suite(name="CloudOps-Other"), "name CloudOps-Made-Up and CloudOps-Other"),
    "version": (with_suite(version=2), "version 1 and 2"),
    "prices": (with_suite(prices_hash="q"), "prices hash"),
    "dynamics": (with_suite(code="d"), "code"),
    "safety": (with_suite(safety="off"), "safety enforce and off"),
    "seeds": (usual(39), "seeds 10000-10039 .40 worlds. and 10000-10038"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_compared(case: str) -> None:
    other, message = REFUSED[case]
    with pytest.raises(UserError, match=message) as caught:
        between(usual(), other)
    assert "cannot be compared" in str(caught.value) and "\n" not in str(caught.value)


def test_two_runs_without_a_common_agent() -> None:
    a, b = (results([agent(name, noop_bills())]) for name in ("x", "y"))
    with pytest.raises(UserError, match="share no agent"):
        between(a, b)
    assert len(between(a, b, ["x", "y"])) == 1


# ---- the command -----------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> str:
    usual().write(tmp_path)
    return str(tmp_path)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    try:
        module.main(list(arguments))
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    out, err = capsys.readouterr()
    return code, out, err


def test_command(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, folder, "--agents", "noop", "runbook")
    assert code == 0 and "'runbook' is cheaper than 'noop'" in out
    code, out, _ = run(capsys, folder, "--json")
    rows = json.loads(out)
    assert code == 0 and len(rows) == 3 and rows[0]["real"] and len(rows[0]["saves"]) == 3
    code, out, _ = run(capsys, folder, folder)
    assert code == 0 and "World by world, 40 worlds" in out and "runbook of B" in out and f"A is {folder}" in out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--agents", "noop"], 1, "two names, not 1"),
        (["--agents", "noop", "runbok"], 1, "did you mean 'runbook'"),
        (["--agents", "noop", "broken"], 1, "has no results"),
        (["--against", "nobody"], 1, "no agent 'nobody'"),
        (["/nowhere"], 1, "no results.json"),
        (["--what"], 2, "unrecognized"),
    ],
)
def test_wrong_input(
    arguments: list[str], code: int, message: str, folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found, out, err = run(capsys, folder, *arguments)
    assert found == code and message in err and out == ""
    assert code == 2 or err.count("\n") == 1
