"""Who plays an episode on the page: an agent by its spec, or what was played in an evaluation."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

import numpy as np

from cloudrl.errors import UserError
from cloudrl.policies.scripted import ScriptedPolicy
from cloudrl.safety.config import SafetyConfig
from cloudrl.scenarios.schema import Scenario
from cloudrl.simulator import Simulator
from evaluation.agents.agent import Clairvoyant, checked, own_luck, view_of
from evaluation.agents.entry import Context
from evaluation.agents.registry import Player, build, find
from evaluation.dashboard import commands, results
from evaluation.dashboard.folders import Folders
from evaluation.dashboard.playthrough import Playthrough
from evaluation.replay import rules_of
from evaluation.suites import find_scenario

_MOST_KEPT = 3  # loaded agents
_LARGEST = 100  # resources of a scaled suite


class AgentPilot:
    """An agent that plays the one world of a simulator."""

    def __init__(self, player: Player, scenario: Scenario, seed: int, safety: SafetyConfig) -> None:
        self.player = player
        self._luck = own_luck([seed])
        self._plan: np.ndarray | None = None
        if isinstance(player, Clairvoyant) and not isinstance(player, ScriptedPolicy):
            sim = Simulator(scenario, 1, safety=safety)
            sim.reset(seed)
            self._plan = player.foresee(sim)
        self._begun = False

    def __call__(self, sim: Simulator) -> int:
        tick = int(sim.state.worlds["tick"][0])
        player: Any = self.player
        if self._plan is not None:
            return int(self._plan[tick][0])
        if isinstance(player, ScriptedPolicy):
            return int(player.act(sim.observations, sim.masks, sim.state.worlds["key"], tick)[0])
        view = view_of(sim, self._luck)
        if not self._begun:
            self._begun = True
            if hasattr(player, "begin"):
                player.begin(view)
        return int(checked(player.act(view), 1, sim.n_actions)[0])


class ReplayPilot:
    """What was played, tick by tick; what a person changed in between may make some of it impossible."""

    def __init__(self, actions: np.ndarray) -> None:
        self.actions = actions  # (T,) flat

    def __call__(self, sim: Simulator) -> int:
        return int(self.actions[int(sim.state.worlds["tick"][0])])


def suite(folders: Folders, name: str) -> Scenario:
    """A suite that a page may name, and that can be drawn. Raises UserError."""
    spec = commands.suite(folders, name)
    if spec.startswith("scaled-") and int(spec.removeprefix("scaled-")) > _LARGEST:
        raise UserError(f"suite {name}: the page draws up to {_LARGEST} resources")
    return find_scenario(spec)


def with_agent(folders: Folders, suite_name: str, seed: object, spec: str, mode: SafetyConfig) -> Playthrough:
    """A world of a suite, played by an agent. Raises UserError, and whatever the making of an agent raises."""
    scenario, number = suite(folders, suite_name), _seed(seed)
    context = Context(scenario, actions=mode.actions)
    (entry,) = find([commands.agent(folders, spec)], context)[:1]
    player = _LOADED.get(entry, context) if entry.slow or ":" in entry.spec else build(entry, context)
    return Playthrough(scenario, number, AgentPilot(player, scenario, number, mode), mode, entry.name)


def of_evaluation(folders: Folders, run: str, agent: str, seed: object) -> Playthrough:
    """An episode of an evaluation, as it was played. Raises UserError: gone, changed, or not played."""
    found = results.read(folders, run)
    scenario, safety = rules_of(found.suite)
    played = found.agent(agent)
    if played.actions is None:
        raise UserError(f"{run}: has no actions.npz, so its episodes cannot be replayed")
    number = _seed(seed)
    rows = np.flatnonzero(found.seeds == number)
    if not len(rows):
        raise UserError(f"seed {number} was not played there; it played {found.seeds[0]} to {found.seeds[-1]}")
    play = Playthrough(scenario, number, ReplayPilot(played.actions[rows[0]]), safety, f"{agent}, replayed")
    for _ in play.finish():
        pass
    cost, recorded = float(play.sim.bill()[0]), float(played["bill"][rows[0]])
    if cost != recorded:
        raise UserError(
            f"{run}: the replay of world {number} costs ${cost:.4f}, the results say ${recorded:.4f}: they were "
            "made by another version of the simulator; run the evaluation again"
        )
    play.goto(0)
    return play


def _seed(value: object) -> int:
    try:
        seed = int(str(value).strip())
    except ValueError:
        raise UserError(f"seed {value}: a whole number is needed") from None
    if not 0 <= seed < 10**15:
        raise UserError(f"seed {seed}: from 0 to 10^15")
    return seed


class _Loaded:
    """The agents that were loaded last: several people may look at one, and weights are large."""

    def __init__(self) -> None:
        self._players: OrderedDict[tuple[str, str], Player] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, entry: Any, context: Context) -> Player:
        key = (entry.identity, context.scenario.name)
        if not entry.spec.startswith(commands.ON_DISK):  # planners remember what they planned
            return build(entry, context)
        with self._lock:
            player = self._players.pop(key, None) or build(entry, context)
            self._players[key] = player
            while len(self._players) > _MOST_KEPT:
                self._players.popitem(last=False)
        return player


_LOADED = _Loaded()
