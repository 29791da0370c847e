"""An estate file read and checked: a person's own system, written down in yaml (docs/estates.md).

Everything that can be wrong with the file by itself is found here, in one line that names file, line and key.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cloudrl.errors import UserError, did_you_mean
from cloudrl.scenarios.topology import Services, front_to_back
from cloudrl.scenarios.yaml_tree import Tree, decode, parse_tree, quote, read_limited
from cloudrl.types import DEPENDENCY_NAMES, KIND_NAMES

MAX_BYTES = 1_000_000
MAX_RESOURCES = 2_000
MAX_CALLS = 20_000
MAX_CALLS_PER_REQUEST = 1e6
MAX_NAME = 60
MAX_HOURS = 366 * 24
VCPU = (1, 2, 4, 8)


@dataclass
class Estate:
    """A checked estate file. `services` is in the notation of configs/scenario/topologies.yaml."""

    path: Path
    shown_as: str
    name: str
    source: str
    services: Services
    amplitude: float | None = None  # of the day, share of the mean
    peak_hour: float = 18.0
    csv: Path | None = None  # a trace instead of a sine
    value_per_hour: float | None = None  # $
    horizon_hours: float | None = None
    constants: dict[str, Tree] = field(default_factory=dict)  # dotted names of the schema

    @property
    def n_resources(self) -> int:
        return sum(int(s.get("replicas", 1)) for s in self.services.values())


def read_estate(path: Path, shown_as: str) -> Estate:
    """Read and check; the same content is checked once. Raises UserError."""
    data = read_limited(path, shown_as, MAX_BYTES, "an estate is a few pages of text")
    return _checked(data, path, shown_as)


@functools.lru_cache(maxsize=16)
def _checked(data: bytes, path: Path, shown_as: str) -> Estate:
    root = parse_tree(decode(data, shown_as), shown_as)
    if root.is_null:
        raise UserError(f"{shown_as}: is empty; an estate needs at least `services:` (docs/estates.md)")
    root.mapping()
    top = _known(root, _TOP)
    if "services" not in top:
        raise UserError(f"{shown_as}: has no `services:`; list the machines, databases, caches and queues there")
    services = _services(top["services"])
    estate = Estate(path, shown_as, path.stem, "", services)
    for key in ("name", "source"):
        if key in top:
            setattr(estate, key, _name(top[key]) if key == "name" else top[key].string())
    if "value_per_hour" in top:
        estate.value_per_hour = _number(top["value_per_hour"], 0, 1e9, above=True)
        _needs_sizes(top["value_per_hour"], services)
    if "horizon_hours" in top:
        hours = estate.horizon_hours = _number(top["horizon_hours"], 1 / 12, MAX_HOURS)
        if abs(hours * 12 - round(hours * 12)) > 1e-6:
            raise top["horizon_hours"].error("must be a multiple of 5 minutes (1/12 hour)")
    if "load" in top:
        _load(top["load"], estate)
    if "constants" in top and not top["constants"].is_null:
        estate.constants = dict(top["constants"].children())
        for name, tree in estate.constants.items():
            if not tree.is_scalar:
                raise tree.error(
                    f"write constants with dotted names, such as failures.failure_rate: 1e-4, not {name}:"
                )
    return estate


# ---- sections ---------------------------------------------------------------------------------------------------


def _services(tree: Tree) -> Services:
    if tree.is_null or tree.items == {}:
        raise tree.error("is empty; list at least one service with `entry: 1` (docs/estates.md)")
    trees = dict(tree.children())
    services: dict[str, dict[str, Any]] = {}
    n_resources = n_calls = 0
    for name, service in trees.items():
        _name(Tree(service.file, service.line, "services", text=name, quoted=True))
        services[name] = _service(service)
        n_resources += services[name].get("replicas", 1)
        n_calls += len(services[name].get("calls", ()))
        if n_resources > MAX_RESOURCES:
            raise service.error(
                f"more than {MAX_RESOURCES:,} resources up to here; an estate holds at most that many"
            )
        if n_calls > MAX_CALLS:
            raise service.error(f"more than {MAX_CALLS:,} calls up to here; an estate holds at most that many")
    _check_slot_names(trees, services)
    for name, service in trees.items():
        _check_calls(name, service, services)
    _check_entry(tree, trees, services)
    _check_graph(trees, services)
    return services


def _service(tree: Tree) -> dict[str, Any]:
    service: dict[str, Any] = {}
    parts = _known(tree, _SERVICE)
    for key, part in parts.items():
        service[key] = _SERVICE[key](part)
    kind = service.get("kind")
    if kind is None:
        raise tree.error(f"has no kind; write kind: {' | '.join(KIND_NAMES)}")
    if kind == "queue" and "vcpu" in service:
        raise parts["vcpu"].error("a queue has no size of its own; remove it")
    if "price_per_hour" in service and kind != "queue" and "vcpu" not in service:
        raise parts["price_per_hour"].error("a price needs the size that it is for; write vcpu too")
    if service.get("idle"):
        for key in ("entry", "utilisation"):
            if service.get(key):
                raise parts[key].error("an idle service takes no traffic; remove this or idle: true")
    elif service.get("stopped"):
        raise parts["stopped"].error(
            "a service that takes traffic cannot begin stopped; remove this or add idle: true"
        )
    if "job" in service and not (service.get("idle") and kind == "vm"):
        raise parts["job"].error("only an idle vm may hold a scheduled job; remove this or add idle: true")
    return service


def _calls(tree: Tree) -> dict[str, Any]:
    if tree.is_null:
        return {}
    return {name: _call(call) for name, call in tree.children()}


def _call(tree: Tree) -> Any:
    if tree.items is None:
        return _rate(tree)
    parts = _known(tree, _CALL)
    return {key: _CALL[key](part) for key, part in parts.items()}


def _rate(tree: Tree) -> float | list[float]:
    if tree.rows is None:
        return _number(tree, 1e-3, 1e3)
    if len(tree.rows) != 2:
        raise tree.error("a range of calls per request is [low, high]")
    low, high = (_number(row.named(tree.key), 1e-3, 1e3) for row in tree.rows)
    if low > high:
        raise tree.error(f"the range [{low:g}, {high:g}] ends below its beginning; swap the two")
    return [low, high]


def _load(tree: Tree, estate: Estate) -> None:
    if tree.is_null:
        return
    parts = _known(tree, ("amplitude", "peak_hour", "csv"))
    if "csv" in parts:
        if len(parts) > 1:
            raise tree.error("a csv brings its own shape of the day; remove amplitude and peak_hour, or csv")
        name = parts["csv"].string()
        estate.csv = estate.path.parent / Path(name).expanduser()
        if not estate.csv.is_file():
            raise parts["csv"].error(f"no such file: {quote(name, 120)} (looked for beside the estate file)")
    if "amplitude" in parts:
        estate.amplitude = _number(parts["amplitude"], 0, 1)
    if "peak_hour" in parts:
        estate.peak_hour = _number(parts["peak_hour"], 0, 24)


# ---- what holds between services --------------------------------------------------------------------------------


def _check_slot_names(trees: dict[str, Tree], services: Services) -> None:
    """web with two replicas shows as web-1 and web-2: no other service may be called so."""
    for name in services:
        stem, _, number = name.rpartition("-")
        replicas = services.get(stem, {}).get("replicas", 1)
        if replicas > 1 and number in {str(k) for k in range(1, replicas + 1)}:
            raise trees[name].error(f"replica {number} of {quote(stem)} is called so already; rename the service")


def _check_calls(name: str, tree: Tree, services: Services) -> None:
    calls = services[name].get("calls") or {}
    if not calls:
        return
    trees = dict(next(t for key, t in tree.children() if key == "calls").children())
    for target, call in calls.items():
        place = trees[target]
        if target == name:
            raise place.error("a service cannot call itself; remove the call")
        if target not in services:
            raise place.error(f"calls {quote(target)}, which is no service; {did_you_mean(target, services)}")
        if services[target].get("idle") and not services[name].get("idle"):
            raise place.error(
                f"{quote(target)} is idle, which means that nothing calls it; remove idle or the call"
            )
        if not isinstance(call, dict):
            continue
        if call.get("kind") == "cache" and services[target]["kind"] != "cache":
            raise place.error(f"kind: cache, but {quote(target)} is a {services[target]['kind']}, not a cache")
        if (cache := call.get("cache")) is not None:
            place = dict(place.children())["cache"]
            if cache not in services:
                raise place.error(f"no service {quote(cache)}; {did_you_mean(cache, services)}")
            if services[cache]["kind"] != "cache":
                raise place.error(
                    f"{quote(cache)} is a {services[cache]['kind']}, not a cache; name one or remove this"
                )
            if cache not in calls:
                raise place.error(
                    f"{quote(name)} does not call {quote(cache)}; add {{kind: cache}} for it to its calls"
                )


def _check_entry(tree: Tree, trees: dict[str, Tree], services: Services) -> None:
    shares = {name: s["entry"] for name, s in services.items() if "entry" in s}
    total = sum(shares.values())
    if not shares:
        raise tree.error("no traffic enters anywhere; write `entry: 1` on the service that users reach first")
    if total <= 0:
        raise trees[next(iter(shares))].error(
            "every entry share is 0, so no traffic enters; write `entry: 1` somewhere"
        )
    for name, share in shares.items():
        if 0 < share < 1e-6 * total:
            raise trees[name].error("its entry share is less than a millionth of the traffic; raise or remove it")


def _check_graph(trees: dict[str, Tree], services: Services) -> None:
    """Calls lead nowhere in a circle, reach every service that is not idle, and do not multiply without bound."""
    try:
        order = front_to_back(services)
    except ValueError as error:
        within = next((t for n, t in trees.items() if f" {n} ->" in str(error)), None)
        raise (within or next(iter(trees.values()))).named("services").error(str(error)) from None
    load = dict.fromkeys(order, 0.0)
    for name in order:
        service = services[name]
        load[name] += service.get("entry", 0.0)
        if load[name] <= 0 and not service.get("idle"):
            raise trees[name].error(
                "nothing calls it and no traffic enters it; write `idle: true`, or who calls it"
            )
        for target, call in (service.get("calls") or {}).items():
            rate = call.get("rate", 1.0) if isinstance(call, dict) else call
            load[target] += load[name] * (rate[1] if isinstance(rate, list) else rate)
            if load[target] > MAX_CALLS_PER_REQUEST * sum(s.get("entry", 0.0) for s in services.values()):
                raise trees[target].error("calls multiply to more than a million for one request; lower the rates")


def _needs_sizes(tree: Tree, services: Services) -> None:
    unsized = [n for n, s in services.items() if s["kind"] != "queue" and "vcpu" not in s]
    if unsized:
        raise tree.error(
            f"dollars need every size, and {quote(unsized[0])} has no vcpu; add it, or remove this line"
        )


# ---- values -----------------------------------------------------------------------------------------------------


def _known(tree: Tree, keys: Any) -> dict[str, Tree]:
    """The children, every one of which has a known key."""
    children = dict(tree.children())
    for key, child in children.items():
        if key not in keys:
            hint = f"did you mean '{_ALIASES[key]}'?" if _ALIASES.get(key) in keys else did_you_mean(key, keys, 20)
            raise child.error(f"unknown key {quote(key)}; {hint}")
    return children


def _name(tree: Tree) -> str:
    text = tree.string()
    if not text.strip() or text != text.strip() or not text.isprintable() or len(text) > MAX_NAME:
        raise tree.error(f"{quote(text)}: a name is 1 to {MAX_NAME} printable characters without spaces around it")
    return text


def _number(tree: Tree, low: float, high: float, above: bool = False) -> float:
    value = tree.number()
    if not low <= value <= high or (above and value <= low):
        bound = f"above {low:.10g} and at most {high:.10g}" if above else f"in [{low:.10g}, {high:.10g}]"
        raise tree.error(f"must be {bound}, not {value:g}")
    return value


def _kind(names: tuple[str, ...]) -> Callable[[Tree], str]:
    def check(tree: Tree) -> str:
        text = tree.string()
        if text not in names:
            raise tree.error(f"{quote(text)} is no kind; {did_you_mean(text, names)}")
        return text

    return check


def _vcpu(tree: Tree) -> int:
    value = tree.number()
    if value not in VCPU:
        raise tree.error(f"must be one of {', '.join(map(str, VCPU))} vCPU, not {tree.shown()}; take the nearest")
    return int(value)


def _replicas(tree: Tree) -> int:
    value = tree.whole()
    if value < 1:
        raise tree.error(f"must be at least 1, not {value}; remove the service if it is not there")
    if value > MAX_RESOURCES:
        raise tree.error(f"must be at most {MAX_RESOURCES:,}, not {value}")
    return value


def _state(tree: Tree) -> float:
    """A flag, or the share of worlds in which it is set."""
    if tree.is_boolean():
        return float(tree.boolean())
    if tree.quoted or not tree.is_scalar or tree.is_null:
        raise tree.error(f"must be true, false or a probability, not {tree.shown()}")
    try:
        return _number(tree, 0, 1)
    except UserError:
        raise tree.error(f"must be true, false or a probability in [0, 1], not {tree.shown()}") from None


def _between(low: float, high: float, above: bool = False) -> Callable[[Tree], float]:
    return lambda tree: _number(tree, low, high, above)


_ALIASES = {"resources": "services", "cpu": "vcpu", "cores": "vcpu", "count": "replicas", "type": "kind"}
"""What people write for a key, where the spelling alone would not tell."""

_TOP = ("name", "source", "services", "load", "value_per_hour", "horizon_hours", "constants")
_SERVICE: dict[str, Callable[[Tree], Any]] = {
    "kind": _kind(KIND_NAMES),
    "replicas": _replicas,
    "vcpu": _vcpu,
    "entry": _between(0, 1e9),
    "calls": _calls,
    "utilisation": _between(0, 1, above=True),
    "critical": Tree.boolean,
    "data": Tree.boolean,
    "multi_az": Tree.boolean,
    "idle": Tree.boolean,
    "stopped": Tree.boolean,
    "exposed": _state,
    "encrypted": _state,
    "logging": _state,
    "credential_days": _between(0, 36_500),
    "job": _between(0, 1),
    "price_per_hour": _between(0, 1e6, above=True),
}
_CALL: dict[str, Callable[[Tree], Any]] = {"rate": _rate, "kind": _kind(DEPENDENCY_NAMES), "cache": Tree.string}
