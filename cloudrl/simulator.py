"""The simulator: a batch of worlds that are stepped together, snapshot, forked and asked what if."""

from __future__ import annotations

from typing import Any

import numpy as np

from cloudrl import engine, observation
from cloudrl.actions import ALL_OPS, CORE_OPS, N_OPS, Op, n_actions, noop_index
from cloudrl.copies import spread
from cloudrl.dispatch import Direct
from cloudrl.memory.config import MemoryConfig
from cloudrl.memory.immune import ImmuneMemory, Tables
from cloudrl.records import record, record_dtype
from cloudrl.reward.bill import bill, won
from cloudrl.reward.weights import RewardWeights
from cloudrl.safety.config import ActionSet, SafetyConfig
from cloudrl.safety.layer import Verdict, new_scratch
from cloudrl.safety.rules import RULES
from cloudrl.scenarios.blueprint import Blueprints
from cloudrl.scenarios.estate import load_estate, with_estate
from cloudrl.scenarios.events import event_table
from cloudrl.scenarios.library import shapes, split_of
from cloudrl.scenarios.profile import sine_profile
from cloudrl.scenarios.schema import Scenario, params
from cloudrl.seeding import mix
from cloudrl.types import ADMISSIBLE, INVALID, STATUS_NAMES, VETOED, State

REWARD = record_dtype(RewardWeights())
_MODES = {"enforce": engine.ENFORCE, "observe": engine.OBSERVE, "off": engine.OFF}


class _Kernels:
    """The kernels that are called often. A simulator's forks, whose arrays have the same types, share them."""

    def __init__(self) -> None:
        self.step = Direct(engine.step_batch)
        self.look = Direct(engine.look_batch)
        self.look_at = Direct(engine.look_at)
        self.idle_totals = Direct(engine.idle_totals)
        self.resample = Direct(engine.resample_batch)
        self.spread = Direct(spread)
        self.explain = Direct(engine.explain)

    def __reduce__(self) -> tuple[Any, ...]:  # machine code stays where it is
        return _Kernels, ()


