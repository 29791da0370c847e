"""Curves of runs as small panels of inline SVG: one per tag, all runs in it, in the colours of the legend."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

import numpy as np

from evaluation.dashboard.records import Curve
from evaluation.report.plot import Plot, labelled_ticks, nice_ticks

POINTS = 300
"""Most points of a line: more than a panel has pixels to show."""
COLOURS = 8
FIRST = (
    "rollout/ep_rew_mean", "eval/mean_reward", "ops/savings", "ops/win_rate", "train/rewards/score/mean",
    "llm/json_valid", "warm_start/loss", "train/loss",
)  # fmt: skip
"""What most people want to see first."""


def first_tags(known: Iterable[str], most: int = 4) -> list[str]:
    """The tags to show where nobody chose: those of FIRST that there are, or else simply the first ones."""
    there = list(known)
    return ([tag for tag in FIRST if tag in there] or there)[:most]


def smooth(values: np.ndarray, weight: float) -> np.ndarray:
    """Exponential moving average (n,), free of the bias towards 0 at the start, as TensorBoard smooths."""
    if weight <= 0:
        return values
    out, last, share = np.empty(len(values)), 0.0, 1.0
    for k, value in enumerate(values):
        last = weight * last + (1 - weight) * value
        share *= weight
        out[k] = last / (1 - share)
    return out


def panels(runs: Mapping[str, Mapping[str, Curve]], tags: Sequence[str], smoothing: float = 0.0) -> str:
    """One panel per tag, with the curve of each run by name. `smoothing` in [0, 1)."""
    shown = "".join(_panel(tag, runs, smoothing) for tag in tags if any(tag in curves for curves in runs.values()))
    if not shown:
        return '<div class="crl"><p class="soft">None of the chosen runs has logged these tags.</p></div>'
    names = legend(list(runs)) if len(runs) > 1 else ""
    return f'<div class="crl">{names}<div class="curves">{shown}</div></div>'


def legend(names: Sequence[str]) -> str:
    entries = "".join(f'<li><b class="s{k % COLOURS}"></b>{escape(name)}</li>' for k, name in enumerate(names))
    return f'<ul class="legend runs">{entries}</ul>'


def _panel(tag: str, runs: Mapping[str, Mapping[str, Curve]], smoothing: float) -> str:
    lines = [(k, name, *curves[tag]) for k, (name, curves) in enumerate(runs.items()) if tag in curves]
    steps, values = (np.concatenate([line[i] for line in lines]) for i in (2, 3))
    x, y = _padded(float(steps.min()), float(steps.max()), 0.0), _padded(float(values.min()), float(values.max()))
    last = ", ".join(f"{name}: {figure(v[-1])} at step {s[-1]:,.0f}" for _, name, s, v in lines)
    plot = Plot(
        x, y, f"{tag} by step. {last}", height=150, x_ticks=[(t, step_text(t)) for t in nice_ticks(*x, 4)],
        y_ticks=labelled_ticks(*y, 4),
    )  # fmt: skip
    for k, _, s, v in lines:
        colour = f"s{k % COLOURS}"
        if len(v) == 1:
            plot.dot(float(s[0]), float(v[0]), "", f"point {colour}")
            continue
        if smoothing > 0:
            plot.line(*_thin(s, v), f"faint {colour}")
        plot.line(*_thin(s, smooth(v, smoothing)), f"curve {colour}")
    ends = "".join(
        f'<span><b class="s{k % COLOURS}"></b>{figure(smooth(v, smoothing)[-1])}</span>' for k, _, s, v in lines
    )
    return f'<section class="curve-panel"><h3>{escape(tag)}</h3><p class="ends">{ends}</p>{plot.html()}</section>'


def _padded(low: float, high: float, share: float = 0.06) -> tuple[float, float]:
    if high <= low:
        half = abs(low) * 0.05 or 0.5
        return low - half, high + half
    return low - share * (high - low), high + share * (high - low)


def _thin(x: np.ndarray, y: np.ndarray) -> Curve:
    if len(x) <= POINTS:
        return x, y
    chosen = np.unique(np.linspace(0, len(x) - 1, POINTS).astype(int))
    return x[chosen], y[chosen]


def step_text(value: float) -> str:
    """1.5M, 200k, 40."""
    for factor, letter in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:g}{letter}".replace("-", "\N{MINUS SIGN}")
    return f"{value:g}".replace("-", "\N{MINUS SIGN}")


def figure(value: float) -> str:
    """Four significant digits."""
    return f"{value:,.4g}".replace("-", "\N{MINUS SIGN}") if abs(value) < 1e5 else step_text(float(f"{value:.3g}"))
