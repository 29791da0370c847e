"""What a GRPO run says of itself: figures for the charts, records of validations, the final table and the card."""

from __future__ import annotations

from typing import Any

import numpy as np

from cloudrl.policies import scripted
from cloudrl.reward.bill import BILL_PARTS
from cloudrl.runs import Run, latest_checkpoint, resume_command, save_json, write_card
from cloudrl.scenarios.schema import Scenario
from cloudrl.seeding import VALIDATION_SEEDS
from evaluation import table
from evaluation.agents import lm_files
from evaluation.agents.lm_files import LanguageModel
from evaluation.statistics import paired
from trainers.common import card
from trainers.common.report import summary
from trainers.llm.checkpoints import Progress
from trainers.llm.config import GRPOConfig, Kind
from trainers.llm.judge import Judge, Played
from trainers.llm.stream import Stream


def episode_figures(stream: Stream) -> dict[str, float]:
    """Of the training episodes that ended lately."""
    if not stream.results:
        return {}
    mean = {key: float(np.mean([r[key] for r in stream.results])) for key in stream.results[0]}
    ticks = stream.blocks[0].sim.ticks
    out = {f"reward/{k.removeprefix('reward_')}": v for k, v in mean.items() if k.startswith("reward_")}
    out |= {f"bill/{part}": mean[f"bill_{part}"] for part in BILL_PARTS}
    return out | {
        "rollout/ep_rew_mean": mean["reward"],
        "safety/violations": mean["violations"],
        "safety/episode_veto_rate": mean["vetoed"] / ticks,
        "safety/mask_fraction": float(np.mean([b.sim.masks.mean() for b in stream.blocks])),
        "ops/cascades": mean["cascades"],
        "ops/slo": mean["served"],
    }


def episode_baselines(judge: Judge, warm: LanguageModel | None, temperature: float) -> dict[str, float]:
    """Mean rewards of whole episodes that stand on the charts beside the model's."""
    idle = judge.play(scripted.noop())
    searched = scripted.from_runbook("runbook", scripted.searched_runbook(judge.scenario.name))
    out = {
        "baseline/episode_noop": float(idle.reward.mean()),
        "baseline/episode_noop_bill": float(idle.bill.mean()),
        "baseline/episode_best_constant": float(judge.best_constant()[1].reward.mean()),
        "baseline/episode_runbook": float(judge.play(searched).reward.mean()),
    }
    if warm is not None:
        out["baseline/episode_warm_start"] = float(judge.language(warm, temperature).episodes.reward.mean())
    return out


def validation_figures(sampled: Played, greedy: Played, baselines: dict[str, float]) -> dict[str, float]:
    """Scalars of a validation."""
    episodes = sampled.episodes
    return {
        "eval/mean_reward": float(episodes.reward.mean()),
        "eval/deterministic_reward": float(greedy.episodes.reward.mean()),
        "eval/json_valid": sampled.json_valid,
        "eval/admissible": sampled.admissible,
        "eval/deterministic_json_valid": greedy.json_valid,
        **{f"eval/{name}": float(getattr(episodes, name).mean()) for name in ("bill", "violations", "cascades")},
        "ops/win_rate": float(episodes.won.mean()),
        "ops/savings": baselines["baseline/episode_noop_bill"] - float(episodes.bill.mean()),
        **baselines,
    }


def validation_record(step: int, sampled: Played, greedy: Played, baselines: dict[str, float]) -> dict[str, Any]:
    """Details of a validation, for eval/<step>.json."""

    def of(played: Played) -> dict[str, Any]:
        facts = {"json_valid": played.json_valid, "admissible": played.admissible}
        return {**summary(played.episodes), **facts}

    return {"step": step, "sampled": of(sampled), "likeliest": of(greedy), "baselines": baselines}


def warm_started(run: Run) -> LanguageModel | None:
    """The model as the warm start left it."""
    folder = run.path / "warm_start"
    return lm_files.load(folder) if (folder / lm_files.DESCRIPTION).exists() else None


