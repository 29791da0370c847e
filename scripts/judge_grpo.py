"""Judge language models that trainers.grpo trained on worlds they have never seen, world by world.

    python scripts/judge_grpo.py runs/grpo/<a> <b> <c> --worlds 200 --out docs/results/grpo_easy
    python scripts/judge_grpo.py runs/grpo/<a> --split validation --worlds 50
    python scripts/judge_grpo.py runs/grpo/<a> --worlds 8 --bfloat16 --keep played [--only sampled]

The last form is for large models: what was played is kept in a folder, and not played again; `--only` plays but
the rows of models whose name holds a text, so that several processes can share the work, and draws no table.

The best model of each run is played, sampled and with its likeliest replies, and what its warm start left, next
to doing nothing, the best constant operation on these very worlds, random admissible play and the runbooks.
Writes <out>.md, <out>.json and <out>.png, the curves of the runs (pip install -e '.[plot]').
"""

from __future__ import annotations

import argparse
import csv
import uuid
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch as th
from omegaconf import OmegaConf

from cloudrl.errors import UserError
from cloudrl.policies import scripted
from cloudrl.runs import Run, latest_checkpoint, read_json, resolve_run, save_json, write_atomic
from cloudrl.scenarios.library import load_scenario, scenario_hash
from cloudrl.scenarios.schema import Scenario
from cloudrl.seeding import TEST_SEEDS, VALIDATION_SEEDS
from evaluation import table
from evaluation.agents import lm_files
from evaluation.agents.llm_agent import BLOCK, CheckpointAgent
from evaluation.rollout import Episodes, play_episodes
from trainers.llm.judge import constants

STARTS = {"validation": VALIDATION_SEEDS.start, "test": TEST_SEEDS.start}
SERIES = {"eval/mean_reward": "sampled", "eval/deterministic_reward": "likeliest"}
LEVELS = {
    "baseline/episode_noop": "do nothing",
    "baseline/episode_best_constant": "best constant",
    "baseline/episode_runbook": "searched runbook",
}
HOW = {"sampled": 1.0, "likeliest": 0.0}
COLOURS = ("#0b5cad", "#2f8fd8", "#7cbdf0", "#c44536", "#e07a5f", "#f2b5a7")


def title_of(run: Run) -> str:
    """Estimator (or model) and seed of a run."""
    config = OmegaConf.load(run.config_file)
    what = (
        config.grpo.estimator if config.model.kind == "tiny" else f"{config.model.name}, {config.grpo.estimator}"
    )
    return f"{what} seed {config.seed}"


def play_model(
    folder: Path, scenario: Scenario, seeds: np.ndarray, temperature: float, bfloat16: bool = False
) -> tuple[Episodes, float]:
    """(episodes, share of replies that are exactly one action in JSON) of a saved model."""
    language = lm_files.load(folder)
    if bfloat16:
        language.model.to(th.bfloat16)
    block = min(BLOCK, len(seeds))
    agent = CheckpointAgent.of(language, scenario, scenario.slots, temperature=temperature, block=block)
    episodes = play_episodes(agent, scenario, seeds)
    counts = agent.counts()
    return episodes, float((counts["json_valid"] * counts["replies"]).sum() / counts["replies"].sum())


def remember(file: Path, episodes: Episodes, valid: float) -> None:
    """Write what a model played."""
    arrays: dict[str, Any] = {
        f.name: getattr(episodes, f.name) for f in fields(episodes) if f.name not in ("parts", "ops")
    } | {f"part_{name}": values for name, values in episodes.parts.items()}
    file.parent.mkdir(parents=True, exist_ok=True)
    own = file.with_name(f"{uuid.uuid4().hex}.npz")
    np.savez(own, valid=valid, **arrays)
    own.replace(file)


