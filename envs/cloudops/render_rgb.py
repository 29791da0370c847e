"""One world as a picture: its services and their calls, gauges above, the day so far below. 960 x 600 pixels.

Drawn with Pillow and the font that it brings, so that videos look the same everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from cloudrl.actions import DISRUPTIVE_OPS, N_OPS
from cloudrl.measurements import TICK_HOURS
from cloudrl.reward.bill import BILL_PARTS, bill, served_share
from cloudrl.simulator import Simulator
from cloudrl.types import DEPENDENCY_NAMES, VETOED
from envs.cloudops.history import History
from envs.cloudops.layout import Box, Layout, Point, layout
from envs.cloudops.render_ansi import LastAction, last_action, names_of, shorten
from envs.cloudops.scene import PARTS, TONES, Fact, Mark, Trouble, facts, trouble

WIDTH, HEIGHT = 960, 600
_GRAPH = Box(12, 66, WIDTH - 24, 372)
_DAY = Box(70, 476, WIDTH - 84, 106)
_PAGE, _CARD, _INK, _SOFT, _FAINT, _HAIR = "#fbfbf9", "#ffffff", "#1d242c", "#56616d", "#c3cad2", "#e3e6ea"
_WARN, _ACCENT, _BUSY = "#c2410c", "#0b5cad", "#0f766e"
_WIRES = {"hard": "#6b7680", "soft": "#6b7680", "cache": "#0f766e"}
_DASHES = {"hard": 0.0, "soft": 9.0, "cache": 3.0}  # length of a stroke, 0 = no gaps
_BIN = 6  # ticks of a bar of dollars
_FINE = 2  # calls are drawn this many times larger and then reduced, which smooths them


def render_rgb(
    simulator: Simulator,
    world: int = 0,
    *,
    history: History | None = None,
    last: LastAction | None = None,
    truth: bool = False,
) -> np.ndarray:
    """World `world` as (600, 960, 3) uint8.

    `history`: what the lower part shows, empty by default. `last` and `truth` as in `render_world`.
    """
    known = facts(simulator, world, truth)
    places = layout(simulator.state, world, _GRAPH)
    alarm = trouble(simulator, world)
    picture = _calls(places, alarm)
    draw = ImageDraw.Draw(picture)
    _gauges(draw, simulator, world, last, alarm)
    for g, frame in enumerate(places.frames):
        _frame(draw, frame, g, alarm)
    for fact, box in zip(known, places.tiles, strict=True):
        _tile(draw, box, fact)
    _key(draw, truth)
    _day(draw, simulator, history or History())
    return np.asarray(picture)


# ---------------------------------------------------------------- text
@cache
def _font(size: int) -> Any:
    return ImageFont.load_default(size)


@lru_cache(4096)
def _written(text: str, size: int) -> tuple[Image.Image, int, int]:
    """The text as a stencil, and how far it lies from its upper left corner. Most texts come back every frame."""
    font = _font(size)
    left, top, right, bottom = font.getbbox(text)
    stencil = Image.new("L", (max(1, int(right - left)), max(1, int(bottom - top))))
    ImageDraw.Draw(stencil).text((-left, -top), text, 255, font)
    return stencil, int(left), int(top)


@lru_cache(4096)
def _width(text: str, size: int) -> float:
    return float(_font(size).getlength(text))


def _text(
    draw: ImageDraw.ImageDraw, at: Point, text: str, size: int = 12, fill: str = _INK, align: float = 0.0
) -> float:
    """Write, and return the width. `align`: the share of the text that stands left of `at`."""
    text = text.replace(" ", "  ")  # the font's spaces are narrow
    width = _width(text, size)
    stencil, left, top = _written(text, size)
    draw.bitmap((round(at[0] - align * width) + left, round(at[1]) + top), stencil, fill)
    return width


@lru_cache(4096)
def _fit(text: str, size: int, width: float) -> str:
    """The text, cut to a width."""
    if _width(text.replace(" ", "  "), size) <= width:
        return text
    while text and _width(f"{text}…".replace(" ", "  "), size) > width:
        text = text[:-1]
    return text + "…" if text else ""


# ---------------------------------------------------------------- above
def _gauges(
    draw: ImageDraw.ImageDraw, simulator: Simulator, world: int, last: LastAction | None, alarm: Trouble | None
) -> None:
    w: Any = simulator.state.worlds[world]
    tick = int(w["tick"])
    end = "" if tick < simulator.ticks else ", won" if simulator.won()[world] else ", not won"
    scenario = simulator.scenario
    _text(draw, (14, 10), f"{scenario.name} v{scenario.version}, world {int(w['seed'])}", 15)
    _text(draw, (WIDTH - 14, 10), f"{_clock(tick)} of {_clock(simulator.ticks)} h{end}", 15, align=1.0)
    spent = simulator.state.worlds[world : world + 1]
    so_far = float(served_share(spent)[0])
    x = _gauge(draw, 14, "served now", float(w["served"]), _percent(float(w["served"])))
    x = _gauge(draw, x, "so far", so_far, _percent(so_far))
    budget = float(simulator.params[0]["win_bill"]) * float(w["base_cost"]) * TICK_HOURS * simulator.ticks
    cost = float(bill(spent)[0])
    x = _gauge(draw, x, "bill", cost / budget, f"${cost:.2f} of ${budget:.2f}", cost > budget)
    if alarm is not None:
        root = shorten(names_of(simulator, world)[int(simulator.state.groups["first"][world, alarm.root])])
        chip = f"CASCADE from {root}, {_percent(alarm.blast)} of traffic hit"
        draw.rectangle((x, 34, x + _width(chip.replace(" ", "  "), 12) + 12, 52), fill=_WARN)
        x += 18 + _text(draw, (x + 6, 37), chip, 12, "#ffffff")
    said = last_action(simulator, world, last).removeprefix("last action: ")
    bad = int(w["verdict"]) != 0 and tick > 0
    _text(draw, (WIDTH - 14, 37), _fit(said, 12, WIDTH - 28 - x), 12, _WARN if bad else _INK, 1.0)


def _gauge(draw: ImageDraw.ImageDraw, x: float, name: str, share: float, value: str, bad: bool = False) -> float:
    """A bar between its name and its value; returns where the next one begins."""
    x += _text(draw, (x, 37), name, 12, _SOFT) + 6
    bad = bad or (not value.startswith("$") and share < 0.98)
    draw.rectangle((x, 38, x + 80, 48), fill=_HAIR)
    draw.rectangle((x, 38, x + 80 * min(1.0, max(0.0, share)), 48), fill=_WARN if bad else _ACCENT)
    x += 86
    return x + _text(draw, (x, 37), value, 12, _WARN if bad else _INK) + 22


def _clock(ticks: int) -> str:
    minutes = round(ticks * TICK_HOURS * 60)
    return f"{minutes // 60}:{minutes % 60:02d}"


def _percent(share: float) -> str:
    """99.97 stays below 100."""
    return f"{int(1000 * share) / 10 if share < 1 else 100:g} %"


# ---------------------------------------------------------------- services and calls
def _calls(places: Layout, alarm: Trouble | None) -> Image.Image:
    """The page with all calls on it."""
    fine = Image.new("RGB", (WIDTH * _FINE, HEIGHT * _FINE), _PAGE)
    draw = ImageDraw.Draw(fine)
    for wire in places.wires:
        hit = alarm is not None and wire.target in alarm.hit
        colour = _WARN if hit else _WIRES[wire.kind]
        points = [(x * _FINE, y * _FINE) for x, y in wire.along(24)]
        for part in _dashed(points, _DASHES[wire.kind] * _FINE):
            draw.line(part, colour, 5 if hit else 3, "curve")
        (_, _), (x, y) = points[0], points[-1]
        size = 7 * _FINE
        draw.polygon([(x, y), (x - size, y - size * 0.5), (x - size, y + size * 0.5)], colour)
    return fine.reduce(_FINE)


def _dashed(points: Sequence[Point], dash: float) -> list[list[Point]]:
    """A line in strokes of a length, with gaps as long."""
    if not dash:
        return [list(points)]
    corners = np.array(points)
    way = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(corners, axis=0).T))])
    stops = np.arange(0.0, way[-1], dash)
    at = np.column_stack([np.interp(stops, way, corners[:, k]) for k in (0, 1)])
    return [[tuple(at[k]), tuple(at[k + 1])] for k in range(0, len(at) - 1, 2)]


def _frame(draw: ImageDraw.ImageDraw, box: Box, g: int, alarm: Trouble | None) -> None:
    hit = alarm is not None and g in alarm.hit | {alarm.root}
    draw.rectangle(_corners(box), fill=_PAGE, outline=_WARN if hit else _FAINT, width=2 if hit else 1)


def _tile(draw: ImageDraw.ImageDraw, box: Box, fact: Fact) -> None:
    colour = TONES[fact.tone]
    gone = fact.tone == "deleted"
    draw.rectangle(
        _corners(box), fill=_PAGE if gone else _CARD, outline=_BUSY if fact.busy else _HAIR,
        width=2 if fact.busy else 1,
    )  # fmt: skip
    full = fact.tone == "crashed"
    draw.rectangle((box.x, box.y, box.x + (box.width if full else 5), box.bottom - 1), fill=colour)
    ink, soft = ("#ffffff", "#ffffff") if full else (_FAINT if gone else _INK, _SOFT)
    tall = box.height >= 26
    size = 12 if box.height >= 15 else 10
    x, right = box.x + 9, box.right - 5
    top = box.y + (
        box.height / 2 - min(15.0, box.height / 2 - 1) if tall else max(0.0, (box.height - size) / 2 - 1)
    )
    edge = _marks(draw, right, top, fact.marks, full)
    if tall:
        _text(draw, (x, top), _fit(f"r{fact.slot} {fact.name}", size, edge - x - 4), size, ink)
        bars = min(56.0, box.width * 0.3)
        words = f"{fact.kind} {fact.size}".strip()
        state = fact.status if fact.status != "running" else "idle" if fact.idle else ""
        line = f"{state}, {words}" if state else words
        second = top + (16 if box.height > 32 else 14)
        _text(
            draw, (x, second), _fit(line, 11, right - bars - x - 6), 11,
            _BUSY if fact.busy and not full else soft,
        )  # fmt: skip
        if not gone:
            _bar(
                draw,
                Box(right - bars, top + 16 + (box.height > 32) * 2, bars, 3),
                fact.health,
                "#ffffff" if full else colour,
            )
            _load(draw, Box(right - bars, top + 21 + (box.height > 32) * 3, bars, 3), fact)
    else:
        state = "" if fact.status == "running" else f" {fact.status}"
        wide = 30.0 if box.width > 150 else 22.0 if box.width > 100 else 0.0
        _text(draw, (x, top), _fit(f"r{fact.slot} {fact.name}{state}", size, edge - x - wide - 4), size, ink)
        if wide and not gone and edge - wide > x + 40:
            middle = box.middle
            _bar(draw, Box(edge - wide, middle - 4, wide - 4, 3), fact.health, "#ffffff" if full else colour)
            _load(draw, Box(edge - wide, middle + 1, wide - 4, 3), fact)


def _marks(draw: ImageDraw.ImageDraw, right: float, top: float, marks: Sequence[Mark], full: bool) -> float:
    """Letters in boxes, from the right; returns where they begin. Hidden ones are hollow."""
    for mark in marks[::-1]:
        width = _width(mark.text, 10) + 6
        box = (right - width, top, right, top + 13)
        if mark.hidden:
            draw.rectangle(box, outline="#ffffff" if full else _WARN)
            _text(draw, (right - width + 3, top + 1), mark.text, 10, "#ffffff" if full else _WARN)
        else:
            draw.rectangle(box, fill="#ffffff" if full else _WARN)
            _text(draw, (right - width + 3, top + 1), mark.text, 10, _WARN if full else "#ffffff")
        right -= width + 3
    return right


def _bar(draw: ImageDraw.ImageDraw, box: Box, share: float, colour: str) -> None:
    draw.rectangle(_corners(box), fill=_HAIR)
    if share > 0:
        draw.rectangle(_corners(Box(box.x, box.y, box.width * min(1.0, share), box.height)), fill=colour)


def _load(draw: ImageDraw.ImageDraw, box: Box, fact: Fact) -> None:
    """Utilisation; a stroke at the end for more than there is capacity."""
    if fact.utilisation is not None:
        over = fact.utilisation > 1.0
        _bar(draw, box, fact.utilisation, _WARN if over else _SOFT)


def _corners(box: Box) -> tuple[float, float, float, float]:
    return box.x, box.y, box.right, box.bottom


def _key(draw: ImageDraw.ImageDraw, truth: bool) -> None:
    """What lines, letters and bars mean."""
    y, x = 452, 14.0
    for kind in DEPENDENCY_NAMES:
        for part in _dashed([(x, y), (x + 30, y)], _DASHES[kind]):
            draw.line(part, _WIRES[kind], 2)
        x += 36 + _text(draw, (x + 36, y - 6), f"{kind} call", 11, _SOFT) + 14
    words = [
        "stripe and upper bar: health",
        "lower bar: utilisation",
        "! alarm",
        "P public",
        "V2 two vulnerabilities",
    ]
    if truth:
        words.append("hollow: hidden from agents")
    _text(draw, (x + 4, y - 6), "  ".join(words), 11, _SOFT)


# ---------------------------------------------------------------- below
def _day(draw: ImageDraw.ImageDraw, simulator: Simulator, history: History) -> None:
    ticks, played = simulator.ticks, len(history.load)
    box = _DAY
    traffic, money, ops = Box(box.x, box.y, box.width, 44), Box(box.x, box.y + 50, box.width, 34), box.y + 90
    step = box.width / ticks
    for hour in range(0, int(ticks * TICK_HOURS) + 1, 6 if ticks * TICK_HOURS > 12 else 2):
        x = box.x + hour / TICK_HOURS * step
        draw.line((x, box.y, x, ops + 10), _HAIR)
        _text(draw, (x, ops + 13), f"{hour} h", 10, _SOFT, 1.0 if x > WIDTH - 40 else 0.5)
    for text, y in (("served", traffic.middle), ("dollars", money.middle), ("actions", ops + 5)):
        _text(draw, (box.x - 8, y - 6), text, 11, _SOFT, 1.0)
    for area in (traffic, money):
        draw.line((area.x, area.bottom, area.right, area.bottom), _FAINT)
    if played:
        _traffic(draw, traffic, step, history)
        _money(draw, money, step, history)
    for tick, action, verdict in history.actions:
        x = box.x + (tick + 0.5) * step
        disruptive = DISRUPTIVE_OPS >> (action % N_OPS) & 1 == 1
        if verdict:
            colour = _WARN if verdict == VETOED else _SOFT
            draw.line([(x - 3, ops + 2), (x + 3, ops + 8)], colour, 2)
            draw.line([(x - 3, ops + 8), (x + 3, ops + 2)], colour, 2)
        else:
            draw.line((x, ops if disruptive else ops + 4, x, ops + 10), _ACCENT, 2)
    now = box.x + played * step
    draw.line((now, box.y - 3, now, ops + 10), _INK)


def _traffic(draw: ImageDraw.ImageDraw, area: Box, step: float, history: History) -> None:
    """The traffic that came, and over it what was served in time: the rest shows."""
    load, served = np.array(history.load), np.array(history.served)
    scale = area.height / max(1.5, float(load.max()))
    x = area.x + step * np.repeat(np.arange(len(load) + 1), 2)[1:-1]
    for height, colour in ((load, _WARN), (load * served, "#9fbbe0")):
        top = area.bottom - 1 - np.repeat(height, 2) * scale
        outline = [(x[0], area.bottom - 1), *zip(x, top, strict=True), (x[-1], area.bottom - 1)]
        draw.polygon(outline, colour)


def _money(draw: ImageDraw.ImageDraw, area: Box, step: float, history: History) -> None:
    """Dollars per half hour, by part of the bill; bars much higher than most are cut off."""
    dollars = np.array(history.dollars)
    starts = np.arange(0, len(dollars), _BIN)
    heights = np.add.reduceat(dollars, starts, axis=0)
    totals = heights.sum(axis=1)
    scale = area.height / (min(float(totals.max()), 4.0 * float(np.percentile(totals, 90))) or 1.0)
    for k, start in enumerate(starts.tolist()):
        left, right = area.x + start * step, area.x + min(start + _BIN, len(dollars)) * step - 1.5
        low = area.bottom - 1
        for part, amount in zip(BILL_PARTS, heights[k].tolist(), strict=True):
            high = max(area.y, low - amount * scale)
            if low - high >= 0.5 and right > left:
                draw.rectangle((left, high, right, low), PARTS[part])
            low = high
