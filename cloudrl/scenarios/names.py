"""Names of a scenario's resources, in the order of their slots: what people and language models read."""

from __future__ import annotations

from cloudrl.scenarios.estate import estate_of
from cloudrl.scenarios.library import shape_names, topology
from cloudrl.scenarios.schema import Scenario
from cloudrl.scenarios.topology import Services, front_to_back


def resource_names(scenario: Scenario) -> list[list[str]]:
    """One list per template (`world["template"]`): "front-1", "front-2", "database", ... for its slots."""
    if scenario.path is not None:
        return [slot_names(estate_of(scenario).services)]
    return [slot_names(topology(name)) for name in shape_names(scenario)]


def slot_names(services: Services) -> list[str]:
    """A service with one replica keeps its name; those of several are numbered from 1."""
    names: list[str] = []
    for name in front_to_back(services):
        replicas = int(services[name].get("replicas", 1))
        names += [name] if replicas == 1 else [f"{name}-{k}" for k in range(1, replicas + 1)]
    return names
