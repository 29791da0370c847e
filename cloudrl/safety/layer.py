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
def evaluate(p, w, group, around, r):  # type: ignore[no-untyped-def]
    """The ops that each of RULES forbids on `r`, in their order (a test holds it)."""
    return (
        delete_in_use.forbids(p, w, group, around, r),
        delete_protected.forbids(p, w, group, around, r),
        scheduled_job.forbids(p, w, group, around, r),
        last_replica.forbids(p, w, group, around, r),
        capacity.forbids(p, w, group, around, r),
        replica_trouble.forbids(p, w, group, around, r),
        dependency_trouble.forbids(p, w, group, around, r),
        restart_loop.forbids(p, w, group, around, r),
        recovery_only.forbids(p, w, group, around, r),
        change_budget.forbids(p, w, group, around, r),
        rotation_cooldown.forbids(p, w, group, around, r),
        antibody.forbids(p, w, group, around, r),
    )


@kernel
def never_dangerous(r):  # type: ignore[no-untyped-def]
    """Ops that no rule forbids: to bring a crashed resource back."""
    return 1 << RESTART if r.status == CRASHED else 0


@kernel
def survey(p, w, groups, resources, edges, g):  # type: ignore[no-untyped-def]
    """What holds for the whole group `g`; its counts include the resource that is judged."""
    group = groups[g]
    free, free_vcpu, troubled = 0, 0.0, 0
    for i in range(group.first, group.first + group.count):
        r = resources[i]
        if serves(r):
            free += 1
            free_vcpu += vcpu(r.size)
        elif r.status == RUNNING or r.status == CRASHED:
            troubled += 1
    unwell = False
    for e in range(group.edge_first, group.edge_first + group.edge_count):
        if edges[e].kind == HARD and groups[edges[e].target].availability < p.unhealthy_dependency:
            unwell = True
    peak = group.load / max(_LOAD_MIN, w.load) * w.forecast_peak * p.forecast_margin * group.demand
    return Surroundings(free, free_vcpu, troubled, peak, unwell, 0)


@kernel
def without(whole, r, antibody):  # type: ignore[no-untyped-def]
    """Surroundings of resource `r` in a group that was surveyed as `whole`."""
    free, free_vcpu, troubled = whole.others_free, whole.others_vcpu, whole.others_troubled
    if serves(r):
        free -= 1
        free_vcpu -= vcpu(r.size)
    elif r.status == RUNNING or r.status == CRASHED:
        troubled -= 1
    return Surroundings(free, free_vcpu, troubled, whole.peak_vcpu, whole.dependency_unwell, antibody)


@kernel
def judge(p, w, groups, resources, edges, antibodies, allowed_ops, rules_on):  # type: ignore[no-untyped-def]
    """Refresh `impossible` and `forbidden` of every resource. `antibodies`: (N,) ops forbidden by memory."""
    for g in range(w.n_groups):
        group = groups[g]
        whole = survey(p, w, groups, resources, edges, g)
        for i in range(group.first, group.first + group.count):
            r = resources[i]
            forbidden = 0
            if rules_on and r.status < DELETED:
                for ops in evaluate(p, w, group, without(whole, r, antibodies[i]), r):
                    forbidden |= ops
                forbidden &= ~never_dangerous(r)
            r.impossible = impossible(r, allowed_ops)
            r.forbidden = forbidden


@kernel
def broken_rules(p, w, groups, resources, edges, antibodies, i, scratch):  # type: ignore[no-untyped-def]
    """scratch[k] = ops that rule k forbids on resource `i`."""
    r = resources[i]
    whole = survey(p, w, groups, resources, edges, r.group)
    for k, ops in enumerate(evaluate(p, w, groups[r.group], without(whole, r, antibodies[i]), r)):
        scratch[k] = ops & ~never_dangerous(r)


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
    """Work space of `broken_rules`."""
    return np.zeros(N_RULES, np.int64)
