"""The picture of the README: what training does to the reward, and where the dollars go.

    python scripts/plot_curves.py runs/ppo/<a> runs/ppo/<b> ...      # finished runs of one scenario, one per seed
    python scripts/plot_curves.py --from docs/results/easy_curves.json

The first form reads the runs' eval/ folders, plays the scripted policies on the same validation worlds (their
levels stand in the left panel), repeats the warm starts of the runs, which do not validate meanwhile (a minute
each), writes the numbers to docs/results/easy_curves.json and the table of README.md; both forms draw
docs/images/curves.png. Needs matplotlib: pip install -e '.[plot]'.
"""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch as th
from omegaconf import OmegaConf

from cloudrl.compose import curriculum_scenarios
from cloudrl.config import PPOConfig
from cloudrl.errors import UserError
from cloudrl.reward.bill import BILL_PARTS
from cloudrl.runs import Run, resolve_run, save_json, write_atomic
from cloudrl.scenarios.library import scenario_hash
from cloudrl.simulator import Simulator
from evaluation.agents.policy_agent import PolicyAgent
from trainers.common import build
from trainers.common.validation import Validator, baselines
from trainers.common.warm_start import warm_start

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
COLUMNS = {
    "reward": "reward R",
    "win_rate": "wins %",
    "bill": "bill $",
    "savings": "saved $",
    "violations": "unsafe acts",
}
FORMATS = ((1, 1), (100, 0), (1, 2), (1, 2), (1, 1))  # factor and digits
BEGIN, END = "<!-- begin results -->", "<!-- end results -->"
WARM_POINTS = 10
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
        "curves": [
            {**curve(run, config.seed, idle), "warm_start": warm_start_curve(config, validator)}
            for run, config in zip(runs, configs)
        ],
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


def warm_start_curve(config: PPOConfig, validator: Validator) -> dict[str, list[float]]:
    """Sampled validation reward by labelled states, of the run's own warm start: a seed fixes the weights.

    The last point is after NOOP's logit was set.
    """
    settings = config.warm_start
    if not settings.states:
        return {"states": [], "sampled": []}
    th.set_num_threads(config.threads)
    scenarios = curriculum_scenarios(config) or [config.scenario]
    worlds = build.make_worlds(config, scenarios[0], build.make_memory(config))
    model = build.make_model(config, worlds)
    sim = Simulator(
        scenarios[-1], config.ppo.n_envs, reward=config.reward, safety=config.safety,
        n_slots=worlds.simulator.n_slots,
    )  # fmt: skip
    every = int(settings.states) // WARM_POINTS
    states: list[float] = []
    sampled: list[float] = []

    def look(done: int, facts: dict[str, float]) -> None:
        if done // every > (done - sim.n_worlds) // every and done < settings.states:
            states.append(done)
            sampled.append(float(validator.play(PolicyAgent(model.policy, deterministic=False)).reward.mean()))

    print(f"seed {config.seed}: warm start", flush=True)
    warm_start(model, sim, settings, config.seed, look)
    offsets = [settings.sharpness * ticks for ticks in settings.noop_offsets]
    chooser = Validator(config, scenarios[0], config.evaluation.worlds)
    build.shift_noop(model, chooser.best_noop_offset(model, offsets, deterministic=False))
    states.append(int(settings.states))
    sampled.append(float(validator.play(PolicyAgent(model.policy, deterministic=False)).reward.mean()))
    return {"states": states, "sampled": sampled}


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
        "table": {
            agent: {key: np.mean([by_name[agent][key] for by_name in rows], axis=0).tolist() for key in COLUMNS}
            for agent in rows[0]
        },
    }


