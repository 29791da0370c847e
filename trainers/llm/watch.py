"""What a person sees of a GRPO run: TensorBoard, progress.csv, tables of sampled groups.

TRL's figures keep TRL's names (`train/reward`, `train/entropy`, ...); ours are `llm/`, `baseline/`, `group/`,
`eval/`, `ops/`, `safety/`, `reward/`, `bill/`. The best constant action and NOOP stand on every chart of rewards:
a model that collapses onto a safe constant looks as if it learned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from omegaconf import OmegaConf
from torch.utils.tensorboard import SummaryWriter
from torch.utils.tensorboard.summary import hparams

from cloudrl.llm.parse import Code
from cloudrl.reward.terms import TERM_NAMES
from cloudrl.runs import Run, write_atomic
from trainers.common.logs import METRICS, CsvRows
from trainers.common.pictures import explain_operations, show_validation
from trainers.llm.groups import Sample
from trainers.llm.judge import Judge, Played

_BASELINES = ["baseline/best_constant", "baseline/noop", "baseline/random_valid"]
LAYOUT = {
    "Outcome": {
        "Reward of whole episodes": [
            "Multiline",
            ["eval/mean_reward", "eval/deterministic_reward", "baseline/episode_noop",
             "baseline/episode_best_constant", "baseline/episode_runbook", "baseline/episode_warm_start"],
        ],
        "Reward of replies": ["Multiline", ["train/rewards/score/mean", *_BASELINES]],
        "Saved against doing nothing, $": ["Multiline", ["ops/savings"]],
        "Validation wins, share": ["Multiline", ["ops/win_rate"]],
    },
    "GRPO: replies": {
        "Valid JSON, and admissible": ["Multiline", ["llm/json_valid", "llm/admissible", "eval/json_valid"]],
        "Rejected as": ["Multiline", [f"llm/{code}" for code in Code if code is not Code.ok]],
        "Vetoed and invalid": ["Multiline", ["safety/veto_rate", "safety/invalid_rate"]],
        "NOOP: share of groups it wins, of states where it is best": [
            "Multiline", ["baseline/noop_wins", "baseline/noop_is_best", "llm/op/noop"],
        ],
        "Diversity": ["Multiline", ["llm/action_diversity", "llm/distinct_actions"]],
    },
    "GRPO: learning": {
        "Entropy of a token, of an action": ["Multiline", ["train/entropy", "llm/action_entropy"]],
        "Weight of the entropy": ["Multiline", ["train/entropy_coef"]],
        "Groups without variance": ["Multiline", ["train/frac_reward_zero_std", "llm/groups_without_variance"]],
        "Loss": ["Multiline", ["train/loss", "warm_start/loss"]],
        "Gradient": ["Multiline", ["train/grad_norm", "train/learning_rate"]],
        "Gain by part, baseline ticks": ["Multiline", [f"group/{t}" for t in TERM_NAMES] + ["group/lookahead"]],
        "Curriculum": ["Multiline", ["curriculum/stage"]],
    },
}  # fmt: skip
_OURS = (
    "llm/", "baseline/", "group/", "eval/", "ops/", "safety/", "reward/", "bill/", "curriculum/", "warm_start/",
    "memory/", "rollout/", "time/",
)  # fmt: skip


class Log:
    """TensorBoard and progress.csv of a run; a resumed run goes on in both."""

    def __init__(self, run: Run, resume_step: int | None) -> None:
        purge = None if resume_step is None else resume_step + 1
        self.board = SummaryWriter(str(run.tb), purge_step=purge)
        if resume_step is None:
            self.board.add_custom_scalars(LAYOUT)
            explain_operations(self.board)
        for summary in hparams(_settings(run), dict.fromkeys(METRICS, 0.0)):
            self.board.file_writer.add_summary(summary)  # type: ignore[attr-defined]
        self.csv = CsvRows(run.progress_file, resume_step)
        self.folder = run.path / "samples"

    def write(self, figures: dict[str, Any], step: int) -> None:
        """One row: names of TRL get `train/` in front, as its own TensorBoard callback does."""
        named = {
            key if key.startswith(_OURS) else f"train/{key}": float(value)
            for key, value in figures.items()
            if isinstance(value, (int, float, np.number)) and np.isfinite(value)
        }
        for key, value in named.items():
            self.board.add_scalar(key, value, step)
        self.csv.write(named, {}, step)
        self.board.flush()

    def validation(self, judge: Judge, played: Played, step: int) -> None:
        """Pictures of a validation."""
        safety = judge.config.safety
        show_validation(self.board, judge.scenario, safety, played.episodes, played.actions, step)

    def samples(self, samples: Sequence[Sample], texts: Sequence[str], step: int) -> None:
        """Sampled groups as a table: in TensorBoard's text tab, and as samples/step_<n>.md."""
        if not samples:
            return
        table = "\n\n".join(markdown(s, t) for s, t in zip(samples, texts, strict=True))
        self.board.add_text("groups", table, step)
        self.folder.mkdir(exist_ok=True)
        write_atomic(self.folder / f"step_{step:06d}.md", f"# Groups of step {step}\n\n{table}\n")

    def close(self) -> None:
        self.board.close()


def _settings(run: Run) -> dict[str, Any]:
    """What the HParams tab shows of a run, from its own config: few, and named as in PPO's runs."""
    config: Any = OmegaConf.load(run.config_file)
    stages = config.curriculum.stages
    return {
        "trainer": "grpo",
        "seed": config.seed,
        "scenario": stages[-1].scenario if stages else config.scenario.name,
        "curriculum": ", ".join(stage.name for stage in stages),
        "steps": int(config.grpo.steps),
        "learning_rate": config.grpo.learning_rate,
        "policy": config.model.name,
        "warm_start": int(config.warm_start.states),
        "safety": str(config.safety.mode),
        "memory": config.memory.enabled,
    }


def markdown(sample: Sample, text: str) -> str:
    """One group: the state, then one row per different reply."""
    mean = float(np.mean(sample.rewards))
    rows: dict[str, list[Any]] = {}
    for k, reply in enumerate(sample.texts):
        verdict = sample.levels[k] if sample.codes[k] == Code.ok else sample.codes[k]
        entry = rows.setdefault(reply, [0, verdict, float(sample.gains[k]), float(sample.rewards[k])])
        entry[0] += 1
    lines = [
        f"| {n} | `{_cell(reply)}` | {verdict} | {'' if np.isnan(gain) else f'{gain:+.2f}'} | {reward:+.3f} | "
        f"{reward - mean:+.3f} |"
        for reply, (n, verdict, gain, reward) in sorted(rows.items(), key=lambda item: -item[1][3])
    ]
    titles = ("times", "reply", "verdict", "gain, baseline ticks", "reward", "less the group's mean")
    head = f"| {' | '.join(titles)} |\n{'|---' * len(titles)}|"
    return f"```\n{text}\n```\n\n{head}\n" + "\n".join(lines)


def _cell(text: str, longest: int = 120) -> str:
    """A reply within a markdown table; a model may write anything."""
    text = " ".join(text.split()).replace("|", "\\|").replace("`", "'")
    return text if len(text) <= longest else text[: longest - 3] + "..."
