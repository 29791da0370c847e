"""The environment around one world of plain objects."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from cloudrl.actions import ALL_OPS, CORE_OPS, N_OPS, n_actions
from cloudrl.observation import LIMIT, size
from cloudrl.reward.weights import RewardWeights
from cloudrl.safety.config import ActionSet, SafetyConfig, SafetyMode
from cloudrl.scenarios.library import shapes, split_of
from cloudrl.scenarios.profile import sine_profile
from cloudrl.scenarios.schema import Scenario
from cloudrl.seeding import TRAIN_SEEDS
from cloudrl.types import ADMISSIBLE, INVALID, VETOED
from tests.twin import events, safety
from tests.twin.generator import Shape, create
from tests.twin.memory import TwinMemory, context
from tests.twin.model import Resource, World, constants
from tests.twin.observation import observe
from tests.twin.reward import reward
from tests.twin.streams import mix
from tests.twin.tick import tick
from tests.twin.traffic import Profile


class TwinEnv(gymnasium.Env[np.ndarray, int]):
    """One world of a scenario, stepped object by object.

    Args:
        scenario: the distribution of worlds.
        weights: of the training reward.
        safety_config: mode and action set.
        memory: an immune memory; several environments may share one (`play` them in turn, then `settle` it).
        n_slots: pad observation and actions to this many resources.
    """

    def __init__(
        self,
        scenario: Scenario,
        weights: RewardWeights | None = None,
        safety_config: SafetyConfig | None = None,
        memory: TwinMemory | None = None,
        n_slots: int | None = None,
    ) -> None:
        self.p = constants(scenario)
        self.events = scenario.events
        self.weights = weights or RewardWeights()
        config = safety_config or SafetyConfig()
        self.mode = config.mode
        allowed = CORE_OPS if config.actions is ActionSet.core else ALL_OPS
        self.allowed = frozenset(op for op in range(N_OPS) if allowed >> op & 1)
        self.memory = memory if memory is not None and memory.config.enabled else None
        self.n_slots = n_slots or scenario.slots
        blueprints, self.splits, table = _tables(scenario)
        self.shapes = [Shape(blueprints, t) for t in range(len(blueprints.heads))]
        self.profile = Profile(table[0].tolist(), table[1].tolist())
        self.noop = self.n_slots * N_OPS
        self.action_space = gymnasium.spaces.Discrete(n_actions(self.n_slots))
        self.observation_space = gymnasium.spaces.Box(-LIMIT, LIMIT, (size(self.n_slots),), np.float32)
        self.world: World

    # ------------------------------------------------------------------ gymnasium
    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is None:
            seed = int(self.np_random.integers(TRAIN_SEEDS.start, TRAIN_SEEDS.stop))
        choices = self.splits[split_of(seed)]
        shape = self.shapes[choices[(mix(seed ^ 0x5EED) >> 17) % len(choices)]]
        self.world = create(self.p, shape, seed, self.profile.period)
        events.schedule(self.world, self.events)
        self.profile.forecast(self.world)
        self.look()
        return self.observation(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        gained = self.play(int(action))
        if self.memory is not None:
            self.memory.settle(int(self.finished))
        return self.observation(), gained, self.finished, False, {}

    def action_masks(self) -> np.ndarray:
        """(A,) bool: what may be chosen."""
        mask: list[bool] = []
        enforce = self.mode is SafetyMode.enforce
        for r in self.world.resources:
            blocked = r.impossible | r.forbidden if enforce else r.impossible
            mask += [op not in blocked for op in range(N_OPS)]
        mask += [False] * (self.noop - len(mask))
        mask.append(True)
        return np.array(mask)

    def observation(self) -> np.ndarray:
        return observe(self.p, self.world, self.n_slots)

    @property
    def finished(self) -> bool:
        return self.world.tick >= self.p.ticks

    # ------------------------------------------------------------------ one tick
    def play(self, action: int) -> float:
        """Judge the action, play one tick, look again. Returns the reward; the memory is not merged yet."""
        w = self.world
        op, target = self.accept(action)
        w.executed = self.noop if target is None else action
        if self.memory is not None and op is not None and target is not None:
            self.memory.note(w, target, op)
        tick(self.p, w, self.profile, op, target)
        reward(self.weights, w)
        if self.memory is not None:
            self.memory.watch(w)
        self.look()
        return w.reward

    def accept(self, action: int) -> tuple[int | None, Resource | None]:
        """What is really done: (op, resource), or (None, None) for NOOP and for what is rejected."""
        w = self.world
        w.verdict = ADMISSIBLE
        if action == self.noop:
            return None, None
        slot, op = divmod(action, N_OPS)
        if not 0 <= slot < len(w.resources) or op in w.resources[slot].impossible:
            w.verdict = INVALID
            w.invalid += 1
            return None, None
        r = w.resources[slot]
        if op in r.forbidden:
            w.verdict = VETOED
            w.vetoed += 1
            if self.mode is SafetyMode.enforce:
                return None, None
            w.violations += 1
        return op, r

    def look(self) -> None:
        """What memory and safety say of the world as it now is."""
        antibodies = {}
        if self.memory is not None:
            for r in self.world.resources:
                where = context(r)
                antibodies[r] = self.memory.antibodies.get(where, safety.NONE)
                r.memory_risk = self.memory.risk.get(where, 0.0)
        safety.judge(self.p, self.world, antibodies, self.allowed, self.mode is not SafetyMode.off)


def _tables(scenario: Scenario) -> tuple[Any, dict[str, list[int]], np.ndarray]:
    """Shapes, which of them belong to which split, and the load profile."""
    if scenario.path is not None:
        from cloudrl.scenarios.estate import load_estate

        return load_estate(scenario)
    blueprints, splits = shapes(scenario)
    return blueprints, splits, sine_profile(scenario.load.diurnal_amplitude, scenario.safety_limits.forecast_ticks)
