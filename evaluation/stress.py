"""What each stress suite is meant to punish, as two ways to play that differ in just that.

A `Lesson` pairs a policy with the habit that a suite is made against and one without it. `measure_lesson` plays
both on the same worlds: the difference of their bills is what the habit costs there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cloudrl.actions import N_OPS, Op
from cloudrl.policies.runbook import COST_RULES, OFF, Runbook
from cloudrl.policies.scripted import ScriptedPolicy, from_runbook, handwritten, noop
from cloudrl.scenarios.library import load_scenario
from cloudrl.scenarios.schema import Scenario
from cloudrl.seeding import VALIDATION_SEEDS
from evaluation.agents.agent import Agent, View
from evaluation.rollout import play_episodes
from evaluation.statistics import Interval, bootstrap

Player = Agent | ScriptedPolicy
SIZE_RULES = ("resize_down", "stop_idle", "delete_idle")


class RestartsAlarms:
    """Restarts whatever has an alarm, the longest not restarted first; else asks `otherwise`."""

    def __init__(self, otherwise: ScriptedPolicy) -> None:
        self.name, self.otherwise = f"{otherwise.name}, and restart on alarm", otherwise

    def act(self, view: View) -> np.ndarray:
        allowed = view.masks[:, Op.RESTART :: N_OPS][:, : view.n_slots]
        due = np.where(
            allowed & (view.resource_feature("alarm") > 0), 1 + view.resource_feature("since_restart"), 0
        )
        restart = due.argmax(axis=1) * N_OPS + Op.RESTART
        return np.where(due.any(axis=1), restart, _asked(self.otherwise, view, view.masks))


class ChangesItsMind:
    """Plays one policy until `tick`, another from then on."""

    def __init__(self, name: str, first: ScriptedPolicy, tick: int, then: ScriptedPolicy) -> None:
        self.name, self.first, self.tick, self.then = name, first, tick, then

    def act(self, view: View) -> np.ndarray:
        return _asked(self.first if view.tick < self.tick else self.then, view, view.masks)


class RestartsOnce:
    """Plays a policy, but lets be what was restarted less than an hour ago."""

    def __init__(self, policy: ScriptedPolicy) -> None:
        self.name, self.policy = f"{policy.name}, no second restart within an hour", policy

    def act(self, view: View) -> np.ndarray:
        masks = view.masks.copy()
        fresh = view.resource_feature("since_restart") * 24 < 12  # ticks
        masks[:, Op.RESTART : -1 : N_OPS] &= ~fresh
        return _asked(self.policy, view, masks)


class StopsReplicas:
    """Plays a policy; when that has nothing to do, stops what carries traffic and may be stopped."""

    def __init__(self, policy: ScriptedPolicy) -> None:
        self.name, self.policy = f"{policy.name}, and stop replicas", policy

    def act(self, view: View) -> np.ndarray:
        actions = _asked(self.policy, view, view.masks)
        spare = view.masks[:, Op.STOP : -1 : N_OPS] & (view.resource_feature("idle") < 0.5)
        stop = spare.argmax(axis=1) * N_OPS + Op.STOP
        return np.where((actions == view.noop) & spare.any(axis=1), stop, actions)


class SeesTheFirst:
    """A policy that acts on the first `n` resources only, as one made for that many."""

    def __init__(self, policy: ScriptedPolicy, n: int) -> None:
        self.name, self.policy, self.n = f"{policy.name}, first {n} resources only", policy, n

    def act(self, view: View) -> np.ndarray:
        masks = view.masks.copy()
        masks[:, self.n * N_OPS : -1] = False
        return _asked(self.policy, view, masks)


def _asked(policy: ScriptedPolicy, view: View, masks: np.ndarray) -> np.ndarray:
    return policy.act(view.observations, masks, view.luck, view.tick)


def _without(*rules: str) -> ScriptedPolicy:
    """The hand-written runbook with some of its rules off."""
    return from_runbook(f"handwritten without {', '.join(rules)}", Runbook(**dict.fromkeys(rules, OFF)))


@dataclass(frozen=True)
class Lesson:
    """A habit and its opposite."""

    scenario: str
    habit: str  # in words: what the suite punishes
    punished: Player
    right: Player


LESSONS = (
    Lesson(
        "stress-retry-storm",
        "waiting for a service to come back by itself",
        _without("restart_crashed"),
        handwritten(),
    ),
    Lesson(
        "stress-zero-day",
        "leaving a severe hole to a quiet hour, behind everything else",
        from_runbook("handwritten, severe holes like all others", Runbook(patch_severe=OFF, patch=9.5)),
        handwritten(),
    ),
    Lesson("stress-leaked-credential", "never rotating credentials", _without("rotate"), handwritten()),
    Lesson(
        "stress-zone-loss",
        "restarting again and again what cannot come back",
        handwritten(),
        RestartsOnce(handwritten()),
    ),
    Lesson("stress-zone-loss", "having stopped the other replicas", StopsReplicas(handwritten()), handwritten()),
    Lesson(
        "stress-sale-day",
        "shrinking to what the forecast needs",
        from_runbook("handwritten, shrinks to 85 % of the forecast peak", Runbook(down_peak=0.85)),
        handwritten(),
    ),
    Lesson("stress-alert-flood", "acting on every alarm", RestartsAlarms(handwritten()), handwritten()),
    Lesson("stress-cost-crunch", "doing nothing about cost", _without(*COST_RULES), handwritten()),
    Lesson(
        "stress-topology-shift",
        "looking only where one has learned to look",
        SeesTheFirst(handwritten(), 12),
        handwritten(),
    ),
    Lesson(
        "stress-price-shock",
        "deciding on sizes once, in the morning",
        ChangesItsMind("handwritten, sizes in the first 3 hours only", handwritten(), 36, _without(*SIZE_RULES)),
        handwritten(),
    ),
)


@dataclass(frozen=True)
class Cost:
    """Mean bills in dollars, and what the habit costs: mean and interval of the paired difference."""

    idle: float
    punished: float
    right: float
    habit: Interval


def measure_lesson(lesson: Lesson, n_worlds: int, scenario: Scenario | None = None) -> Cost:
    """Play both policies, and nothing at all, on the same validation worlds (of `scenario`, if one is given)."""
    scenario = scenario or load_scenario(lesson.scenario)
    seeds = np.arange(VALIDATION_SEEDS.start, VALIDATION_SEEDS.start + n_worlds)
    idle, punished, right = (
        play_episodes(player, scenario, seeds).bill for player in (noop(), lesson.punished, lesson.right)
    )
    return Cost(idle.mean(), punished.mean(), right.mean(), bootstrap(punished - right))
