"""Search the best static runbook of a suite on training worlds and store it in cloudrl/policies/runbooks.yaml.

    python scripts/search_runbook.py easy medium hard quiet --seconds 300

The suites that are not named keep what the file holds.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict

import yaml

from cloudrl.policies.scripted import RUNBOOKS_FILE
from cloudrl.policies.search import search
from cloudrl.runs import write_atomic
from cloudrl.scenarios.library import load_scenario, scenario_hash

HEADER = "# Found by scripts/search_runbook.py on training worlds; do not edit by hand.\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="+", help="names of configs/scenario/*.yaml")
    parser.add_argument("--seconds", type=float, default=300.0, help="processor time per suite")
    parser.add_argument("--worlds", type=int, default=192, help="training worlds")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    for suite in args.suites:
        scenario = load_scenario(suite)
        print(f"{scenario.name}: searching for {args.seconds:.0f} s on {args.worlds} training worlds")
        book, how = search(scenario, args.seconds, args.worlds, args.seed, report=print)
        found = yaml.safe_load(RUNBOOKS_FILE.read_text()) if RUNBOOKS_FILE.exists() else {}
        settings = {k: round(v, 4) for k, v in asdict(book).items()}
        found[scenario.name] = {"scenario_hash": scenario_hash(scenario), **how, "settings": settings}
        write_atomic(RUNBOOKS_FILE, HEADER + yaml.safe_dump(found, sort_keys=False))


if __name__ == "__main__":
    main()
