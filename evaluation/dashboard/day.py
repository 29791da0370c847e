"""The day of a playthrough as strips: traffic, dollars, actions, and the tick that is shown."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cloudrl.measurements import TICK_HOURS
from cloudrl.reward.bill import BILL_PARTS
from evaluation.dashboard.playthrough import Decision, Playthrough
from evaluation.report.plot import Plot, labelled_ticks

_BIN = 6  # ticks of a bar of dollars: half an hour


def day(play: Playthrough) -> str:
    """Traffic, dollars per half hour and actions over the day, with the tick that is shown."""
    done, ticks = play.decisions, play.ticks
    load = np.array([d.load for d in done])
    served = load * np.array([d.served for d in done])
    dollars = np.array([d.dollars for d in done]).reshape(-1, len(BILL_PARTS))
    strips = (
        ("Traffic, and what of it was served in time", _traffic(ticks, play.tick, load, served, done)),
        ("Dollars per half hour", _money(ticks, play.tick, dollars)),
        ("Actions; high and green: by hand, short and red: rejected", _actions(play)),
    )
    plots = "".join(f'<div class="strip"><h4>{title}</h4>{plot}</div>' for title, plot in strips)
    return f'<div class="crl day">{plots}</div>'


def _hours(ticks: int) -> list[tuple[float, str]]:
    hours = ticks * TICK_HOURS
    step = 6 if hours > 12 else 2
    return [(h / TICK_HOURS, f"{h} h") for h in range(0, int(hours) + 1, step)]


def _plot(ticks: int, most: float, label: str, height: int, lines: int = 2) -> Plot:
    return Plot(
        (0, ticks), (0, most), label, height=height, x_ticks=_hours(ticks), y_ticks=labelled_ticks(0, most, lines)
    )  # fmt: skip


def _now(plot: Plot, tick: int, most: float) -> str:
    plot.marks([float(tick)], 0, most, "now")
    return plot.html()


def _traffic(ticks: int, tick: int, load: np.ndarray, served: np.ndarray, done: Sequence[Decision]) -> str:
    most = max(1.5, float(np.ceil(2 * load.max()) / 2)) if len(load) else 1.5
    plot = _plot(ticks, most, f"Traffic of {len(load)} ticks", 70)
    if len(load):
        cascade = np.concatenate([[0], [int(d.cascade) for d in done], [0]])
        edges = np.flatnonzero(np.diff(cascade))
        plot.spans(edges[::2], edges[1::2], "cascade")
        missing = np.flatnonzero(served < 0.999 * load)
        plot.bars(missing, 1, served[missing], load[missing], "lost")
        when = np.arange(len(load)) + 0.5
        plot.line(when, load, "load")
        plot.line(when, served, "main")
        plot.marks(np.flatnonzero([d.crashes > 0 for d in done]) + 0.5, 0, 0.12 * most, "hit")
    return _now(plot, tick, most)


def _money(ticks: int, tick: int, dollars: np.ndarray) -> str:
    starts = np.arange(0, len(dollars), _BIN)
    heights = np.add.reduceat(dollars, starts, axis=0) if len(dollars) else np.zeros((0, len(BILL_PARTS)))
    totals = heights.sum(axis=1)
    # a single half hour of outage may cost more than the rest of the day
    most = min(float(totals.max()), 4.0 * float(np.percentile(totals, 90))) if len(totals) else 0.0
    most = most or 1.0
    plot = _plot(ticks, most, "Dollars by part", 70)
    base = np.zeros(len(starts))
    for k, part in enumerate(BILL_PARTS):
        plot.bars(starts + 0.4, _BIN - 0.8, base, base + heights[:, k], part)
        base = base + heights[:, k]
    return _now(plot, tick, most)


def _actions(play: Playthrough) -> str:
    plot = Plot((0, play.ticks), (0, 1), f"{play.played} decisions", height=26, x_ticks=_hours(play.ticks))
    asked = [(t + 0.5, d) for t, d in enumerate(play.decisions) if d.action != play.sim.noop]
    plot.marks([t for t, d in asked if d.verdict == "admissible" and not d.by_hand], 0, 0.7, "act")
    plot.marks([t for t, d in asked if d.verdict == "admissible" and d.by_hand], 0, 1.0, "hand")
    plot.marks([t for t, d in asked if d.verdict != "admissible"], 0, 0.4, "bad")
    return _now(plot, play.tick, 1.0)
