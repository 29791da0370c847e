"""How soon does training reach half the best gain on Easy? The trainer as it is against the stock stack.

Both are judged by the same ruler: the mean reward of the sampled policy on validation worlds (not those on which
the trainer tunes itself), at points along the way, against processor seconds of training; what the judging takes
is not counted. The stock stack is sb3-contrib's MaskablePPO with usual settings on a DummyVecEnv of plain Python
worlds. It is given up after six times the trainer's time.
"""

from __future__ import annotations

import tempfile
import time
from typing import Any
from unittest.mock import patch

import numpy as np

from cloudrl.compose import compose
from cloudrl.observation import OBSERVATION_VERSION
from cloudrl.policies import scripted
from cloudrl.runs import create_run
from cloudrl.scenarios.library import load_scenario
from evaluation.agents.policy_agent import PolicyAgent
from evaluation.rollout import play_episodes
from tests.twin import TwinEnv
from trainers import ppo as trainer_module

SCENARIO = "easy"
SEEDS = np.arange(12_000, 12_200)  # validation worlds
ROLLOUTS_BETWEEN = 4  # of the stock stack, from one look to the next
WARM_STATES_BETWEEN = 5_000
PATIENCE = 6.0


class Enough(Exception):
    """The time is up."""


class Curve:
    """(processor seconds of training, mean reward of the sampled policy)."""

    def __init__(self, seconds: float) -> None:
        self.limit = seconds
        self.points: list[tuple[float, float]] = []
        self.start, self.aside = time.process_time(), 0.0

    def look(self, policy: Any) -> None:
        """Judge the policy as it is. Raises Enough when the time is up."""
        now = time.process_time()
        agent = PolicyAgent(policy, deterministic=False)
        reward = play_episodes(agent, load_scenario(SCENARIO), SEEDS).reward.mean()
        self.points.append((now - self.start - self.aside, float(reward)))
        self.aside += time.process_time() - now
        if self.points[-1][0] > self.limit:
            raise Enough

    def first_above(self, reward: float) -> float | None:
        return next((seconds for seconds, value in self.points if value >= reward), None)


def trainer_curve(seconds: float, seed: int) -> Curve:
    """`python -m trainers.ppo scenario=easy`, looked at along the way."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "scenario": SCENARIO,
            "seed": seed,
            "device": "cpu",
            "progress_bar": "false",
            "runs_dir": folder,
        }
        config = compose("ppo", [f"{key}={value}" for key, value in settings.items()])
        curve = Curve(seconds)
        warm_start = trainer_module.warm_start

        def watched(model: Any, sim: Any, settings: Any, seed: int, report: Any) -> None:
            def looking(states: int, facts: Any) -> None:
                report(states, facts)
                if states // WARM_STATES_BETWEEN > (states - sim.n_worlds) // WARM_STATES_BETWEEN:
                    curve.look(model.policy)

            warm_start(model, sim, settings, seed, looking)

        class Watched(trainer_module.Trainer):
            def _validate(self) -> None:
                self.progress.next_evaluation = self.model.num_timesteps + int(self.config.ppo.eval_every)
                curve.look(self.model.policy)

        run = create_run("ppo", config, [], observation_version=OBSERVATION_VERSION)
        try:
            with patch.object(trainer_module, "warm_start", watched):
                Watched(config, run, [config.scenario]).train()
        except Enough:
            pass
        return curve


def stock_curve(seconds: float, seed: int) -> Curve:
    """MaskablePPO, 8 x 128 steps, minibatches of 64, 10 epochs; gamma 1, which is right for a finite horizon."""
    from sb3_contrib import MaskablePPO
    from stable_baselines3.common.vec_env import DummyVecEnv

    curve = Curve(seconds)
    worlds = DummyVecEnv([lambda: TwinEnv(load_scenario(SCENARIO)) for _ in range(8)])
    usual = {"n_steps": 128, "batch_size": 64, "n_epochs": 10, "gamma": 1.0}
    model = MaskablePPO(
        "MlpPolicy", worlds, **usual, seed=seed, policy_kwargs={"net_arch": [64, 64]}, device="cpu"
    )
    _, callback = model._setup_learn(10**9)
    try:
        while True:
            for _ in range(ROLLOUTS_BETWEEN):
                model.collect_rollouts(worlds, callback, model.rollout_buffer, model.n_steps)
                model.train()
            curve.look(model.policy)
    except Enough:
        return curve


def time_to_quality(seconds: float, seed: int) -> dict[str, Any]:
    """Both curves and what follows from them; `seconds` for the trainer."""
    idle = float(play_episodes(scripted.noop(), load_scenario(SCENARIO), SEEDS).reward.mean())
    trainer = trainer_curve(seconds, seed)
    needed = trainer.first_above(halfway(idle, trainer)) or seconds
    stock = stock_curve(PATIENCE * needed, seed)
    goal = max(halfway(idle, trainer), halfway(idle, stock))
    curves = {"trainer": trainer, "stock": stock}
    return {
        "noop": idle,
        "goal": goal,
        "stock_seconds": stock.points[-1][0],
        "best_of": {name: max(value for _, value in curve.points) for name, curve in curves.items()},
        "seconds_to_goal": {name: curve.first_above(goal) for name, curve in curves.items()},
        "curves": {name: curve.points for name, curve in curves.items()},
    }


def halfway(idle: float, curve: Curve) -> float:
    """Reward at half the best gain of a curve."""
    return idle + 0.5 * (max(value for _, value in curve.points) - idle)
