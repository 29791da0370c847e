"""The score table, against rows worked out by hand."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from cloudrl.reward.bill import BILL_PARTS
from evaluation import table
from evaluation.rollout import Episodes

NAMES = ("served", "violations", "vetoed", "invalid", "cascades", "breaches", "crashes", "operations")


def episodes(reward: list[float], bill: list[float], won: list[bool], **more: list[float]) -> Episodes:
    n = len(reward)
    values: dict[str, Any] = {name: np.array(more.get(name, [0.0] * n)) for name in NAMES}
    parts = {part: np.full(n, float(i)) for i, part in enumerate(BILL_PARTS)}
    return Episodes(
        seeds=np.arange(n), reward=np.array(reward), bill=np.array(bill), parts=parts, won=np.array(won), ops=None,
        **values,
    )  # fmt: skip


RESULTS = {
    "noop": episodes([-5, -5], [20, 40], [False, False]),
    "trained, sampled": episodes([2, 2], [17, 37], [True, True], cascades=[1, 1], violations=[2, 2]),
}


def test_rows() -> None:
    idle, trained = table.rows(RESULTS)
    assert (idle["agent"], idle["worlds"]) == ("noop", 2)
    assert idle["savings"] == (0.0, 0.0, 0.0) and idle["bill"] == (30.0, 20.0, 40.0)
    assert trained["savings"] == (3.0, 3.0, 3.0)  # in each of the two worlds, so without doubt
    assert trained["reward"] == (2.0, 2.0, 2.0) and trained["win_rate"] == (1.0, 1.0, 1.0)
    assert trained["cascades"].mean == 1.0 and trained["violations"].mean == 2.0
    assert [trained[part].mean for part in BILL_PARTS] == list(range(len(BILL_PARTS)))


def test_the_baseline_must_be_there() -> None:
    with pytest.raises(KeyError):
        table.rows({"random": RESULTS["noop"]})


def test_markdown() -> None:
    lines = table.markdown(table.rows(RESULTS)).splitlines()
    assert lines[0] == "| agent | reward | wins % | bill $ | saved $ | violations | cascades |"
    assert lines[1].count("---") == 7
    assert lines[2].startswith("| noop | -5.0 ± 0.0 | 0 ± 0 | 30.00 ± 10.00 | 0.00 ± 0.00 |")
    assert lines[3] == (
        "| trained, sampled | 2.0 ± 0.0 | 100 ± 0 | 27.00 ± 10.00 | 3.00 ± 0.00 | 2.00 ± 0.00 | 1.00 ± 0.00 |"
    )


def test_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    table.show(table.rows(RESULTS), "two worlds")
    out = capsys.readouterr().out
    assert out.startswith("two worlds")
    for text in ("noop", "trained, sampled", "100 ± 0", "27.00 ± 10.00"):
        assert text in out
    assert max(map(len, out.splitlines())) <= 110


def test_plain_fits_into_json() -> None:
    rows = json.loads(json.dumps(table.plain(table.rows(RESULTS))))
    assert rows[0]["bill"] == [30.0, 20.0, 40.0] and rows[1]["agent"] == "trained, sampled"
