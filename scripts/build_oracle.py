"""Search the oracle's plans for the public worlds and store them in evaluation/data/oracle/<suite>.json.

    python scripts/build_oracle.py easy medium hard quiet --threads 2
    python scripts/build_oracle.py stress-sale-day
    python scripts/build_oracle.py --check                # replay all that is stored
    python scripts/build_oracle.py --mix                  # which operations the plans use, as a table
    python scripts/build_oracle.py --against              # their bills beside those of scripted play, as a table
    python scripts/build_oracle.py medium --seeds 10100-10111 --edits 160000 --out /tmp/four_times

Plans that are there, found by the same search on the same constants, are kept if replaying them gives their bills;
so a build that was interrupted goes on, and a change of the code that changes no world costs seconds.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from tqdm import tqdm

from cloudrl.actions import N_OPS, OP_NAMES
from cloudrl.errors import UserError
from cloudrl.policies.scripted import baselines
from cloudrl.scenarios.library import scenario_hash
from cloudrl.scenarios.schema import Scenario
from cloudrl.simulator import Simulator
from evaluation.agents.oracle import Oracle
from evaluation.oracle_data import FOLDER, OracleFile, World, differing, oracle_path, world_of
from evaluation.rollout import play_episodes
from evaluation.suites import dynamics_version, find_scenario, find_seeds, suite_names

BLOCK = 4
"""Worlds between two writes."""


def build(suite: str, seeds: str, oracle: Oracle, anew: bool, folder: Path = FOLDER) -> OracleFile:
    """Search what is missing of a suite's plans. Until all are there they lie beside the file, which is whole."""
    scenario = find_scenario(suite)
    path = folder / oracle_path(scenario).name
    partial = path.with_suffix(".partial")
    data = OracleFile.empty(scenario, {"edits": oracle.edits, "heat": oracle.heat})
    for file in () if anew else (path, partial):
        if file.exists():
            data.worlds |= usable(OracleFile.read(file), data, scenario)
    wanted = find_seeds(seeds, scenario)
    missing = np.setdiff1d(wanted, list(data.worlds))
    print(f"{suite}: {len(wanted) - len(missing)} plans are there, {len(missing)} to search")
    with tqdm(total=len(wanted), initial=len(wanted) - len(missing), desc=suite, unit="world") as bar:
        for start in range(0, len(missing), BLOCK):
            block = missing[start : start + BLOCK]
            sim = Simulator(scenario, len(block))
            sim.reset(block)
            plans = oracle.foresee(sim)
            for row in plans:
                sim.step(row)
            for k, seed in enumerate(block):
                data.worlds[int(seed)] = world_of(sim, plans[:, k], k)
            data.write(partial)
            bar.update(len(block))
    data.write(path)
    partial.unlink(missing_ok=True)
    return data


def usable(known: OracleFile, wanted: OracleFile, scenario: Scenario) -> dict[int, World]:
    """The plans of a file, if the same search on the same worlds made them; else none."""
    same = known.scenario_hash == wanted.scenario_hash and known.search == wanted.search
    return known.worlds if same and not differing(scenario, known.worlds) else {}


def check() -> int:
    """Replay every stored plan. Returns how many files do not fit."""
    wrong = 0
    for suite in suite_names():
        scenario = find_scenario(suite)
        path = oracle_path(scenario)
        if not path.exists():
            print(f"{suite:24s} no plans")
            continue
        data = OracleFile.read(path)
        why = differing(scenario, data.worlds)
        if data.scenario_hash != scenario_hash(scenario):
            why = "of other constants"
        wrong += bool(why)
        mean = np.mean([w.bill for w in data.worlds.values()])
        same = "" if data.code == dynamics_version() else " (made by another version of the code)"
        print(f"{suite:24s} {len(data.worlds):4d} plans, mean bill $ {mean:8.2f}: {why or 'as stored'}{same}")
    return wrong


def mix() -> str:
    """Operations of the stored plans: per day, and in how many worlds, by suite."""
    stored = {suite: oracle_path(find_scenario(suite)) for suite in suite_names()}
    files = {suite: OracleFile.read(path) for suite, path in stored.items() if path.exists()}
    heads = ["operation", *(f"{suite} ({len(data.worlds)} worlds)" for suite, data in files.items())]
    rows = [heads, ["---", *["--:"] * len(files)]]
    for op, name in enumerate(OP_NAMES[:N_OPS]):
        row = [name]
        for data in files.values():
            counts = [sum(action % N_OPS == op for _, action in world.plan) for world in data.worlds.values()]
            row.append(f"{np.mean(counts):.2f} ({np.count_nonzero(counts)})")
        rows.append(row)
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def against() -> str:
    """Bills of the stored plans and of scripted play, and in how many worlds the plans are the cheapest."""
    heads = "suite, worlds, edits, do nothing $, searched runbook $, oracle $, cheapest in, nobody below in"
    rows = [heads.split(", ")]
    rows.append(["---", *["--:"] * (len(rows[0]) - 1)])
    for suite in suite_names():
        scenario = find_scenario(suite)
        if not oracle_path(scenario).exists():
            continue
        data = OracleFile.read(oracle_path(scenario))
        seeds = sorted(data.worlds)
        found = np.array([data.worlds[seed].bill for seed in seeds])
        bills = {p.name: play_episodes(p, scenario, seeds).bill for p in baselines(scenario.name)}
        least = np.min(list(bills.values()), axis=0)
        means = [bills["noop"].mean(), bills["runbook"].mean(), found.mean()]
        shares = [(found < least - 1e-9).mean(), (found <= least + 1e-9).mean()]
        rows.append(
            [suite, str(len(seeds)), f"{data.search['edits']:,}"]
            + [f"{mean:.2f}" for mean in means]
            + [f"{100 * share:.0f} %" for share in shares]
        )
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", help="names of configs/scenario/*.yaml")
    parser.add_argument("--seeds", default="public", help="public, validation or a range such as 10000-10009")
    parser.add_argument("--edits", type=int, default=Oracle.edits, help="random edits of each plan")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--anew", action="store_true", help="keep nothing of what is there")
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder of the files")
    parser.add_argument("--check", action="store_true", help="only replay what is stored")
    parser.add_argument("--against", action="store_true", help="only compare the stored plans with scripted play")
    parser.add_argument("--mix", action="store_true", help="only tell which operations the stored plans use")
    args = parser.parse_args()
    if args.mix or args.against:
        print(mix() if args.mix else against())
        return 0
    if args.check or not args.suites:
        return 1 if check() else 0
    try:
        for suite in args.suites:
            data = build(suite, args.seeds, Oracle(edits=args.edits, threads=args.threads), args.anew, args.out)
            print(f"{suite}: mean bill $ {np.mean([w.bill for w in data.worlds.values()]):.2f}")
    except UserError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
