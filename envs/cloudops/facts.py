"""What infos report of a tick and of an episode: names, and the columns of the state behind them."""

from __future__ import annotations

import numpy as np

from cloudrl.reward.bill import BILL_PARTS, bill, served_share
from cloudrl.reward.terms import TERM_NAMES
from cloudrl.simulator import Simulator
from cloudrl.types import VERDICT_NAMES

REWARD_FIELDS = tuple(f"reward_{term}" for term in TERM_NAMES)
REWARD_KEYS = tuple(f"reward/{term}" for term in TERM_NAMES)

TICK_COLUMNS = {
    **dict(zip(REWARD_KEYS, REWARD_FIELDS, strict=True)),  # weighted terms
    **{f"bill/{part}": f"tick_{part}" for part in BILL_PARTS},  # dollars
    "crashes": "tick_crashes",
    "breaches": "tick_breaches",
    "cascades": "tick_cascades",
    "executed": "executed",
}
"""Key of the info -> field of the world, of this tick."""
TICK_KEYS = tuple(TICK_COLUMNS)

_MORE_FIELDS = ("tick", "verdict", *BILL_PARTS)
FACT_FIELDS = [*TICK_COLUMNS.values(), *_MORE_FIELDS]
N_TICK_KEYS = len(TICK_KEYS)
VERDICTS = np.array(VERDICT_NAMES, object)

_COUNTS = (
    *("operations", "disruptions", "invalid", "vetoed", "violations"),
    *("crashes", "breaches", "cascades", "data_losses"),
)


def facts_view(simulator: Simulator) -> np.ndarray:
    """(B,) view of FACT_FIELDS, for `.item()`: one call turns a world's facts into Python numbers."""
    return simulator.state.worlds[FACT_FIELDS]


def reward_terms_view(simulator: Simulator) -> np.ndarray:
    """(B, 5) view of the weighted reward terms of this tick."""
    worlds = simulator.state.worlds
    fields = worlds.dtype.fields
    assert fields is not None
    offsets = [fields[name][1] for name in REWARD_FIELDS]
    assert offsets == list(range(offsets[0], offsets[0] + 8 * len(offsets), 8)), "they stand side by side"
    return np.ndarray(
        (len(worlds), len(offsets)), np.float64, worlds.data, offset=offsets[0], strides=(worlds.itemsize, 8)
    )  # fmt: skip


def metrics(simulator: Simulator, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Figures of the episode so far of the worlds `rows`, each (len(rows),)."""
    worlds = simulator.state.worlds[rows]
    out = {"bill": bill(worlds)}
    out |= {f"bill/{part}": worlds[part] for part in BILL_PARTS}
    out["served"] = served_share(worlds)
    out["exposure_hours"] = worlds["exposure_hours"]
    out["breach_loss"] = worlds["breach_realised"]
    out["max_blast"] = worlds["max_blast"]
    out |= {name: worlds[name].astype(np.int64) for name in _COUNTS}
    out["world_seed"] = worlds["seed"]
    return out
