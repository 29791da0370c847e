"""The pictures of the report, each from the summary to HTML."""

from __future__ import annotations

from html import escape

import numpy as np

from cloudrl.actions import OP_NAMES
from cloudrl.reward.bill import BILL_PARTS
from evaluation.report.plot import Plot, labelled_ticks, stacked_bar
from evaluation.report.summary import Row, Summary
from evaluation.report.words import interval, measure_name, number
from evaluation.statistics import profile


def legend(parts: tuple[str, ...] = BILL_PARTS) -> str:
    return '<ul class="legend">' + "".join(f'<li><i class="{p}"></i>{p}</li>' for p in parts) + "</ul>"


# ---- profiles --------------------------------------------------------------------------------------------------


def profiles(summary: Summary) -> str:
    """One small panel per agent: share of worlds that reach a score, with its band, over all others in grey."""
    if not summary.values:
        return '<p class="soft">Doing nothing was not played, so nothing can be saved against it.</p>'
    low, high = _profile_range(summary)
    tau = np.linspace(low, high, 81)
    # A score of 100 is a quotient: it may be a rounding error below.
    found = {name: profile(values + 1e-9, tau) for name, values in summary.values.items()}
    ticks = labelled_ticks(low, high, 4)
    panels = []
    for row in summary.agents:
        if row.name not in found:
            continue
        mine = found[row.name]
        half = float(np.median(summary.values[row.name]))
        label = f"{row.name}: half of the worlds reach a {measure_name(summary)} of {number(half)}"
        plot = Plot(
            (low, high), (0, 1), label, height=104, x_ticks=ticks, y_ticks=[(0, "0"), (0.5, "50"), (1, "100")]
        )
        for name in found:
            if name != row.name:
                plot.line(*_thin(tau, found[name].share), "ref")
        plot.band(tau, mine.low, mine.high, "around")
        plot.line(tau, mine.share, "main")
        panels.append(
            f'<div class="panel"><h3><span class="n">{row.number}</span>{escape(row.name)}</h3>{plot.html()}</div>'
        )
    return f'<div class="panels">{"".join(panels)}</div>'


def _profile_range(summary: Summary) -> tuple[float, float]:
    if summary.measure == "score":
        return -100.0, 100.0
    everything = np.concatenate(list(summary.values.values()))
    low, high = np.percentile(everything, [5, 99])
    return (float(low), float(high)) if high > low else (float(low) - 1.0, float(high) + 1.0)


