"""GRPO: a language model learns to operate a cloud by comparing its own actions in the same state.

    python -m trainers.grpo                     # model=tiny: from nothing, minutes on a CPU
    python -m trainers.grpo model=qwen
    python -m trainers.grpo resume=runs/grpo/<run>

What happens, from top to bottom of `train`:

1. Warm start: every admissible action equally likely. The model learns to write actions, and to read.
2. GRPO in TRL's trainer: for each state the model samples G replies, forks of the world say what each is
   worth, and a reply's advantage is its reward less the group's mean. One reply is played, and the worlds walk on.
3. Whole episodes on validation worlds, sampled and likeliest; the curriculum goes on by them; the best is kept.
4. A table on other worlds, next to doing nothing, the best constant action, chance, the warm start and runbooks.
"""

from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")  # its rollout function; TRL is pinned

import time
from pathlib import Path
from typing import Any

import torch as th

from cloudrl.cli import command
from cloudrl.compose import curriculum_scenarios
from cloudrl.curriculum import Curriculum
from cloudrl.errors import UserError
from cloudrl.observation import OBSERVATION_VERSION
from cloudrl.runs import Run, check_trusted, create_run, read_json, resume_command, resume_point, save_json
from cloudrl.scenarios.schema import Scenario
from evaluation.agents import lm_files
from trainers.common.build import pick_device
from trainers.common.interrupt import Interrupt
from trainers.common.logs import Bar
from trainers.llm import setup
from trainers.llm.checkpoints import (
    Progress,
    load_progress,
    restore_luck,
    restore_trainer,
    restore_worlds,
    save_checkpoint,
)
from trainers.llm.config import GRPOConfig
from trainers.llm.groups import draw_samples
from trainers.llm.judge import Judge
from trainers.llm.meter import Meter
from trainers.llm.models import make_language
from trainers.llm.report import (
    episode_baselines,
    episode_figures,
    final_report,
    validation_figures,
    validation_record,
    warm_started,
)
from trainers.llm.stream import Stream
from trainers.llm.warm_start import warm_start
from trainers.llm.watch import Log

_LOGS = 16  # rows in the logs of a warm start


@command("grpo")
def main(config: GRPOConfig) -> float:
    """Train, and return the mean validation reward of sampled replies."""
    th.set_num_threads(config.threads)
    setup.quiet()
    device = pick_device(config.device)
    settings: Any = config  # any config with a curriculum
    scenarios = curriculum_scenarios(settings) or [config.scenario]
    setup.check(config, device)
    if config.resume is None:
        checkpoint = None
        language = make_language(config, scenarios[0])  # what is wrong with it is said before a run is made
        setup.check_prompts(config, language, scenarios)
        run = setup.of_the_first(lambda: create_run("grpo", config, observation_version=OBSERVATION_VERSION))
    else:
        run, checkpoint = resume_point(config.resume, "grpo")
        if checkpoint is not None:
            check_trusted(checkpoint, config.runs_dir, config.trust)
            language = lm_files.load(checkpoint, trainable=True)
        else:
            language = make_language(config, scenarios[0])
    with setup.only_writer(run):
        trainer = Trainer(config, run, scenarios, language, device, checkpoint)
        try:
            trainer.train()
            return trainer.finish()
        except KeyboardInterrupt:
            trainer.bar.say(f"stopped at step {trainer.progress.step:,}; {resume_command(run, 'grpo')}")
            raise
        finally:
            trainer.close()


