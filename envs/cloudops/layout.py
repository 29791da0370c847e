"""Where the resources of a world lie in a picture: columns by dependency depth, the entry on the left.

Replicas of a service stand below each other in a frame, calls run from frame to frame. Only geometry is decided
here; who draws (Pillow in render_rgb.py, SVG on the dashboard) brings the colours. Lengths are in pixels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from cloudrl.types import DEPENDENCY_NAMES, State

_TALLEST, _WIDEST = 52.0, 200.0  # of a tile
_INSIDE, _BETWEEN = 3.0, 12.0  # gaps between replicas, between services
_FRAME = 4.0  # of a frame around its replicas
_GAP, _WIDEST_GAP = 44.0, 150.0  # between columns
_PORTS = 9.0  # between two calls that leave or reach the same frame
_SWEEPS = 4


class Box(NamedTuple):
    """A rectangle."""

    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.x + self.width

    @property
    def bottom(self) -> float:
        return self.y + self.height

    @property
    def middle(self) -> float:
        return self.y + self.height / 2

    def grown(self, by: float) -> Box:
        return Box(self.x - by, self.y - by, self.width + 2 * by, self.height + 2 * by)


Point = tuple[float, float]


@dataclass(frozen=True)
class Wire:
    """A call from one service to another: a cubic Bezier curve."""

    source: int  # group
    target: int  # group
    kind: str  # one of DEPENDENCY_NAMES
    points: tuple[Point, Point, Point, Point]

    def along(self, n: int) -> list[Point]:
        """n + 1 points on the curve."""
        (ax, ay), (bx, by), (cx, cy), (dx, dy) = self.points
        out = []
        for k in range(n + 1):
            t = k / n
            a, b, c, d = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3
            out.append((a * ax + b * bx + c * cx + d * dx, a * ay + b * by + c * cy + d * dy))
        return out


@dataclass(frozen=True)
class Layout:
    """Places of one world."""

    tiles: list[Box]  # of every resource, by slot
    frames: list[Box]  # of every service, by group
    wires: list[Wire]


@dataclass(frozen=True)
class _Service:
    first: int
    count: int
    idle: bool
    targets: list[tuple[int, str]]


def layout(state: State, world: int, area: Box) -> Layout:
    """The places of `world` within `area`."""
    services = _services(state, world)
    columns = _columns(services)
    rows = [[services[g].count for g in column] for column in columns]
    gaps = [sum(n - 1 for n in column) * _INSIDE + (len(column) - 1) * _BETWEEN + 2 * _FRAME for column in rows]
    shrunk = min(1.0, 0.5 * area.height / max(gaps))  # gaps leave half the height to the tiles
    inside, between, frame = _INSIDE * shrunk, _BETWEEN * shrunk, _FRAME * shrunk
    room = [(area.height - gap * shrunk) / sum(column) for gap, column in zip(gaps, rows, strict=True)]
    tile_height = min(_TALLEST, *room)
    tile_width = min(_WIDEST, (area.width - 2 * _FRAME - _GAP * (len(columns) - 1)) / len(columns))
    spare = area.width - 2 * _FRAME - tile_width * len(columns)
    gap = min(_WIDEST_GAP, spare / max(1, len(columns) - 1))
    left = area.x + _FRAME + (spare - gap * (len(columns) - 1)) / 2

    tiles: dict[int, Box] = {}
    frames: dict[int, Box] = {}
    for k, column in enumerate(columns):
        x = left + k * (tile_width + gap)
        y = area.middle - (sum(rows[k]) * tile_height + gaps[k] * shrunk) / 2 + frame
        for g in column:
            service, top = services[g], y
            for slot in range(service.first, service.first + service.count):
                tiles[slot] = Box(x, y, tile_width, tile_height)
                y += tile_height + inside
            frames[g] = Box(x, top, tile_width, y - inside - top).grown(frame)
            y += between - inside
    order = [tiles[slot] for slot in sorted(tiles)]
    places = [frames[g] for g in sorted(frames)]
    return Layout(order, places, _wires(services, places))


def _services(state: State, world: int) -> list[_Service]:
    w: Any = state.worlds[world]
    out = []
    for group in state.groups[world, : int(w["n_groups"])]:
        start, count = int(group["edge_first"]), int(group["edge_count"])
        targets = [
            (int(e["target"]), DEPENDENCY_NAMES[e["kind"]]) for e in state.edges[world, start : start + count]
        ]
        out.append(_Service(int(group["first"]), int(group["count"]), bool(group["idle"]), targets))
    return out


def _columns(services: list[_Service]) -> list[list[int]]:
    """Groups by depth. Callers come before what they call, so one pass finds the longest way to each."""
    depth = [0] * len(services)
    callers: list[list[int]] = [[] for _ in services]
    for g, service in enumerate(services):
        for target, _ in service.targets:
            depth[target] = max(depth[target], depth[g] + 1)
            callers[target].append(g)
    columns: list[list[int]] = [[] for _ in range(max(depth) + 1)]
    for g, service in enumerate(services):
        if not service.idle:
            columns[depth[g]].append(g)
    columns = [column for column in columns if column] or [[]]
    _untangle(services, columns, callers)
    for g, service in enumerate(services):  # what serves nobody stands where there is room
        if service.idle:
            min(columns, key=lambda column: sum(services[k].count for k in column)).append(g)
    return columns


def _untangle(services: list[_Service], columns: list[list[int]], callers: list[list[int]]) -> None:
    """Order every column by the mean place of its neighbours, forth and back: fewer calls cross."""
    place: dict[int, float] = {}

    def note(column: list[int]) -> None:
        rows = [services[g].count for g in column]
        total, below = sum(rows), 0.0
        for g, n in zip(column, rows, strict=True):
            place[g] = (below + n / 2) / total
            below += n

    def mean(g: int, neighbours: list[int]) -> float:
        known = [place[k] for k in neighbours if k in place]
        return sum(known) / len(known) if known else place[g]

    for column in columns:
        note(column)
    for sweep in range(_SWEEPS):
        forth = sweep % 2 == 0
        for column in columns if forth else columns[::-1]:
            called = {g: callers[g] if forth else [t for t, _ in services[g].targets] for g in column}
            keys = {g: mean(g, called[g]) for g in column}
            column.sort(key=lambda g: (keys[g], g))
            note(column)


def _wires(services: list[_Service], frames: list[Box]) -> list[Wire]:
    calls = [(g, target, kind) for g, service in enumerate(services) for target, kind in service.targets]
    leave = _ports(frames, [(g, target) for g, target, _ in calls])
    reach = _ports(frames, [(target, g) for g, target, _ in calls])
    out = []
    for g, target, kind in calls:
        x, y = frames[g].right, frames[g].middle + leave[g, target]
        end_x, end_y = frames[target].x, frames[target].middle + reach[target, g]
        bend = max(20.0, 0.5 * min(end_x - x, 2.5 * _GAP))
        out.append(Wire(g, target, kind, ((x, y), (x + bend, y), (end_x - bend, end_y), (end_x, end_y))))
    return out


def _ports(frames: list[Box], pairs: list[tuple[int, int]]) -> dict[tuple[int, int], float]:
    """How far from the middle of its frame a call begins or ends: those to higher places higher."""
    out = {}
    for g in {mine for mine, _ in pairs}:
        others = sorted((other for mine, other in pairs if mine == g), key=lambda k: frames[k].middle)
        step = min(_PORTS, (frames[g].height - 8.0) / max(1, len(others) - 1))
        for k, other in enumerate(others):
            out[g, other] = (k - (len(others) - 1) / 2) * step
    return out
