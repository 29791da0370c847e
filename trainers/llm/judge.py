"""Whole episodes of a language model and of its baselines: the only judge of a run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from cloudrl.policies import scripted
from cloudrl.scenarios.schema import Scenario
from cloudrl.seeding import VALIDATION_SEEDS
from evaluation.agents.llm_agent import BLOCK, CheckpointAgent
from evaluation.agents.lm_files import LanguageModel
from evaluation.metrics import Recorder
from evaluation.rollout import Episodes, play_episodes
from trainers.llm.config import GRPOConfig
from trainers.llm.precision import for_play

TUNING_START = VALIDATION_SEEDS.start + 5_000
"""Worlds on which checkpoints are compared; the final table uses others."""


class Played(NamedTuple):
    """Episodes of a language model."""

    episodes: Episodes
    json_valid: float
    admissible: float
    actions: np.ndarray  # (B, T) flat, that were executed


class Judge:
    """Plays worlds of one scenario, always the same ones."""

    def __init__(self, config: GRPOConfig, scenario: Scenario, n_worlds: int, start: int = TUNING_START) -> None:
        self.config, self.scenario = config, scenario
        self.seeds = start + np.arange(n_worlds)

    def play(self, agent: Any, watch: Recorder | None = None) -> Episodes:
        return play_episodes(
            agent, self.scenario, self.seeds, reward=self.config.reward, safety=self.config.safety, on_tick=watch
        )

    def language(self, language: LanguageModel, temperature: float) -> Played:
        """Sampled (`temperature` > 0) or likeliest replies."""
        training = language.model.training
        language.model.eval()
        player = replace(language, model=for_play(self.config.model, language.model))
        agent = CheckpointAgent.of(
            player, self.scenario, self.scenario.slots, temperature=temperature,
            actions=self.config.safety.actions, block=min(BLOCK, len(self.seeds)),
        )  # fmt: skip
        recorder = Recorder()
        episodes = self.play(agent, recorder)
        language.model.train(training)
        counts = agent.counts()
        replies = counts["replies"].sum()
        valid = float((counts["json_valid"] * counts["replies"]).sum() / replies)
        rejected = (episodes.vetoed + episodes.invalid).sum()
        return Played(episodes, valid, valid - float(rejected / replies), recorder.actions)

    def best_constant(self) -> tuple[str, Episodes]:
        """The operation that earns most if it is played over and over."""
        played = {name: self.play(agent) for name, agent in constants().items()}
        name = max(played, key=lambda key: float(played[key].reward.mean()))
        return name, played[name]


def constants() -> dict[str, scripted.ScriptedPolicy]:
    """One operation over and over, every operation once."""
    policies = [scripted.constant(op) for op in range(12)]
    return {policy.name: policy for policy in policies}
