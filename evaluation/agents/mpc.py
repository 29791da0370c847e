"""Model-predictive control: what would each action be worth, over futures as they could come?

All that it knows of a world it gets from `View.imagine`: copies with hidden state and luck drawn anew from what
can be seen. It goes on as a runbook would, and deviates where that pays:

1. Every four hours it plays every list of a portfolio to the end in imagined worlds and goes on under the one with
   the least mean bill: stakes differ between worlds, and so does the list that suits them.
2. Every few ticks, where the list would do nothing, it tries the actions worth considering: play it now, and then
   the list to the end of the day. All are compared on the same imagined worlds, the most promising in more of
   them. What was learned in earlier ticks counts too, the less the older it is: the best of many noisy figures is
   too good to be true, and an outage that comes rarely costs more than a machine saves. It deviates only if the
   mean gain is above `noise` standard errors and `margin` dollars.

Rollouts go to the end: with a shorter horizon, the saving of a smaller machine is booked to midnight and the burst
that it will meet is not.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cloudrl import engine
from cloudrl.actions import (
    ANALYZE,
    ENABLE_LOGGING,
    ENCRYPT,
    N_OPS,
    PATCH,
    RESIZE_UP,
    RESTART,
    RESTRICT_ACCESS,
    ROTATE_CREDS,
)
from cloudrl.policies.runbook import Runbook
from cloudrl.policies.scripted import ScriptedPolicy, act, from_runbook
from cloudrl.simulator import Simulator
from evaluation.agents.agent import View
from evaluation.agents.planning import Desk, dollars, in_threads, portfolio, put
from evaluation.agents.planning_jit import kernel


@kernel
def rollouts(  # type: ignore[no-untyped-def]
    rules, tables, state, actions, kind, settings, every, aside, scratch, observation, mask, out
):
    """out[s, c] = bill, $, of world s of `state`: actions[c] is played now, and then a scripted policy to the end.

    actions[c] < 0: the policy from the start. The policy is asked every `every` ticks, and when something crashed.
    """
    ticks = rules.params[0].ticks
    w, groups, resources, edges = aside.worlds[0], aside.groups[0], aside.resources[0], aside.edges[0]
    noop = resources.shape[0] * N_OPS
    for s in range(state.worlds.shape[0]):
        for c in range(actions.shape[0]):
            put(state, s, aside, 0)
            action, asked = actions[c], actions[c] >= 0
            while w.tick < ticks:
                if not asked:
                    action = noop
                    if kind != 0 and (w.tick % every == 0 or w.tick_crashes > 0):
                        engine.look_at(rules, tables, aside, 0, scratch, observation, mask)
                        action = act(kind, 0, settings, observation, mask, w.key, w.tick)
                asked = False
                engine.step_world(
                    rules, tables, w, groups, resources, edges, aside.pending[0], action, scratch
                )  # fmt: skip
            out[s, c] = dollars(w)


def bills(sim: Simulator, actions: np.ndarray, policy: ScriptedPolicy, every: int = 1) -> np.ndarray:
    """Bills (S, C), $, of the worlds of `sim` under each of `actions` (C,) now and `policy` after it."""
    desk, out = Desk(sim), np.empty((sim.n_worlds, len(actions)))
    rollouts(
        sim.rules, sim.tables, sim.state, np.asarray(actions, np.int64), policy.kind, policy.settings, every,
        desk.aside, desk.scratch, desk.observation, desk.mask, out,
    )  # fmt: skip
    return out


def considered(view: View, world: int) -> np.ndarray:
    """Flat actions, ascending, that are admissible and could be of use as far as one can see; never NOOP."""

    def seen(name: str) -> np.ndarray:
        return view.resource_feature(name)[world]

    use = np.ones((view.n_slots, N_OPS), bool)
    use[:, ANALYZE] = seen("since_analyze") * 144 >= 12
    use[:, PATCH] = (seen("known_count") > 0) | (seen("health") < 0.8)
    use[:, ENCRYPT] = (seen("encrypted") < 0.5) & (seen("data_bearing") > 0.5)
    use[:, ROTATE_CREDS] = seen("credential_age") * 90 > 30
    use[:, RESTART] = (seen("crashed") > 0.5) | (seen("health") < 0.8)
    use[:, RESIZE_UP] = np.maximum(seen("utilisation_peak"), seen("utilisation_soon")) > 0.35
    use[:, ENABLE_LOGGING] = seen("logging") < 0.5
    use[:, RESTRICT_ACCESS] = seen("exposure_seen") > 0.5
    return np.flatnonzero(view.masks[world, :-1] & use.ravel())


def lists(scenario_name: str) -> list[ScriptedPolicy]:
    """The portfolio, and the suite's runbook made bolder and shyer."""
    policies = portfolio(scenario_name)
    book = Runbook.from_vector(policies[1].settings)
    for boldness in (0.6, 0.8, 1.15, 1.4, 1.7):
        policies.append(from_runbook(f"shrinks x{boldness:g}", replace(book, down_peak=boldness * book.down_peak)))
    policies.append(from_runbook("maintains by day", replace(book, downtime_margin=0.5 * book.downtime_margin)))
    policies.append(from_runbook("invests less", replace(book, margin=2.0 * book.margin)))
    return policies


