"""Vulnerabilities, exposure and what a breach costs."""

from __future__ import annotations

from types import SimpleNamespace

from cloudrl.measurements import (
    CREDENTIAL_FACTOR_MAX,
    CREDENTIAL_LIMIT_DAYS,
    ORDINARY_MAX,
    ORDINARY_SCALE,
    SEVERE_MAX,
    SEVERE_MEAN,
    SEVERE_MIN,
    SEVERE_SD,
    TICKS_PER_30_DAYS,
)
from cloudrl.types import STOPPED
from tests.twin.model import Resource, World
from tests.twin.streams import gaussian


def credential_factor(days: float) -> float:
    """1 while credentials are fresh enough, then growing to its maximum."""
    if days <= CREDENTIAL_LIMIT_DAYS:
        return 1.0
    return min(CREDENTIAL_FACTOR_MAX, 1.0 + (days - CREDENTIAL_LIMIT_DAYS) / CREDENTIAL_LIMIT_DAYS)


def exploit_intensity(
    p: SimpleNamespace, r: Resource, epss: float, exposed: bool, credential_days: float
) -> float:
    """Expected exploits per tick: (clock / 8640) x [epss g + c (g - 1) + m exposed]."""
    g = credential_factor(credential_days)
    x = 1.0 if exposed else r.exposure_base
    if r.status == STOPPED:
        x *= p.stopped_exposure
    bracket = epss * g + p.credential_rate * (g - 1.0)
    if exposed:
        bracket += p.misconfiguration_rate
    return p.security_clock / TICKS_PER_30_DAYS * x * bracket


def breach_cost(p: SimpleNamespace, w: World, r: Resource) -> float:
    """$ of a breach of this resource."""
    loss = p.breach_loss * w.breach_factor * 24.0 * w.base_cost
    if not r.data_bearing:
        loss *= p.vm_data_factor
    elif not r.encrypted:
        loss *= p.unencrypted_factor
    return loss if r.logging else loss * p.unlogged_factor


def new_vulnerability(p: SimpleNamespace, u_severe: float, u1: float, u2: float, u3: float) -> tuple[float, float]:
    """(probability of exploitation in 30 days, CVSS severity) of a vulnerability that turns up."""
    z = gaussian(u1, u2)
    if u_severe < p.severe_share:
        return min(SEVERE_MAX, max(SEVERE_MIN, SEVERE_MEAN + SEVERE_SD * z)), 6.0 + 4.0 * u3
    return min(ORDINARY_MAX, ORDINARY_SCALE * z * z), 2.0 + 8.0 * u3


def mean_epss(p: SimpleNamespace) -> float:
    """Expected probability of exploitation of an unknown vulnerability."""
    return p.severe_share * SEVERE_MEAN + (1.0 - p.severe_share) * ORDINARY_SCALE
