"""A person's own system as a scenario: `scenario=estate scenario.path=my.yaml` (docs/estates.md).

What the file says takes the place of the defaults in configs/scenario/estate.yaml; a value that the command line
(or code) has set to something else stays. So a settled scenario can be settled again without change.
"""

from __future__ import annotations

import copy
import functools
import hashlib
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cloudrl.errors import UserError, did_you_mean
from cloudrl.ranges import Range
from cloudrl.scenarios.blueprint import UNSET, Blueprints
from cloudrl.scenarios.estate_file import Estate, read_estate
from cloudrl.scenarios.library import CONFIG_DIR, load_scenario
from cloudrl.scenarios.profile import day_profile, with_peaks
from cloudrl.scenarios.ranges import SCENARIO_RANGES, check_scenario
from cloudrl.scenarios.schema import Scenario
from cloudrl.scenarios.topology import Services, blueprint, front_to_back
from cloudrl.scenarios.trace import read_trace
from cloudrl.scenarios.yaml_tree import Tree, one_line
from cloudrl.types import KIND_NAMES, QUEUE

ESTATES_DIR = CONFIG_DIR / "estates"
_NOT_CONSTANTS = ("name", "version", "slots", "path", "horizon.ticks")
_SMALLEST_LOAD = 1e-9  # of one request: below it numbers run out


def with_estate(scenario: Scenario) -> Scenario:
    """The scenario with its estate's slots, constants and dollars; the same object where it has no estate.

    Raises UserError: one line that names the place and the cure.
    """
    if scenario.path is None:
        return scenario
    estate, default = estate_of(scenario), load_scenario("estate")
    out = copy.deepcopy(scenario)
    if out.name == default.name:
        out.name = estate.name
    if 0 < out.slots < estate.n_resources:
        raise UserError(
            f"{estate.shown_as}: has {estate.n_resources} resources, but scenario.slots is {out.slots}; "
            f"leave slots out or raise it"
        )
    out.slots = out.slots or estate.n_resources
    if estate.horizon_hours is not None:
        _overlay(out, default, "horizon.ticks", round(estate.horizon_hours * 12))
    if estate.amplitude is not None:
        _overlay(out, default, "load.diurnal_amplitude", estate.amplitude)
    for name, tree in estate.constants.items():
        _overlay(out, default, name, _constant(default, name, tree))
    try:
        check_scenario("scenario", out)
    except UserError as error:
        raise UserError(f"{estate.shown_as}: {error}") from error
    base_cost = _base_cost(out, estate.services)
    if not base_cost > 0:
        raise UserError(f"{estate.shown_as}: the running resources cost $0 per hour; give a price above 0")
    stakes = (out.stakes.value_low, out.stakes.value_high)
    if estate.value_per_hour is not None and stakes == (default.stakes.value_low, default.stakes.value_high):
        out.stakes.value_low = out.stakes.value_high = estate.value_per_hour / base_cost
    _check_load(out, estate)
    _profile(estate, out)  # a bad trace is found now, not when the first world is built
    return out


def load_estate(scenario: Scenario) -> tuple[Blueprints, dict[str, list[int]], np.ndarray]:
    """Shape, splits (the one shape in each) and load profile of a scenario from `with_estate`."""
    estate = estate_of(scenario)
    shape = Blueprints.stack([blueprint(estate.services)], scenario.slots)
    return shape, {"train": [0], "validation": [0], "test": [0]}, _profile(estate, scenario)


def estate_of(scenario: Scenario) -> Estate:
    """The file that a scenario points to, read and checked. Raises UserError."""
    assert scenario.path is not None
    return read_estate(find_estate(scenario.path), scenario.path)


def find_estate(path: str) -> Path:
    """A file, or a shipped estate by its bare name. Raises UserError."""
    try:
        file = Path(path).expanduser()
        if file.is_file():
            return file
        shipped = {p.stem: p for p in sorted(ESTATES_DIR.glob("*.yaml"))}
        if path.removesuffix(".yaml") in shipped:
            return shipped[path.removesuffix(".yaml")]
        what = "is a folder, not a file" if file.is_dir() else "no such file"
    except (OSError, ValueError, RuntimeError):  # a name that no file can have
        raise UserError(f"scenario.path={path!r}: not a path") from None
    bare = path.removesuffix(".yaml")
    hint = did_you_mean(bare, shipped) if "/" not in path else "the path is taken from the working directory"
    raise UserError(one_line(f"scenario.path={path}: {what}, and no shipped estate; {hint}"))


