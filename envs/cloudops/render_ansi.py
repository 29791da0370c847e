"""One world as text: a table of its resources under the state of the service, for some 110 columns."""

from __future__ import annotations

import math
import textwrap
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from cloudrl.actions import OP_NAMES, Action, Op
from cloudrl.measurements import TICK_HOURS
from cloudrl.reward.bill import BILL_PARTS, bill, served_share
from cloudrl.safety.layer import Verdict
from cloudrl.scenarios.names import resource_names
from cloudrl.simulator import Simulator
from cloudrl.types import CRASHED, DELETED, KIND_NAMES, QUEUE, RUNNING, STATUS_NAMES, VERDICT_NAMES

_BAR, _WIDTH, _NAME = 5, 110, 15
_LEGEND = "! alarm · C critical · D data · R redundant (multi-AZ) · I idle · J job due"
_RED, _YELLOW, _DIM, _PLAIN = "\x1b[31m", "\x1b[33m", "\x1b[2m", "\x1b[0m"


class LastAction(NamedTuple):
    """What was asked for in the last step, and the verdict unless it was admissible."""

    action: int
    verdict: Verdict | None = None


def render_world(
    simulator: Simulator,
    world: int = 0,
    *,
    last: LastAction | None = None,
    truth: bool = False,
    color: bool = False,
) -> str:
    """World `world` as text.

    It shows what an agent sees; `truth` adds the hidden state, marked with *. `last`: the action to report, if it
    is not the one that ran. `color`: terminal colour codes.
    """
    w = simulator.state.worlds[world]
    rows = [_cells(simulator, world, i, truth) for i in range(int(w["n_resources"]))]
    names = names_of(simulator, world)
    table = _table([[shorten(name), *row] for name, row in zip(names, rows, strict=True)])
    action = textwrap.wrap(last_action(simulator, world, last), _WIDTH, subsequent_indent=" " * 13)
    lines = [*_header(simulator, world), "", *table, "", *action]
    lines.append(_LEGEND + (" · * hidden from agents" if truth else ""))
    if color:
        lines = [_paint(line) for line in lines]
    return "\n".join(line.rstrip() for line in lines)


_NAMES: WeakKeyDictionary[Simulator, list[list[str]]] = WeakKeyDictionary()


def names_of(simulator: Simulator, world: int) -> list[str]:
    """A name for every resource of the world, by slot. They are read from files, so once per simulator."""
    if simulator not in _NAMES:
        _NAMES[simulator] = resource_names(simulator.scenario)
    return _NAMES[simulator][int(simulator.state.worlds["template"][world])]


def shorten(name: str) -> str:
    """Names of a person's own system may be long."""
    return name if len(name) <= _NAME else name[: _NAME - 1] + "…"


# ---------------------------------------------------------------- header
def _header(simulator: Simulator, world: int) -> list[str]:
    w = simulator.state.worlds[world : world + 1]
    one: Any = w[0]
    tick = int(one["tick"])
    scenario = simulator.scenario
    first = [
        f"{scenario.name} v{scenario.version}",
        f"world {int(one['seed'])}",
        f"tick {tick} of {simulator.ticks}",
        f"{_clock(tick)} of {_clock(simulator.ticks)}",
    ]
    if tick >= simulator.ticks:
        first.append("over: won" if bool(simulator.won()[world]) else "over: not won")
    load = [
        f"load {one['load']:.2f} (forecast {one['forecast_now']:.2f}, 2 h peak {one['forecast_peak']:.2f})",
        f"served {_percent(one['served'])} (so far {_percent(served_share(w)[0])})",
        f"late {_percent(one['slow'])}",
    ]
    parts = " + ".join(f"{part} {one[part]:.2f}" for part in BILL_PARTS)
    money = [
        f"bill $ {bill(w)[0]:.2f} = {parts}",
        f"reward {one['reward']:+.2f} (so far {one['reward_total']:+.1f})",
    ]
    lines = ["  |  ".join(first), "  |  ".join(load), "  |  ".join(money)]
    return [*lines, _cascade(simulator, world)] if one["cascade"] else lines


def _clock(ticks: int) -> str:
    minutes = round(ticks * TICK_HOURS * 60)
    return f"{minutes // 60}:{minutes % 60:02d} h"


def _percent(share: float) -> str:
    """99.97 stays below 100."""
    value = 100.0 * float(share)
    return f"{int(value * 10) / 10 if value < 100.0 else 100:g} %"


def _cascade(simulator: Simulator, world: int) -> str:
    w: Any = simulator.state.worlds[world]
    root = int(simulator.state.groups[world, w["cascade_root"]]["first"])
    return f"CASCADE from {names_of(simulator, world)[root]}, {_percent(w['cascade_blast'])} of traffic hit"


# ---------------------------------------------------------------- table
_COLUMNS = (
    # title, alignment
    ("resource", "<"),
    ("kind", "<"),
    ("tags", "<"),
    ("vCPU", ">"),
    ("status", "<"),
    ("health", "<"),
    ("util", ">"),
    ("slow", ">"),
    ("$/h", ">"),
    ("open", "<"),
    ("enc", "<"),
    ("log", "<"),
    ("cred", ">"),
    ("scan", ">"),
    ("vulns cvss risk", "<"),
    ("hidden* cvss risk", ">"),
)


_TIGHT = ("tags", "status", "enc", "log", "vulns cvss risk")
"""Columns that one space keeps apart from the one before, so that 50 resources fit into a terminal."""