def write_table(data: dict[str, Any], readme: Path) -> None:
    """Put the final table between the marks of the README."""
    first, last = data["table_worlds"]
    lines = [
        f"{data['scenario']}, {last - first + 1} validation worlds (seeds {first:,} to {last:,}), "
        f"mean ± half the 95 % interval; trained: mean of {len(data['curves'])} training seeds.",
        "",
        "| | " + " | ".join(COLUMNS.values()) + " |",
        "|---|" + "---:|" * len(COLUMNS),
    ]
    for agent, row in data["table"].items():
        name = f"**{level_name(agent)}**" if agent.startswith("trained") else level_name(agent)
        cells = [
            f"{scale * mean:.{digits}f} ± {scale * (high - low) / 2:.{digits}f}"
            for (mean, low, high), (scale, digits) in zip(row.values(), FORMATS)
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    text = readme.read_text()
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    if not tail:
        raise UserError(f"{readme}: the marks {BEGIN} and {END} are missing")
    write_atomic(readme, head + BEGIN + "\n" + "\n".join(lines) + "\n" + END + tail)


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
    """Left of 0 the warm start by labelled states, right of it PPO by environment steps."""
    axes.set_title(
        f"Validation reward while training, {data['scenario']}", loc="left", fontweight="bold", fontsize=13
    )
    levels = {name: data["levels"][name] for name in LEVELS}
    if levels["handwritten"] == levels["runbook (searched)"]:
        del levels["runbook (searched)"]
    best, worst = max(v for line in data["curves"] for v in line["sampled"]), levels["noop"]
    margin = 0.09 * (best - worst)
    right = 1.02 * max(line["steps"][-1] for line in data["curves"]) / 1e3
    left = -1.02 * max([0, *(s for line in data["curves"] for s in line["warm_start"]["states"])]) / 1e3
    axes.set_ylim(worst - 1.3 * margin, best + 2.2 * margin)
    axes.set_xlim(left, right)

    for line, colour in zip(data["curves"], SEEDS * 10):
        warm = line["warm_start"]
        x = np.array([s - (warm["states"] or [0])[-1] for s in warm["states"]] + line["steps"]) / 1e3
        axes.plot(
            x, warm["sampled"] + line["sampled"], color=colour, lw=2.4, label=f"seed {line['seed']}", zorder=3
        )
    above = np.inf
    for name, level in sorted(levels.items(), key=lambda item: -item[1]):
        axes.axhline(level, color=FAINT, lw=1.4, ls=(0, (5, 3)), zorder=1)
        near = [above, *(v for line in data["curves"] for v in line["sampled"])]
        below = any(level <= v < level + margin for v in near)  # no room above the line: write under it
        axes.annotate(
            level_name(name), (right, level), (-2, -4 if below else 4), textcoords="offset points",
            ha="right", va="top" if below else "bottom", color=FAINT, fontsize=11,
        )  # fmt: skip
        above = level
    if left < 0:
        axes.axvspan(left, 0, color="#f3f5f8", zorder=0)
        axes.axvline(0, color=FAINT, lw=1, zorder=1)
        top = {"xycoords": ("data", "axes fraction"), "va": "top", "fontsize": 11, "color": INK}
        axes.annotate("warm start", (left / 2, 0.98), ha="center", **top)
        axes.annotate("PPO", (right / 2, 0.98), ha="center", **top)
        lowest = min(line["warm_start"]["sampled"][-1] for line in data["curves"])
        axes.annotate(
            "NOOP's logit is set", (0, lowest), (10, -34),
            textcoords="offset points", fontsize=10.5, color=INK,
            arrowprops={"arrowstyle": "-", "color": FAINT, "lw": 1, "shrinkB": 4},
        )  # fmt: skip
    axes.annotate(
        f"random play: {data['levels']['random']:.0f}, far below".replace("-", "\N{MINUS SIGN}"),
        (0.99, 0.02), xycoords="axes fraction", ha="right", color=FAINT, fontsize=10.5,
    )  # fmt: skip
    warm_ticks = [left / 1.02, left / 2.04] if left < 0 else []
    axes.set_xticks([*warm_ticks, *np.arange(0, right, 100)])
    axes.xaxis.set_major_formatter(lambda x, _: f"{x if x >= 0 else x - left / 1.02:.0f}")
    axes.set_xlabel("thousand " + "labelled states, then thousand " * (left < 0) + "environment steps")
    axes.set_ylabel("mean reward, sampled play")
    axes.grid(axis="y", color=GRID, lw=1)
    axes.set_axisbelow(True)
    axes.legend(frameon=False, loc="center right", fontsize=11)


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
    parser.add_argument(
        "--picture", type=Path, default=PICTURE, help="where the picture goes (default: %(default)s)"
    )
    args = parser.parse_args()
    if bool(args.runs) == (args.source is not None):
        parser.error("give run folders, or --from a data file")
    try:
        if args.source is None:
            data = collect(args.runs)
            args.data.parent.mkdir(parents=True, exist_ok=True)
            save_json(args.data, data)
            print(args.data)
            if args.data == DATA:
                write_table(data, ROOT / "README.md")
        else:
            data = json.loads(args.source.read_text())
        draw(data, args.picture)
        print(args.picture)
    except (UserError, OSError, ValueError) as error:
        raise SystemExit(f"cloudrl: {error}") from None


if __name__ == "__main__":
    main()
