"""Timed events changed nothing for the scenarios that have none: their bills are those of before there were any.

`python -m tests.scenarios.test_stress_golden` records the bills anew, which is right only when the version of a
suite goes up.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from cloudrl import Simulator
from cloudrl.observation import OBSERVATION_VERSION
from cloudrl.policies.scripted import handwritten, noop, play, random
from cloudrl.reward.bill import BILL_PARTS
from cloudrl.runs import write_atomic
from cloudrl.scenarios.library import scenario_hash
from tests.core.play import scenario_of

FILE = Path(__file__).parent / "golden" / "bills.json"
NAMES = ("easy", "medium", "hard", "quiet", "estate:example", "estate:magento", "estate:online_boutique")
SEEDS = [0, 1, 10_000, 10_001, 20_000, 20_001]


def record(name: str) -> dict[str, object]:
    """Hash of the constants, sums of first and last observations, and every part of every bill, in dollars."""
    scenario = scenario_of(name)
    sim = Simulator(scenario, len(SEEDS))
    sim.reset(SEEDS)
    start = sim.snapshot()
    out: dict[str, object] = {"hash": scenario_hash(sim.scenario), "observations": OBSERVATION_VERSION}
    for policy in (noop(), random(), handwritten()):
        sim.restore(start)
        first = sim.observations.astype(float).sum(axis=1)
        worlds = play(sim, policy)
        figures = {part: worlds[part].tolist() for part in (*BILL_PARTS, "reward_total", "served_traffic")}
        out[policy.name] = figures | {
            "first": first.tolist(),
            "last": sim.observations.astype(float).sum(1).tolist(),
        }
    return out


@pytest.mark.parametrize("name", NAMES)
def test_a_scenario_without_events_is_what_it_was(name: str) -> None:
    expected, found = json.loads(FILE.read_text())[name], record(name)
    assert found["hash"] == expected["hash"] and found["observations"] == expected["observations"]
    for policy in ("noop", "random", "handwritten"):
        for key, values in expected[policy].items():
            # exp and log of another machine may differ in the last bit; nothing else may
            assert np.allclose(found[policy][key], values, rtol=1e-9, atol=1e-9), (policy, key)  # type: ignore[index]


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    write_atomic(FILE, json.dumps({name: record(name) for name in NAMES}, indent=1) + "\n")
