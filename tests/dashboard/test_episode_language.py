"""What a language model might have said, as the tab Episode shows it: a tiny one that has learned nothing."""

from __future__ import annotations

import numpy as np
import pytest

from cloudrl.compose import compose
from cloudrl.safety.config import SafetyConfig
from envs.group import GroupScorer
from evaluation.agents.llm_agent import CheckpointAgent
from evaluation.dashboard import candidates, episode_view
from evaluation.dashboard.pilots import AgentPilot
from evaluation.dashboard.playthrough import Playthrough
from trainers.llm.models import make_language

SIZES = ["model.width=16", "model.layers=1", "model.heads=2"]


@pytest.fixture(scope="module")
def play() -> Playthrough:
    config = compose("grpo", ["scenario=easy", *SIZES])
    scenario = config.scenario
    language = make_language(config, scenario)
    agent = CheckpointAgent.of(language, scenario, scenario.slots)
    play = Playthrough(scenario, 20_003, AgentPilot(agent, scenario, 20_003, SafetyConfig()))
    for _ in range(3):
        play.step()
    return play


def player(play: Playthrough) -> CheckpointAgent:
    assert isinstance(play.pilot, AgentPilot) and candidates.can_sample(play.pilot.player)
    assert isinstance(play.pilot.player, CheckpointAgent)
    return play.pilot.player


def test_a_group_is_scored_as_grpo_scores_it(play: Playthrough) -> None:
    group = candidates.draw(player(play), play.sim, 16, 1.0, salt=1)
    assert sum(c.times for c in group.candidates) == 16
    assert sum(c.times * c.advantage for c in group.candidates) == pytest.approx(0.0, abs=1e-9)
    rewards = [c.reward for c in group.candidates]
    assert rewards == sorted(rewards, reverse=True)
    scored = GroupScorer(play.sim).score([0], [[c.text for c in group.candidates]])
    assert scored.rewards[0].tolist() == rewards and scored.codes[0].tolist() == [c.code for c in group.candidates]


def test_asking_changes_nothing_and_can_be_repeated(play: Playthrough) -> None:
    before = [array.tobytes() for array in play.sim.state]
    one, again, other = (candidates.draw(player(play), play.sim, 16, 1.0, salt) for salt in (1, 1, 2))
    assert [array.tobytes() for array in play.sim.state] == before
    assert one == again or np.isnan([c.gain for c in one.candidates]).any()  # nan equals nothing
    assert [c.text for c in one.candidates] == [c.text for c in again.candidates]
    assert [c.text for c in one.candidates] != [c.text for c in other.candidates]


def test_a_group_as_a_table(play: Playthrough) -> None:
    group = candidates.draw(player(play), play.sim, 8, 1.0, salt=3)
    text = episode_view.group(group)
    assert text.count("<tr>") == 1 + len(group.candidates) and "What the model reads" in text


def test_other_agents_are_not_asked() -> None:
    from cloudrl.policies import scripted

    assert not candidates.can_sample(scripted.handwritten())
