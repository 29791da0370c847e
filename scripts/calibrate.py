"""Play every scripted policy on every suite and write the tables of docs/calibration.md and docs/suites.md.

    python scripts/calibrate.py                  the score tables and the gates (a minute)
    python scripts/calibrate.py --only stress    the stress suites (docs/suites.md) and what each punishes
    python scripts/calibrate.py --sensitivity    also: each key constant of Medium halved and doubled alone

The text of the pages stays; what stands between their marks is written anew. Exit code 1 if a gate is missed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import yaml

import cloudrl
from cloudrl.actions import Op
from cloudrl.policies.scripted import (
    RUNBOOKS_FILE,
    constant,
    from_runbook,
    handwritten,
    noop,
    random,
    searched_runbook,
)
from cloudrl.reward.bill import served_share
from cloudrl.runs import write_atomic
from cloudrl.scenarios.library import SUITES, load_scenario, scenario_hash
from cloudrl.scenarios.ranges import check_scenario
from cloudrl.scenarios.schema import Scenario
from cloudrl.seeding import VALIDATION_SEEDS
from evaluation.economics import (
    DEGENERATE,
    Suite,
    gates,
    mean_rewards,
    mean_savings,
    measure,
    price_of_dice,
    rank_correlation,
    usual_rewards,
)
from evaluation.statistics import bootstrap
from evaluation.stress import LESSONS, measure_lesson

STRESS = tuple(name for name in SUITES if name.startswith("stress-"))
MAIN = tuple(name for name in SUITES if name not in STRESS)
DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = {"main": DOCS / "calibration.md", "stress": DOCS / "suites.md"}


# ---------------------------------------------------------------- score tables
def score_table(suite: Suite) -> str:
    """One row per policy, the cheapest bill first."""
    heads = [
        "policy", "bill $", "infra", "outage", "exposure", "labour", "saved $", "share %", "beats noop %",
        "reward R", "win %", "ops", "crashes", "cascades", "breaches", "served %",
    ]  # fmt: skip
    rows = [heads, ["---", *["--:"] * (len(heads) - 1)]]
    for name in sorted(suite.worlds, key=lambda n: float(suite.bills[n].mean())):
        w, bills, saved = suite.worlds[name], suite.bills[name], suite.savings(name)
        share = suite.share(name)
        rows.append(
            [
                f"**{name}**" if name in ("noop", "handwritten", "runbook") else name,
                f"{bills.mean():.2f} ± {bootstrap(bills).half_width:.2f}",
                *(f"{dollars:.2f}" for dollars in suite.parts(name).values()),
                f"{saved.mean():+.2f} ± {bootstrap(saved).half_width:.2f}",
                "" if np.isnan(share) else f"{100 * share:.1f}",
                f"{100 * (saved > 0).mean():.0f}",
                f"{w['reward_total'].mean():.1f}",
                f"{100 * suite.won(name).mean():.0f}",
                *(f"{w[key].mean():.1f}" for key in ("operations", "crashes", "cascades", "breaches")),
                f"{100 * served_share(w).mean():.2f}",
            ]
        )
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def gate_table(suite: Suite) -> str:
    rows = [["gate", "measured", "met"], ["---", "---", "---"]]
    rows += [[gate.text, gate.figure, "yes" if gate.met else "**no**"] for gate in gates(suite)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def runbook_note(suite: Suite) -> str:
    """Where the row `runbook` comes from."""
    found = (yaml.safe_load(RUNBOOKS_FILE.read_text()) or {}) if RUNBOOKS_FILE.exists() else {}
    entry = found.get(suite.name)
    if entry is None:
        return "The row `runbook` is not searched yet; it repeats the hand-written one."
    fits = entry["scenario_hash"] == scenario_hash(suite.scenario)
    stale = "" if fits else " **It was searched on other constants than these.**"
    return f"The row `runbook`: the best of {entry['tried']} lists on {entry['worlds']} training worlds.{stale}"


def results(suites: list[Suite], command: str, n_worlds: int) -> str:
    first = VALIDATION_SEEDS.start
    out = [
        f"`{command}`, Cloud-RL {cloudrl.__version__}, {n_worlds} validation worlds per suite "
        f"(seeds {first:,} to {first + n_worlds - 1:,}), safety enforced, no immune memory."
    ]
    for suite in suites:
        usual = rank_correlation(usual_rewards(suite), mean_savings(suite))
        dollars = rank_correlation(mean_rewards(suite), mean_savings(suite))
        note = f"Rank correlation with the savings: reward R {dollars:.2f}, the usual reward {usual:.2f}."
        if not suite.quiet:
            dice = price_of_dice(suite, "runbook")
            note += f" Billing drawn breaches would take {dice:.1f} times the worlds for the runbook's interval."
        out += [
            f"### {suite.name} (constants {scenario_hash(suite.scenario)})",
            score_table(suite),
            f"{runbook_note(suite)} {note}",
            gate_table(suite),
        ]
    return "\n\n".join(out)


# ---------------------------------------------------------------- stress suites
def lessons_table(n_worlds: int) -> str:
    """What the habit that each stress suite is made against costs there."""
    heads = ["suite", "the habit", "nothing done $", "with the habit $", "without it $", "what the habit costs $"]
    rows = [heads, ["---", "---", *["--:"] * 4]]
    for lesson in LESSONS:
        cost = measure_lesson(lesson, n_worlds)
        rows.append(
            [
                f"`{lesson.scenario}`",
                f"{lesson.habit}: *{lesson.punished.name}* against *{lesson.right.name}*",
                *(f"{dollars:.0f}" for dollars in (cost.idle, cost.punished, cost.right)),
                str(cost.habit),
            ]
        )
        print(" | ".join(rows[-1]), flush=True)
    note = f"Mean bills on {n_worlds} validation worlds; mean of the paired difference with its 95 % interval."
    return note + "\n\n" + "\n".join("| " + " | ".join(row) + " |" for row in rows)


def overview(suites: list[Suite]) -> str:
    """One row per suite: what doing nothing costs, and what scripted policies save of it."""
    heads = [
        "suite", "constants", "idle bill $", "infra %", "outage %", "exposure %", "hand-written saves %",
        "runbook saves %", "best degenerate, % of the best policy's savings", "random saves %", "won by noop %",
        "by runbook %",
    ]  # fmt: skip
    rows = [heads, ["---", "---", *["--:"] * (len(heads) - 2)]]
    for name, suite in zip(STRESS, suites, strict=True):
        idle, parts = float(suite.bills["noop"].mean()), suite.parts("noop")
        worst = max(DEGENERATE[1:], key=lambda policy: float(suite.savings(policy).mean()))
        rows.append(
            [
                f"`{name}`",
                scenario_hash(suite.scenario),
                f"{idle:.0f}",
                *(f"{100 * parts[part] / idle:.0f}" for part in ("infrastructure", "outage", "exposure")),
                *(f"{100 * suite.savings(policy).mean() / idle:.1f}" for policy in ("handwritten", "runbook")),
                f"{worst} {100 * suite.share(worst):+.1f}",
                f"{100 * suite.savings('random').mean() / idle:.0f}",
                *(f"{100 * suite.won(policy).mean():.0f}" for policy in ("noop", "runbook")),
            ]
        )
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


# ---------------------------------------------------------------- sensitivity
def scaled(*names: str, above: float = 0.0, cap: float = np.inf) -> Callable[[Scenario, float], str]:
    """A change: multiply the constants (what lies above `above` of them) by a factor, at most `cap`."""

    def change(scenario: Scenario, factor: float) -> str:
        values = []
        for name in names:
            section, leaf = name.split(".")
            node = getattr(scenario, section)
            values.append(min(cap, above + factor * (getattr(node, leaf) - above)))
            setattr(node, leaf, values[-1])
        return ", ".join(f"{value:.4g}" for value in values)

    return change


LABOUR = ("stakes.labour_factor_low", "stakes.labour_factor_high")
CONSTANTS: dict[str, Callable[[Scenario, float], str]] = {
    "`breach_loss`": scaled("security.breach_loss"),
    "`vulnerability_rate`": scaled("security.vulnerability_rate"),
    "`exposure_front`, `_service`, `_isolated`": scaled(
        "security.exposure_front", "security.exposure_service", "security.exposure_isolated"
    ),
    "`utilisation_high`": scaled("load.utilisation_high"),
    "`burst_low`, `burst_high` (above 1)": scaled("load.burst_low", "load.burst_high", above=1.0),
    "`retry_cap` (above 1)": scaled("load.retry_cap", above=1.0),
    "`job_probability`": scaled("jobs.job_probability", cap=1.0),
    "`labour_factor_low`, `_high`": scaled(*LABOUR),
    "`value_low`, `value_high`": scaled("stakes.value_low", "stakes.value_high"),
    "`failure_rate`": scaled("failures.failure_rate"),
}


@cache
def _thoughtless() -> tuple:  # type: ignore[type-arg]
    ops = {f"{op.name.lower().replace('_', '-')}-all": op for op in Op}
    return (noop(), *(random() if name == "random" else constant(ops[name]) for name in DEGENERATE[1:]))


def sensitivity_row(label: str, value: str, scenario: Scenario, n_worlds: int) -> list[str]:
    check_scenario("scenario", scenario)
    policies = [*_thoughtless(), handwritten(), from_runbook("runbook", searched_runbook(scenario.name))]
    suite = measure(scenario, n_worlds, policies)
    idle, parts = suite.bills["noop"].mean(), suite.parts("noop")
    worst = max(DEGENERATE[1:], key=lambda name: float(suite.savings(name).mean()))
    return [
        label,
        value,
        f"{idle:.0f}",
        *(f"{100 * parts[part] / idle:.0f}" for part in ("infrastructure", "outage", "exposure")),
        *(f"{100 * suite.savings(name).mean() / idle:.1f}" for name in ("handwritten", "runbook")),
        f"{worst} {100 * suite.share(worst):+.1f}",
        f"{100 * suite.savings('random').mean() / idle:.0f}",
    ]


def sensitivity(n_worlds: int) -> str:
    """Medium with one constant at a time halved or doubled."""
    heads = [
        "constant", "value", "noop bill $", "infra %", "outage %", "exposure %", "hand-written saves %",
        "runbook saves %", "best degenerate, % of the best policy's savings", "random saves %",
    ]  # fmt: skip
    rows = [heads, ["---", "---", *["--:"] * (len(heads) - 2)]]
    rows.append(sensitivity_row("as it is", "", load_scenario("medium"), n_worlds))
    for label, change in CONSTANTS.items():
        for factor in (0.5, 2.0):
            scenario = load_scenario("medium")
            value = change(scenario, factor)
            rows.append(sensitivity_row(f"{label} x{factor:g}", value, scenario, n_worlds))
            print(" | ".join(rows[-1]), flush=True)
    note = (
        f"`python scripts/calibrate.py --sensitivity`, Medium, {n_worlds} validation worlds. Nothing is tuned "
        "again: the runbooks are those of the unchanged constants. Savings are shares of the idle bill."
    )
    return note + "\n\n" + "\n".join("| " + " | ".join(row) + " |" for row in rows)


# ---------------------------------------------------------------- the page
def put(page: str, mark: str, text: str) -> str:
    """The page with what stands between two marks replaced."""
    begin, end = f"<!-- begin {mark} -->", f"<!-- end {mark} -->"
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise SystemExit(f"no marks {begin} and {end} in the page: put them where the tables belong")
    return f"{before}{begin}\n{text}\n{end}{after}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=200, help="validation worlds per suite")
    parser.add_argument("--only", choices=list(PAGES), help="only the main suites, or only the stress suites")
    parser.add_argument("--sensitivity", action="store_true", help="also write the sensitivity table")
    parser.add_argument("--dry", action="store_true", help="print, do not write the pages")
    args = parser.parse_args()
    missed = 0
    for part, names in (("main", MAIN), ("stress", STRESS)):
        if args.only not in (None, part):
            continue
        options = (f" --only {part}" if args.only else "") + (
            f" --worlds {args.worlds}" if args.worlds != 200 else ""
        )
        suites = []
        for name in names:
            suites.append(measure(load_scenario(name), args.worlds))
            missed += report(suites[-1])
        blocks = {"results": results(suites, "python scripts/calibrate.py" + options, args.worlds)}
        if part == "stress":
            blocks |= {"lessons": lessons_table(args.worlds), "overview": overview(suites)}
        elif args.sensitivity:
            blocks["sensitivity"] = sensitivity(args.worlds)
        if args.dry:
            print("\n\n".join(blocks.values()))
            continue
        page = PAGES[part].read_text()
        for mark, text in blocks.items():
            page = put(page, mark, text)
        write_atomic(PAGES[part], page)
        print(f"wrote {PAGES[part]}")
    return 1 if missed else 0


def report(suite: Suite) -> int:
    """Print the gates of a suite. Returns how many it misses."""
    print(f"{suite.name}: idle bill ${suite.bills['noop'].mean():.2f}, best policy {suite.best}")
    for gate in gates(suite):
        print(f"  {'met   ' if gate.met else 'MISSED'} {gate.text}: {gate.figure}", flush=True)
    return sum(not gate.met for gate in gates(suite))


if __name__ == "__main__":
    sys.exit(main())