def recall(file: Path, seeds: np.ndarray) -> tuple[Episodes, float] | None:
    """What `remember` wrote of these worlds; None if it did not."""
    if not file.exists():
        return None
    with np.load(file) as saved:
        if not np.array_equal(saved["seeds"], seeds):
            raise UserError(f"{file}: is of other worlds; name another folder, or delete it")
        parts = {name.removeprefix("part_"): saved[name] for name in saved if name.startswith("part_")}
        arrays = {f.name: saved[f.name] for f in fields(Episodes) if f.name not in ("parts", "ops")}
        return Episodes(parts=parts, ops=None, **arrays), float(saved["valid"])


def references(scenario: Scenario, seeds: np.ndarray) -> dict[str, Episodes]:
    """What needs no training. The best constant is the best one on these worlds: it knows more than it may."""
    played = {name: play_episodes(agent, scenario, seeds) for name, agent in constants().items()}
    best = max(played, key=lambda name: float(played[name].reward.mean()))
    agents = {
        "noop": scripted.noop(),
        "random valid": scripted.random(),
        "hand-written": scripted.handwritten(),
        "searched runbook": scripted.from_runbook("runbook", scripted.searched_runbook(scenario.name)),
    }
    out = {name: play_episodes(agent, scenario, seeds) for name, agent in agents.items()}
    return {"noop": out.pop("noop"), f"best constant ({best})": played[best], **out}


def seconds_of(run: Run) -> float:
    """Processor time of a run up to its newest checkpoint."""
    newest = latest_checkpoint(run.checkpoints)
    return float("nan") if newest is None else float(read_json(newest / "progress.json").get("seconds", "nan"))


def differences(results: dict[str, Episodes], others: list[str], name: str, how: str) -> list[dict[str, Any]]:
    """Paired differences of a trained model against the `others`, its warm start, and other runs of its seed."""
    row = f"{name}, trained, {how}"
    seed = name.split("seed")[-1]
    rivals = [r for r in results if r.endswith(f"seed{seed}, trained, {how}") and r != row]
    own = [r for r in results if r.startswith(f"{name}, warm start")]
    return [table.difference(results, row, other) for other in [*others, *own, *rivals]]


def curve(run: Run) -> dict[str, Any]:
    """Validations of a run by gradient step, and the levels beside them."""
    with open(run.progress_file, newline="") as file:
        rows = [row for row in csv.DictReader(file) if row.get("eval/mean_reward")]
    return {
        "steps": [int(row["step"]) for row in rows],
        **{name: [float(row[key]) for row in rows] for key, name in SERIES.items()},
        "levels": {name: float(rows[-1][key]) for key, name in LEVELS.items()} if rows else {},
    }


