"""Results come back from the file as they went in; what is damaged, foreign or missing is one line."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloudrl.errors import UserError
from evaluation.results import AgentResult, Results
from evaluation.score import ratio_of_sums, regret, scores, tied
from tests.evaluation.synthetic import agent, noop_bills, usual


def same(a: Results, b: Results) -> None:
    assert a.plain() == b.plain()
    for one, other in zip(a, b, strict=True):
        for name in one.metrics:
            assert np.array_equal(one[name], other[name], equal_nan=True)
        assert (one.actions is None) == (other.actions is None)
        assert one.actions is None or (other.actions is not None and np.array_equal(one.actions, other.actions))


def test_a_file_holds_everything(tmp_path: Path) -> None:
    before = usual()
    before.agents["runbook"].actions = np.arange(40 * 288).reshape(40, 288) % 145
    before.agents["noop"].metrics["served"][3] = np.nan
    before.write(tmp_path)
    same(before, Results.read(tmp_path))
    same(before, Results.read(tmp_path / "results.json"))


def test_the_same_results_give_the_same_bytes(tmp_path: Path) -> None:
    files = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        made = usual()
        made.agents["noop"].actions = np.full((40, 288), 144)
        made.write(tmp_path / name)
        files.append([(tmp_path / name / f).read_bytes() for f in ("results.json", "actions.npz")])
    assert files[0] == files[1]
    Results.read(tmp_path / "a").write(tmp_path / "b")
    assert (tmp_path / "b" / "results.json").read_bytes() == files[0][0]


def test_the_file_is_json_for_everybody(tmp_path: Path) -> None:
    made = usual()
    made.agents["noop"].metrics["reward"][0] = np.nan
    made.write(tmp_path)

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not json")

    data = json.loads((tmp_path / "results.json").read_text(), parse_constant=refuse)
    assert data["agents"]["noop"]["metrics"]["reward"][0] is None


@given(st.integers(1, 20), st.data())
def test_taking_and_joining(worlds: int, data: st.DataObject) -> None:
    whole = agent("a", np.arange(worlds, dtype=float))
    whole.actions = np.arange(worlds)[:, None] + np.zeros((1, 5), np.int64)
    cut = data.draw(st.integers(0, worlds))
    back = AgentResult.join([whole.take(slice(0, cut)), whole.take(np.arange(cut, worlds))])
    assert back.ops is not None and whole.ops is not None and back.actions is not None
    assert np.array_equal(back["bill"], whole["bill"]) and np.array_equal(back.ops, whole.ops)
    assert np.array_equal(back.actions, whole.actions)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(format=99), "not results of this version"),
        (lambda d: d["agents"]["noop"]["metrics"].pop("bill"), "has no bill"),
        (lambda d: d["agents"]["noop"]["metrics"]["reward"].pop(), "39 rows of reward for 40 worlds"),
        (lambda d: d["oracle"].pop(), "39 oracle bills"),
        (lambda d: d.pop("suite"), "damaged"),
        (lambda d: d["suite"].update(color="red"), "damaged"),
        (
            lambda d: d["agents"]["noop"]["metrics"].update(bill=["a lot"] * 40),
            "something else than numbers as bill",
        ),
        (lambda d: d.update(agents=["noop"]), "damaged"),
    ],
)
def test_damage_is_one_line(change: object, message: str, tmp_path: Path) -> None:
    usual().write(tmp_path)
    data = json.loads((tmp_path / "results.json").read_text())
    change(data)  # type: ignore[operator]
    (tmp_path / "results.json").write_text(json.dumps(data))
    with pytest.raises(UserError, match=message) as caught:
        Results.read(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_cut_file_of_actions_is_one_line(tmp_path: Path) -> None:
    made = usual()
    made.agents["noop"].actions = np.full((40, 288), 144)
    made.write(tmp_path)
    whole = (tmp_path / "actions.npz").read_bytes()
    (tmp_path / "actions.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match=r"actions\.npz: damaged"):
        Results.read(tmp_path)


def test_missing_files_and_agents(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no results\.json"):
        Results.read(tmp_path)
    (tmp_path / "results.json").write_text("{")
    with pytest.raises(UserError, match="not valid json"):
        Results.read(tmp_path)
    with pytest.raises(UserError, match="did you mean 'runbook'"):
        usual().agent("runbok")
    with pytest.raises(UserError, match="has no results: no class"):
        usual().agent("broken")


def test_suites_differ_in_what_decides_a_bill() -> None:
    suite = usual().suite
    assert suite.difference(dataclasses.replace(suite)) is None
    assert suite.difference(dataclasses.replace(suite, scenario="another/file")) is None  # the same worlds
    for field in ("name", "version", "scenario_hash", "prices_hash", "code", "ticks", "safety", "memory"):
        changed = dataclasses.replace(suite, **{field: "x"})
        assert suite.difference(changed) is not None


# ---- the score -------------------------------------------------------------------------------------------------


def test_score_by_hand() -> None:
    noop, oracle = np.array([100.0, 100.0, 100.0, 100.0, 100.0]), np.array([50.0, 50.0, 50.0, 50.0, 99.0])
    bill = np.array([100.0, 50.0, 75.0, 500.0, 0.0])
    assert scores(bill, noop, oracle)[:4].tolist() == [0.0, 100.0, 50.0, -100.0]
    assert np.isnan(scores(bill, noop, oracle)[4])  # 1 % of the idle bill is no ruler
    assert tied(noop, oracle).tolist() == [False] * 4 + [True]
    assert regret(bill, oracle).tolist() == [50.0, 0.0, 25.0, 450.0, -99.0]
    assert ratio_of_sums(bill[:3], noop[:3], oracle[:3]) == pytest.approx(100 * 75 / 150)


def test_an_oracle_that_is_beaten_is_still_a_hundred() -> None:
    noop = noop_bills()
    found = scores(noop - 60, noop, noop - 40)
    assert (found == 100.0).all()
