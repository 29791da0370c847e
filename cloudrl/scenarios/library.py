"""Named scenarios, read from configs/scenario/*.yaml: the one place where constants live."""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import asdict, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

import yaml

from cloudrl.errors import UserError, did_you_mean
from cloudrl.scenarios.blueprint import Blueprints
from cloudrl.scenarios.scale import scaled_services
from cloudrl.scenarios.schema import Scenario
from cloudrl.scenarios.topology import Services, blueprint
from cloudrl.seeding import TEST_SEEDS, VALIDATION_SEEDS

CONFIG_DIR = Path(__file__).resolve().parents[2] / "configs"
SUITES = {
    "easy": "CloudOps-Easy-v1",
    "medium": "CloudOps-Medium-v1",
    "hard": "CloudOps-Hard-v1",
    "quiet": "CloudOps-Stress-Quiet-v1",
    "stress-retry-storm": "CloudOps-Stress-RetryStorm-v1",
    "stress-zero-day": "CloudOps-Stress-ZeroDay-v1",
    "stress-leaked-credential": "CloudOps-Stress-LeakedCredential-v1",
    "stress-zone-loss": "CloudOps-Stress-ZoneLoss-v1",
    "stress-sale-day": "CloudOps-Stress-SaleDay-v1",
    "stress-alert-flood": "CloudOps-Stress-AlertFlood-v1",
    "stress-cost-crunch": "CloudOps-Stress-CostCrunch-v1",
    "stress-topology-shift": "CloudOps-Stress-TopologyShift-v1",
    "stress-price-shock": "CloudOps-Stress-PriceShock-v1",
}


def load_scenario(name: str, **changes: Any) -> Scenario:
    """The scenario configs/scenario/<name>.yaml. `changes`: load.burst_high=2.0 is load__burst_high=2.0."""
    values = _read(name)
    scenario = fill(Scenario(), values, f"scenario {name}")
    for key, value in changes.items():
        set_leaf(scenario, key.replace("__", "."), value)
    if scenario.path is not None:
        from cloudrl.scenarios.estate import with_estate  # it looks its defaults up here

        scenario = with_estate(scenario)
    return scenario


def set_leaf(scenario: Scenario, dotted: str, value: Any) -> None:
    """Set one field by its dotted name. Raises ValueError if there is none."""
    node: Any = scenario
    *path, leaf = dotted.split(".")
    for part in path:
        node = getattr(node, part, None)
    if node is None or not any(f.name == leaf for f in fields(node)):
        raise ValueError(f"scenario has no field {dotted}")
    setattr(node, leaf, value)


def available() -> list[str]:
    """Names of the scenarios that ship."""
    skip = {"base", "topologies", "estate"}
    return sorted(p.stem for p in (CONFIG_DIR / "scenario").glob("*.yaml") if p.stem not in skip)


def _read(name: str) -> dict[str, Any]:
    path = CONFIG_DIR / "scenario" / f"{name}.yaml"
    if not path.exists():
        raise ValueError(f"no scenario {name!r}; there are {', '.join(available())}")
    values = yaml.safe_load(path.read_text()) or {}
    merged: dict[str, Any] = {}
    for parent in values.pop("defaults", []):
        if parent != "_self_":
            merged = _merge(merged, _read(parent))
    return _merge(merged, values)


def _merge(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    out = dict(below)
    for key, value in above.items():
        out[key] = _merge(out[key], value) if isinstance(value, dict) and isinstance(out.get(key), dict) else value
    return out


def fill(config: Any, values: dict[str, Any], where: str) -> Any:
    """Set the fields of a dataclass from a mapping. Raises ValueError for a key that is not a field."""
    known = {f.name for f in fields(config)}
    for key, value in values.items():
        if key not in known:
            raise ValueError(f"{where}: unknown key {key!r}; known are {', '.join(sorted(known))}")
        old = getattr(config, key)
        if is_dataclass(old):
            fill(old, value, f"{where}.{key}")
        elif isinstance(old, list) and is_dataclass(_item(config, key)):
            items = [fill(_item(config, key)(), v, f"{where}.{key}[{k}]") for k, v in enumerate(value)]
            setattr(config, key, items)
        else:
            setattr(
                config, key, float(value) if isinstance(old, float) and isinstance(value, (int, str)) else value
            )
    return config


def _item(config: Any, key: str) -> Any:
    """The type of what a list field holds."""
    return get_args(get_type_hints(type(config))[key])[0]


@functools.cache  # reading the file takes longer than all else that builds a simulator
def topologies() -> dict[str, Any]:
    """The named shapes of the suites."""
    data: dict[str, Any] = yaml.safe_load((CONFIG_DIR / "scenario" / "topologies.yaml").read_text())
    return data


def topology(name: str) -> Services:
    """The services of a shape: one of the suites', or `scaled-<n>` (cloudrl/scenarios/scale.py)."""
    library = topologies()
    if name in library:
        services: Services = library[name]
        return services
    if name.startswith("scaled-") and name[7:].isdecimal():
        return scaled_services(int(name[7:]))
    raise UserError(f"no topology {name!r}; {did_you_mean(name, library)}")


def shape_names(scenario: Scenario) -> list[str]:
    """Names of the scenario's shapes, by template."""
    t = scenario.topology
    return sorted({*t.train, *t.validation, *t.test})


def shapes(scenario: Scenario) -> tuple[Blueprints, dict[str, list[int]]]:
    """The scenario's blueprints, and which of them belong to the splits train, validation and test."""
    t = scenario.topology
    splits = {"train": t.train, "validation": t.validation or t.train, "test": t.test or t.train}
    if not t.train:
        raise UserError(
            f"scenario {scenario.name}: topology.train is empty; name a shape there, or give scenario.path"
        )
    names = shape_names(scenario)
    stacked = Blueprints.stack([blueprint(topology(name)) for name in names], scenario.slots)
    return stacked, {split: [names.index(n) for n in members] for split, members in splits.items()}


def split_of(seed: int) -> str:
    """Which split a seed belongs to: shapes are kept apart as well as seeds."""
    if seed >= TEST_SEEDS.start:
        return "test"
    return "validation" if seed >= VALIDATION_SEEDS.start else "train"


def scenario_hash(scenario: Scenario) -> str:
    """Hash of every constant and shape, for results."""
    used: Any = {name: topology(name) for name in shape_names(scenario)}
    if scenario.path is not None:
        from cloudrl.scenarios.estate import fingerprint

        used = fingerprint(scenario)
        scenario = replace(scenario, path="estate")  # where the file lies does not matter
    values = asdict(scenario)
    if not scenario.events:  # a scenario without events is what it was before there were any
        del values["events"]
    text = json.dumps([values, used], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