def draw(curves: dict[str, dict[str, Any]], to: Path) -> None:
    """Reward of validation episodes over training: sampled solid, likeliest dashed."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(9.2, 4.2), layout="constrained")
    for (name, data), colour in zip(curves.items(), COLOURS * len(curves), strict=False):
        axes.plot(data["steps"], data["sampled"], "-o", color=colour, ms=4, label=f"{name}, sampled")
        axes.plot(data["steps"], data["likeliest"], "--", color=colour, lw=1.2, label=f"{name}, likeliest")
    levels = next(iter(curves.values()))["levels"]
    names: dict[float, str] = {}
    for name, level in levels.items():
        key = round(level, 1)
        names[key] = f"{names[key]} = {name}" if key in names else name
    for level, name in names.items():
        axes.axhline(level, color="#66727f", lw=0.9, ls=":")
        axes.annotate(
            name, (1.0, level), xycoords=("axes fraction", "data"), xytext=(-4, 3), textcoords="offset points",
            ha="right", fontsize=8, color="#66727f",
        )  # fmt: skip
    axes.set(xlabel="gradient steps", ylabel="mean reward R of validation episodes, baseline ticks")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(frameon=False, fontsize=8, loc="outside right center")
    figure.savefig(to, dpi=150)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", help="run folders of trainers.grpo")
    parser.add_argument("--scenario", default="easy", help="the suite")
    parser.add_argument("--split", choices=STARTS, default="test")
    parser.add_argument("--worlds", type=int, default=200)
    parser.add_argument("--no-warm-start", action="store_true", help="leave the warm starts out")
    parser.add_argument("--how", choices=HOW, help="leave the other way to play out")
    parser.add_argument("--bfloat16", action="store_true", help="models compute in bfloat16")
    parser.add_argument("--keep", type=Path, help="folder for what was played; it is not played again")
    parser.add_argument("--only", help="play but rows of models with this text in their name, and keep them")
    parser.add_argument("--out", type=Path, help="write <out>.md, <out>.json and <out>.png")
    args = parser.parse_args()
    th.set_num_threads(1)
    scenario = load_scenario(args.scenario)
    seeds = STARTS[args.split] + np.arange(args.worlds)
    runs = {title_of(run): run for run in (resolve_run(path, "grpo") for path in args.runs)}
    if len(runs) < len(args.runs):
        raise UserError("two of these runs have the same estimator and seed: their rows would have the same name")
    if args.only and args.keep is None:
        raise UserError("--only: says what to play, --keep must say where to keep it")
    results = {} if args.only else references(scenario, seeds)
    others = list(results)
    ways = [args.how] if args.how else list(HOW)
    validity: dict[str, float] = {}
    for name, run in runs.items():
        best = latest_checkpoint(run.best)
        models = {"trained": best} | ({} if args.no_warm_start else {"warm start": run.path / "warm_start"})
        for what, folder in models.items():
            for how in ways:
                row = f"{name}, {what}, {how}"
                if args.only and args.only not in row:
                    continue
                if folder is None:
                    raise UserError(f"{run.path}: has no best model yet; resume the run")
                file = None if args.keep is None else args.keep / f"{row.replace(', ', '_').replace(' ', '_')}.npz"
                played = None if file is None else recall(file, seeds)
                if played is None:
                    played = play_model(folder, scenario, seeds, HOW[how], args.bfloat16)
                    if file is not None:
                        remember(file, *played)
                results[row], validity[row] = played
                print(f"{row}: {results[row].reward.mean():.1f}, valid JSON {validity[row]:.2%}", flush=True)
    if args.only:
        return
    gaps = [gap for name in runs for how in ways for gap in differences(results, others, name, how)]
    rows = table.rows(results)
    title = f"{scenario.name}, {args.split} worlds {seeds[0]}-{seeds[-1]}; ± = half the 95 % interval"
    table.show(rows, title)
    lines = ["| policy | against | saves $ more | reward gained | separated |", "|---|---|---|---|---|"]
    for gap in gaps:
        gap["separated"] = bool(gap["saves"][1] > 0 and gap["reward"][1] > 0)
        lines.append(f"{table.gained(gap)} {'yes' if gap['separated'] else 'no'} |")
    seconds = {name: seconds_of(run) for name, run in runs.items()}
    facts = [
        f"- {name}: {used:.0f} s of processor time for training and its validations"
        for name, used in seconds.items()
    ] + [f"- {row}: {share:.2%} of replies are valid JSON" for row, share in validity.items()]
    print("\n".join(lines + facts))
    if args.out is not None:
        picture = args.out.with_suffix(".png")
        args.out.parent.mkdir(parents=True, exist_ok=True)
        curves = {name: curve(run) for name, run in runs.items()}
        shown = ""
        if any(len(data["steps"]) > 1 for data in curves.values()):
            draw(curves, picture)
            shown = f"\n![curves]({picture.name})\n"
        text = (
            f"# GRPO: {title}\n\nScenario hash {scenario_hash(scenario)}. By `scripts/judge_grpo.py`.\n\n"
            f"{table.markdown(rows)}\nWorld by world (95 % interval); separated: both intervals above zero.\n\n"
            + "\n".join(lines) + "\n\n" + "\n".join(facts) + "\n" + shown
        )  # fmt: skip
        write_atomic(args.out.with_suffix(".md"), text)
        save_json(
            args.out.with_suffix(".json"),
            {
                "scenario": scenario.name, "hash": scenario_hash(scenario), "rows": table.plain(rows),
                "paired": gaps, "valid_json": validity, "seconds": seconds, "curves": curves,
            },
        )  # fmt: skip


if __name__ == "__main__":
    main()
