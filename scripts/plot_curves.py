"""The picture of the README: what training does to the reward, and where the dollars go.

    python scripts/plot_curves.py runs/ppo/<a> runs/ppo/<b> ...      # finished runs of one scenario, one per seed
    python scripts/plot_curves.py --from docs/results/easy_curves.json

The first form reads the runs' eval/ folders, plays the scripted policies on the same validation worlds (their levels
stand in the left panel), and writes the numbers to docs/results/easy_curves.json; both forms draw
docs/images/curves.png from them. Needs matplotlib: pip install -e '.[plot]'.
"""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import OmegaConf

from cloudrl.compose import curriculum_scenarios
from cloudrl.config import PPOConfig
from cloudrl.errors import UserError
from cloudrl.reward.bill import BILL_PARTS
from cloudrl.runs import Run, resolve_run, save_json
from cloudrl.scenarios.library import scenario_hash
from trainers.common.validation import Validator, baselines

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "docs" / "results" / "easy_curves.json"
PICTURE = ROOT / "docs" / "images" / "curves.png"

INK, FAINT, GRID = "#1f2933", "#66727f", "#e6e9ed"
SEEDS = ("#0b5cad", "#2f8fd8", "#7cbdf0")
PARTS = {"infrastructure": "#8fa3b8", "outage": "#d1495b", "exposure": "#edae49", "labour": "#5b9a8b"}
LABELS = {
    "noop": "do nothing",
    "handwritten": "hand-written\nrunbook",
    "runbook (searched)": "searched\nrunbook",
    "trained, sampled": "trained,\nsampled",
    "trained, best action": "trained,\nbest action",
}
LEVELS = ("noop", "handwritten", "runbook (searched)")


def level_name(agent: str) -> str:
    return LABELS.get(agent, agent).replace("\n", " ")


# ---- numbers --------------------------------------------------------------------------------------------------


def collect(folders: list[Path]) -> dict[str, Any]:
    """Everything the picture shows, from finished runs of one scenario."""
    runs = sorted((resolve_run(folder, "ppo") for folder in folders), key=lambda run: run.manifest()["seed"])
    configs = [load_config(run) for run in runs]
    scenarios = [(curriculum_scenarios(config) or [config.scenario])[-1] for config in configs]
    scenario = scenarios[0]
    for run, other in zip(runs, scenarios):
        if scenario_hash(other) != scenario_hash(scenario):
            raise UserError(f"{run.path}: trained on other worlds than {runs[0].path}; give runs of one scenario")
    validator = Validator(configs[0], scenario, configs[0].evaluation.worlds)
    idle = float(validator.idle.bill.mean())
    levels = {name: float(validator.play(agent).reward.mean()) for name, agent in baselines(scenario).items()}
    return {
        "scenario": f"{scenario.name}-v{scenario.version}",
        "constants": scenario_hash(scenario),
        "curve_worlds": [int(validator.seeds[0]), int(validator.seeds[-1])],
        "levels": levels,
        "warm_start_states": int(configs[0].warm_start.states),
        "curves": [curve(run, config.seed, idle) for run, config in zip(runs, configs)],
        **bills(runs),
    }


def load_config(run: Run) -> PPOConfig:
    saved = OmegaConf.merge(OmegaConf.structured(PPOConfig), OmegaConf.load(run.config_file))
    config = OmegaConf.to_object(saved)
    assert isinstance(config, PPOConfig)
    return config


def curve(run: Run, seed: int, idle: float) -> dict[str, Any]:
    """Sampled and deterministic validation reward by steps.

    `idle`: mean bill of doing nothing on the validation worlds. By it the validations of earlier stages of a
    curriculum, which are played on other worlds, are told and left out.
    """
    with open(run.progress_file, newline="") as file:
        savings = {int(row["step"]): row.get("ops/savings") for row in csv.DictReader(file)}
    points = []
    for file in sorted(run.eval.glob("[0-9]*.json")):
        result = json.loads(file.read_text())
        saved = savings.get(result["steps"])
        if saved and abs(result["sampled"]["bill"] + float(saved) - idle) < 1e-6 * idle:
            points.append((result["steps"], result["sampled"]["reward"], result["deterministic"]["reward"]))
    if not points:
        raise UserError(
            f"{run.path}: no validation on the worlds that this version of the project makes; train it anew"
        )
    steps, sampled, deterministic = (list(column) for column in zip(*points))
    return {"seed": seed, "steps": steps, "sampled": sampled, "deterministic": deterministic}


def bills(runs: list[Run]) -> dict[str, Any]:
    """Mean bill by part of each row of the final tables; the trained rows are means over the runs."""
    tables = []
    for run in runs:
        file = run.eval / "final.json"
        if not file.exists():
            raise UserError(f"{run.path}: not finished, its final table is missing")
        tables.append(json.loads(file.read_text()))
    rows = [{row["agent"]: row for row in table["rows"]} for table in tables]
    return {
        "table_worlds": [tables[0]["seeds"][0], tables[0]["seeds"][-1]],
        "bills": {
            agent: {part: float(np.mean([by_name[agent][part][0] for by_name in rows])) for part in BILL_PARTS}
            for agent in rows[0]
        },
    }


# ---- picture --------------------------------------------------------------------------------------------------