def _cells(simulator: Simulator, world: int, slot: int, truth: bool) -> list[str]:
    w: Any = simulator.state.worlds[world]
    r: Any = simulator.state.resources[world, slot]
    p: Any = simulator.params[0]
    kind = KIND_NAMES[r["kind"]]
    if r["status"] >= DELETED:
        return [kind, _tags(w, r, p), "", STATUS_NAMES[r["status"]], *[""] * (len(_COLUMNS) - 5)]
    lag = int(r["lag"])
    health, utilisation, latency = (float(r[f"past_{name}"][lag]) for name in ("health", "utilisation", "latency"))
    managed = r["kind"] == QUEUE  # a service: it has no size
    running = r["status"] == RUNNING
    return [
        kind,
        _tags(w, r, p),
        "" if managed else f"{1 << int(r['size'])}",
        _status(r, truth),
        _bar(health) + (f" {r['health']:.2f}*" if truth and lag else ""),
        f"{utilisation:.2f}" if running else "",
        f"x{min(latency, 99.9):.1f}" if running else "",
        f"{_price(p, r):.3f}",
        _open(r, truth),
        "yes" if r["encrypted"] else "no",
        "yes" if r["logging"] else "no",
        f"{r['credential_days']:.0f}d",
        f"{int(r['ticks_since_analyze']) * TICK_HOURS:.0f}h",
        _vulnerabilities(r, "known"),
        _vulnerabilities(r, "hidden") if truth else "",
    ]


def _price(p: Any, r: Any) -> float:
    price = float(r["unit_price"])
    if r["kind"] != QUEUE:
        price *= 1 << int(r["size"])
    return price * float(p["stopped_fraction"]) if r["status"] not in (RUNNING, CRASHED) else price


def _tags(w: Any, r: Any, p: Any) -> str:
    job = r["job_start"] >= 0 and w["tick"] < r["job_start"] + p["job_ticks"]
    flags = (r["critical"], r["data_bearing"], r["multi_az"], r["idle"], job)
    return "".join(letter for letter, flag in zip("CDRIJ", flags, strict=True) if flag)


def _status(r: Any, truth: bool) -> str:
    status = STATUS_NAMES[r["status"]]
    if r["busy_ticks"] > 0:
        status = f"{OP_NAMES[r['busy_op']].lower()} {int(r['busy_ticks'])}"
    elif truth and r["status"] == CRASHED:
        status = f"crashed {int(r['repair_ticks'])}*"
    return f"{status} !" if r["alarm"] else status


def _bar(share: float) -> str:
    filled = round(_BAR * min(1.0, max(0.0, share)))
    return "█" * filled + "░" * (_BAR - filled) + f" {share:.2f}"


def _open(r: Any, truth: bool) -> str:
    if r["exposure_seen"]:
        return "PUBLIC"
    return "PUBLIC*" if truth and r["exposed"] else "-"


def _vulnerabilities(r: Any, which: str) -> str:
    """How many, the worst severity, and the probability that one of them is exploited within 30 days."""
    count = int(r[f"{which}_count"])
    if count == 0:
        return "    -"
    risk = 100.0 * (1.0 - math.exp(-float(r[f"{which}_epss"])))
    return f"{count:>5}{r[f'{which}_cvss']:>5.1f}{risk:>4.0f}%"


def _table(rows: list[list[str]]) -> list[str]:
    titles = [title for title, _ in _COLUMNS]
    shown = [k for k in range(len(titles)) if any(row[k] for row in rows)]
    widths = [max(len(row[k]) for row in [titles, *rows]) for k in range(len(titles))]
    lines = []
    for row in [titles, *rows]:
        cells = [f"{row[k]:{_COLUMNS[k][1]}{widths[k]}}" for k in shown]
        lines.append("".join((" " if titles[k] in _TIGHT else "  ") + cell for k, cell in zip(shown, cells))[2:])
    lines.insert(1, "─" * max(len(line.rstrip()) for line in lines))
    return lines


# ---------------------------------------------------------------- last action
def last_action(simulator: Simulator, world: int, last: LastAction | None = None) -> str:
    """The action of the last tick in a line: what was asked for, the verdict with its reason, and what ran."""
    w: Any = simulator.state.worlds[world]
    if w["tick"] == 0:
        return "last action: none yet"
    code = int(w["verdict"])
    index = last.action if last is not None else int(w["executed"])
    if last is None and code != 0 and index == simulator.noop:  # what was asked for is not in the state
        return f"last action: {VERDICT_NAMES[code]}; NOOP ran instead"
    text = f"last action: {describe(index, simulator, names_of(simulator, world))}"
    if code == 0:
        return text
    text += f", {VERDICT_NAMES[code]}"
    if last is not None and last.verdict is not None and last.verdict.code == code:
        rules = f" by {', '.join(last.verdict.rules)}" if last.verdict.rules else ""
        text += f"{rules}: {last.verdict.reason}"
    return text + ("" if int(w["executed"]) == index else "; NOOP ran instead")


def describe(index: int, simulator: Simulator, names: list[str]) -> str:
    """A flat action in words."""
    if not 0 <= index <= simulator.noop:
        return f"{index} (no such action)"
    action = Action.from_index(index, simulator.n_slots)
    op, slot = action.op, action.slot
    if op == Op.NOOP:
        return OP_NAMES[op]
    return f"{OP_NAMES[op]} {names[slot] if slot < len(names) else f'empty slot {slot}'}"


def _paint(line: str) -> str:
    for word, code in (("CASCADE", _RED), ("crashed", _RED), (" !", _RED), ("PUBLIC", _RED), ("vetoed", _YELLOW)):
        line = line.replace(word, f"{code}{word}{_PLAIN}")
    return line.replace("░", f"{_DIM}░{_PLAIN}")
