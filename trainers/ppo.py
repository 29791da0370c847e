"""MaskablePPO on the simulated cloud.

    python -m trainers.ppo +curriculum=easy
    python -m trainers.ppo scenario=medium ppo.total_timesteps=2e6 seed=3
    python -m trainers.ppo resume=runs/ppo/<run>

What happens, from top to bottom of `train`:

1. Warm start. Forks measure what single actions are worth against doing nothing; the actor regresses it.
2. Rollouts of all worlds at once, in which an action earns what it changed (`ppo.control_variate`).
3. PPO: several epochs of the clipped surrogate on each rollout. The first few train the critic only.
4. Validation on worlds of their own, sampled and deterministic; the curriculum goes on by it; the best is kept.
5. A table on other worlds, next to doing nothing, chance, single objectives and runbooks.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import torch as th
from sb3_contrib import MaskablePPO

from cloudrl.cli import command
from cloudrl.compose import curriculum_scenarios
from cloudrl.config import PPOConfig
from cloudrl.curriculum import Curriculum
from cloudrl.errors import UserError
from cloudrl.observation import OBSERVATION_VERSION
from cloudrl.runs import Run, check_trusted, create_run, locked, resume_command, resume_point
from cloudrl.scenarios.schema import Scenario
from cloudrl.simulator import Simulator
from envs.cloudops.sb3 import CloudOpsSB3VecEnv
from trainers.common import build
from trainers.common.checkpoints import Progress, load_model, load_progress, restore_worlds, save_checkpoint
from trainers.common.interrupt import Interrupt
from trainers.common.logs import Bar, make_logger
from trainers.common.report import final_report, record_episodes, record_validation
from trainers.common.validation import Validator
from trainers.common.warm_start import warm_start

_LOGS = 16  # rows in the logs of a warm start


@command("ppo")
def main(config: PPOConfig) -> float:
    """Train, and return the mean validation reward of the sampled policy."""
    th.set_num_threads(config.threads)
    build.pick_device(config.device)  # a missing device is said before anything is created
    scenarios = curriculum_scenarios(config) or [config.scenario]
    if config.resume is None:
        run, checkpoint = create_run("ppo", config, observation_version=OBSERVATION_VERSION), None
    else:
        run, checkpoint = resume_point(config.resume, "ppo")
    with locked(run):
        trainer = Trainer(config, run, scenarios)
        if checkpoint is not None:
            check_trusted(checkpoint, config.runs_dir, config.trust)
            trainer.restore(checkpoint)
        try:
            trainer.train()
            return final_report(config, run, scenarios[-1], trainer.model, trainer.progress)
        except KeyboardInterrupt:
            trainer.bar.say(f"stopped at {trainer.model.num_timesteps:,} steps; {resume_command(run, 'ppo')}")
            raise
        finally:
            trainer.close()


class Trainer:
    """One run: its worlds, model, logs and where it stands."""

    def __init__(self, config: PPOConfig, run: Run, scenarios: list[Scenario]) -> None:
        self.config, self.run, self.scenarios = config, run, scenarios
        self.total = int(config.ppo.total_timesteps)
        self.progress = Progress()
        self.memory = build.make_memory(config)
        self.worlds: CloudOpsSB3VecEnv = build.make_worlds(config, scenarios[0], self.memory)
        self.model: MaskablePPO = build.make_model(config, self.worlds)
        self.bar = Bar("PPO", self.total, config.progress_bar)
        self.interrupt = Interrupt()
        self.restored = False

    def restore(self, checkpoint: Path) -> None:
        """Go back to a checkpoint: model, optimiser, worlds, luck, stage, memory."""
        self.progress = load_progress(checkpoint)
        stage = self.progress.curriculum.stage
        if stage >= len(self.scenarios):
            raise UserError(f"{checkpoint}: stands at stage {stage + 1} of a curriculum, there are fewer now")
        self.worlds.set_scenario(self.scenarios[stage])
        self.model = load_model(checkpoint, self.config, self.worlds)
        restore_worlds(checkpoint, self.model, self.worlds)
        self.restored = True

    # ------------------------------------------------------------------ the algorithm
    def train(self) -> None:
        """Run to `ppo.total_timesteps`. Ctrl-C ends it at the next moment at which the run is whole."""
        config, model, progress = self.config, self.model, self.progress
        model.set_logger(make_logger(config, self.run, model.num_timesteps if progress.warm else None))
        self.bar.say(f"run folder {self.run.path}")
        self.curriculum = Curriculum(config.curriculum.stages, self.total, progress.curriculum)
        _, callback = model._setup_learn(self.total, None, reset_num_timesteps=not self.restored)
        entropy = build.linear(config.ppo.ent_coef, config.ppo.ent_coef_final_fraction)
        self.started = time.process_time() - progress.seconds
        self.validator = self._validator()
        if not self.restored:
            self.save()  # so that a run can be resumed from its first second on
        with self.interrupt:
            if not progress.warm:
                self._warm_start()
                progress.warm = True
                self.save()

            while model.num_timesteps < self.total:
                if self.interrupt.asked:
                    self.save()
                    self.interrupt.check()
                warming_up = progress.rollouts < config.ppo.value_warmup_rollouts
                model.collect_rollouts(self.worlds, callback, model.rollout_buffer, model.n_steps)
                model._update_current_progress_remaining(model.num_timesteps, self.total)
                model.ent_coef = 0.0 if warming_up else entropy(model._current_progress_remaining)
                if warming_up:
                    model.rollout_buffer.advantages[:] = 0.0
                model.normalize_advantage = not warming_up
                model.train()
                progress.rollouts += 1

                record_episodes(model, self.worlds, self.curriculum.stage)
                if self.curriculum.at_steps(model.num_timesteps):
                    self._enter_stage("step cap")
                finished = model.num_timesteps >= self.total
                if model.num_timesteps >= progress.next_evaluation or finished:
                    self._validate()
                progress.seconds = time.process_time() - self.started
                model.logger.record("time/fps", model.num_timesteps / max(1e-9, progress.seconds))
                model.logger.dump(model.num_timesteps)
                if model.num_timesteps >= progress.next_checkpoint or finished:
                    progress.next_checkpoint = model.num_timesteps + int(config.ppo.checkpoint_every)
                    self.save()
                self.bar.to(model.num_timesteps)

    def _warm_start(self) -> None:
        """Regress the worth of actions on the last stage's worlds; then set how much acting must pay."""
        settings, model = self.config.warm_start, self.model
        if not settings.states:
            return
        sim = Simulator(
            self.scenarios[-1], self.config.ppo.n_envs, reward=self.config.reward, safety=self.config.safety,
            n_slots=self.worlds.simulator.n_slots,
        )  # fmt: skip
        total = int(settings.states)
        bar = Bar("warm start", total, self.config.progress_bar)
        bar.say(f"warm start: the worth of actions in {total:,} states, measured by forks")

        def report(states: int, facts: dict[str, float]) -> None:
            self.interrupt.check()  # a resumed run begins the warm start again
            bar.to(states, f"loss {facts['warm_start/loss']:.3f}")
            if _LOGS * states // total > _LOGS * (states - sim.n_worlds) // total:
                for name, value in facts.items():
                    model.logger.record(name, value)
                model.logger.dump(min(0, states - total))  # negative steps: before PPO begins

        try:
            warm_start(model, sim, settings, self.config.seed, report)
        finally:
            bar.close()
        offsets = [settings.sharpness * ticks for ticks in settings.noop_offsets]
        ruler = self._validator(stage=-1)
        build.shift_noop(model, ruler.best_noop_offset(model, offsets, deterministic=False))

    # ------------------------------------------------------------------ validation and stages
    def _validator(self, stage: int | None = None) -> Validator:
        """Validation worlds of a stage; None = the present one."""
        scenario = self.scenarios[self.curriculum.stage if stage is None else stage]
        return Validator(self.config, scenario, self.config.evaluation.worlds)

    def _validate(self) -> None:
        model, progress = self.model, self.progress
        progress.next_evaluation = model.num_timesteps + int(self.config.ppo.eval_every)
        result = self.validator.validate(model)
        record_validation(model, self.run, self.validator, result)
        stage = f"  stage {self.curriculum.stages[self.curriculum.stage].name}" if self.curriculum.stages else ""
        self.bar.say(
            f"{model.num_timesteps:>9,} steps  reward {result.reward:8.1f}  wins {100 * result.win_rate:3.0f} %  "
            f"saved ${result.savings:.2f} against doing nothing{stage}"
        )
        if self.curriculum.stage == len(self.scenarios) - 1 and (
            progress.best_score is None or result.reward > progress.best_score
        ):
            progress.best_score = result.reward
            save_checkpoint(self.run.best, model, self.worlds, progress, keep=1, score=result.reward)
        why = self.curriculum.at_validation(model.num_timesteps, result.win_rate)
        if why:
            self._enter_stage(why)

    def _enter_stage(self, why: str) -> None:
        stage = self.curriculum.stage
        self.bar.say(f"curriculum: stage {self.curriculum.stages[stage].name} ({why})")
        self.model._last_obs = self.worlds.set_scenario(self.scenarios[stage])  # type: ignore[assignment]
        self.model._last_episode_starts = np.ones(self.worlds.num_envs, bool)
        self.validator = self._validator()

    def save(self) -> None:
        """A whole checkpoint of everything."""
        if self.model._last_obs is not None:
            save_checkpoint(
                self.run.checkpoints, self.model, self.worlds, self.progress, self.config.keep_checkpoints
            )

    def close(self) -> None:
        """End the bar and the log files."""
        self.bar.close()
        if hasattr(self.model, "_logger"):
            self.model.logger.close()


if __name__ == "__main__":
    main()
