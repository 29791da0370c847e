"""The text rendering. CLOUDRL_REGENERATE=1 writes the golden files anew."""

from __future__ import annotations

import os
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import envs
from cloudrl import Action, Op, Simulator, load_scenario
from cloudrl.actions import PATCH
from cloudrl.safety.layer import Verdict
from cloudrl.types import ADMISSIBLE, CRASHED, DELETED, INVALID, RUNNING, STOPPED, VETOED
from envs.cloudops.render_ansi import LastAction, render_world

GOLDEN = Path(__file__).parent / "golden"


def written_world() -> Simulator:
    """An Easy world whose every shown number is written here: recalibrated constants do not change the picture."""
    simulator = Simulator(load_scenario("easy"))
    simulator.reset(4731)
    w, r = simulator.state.worlds, simulator.state.resources[0]
    w["tick"], w["load"], w["forecast_now"], w["forecast_peak"] = 37, 0.763, 0.66, 0.912
    w["served"], w["slow"], w["served_traffic"], w["traffic"] = 0.4199, 0.031, 24.01, 25.0
    w["cascade"], w["cascade_root"], w["cascade_blast"] = 1, simulator.state.resources["group"][0, 4], 0.62
    w["infrastructure"], w["outage"], w["exposure"], w["labour"] = 7.77, 12.5, 0.3, 0.875
    w["reward"], w["reward_total"] = -7.25, -31.4
    w["verdict"], w["executed"] = VETOED, simulator.noop
    r["status"] = (RUNNING, STOPPED, DELETED, RUNNING, CRASHED, RUNNING)
    r["kind"][:6], r["size"], r["unit_price"] = (0, 0, 0, 2, 1, 3), (3, 1, 2, 2, 3, 2), 0.05
    r["critical"], r["data_bearing"], r["multi_az"] = (0, 0, 0, 0, 1, 0), (0, 0, 0, 0, 1, 1), (0, 0, 0, 0, 1, 0)
    r["idle"], r["job_start"] = (0, 0, 1, 0, 0, 0), (-1, 60, -1, -1, -1, -1)
    r["busy_ticks"], r["busy_op"] = (0, 0, 0, 1, 0, 0), PATCH
    r["repair_ticks"], r["alarm"] = (0, 0, 0, 0, 4, 0), (0, 0, 0, 0, 1, 0)
    r["lag"], r["health"] = (0, 0, 0, 0, 2, 0), (1.0, 0.71, 0.5, 0.61, 0.13, 0.0)
    r["past_health"] = r["health"][:, None]
    r["past_health"][4] = (0.13, 0.31, 0.49, 0.5)
    r["past_utilisation"], r["past_latency"] = 0.352, 1.23
    r["exposed"], r["exposure_seen"] = (0, 0, 0, 1, 0, 1), (0, 0, 0, 0, 0, 1)
    r["encrypted"], r["logging"] = (1, 0, 1, 1, 0, 1), (1, 1, 1, 0, 1, 1)
    r["credential_days"], r["ticks_since_analyze"] = (5.4, 126.0, 1.0, 144.0, 54.0, 20.0), (288, 3, 1, 50, 12, 340)
    r["known_count"], r["known_cvss"], r["known_epss"] = (
        (0, 3, 0, 12, 0, 0),
        (0, 9.7, 0, 10.0, 0, 0),
        (0, 0.05, 0, 2, 0, 0),
    )
    r["hidden_count"], r["hidden_cvss"], r["hidden_epss"] = (
        (2, 0, 0, 1, 0, 0),
        (6.1, 0, 0, 8, 0, 0),
        (0.7, 0, 0, 0.01, 0, 0),
    )
    return simulator


@pytest.mark.parametrize("name", ["seen", "truth"])
def test_golden(name: str) -> None:
    simulator = written_world()
    verdict = Verdict(
        VETOED, ("delete_in_use", "change_budget"), "other services send traffic to it; too many changes"
    )
    last = LastAction(Action(Op.DELETE, 0).index(simulator.n_slots), verdict)
    text = render_world(simulator, last=last, truth=name == "truth") + "\n"
    path = GOLDEN / f"render_{name}.txt"
    if os.environ.get("CLOUDRL_REGENERATE") == "1":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("env_id", envs.IDS)
def test_every_tick_of_a_day_can_be_drawn(env_id: str) -> None:
    env = gym.make(env_id, render_mode="ansi", render_truth=True)
    _, info = env.reset(seed=0)
    assert "none yet" in env.render()  # type: ignore[operator]
    rng = np.random.default_rng(0)
    for _ in range(env.unwrapped.simulator.ticks):  # type: ignore[attr-defined]
        *_, info = env.step(int(rng.choice(np.flatnonzero(info["action_mask"]))))
        text = env.render()
        assert isinstance(text, str) and "\x1b" not in text
        lines = text.splitlines()
        assert max(map(len, lines)) <= 155 and lines == [line.rstrip() for line in lines]
        assert max(map(len, render_world(env.unwrapped.simulator).splitlines())) <= 125  # type: ignore[attr-defined]
    assert "over:" in text


def test_hidden_state_is_not_shown_to_agents() -> None:
    simulator = written_world()
    before = render_world(simulator)
    r = simulator.state.resources
    r["hidden_count"] += 3
    r["hidden_epss"] += 1.0
    r["exposed"] = 1
    r["leak"] = 1.0
    assert render_world(simulator) == before
    assert "*" not in before and "*" in render_world(simulator, truth=True)


def test_the_last_action_in_words() -> None:
    simulator = written_world()
    assert "last action: vetoed; NOOP ran instead" in render_world(simulator)
    outside = LastAction(999, simulator.verdict(0, 999))
    simulator.state.worlds["verdict"] = INVALID
    assert "last action: 999 (no such action), invalid: action 999 is outside" in render_world(
        simulator, last=outside
    )
    simulator.state.worlds["verdict"], simulator.state.worlds["executed"] = ADMISSIBLE, Op.PATCH + 3 * 12
    assert "last action: PATCH worker\n" in render_world(simulator)


def test_colour_only_when_asked() -> None:
    simulator = written_world()
    assert "\x1b[31mcrashed" in render_world(simulator, color=True)
    assert "\x1b" not in render_world(simulator)


def test_without_a_render_mode_it_says_so() -> None:
    env = gym.make("CloudOps-Easy-v1").unwrapped
    env.reset(seed=0)
    with pytest.warns(UserWarning, match="ansi"):
        assert env.render() is None
