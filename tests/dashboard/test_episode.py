"""Episodes on the dashboard, without a browser: playing, going back, acting by hand, and what is shown of it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloudrl import Simulator, load_scenario
from cloudrl.actions import DELETE, N_OPS
from cloudrl.errors import UserError
from cloudrl.policies import scripted
from cloudrl.reward.bill import bill
from cloudrl.safety.config import SafetyConfig, SafetyMode
from evaluation.dashboard import day, episode_view, pilots, scene
from evaluation.dashboard.folders import Folders
from evaluation.dashboard.pilots import AgentPilot
from evaluation.dashboard.playthrough import KEEP, Playthrough
from evaluation.ledger import ledgers
from evaluation.metrics import Recorder
from evaluation.results import AgentResult, Results
from evaluation.rollout import play_episodes
from evaluation.suites import facts

EASY = load_scenario("easy")
SEED = 20_003


def handwritten(seed: int = SEED, mode: SafetyMode = SafetyMode.enforce) -> Playthrough:
    safety = SafetyConfig(mode=mode)
    return Playthrough(EASY, seed, AgentPilot(scripted.handwritten(), EASY, seed, safety), safety, "handwritten")


def finished(play: Playthrough) -> Playthrough:
    assert [*play.finish()][-1] == play.ticks
    return play


def state(play: Playthrough) -> list[bytes]:
    return [array.tobytes() for array in play.sim.state]


# ---- playing ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["handwritten", "random", "stop-all"])
def test_plays_as_an_evaluation_does(name: str) -> None:
    policy = next(p for p in scripted.baselines(EASY.name) if p.name == name)
    recorder = Recorder()
    episodes = play_episodes(policy, EASY, [SEED], on_tick=recorder)
    play = finished(Playthrough(EASY, SEED, AgentPilot(policy, EASY, SEED, SafetyConfig())))
    assert [d.executed for d in play.decisions] == recorder.actions[0].tolist()
    assert play.sim.bill()[0] == episodes.bill[0]
    dollars = np.array([d.dollars for d in play.decisions])
    assert dollars.sum() == pytest.approx(episodes.bill[0])


def test_doing_nothing_costs_what_it_costs() -> None:
    play = handwritten()
    idle = play_episodes(scripted.noop(), EASY, [SEED])
    assert play.idle[0] == 0.0 and play.idle[-1] == idle.bill[0] and np.all(np.diff(play.idle) >= 0)


_REFERENCE = finished(handwritten())
_STATES: list[list[bytes]] = []


def every_state() -> list[list[bytes]]:
    """The world at every tick, walked through once."""
    if not _STATES:
        _REFERENCE.goto(0)
        _STATES.append(state(_REFERENCE))
        for _ in range(_REFERENCE.ticks):
            _REFERENCE.step()
            _STATES.append(state(_REFERENCE))
    return _STATES


@settings(max_examples=30, deadline=None)
@given(ticks=st.lists(st.integers(-3, 120), min_size=1, max_size=6))
def test_any_tick_can_be_shown_again_exactly(ticks: list[int]) -> None:
    known = every_state()
    for tick in ticks:
        _REFERENCE.goto(tick)
        at = min(max(tick, 0), _REFERENCE.ticks)
        assert _REFERENCE.tick == at and state(_REFERENCE) == known[at]


def test_memory_is_bounded() -> None:
    play = finished(handwritten())
    assert len(play._snapshots) <= play.ticks // KEEP + 1


# ---- by hand ---------------------------------------------------------------------------------------------------


def test_acting_by_hand_forgets_what_came_after_and_the_agent_goes_on() -> None:
    play = finished(handwritten())
    before = [d.executed for d in play.decisions]
    play.goto(10)
    decision = play.act(0 * N_OPS + 0)  # ANALYZE r0
    assert decision.by_hand and play.played == 11 == play.tick
    finished(play)
    after = [d.executed for d in play.decisions]
    assert after[:10] == before[:10] and [d.by_hand for d in play.decisions].count(True) == 1
    direct = Simulator(EASY)
    direct.reset(SEED)
    for action in after:
        direct.step([action])
    assert state(play) == [array.tobytes() for array in direct.state]  # it is what those actions give


def test_a_vetoed_action_may_be_tried_and_does_not_run() -> None:
    play = handwritten()
    decision = play.act(0 * N_OPS + DELETE)
    assert decision.verdict == "vetoed" and "delete_in_use" in decision.rules and decision.reason
    assert decision.executed == play.sim.noop
    assert "vetoed" in episode_view.decision(play) and "delete_in_use" in episode_view.decision(play)
    watched = handwritten(mode=SafetyMode.observe)
    assert watched.act(0 * N_OPS + DELETE).executed == DELETE  # executed, and counted


def test_nothing_happens_after_the_end() -> None:
    play = finished(handwritten())
    play.step()
    assert play.tick == play.ticks
    with pytest.raises(ValueError, match="the day is over"):
        play.act(0)
    play.goto(5)
    with pytest.raises(ValueError, match="outside"):
        play.act(play.sim.n_actions)
    assert play.played == play.ticks  # a wrong action forgets nothing


def test_going_on_anew_gives_the_agents_own_day_back() -> None:
    play = finished(handwritten())
    before = [d.executed for d in play.decisions]
    play.goto(30)
    play.act(play.sim.noop)
    play.goto(30)
    play.go_on()
    finished(play)
    assert [d.executed for d in play.decisions] == before


# ---- dollars ---------------------------------------------------------------------------------------------------


def test_worths_are_those_of_the_ledger() -> None:
    play = finished(handwritten())
    actions = np.array([[d.executed for d in play.decisions]])
    (ledger,) = ledgers(EASY, np.array([SEED]), actions)
    found = play.worths()
    assert {e.tick: e.dollars for e in ledger.entries} == {
        t: found.dollars[0, t] for t in range(play.ticks) if actions[0, t] != play.sim.noop
    }


def test_a_lone_decision_is_worth_the_idle_bill_less_the_bill() -> None:
    play = handwritten()
    play.goto(0)
    while play.decisions[-1].executed == play.sim.noop if play.decisions else True:
        play.step()
    tick = play.tick - 1
    worth = play.worths().dollars[0, tick]
    alone = Simulator(EASY)
    alone.reset(SEED)
    for decision in play.decisions:
        alone.step([decision.executed])
    for _ in range(play.played, play.ticks):
        alone.step([alone.noop])
    assert worth == pytest.approx(play.idle[-1] - bill(alone.state.worlds)[0])


# ---- who plays -------------------------------------------------------------------------------------------------


def test_agents_that_a_page_may_not_ask_for(tmp_path: Path) -> None:
    folders = Folders(tmp_path / "runs")
    mode = SafetyConfig()
    for spec, text in {
        "python:os:system": "for the command line",
        "endpoint:http://127.0.0.1#m": "for the command line",
        "ppo:/etc": "outside the runs folder",
        "llm:../../secret": "outside the runs folder",
        "hanwritten": "did you mean",
        "": "choose an agent",
    }.items():
        with pytest.raises(UserError, match=re.compile(text, re.IGNORECASE)):
            pilots.with_agent(folders, "easy", SEED, spec, mode)
    with pytest.raises(UserError, match="outside the runs folder"):
        pilots.with_agent(folders, "/etc/estate.yaml", SEED, "noop", mode)
    with pytest.raises(UserError, match="choose one of the list"):
        pilots.with_agent(folders, "eazy", SEED, "noop", mode)
    with pytest.raises(UserError, match="up to 100"):
        pilots.with_agent(folders, "scaled-5000", SEED, "noop", mode)
    with pytest.raises(UserError, match="whole number"):
        pilots.with_agent(folders, "easy", "1; drop", "noop", mode)


def evaluation(folder: Path, bill_off: float = 0.0) -> Folders:
    """A runs folder with an evaluation of one agent on two worlds."""
    seeds = np.array([SEED, SEED + 1])
    recorder = Recorder()
    episodes = play_episodes(scripted.handwritten(), EASY, seeds, on_tick=recorder)
    metrics = {
        "reward": episodes.reward, "bill": episodes.bill + bill_off, **episodes.parts, "won": episodes.won,
        "served": episodes.served,
    }  # fmt: skip
    agent = AgentResult("handwritten", "handwritten", metrics=metrics, actions=recorder.actions)
    run = folder / "runs" / "eval" / "one"
    run.mkdir(parents=True)
    (run / "manifest.json").write_text('{"algo": "eval", "created": "2026-01-01T00:00:00"}')
    Results(facts(EASY, "easy"), seeds, {"handwritten": agent}).write(run)
    return Folders(folder / "runs")


def test_an_evaluation_is_replayed(tmp_path: Path) -> None:
    folders = evaluation(tmp_path)
    play = pilots.of_evaluation(folders, "eval/one", "handwritten", str(SEED + 1))
    assert play.tick == 0 and play.played == play.ticks
    play.goto(play.ticks)
    assert play.sim.bill()[0] == play_episodes(scripted.handwritten(), EASY, [SEED + 1]).bill[0]
    with pytest.raises(UserError, match="was not played there"):
        pilots.of_evaluation(folders, "eval/one", "handwritten", "1")
    with pytest.raises(UserError, match="outside the runs folder"):
        pilots.of_evaluation(folders, "../..", "handwritten", str(SEED))


def test_a_replay_that_costs_something_else_is_refused(tmp_path: Path) -> None:
    folders = evaluation(tmp_path, bill_off=0.01)
    with pytest.raises(UserError, match="another version of the simulator"):
        pilots.of_evaluation(folders, "eval/one", "handwritten", SEED)


# ---- what is shown ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tick", [0, 40, EASY.horizon.ticks])
@pytest.mark.parametrize("truth", [False, True])
def test_every_part_can_be_shown(tick: int, truth: bool) -> None:
    play = finished(handwritten())
    play.goto(tick)
    parts = (
        episode_view.head(play), episode_view.graph(play, truth), episode_view.decision(play), day.day(play),
        episode_view.table(play, truth), episode_view.ranking(play), episode_view.preview(play, DELETE),
    )  # fmt: skip
    for text in parts:
        assert 'class="crl' in text and "nan" not in text.lower().replace("nance", "")
        for tag in ("div", "table", "svg", "g", "span", "p"):
            assert len(re.findall(rf"<{tag}[\s>]", text)) == text.count(f"</{tag}>"), (tag, text[:200])


def test_what_is_hidden_is_shown_on_request_only() -> None:
    play = handwritten()
    resources = play.sim.state.resources[0]
    resources["hidden_count"][:], resources["known_count"][:] = 0, 0
    resources["exposed"][:], resources["exposure_seen"][:], resources["lag"][:] = 0, 0, 0
    resources["hidden_count"][2], resources["hidden_cvss"][2] = 37, 9.9
    seen, true = (episode_view.table(play, truth) for truth in (False, True))
    assert "37" not in seen and "9.9" not in seen
    assert '<span class="true">37 · 9.9' in true
    assert "V37" not in scene.picture(play.sim, 0) and "V37" in scene.picture(play.sim, 0, truth=True)


def test_names_are_text_and_no_html() -> None:
    """An estate's names are a person's own."""
    from envs.cloudops import render_ansi

    play = finished(handwritten())
    play.goto(30)
    names = render_ansi._NAMES[play.sim] = [["<script>alert(1)</script>"] * 6 for _ in range(8)]
    assert names
    for text in (episode_view.graph(play, True), episode_view.table(play, True), episode_view.decision(play)):
        assert "<script" not in text
    play.title = "<b onclick=x>"
    assert "<b onclick" not in episode_view.head(play)