def _thin(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every fourth point: the grey lines are context."""
    return x[::4], y[::4]


# ---- bars ------------------------------------------------------------------------------------------------------


def bills(summary: Summary) -> str:
    """Mean bill of every agent by part, as lying bars."""
    rows = summary.agents
    totals = {row.name: sum(row.parts.values()) for row in rows}
    # One ruinous agent must not press the rest into slivers: the scale ends at three times the median bill.
    most = min(max(totals.values()), 3.0 * float(np.median(list(totals.values()))))
    out = []
    for row in rows:
        total = totals[row.name]
        shrink = min(1.0, most / total) if total > 0 else 1.0
        label = f"{row.name}: " + ", ".join(f"{part} ${row.parts[part]:.2f}" for part in BILL_PARTS)
        bar = stacked_bar([(part, row.parts[part] * shrink, part) for part in BILL_PARTS], most, label)
        cut = " (bar cut)" if shrink < 1.0 else ""
        out.append(
            f'<div class="name">{_numbered(row)}</div>{bar}<div class="value">${number(total, 2)}'
            f'<span class="soft small">{cut}</span></div>'
        )
    return f'<div class="bars">{"".join(out)}</div>{legend()}'


def cascades(summary: Summary) -> str:
    """Cascades per episode of every agent, as lying bars."""
    rows = [row for row in summary.agents if "cascades" in row.means]
    if not rows:
        return '<p class="soft">Nobody counted cascades.</p>'
    most = max(max(row.means["cascades"].mean for row in rows), 1e-9)
    out = []
    for row in rows:
        found, blast = row.means["cascades"], row.means.get("max_blast")
        middle, limits = interval(found, 2)
        reach = f", blast {100 * blast.mean:.0f} %" if blast is not None else ""
        label = f"{row.name}: {middle} cascades per episode [{limits}]{reach}"
        bar = stacked_bar([("cascades", found.mean, "outage")], most, label)
        out.append(
            f'<div class="name">{_numbered(row)}</div>{bar}'
            f'<div class="value">{middle}<span class="ci">{limits}{reach}</span></div>'
        )
    return f'<div class="bars">{"".join(out)}</div>'


def _numbered(row: Row) -> str:
    return f'<span class="n">{row.number}</span>{escape(row.name)}'


# ---- scatter ---------------------------------------------------------------------------------------------------


def reward_against_score(summary: Summary) -> str:
    """Mean reward of every agent against its mean score: training and benchmark must want the same."""
    rows = [row for row in summary.agents if row.reward is not None and row.name in summary.values]
    if len(rows) < 3:
        return '<p class="soft">Fewer than three agents: nothing to correlate.</p>'
    x = np.array([float(summary.values[row.name].mean()) for row in rows])
    y = np.array([row.reward.mean for row in rows if row.reward is not None])
    scale = max(float(np.median(np.abs(y))), 1e-9)
    bend = np.arcsinh(y / scale)  # linear near 0, logarithmic far off
    pad = 0.06 * (bend.max() - bend.min() or 1.0)
    x_low, x_high = _padded(x)
    plot = Plot(
        (x_low, x_high), (float(bend.min()) - pad, float(bend.max()) + pad),
        f"mean training reward against mean {measure_name(summary)} of {len(rows)} agents; rank correlation "
        f"{number(summary.rank_correlation, 2)}",
        height=340,
        x_ticks=labelled_ticks(x_low, x_high, 6),
        y_ticks=_bent_ticks(float(y.min()), float(y.max()), scale, 0.08 * float(bend.max() - bend.min())),
        x_title=f"mean {measure_name(summary)}", y_title="mean training reward of an episode, baseline ticks",
    )  # fmt: skip
    places = _apart((x - x_low) / (x_high - x_low), (bend - plot.y[0]) / (plot.y[1] - plot.y[0]))
    for k, row in enumerate(rows):
        where = plot.y[0] + places[k] * (plot.y[1] - plot.y[0])
        if where != bend[k]:
            plot.line([x[k], x[k]], [bend[k], where], "leader")
        hint = f"{row.name}: {measure_name(summary)} {number(x[k])}, reward {number(y[k])}"
        plot.dot(float(x[k]), where, str(row.number), "see" if row.clairvoyant else "", hint)
    names = "".join(f"<li>{_numbered(row)}</li>" for row in rows)
    return plot.html() + f'<ul class="legend">{names}</ul>'


def _apart(x: np.ndarray, y: np.ndarray) -> list[float]:
    """Heights at which marks at (x, y), in shares of the plot, do not cover each other: later ones make way."""
    width, height = 0.042, 0.068
    placed: list[float] = []
    for k in range(len(x)):
        steps = [0.0, *(sign * n * height / 4 for n in range(1, 80) for sign in (1, -1))]
        free = (
            float(y[k]) + step
            for step in steps
            if 0.0 <= y[k] + step <= 1.0
            and not any(abs(x[k] - x[j]) < width and abs(y[k] + step - placed[j]) < height for j in range(k))
        )
        placed.append(next(free, float(y[k])))
    return placed


def _padded(values: np.ndarray) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    pad = 0.05 * (high - low or 1.0)
    return low - pad, high + pad


def _bent_ticks(low: float, high: float, scale: float, apart: float) -> list[tuple[float, str]]:
    """Round rewards in [low, high] on an axis of arcsinh(reward / scale), at least `apart` from each other."""
    steps = [m * 10.0**e for e in range(6) for m in (1, 3)]
    out: list[tuple[float, str]] = []
    for value in [*(-s for s in reversed(steps)), 0.0, *steps]:
        where = float(np.arcsinh(value / scale))
        if low <= value <= high and (not out or where - out[-1][0] >= apart):
            out.append((where, number(value, 0)))
    return out


# ---- action mix ------------------------------------------------------------------------------------------------


def action_mix(summary: Summary) -> str:
    """Mean count of every operation per episode, shaded."""
    rows = [row for row in summary.agents if row.ops]
    if not rows:
        return '<p class="soft">Nobody counted operations.</p>'
    names = OP_NAMES[:-1]
    head = "".join(f'<th scope="col">{name.replace("_", " ").lower()}</th>' for name in names)
    body = []
    for row in rows:
        cells = []
        for name in names:
            count = row.ops[name]
            shade = min(0.55, 0.55 * float(np.log1p(count) / np.log1p(60.0)))
            text = "" if count < 0.005 else number(count, 1 if count < 99.95 else 0)
            style = f' style="background:rgba(var(--shade),{shade:.2f})"' if text else ""
            cells.append(f"<td{style}>{text}</td>")
        body.append(f'<tr><th scope="row">{_numbered(row)}</th>{"".join(cells)}</tr>')
    return (
        '<p class="small soft">Operations per episode; an empty cell is less than one in 200 episodes.</p>'
        '<div class="scroll" tabindex="0" role="region" aria-label="Action mix">'
        '<table class="heat" aria-label="Action mix">'
        f'<thead><tr><th scope="col">agent</th>{head}</tr></thead><tbody>{"".join(body)}</tbody></table></div>'
    )
