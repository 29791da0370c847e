"""The score: 0 = do nothing, 100 = the clairvoyant oracle, in dollars, world by world.

score = 100 (J_noop - J) / (J_noop - J_oracle), clipped to +-100. Where the two nearly tie (their gap is under 2 %
of J_noop) a few cents would decide: such worlds have no score and are judged by their regret, J - J_oracle.
"""

from __future__ import annotations

import numpy as np

TIE = 0.02
"""Of J_noop: a smaller gap between doing nothing and the oracle is no ruler."""
CLIP = 100.0


def tied(noop: np.ndarray, oracle: np.ndarray) -> np.ndarray:
    """(B,) bool: worlds in which doing nothing is as good as the oracle, near enough."""
    return np.asarray(noop - oracle < TIE * noop)


def scores(bill: np.ndarray, noop: np.ndarray, oracle: np.ndarray) -> np.ndarray:
    """Score of each world (B,), NaN where doing nothing and the oracle tie."""
    tie = tied(noop, oracle)
    gap = np.where(tie, 1.0, noop - oracle)
    return np.where(tie, np.nan, np.clip(100.0 * (noop - bill) / gap, -CLIP, CLIP))


def ratio_of_sums(bill: np.ndarray, noop: np.ndarray, oracle: np.ndarray) -> float:
    """100 x dollars saved in all worlds / dollars that the oracle saves in all worlds: no clip, no tie."""
    gap = float((noop - oracle).sum())
    return 100.0 * float((noop - bill).sum()) / gap if gap > 0 else float("nan")


def regret(bill: np.ndarray, oracle: np.ndarray) -> np.ndarray:
    """$ above the oracle in each world, (B,)."""
    return np.asarray(bill - oracle)