class Evidence:
    """What is known of the gain of every action in one world: samples, weighted less as they grow old.

    One decision's samples are few, and the best of many noisy means is too good to be true. Needs persist, so that
    yesterday's samples of the same action still say something; with them, patience costs little and a mistake is
    rare.
    """

    def __init__(self, n_actions: int) -> None:
        self.weight, self.total, self.square = np.zeros((3, n_actions))

    def fade(self, factor: float) -> None:
        """Let all samples weigh `factor` of what they did."""
        for sums in (self.weight, self.total, self.square):
            sums *= factor

    def add(self, actions: np.ndarray, gains: np.ndarray) -> None:
        """Samples (S, C), $, of the gains of `actions` (C,)."""
        self.weight[actions] += len(gains)
        self.total[actions] += gains.sum(axis=0)
        self.square[actions] += (gains**2).sum(axis=0)

    def means(self, actions: np.ndarray) -> np.ndarray:
        return np.asarray(self.total[actions] / self.weight[actions])

    def bounds(self, actions: np.ndarray, noise: float) -> np.ndarray:
        """Means less `noise` standard errors."""
        n, means = self.weight[actions], self.means(actions)
        variance = np.maximum(0.0, self.square[actions] / n - means**2)
        return np.asarray(means - noise * np.sqrt(variance / np.maximum(1.0, n - 1.0)))


class MPC:
    """Plays imagined worlds to their end before it acts.

    Args:
        list_ticks, list_samples: how often the list is chosen anew, and in how many imagined worlds.
        every: ticks between decisions about deviating.
        samples: imagined worlds in which all actions are tried, and then the most promising.
        few: the number of the latter.
        noise, margin: a gain must exceed `noise` standard errors and `margin` dollars.
        fade: weight of evidence after a tick.
        tail_every: ticks between two looks of the list in rollouts of single actions.
        threads: of the processor; the actions do not depend on it.
    """

    name = "mpc"

    def __init__(
        self,
        *,
        list_ticks: int = 48,
        list_samples: int = 32,
        every: int = 2,
        samples: tuple[int, int] = (4, 12),
        few: int = 4,
        noise: float = 1.0,
        margin: float = 0.1,
        fade: float = 0.95,
        tail_every: int = 3,
        threads: int = 1,
    ) -> None:
        self.list_ticks, self.list_samples, self.every = list_ticks, list_samples, every
        self.samples, self.few, self.noise, self.margin = samples, few, noise, margin
        self.fade, self.tail_every, self.threads = fade, tail_every, threads
        self._lists: list[ScriptedPolicy | None] = []
        self._evidence: list[Evidence] = []

    def begin(self, view: View) -> None:
        """Forget the worlds before."""
        self._lists = [None] * view.n_worlds
        self._evidence = [Evidence(view.noop) for _ in range(view.n_worlds)]

    def act(self, view: View) -> np.ndarray:
        if view.tick == 0 or len(self._lists) != view.n_worlds:
            self.begin(view)
        actions = np.empty(view.n_worlds, np.int64)

        def work(world: int) -> None:
            actions[world] = self._decide(view, world)

        in_threads(view.n_worlds, self.threads, work)
        return actions

    def _decide(self, view: View, world: int) -> int:
        policy = self._lists[world]
        if policy is None or view.tick % self.list_ticks == 0:
            policy = self._lists[world] = self._choose_list(view, world)
        usual = int(policy.act(view.observations[[world]], view.masks[[world]], view.luck[[world]], view.tick)[0])
        if usual != view.noop or view.tick % self.every:
            return usual
        return self._deviation(view, world, policy)

    def _choose_list(self, view: View, world: int) -> ScriptedPolicy:
        sim = view.imagine(world, self.list_samples, salt=_salt(view, 0))
        policies = lists(sim.scenario.name)
        means = [bills(sim, np.array([-1]), policy).mean() for policy in policies]
        return policies[int(np.argmin(means))]

    def _deviation(self, view: View, world: int, policy: ScriptedPolicy) -> int:
        """An action that is worth more than none beyond noise, or NOOP. The list has nothing to do now."""
        evidence = self._evidence[world]
        evidence.fade(self.fade**self.every)
        candidates = considered(view, world)
        if not len(candidates):
            return view.noop
        few = candidates
        for stage, samples in enumerate(self.samples):
            sim = view.imagine(world, samples, salt=_salt(view, 1 + stage))
            out = bills(sim, np.append(few, view.noop), policy, self.tail_every)
            evidence.add(few, out[:, -1:] - out[:, :-1])
            means = evidence.means(few)
            few = few[np.argsort(-means, kind="stable")[: self.few]]
            few = few[evidence.means(few) > self.margin]
            if not len(few):
                return view.noop
        bounds = evidence.bounds(few, self.noise) - self.margin
        return int(few[int(np.argmax(bounds))]) if bounds.max() > 0 else view.noop


def _salt(view: View, purpose: int) -> int:
    return 4 * view.tick + purpose
