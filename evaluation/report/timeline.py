"""An episode as strips over the day: traffic and what was served, dollars by part, actions and their worth."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from cloudrl.actions import OP_NAMES
from cloudrl.reward.bill import BILL_PARTS
from evaluation.report.episodes import Decision, Episode
from evaluation.report.plot import Plot, labelled_ticks
from evaluation.report.words import money, number

TICKS_PER_HOUR = 12
BIN = 6  # ticks of a bar of dollars: half an hour


def timeline(name: str, episode: Episode, measured: str) -> str:
    """One episode of an agent; `measured` is text such as "score 61.2"."""
    strips = [_traffic(name, episode), _money(name, episode), _actions(name, episode)]
    head = f"The {episode.which} world, seed {episode.seed}: {measured}, bill {money(episode.bill)}"
    return f"<div><h3>{escape(head)}</h3>{''.join(strips)}{_worths(episode)}</div>"


def key() -> str:
    """What lines and colours of a timeline mean."""
    parts = "".join(f'<li><i class="{p}"></i>{p}</li>' for p in BILL_PARTS)
    return (
        '<ul class="legend"><li><b class="load"></b>traffic that came</li><li><b></b>traffic served in time</li>'
        f'<li><i class="area lost" style="background:var(--outage);opacity:.35"></i>lost or late</li>{parts}</ul>'
    )


def _hours(ticks: int) -> list[tuple[float, str]]:
    hours = ticks / TICKS_PER_HOUR
    step = 6 if hours > 12 else 2
    return [(h * TICKS_PER_HOUR, f"{h} h") for h in range(0, int(hours) + 1, step)]


def _strip(title: str, plot: str) -> str:
    return f'<div class="strip"><h4>{title}</h4>{plot}</div>'


def _traffic(name: str, e: Episode) -> str:
    ticks = len(e.load)
    most = float(np.ceil(4 * e.load.max()) / 4)
    lost = 100 * (1 - float((e.served * e.load).sum() / max(e.load.sum(), 1e-12)))
    label = f"{name}, seed {e.seed}: {number(lost)} % of the traffic lost or late, {int(e.crashes.sum())} crashes"
    plot = Plot(
        (0, ticks), (0, most), label, height=92, x_ticks=_hours(ticks),
        y_ticks=labelled_ticks(0, most, 3),
    )  # fmt: skip
    when = np.arange(ticks) + 0.5
    edges = np.flatnonzero(np.diff(np.concatenate([[0], e.cascade.astype(int), [0]])))
    plot.spans(edges[::2], edges[1::2], "cascade")
    missing = np.flatnonzero(e.served < 0.999)
    plot.bars(missing, 1, (e.served * e.load)[missing], e.load[missing], "lost")
    plot.line(when, e.load, "load")
    plot.line(when, e.served * e.load, "main")
    plot.marks(np.flatnonzero(e.crashes > 0) + 0.5, 0, 0.08 * most, "hit")
    crashes = ", red strokes: crashes" if e.crashes.any() else ""
    running = ", shaded: a cascade runs" if e.cascade.any() else ""
    return _strip(f"Traffic, 1 = its mean{crashes}{running}", plot.html())


def _money(name: str, e: Episode) -> str:
    ticks = len(e.load)
    starts = np.arange(0, ticks, BIN)
    heights = np.stack([np.add.reduceat(e.dollars[part], starts) for part in BILL_PARTS])
    totals = heights.sum(axis=0)
    # A single half hour of outage may cost more than the rest of the day: bars are cut at four times a high one.
    most = min(float(totals.max()), 4.0 * float(np.percentile(totals, 90))) or 1.0
    label = f"{name}, seed {e.seed}: " + ", ".join(f"{p} ${e.dollars[p].sum():.2f}" for p in BILL_PARTS)
    plot = Plot(
        (0, ticks), (0, most), label, height=92, x_ticks=_hours(ticks),
        y_ticks=labelled_ticks(0, most, 3),
    )  # fmt: skip
    base = np.zeros(len(starts))
    for part, height in zip(BILL_PARTS, heights):
        plot.bars(starts + 0.4, BIN - 0.8, base, base + height, part)
        base = base + height
    cut = f", cut off at ${number(most, 0)}" if totals.max() > most else ""
    return _strip(f"Dollars per half hour{cut}", plot.html())


def _actions(name: str, e: Episode) -> str:
    if not e.decisions:
        return _strip("Actions", '<p class="small soft">None.</p>')
    ticks = len(e.load)
    ops = [op for op in OP_NAMES if any(d.op == op for d in e.decisions)]
    lanes = len(ops)
    label = f"{name}, seed {e.seed}: " + ", ".join(f"{sum(d.op == op for d in e.decisions)} {op}" for op in ops)
    plot = Plot(
        (0, ticks), (0, lanes), label, height=19 * lanes, x_ticks=_hours(ticks),
    )  # fmt: skip
    for k, op in enumerate(ops):
        low = lanes - 1 - k
        plot.level(low, "grid")
        mine = [d for d in e.decisions if d.op == op]
        for css, chosen in (
            ("act", [d for d in mine if d.dollars > 0]),
            ("bad", [d for d in mine if d.dollars <= 0]),
        ):
            top = low + (0.86 if css == "act" else 0.5)
            plot.marks(np.array([d.tick + 0.5 for d in chosen]), low + 0.14, top, css)
        plot.lane(low + 0.5, f"{op.replace('_', ' ').lower()} {len(mine)}")
    return _strip("Actions: tall strokes saved dollars, short ones lost some", plot.html())


def _worths(e: Episode) -> str:
    if not e.decisions:
        return ""
    ranked = sorted(e.decisions, key=lambda d: d.dollars)
    best = [d for d in ranked[::-1][:3] if d.dollars > 0]
    worst = [d for d in ranked[:3] if d.dollars < 0]
    disturbed = sum(d.unnecessary for d in e.decisions)
    items = [_items("Earned most", best), _items("Lost most", worst)]
    if disturbed:
        items.append(f"<li>Unnecessary disruptions: {disturbed}</li>")
    return f'<ul class="plainlist">{"".join(items)}</ul>'


def _items(title: str, decisions: Sequence[Decision]) -> str:
    if not decisions:
        return ""
    texts = [
        f"{escape(d.text.replace('_', ' '))} at {d.tick // TICKS_PER_HOUR}:{d.tick % TICKS_PER_HOUR * 5:02d} "
        f"({money(d.dollars, plus=True)})"
        for d in decisions
    ]
    return f"<li>{title}: {'; '.join(texts)}</li>"
