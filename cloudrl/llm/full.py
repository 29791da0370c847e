"""The full prompt: the observation in numbers and units, for a model that has not been trained on the bands."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from cloudrl.actions import OP_NAMES
from cloudrl.llm.bands import NEEDS, split
from cloudrl.llm.recall import Hint
from cloudrl.llm.schema import operations
from cloudrl.measurements import TICK_HOURS
from cloudrl.observation import DEPENDENCY_COLUMNS, RESOURCE_COLUMN, WORLD_COLUMN, stake_to_ticks
from cloudrl.safety.config import ActionSet

HINTS = 5
_MEANING = {
    "ANALYZE": "find its hidden vulnerabilities and exposure",
    "PATCH": "clear its known vulnerabilities, restore its health; short downtime",
    "ENCRYPT": "encrypt its data; some ticks, short downtime at the end",
    "ROTATE_CREDS": "new credentials",
    "RESTART": "bring it back or restore its health; short downtime",
    "RESIZE_DOWN": "half its vCPU, half its price; short downtime",
    "STOP": "stop an idle machine; it pays a tenth",
    "DELETE": "remove it for good",
    "START": "start a stopped machine, in time for its job",
    "RESIZE_UP": "twice its vCPU and price; short downtime",
    "ENABLE_LOGGING": "log, so that breaches are noticed; shows exposure",
    "RESTRICT_ACCESS": "close its access from the internet",
}
_STAKES = {
    "stake_vulnerabilities": "PATCH",
    "stake_unknown": "ANALYZE and PATCH",
    "stake_credentials": "ROTATE_CREDS",
    "stake_exposure": "RESTRICT_ACCESS",
    "stake_encryption": "ENCRYPT",
    "stake_logging": "ENABLE_LOGGING",
    "stake_half": "RESIZE_DOWN",
    "stake_price": "STOP or DELETE",
}
assert len(_STAKES) == len(NEEDS) - 1  # STOP and DELETE share their stake
_KINDS, _STATES = ("vm", "database", "cache", "queue"), ("running", "stopped", "crashed", "deleted")


def system(actions: ActionSet) -> str:
    """What a model is told once: the task, the operations, the form of a reply."""
    known = "\n".join(f"- {op}: {_MEANING[op]}" for op in operations(actions))
    return (
        "You operate cloud infrastructure. Every 5 minutes you may carry out one operation on one resource, or "
        "none. Keep the bill low until the end of the day: infrastructure, lost traffic, the expected loss from "
        "breaches, and labour. Acting costs labour and may interrupt traffic; most of the time nothing is due.\n"
        f"Operations:\n{known}\n- NOOP: do nothing\n"
        "Dangerous or impossible operations are rejected.\n"
        'Answer with exactly one JSON object and nothing else: {"action": "PATCH", "resource": "r3"} or '
        '{"action": "NOOP"}. A short "reason" may be added.'
    )


def full(observation: np.ndarray, ticks: int, names: Sequence[str], remembered: list[Hint]) -> str:
    """One world as text, from its observation (D,). `names`: of its resources, may be empty."""
    resources, worlds = split(observation[None].astype(np.float64))
    world = {name: float(worlds[0, column]) for name, column in WORLD_COLUMN.items()}
    dollars = math.exp(world["base_cost"]) * TICK_HOURS  # of a baseline tick
    lines = _header(world, ticks, dollars)
    for slot, row in enumerate(resources[0]):
        see = {name: float(row[column]) for name, column in RESOURCE_COLUMN.items()}
        if see["present"]:
            calls = [round(row[column] * len(resources[0])) - 1 for column in DEPENDENCY_COLUMNS if row[column]]
            name = f" ({names[slot]})" if slot < len(names) else ""
            lines.append(f"r{slot}{name}: " + "; ".join(_resource(see, calls, dollars)))
    for hint in remembered:
        lines.append(
            f"memory: {OP_NAMES[hint.op]} on r{hint.slot} was followed by a cascade or breach in situations like "
            f"this: probability {hint.probability:.2f} after {hint.cases:.0f} cases"
        )
    return "\n".join(lines)


def _header(world: dict[str, float], ticks: int, dollars: float) -> list[str]:
    tick = round(world["time_passed"] * ticks)
    hours = (ticks - tick) * TICK_HOURS
    value = math.exp(4.0 * world["value"]) * math.exp(world["base_cost"])
    labour = stake_to_ticks(world["labour_unit"]) * dollars
    lines = [
        f"tick {tick} of {ticks}, {hours:.1f} hours left",
        f"load {world['load']:.2f} ({world['load_over_forecast']:.2f} x forecast), in 30 minutes "
        f"{world['forecast_soon']:.2f}, peak of the next 2 hours {world['forecast_peak']:.2f}",
        f"served {100 * world['served']:.1f} % of the traffic, {100 * world['slow']:.1f} % of it late; "
        f"change budget {100 * world['changes']:.0f} % used",
        f"infrastructure began at $ {math.exp(world['base_cost']):.2f} per hour; full service is worth "
        f"$ {value:.2f} per hour; labour costs x {labour:.2f}, breaches x {math.exp(world['breach_factor']):.2f}, "
        f"bursts x {math.exp(world['burst_factor']):.2f}",
    ]
    if world["cascade"]:
        lines.append(f"a cascade runs: {100 * world['cascade_blast']:.0f} % of the traffic is hit")
    return lines


def _resource(see: dict[str, float], calls: list[int], dollars: float) -> list[str]:
    kind = next(kind for kind in _KINDS if see[kind])
    what = [("critical", see["critical"]), ("idle", see["idle"]), ("multi-AZ", see["multi_az"]), (kind, True)]
    what.append(("that holds data", see["data_bearing"]))
    state = next(state for state in _STATES if see[state])
    parts = [" ".join(word for word, applies in what if applies)]
    if state == "deleted":
        return [*parts, state]
    if kind != "queue":
        parts.append(f"{2 ** round(3 * see['size'])} vCPU")
    parts.append(f"busy for {round(4 * see['busy'])} more ticks" if see["busy"] else state)
    if see["alarm"]:
        parts.append("ALARM")
    if state == "running":
        parts.append(
            f"health {see['health']:.2f}, utilisation {see['utilisation']:.2f} (at the peak "
            f"{see['utilisation_peak']:.2f}), latency x {2 ** (4 * see['latency']):.1f}"
        )
    if not see["idle"]:
        parts.append(
            f"{round(3 * see['replicas_free'])} of {round(3 * see['replicas'])} replicas free, availability "
            f"{see['availability']:.2f}"
        )
    if calls:
        parts.append("calls " + " ".join(f"r{slot}" for slot in calls))
    parts += _security(see)
    if see["job_ahead"] > -1:
        due = "runs now" if see["job_running"] else f"starts in {round(48 * see['job_ahead'])} ticks"
        parts.append(f"its scheduled job {due}")
    stakes = [
        f"{cure} {stake_to_ticks(see[stake]) * dollars:.2f}"
        for stake, cure in _STAKES.items()
        if stake_to_ticks(see[stake]) * dollars >= 0.005 and (see["idle"] or stake != "stake_price")
    ]
    if stakes:
        parts.append(f"would save until the end, $: {', '.join(stakes)}")
    if see["stake_downtime"]:
        parts.append(f"an interruption now costs $ {stake_to_ticks(see['stake_downtime']) * dollars:.2f}")
    return parts


def _security(see: dict[str, float]) -> list[str]:
    known = round(4 * see["known_count"])
    return [
        f"known vulnerabilities {known} (EPSS {see['known_epss']:.2f}, worst CVSS {10 * see['known_cvss']:.1f})"
        if known
        else "no known vulnerability",
        f"not analysed for {144 * see['since_analyze'] * TICK_HOURS:.0f} h",
        f"credentials {90 * see['credential_age']:.0f} days old",
        ("encrypted" if see["encrypted"] else "not encrypted"),
        ("logs" if see["logging"] else "no logs"),
        *(["OPEN TO THE INTERNET"] if see["exposure_seen"] else []),
    ]
