"""Whole episodes of any agent on given worlds: the same seeds, the same luck, one record per world."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from cloudrl.actions import N_OPS, NOOP
from cloudrl.memory.immune import ImmuneMemory
from cloudrl.policies.scripted import ScriptedPolicy, play
from cloudrl.reward.bill import BILL_PARTS, bill, served_share
from cloudrl.reward.weights import RewardWeights
from cloudrl.safety.config import SafetyConfig
from cloudrl.scenarios.schema import Scenario
from cloudrl.simulator import Simulator
from evaluation.agents.agent import Agent, Clairvoyant, checked, own_luck, view_of


@dataclass(frozen=True)
class Episodes:
    """Results of an agent, one row per world, in the order of the seeds."""

    seeds: np.ndarray  # (B,)
    reward: np.ndarray  # (B,) return of the training reward
    bill: np.ndarray  # (B,) $
    parts: dict[str, np.ndarray]  # $ by part
    won: np.ndarray  # (B,) bool
    served: np.ndarray  # (B,) share of traffic
    violations: np.ndarray  # (B,) executed actions that broke a rule
    vetoed: np.ndarray  # (B,)
    invalid: np.ndarray  # (B,)
    cascades: np.ndarray  # (B,)
    breaches: np.ndarray  # (B,)
    crashes: np.ndarray  # (B,)
    operations: np.ndarray  # (B,)
    ops: np.ndarray | None  # (B, 13) how often each op was executed, None where nobody counted


def play_episodes(
    agent: Agent | Clairvoyant | ScriptedPolicy,
    scenario: Scenario,
    seeds: Sequence[int] | np.ndarray,
    *,
    reward: RewardWeights | None = None,
    safety: SafetyConfig | None = None,
    memory: ImmuneMemory | None = None,
    n_slots: int | None = None,
    on_tick: Callable[[Simulator], None] | None = None,
) -> Episodes:
    """Play one episode per seed. `memory` is read only: everybody meets the same one.

    An agent gets views, a scripted policy is called directly (it is a pure function of what is seen), and only a
    clairvoyant agent is handed the simulator.

    Raises:
        ValueError: the agent returned something that is no array of B whole numbers.
    """
    seeds = np.asarray(seeds, np.int64)
    sim = Simulator(scenario, len(seeds), reward=reward, safety=safety, memory=memory, n_slots=n_slots)
    sim.rules = sim.rules._replace(memory_write=False)
    sim.reset(seeds)
    if isinstance(agent, ScriptedPolicy) and on_tick is None:
        play(sim, agent)
        return _episodes(sim, seeds, None)
    choose = _chooser(agent, sim, seeds)
    ops = np.zeros((len(seeds), N_OPS + 1), np.int64)
    rows = np.arange(len(seeds))
    for tick in range(sim.ticks):
        sim.step(checked(choose(tick), len(seeds), sim.n_actions))
        executed = sim.state.worlds["executed"]
        ops[rows, np.where(executed == sim.noop, NOOP, executed % N_OPS)] += 1
        if on_tick is not None:
            on_tick(sim)
    return _episodes(sim, seeds, ops)


def _chooser(
    agent: Agent | Clairvoyant | ScriptedPolicy, sim: Simulator, seeds: np.ndarray
) -> Callable[[int], np.ndarray]:
    """The agent's actions at a tick."""
    if isinstance(agent, ScriptedPolicy):
        keys = sim.state.worlds["key"].copy()
        return lambda tick: agent.act(sim.observations, sim.masks, keys, tick)
    if isinstance(agent, Clairvoyant):
        plan = agent.foresee(sim)
        return lambda tick: plan[tick]
    luck = own_luck(seeds)
    begin = getattr(agent, "begin", None)
    if begin is not None:
        begin(view_of(sim, luck))
    return lambda tick: agent.act(view_of(sim, luck))


def _episodes(sim: Simulator, seeds: np.ndarray, ops: np.ndarray | None) -> Episodes:
    w = sim.state.worlds.copy()
    return Episodes(
        seeds=seeds,
        reward=w["reward_total"],
        bill=bill(w),
        parts={part: w[part] for part in BILL_PARTS},
        won=sim.won().copy(),
        served=served_share(w),
        violations=w["violations"],
        vetoed=w["vetoed"],
        invalid=w["invalid"],
        cascades=w["cascades"],
        breaches=w["breaches"],
        crashes=w["crashes"],
        operations=w["operations"],
        ops=ops,
    )