def draw(data: dict[str, Any], picture: Path) -> None:
    try:
        import matplotlib
    except ImportError:
        raise UserError("matplotlib is not installed; say pip install -e '.[plot]'") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    style = {
        "font.size": 12,
        "font.family": "DejaVu Sans",
        "text.color": INK,
        "axes.labelcolor": INK,
        "axes.edgecolor": FAINT,
        "xtick.color": INK,
        "ytick.color": INK,
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
    with plt.rc_context(style):
        figure, (left, right) = plt.subplots(
            1, 2, figsize=(12, 5), width_ratios=(1.15, 1), layout="constrained", facecolor="white"
        )
        draw_curves(left, data)
        draw_bills(right, data)
        picture.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(picture, dpi=100)
        plt.close(figure)


def draw_curves(axes: Any, data: dict[str, Any]) -> None:
    axes.set_title(f"Reward while training, {data['scenario']}", loc="left", fontweight="bold", fontsize=13)
    last = max(line["steps"][-1] for line in data["curves"]) / 1e3
    for line, colour in zip(data["curves"], SEEDS * 10):
        x = np.array(line["steps"]) / 1e3
        axes.plot(x, line["sampled"], color=colour, lw=2.4, label=f"trained, seed {line['seed']}", zorder=3)
        axes.plot(x[0], line["sampled"][0], "o", ms=7, mec=colour, mfc="white", mew=2, zorder=4)
    values = [v for line in data["curves"] for v in line["sampled"]] + [data["levels"][name] for name in LEVELS]
    margin = 0.09 * (max(values) - min(values))
    axes.set_ylim(min(values) - margin, max(values) + 1.6 * margin)
    axes.set_xlim(0, 1.02 * last)
    same = data["levels"]["handwritten"] == data["levels"]["runbook (searched)"]
    above = np.inf
    for name in sorted(LEVELS[: 2 if same else 3], key=lambda name: -data["levels"][name]):
        level = data["levels"][name]
        axes.axhline(level, color=FAINT, lw=1.4, ls=(0, (5, 3)), zorder=1)
        below = above - level < margin  # no room above the line: write under it
        axes.annotate(
            level_name(name), (1.02 * last, level), (-2, -4 if below else 4), textcoords="offset points",
            ha="right", va="top" if below else "bottom", color=FAINT, fontsize=11,
        )  # fmt: skip
        above = level
    axes.annotate(
        f"random play: {data['levels']['random']:.0f}, far below".replace("-", "\N{MINUS SIGN}"),
        (0.01, 0.02), xycoords="axes fraction", color=FAINT, fontsize=10.5,
    )  # fmt: skip
    axes.set_xlabel("environment steps, thousands")
    axes.set_ylabel("mean reward, sampled play")
    axes.grid(axis="y", color=GRID, lw=1)
    axes.set_axisbelow(True)
    axes.legend(frameon=False, loc="center right", fontsize=11)
    if data["warm_start_states"]:
        first = data["curves"][0]
        axes.annotate(
            "after the warm start", (first["steps"][0] / 1e3, first["sampled"][0]), (26, -48),
            textcoords="offset points", fontsize=10.5, color=INK, zorder=5,
            bbox={"boxstyle": "round,pad=0.2", "fc": "white", "ec": "none"},
            arrowprops={"arrowstyle": "-", "color": FAINT, "lw": 1, "shrinkB": 6},
        )  # fmt: skip


def draw_bills(axes: Any, data: dict[str, Any]) -> None:
    axes.set_title("Bill of an episode by part, $", loc="left", fontweight="bold", fontsize=13)
    hidden = {"random"}
    if data["bills"]["handwritten"] == data["bills"]["runbook (searched)"]:
        hidden.add("runbook (searched)")
    agents = [agent for agent in data["bills"] if agent not in hidden]
    rows = np.arange(len(agents))[::-1]
    starts = np.zeros(len(agents))
    for part, colour in PARTS.items():
        widths = np.array([data["bills"][agent][part] for agent in agents])
        axes.barh(rows, widths, left=starts, height=0.68, color=colour, label=part, zorder=2)
        starts += widths
    for row, total, agent in zip(rows, starts, agents):
        weight = "bold" if agent.startswith("trained") else "normal"
        axes.text(total + 0.015 * starts.max(), row, f"{total:.1f}", va="center", fontsize=11, fontweight=weight)
    axes.set_yticks(rows, [level_name(agent) for agent in agents])
    for label, agent in zip(axes.get_yticklabels(), agents):
        label.set_fontweight("bold" if agent.startswith("trained") else "normal")
    axes.set_xlim(0, 1.13 * starts.max())
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x", color=GRID, lw=1)
    axes.set_axisbelow(True)
    axes.legend(frameon=False, ncols=4, loc="upper center", bbox_to_anchor=(0.4, -0.06), fontsize=11,
                handlelength=1.1, columnspacing=1.2)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path, help="finished run folders")
    parser.add_argument("--from", dest="source", type=Path, help="draw this data file again, read no runs")
    parser.add_argument("--data", type=Path, default=DATA, help="where the numbers go (default: %(default)s)")
    parser.add_argument("--picture", type=Path, default=PICTURE, help="where the picture goes (default: %(default)s)")
    args = parser.parse_args()
    if bool(args.runs) == (args.source is not None):
        parser.error("give run folders, or --from a data file")
    try:
        if args.source is None:
            data = collect(args.runs)
            args.data.parent.mkdir(parents=True, exist_ok=True)
            save_json(args.data, data)
            print(args.data)
        else:
            data = json.loads(args.source.read_text())
        draw(data, args.picture)
        print(args.picture)
    except (UserError, OSError, ValueError) as error:
        raise SystemExit(f"cloudrl: {error}") from None


if __name__ == "__main__":
    main()
