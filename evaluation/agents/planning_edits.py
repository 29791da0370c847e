"""Search for the best plan of a day whose luck is known: random edits of the plan, judged by replay.

A plan is one flat action per tick. An action that the safety layer rejects becomes NOOP, as it would for anybody;
the plan that is returned holds only what was executed.

Edits are judged by simulated annealing: a worse plan is accepted with probability exp(-loss / temperature), the
temperature falls to zero, the best plan is kept. States along the current plan are stored every few ticks, so that
an edit is replayed from where it begins.
"""

from __future__ import annotations

import math

from cloudrl.actions import (
    ANALYZE,
    DELETE,
    ENABLE_LOGGING,
    ENCRYPT,
    N_OPS,
    PATCH,
    RESIZE_DOWN,
    RESIZE_UP,
    RESTART,
    RESTRICT_ACCESS,
    ROTATE_CREDS,
    START,
    STOP,
)
from cloudrl.seeding import POLICY, stream, uniform
from cloudrl.types import DELETED, RUNNING, STOPPED
from evaluation.agents.planning import choose, dollars, put, step
from evaluation.agents.planning_jit import kernel

STRIDE = 6  # ticks between stored states
PATIENCE = 0.1  # share of the rest of the bill that one edit might save
FAMILY_TICKS = 8  # within which actions on the replicas of a service belong together


@kernel
def record(rules, tables, state, b, aside, scratch, observation, mask, kind, settings, plan):  # type: ignore[no-untyped-def]
    """plan[t] = what a scripted policy executes in world `b`. Returns the bill, $."""
    put(state, b, aside, 0)
    w = aside.worlds[0]
    for t in range(plan.shape[0]):
        action = choose(rules, tables, aside, scratch, observation, mask, kind, settings)
        step(rules, tables, aside, scratch, action)
        plan[t] = w.executed
    return dollars(w)


@kernel
def pointless(r, op):  # type: ignore[no-untyped-def]
    """True if the operation would change nothing on this resource, or next to nothing."""
    if op == ANALYZE:
        return r.hidden_count == 0 and (r.exposure_seen or not r.exposed)
    if op == PATCH:
        return r.known_count == 0 and r.health > 0.9
    if op == RESTART:
        return r.status == RUNNING and r.health > 0.9
    if op == ENCRYPT:
        return r.encrypted
    if op == ENABLE_LOGGING:
        return r.logging
    if op == RESTRICT_ACCESS:
        return not r.exposed
    return op == ROTATE_CREDS and r.credential_days < 30.0


