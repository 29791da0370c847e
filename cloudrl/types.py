"""The state of a batch of worlds: one record per world, replica group, resource and dependency.

Kernels read and write records by name (`r.health`); people and tests see columns (`state.resources["health"]`,
shape (B, N)). B worlds, N slots (padded with status ABSENT), G = N groups at most, E dependencies.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# kinds of resources
VM, DATABASE, CACHE, QUEUE = range(4)
KIND_NAMES = ("vm", "database", "cache", "queue")
# status of a resource
RUNNING, STOPPED, CRASHED, DELETED, ABSENT = range(5)
STATUS_NAMES = ("running", "stopped", "crashed", "deleted", "absent")
# kinds of dependencies
HARD, SOFT, CACHED = range(3)
DEPENDENCY_NAMES = ("hard", "soft", "cache")
MAX_SIZE = 3
"""Sizes 0..3 are 1, 2, 4, 8 vCPU."""
LAG = 3
"""Longest delay of a metric in ticks."""
# timed events of a scenario
SURGE, ALARM_FLOOD, ZONE_LOSS, SERVICE_LOSS, HOLE, LEAK, PRICE = range(7)
EVENT_NAMES = ("surge", "alarms", "zone", "service", "hole", "leak", "price")
ANY_KIND, ONE_KIND = -1, -2  # of resource that an event hits, beside the kinds themselves
MAX_EVENTS = 6
"""Timed events of one world."""

_f, _i, _b, _u = np.float64, np.int32, np.int8, np.uint64

RESOURCE = np.dtype(
    [
        # what it is
        ("kind", _b),  # VM, DATABASE, CACHE, QUEUE
        ("critical", _b),  # tier: 1 = critical
        ("data_bearing", _b),
        ("multi_az", _b),
        ("idle", _b),  # 1 = no traffic is routed to it
        ("group", _i),  # index into groups
        ("unit_price", _f),  # $ / hour per vCPU (per queue)
        ("exposure_base", _f),  # exploit exposure while not public, 0..1
        ("leak", _f),  # health lost per tick, mean
        ("job_start", _i),  # tick at which its scheduled job starts, -1 = none
        # how it is
        ("status", _b),
        ("size", _b),  # log2 of vCPU
        ("busy_op", _b),  # op in progress
        ("busy_ticks", _i),  # ticks left of it, 0 = free
        ("repair_ticks", _i),  # ticks until a crashed resource comes back by itself
        ("overload_ticks", _i),  # ticks in a row with utilisation above 1
        ("incident", _b),  # what hit it this tick: one of INCIDENT_NAMES
        ("hold", _b),  # 1 = a rotation broke its clients for one tick
        ("health", _f),  # 0..1
        ("warmth", _f),  # of a cache, 0..1
        ("serving", _f),  # share of this tick in which it serves, 0..1
        ("utilisation", _f),  # load / capacity
        ("latency", _f),  # response time / service time
        # how secure it is
        ("known_count", _i),  # open vulnerabilities found by ANALYZE
        ("known_epss", _f),  # their summed probability of exploitation in 30 days
        ("known_cvss", _f),  # worst severity, 0..10
        ("hidden_count", _i),  # not found yet
        ("hidden_epss", _f),
        ("hidden_cvss", _f),
        ("exposed", _b),  # open to the internet
        ("exposure_seen", _b),  # ... and somebody knows
        ("encrypted", _b),
        ("logging", _b),
        ("credential_days", _f),
        ("ticks_since_analyze", _i),
        ("ticks_since_restart", _i),
        # what may be done with it: bit sets of ops, refreshed at the end of every tick
        ("impossible", _i),  # make no sense now
        ("forbidden", _i),  # vetoed by the safety rules
        # what the sensors say
        ("lag", _b),  # ticks by which its metrics are late
        ("alarm", _b),
        ("past_health", _f, (LAG + 1,)),  # [k] = k ticks ago
        ("past_utilisation", _f, (LAG + 1,)),
        ("past_latency", _f, (LAG + 1,)),
        ("memory_risk", _f),  # highest risk that the immune memory sees in acting on it, 0..1
    ],
    align=True,
)

GROUP = np.dtype(
    [
        ("first", _i),  # slot of the first replica
        ("count", _i),  # replicas: slots first .. first+count-1
        ("edge_first", _i),  # its dependencies: edges edge_first .. edge_first+edge_count-1
        ("edge_count", _i),
        ("idle", _b),
        ("dependents", _i),  # groups that send traffic here
        ("entry_share", _f),  # share of the outside traffic that enters here
        ("demand", _f),  # vCPU per unit of load
        ("weight", _f),  # traffic of the world that needs it, at nominal load
        ("load", _f),  # load that arrives, units of mean outside traffic
        ("capability", _f),  # share of its load it serves by itself
        ("slow_self", _f),  # share of its answers late by itself
        ("availability", _f),  # with its dependencies
        ("slow", _f),
    ],
    align=True,
)

EDGE = np.dtype(
    [
        ("target", _i),  # group
        ("kind", _b),  # HARD, SOFT, CACHED
        ("calls", _f),  # calls per request of the caller
        ("cache", _i),  # slot of the cache in front of the target, -1 = none
    ],
    align=True,
)

EVENT = np.dtype(
    [
        ("kind", _i),
        ("hits", _i),  # kind of resource, ANY_KIND, ONE_KIND
        ("start_min", _i),  # ticks
        ("start_max", _i),
        ("ticks_min", _i),
        ("ticks_max", _i),
        ("strength_low", _f),
        ("strength_high", _f),
        ("share", _f),  # of the resources that it can hit
    ],
    align=True,
)

WORLD = np.dtype(
    [
        ("key", _u),  # luck: key of all random streams
        ("seed", np.int64),
        ("n_resources", _i),
        ("n_groups", _i),
        ("template", _i),  # shape it was built from
        ("tick", _i),
        # stakes
        ("base_cost", _f),  # infrastructure of the first state, $ / hour
        ("value", _f),  # of full service at mean load, $ / hour
        ("breach_factor", _f),
        ("labour_factor", _f),
        ("burst_factor", _f),
        # the stakes as observations show them, logarithms
        ("log_value", _f),
        ("log_breach", _f),
        ("log_burst", _f),
        ("log_cost", _f),
        # load
        ("phase", _f),  # column of the load profile at tick 0
        ("noise", _f),  # AR(1), log load
        ("burst_ticks", _i),
        ("burst", _f),  # x load
        ("load", _f),  # outside traffic this tick, mean 1
        ("forecast_now", _f),  # what was forecast for this tick
        ("forecast_peak", _f),  # highest forecast within the veto horizon
        ("forecast_soon", _f),  # in 30 minutes
        ("served", _f),  # share of traffic served this tick
        ("slow", _f),  # share of it late
        # timed events, in the order of the scenario's; never observed
        ("event_start", _i, (MAX_EVENTS,)),  # tick
        ("event_end", _i, (MAX_EVENTS,)),
        ("event_strength", _f, (MAX_EVENTS,)),
        ("event_pick", _f, (MAX_EVENTS,)),  # 0..1: which zone, service or kind
        # guards
        ("changes", _f),  # disruptive operations charged to the change budget
        ("cascade", _b),  # 1 = a cascade runs
        ("cascade_root", _i),  # group where it began, -1 = none
        ("cascade_blast", _f),  # share of traffic weight with availability < 1/2
        # this tick, dollars
        ("tick_infrastructure", _f),
        ("tick_outage", _f),
        ("tick_exposure", _f),
        ("tick_labour", _f),
        # this tick, reward: weighted terms and their sum
        ("reward_cost", _f),
        ("reward_security", _f),
        ("reward_reliability", _f),
        ("reward_action", _f),
        ("reward_failure", _f),
        ("reward", _f),
        # this tick, events
        ("executed", _i),  # flat action that really ran
        ("verdict", _b),  # on the action that was asked for: ADMISSIBLE, INVALID, VETOED
        ("tick_crashes", _i),
        ("tick_breaches", _i),
        ("tick_cascades", _i),
        # so far
        ("infrastructure", _f),
        ("outage", _f),
        ("exposure", _f),
        ("labour", _f),
        ("breach_realised", _f),  # loss of the breaches that happened; reported, not billed
        ("reward_total", _f),
        ("served_traffic", _f),
        ("traffic", _f),
        ("exposure_hours", _f),
        ("crashes", _i),
        ("breaches", _i),
        ("cascades", _i),
        ("max_blast", _f),
        ("operations", _i),
        ("disruptions", _i),
        ("invalid", _i),
        ("vetoed", _i),
        ("violations", _i),  # executed actions that broke a rule
        ("data_losses", _i),
    ],
    align=True,
)

# incidents
NO_INCIDENT, FAILURE_INCIDENT, OVERLOAD_INCIDENT, BREACH_INCIDENT = range(4)
INCIDENT_NAMES = ("none", "failure", "overload", "breach")
# verdicts on an action
ADMISSIBLE, INVALID, VETOED = range(3)
VERDICT_NAMES = ("admissible", "invalid", "vetoed")

PENDING = 32
"""Observations that wait for their outcome in a world's immune memory."""
PENDING_DTYPE = np.dtype(
    [
        ("signature", _i),  # -1 = free
        ("group", _i),
        ("tick", _i),  # when it was made
        ("bad", _b),  # a cascade or breach followed
        ("severity", _f),  # blast radius or loss share, 0..1
    ],
    align=True,
)


