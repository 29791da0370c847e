"""What goes wrong by itself: vulnerabilities, opened access, lost encryption and logging, ageing credentials."""

from __future__ import annotations

from cloudrl.jit import kernel
from cloudrl.measurements import TICKS_PER_DAY, draw_cvss, draw_epss, vulnerability_rate
from cloudrl.seeding import uniform
from cloudrl.types import QUEUE


@kernel
def advance(p, r, i, draws):  # type: ignore[no-untyped-def]
    """One tick of drift on resource `i`."""
    r.ticks_since_analyze += 1
    r.ticks_since_restart += 1
    r.credential_days += p.security_clock / TICKS_PER_DAY
    if uniform(draws, i, 0) < vulnerability_rate(p, r):
        u_severe = uniform(draws, i, 1)
        r.hidden_count += 1
        r.hidden_epss += draw_epss(p, u_severe, uniform(draws, i, 2), uniform(draws, i, 3))
        r.hidden_cvss = max(r.hidden_cvss, draw_cvss(p, u_severe, uniform(draws, i, 4)))
    if uniform(draws, i, 5) < p.exposure_rate:
        r.exposed = 1
    if uniform(draws, i, 6) < p.decryption_rate and r.kind != QUEUE:
        r.encrypted = 0
    if uniform(draws, i, 7) < p.logging_loss_rate:
        r.logging = 0
    if r.logging:
        r.exposure_seen = r.exposed
