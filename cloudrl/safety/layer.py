"""The safety layer: one evaluation of the rules gives the mask and the verdict with its reason.

`judge` runs at the end of every tick and leaves two bit sets on each resource: what is impossible and what is
forbidden. The mask is their complement, a verdict reads one bit, and `broken_rules` asks the same rules one by
one which of them forbids an op.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cloudrl.actions import N_OPS, RESTART
from cloudrl.jit import kernel
from cloudrl.measurements import serves, vcpu
from cloudrl.safety.preconditions import impossible
from cloudrl.safety.rule import SEVERITIES, Surroundings
from cloudrl.safety.rules import (
    RULES,
    antibody,
    capacity,
    change_budget,
    delete_in_use,
    delete_protected,
    dependency_trouble,
    last_replica,
    recovery_only,
    replica_trouble,
    restart_loop,
    rotation_cooldown,
    scheduled_job,
)
from cloudrl.types import ADMISSIBLE, CRASHED, DELETED, HARD, INVALID, RUNNING, VERDICT_NAMES, VETOED

N_RULES = len(RULES)
ANTIBODY = RULES.index(antibody.RULE)
_LOAD_MIN = 0.3  # floor of the outside load when a group's share of it is projected to the peak


@dataclass(frozen=True)
class Verdict:
    """What the safety layer says of an action."""

    code: int  # ADMISSIBLE, INVALID, VETOED
    rules: tuple[str, ...] = ()  # ids of the broken rules
    reason: str = ""

    @property
    def name(self) -> str:
        """One of "admissible", "invalid" and "vetoed"."""
        return VERDICT_NAMES[self.code]

    @property
    def severity(self) -> str:
        """The highest severity of the broken rules; empty if none is broken."""
        return max((rule.severity for rule in RULES if rule.id in self.rules), key=SEVERITIES.index, default="")


@kernel
def evaluate(p, w, group, around, r, out):  # type: ignore[no-untyped-def]
    """out[k] = ops that rule RULES[k] forbids on `r` (a test holds the order to RULES)."""
    out[0] = delete_in_use.forbids(p, w, group, around, r)
    out[1] = delete_protected.forbids(p, w, group, around, r)
    out[2] = scheduled_job.forbids(p, w, group, around, r)
    out[3] = last_replica.forbids(p, w, group, around, r)
    out[4] = capacity.forbids(p, w, group, around, r)
    out[5] = replica_trouble.forbids(p, w, group, around, r)
    out[6] = dependency_trouble.forbids(p, w, group, around, r)
    out[7] = restart_loop.forbids(p, w, group, around, r)
    out[8] = recovery_only.forbids(p, w, group, around, r)
    out[9] = change_budget.forbids(p, w, group, around, r)
    out[10] = rotation_cooldown.forbids(p, w, group, around, r)
    out[11] = antibody.forbids(p, w, group, around, r)
    if r.status == CRASHED:  # to bring a crashed resource back is never dangerous
        for k in range(N_RULES):
            out[k] &= ~(1 << RESTART)


@kernel
def look_around(p, w, groups, resources, edges, g, i, free, free_vcpu, troubled, antibodies):  # type: ignore[no-untyped-def]
    """Surroundings of resource `i` from the sums over its group `g`."""
    group = groups[g]
    r = resources[i]
    if serves(r):
        free -= 1
        free_vcpu -= vcpu(r.size)
    elif r.status == RUNNING or r.status == CRASHED:
        troubled -= 1
    unwell = False
    for e in range(group.edge_first, group.edge_first + group.edge_count):
        if edges[e].kind == HARD and groups[edges[e].target].availability < p.unhealthy_dependency:
            unwell = True
    peak = group.load / max(_LOAD_MIN, w.load) * w.forecast_peak * p.forecast_margin * group.demand
    return Surroundings(free, free_vcpu, troubled, peak, unwell, antibodies[i])


@kernel
def sum_group(group, resources):  # type: ignore[no-untyped-def]
    """(free replicas, their vCPU, troubled replicas) of a group."""
    free, free_vcpu, troubled = 0, 0.0, 0
    for i in range(group.first, group.first + group.count):
        r = resources[i]
        if serves(r):
            free += 1
            free_vcpu += vcpu(r.size)
        elif r.status == RUNNING or r.status == CRASHED:
            troubled += 1
    return free, free_vcpu, troubled


@kernel
def judge(p, w, groups, resources, edges, antibodies, allowed_ops, rules_on, scratch):  # type: ignore[no-untyped-def]
    """Refresh `impossible` and `forbidden` of every resource. `antibodies`: (N,) ops forbidden by memory."""
    for g in range(w.n_groups):
        group = groups[g]
        free, free_vcpu, troubled = sum_group(group, resources)
        for i in range(group.first, group.first + group.count):
            r = resources[i]
            r.impossible = impossible(r, allowed_ops)
            r.forbidden = 0
            if rules_on and r.status < DELETED:
                around = look_around(p, w, groups, resources, edges, g, i, free, free_vcpu, troubled, antibodies)
                evaluate(p, w, group, around, r, scratch)
                for k in range(N_RULES):
                    r.forbidden |= scratch[k]


@kernel
def broken_rules(p, w, groups, resources, edges, antibodies, i, scratch):  # type: ignore[no-untyped-def]
    """scratch[k] = ops that rule k forbids on resource `i`."""
    g = resources[i].group
    free, free_vcpu, troubled = sum_group(groups[g], resources)
    around = look_around(p, w, groups, resources, edges, g, i, free, free_vcpu, troubled, antibodies)
    evaluate(p, w, groups[g], around, resources[i], scratch)


@kernel
def write_mask(resources, enforce, mask):  # type: ignore[no-untyped-def]
    """mask[slot * N_OPS + op] = may be chosen; NOOP, the last entry, always may."""
    for i in range(resources.shape[0]):
        r = resources[i]
        blocked = r.impossible | r.forbidden if enforce else r.impossible
        for op in range(N_OPS):
            mask[i * N_OPS + op] = (blocked >> op) & 1 == 0
    mask[resources.shape[0] * N_OPS] = True


@kernel
def verdict(r, op):  # type: ignore[no-untyped-def]
    """Verdict on an op (not NOOP) from the bits that `judge` left."""
    if (r.impossible >> op) & 1:
        return INVALID
    return VETOED if (r.forbidden >> op) & 1 else ADMISSIBLE


def new_scratch() -> np.ndarray:
    """Work space of `judge`."""
    return np.zeros(N_RULES, np.int64)