class Trainer:
    """One run: its worlds, model, logs and where it stands."""

    def __init__(
        self,
        config: GRPOConfig,
        run: Run,
        scenarios: list[Scenario],
        language: lm_files.LanguageModel,
        device: str = "cpu",
        checkpoint: Path | None = None,
    ) -> None:
        self.config, self.run, self.scenarios, self.language = config, run, scenarios, language
        self.checkpoint = checkpoint
        self.progress = Progress() if checkpoint is None else load_progress(checkpoint)
        self.steps = int(config.grpo.steps)
        self.per_step = config.grpo.states  # environment steps of a gradient step, at least
        self.curriculum = Curriculum(
            config.curriculum.stages, self.steps * self.per_step, self.progress.curriculum
        )
        if self.curriculum.stage >= len(scenarios):
            raise UserError(
                f"{checkpoint}: stands at stage {self.curriculum.stage + 1} of a curriculum, there are fewer now"
            )
        self.meter = Meter()
        self.memory = setup.make_memory(config, checkpoint)
        self.stream = Stream(
            config, scenarios[self.curriculum.stage], language, config.grpo.blocks, config.grpo.block,
            self.memory, setup.rank(),
        )  # fmt: skip
        self.trl = setup.make_trl(config, run, language, self.stream, self.meter, device, self)
        self.bar = Bar("GRPO", self.steps, config.progress_bar)
        self.interrupt = Interrupt()
        self.log = Log(run, None if checkpoint is None else self.progress.step) if setup.rank() == 0 else None
        self.started = time.process_time() - self.progress.seconds
        self.judge = self._judge()
        self.baselines: dict[str, float] = {}
        self.entropy_coef = config.grpo.entropy_coef
        self.saved_at = -1 if checkpoint is None else self.progress.step

    # ------------------------------------------------------------------ the algorithm
    def train(self) -> None:
        """Run to `grpo.steps`. Ctrl-C ends it after the present step, saved."""
        self.bar.say(f"run folder {self.run.path}")
        with self.interrupt:
            if not self.progress.warm:
                self._warm_start()
                self.progress.warm = True
                self.save()
            self.baselines = self._measure_baselines()
            if self.progress.step < self.steps:
                self.trl.train()  # calls begin, after_step and after_log
            if self.saved_at != self.progress.step:
                self.save()

    def begin(self) -> None:
        """TRL has made its optimiser and schedule, and is about to begin."""
        if self.checkpoint is not None and self.progress.step:
            restore_trainer(self.checkpoint, self.trl)
            self.trl._globalstep_last_logged = self.progress.step
        if self.checkpoint is not None:
            restore_worlds(self.checkpoint, self.stream, self.meter)

    def first_batch(self) -> None:
        """TRL asks for the first groups; whatever it drew from the generators before does not count."""
        if self.checkpoint is not None and self.progress.step:
            restore_luck(self.checkpoint)
        else:
            th.manual_seed(1_000_003 * self.config.seed + setup.rank())

    def after_step(self, step: int) -> bool:
        """A gradient step is done. Returns whether to stop."""
        grpo, progress = self.config.grpo, self.progress
        progress.step = step
        progress.seconds = time.process_time() - self.started
        if self.curriculum.at_steps(step * self.per_step):
            self._enter_stage("step cap")
        last = step >= self.steps
        if step % int(grpo.samples_every) == 0 or last:
            self._write_samples()
        if step % int(grpo.eval_every) == 0 or last:
            self._validate()
        stop = self.interrupt.asked
        if step % int(grpo.checkpoint_every) == 0 or stop:
            self.save()
        self.bar.to(step, f"reward {self._recent('reward'):.3f}")
        return stop

    def before_step(self, step: int) -> None:
        """The gradient step after `step` begins: exploration is paid for less and less, and acted upon more."""
        grpo, done = self.config.grpo, step / self.steps
        self.entropy_coef = setup.falling(grpo.entropy_coef, grpo.entropy_coef_final, done)
        setup.set_entropy_coef(self.trl, self.entropy_coef)
        self.stream.wait = grpo.wait * max(0.0, 1.0 - 2.0 * done)

    def after_log(self, figures: dict[str, Any]) -> None:
        """TRL has figures; ours come along."""
        if "train_runtime" in figures or self.log is None:
            return
        figures.pop("epoch", None)  # there is no dataset
        figures = {**figures, **self.meter.read(), **episode_figures(self.stream), **self.baselines}
        figures["baseline/noop"] = 0.0  # by construction: gains are against it
        figures["entropy_coef"] = self.entropy_coef
        figures["curriculum/stage"] = self.curriculum.stage
        self.log.write(figures, self.progress.step)

    def _warm_start(self) -> None:
        settings = self.config.warm_start
        if settings.states:
            total = int(settings.states)
            bar = Bar("warm start", total, self.config.progress_bar)
            bar.say(f"warm start: {total:,} states, every admissible action equally likely")

            def report(states: int, facts: dict[str, float]) -> None:
                self.interrupt.check()  # a resumed run begins the warm start again
                bar.to(states, f"admissible {facts['warm_start/admissible']:.2f}")
                if _LOGS * states // total > _LOGS * (states - settings.batch) // total and self.log:
                    self.log.write(facts, min(0, (states - total) // settings.batch))  # before GRPO begins

            try:
                warm_start(self.language, self.config, self.scenarios[self.curriculum.stage], report)
            finally:
                bar.close()
        folder = self.run.path / "warm_start"
        if not folder.exists() and setup.rank() == 0:
            folder.mkdir()
            lm_files.save(self.language, folder)

    # ------------------------------------------------------------------ validation and stages
    def _judge(self) -> Judge:
        return Judge(self.config, self.scenarios[self.curriculum.stage], self.config.evaluation.worlds)

    def _measure_baselines(self) -> dict[str, float]:
        """Mean rewards of whole episodes that stand on the charts."""
        if setup.rank():
            return {}
        known = self.run.eval / f"baselines_{self.curriculum.stage}.json"
        figures = read_json(known)
        if not figures:
            figures = episode_baselines(self.judge, warm_started(self.run), self.config.grpo.temperature)
            save_json(known, figures)
        return figures

    def _validate(self) -> None:
        if setup.rank():
            return
        sampled = self.judge.language(self.language, self.config.grpo.temperature)
        greedy = self.judge.language(self.language, 0.0)
        step, reward = self.progress.step, float(sampled.episodes.reward.mean())
        greedy_reward = float(greedy.episodes.reward.mean())
        figures = validation_figures(sampled, greedy, self.baselines)
        if self.log is not None:
            self.log.write(figures, step)
            self.log.validation(self.judge, sampled, step)
        save_json(self.run.eval / f"{step:012d}.json", validation_record(step, sampled, greedy, self.baselines))
        self.bar.say(
            f"{step:>6,} steps  reward {reward:8.1f} sampled, {greedy_reward:8.1f} likeliest  "
            f"JSON {100 * sampled.json_valid:5.1f} %  admissible {100 * sampled.admissible:3.0f} %  "
            f"(noop {self.baselines['baseline/episode_noop']:.1f}, best constant "
            f"{self.baselines['baseline/episode_best_constant']:.1f})"
        )
        progress = self.progress
        if self.curriculum.stage == len(self.scenarios) - 1 and (
            progress.best_score is None or reward > progress.best_score
        ):
            progress.best_score = reward
            self._save_into(self.run.best, keep=1, score=reward)
        why = self.curriculum.at_validation(step * self.per_step, float(sampled.episodes.won.mean()))
        if why:
            self._enter_stage(why)

    def _enter_stage(self, why: str) -> None:
        stage = self.curriculum.stage
        self.bar.say(f"curriculum: stage {self.curriculum.stages[stage].name} ({why})")
        self.stream.set_scenario(self.scenarios[stage])
        self.meter.constants = []
        self.judge = self._judge()
        self.baselines = self._measure_baselines()

    # ------------------------------------------------------------------ records
    def _write_samples(self) -> None:
        grpo = self.config.grpo
        samples = draw_samples(self.trl, self.stream, self.language, grpo.group, grpo.act_price)
        if self.log is not None:
            prompts = self.stream.blocks[0].prompts
            self.log.samples(samples, [prompts.text(s.prompt_ids) for s in samples], self.progress.step)

    def _recent(self, name: str) -> float:
        values = self.trl._metrics["train"].get(name) or [0.0]
        return float(values[-1])

    def save(self) -> None:
        """A whole checkpoint of everything."""
        self._save_into(self.run.checkpoints, self.config.keep_checkpoints)
        self.saved_at = self.progress.step

    def _save_into(self, parent: Path, keep: int, **meta: Any) -> None:
        if setup.rank() == 0:
            self.progress.curriculum = self.curriculum.state
            save_checkpoint(parent, self.language, self.trl, self.stream, self.meter, self.progress, keep, **meta)

    def finish(self) -> float:
        """The table on worlds that nobody saw. Returns the mean reward of sampled replies."""
        if setup.rank():
            return 0.0
        return final_report(self.config, self.run, self.scenarios[-1], self.language, self.progress)

    def close(self) -> None:
        """End the bar and the log files."""
        self.bar.close()
        if self.log is not None:
            self.log.close()


if __name__ == "__main__":
    main()
