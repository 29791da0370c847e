"""Settings of the immune memory."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class MemoryConfig:
    """What the immune memory remembers, for how long, and when it vetoes."""

    enabled: bool = True
    window_ticks: int = 12  # a cascade or breach within this many ticks counts against an action
    prior_bad: float = 0.5  # Beta prior
    prior_good: float = 9.5
    decay: float = 0.9995  # of the evidence, per episode that ended
    veto_bound: float = 0.3  # antibody: veto when the lower credible bound passes this
    credible_z: float = 1.64  # normal quantile of the lower bound
    minimum_evidence: float = 20.0  # observations before an antibody may form
    frozen: bool = False  # read, never write
    path: str | None = None  # a saved memory to start from
