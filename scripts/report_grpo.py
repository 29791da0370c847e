"""What a run of trainers.grpo says of itself, as a page of docs/results: final table, curves, last sampled groups.

    python scripts/report_grpo.py runs/grpo/<run> --out docs/results/grpo_smollm2

Nothing is played again; scripts/judge_grpo.py does that. Writes <out>.md, <out>.json and <out>.png
(pip install -e '.[plot]').
"""

from __future__ import annotations

import argparse
import csv
import math
import re
from pathlib import Path
from typing import Any

from cloudrl.runs import Run, read_json, resolve_run, save_json, write_atomic

REPLIES = {
    "train/rewards/score/mean": ("model", "#0b5cad", "-"),
    "baseline/best_constant": ("best constant action", "#c44536", "--"),
    "baseline/random_valid": ("random admissible", "#66727f", ":"),
    "baseline/noop": ("NOOP", "#1f2933", ":"),
}
SHARES = {
    "llm/admissible": ("admissible", "#0b5cad", "-"),
    "llm/action_mass": ("is an action", "#2f8fd8", "--"),
    "llm/forced": ("forced JSON tokens", "#66727f", ":"),
    "baseline/noop_wins": ("NOOP", "#c44536", "-"),
}
COLUMNS = {"reward": ("reward", 1), "bill": ("bill $", 2), "savings": ("saved $", 2), "cascades": ("cascades", 2)}


def series(run: Run) -> dict[str, list[tuple[int, float]]]:
    """Every curve of progress.csv as (step, value); the warm start is at negative steps."""
    out: dict[str, list[tuple[int, float]]] = {}
    with open(run.progress_file, newline="") as file:
        for row in csv.DictReader(file):
            for key, value in row.items():
                if key != "step" and value and math.isfinite(float(value)):
                    out.setdefault(key, []).append((int(row["step"]), float(value)))
    return out


def draw(curves: dict[str, list[tuple[int, float]]], to: Path) -> None:
    """Reward of replies on the left, probabilities on the right, by gradient step."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(9.6, 3.6), layout="constrained")
    titles = ("mean reward of a reply (doing nothing is 0)", "probability")
    for axes, lines, title in zip(panels, (REPLIES, SHARES), titles, strict=True):
        for key, (name, colour, style) in lines.items():
            points = [point for point in curves.get(key, []) if point[0] > 0]
            if points:
                axes.plot(*zip(*points, strict=True), style, color=colour, label=name, lw=1.5)
        axes.set(xlabel="gradient steps", title=title)
        axes.title.set_fontsize(10)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8)
    figure.savefig(to, dpi=150)
    plt.close(figure)


def command_of(run: Run) -> str:
    """The command that repeats the run, without where it wrote."""
    manifest = run.manifest()
    own = [o for o in manifest["overrides"] if not o.startswith(("runs_dir=", "progress_bar=", "resume="))]
    return " ".join(["python -m trainers.grpo", *(re.sub(r"=/.*/", "=<...>/", option) for option in own)])


def table_of(rows: list[dict[str, Any]]) -> str:
    """The final table in markdown."""
    heads = [heading for heading, _ in COLUMNS.values()]
    lines = [f"| agent | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for row in rows:
        cells = [
            f"{row[key][0]:.{digits}f} ± {(row[key][2] - row[key][1]) / 2:.{digits}f}"
            for key, (_, digits) in COLUMNS.items()
        ]
        lines.append(f"| {row['agent']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def page(run: Run, final: dict[str, Any], picture: str) -> str:
    """The page in markdown; without the final table if the run has none yet."""
    samples = sorted((run.path / "samples").glob("step_*.md"))
    groups = samples[-1].read_text().replace("# Groups", "## Sampled groups") if samples else ""
    head = f"# A run of trainers.grpo\n\n`{command_of(run)}` on {run.manifest()['scenario']}.\n\n"
    return f"{head}{results_of(final) if final else ''}![curves]({picture})\n\n{groups}"


def results_of(final: dict[str, Any]) -> str:
    """The final table, shares of valid replies and paired differences."""
    seeds, minutes = final["seeds"], final["seconds"] / 60
    saved = "\n".join(
        f"| {other} | {mean:+.2f} [{low:+.2f}, {high:+.2f}] |"
        for other, (mean, low, high) in final["saved"].items()
    )
    valid = "\n".join(
        f"- {name}: {facts['json_valid']:.1%} of replies are valid JSON, {facts['admissible']:.1%} admissible"
        for name, facts in final["models"].items()
    )
    return (
        f"{minutes:.1f} processor minutes for the warm start, training and the validations in between; "
        f"{len(seeds)} validation worlds, seeds {seeds[0]} to {seeds[-1]}; ± = half the 95 % interval over worlds."
        f"\n\n{table_of(final['rows'])}\n\n{valid}\n\nSampled replies of the trained model save, world by world, "
        f"$ (below 0: cost more):\n\n| against | |\n|---|---|\n{saved}\n\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="a run of trainers.grpo; without a final table its curves and groups alone")
    parser.add_argument("--out", type=Path, required=True, help="write <out>.md, <out>.json and <out>.png")
    args = parser.parse_args()
    run = resolve_run(args.run, "grpo")
    final = read_json(run.eval / "final.json")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    curves, picture = series(run), args.out.with_suffix(".png")
    draw(curves, picture)
    write_atomic(args.out.with_suffix(".md"), page(run, final, picture.name))
    save_json(args.out.with_suffix(".json"), {**final, "command": command_of(run), "curves": curves})


if __name__ == "__main__":
    main()