@kernel
def replay(rules, tables, store, which, aside, scratch, plan, start, limit, trial):  # type: ignore[no-untyped-def]
    """Play `plan` from the last stored state at or before tick `start`; store the states passed.

    store[which[k], k] is the state of the current plan at tick k STRIDE; new ones go to store[1 - which[k], k].
    Returns the bill, $. `trial`: the plan is the current one but for a change from `start` on. Then infinity if
    the action at `start` is pointless or rejected, or as soon as the plan is so far behind the current one that it
    will not come below `limit`: by `PATIENCE` of what is still to be paid.
    """
    n, k = which.shape[0], start // STRIDE
    noop = aside.resources.shape[1] * N_OPS
    put(store, which[k] * n + k, aside, 0)
    w, t = aside.worlds[0], k * STRIDE
    while t < plan.shape[0]:
        if t % STRIDE == 0 and t > k * STRIDE:
            before = dollars(store.worlds[which[t // STRIDE] * n + t // STRIDE])
            if trial and dollars(w) - before > PATIENCE * (limit - before):
                return math.inf
            put(aside, 0, store, (1 - which[t // STRIDE]) * n + t // STRIDE)
        asked = trial and t == start and plan[t] != noop
        if asked and pointless(aside.resources[0, plan[t] // N_OPS], plan[t] % N_OPS):
            return math.inf
        step(rules, tables, aside, scratch, plan[t])
        if asked and w.executed != plan[t]:
            return math.inf
        t += 1
    return dollars(w)


@kernel
def accept(which, start):  # type: ignore[no-untyped-def]
    """What the last replay stored is the current plan's now."""
    for k in range(start // STRIDE + 1, which.shape[0]):
        which[k] = 1 - which[k]


@kernel
def free_tick(plan, t, noop):  # type: ignore[no-untyped-def]
    """The first tick from `t` on without an action, -1 if there is none."""
    while t < plan.shape[0]:
        if plan[t] == noop:
            return t
        t += 1
    return -1


@kernel
def busy_tick(plan, t, noop):  # type: ignore[no-untyped-def]
    """A tick with an action: the first from `t` on, around the end; -1 if there is none."""
    for k in range(plan.shape[0]):
        s = (t + k) % plan.shape[0]
        if plan[s] != noop:
            return s
    return -1


@kernel
def insert(plan, t, action, noop):  # type: ignore[no-untyped-def]
    """Put an action at the first free tick from `t` on. Returns that tick, -1 if there is none."""
    t = free_tick(plan, t, noop)
    if t >= 0:
        plan[t] = action
    return t


@kernel
def useful(resources, n_resources, draws):  # type: ignore[no-untyped-def]
    """A random action that would change something, as far as a few tries find one."""
    action = 0
    for k in range(6):
        slot = int(uniform(draws, 1, 2 * k) * n_resources)
        op = int(uniform(draws, 1, 2 * k + 1) * N_OPS)
        action = slot * N_OPS + op
        r = resources[slot]
        if r.status != DELETED and (r.status != STOPPED or op in (START, DELETE)) and not pointless(r, op):
            break
    return action


@kernel
def spread_over(lo, hi, u):  # type: ignore[no-untyped-def]
    """A whole number from `lo` to `hi`, the small ones more often: uniform in its logarithm."""
    return lo + int(math.exp(u * math.log(hi - lo + 1.0))) - 1


@kernel
def change_one(plan, n_resources, noop, draws):  # type: ignore[no-untyped-def]
    """Leave out an action of the plan, take it at another time, on another resource, or another in its place."""
    ticks = plan.shape[0]
    u, where, what, far = uniform(draws, 2, 0), uniform(draws, 2, 1), uniform(draws, 2, 2), uniform(draws, 2, 3)
    t = busy_tick(plan, int(where * ticks), noop)
    if t < 0:
        return ticks
    action = plan[t]
    if u < 0.2:
        plan[t] = noop
        return t
    if u < 0.85:  # near, or anywhere
        to = int(far * ticks)
        if u < 0.75:
            to = t + spread_over(1, 48, far) if what < 0.5 else t - spread_over(1, 48, far)
        to = max(0, min(ticks - 1, to))
        plan[t] = plan[to]
        plan[to] = action
        return min(t, to)
    if u < 0.93:
        plan[t] = int(what * n_resources) * N_OPS + action % N_OPS
    else:
        plan[t] = action // N_OPS * N_OPS + int(far * N_OPS)
    return t if plan[t] != action else ticks


@kernel
def change_family(plan, resources, noop, draws):  # type: ignore[no-untyped-def]
    """Leave out, or take earlier or later, what is done to all replicas of a service about the same time.

    Load is shared evenly, so the smallest replica decides: to change one of them alone is often no step at all.
    """
    ticks = plan.shape[0]
    u, where, side, far = uniform(draws, 2, 0), uniform(draws, 2, 1), uniform(draws, 2, 2), uniform(draws, 2, 3)
    t = busy_tick(plan, int(where * ticks), noop)
    if t < 0:
        return ticks
    op, group = plan[t] % N_OPS, resources[plan[t] // N_OPS].group
    shift = spread_over(1, 96, far) if side < 0.5 else -spread_over(1, 96, far)
    first = ticks
    ahead = shift > 0  # take the last one first, so that none meets another of the family
    for k in range(2 * FAMILY_TICKS + 1):
        s = t + FAMILY_TICKS - k if ahead else t - FAMILY_TICKS + k
        if not 0 <= s < ticks or plan[s] == noop:
            continue
        action = plan[s]
        if action % N_OPS != op or resources[action // N_OPS].group != group:
            continue
        plan[s] = noop
        first = min(first, s)
        if u > 0.25:
            to = insert(plan, max(0, min(ticks - 1, s + shift)), action, noop)
            if to >= 0:
                first = min(first, to)
    return first


@kernel
def add_pair(plan, resources, n_resources, t, slot, noop, draws):  # type: ignore[no-untyped-def]
    """Two actions that only make sense together: look and patch, there and back."""
    ticks = plan.shape[0]
    u, far = uniform(draws, 2, 0), uniform(draws, 2, 1)
    if u < 0.5:
        one, two, wait = ANALYZE, PATCH, spread_over(1, 8, far)
        for _ in range(n_resources):
            if resources[slot].hidden_count > 0 and resources[slot].status == RUNNING:
                break
            slot = (slot + 1) % n_resources
    else:
        one, two = STOP, START
        if u > 0.7:
            one, two = (RESIZE_DOWN, RESIZE_UP) if u < 0.9 else (RESIZE_UP, RESIZE_DOWN)
        wait = spread_over(1, ticks // 2, far)
    first = insert(plan, t, slot * N_OPS + one, noop)
    if first < 0:
        return ticks
    insert(plan, first + wait, slot * N_OPS + two, noop)
    return first


@kernel
def add_family(plan, groups, resources, t, slot, noop, draws):  # type: ignore[no-untyped-def]
    """Resize all replicas of a service, one after the other; perhaps back again later."""
    ticks = plan.shape[0]
    u, far = uniform(draws, 2, 0), uniform(draws, 2, 1)
    one, two = (RESIZE_UP, RESIZE_DOWN) if u < 0.5 else (RESIZE_DOWN, RESIZE_UP)
    group = groups[resources[slot].group]
    wait = spread_over(group.count, ticks // 2, far)
    first = ticks
    for i in range(group.first, group.first + group.count):
        s = insert(plan, t, i * N_OPS + one, noop)
        if s >= 0:
            first = min(first, s)
            if 0.3 < u < 0.8:
                insert(plan, s + wait, i * N_OPS + two, noop)
    return first


@kernel
def edit(plan, store, which, n_resources, noop, draws):  # type: ignore[no-untyped-def]
    """Change the plan at random. Returns a tick before which nothing changed; the plan's length if nothing did."""
    ticks = plan.shape[0]
    u, t = uniform(draws, 0, 0), int(uniform(draws, 0, 1) * plan.shape[0])
    k = t // STRIDE
    about = which[k] * which.shape[0] + k  # how things stand about that time
    resources = store.resources[about]
    if u < 0.35:
        return change_one(plan, n_resources, noop, draws)
    if u < 0.45:
        return change_family(plan, resources, noop, draws)
    action = useful(resources, n_resources, draws)
    if u < 0.75:  # one more action
        t = insert(plan, t, action, noop)
        return t if t >= 0 else ticks
    if u < 0.79:  # instead of what is there
        if plan[t] == action:
            return ticks
        plan[t] = action
        return t
    if u < 0.94:
        return add_pair(plan, resources, n_resources, t, action // N_OPS, noop, draws)
    return add_family(plan, store.groups[about], resources, t, action // N_OPS, noop, draws)


@kernel
def improve(rules, tables, state, b, key, store, which, aside, scratch, edits, temperature, plan, trial, best):  # type: ignore[no-untyped-def]
    """Improve `plan` of world `b` by `edits` random edits. Fills `best` with the best plan; returns its bill, $.

    temperature: $ at the start, falls to 0 linearly.
    """
    noop = state.resources.shape[1] * N_OPS
    n_resources = state.worlds[b].n_resources
    put(state, b, store, 0)
    which[:] = 0
    now = replay(rules, tables, store, which, aside, scratch, plan, 0, math.inf, False)
    accept(which, 0)
    least = now
    best[:] = plan
    for k in range(edits):
        draws = stream(key, POLICY, k)
        trial[:] = plan
        start = edit(trial, store, which, n_resources, noop, draws)
        if start >= plan.shape[0]:
            continue
        limit = now - temperature * (1.0 - k / edits) * math.log(1.0 - uniform(draws, 0, 4))
        cost = replay(rules, tables, store, which, aside, scratch, trial, start, limit, True)
        if cost <= limit:
            accept(which, start)
            now = cost
            plan[:] = trial
            if now < least - 1e-9:
                least = now
                best[:] = plan
    put(state, b, aside, 0)
    for t in range(best.shape[0]):  # what was executed
        step(rules, tables, aside, scratch, best[t])
        best[t] = aside.worlds[0].executed
    return dollars(aside.worlds[0])
