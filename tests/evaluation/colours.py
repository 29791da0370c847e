"""Colours as people see them who see no red, no green, or all of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

# Machado, Oliveira, Fernandes: A physiologically-based model for simulation of color vision deficiency (2009).
BLINDNESS = {
    "protanopia": [
        [0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881],
    ],
    "none": np.eye(3).tolist(),
}  # fmt: skip


def linear(colour: str) -> np.ndarray:
    values = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIE L*a*b* of linear sRGB."""
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = to_xyz @ np.clip(rgb, 0, 1) / np.array([0.9505, 1.0, 1.089])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def told_apart(palette: Mapping[str, str], blindness: str) -> None:
    """At least 20 apart in L*a*b*, where 2.3 is just noticed."""
    matrix = np.array(BLINDNESS[blindness])
    seen = {name: lab(matrix @ linear(colour)) for name, colour in palette.items()}
    names = list(seen)
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            assert np.linalg.norm(seen[a] - seen[b]) > 20, (a, b, blindness)
