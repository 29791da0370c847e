"""The oracle's plans for the public worlds, which ship as data, and the bills that they lead to.

A plan is a proof: whoever doubts a bill replays the plan, which takes milliseconds. So it is done whenever the
bills are asked for, and a file that no longer fits (other constants, other dynamics, an edited number) is refused.

evaluation/data/oracle/<suite>.json is written by scripts/build_oracle.py: what the search was and ran on, and per
seed the bill by part and the actions, [tick, flat action], without the ticks in which nothing is done.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cloudrl.reward.bill import BILL_PARTS, bill
from cloudrl.runs import write_atomic
from cloudrl.scenarios.library import scenario_hash
from cloudrl.scenarios.schema import Scenario
from cloudrl.simulator import Simulator
from evaluation.suites import dynamics_version, prices_hash

FOLDER = Path(__file__).with_name("data") / "oracle"
TOLERANCE = 1e-6
"""$ by which a replayed bill may differ: sums of floats on another processor."""

Plan = list[list[int]]
"""[tick, flat action] of every tick in which something is done."""


@dataclass
class World:
    """What the oracle found in one world."""

    parts: dict[str, float]  # $
    plan: Plan

    @property
    def bill(self) -> float:
        """$, the parts added as cloudrl.reward.bill adds them."""
        return sum((self.parts[part] for part in BILL_PARTS), 0.0)


@dataclass
class OracleFile:
    """One suite's plans."""

    suite: str
    version: int
    scenario_hash: str
    prices_hash: str
    code: str  # version of the dynamics with which it was made or last verified
    search: dict[str, Any]
    worlds: dict[int, World] = field(default_factory=dict)

    @classmethod
    def empty(cls, scenario: Scenario, search: dict[str, Any]) -> OracleFile:
        return cls(
            scenario.name,
            scenario.version,
            scenario_hash(scenario),
            prices_hash(scenario),
            dynamics_version(),
            search,
        )

    def write(self, path: Path) -> None:
        """One line per world."""
        head = {k: v for k, v in vars(self).items() if k != "worlds"}
        lines = [
            f"{json.dumps(str(seed))}: {json.dumps({'parts': w.parts, 'plan': w.plan}, separators=(',', ':'))}"
            for seed, w in sorted(self.worlds.items())
        ]
        text = json.dumps(head, indent=1)[:-2] + ',\n "worlds": {\n' + ",\n".join(lines) + "\n }\n}\n"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, text)

    @classmethod
    def read(cls, path: Path) -> OracleFile:
        """Raises ValueError if the file is not one."""
        try:
            data = json.loads(path.read_text())
            worlds = {int(seed): World(w["parts"], w["plan"]) for seed, w in data.pop("worlds").items()}
            out = cls(**data, worlds=worlds)
            for world in worlds.values():
                world.bill  # noqa: B018 (raises if a part is missing)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} holds no plans of the oracle ({error!r})") from None
        return out


def oracle_path(scenario: Scenario) -> Path:
    """Where the plans of a suite lie: CloudOps-Stress-Quiet -> stress-quiet.json."""
    return FOLDER / f"{scenario.name.removeprefix('CloudOps-').lower()}.json"


def replay(scenario: Scenario, plans: dict[int, Plan]) -> dict[int, World]:
    """Play the plans, by seed. Raises ValueError if one holds an action that is rejected or out of place."""
    seeds = np.array(sorted(plans), np.int64)
    sim = Simulator(scenario, len(seeds))
    actions = np.full((sim.ticks, len(seeds)), sim.noop)
    for column, seed in enumerate(seeds):
        for tick, action in plans[int(seed)]:
            if not (0 <= tick < sim.ticks and 0 <= action < sim.noop):
                raise ValueError(f"seed {seed}: [{tick}, {action}] is no tick and action of {scenario.name}")
            actions[tick, column] = action
    sim.reset(seeds)
    for row in actions:
        sim.step(row)
    w = sim.state.worlds
    rejected = (w["invalid"] > 0) | (w["vetoed"] > 0)
    if rejected.any():
        raise ValueError(f"seed {seeds[rejected][0]}: an action of the plan is rejected")
    return {
        int(seed): World({part: float(w[part][k]) for part in BILL_PARTS}, plans[int(seed)])
        for k, seed in enumerate(seeds)
    }


def differing(scenario: Scenario, worlds: dict[int, World]) -> str:
    """Why the stored bills are not those of their plans; empty if they are."""
    try:
        played = replay(scenario, {seed: world.plan for seed, world in worlds.items()})
    except (ValueError, TypeError) as error:
        return str(error)
    for seed, world in worlds.items():
        if not abs(played[seed].bill - world.bill) <= TOLERANCE:
            return f"seed {seed}: the plan leads to $ {played[seed].bill:.6f}, the file says {world.bill:.6f}"
    return ""


def oracle_bills(scenario: Scenario, seeds: Iterable[int] | np.ndarray) -> tuple[np.ndarray | None, str]:
    """$ of the oracle (B,) in the worlds of `seeds`, replayed here and now; or None, and why."""
    path, wanted = oracle_path(scenario), [int(seed) for seed in seeds]
    if not path.exists():
        return None, f"no plans of the oracle ship for {scenario.name}; add `oracle` to the agents"
    try:
        data = OracleFile.read(path)
    except ValueError as error:
        return None, str(error)
    if data.scenario_hash != scenario_hash(scenario):
        return (
            None,
            f"{path.name} is of other constants than this {scenario.name}; scripts/build_oracle.py makes it anew",
        )
    missing = [seed for seed in wanted if seed not in data.worlds]
    if missing:
        known = f"{min(data.worlds)} to {max(data.worlds)}" if data.worlds else "none"
        return None, f"the oracle's plans cover seeds {known}, not {missing[0]}; add `oracle` to the agents"
    chosen = {seed: data.worlds[seed] for seed in wanted}
    if why := differing(scenario, chosen):
        return None, f"{path.name} does not fit these dynamics ({why}); scripts/build_oracle.py makes it anew"
    return np.array([chosen[seed].bill for seed in wanted]), ""


def world_of(sim: Simulator, plan: np.ndarray, world: int) -> World:
    """The record of a world that was played to its end by `plan` (ticks,)."""
    w = sim.state.worlds[world : world + 1]
    parts = {part: float(w[part][0]) for part in BILL_PARTS}
    out = World(parts, [[int(t), int(plan[t])] for t in np.flatnonzero(plan != sim.noop)])
    assert out.bill == float(bill(w)[0])
    return out
