"""The batch kernels: one scalar loop over worlds, each of them stepped from the first array to the last.

B = 1 and B = 4096 run the same code, and no world ever looks at its neighbour.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cloudrl.actions import N_OPS, NOOP
from cloudrl.dynamics import events, failures, load
from cloudrl.dynamics.tick import tick
from cloudrl.jit import kernel
from cloudrl.measurements import draw_cvss, draw_epss, never_analyzed, vulnerability_rate
from cloudrl.memory import immune
from cloudrl.memory.signature import N_EVENTS, context
from cloudrl.observation import observe
from cloudrl.reward.terms import reward
from cloudrl.safety.layer import ANTIBODY, N_RULES, broken_rules, judge, verdict, write_mask
from cloudrl.scenarios.generator import LEAK_CLASSES, poisson, populate
from cloudrl.seeding import BELIEF, mix, stream, uniform
from cloudrl.types import (
    ADMISSIBLE,
    BREACH_INCIDENT,
    CRASHED,
    DELETED,
    INVALID,
    OVERLOAD_INCIDENT,
    QUEUE,
    VETOED,
)

ENFORCE, OBSERVE, OFF = range(3)
_WORLDS_OWN = 1_000_000  # in place of a resource: draws of the world itself


class Rules(NamedTuple):
    """Everything constant while a simulator runs."""

    params: np.ndarray  # (1,) PARAMS
    weights: np.ndarray  # (1,) REWARD
    profile: np.ndarray  # (2, L) load profile
    events: np.ndarray  # (E,) EVENT, the scenario's timed events
    allowed_ops: int  # bit set: the action set
    mode: int  # ENFORCE, OBSERVE, OFF
    memory_on: bool
    memory_write: bool
    window: int  # ticks of the immune memory


class Scratch(NamedTuple):
    """Work space, one per simulator."""

    rules: np.ndarray  # (N_RULES,) int64
    antibodies: np.ndarray  # (N,) int64


@kernel
def refresh(rules, tables, w, groups, resources, edges, scratch):  # type: ignore[no-untyped-def]
    """Recall and judge: what memory and safety say of the world as it now is."""
    if rules.memory_on:
        for i in range(w.n_resources):
            r = resources[i]
            c = context(groups[r.group], r)
            scratch.antibodies[i] = tables.antibodies[c]
            r.memory_risk = tables.risk[c]
    judge(
        rules.params[0], w, groups, resources, edges,
        scratch.antibodies, rules.allowed_ops, rules.mode != OFF,
    )  # fmt: skip


@kernel
def step_world(rules, tables, w, groups, resources, edges, pending, action, scratch):  # type: ignore[no-untyped-def]
    """Judge `action`, play one tick, reward it. Returns how many memory signatures changed."""
    p = rules.params[0]
    op, slot = NOOP, 0
    w.verdict = ADMISSIBLE
    if action != resources.shape[0] * N_OPS:
        slot = action // N_OPS
        op = action - slot * N_OPS
        if action < 0 or slot >= resources.shape[0]:
            w.verdict = INVALID
        else:
            w.verdict = verdict(resources[slot], op)
        if w.verdict == INVALID:
            w.invalid += 1
            op = NOOP
        elif w.verdict == VETOED:
            w.vetoed += 1
            if rules.mode == ENFORCE:
                op = NOOP
            else:
                w.violations += 1
    w.executed = slot * N_OPS + op if op != NOOP else resources.shape[0] * N_OPS
    if rules.memory_on and op != NOOP:
        group = resources[slot].group
        immune.note(pending, context(groups[group], resources[slot]) * N_EVENTS + op, group, w.tick)
    tick(p, rules.profile, rules.events, w, groups, resources, edges, op, slot)
    reward(rules.weights[0], w)
    if rules.memory_on:
        return immune.watch(w, groups, resources, pending, rules.window, tables, rules.memory_write)
    return 0


@kernel
def step_batch(rules, tables, state, actions, scratch, rewards, observations, masks, look):  # type: ignore[no-untyped-def]
    """One tick of every world. `look`: also write observations and masks. Returns changed memory signatures."""
    changed = 0
    for b in range(state.worlds.shape[0]):
        w = state.worlds[b]
        changed += step_world(
            rules, tables, w, state.groups[b], state.resources[b], state.edges[b], state.pending[b],
            actions[b], scratch,
        )  # fmt: skip
        rewards[b] = w.reward
        if look:
            look_at(rules, tables, state, b, scratch, observations[b], masks[b])
    return changed


@kernel
def idle_totals(rules, tables, state, which, aside, scratch, totals):  # type: ignore[no-untyped-def]
    """totals[b] = the episode's reward of world b (in `which`) if nothing is done from now on, on its own luck.

    `aside`: a batch of one world to play in. The worlds themselves do not change.
    """
    p = rules.params[0]
    idle = aside.resources.shape[1] * N_OPS
    for k in range(which.shape[0]):
        b = which[k]
        aside.worlds[0] = state.worlds[b]
        aside.groups[0] = state.groups[b]
        aside.resources[0] = state.resources[b]
        aside.edges[0] = state.edges[b]
        w = aside.worlds[0]
        while w.tick < p.ticks:
            step_world(
                rules, tables, w, aside.groups[0], aside.resources[0], aside.edges[0], aside.pending[0],
                idle, scratch,
            )  # fmt: skip
        totals[b] = w.reward_total


@kernel
def look_at(rules, tables, state, b, scratch, observation, mask):  # type: ignore[no-untyped-def]
    """Refresh the verdicts of world `b`; write its observation and mask."""
    w = state.worlds[b]
    refresh(rules, tables, w, state.groups[b], state.resources[b], state.edges[b], scratch)
    observe(rules.params[0], w, state.groups[b], state.resources[b], state.edges[b], observation)
    write_mask(state.resources[b], rules.mode == ENFORCE, mask)


@kernel
def look_batch(rules, tables, state, scratch, observations, masks):  # type: ignore[no-untyped-def]
    """Refresh verdicts, observations and masks of every world."""
    for b in range(state.worlds.shape[0]):
        look_at(rules, tables, state, b, scratch, observations[b], masks[b])


@kernel
def reset_batch(rules, tables, blueprints, sizes, templates, which, seeds, state, scratch, observations, masks):  # type: ignore[no-untyped-def]
    """Build the worlds `which` anew from `seeds` and shapes `templates`."""
    p = rules.params[0]
    for k in range(which.shape[0]):
        b = which[k]
        w = state.worlds[b]
        populate(
            p, sizes, blueprints, templates[k], seeds[k], rules.profile.shape[1],
            w, state.groups[b], state.resources[b], state.edges[b],
        )  # fmt: skip
        events.schedule(rules.events, w)
        load.look_ahead(w, rules.profile)
        immune.forget(state.pending[b])
        look_at(rules, tables, state, b, scratch, observations[b], masks[b])


@kernel
def explain(rules, tables, state, b, slot, scratch):  # type: ignore[no-untyped-def]
    """scratch.rules[k] = ops that rule k forbids on `slot` of world `b`.

    What `look` forbade and no rule forbids now was forbidden by an antibody that has faded since.
    """
    groups, resources = state.groups[b], state.resources[b]
    r = resources[slot]
    if rules.memory_on:
        scratch.antibodies[slot] = tables.antibodies[context(groups[r.group], r)]
    broken_rules(
        rules.params[0], state.worlds[b], groups, resources, state.edges[b],
        scratch.antibodies, slot, scratch.rules,
    )  # fmt: skip
    found = 0
    for k in range(N_RULES):
        found |= scratch.rules[k]
    scratch.rules[ANTIBODY] |= r.forbidden & ~found


@kernel
def resample(p, table, w, groups, resources, key):  # type: ignore[no-untyped-def]
    """Replace what an agent cannot know by a draw from what it can: future luck and hidden state.

    Planners get forks only through this: new random streams; hidden vulnerabilities and unseen exposure from their
    arrival rates since the last look (since the episode's start, and as common as it is then, where nobody has
    looked yet); how much of the load is a burst, and the rest of it; a repair's remaining time; wear; what lies
    behind a late sensor; events to come, and when those under way end (that they are is public, as on a status
    page). Totals that hidden things have entered start again from 0, and the seed is forgotten. Scheduled jobs
    stay: whoever runs the machines knows the schedule, and the observation shows it however far ahead.
    """
    w.key = key
    w.seed = -1
    w.exposure, w.tick_exposure, w.exposure_hours = 0.0, 0.0, 0.0
    w.reward, w.reward_security, w.reward_total = 0.0, 0.0, 0.0
    draws = stream(key, BELIEF, w.tick)
    own = _WORLDS_OWN
    known = events.surge(table, w, w.tick - 1)
    load.believe(p, w, known, uniform(draws, own, 0), uniform(draws, own, 1), uniform(draws, own, 2))
    for i in range(w.n_resources):
        r = resources[i]
        if r.status >= DELETED:
            continue
        since, holes = float(r.ticks_since_analyze), vulnerability_rate(p, r) * r.ticks_since_analyze
        if never_analyzed(w, r) and r.kind != QUEUE:
            holes = p.initial_vulnerabilities + p.vulnerability_rate * w.tick
        r.hidden_count = poisson(holes, uniform(draws, i, 0))
        r.hidden_epss = 0.0
        r.hidden_cvss = 0.0
        for k in range(r.hidden_count):
            more = stream(key, BELIEF, w.tick + (k + 1) * p.ticks)
            u_severe = uniform(more, i, 1)
            r.hidden_epss += draw_epss(p, u_severe, uniform(more, i, 2), uniform(more, i, 3))
            r.hidden_cvss = max(r.hidden_cvss, draw_cvss(p, u_severe, uniform(more, i, 4)))
        if r.logging:
            r.exposed = r.exposure_seen
        elif not r.exposure_seen:
            chance = p.exposure_rate * since
            if never_analyzed(w, r):
                chance = p.initial_exposed + p.exposure_rate * w.tick
            r.exposed = 1 if uniform(draws, i, 4) < min(0.5, chance) else 0
        u = uniform(draws, i, 5)
        scale = LEAK_CLASSES[0] if u < 0.5 else (LEAK_CLASSES[1] if u < 0.8 else LEAK_CLASSES[2])
        r.leak = 0.0 if r.kind == QUEUE else p.health_leak * scale
        if r.status == CRASHED:
            # a supervisor and an isolation take a known time; a failure, new or old, is as open as a fresh one
            if r.incident == OVERLOAD_INCIDENT:
                r.repair_ticks = p.overload_repair_ticks
            elif r.incident == BREACH_INCIDENT:
                r.repair_ticks = p.breach_isolation_ticks
            else:
                r.repair_ticks = failures.repair_time(p, uniform(draws, i, 6), uniform(draws, i, 7))
        r.health = r.past_health[r.lag]
        r.utilisation = r.past_utilisation[r.lag]
        r.latency = r.past_latency[r.lag]
        for k in range(r.lag):  # what the late sensor has measured and not shown yet
            r.past_health[k] = r.health
            r.past_utilisation[k] = r.utilisation
            r.past_latency[k] = r.latency
    events.resample(table, w, groups, resources)


@kernel
def resample_batch(p, table, state, luck, salt):  # type: ignore[no-untyped-def]
    """`resample` every world, each with its own key, drawn from `luck` and `salt`."""
    for b in range(state.worlds.shape[0]):
        key = mix(luck ^ mix(np.uint64(salt * 1_000_003 + b + 1)))
        resample(p[0], table, state.worlds[b], state.groups[b], state.resources[b], key)