def fingerprint(scenario: Scenario) -> Any:
    """What determines the estate's worlds beside the scenario's numbers, for hashes of results."""
    estate = estate_of(scenario)
    return [estate.services, hashlib.sha256(_profile(estate, scenario).tobytes()).hexdigest()]


def _profile(estate: Estate, scenario: Scenario) -> np.ndarray:
    horizon = scenario.safety_limits.forecast_ticks
    if estate.csv is None:
        return day_profile(scenario.load.diurnal_amplitude, estate.peak_hour, horizon)
    return with_peaks(read_trace(estate.csv), horizon)


# ---- the file's numbers in the scenario -------------------------------------------------------------------------


def _constant(default: Scenario, name: str, tree: Tree) -> float:
    """A value for one of the schema's numbers."""
    known = numbers_of(default)
    if name not in known:
        if name == "horizon.ticks":
            raise tree.error("the length of an episode is `horizon_hours:` at the top of the file")
        close = [k for k in known if k.endswith(f".{name}")] or list(known)
        raise tree.error(f"no such constant; {did_you_mean(name if close == list(known) else close[0], close)}")
    leaf = name.rpartition(".")[2]
    value = tree.whole() if isinstance(known[name], int) else tree.number()
    try:
        SCENARIO_RANGES.get(leaf, Range(low=0, high=1e9)).check(name, value)
    except UserError as error:
        raise tree.error(str(error).partition(": ")[2] + f", not {value:g}") from None
    return value


def _overlay(scenario: Scenario, default: Scenario, name: str, value: float) -> None:
    """Set a dotted name unless it differs from the default: then somebody has chosen it."""
    *path, leaf = name.split(".")
    node, old = functools.reduce(getattr, path, scenario), functools.reduce(getattr, path, default)
    if getattr(node, leaf) == getattr(old, leaf):
        setattr(node, leaf, value)


def numbers_of(scenario: Scenario) -> dict[str, float]:
    """Dotted name and value of every constant that an estate may set."""
    out: dict[str, float] = {}
    for section, part in vars(scenario).items():
        if is_dataclass(part):
            for leaf, value in vars(part).items():
                if isinstance(value, (int, float)):
                    out[f"{section}.{leaf}"] = value
    return {name: value for name, value in out.items() if name not in _NOT_CONSTANTS}


def _base_cost(scenario: Scenario, services: Services) -> float:
    """$ per hour of what runs at the start; machines without a size count with the mean one."""
    p, t = scenario.prices, scenario.topology
    table = dict(
        zip(KIND_NAMES, (p.vm_vcpu_hour, p.database_vcpu_hour, p.cache_vcpu_hour, p.queue_hour), strict=True)
    )
    mean = 2 * t.size_2 + 4 * t.size_4 + 8 * t.size_8
    total = 0.0
    for service in services.values():
        if service.get("stopped"):
            continue
        price = service.get("price_per_hour")
        if price is None:
            price = table[service["kind"]] * (p.multi_az_factor if service.get("multi_az") else 1.0)
            if service["kind"] != KIND_NAMES[QUEUE]:
                price *= service.get("vcpu", mean)
        total += price * service.get("replicas", 1)
    return total


def _check_load(scenario: Scenario, estate: Estate) -> None:
    """Every service that takes traffic takes enough of it to compute with."""
    shape = blueprint(estate.services)
    n_groups, hit = int(shape.heads["n_groups"][0]), scenario.flow.cache_hit
    load = shape.groups["entry_share"][0].copy()
    for g in range(n_groups):
        group = shape.groups[0, g]
        edges = shape.edges[0, group["edge_first"] : group["edge_first"] + group["edge_count"]]
        for edge in edges:
            load[edge["target"]] += load[g] * edge["calls_low"] * (1.0 if edge["cache"] == UNSET else 1.0 - hit)
        if not group["idle"] and load[g] < _SMALLEST_LOAD and not (load[g] == 0.0 and hit == 1.0):
            raise UserError(
                f"{estate.shown_as}: {front_to_back(estate.services)[g]!r} gets {load[g]:.1g} calls per request, "
                f"too few to count; raise the rates on the way to it"
            )
