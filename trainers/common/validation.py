"""Validation of a policy while it trains, and the table at the end. Worlds have their own seeds; memory is off,
so that every agent meets the same worlds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sb3_contrib import MaskablePPO

from cloudrl.config import PPOConfig
from cloudrl.policies import scripted
from cloudrl.scenarios.schema import Scenario
from cloudrl.seeding import VALIDATION_SEEDS
from evaluation.agents.agent import Agent
from evaluation.agents.policy_agent import PolicyAgent
from evaluation.metrics import Recorder
from evaluation.rollout import Episodes, play_episodes

TUNING_START = VALIDATION_SEEDS.start + 5_000
"""Worlds on which checkpoints are compared and NOOP is tuned; the final table uses others."""


@dataclass(frozen=True)
class Validation:
    """Results of one validation."""

    sampled: Episodes
    deterministic: Episodes
    idle: Episodes
    actions: np.ndarray  # (B, T) flat, that were executed in the sampled episodes

    @property
    def reward(self) -> float:
        return float(self.sampled.reward.mean())

    @property
    def win_rate(self) -> float:
        return float(self.sampled.won.mean())

    @property
    def savings(self) -> float:
        """$ per world against doing nothing."""
        return float((self.idle.bill - self.sampled.bill).mean())


class Validator:
    """Plays validation worlds of one scenario, always the same ones."""

    def __init__(self, config: PPOConfig, scenario: Scenario, n_worlds: int, start: int = TUNING_START) -> None:
        self.config = config
        self.scenario = scenario
        self.seeds = start + np.arange(n_worlds)
        self.idle = self.play(scripted.noop())

    def play(self, agent: Agent | scripted.ScriptedPolicy, watch: Recorder | None = None) -> Episodes:
        return play_episodes(
            agent, self.scenario, self.seeds, reward=self.config.reward, safety=self.config.safety, on_tick=watch
        )

    def validate(self, model: MaskablePPO) -> Validation:
        """Sampled and deterministic play of the current policy."""
        recorder = Recorder()
        sampled = self.play(PolicyAgent(model.policy, deterministic=False), recorder)
        deterministic = self.play(PolicyAgent(model.policy))
        return Validation(sampled, deterministic, self.idle, recorder.actions)

    def best_noop_offset(self, model: MaskablePPO, offsets: list[float], deterministic: bool) -> float:
        """The logit to add to NOOP under which the policy earns the highest mean reward here."""
        rewards = []
        for offset in offsets:
            agent = PolicyAgent(model.policy, deterministic=deterministic, noop_offset=offset)
            if not deterministic:  # PolicyAgent shifts NOOP in deterministic mode only
                agent = _Shifted(model.policy, offset)
            rewards.append(self.play(agent).reward.mean())
        return offsets[int(np.argmax(rewards))]


class _Shifted(PolicyAgent):
    """Samples with NOOP's logit shifted."""

    def __init__(self, policy: object, offset: float) -> None:
        super().__init__(policy, deterministic=False)  # type: ignore[arg-type]
        self.offset = offset

    def _logits(self, observations: np.ndarray) -> np.ndarray:
        logits = super()._logits(observations)
        logits[:, -1] += self.offset
        return logits


def baselines(scenario: Scenario) -> dict[str, scripted.ScriptedPolicy]:
    """The scripted rows of the final table, the weakest first."""
    hand = scripted.handwritten()
    searched = scripted.from_runbook("runbook (searched)", scripted.searched_runbook(scenario.name))
    agents = [scripted.noop(), scripted.random(), *scripted.single_objectives(), hand, searched]
    return {agent.name: agent for agent in agents}
