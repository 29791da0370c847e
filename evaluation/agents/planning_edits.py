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
from cloudrl.jit import kernel
from cloudrl.seeding import POLICY, stream, uniform
from cloudrl.types import DELETED, RUNNING, STOPPED
from evaluation.agents.planning import choose, dollars, put, step

STRIDE = 6  # ticks between stored states
CRASHES = 256  # that are remembered


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
def replay(rules, tables, store, which, aside, scratch, plan, start, limit):  # type: ignore[no-untyped-def]
    """Play `plan` from the last stored state at or before tick `start`; store the states passed.

    store[which[k], k] is the state of the current plan at tick k STRIDE; new ones go to store[1 - which[k], k].
    Returns the bill, $; infinity as soon as it is above `limit`, or if the action at `start` is pointless or
    rejected.
    """
    n, k = which.shape[0], start // STRIDE
    noop = aside.resources.shape[1] * N_OPS
    put(store, which[k] * n + k, aside, 0)
    w, t = aside.worlds[0], k * STRIDE
    while t < plan.shape[0]:
        if t % STRIDE == 0 and t > k * STRIDE:
            if dollars(w) > limit:
                return math.inf
            put(aside, 0, store, (1 - which[t // STRIDE]) * n + t // STRIDE)
        if t == start and plan[t] != noop and pointless(aside.resources[0, plan[t] // N_OPS], plan[t] % N_OPS):
            return math.inf
        step(rules, tables, aside, scratch, plan[t])
        if t == start and w.executed != plan[t]:
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
def edit(plan, store, which, n_resources, noop, draws):  # type: ignore[no-untyped-def]
    """Change the plan at random. Returns the first tick that changed; the plan's length if nothing did."""
    ticks = plan.shape[0]
    u, where, what, far = uniform(draws, 0, 0), uniform(draws, 0, 1), uniform(draws, 0, 2), uniform(draws, 0, 3)
    t = int(where * ticks)
    if u < 0.40:  # an action that is there
        t = busy_tick(plan, t, noop)
        if t < 0:
            return ticks
        action = plan[t]
        if u < 0.08:  # leave it out
            plan[t] = noop
            return t
        if u < 0.34:  # at another time: near, or anywhere
            to = int(far * ticks)
            if u < 0.30:
                span = int(math.exp(far * math.log(48.0)))
                to = t + span if what < 0.5 else t - span
            to = max(0, min(ticks - 1, to))
            plan[t] = plan[to]
            plan[to] = action
            return min(t, to)
        if u < 0.37:  # on another resource
            plan[t] = int(what * n_resources) * N_OPS + action % N_OPS
        else:  # another operation
            plan[t] = action // N_OPS * N_OPS + int(far * N_OPS)
        return t if plan[t] != action else ticks
    k = t // STRIDE
    seen = store.resources[which[k] * which.shape[0] + k]  # how things stand about that time
    action = useful(seen, n_resources, draws)
    slot = action // N_OPS
    if u < 0.75:  # one more action
        t = insert(plan, t, action, noop)
        return t if t >= 0 else ticks
    if u < 0.80:  # instead of what is there
        if plan[t] == action:
            return ticks
        plan[t] = action
        return t
    # two that only make sense together: look and patch, there and back
    wait = 1 + int(8.0 * far * far)
    one, two = ANALYZE, PATCH
    if u > 0.90:
        wait = 1 + int(math.exp(far * math.log(0.5 * ticks)))
        one, two = (STOP, START) if u > 0.95 else (RESIZE_DOWN, RESIZE_UP)
    else:
        for _ in range(n_resources):
            if seen[slot].hidden_count > 0 and seen[slot].status == RUNNING:
                break
            slot = (slot + 1) % n_resources
    first = insert(plan, t, slot * N_OPS + one, noop)
    if first < 0:
        return ticks
    insert(plan, first + wait, slot * N_OPS + two, noop)
    return first


@kernel
def improve(rules, tables, state, b, key, store, which, aside, scratch, edits, temperature, plan, trial, best):  # type: ignore[no-untyped-def]
    """Improve `plan` of world `b` by `edits` random edits. Fills `best` with the best plan; returns its bill, $.

    temperature: $ at the start, falls to 0 linearly.
    """
    noop = state.resources.shape[1] * N_OPS
    n_resources = state.worlds[b].n_resources
    put(state, b, store, 0)
    which[:] = 0
    now = replay(rules, tables, store, which, aside, scratch, plan, 0, math.inf)
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
        cost = replay(rules, tables, store, which, aside, scratch, trial, start, limit)
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
