"""Play the benchmark on every suite and write docs/leaderboard.md and docs/leaderboard.json.

    python scripts/leaderboard.py                                           every suite, public worlds
    python scripts/leaderboard.py --planners easy medium                    greedy and MPC (hours) on these only
    python scripts/leaderboard.py --add ppo:runs/ppo/<a> ppo:runs/ppo/<b>   other agents too, on every suite
    python scripts/leaderboard.py --add easy=llm:runs/grpo/<run>            ... on a single suite
    python scripts/leaderboard.py --suites easy medium --agents baselines --worlds 20000-20019 --out /tmp/try

What was played before is taken from the cache below runs/eval, so that adding an agent plays that agent only.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cloudrl
from cloudrl.compose import compose
from cloudrl.runs import save_json, write_atomic
from evaluation import config as _schema  # noqa: F401  (makes the config of evaluation.run known)
from evaluation.command_line import plain_command
from evaluation.report.summary import Row, Summary, summarise
from evaluation.run import Timing, evaluate
from evaluation.statistics import Interval
from evaluation.suites import suite_names
from evaluation.terminal import notes, tied_regret

DOCS = Path(__file__).resolve().parents[1] / "docs"
AGENTS = ["oracle", "baselines", "round-robin", "analyze-all", "resize-up-all"]
PLANNERS = ["greedy", "mpc"]


def interval(value: Interval | None, digits: int, factor: float = 1.0) -> str:
    """ "58.3 [55.1, 61.4]", or a dash."""
    if value is None:
        return "–"
    return f"{factor * value.mean:.{digits}f} [{factor * value.low:.{digits}f}, {factor * value.high:.{digits}f}]"


def record(row: Row, summary: Summary, timing: Timing, regret: dict[str, Interval]) -> dict[str, Any]:
    """One row with all that it depends on, for json."""
    results = summary.results
    suite = results.suite
    base = {
        "suite": suite.id,
        "scenario_hash": suite.scenario_hash,
        "prices_hash": suite.prices_hash,
        "dynamics": suite.code,
        "package": cloudrl.__version__,
        "seeds": [int(results.seeds.min()), int(results.seeds.max())],
        "worlds": len(results.seeds),
        "rank": row.number,
        "agent": row.name,
        "spec": row.spec,
        "runs": row.runs,
        "clairvoyant": row.clairvoyant,
        "error": row.error,
    }
    if not row.ok:
        return base
    figures = {
        "score": row.score,
        "iqm": row.iqm if summary.measure == "score" else None,
        "ratio_of_sums": row.ratio_of_sums,
        "regret_percent_where_tied": regret.get(row.name),
        "worlds_without_score": summary.ties,
        "bill": row.bill,
        "saved": row.saved,
        "win_rate": row.won,
        "beats_runbook": row.beats_runbook,
        "gates_missed": row.missed_gates,
    }
    wall = timing.get(row.name, {})
    return base | {k: list(v) if isinstance(v, Interval) else v for k, v in figures.items()} | wall


def section(summary: Summary, timing: Timing, regret: dict[str, Interval]) -> str:
    """One suite in markdown."""
    results, suite = summary.results, summary.results.suite
    scored = summary.measure == "score"
    heads = [
        "",
        "agent",
        *(["score", "IQM", "ratio of sums"] if scored else []),
        *(["regret %"] if regret else []),
    ]
    heads += ["bill $", "saved $", "wins %", "gates missed", "s", "ms / decision"]
    lines = [heads, ["--:", "---", *["--:"] * (len(heads) - 5), "---", "--:", "--:"]]
    for row in summary.rows:
        if not row.ok:
            lines.append(["", row.name, *[""] * (len(heads) - 5), "failed", "", ""])
            continue
        wall = timing.get(row.name, {})
        name = row.name + (" (clairvoyant)" if row.clairvoyant else "")
        cells = [str(row.number), f"{name}, {row.runs} runs" if row.runs > 1 else name]
        if scored:
            ratio = "–" if row.ratio_of_sums is None else f"{row.ratio_of_sums:.1f}"
            cells += [interval(row.score, 1), interval(row.iqm, 1), ratio]
        if regret:
            cells.append(interval(regret.get(row.name), 1))
        cells += [
            interval(row.bill, 2),
            interval(row.saved, 2),
            interval(row.won, 0, 100.0),
            " ".join(row.missed_gates) or "none",
            f"{wall['seconds']:.1f}" if wall else "–",
            f"{wall['ms_per_decision']:.3g}" if wall else "–",
        ]
        lines.append(cells)
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    where = (
        f"{len(results.seeds)} worlds, seeds {results.seeds.min()} to {results.seeds.max()}; constants "
        f"{suite.scenario_hash}, prices {suite.prices_hash}, dynamics {suite.code}."
    )
    return "\n\n".join([f"## {suite.id}", where, table, *notes(results)])


def added(specs: Sequence[str], suite: str) -> list[str]:
    """Those of the further agents that play a suite."""
    parts = [spec.partition("=") for spec in specs]
    return [spec if head not in suite_names() else rest for spec, (head, _, rest) in zip(specs, parts, strict=True)
            if head not in suite_names() or head == suite]  # fmt: skip


PREFACE = """# Leaderboard

Every agent on the public worlds of every suite, the best first; 95 % intervals over worlds. 0 is doing nothing,
100 the clairvoyant oracle, which is a bound and no competitor. [metrics.md](metrics.md) defines the figures,
[benchmark.md](benchmark.md) says how to add an agent. `s` is the time of one core for all worlds of a row when
they were played, simulator and counterfactual twins included.
"""


@plain_command
def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suites", nargs="+", default=suite_names(), help="default: all that ship")
    parser.add_argument("--agents", nargs="+", default=AGENTS, help=f"default: {' '.join(AGENTS)}")
    parser.add_argument("--planners", nargs="*", help="suites on which greedy and MPC play too; default: all")
    parser.add_argument(
        "--add", nargs="+", default=[], help="more agents, such as ppo:<run>; easy=llm:<run>: on that suite only"
    )
    parser.add_argument("--worlds", default="public", help="public, validation, or a range of seeds")
    parser.add_argument("--workers", type=int, help="processes; default: one per core")
    parser.add_argument("--out", type=Path, default=DOCS / "leaderboard", help="path without extension")
    args = parser.parse_args(argv)
    sections, records = [], []
    for name in args.suites:
        planners = PLANNERS if name in (args.suites if args.planners is None else args.planners) else []
        agents = ",".join(f"'{spec}'" for spec in [*args.agents, *planners, *added(args.add, name)])
        workers = "null" if args.workers is None else args.workers
        config = compose(
            "eval", [f"suite={name}", f"agents=[{agents}]", f"seeds={args.worlds}", f"workers={workers}"]
        )
        results, timing = evaluate(config)
        summary, regret = summarise(results), tied_regret(results)
        sections.append(section(summary, timing, regret))
        records += [record(row, summary, timing, regret) for row in summary.rows]
        print(sections[-1], flush=True)
    made_by = "python scripts/leaderboard.py" + "".join(f" {word}" for word in argv or sys.argv[1:])
    text = "\n\n".join([PREFACE.strip(), f"Made by `{made_by}`, Cloud-RL {cloudrl.__version__}.", *sections])
    write_atomic(args.out.with_suffix(".md"), text + "\n")
    save_json(args.out.with_suffix(".json"), records)


if __name__ == "__main__":
    main()
