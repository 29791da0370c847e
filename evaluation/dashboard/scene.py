"""A world as an inline SVG: its services, how they call each other, and how they are. The colours follow the page.

The places are those of the gymnasium environment's pictures (envs/cloudops/layout.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape

from cloudrl.simulator import Simulator
from envs.cloudops.layout import Box, Layout, Wire, layout
from envs.cloudops.render_ansi import names_of
from envs.cloudops.scene import TONES, Fact, Mark, Trouble, facts, trouble

WIDTH = 1160.0
_ROW, _LEAST, _MOST = 50.0, 240.0, 620.0  # pixels of height per row of resources, and its limits
_LETTER = 0.56  # width of a letter, of its height

_DARK = {"well": "#6ea8e0", "worn": "#e3b341", "ill": "#e2663a", "crashed": "#8f2626", "stopped": "#8a97a5",
         "deleted": "#5b6570"}  # fmt: skip
STYLE = (
    f"<style>.crl .world{{{''.join(f'--{tone}:{colour};' for tone, colour in TONES.items())}}}"
    f".dark .crl .world{{{''.join(f'--{tone}:{colour};' for tone, colour in _DARK.items())}}}"
    + """
.crl .world { overflow-x: auto; margin: 0; }
.crl .world:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
.crl .world svg { display: block; width: 100%; min-width: 720px; height: auto; font-size: 12px; }
.crl .world text { fill: var(--ink); }
.crl .world .second { fill: var(--soft); font-size: 11px; }
.crl .world .group { fill: none; stroke: var(--faint); }
.crl .world .group.hit { stroke: var(--warn); stroke-width: 2; }
.crl .world .tile { fill: var(--card); stroke: var(--hair); }
.crl .world .tile.busy { stroke: var(--good); stroke-width: 2; }
.crl .world .tile.target { stroke: var(--accent); stroke-width: 2.5; }
.crl .world .tile.deleted { fill: none; stroke-dasharray: 3 3; stroke: var(--faint); }
.crl .world .tile.crashed { fill: var(--crashed); }
.crl .world .gone { opacity: .6; }
.crl .world .on-dark, .crl .world .on-dark.second { fill: #fff; }
.crl .world .busy-text { fill: var(--good); }
.crl .world .back { fill: var(--hair); }
.crl .world .load-bar { fill: var(--soft); }
.crl .world .over { fill: var(--outage); }
.crl .world .mark { fill: var(--warn); }
.crl .world .mark.hidden { fill: none; stroke: var(--warn); stroke-dasharray: 2 1.5; }
.crl .world .on-mark { fill: var(--card); font-size: 10px; font-weight: 600; }
.crl .world .on-mark.hidden { fill: var(--warn); }
.crl .world .crashed-mark { fill: #fff; }
.crl .world .crashed-mark.hidden { fill: none; stroke: #fff; }
.crl .world .on-crashed-mark { fill: var(--crashed); }
.crl .world .on-crashed-mark.hidden { fill: #fff; }
.crl .world .wire { fill: none; stroke: var(--soft); stroke-width: 1.4; }
.crl .world .wire.soft { stroke-dasharray: 8 6; }
.crl .world .wire.cache { stroke: var(--good); stroke-dasharray: 3 3; }
.crl .world .wire.hit { stroke: var(--warn); stroke-width: 2.4; }
.crl .world .head { fill: var(--soft); }
.crl .world .head.cache { fill: var(--good); }
.crl .world .head.hit { fill: var(--warn); }
.crl .world-key { display: flex; flex-wrap: wrap; gap: .1em 1.3em; font-size: .82rem; color: var(--soft);
  margin: .3em 0 0; max-width: none; }
.crl .world-key svg { width: 34px; height: 8px; margin-right: .4em; vertical-align: 1px; overflow: visible;
  display: inline; min-width: 0; }
</style>"""
)
"""To stand once on the page, within an element of class `crl`."""


def picture(simulator: Simulator, world: int, truth: bool = False, target: int | None = None) -> str:
    """The world as html. `target`: the slot that the last action was for."""
    known = facts(simulator, world, truth)
    rows = max(_rows(simulator, world))
    height = min(_MOST, max(_LEAST, _ROW * rows))
    places = layout(simulator.state, world, Box(2, 2, WIDTH - 4, height - 4))
    alarm = trouble(simulator, world)
    wires = "".join(_wire(wire, alarm) for wire in places.wires)
    groups = "".join(_group(box, g, alarm) for g, box in enumerate(places.frames))
    tiles = "".join(_tile(box, fact, fact.slot == target) for fact, box in zip(known, places.tiles, strict=True))
    label = escape(_label(simulator, world, known, alarm), quote=True)
    svg = f'<svg viewBox="0 0 {WIDTH:g} {height:g}" role="img" aria-label="{label}">{wires}{groups}{tiles}</svg>'
    return f'<div class="world" tabindex="0" role="region" aria-label="Services and their calls">{svg}</div>'


def key(truth: bool) -> str:
    """What the lines, letters and bars mean."""
    lines = "".join(
        f'<span><svg viewBox="0 0 34 8" aria-hidden="true"><path class="wire {kind}" d="M0 4H34"/></svg>'
        f"{kind} call</span>"
        for kind in ("hard", "soft", "cache")
    )
    hidden = "<span>dashed letters: hidden from agents</span>" if truth else ""
    return (
        f'<p class="world-key world">{lines}<span>stripe and upper bar: health</span><span>lower bar: utilisation'
        f"</span><span>! alarm</span><span>P public</span><span>V2: two vulnerabilities</span>{hidden}</p>"
    )


def _rows(simulator: Simulator, world: int) -> list[int]:
    """Resources in every column, as the layout has them."""
    places: Layout = layout(simulator.state, world, Box(0, 0, WIDTH, 1000))
    return list(Counter(round(box.x) for box in places.tiles).values())


def _label(simulator: Simulator, world: int, known: Sequence[Fact], alarm: Trouble | None) -> str:
    counts = Counter(fact.tone if fact.tone in ("crashed", "stopped", "deleted") else "running" for fact in known)
    text = f"{len(known)} resources: " + ", ".join(f"{n} {state}" for state, n in counts.items())
    if alarm is not None:
        first = int(simulator.state.groups["first"][world, alarm.root])
        text += f"; a cascade runs from {names_of(simulator, world)[first]}"
    return text


def _wire(wire: Wire, alarm: Trouble | None) -> str:
    css = wire.kind + (" hit" if alarm is not None and wire.target in alarm.hit else "")
    (ax, ay), (bx, by), (cx, cy), (dx, dy) = wire.points
    curve = f"M{ax:.1f} {ay:.1f}C{bx:.1f} {by:.1f} {cx:.1f} {cy:.1f} {dx:.1f} {dy:.1f}"
    head = f"M{dx:.1f} {dy:.1f}l-7 -3.5v7z"
    return f'<path class="wire {css}" d="{curve}"/><path class="head {css}" d="{head}"/>'


def _group(box: Box, g: int, alarm: Trouble | None) -> str:
    hit = " hit" if alarm is not None and g in alarm.hit | {alarm.root} else ""
    return f"<rect class='group{hit}' {_place(box)} rx='4'/>"


def _tile(box: Box, fact: Fact, target: bool) -> str:
    crashed, gone = fact.tone == "crashed", fact.tone == "deleted"
    css = " ".join(["tile", fact.tone] + ["busy"] * fact.busy + ["target"] * target)
    ink = ' class="on-dark"' if crashed else ""
    tall = box.height >= 28
    x, right = box.x + 11, box.right - 6
    top = box.middle - 4 if tall else box.middle + 4  # baseline of the first line
    marks, edge = _marks(fact.marks, right, top, crashed)
    stripe = f'<rect {_place(Box(box.x, box.y, 5, box.height))} style="fill:var(--{fact.tone})"/>'
    words = f"{fact.kind} {fact.size}".strip()
    state = fact.status if fact.status != "running" else "idle" if fact.idle else ""
    bars = min(56.0, 0.28 * box.width) if not gone else 0.0
    parts = [f"<rect class='{css}' {_place(box)} rx='3'/>", stripe, marks]
    if tall:
        name = _cut(f"r{fact.slot}  {fact.name}", 12, edge - x - 4)
        second = _cut(f"{state}, {words}" if state else words, 11, right - bars - x - 6)
        style = "on-dark second" if crashed else "busy-text second" if fact.busy else "second"
        parts.append(f'<text x="{x:.1f}" y="{top:.1f}"{ink}>{escape(name)}</text>')
        parts.append(f'<text class="{style}" x="{x:.1f}" y="{top + 15:.1f}">{escape(second)}</text>')
        place = Box(right - bars, top + 7, bars, 3)
    else:
        bars = min(bars, 34.0)
        name = _cut(f"r{fact.slot} {fact.name}" + (f", {state}" if state else ""), 12, edge - bars - x - 8)
        parts.append(f'<text x="{x:.1f}" y="{top:.1f}"{ink}>{escape(name)}</text>')
        place = Box(edge - bars - 4, box.middle - 4, bars, 3)
    if not gone:
        colour = "#fff" if crashed else f"var(--{fact.tone})"
        parts.append(_bar(place, fact.health, f'style="fill:{colour}"'))
        if fact.utilisation is not None:
            low = Box(place.x, place.y + 5, place.width, place.height)
            look = "over" if fact.utilisation > 1 else "load-bar"
            parts.append(_bar(low, fact.utilisation, f'class="{look}"'))
    idle = ", idle" if fact.idle else ""
    hint = f"r{fact.slot} {fact.name}: {words}, {fact.status}{idle}, health {fact.health:.2f}"
    hint += f", utilisation {fact.utilisation:.2f}" if fact.utilisation is not None else ""
    hint += "".join(f"; {mark.title}" for mark in fact.marks)
    return f"<g{' class=gone' if gone else ''}><title>{escape(hint)}</title>{''.join(parts)}</g>"


def _marks(marks: Sequence[Mark], right: float, baseline: float, crashed: bool) -> tuple[str, float]:
    """Letters in boxes from the right, and where they begin."""
    out = []
    on = "crashed-mark" if crashed else "mark"
    for mark in marks[::-1]:
        width = 10 * 0.6 * len(mark.text) + 6
        hidden = " hidden" if mark.hidden else ""
        box = Box(right - width, baseline - 11, width, 14)
        out.append(
            f"<rect class='{on}{hidden}' {_place(box)} rx='2'/><text class='on-mark on-{on}{hidden}' "
            f"x='{box.x + width / 2:.1f}' y='{baseline:.1f}' text-anchor='middle'>{escape(mark.text)}</text>"
        )
        right -= width + 3
    return "".join(out), right


def _bar(box: Box, share: float, look: str) -> str:
    width = box.width * min(1.0, max(0.0, share))
    return f"<rect class='back' {_place(box)}/><rect {look} {_place(Box(box.x, box.y, width, box.height))}/>"


def _place(box: Box) -> str:
    return f"x='{box.x:.1f}' y='{box.y:.1f}' width='{box.width:.1f}' height='{box.height:.1f}'"


def _cut(text: str, size: float, width: float) -> str:
    most = int(width / (size * _LETTER))
    return text if len(text) <= most else text[: max(0, most - 1)] + "…" if most > 1 else ""