def final_report(
    config: GRPOConfig, run: Run, scenario: Scenario, language: LanguageModel, progress: Progress
) -> float:
    """Load the best model, print the table, write the card. Returns the mean reward of sampled replies."""
    best = latest_checkpoint(run.best)
    if best is not None:
        language = lm_files.load(best, device=str(next(language.model.parameters()).device))
    judge = Judge(config, scenario, config.evaluation.final_worlds, VALIDATION_SEEDS.start)
    name, constant = judge.best_constant()
    results = {"noop": judge.play(scripted.noop()), f"best constant ({name})": constant}
    hand = scripted.handwritten()
    searched = scripted.from_runbook("runbook (searched)", scripted.searched_runbook(scenario.name))
    for policy in (scripted.random(), hand, searched):
        results[policy.name] = judge.play(policy)
    models: dict[str, Played] = {}
    warm = warm_started(run)
    for title, model in (("warm start", warm), ("trained", language)):
        if model is not None:
            models[f"{title}, sampled"] = judge.language(model, config.grpo.temperature)
            models[f"{title}, likeliest"] = judge.language(model, 0.0)
    results |= {title: played.episodes for title, played in models.items()}
    rows = table.rows(results)
    seeds = judge.seeds
    title = f"{scenario.name}: {len(seeds)} validation worlds, seeds {seeds[0]}-{seeds[-1]}; ± = 95 % interval"
    table.show(rows, title)
    sampled = models["trained, sampled"]
    gains = {
        other: paired(results[other].bill, sampled.episodes.bill)
        for other in results
        if other != "trained, sampled"
    }
    lines = [f"- {other}: {gain}" for other, gain in gains.items()]
    validity = "; ".join(
        f"{key}: valid JSON {100 * p.json_valid:.1f} %, admissible {100 * p.admissible:.1f} %"
        for key, p in models.items()
    )
    groups = _last_groups(run)
    print(
        "Sampled replies of the trained model save, world by world, $ (below 0: cost more) against\n"
        + "\n".join(lines)
    )
    print(f"{validity}\n{groups}")
    save_json(
        run.eval / "final.json",
        {
            "rows": table.plain(rows), "seeds": seeds, "seconds": progress.seconds,
            "models": {k: {"json_valid": p.json_valid, "admissible": p.admissible} for k, p in models.items()},
            "operations": {k: summary(p.episodes).get("operations") for k, p in models.items()},
            "saved": {k: [g.mean, g.low, g.high] for k, g in gains.items()},
        },
    )  # fmt: skip
    base = config.model.path or config.model.name
    adapters = f", adapters of rank {config.model.lora.rank}" if config.model.lora.rank else ""
    size = sum(weight.numel() for weight in language.model.parameters())
    about = card.Card(
        what=f"A language model (`{base}`{adapters}, {size:,} weights) that reads a prompt of the state and "
        "answers with exactly one action in JSON; anything else is a NOOP.",
        training=(
            f"Warm start on {config.warm_start.states:,} states, every admissible action equally likely; then "
            f"GRPO, {progress.step:,} steps of {config.grpo.states} states, estimator "
            f"{config.grpo.estimator.value}; {progress.seconds:.0f} s of processor time. The model of the best "
            "validation is kept in `best/`.",
        ),
        results=f"{title}.\n\n{table.markdown(rows)}\nSampled replies of the trained model save, world by world, "
        f"$ (below 0: cost more) against\n\n" + "\n".join(lines) + f"\n\n{validity}.\n\n{groups}",
        chosen="The checkpoint was chosen",
        limits=(
            "Beware of a collapse: a model that always answers NOOP writes perfect JSON. Compare it with *best "
            "constant* in the table, and see the share of NOOP above.",
        ),
        agent="llm",
        page="grpo.md",
        licence=card.licence(None if config.model.kind is Kind.tiny else base),
    )
    write_card(run, card.markdown(about, config, run, scenario))
    print(f"\nrun folder   {run.path}\ncurves       tensorboard --logdir {run.path.parent.parent}\n"
          f"go on        {resume_command(run, 'grpo')} grpo.steps=...")  # fmt: skip
    return float(sampled.episodes.reward.mean())


def _last_groups(run: Run) -> str:
    """The two signs of a collapse, as they stood at the end of training."""
    import csv

    found: dict[str, str] = {}
    with open(run.progress_file, newline="") as file:
        for row in csv.DictReader(file):
            found |= {key: value for key, value in row.items() if value}
    named = {
        "train/rewards/score/mean": "mean reward of a reply",
        "baseline/best_constant": "of the best constant action",
        "baseline/noop_wins": "groups won by NOOP",
        "llm/op/noop": "share of NOOP",
    }
    parts = [f"{text} {float(found[key]):.3f}" for key, text in named.items() if key in found]
    return "At the end of training: " + ", ".join(parts) + "." if parts else ""