class State(NamedTuple):
    """A batch of worlds. Copying the five arrays copies everything, luck included."""

    worlds: np.ndarray  # (B,) WORLD
    groups: np.ndarray  # (B, N) GROUP, front to back: a group's dependencies come after it
    resources: np.ndarray  # (B, N) RESOURCE, the replicas of a group side by side
    edges: np.ndarray  # (B, E) EDGE
    pending: np.ndarray  # (B, PENDING) PENDING_DTYPE

    @classmethod
    def blank(cls, n_worlds: int, n_slots: int, n_edges: int) -> State:
        """Arrays of undefined content in one piece of memory, which is faster than five allocations of records."""
        shapes = (
            (WORLD, ()),
            (GROUP, (n_slots,)),
            (RESOURCE, (n_slots,)),
            (EDGE, (n_edges,)),
            (PENDING_DTYPE, (PENDING,)),
        )
        lengths = [n_worlds * dtype.itemsize * (shape[0] if shape else 1) for dtype, shape in shapes]
        memory, start, arrays = np.empty(sum(lengths), np.uint8), 0, []
        for (dtype, shape), length in zip(shapes, lengths, strict=True):
            arrays.append(np.ndarray((n_worlds, *shape), dtype, memory, start))
            start += length
        return cls(*arrays)

    @classmethod
    def empty(cls, n_worlds: int, n_slots: int, n_edges: int) -> State:
        """Zeroed arrays, every slot ABSENT."""
        state = cls.blank(n_worlds, n_slots, max(1, n_edges))
        for array in state:
            _rows(array)[:] = 0
        state.resources["status"] = ABSENT
        return state

    def copy(self) -> State:
        """A deep copy."""
        return self.take(slice(None))

    def take(self, index: np.ndarray | slice) -> State:
        """The worlds at `index` as a new batch."""
        return State(*(_records(_rows(array)[index].copy(), array) for array in self))

    def put(self, other: State) -> None:
        """Overwrite all worlds with those of a batch of the same size."""
        for mine, theirs in zip(self, other, strict=True):
            _rows(mine)[:] = _rows(theirs)


def _rows(array: np.ndarray) -> np.ndarray:
    """One row of bytes per world, a view: numpy moves bytes three times faster than it copies records."""
    return array.view(np.uint8).reshape(len(array), -1)


def _records(rows: np.ndarray, like: np.ndarray) -> np.ndarray:
    return rows.view(like.dtype).reshape(len(rows), *like.shape[1:])