class Simulator:
    """B worlds of one scenario.

    After `reset` or `step` the arrays `observations` (B, D) float32, `masks` (B, A) bool, `rewards` (B,) float64
    and `done` hold the current values; they are the simulator's own buffers and change at the next step: copy what
    you keep.

    Args:
        scenario: the distribution of worlds.
        n_worlds: B.
        reward: weights of the training reward.
        safety: mode and action set.
        memory: an immune memory shared by the worlds; None = no memory.
        n_slots: pad worlds to this many resources (default: scenario.slots).
    """

    _aside: State  # one world, to play in

    def __init__(
        self,
        scenario: Scenario,
        n_worlds: int = 1,
        *,
        reward: RewardWeights | None = None,
        safety: SafetyConfig | None = None,
        memory: ImmuneMemory | None = None,
        n_slots: int | None = None,
    ) -> None:
        if n_worlds < 1:
            raise ValueError(f"n_worlds is {n_worlds}; it must be at least 1")
        self.scenario = scenario = with_estate(scenario)
        self.reward_weights = reward or RewardWeights()
        self.safety = safety or SafetyConfig()
        self.memory = memory
        blueprints, self._splits, profile = _build(scenario)
        self.n_slots = n_slots or scenario.slots
        self.blueprints = blueprints if self.n_slots == scenario.slots else _pad(blueprints, self.n_slots)
        t = scenario.topology
        self._sizes = np.array([t.size_2, t.size_2 + t.size_4])
        self._templates = {k: np.array(v) for k, v in self._splits.items()}
        self.params = params(scenario)
        self.rules = engine.Rules(
            params=self.params,
            weights=record(self.reward_weights, REWARD),
            profile=np.ascontiguousarray(profile, np.float64),
            events=event_table(scenario.events),
            allowed_ops=CORE_OPS if self.safety.actions is ActionSet.core else ALL_OPS,
            mode=_MODES[self.safety.mode.value],
            memory_on=memory is not None and memory.config.enabled,
            memory_write=memory is not None and memory.writable,
            window=(memory.config if memory is not None else MemoryConfig()).window_ticks,
        )
        self.tables = memory.tables if memory is not None else _NO_MEMORY
        self._kernels = _Kernels()
        self._allocate(n_worlds, State.empty(n_worlds, self.n_slots, self.blueprints.edges.shape[1]))

    def _allocate(self, n_worlds: int, state: State) -> None:
        self.n_worlds = n_worlds
        self.state = state
        self.scratch = engine.Scratch(new_scratch(), np.zeros(self.n_slots, np.int64))
        self.observations = np.zeros((n_worlds, observation.size(self.n_slots)), np.float32)
        self.masks = np.zeros((n_worlds, self.n_actions), np.bool_)
        self.rewards = np.zeros(n_worlds)

    # ------------------------------------------------------------------ sizes
    @property
    def n_actions(self) -> int:
        return n_actions(self.n_slots)

    @property
    def noop(self) -> int:
        """Flat index of NOOP."""
        return noop_index(self.n_slots)

    @property
    def ticks(self) -> int:
        """Length of an episode."""
        return self.scenario.horizon.ticks

    # ------------------------------------------------------------------ play
    def reset(self, seeds: Any, which: Any = None) -> np.ndarray:
        """Start the worlds `which` (indices or a mask, default: all) from `seeds`. Returns observations (B, D).

        A seed per world fixes it and all its luck; its range decides the split the shape is drawn from.
        """
        which = self._worlds(which)
        seeds = np.broadcast_to(np.asarray(seeds, np.int64), which.shape)
        if seeds.size and seeds.min() < 0:
            raise ValueError(f"seed {seeds.min()} is negative; seeds start at 0")
        templates = self.templates_for(seeds)
        engine.reset_batch(
            self.rules, self.tables, self.blueprints, self._sizes, templates, which, np.ascontiguousarray(seeds),
            self.state, self.scratch, self.observations, self.masks,
        )  # fmt: skip
        return self.observations

    def _check_world(self, world: int) -> None:
        if not 0 <= world < self.n_worlds:
            raise IndexError(f"world {world} is outside 0..{self.n_worlds - 1}")

    def _worlds(self, which: Any) -> np.ndarray:
        """Indices of worlds from indices, a mask (B,) bool, or None = all."""
        which = np.arange(self.n_worlds) if which is None else np.asarray(which)
        if which.dtype == np.bool_:
            if which.shape != (self.n_worlds,):
                raise IndexError(f"the mask of worlds has shape {which.shape}, expected ({self.n_worlds},)")
            which = np.flatnonzero(which)
        which = np.asarray(which, np.int64)
        self._check_worlds(which)
        return which

    def _check_worlds(self, which: Any) -> None:
        """Kernels do not check indices: a wrong one would write anywhere."""
        which = np.atleast_1d(which)
        wrong = which[(which < 0) | (which >= self.n_worlds)]
        if wrong.size:
            raise IndexError(f"world {wrong[0]} is outside 0..{self.n_worlds - 1}")

    def templates_for(self, seeds: np.ndarray) -> np.ndarray:
        """Shape of each seed's world, (B,)."""
        out = np.zeros(len(seeds), np.int64)
        for k, seed in enumerate(seeds):
            choices = self._templates[split_of(int(seed))]
            out[k] = choices[_template_draw(int(seed)) % len(choices)]
        return out

    def step(self, actions: Any, look: bool = True) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Play one tick with flat `actions` (B,). Returns observations, rewards, done.

        `look=False` skips masks and observations (and with them the verdict on the next action: use it for NOOP).
        """
        actions = np.array(actions, np.int64)  # a copy, contiguous and writable: the kernel expects this very type
        if actions.shape != (self.n_worlds,):
            raise ValueError(f"actions have shape {actions.shape}, expected ({self.n_worlds},)")
        changed = self._kernels.step(
            self.rules, self.tables, self.state, actions, self.scratch,
            self.rewards, self.observations, self.masks, look,
        )  # fmt: skip
        if self.memory is not None:
            if changed:
                self.memory.refresh()
            if self.rules.memory_write:
                self.memory.end_episodes(int((self.state.worlds["tick"] == self.ticks).sum()))
        return self.observations, self.rewards, self.done

    @property
    def done(self) -> np.ndarray:
        """(B,) bool: the horizon is reached (terminated: nothing beyond it counts)."""
        return self.state.worlds["tick"] >= self.ticks

    # ------------------------------------------------------------------ safety
    def verdict(self, world: int, action: int) -> Verdict:
        """What the safety layer says of `action` in `world` now, with rule ids and a reason."""
        self._check_world(world)
        if action == self.noop:
            return Verdict(ADMISSIBLE)
        if not 0 <= action < self.noop:
            return Verdict(INVALID, reason=f"action {action} is outside 0..{self.noop}")
        slot, op = divmod(int(action), N_OPS)
        r = self.state.resources[world, slot]
        if (r["impossible"] >> op) & 1:
            return Verdict(INVALID, reason=f"{Op(op).name} makes no sense here: {_condition(r)}")
        if self.rules.mode == engine.OFF or not (r["forbidden"] >> op) & 1:
            return Verdict(ADMISSIBLE)
        self._kernels.explain(self.rules, self.tables, self.state, int(world), slot, self.scratch)
        broken = [rule for rule, ops in zip(RULES, self.scratch.rules.tolist(), strict=True) if (ops >> op) & 1]
        return Verdict(VETOED, tuple(rule.id for rule in broken), "; ".join(rule.reason for rule in broken))

    # ------------------------------------------------------------------ copies
    def snapshot(self, world: int | None = None) -> State:
        """A copy of one world (a batch of 1) or of all."""
        if world is None:
            return self.state.copy()
        self._check_world(world)
        return self._copies(world, 1)

    def _copies(self, world: int, n: int) -> State:
        """`n` copies of one world."""
        out = State.blank(n, self.n_slots, self.state.edges.shape[1])
        self._kernels.spread(self.state, int(world), out, 0, n)
        return out

    def restore(self, snapshot: State, world: int | None = None) -> None:
        """Put a snapshot back: of all worlds, or of one into place `world`."""
        if world is not None:
            self._check_world(world)
        n = self.n_worlds if world is None else 1
        for mine, theirs in zip(self.state, snapshot, strict=True):
            if theirs.shape != (n, *mine.shape[1:]) or theirs.dtype != mine.dtype or not theirs.flags.c_contiguous:
                raise ValueError("the snapshot is of another size or version")
        if world is None:
            self.state.put(snapshot)
            self.look()
        else:
            self._kernels.spread(snapshot, 0, self.state, int(world), 1)
            self._kernels.look_at(
                self.rules, self.tables, self.state, int(world), self.scratch,
                self.observations[world], self.masks[world],
            )  # fmt: skip

    def look(self) -> np.ndarray:
        """Recompute verdicts, masks and observations. Returns the observations."""
        self._kernels.look(self.rules, self.tables, self.state, self.scratch, self.observations, self.masks)
        return self.observations

    def fork(
        self, world: int, n: int = 1, luck: str = "same", salt: int = 0, key: int | np.uint64 | None = None
    ) -> Simulator:
        """`n` copies of one world in a simulator of their own, which never writes to the immune memory.

        luck="same": the copies share the original's future draws and hidden state (training signals, the oracle).
        luck="resampled": future and hidden state are drawn anew from what an agent can know (planners), by the
        random streams of `key` (uint64) and `salt`. The default key is the world's own: the copies hold nothing of
        its future, but its key could be computed back from theirs.
        """
        self._check_world(world)
        if luck not in ("same", "resampled"):
            raise ValueError(f"luck is {luck!r}; it must be 'same' or 'resampled'")
        child = object.__new__(Simulator)
        child.__dict__.update(self.__dict__)
        child.__dict__.pop("_aside", None)
        child.memory = None
        child.rules = self.rules._replace(memory_write=False)
        child._allocate(n, self._copies(world, n))
        if luck == "resampled":
            own = self.state.worlds["key"][world] if key is None else key
            self._kernels.resample(self.params, self.rules.events, child.state, np.uint64(own), int(salt))
        child.observations[:] = self.observations[world]
        child.masks[:] = self.masks[world]
        return child

    def peek(self, world: int, actions: Any) -> tuple[np.ndarray, np.ndarray]:
        """What each of `actions` would bring within one tick, on the same luck: rewards (n,), dollars (n,)."""
        actions = np.atleast_1d(np.asarray(actions, np.int64))
        forked = self.fork(world, len(actions))
        before = bill(forked.state.worlds)
        forked.step(actions, look=False)
        return forked.rewards.copy(), bill(forked.state.worlds) - before

    def idle_totals(self, which: Any = None, out: np.ndarray | None = None) -> np.ndarray:
        """Reward of the whole episode if nothing is done from now on, same luck: for the worlds `which`, (B,).

        The do-nothing tail is a potential: the change of this number over a tick is what the tick's action was
        worth.
        """
        which = self._worlds(which)
        out = np.zeros(self.n_worlds) if out is None else out
        if not hasattr(self, "_aside") or self._aside.resources.shape[1] != self.n_slots:
            self._aside = State.blank(1, self.n_slots, self.state.edges.shape[1])
        rules = self.rules._replace(memory_on=False, memory_write=False)  # NOOP is never vetoed
        self._kernels.idle_totals(rules, self.tables, self.state, which, self._aside, self.scratch, out)
        return out

    # ------------------------------------------------------------------ results
    def bill(self) -> np.ndarray:
        """$ so far of each world, (B,)."""
        return bill(self.state.worlds)

    def won(self) -> np.ndarray:
        """(B,) bool: would the episode count as won if it ended now."""
        return won(self.params, self.state.worlds)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state.pop("_aside", None)
        if self.tables is _NO_MEMORY:  # zeros, larger than all the rest
            del state["tables"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({"tables": _NO_MEMORY} | state)


def _build(scenario: Scenario) -> tuple[Blueprints, dict[str, list[int]], np.ndarray]:
    if scenario.path is not None:
        return load_estate(scenario)
    blueprints, splits = shapes(scenario)
    return blueprints, splits, sine_profile(scenario.load.diurnal_amplitude, scenario.safety_limits.forecast_ticks)


def _pad(blueprints: Blueprints, n_slots: int) -> Blueprints:
    singles = [Blueprints(*(a[t : t + 1] for a in blueprints)) for t in range(len(blueprints.heads))]
    n = int(blueprints.heads["n_resources"].max())
    if n > n_slots:
        raise ValueError(f"worlds have up to {n} resources, but n_slots is {n_slots}")
    cut = [Blueprints(s.heads, s.groups[:, :n], s.resources[:, :n], s.edges) for s in singles]
    return Blueprints.stack(cut, n_slots)


def _template_draw(seed: int) -> int:
    """A number that is mixed well even for neighbouring seeds."""
    return int(mix(np.uint64(seed) ^ np.uint64(0x5EED))) >> 17


def _condition(r: np.void) -> str:
    if r["busy_ticks"] > 0:
        return f"busy with {Op(int(r['busy_op'])).name} for {int(r['busy_ticks'])} more ticks"
    return f"it is {STATUS_NAMES[int(r['status'])]}, size {int(r['size'])}"


_NO_MEMORY = Tables.empty()
