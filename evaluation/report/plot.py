"""A small plot: geometry in an inline SVG that stretches with the page, text around it in HTML that does not.

So a picture is as readable on a telephone as on a screen, follows the page's colours in light and dark, and needs
neither a script nor a file from elsewhere. Colours are CSS classes (evaluation/report/style.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

import numpy as np

Numbers = Sequence[float] | np.ndarray
SIDE = 1000.0  # of the SVG's square of coordinates, stretched to the plot


class Plot:
    """Axes over [x_low, x_high] x [y_low, y_high]; values outside are cut off.

    Args:
        label: what the picture shows, for those who do not see it.
        height: in CSS pixels.
        x_ticks, y_ticks: (value, text).
    """

    def __init__(
        self,
        x: tuple[float, float],
        y: tuple[float, float],
        label: str,
        *,
        height: int = 160,
        x_ticks: Iterable[tuple[float, str]] = (),
        y_ticks: Iterable[tuple[float, str]] = (),
        x_title: str = "",
        y_title: str = "",
    ) -> None:
        self.x, self.y, self.label, self.height = x, y, label, height
        self.x_title, self.y_title = x_title, y_title
        self._shapes: list[str] = []
        self._texts: list[str] = []
        for value, text in y_ticks:
            self.level(value, "grid")
            self._texts.append(f'<span class="yt" style="bottom:{self._percent_y(value)}">{escape(text)}</span>')
        for value, text in x_ticks:
            edge = " edge" if value == x[1] else ""
            self._texts.append(
                f'<span class="xt{edge}" style="left:{self._percent_x(value)}">{escape(text)}</span>'
            )

    # ------------------------------------------------------------------ coordinates
    def _x(self, value: float) -> str:
        return _short(SIDE * (value - self.x[0]) / (self.x[1] - self.x[0]))

    def _y(self, value: float) -> str:
        low, high = self.y
        return _short(SIDE * (1.0 - (min(max(value, low), high) - low) / (high - low)))

    def _percent_x(self, value: float) -> str:
        return f"{100 * (value - self.x[0]) / (self.x[1] - self.x[0]):.2f}%"

    def _percent_y(self, value: float) -> str:
        return f"{100 * (value - self.y[0]) / (self.y[1] - self.y[0]):.2f}%"

    # ------------------------------------------------------------------ shapes
    def _path(self, d: str, css: str) -> None:
        self._shapes.append(f'<path class="{css}" d="{d}"/>')

    def line(self, x: Numbers, y: Numbers, css: str) -> None:
        """A line through points."""
        self._path("M" + "L".join(f"{self._x(a)} {self._y(b)}" for a, b in zip(x, y)), f"line {css}")

    def band(self, x: Numbers, low: Numbers, high: Numbers, css: str) -> None:
        """The area between two lines."""
        there = [f"{self._x(a)} {self._y(b)}" for a, b in zip(x, high)]
        back = [f"{self._x(a)} {self._y(b)}" for a, b in zip(x, low)][::-1]
        self._path("M" + "L".join([*there, *back]) + "Z", f"area {css}")

    def bars(self, left: Numbers, width: float, low: Numbers, high: Numbers, css: str) -> None:
        """Upright bars; those without height are left out."""
        parts = []
        for a, b, c in zip(left, low, high):
            if c > b:
                parts.append(f"M{self._x(a)} {self._y(b)}V{self._y(c)}H{self._x(a + width)}V{self._y(b)}Z")
        if parts:
            self._path("".join(parts), f"area {css}")

    def spans(self, starts: Numbers, ends: Numbers, css: str) -> None:
        """Shaded stretches over the whole height."""
        for a, b in zip(starts, ends):
            self._path(f"M{self._x(a)} 0H{self._x(b)}V{_short(SIDE)}H{self._x(a)}Z", f"area {css}")

    def marks(self, x: Numbers, low: float, high: float, css: str) -> None:
        """Upright strokes."""
        if len(x):
            self._path("".join(f"M{self._x(a)} {self._y(low)}V{self._y(high)}" for a in x), f"line {css}")

    def level(self, value: float, css: str = "zero") -> None:
        """A line from side to side."""
        self._path(f"M0 {self._y(value)}H{_short(SIDE)}", f"line {css}")

    def dot(self, x: float, y: float, text: str, css: str, title: str = "") -> None:
        """A round mark with a few letters in it."""
        hint = f' title="{escape(title, quote=True)}"' if title else ""
        self._texts.append(
            f'<span class="dot {css}" style="left:{self._percent_x(x)};bottom:{self._percent_y(y)}"{hint}>'
            f"{escape(text)}</span>"
        )

    def lane(self, y: float, text: str) -> None:
        """Text to the left of the plot."""
        self._texts.append(f'<span class="yt" style="bottom:{self._percent_y(y)}">{escape(text)}</span>')

    # ------------------------------------------------------------------ result
    def html(self) -> str:
        titles = f'<div class="ytitle">{escape(self.y_title)}</div>' if self.y_title else ""
        below = f'<div class="xtitle">{escape(self.x_title)}</div>' if self.x_title else ""
        return (
            f'<div class="plot">{titles}<div class="frame" style="height:{self.height}px" role="img" '
            f'aria-label="{escape(self.label, quote=True)}">'
            f'<svg viewBox="0 0 {SIDE:.0f} {SIDE:.0f}" preserveAspectRatio="none" aria-hidden="true">'
            f"{''.join(self._shapes)}</svg>{''.join(self._texts)}</div>{below}</div>"
        )


def _short(value: float) -> str:
    """One decimal at most: a tenth of a thousandth of the plot."""
    return f"{value:.1f}".removesuffix(".0")


def nice_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers in [low, high]."""
    span = high - low
    if span <= 0:
        return [low]
    raw = span / most
    power = 10.0 ** np.floor(np.log10(raw))
    step = next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= raw * 0.999)
    first = np.ceil(low / step - 1e-9)
    count = int(np.floor((high - first * step) / step + 1e-9)) + 1
    return [float((first + k) * step) for k in range(count)]


def labelled_ticks(low: float, high: float, most: int = 5) -> list[tuple[float, str]]:
    """Round numbers in [low, high] with as many decimals as they need."""
    ticks = nice_ticks(low, high, most)
    digits = next(d for d in range(7) if all(abs(t - round(t, d)) < 1e-9 for t in ticks) or d == 6)
    return [(t, f"{t:,.{digits}f}".replace("-", "\N{MINUS SIGN}")) for t in ticks]


def stacked_bar(parts: Sequence[tuple[str, float, str]], most: float, label: str) -> str:
    """A lying bar of (name, amount, css class), `most` = the amount that fills the width."""
    pieces = "".join(
        f'<i class="{css}" style="width:{100 * amount / most:.2f}%" title="{escape(name)}: {amount:.2f}"></i>'
        for name, amount, css in parts
        if amount > 0
    )
    return f'<div class="stack" role="img" aria-label="{escape(label, quote=True)}">{pieces}</div>'
