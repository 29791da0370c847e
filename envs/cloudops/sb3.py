"""The simulated cloud as a Stable-Baselines3 VecEnv: the whole batch in one kernel call."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices

from cloudrl.memory.immune import ImmuneMemory
from cloudrl.scenarios.library import scenario_hash
from cloudrl.scenarios.schema import Scenario
from cloudrl.simulator import Simulator
from cloudrl.types import ADMISSIBLE
from envs.cloudops.facts import REWARD_KEYS, metrics, reward_terms_view
from envs.cloudops.options import (
    MemoryLike,
    RewardLike,
    SafetyLike,
    ScenarioLike,
    as_indices,
    make_simulator,
    spaces_of,
    to_scenario,
    to_split,
)
from envs.cloudops.render_ansi import render_world
from envs.cloudops.seeds import episode_seeds

STATE_FORMAT = 1
CONTROL_VARIATES = ("none", "noop", "counterfactual")
_COUNTERFACTUAL_CLIP = 60.0  # baseline ticks; a single act that ruins the rest of a day need not drown all others


def make_sb3_vec(
    scenario: ScenarioLike = "easy",
    n_envs: int = 64,
    seed: int = 0,
    split: str = "train",
    control_variate: str = "none",
    reward: RewardLike = None,
    safety: SafetyLike = None,
    memory: MemoryLike = None,
    n_slots: int | None = None,
    gather_stats: bool = True,
    reward_scale: float = 1.0,
    stagger: bool = False,
) -> CloudOpsSB3VecEnv:
    """`n_envs` worlds as one VecEnv. See CloudOpsSB3VecEnv for the arguments."""
    return CloudOpsSB3VecEnv(
        scenario,
        n_envs,
        seed,
        split,
        control_variate=control_variate,
        reward=reward,
        safety=safety,
        memory=memory,
        n_slots=n_slots,
        gather_stats=gather_stats,
        reward_scale=reward_scale,
        stagger=stagger,
    )


class CloudOpsSB3VecEnv(VecEnv):
    """B worlds of one scenario for Stable-Baselines3 and sb3-contrib.

    The world of environment i in its k-th episode is a function of (seed, i, k) inside the split: it never depends
    on B, and nothing is consumed.

    **infos** are empty dicts but at the end of an episode:

        terminal_observation, TimeLimit.truncated (always False: the horizon is a termination),
        episode             {"r": return, "l": ticks, "t": seconds since the start}; r is the raw reward, whatever
                            control_variate and reward_scale make of the training reward
        is_success          the episode counts as won
        metrics             dict of numbers (with gather_stats): bill, bill/<part> in $, reward/<term>, served,
                            vetoed, invalid, violations, cascades, breaches, crashes, operations, ..., world_seed

    Args:
        scenario: as in CloudOpsEnv.
        n_envs: B.
        reward: as in CloudOpsEnv.
        safety: as in CloudOpsEnv.
        memory: as in CloudOpsEnv.
        n_slots: as in CloudOpsEnv.
        seed: of the worlds.
        split: "train", "validation" or "test".
        control_variate: "noop" returns r - r_noop, where a twin of each world, with the same luck, does nothing.
            The twin's rewards do not depend on any action, so every policy's return shifts by the same number:
            the same optimum with less noise.
        gather_stats: collect `metrics`.
        reward_scale: factor on the training reward only.
        stagger: a reset spreads the environments over the horizon (NOOP is played up to there), so that episodes
            do not all end in the same step. Their first episodes count as whole ones, with the NOOPs in it.
    """

    def __init__(
        self,
        scenario: ScenarioLike = "easy",
        n_envs: int = 64,
        seed: int = 0,
        split: str = "train",
        *,
        control_variate: str = "none",
        reward: RewardLike = None,
        safety: SafetyLike = None,
        memory: MemoryLike = None,
        n_slots: int | None = None,
        gather_stats: bool = True,
        reward_scale: float = 1.0,
        stagger: bool = False,
    ) -> None:
        if control_variate not in CONTROL_VARIATES:
            raise ValueError(f"no control variate {control_variate!r}; there are {', '.join(CONTROL_VARIATES)}")
        self.render_mode = None
        self.split = split
        self.control_variate = control_variate
        self.gather_stats = gather_stats
        self.reward_scale = float(reward_scale)
        self.stagger = stagger
        self._range = to_split(split)
        self._seed = int(seed)
        self._episodes = np.zeros(n_envs, np.int64)  # the next episode of each environment
        self._rows = np.arange(n_envs)
        self._recent: deque[dict[str, float]] = deque(maxlen=200)
        self._start = time.perf_counter()
        self._actions: np.ndarray | None = None
        self._build(make_simulator(scenario, n_envs, reward, safety, memory, n_slots))
        super().__init__(n_envs, *spaces_of(self.simulator))

    def _build(self, simulator: Simulator) -> None:
        self.simulator = simulator
        self.twin: Simulator | None = None
        if self.control_variate == "noop":  # NOOP needs no memory: nothing it recalls can change what follows
            self.twin = Simulator(
                simulator.scenario, simulator.n_worlds, reward=simulator.reward_weights, n_slots=simulator.n_slots
            )
        self._idle = np.zeros(simulator.n_worlds)  # each episode's reward if nothing is done from now on
        self._noops = np.full(simulator.n_worlds, simulator.noop, np.int64)
        self._terms = np.zeros((simulator.n_worlds, len(REWARD_KEYS)))
        self._connect()

    def _connect(self) -> None:
        self._tick_terms = reward_terms_view(self.simulator)

    @property
    def scenario(self) -> Scenario:
        return self.simulator.scenario

    @property
    def memory(self) -> ImmuneMemory | None:
        return self.simulator.memory

    # ------------------------------------------------------------------ play
    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Seed the worlds; it holds from the next reset on, which then begins with episode 0."""
        self._seed = int(np.random.default_rng().integers(2**32)) if seed is None else int(seed)
        self._episodes[:] = 0
        self._seeds = [self._seed + i for i in range(self.num_envs)]
        return self._seeds

    def reset(self) -> np.ndarray:
        """Start the next episode everywhere. Returns the observations (B, D)."""
        seeds = self._next_seeds(self._rows)
        for i, options in enumerate(self._options):  # set_options({"world_seed": n}), or a list of B of them
            if options:
                seeds[i] = options.get("world_seed", seeds[i])
        self._begin(self._rows, seeds)
        if self.stagger:
            self._spread(seeds)
        self.reset_infos = [{"world_seed": int(s)} for s in seeds]
        self._reset_options()
        return self.simulator.observations.copy()

    def _next_seeds(self, rows: np.ndarray) -> np.ndarray:
        seeds = episode_seeds(self._seed, rows, self._episodes[rows], self._range)
        self._episodes[rows] += 1
        return seeds

    def _begin(self, rows: np.ndarray, seeds: np.ndarray) -> None:
        self.simulator.reset(seeds, rows)
        if self.twin is not None:
            self.twin.reset(seeds, rows)
        self._terms[rows] = 0.0
        if self.control_variate == "counterfactual":
            self.simulator.idle_totals(rows, self._idle)

    def _spread(self, seeds: np.ndarray) -> None:
        """Play NOOP so that environment i stands at a tick of its own, a function of its seed."""
        simulator = self.simulator
        # On the side, without memory: it has nothing to learn from this. The twins do just the same.
        aside = Simulator(
            simulator.scenario, simulator.n_worlds, reward=simulator.reward_weights, n_slots=simulator.n_slots
        )
        aside.reset(seeds)
        terms = reward_terms_view(aside)
        ahead = seeds * 7919 % simulator.ticks
        for tick in range(int(ahead.max()), 0, -1):
            starting = np.flatnonzero(ahead == tick)
            if len(starting):
                aside.reset(seeds[starting], starting)
                self._terms[starting] = 0.0
            aside.step(self._noops, look=False)
            self._terms += terms
        unmoved = np.flatnonzero(ahead == 0)
        aside.reset(seeds[unmoved], unmoved)
        self._terms[unmoved] = 0.0
        simulator.restore(aside.state)
        if self.control_variate == "counterfactual":
            simulator.idle_totals(None, self._idle)
        if self.twin is not None:
            self.twin.restore(aside.state)

    def _advance(self, actions: np.ndarray, look: bool = True) -> np.ndarray:
        """One tick of the worlds and their twins. Returns the training rewards (B,), float64."""
        self.simulator.step(actions, look)
        if self.gather_stats:
            self._terms += self._tick_terms
        if self.control_variate == "counterfactual":
            return self._consequences()
        if self.twin is None:
            return self.simulator.rewards
        self.twin.step(self._noops, look=False)
        return self.simulator.rewards - self.twin.rewards

    def _consequences(self) -> np.ndarray:
        """What this tick's actions changed in the reward of the episode, were nothing done from now on, (B,)."""
        worlds, before = self.simulator.state.worlds, self._idle.copy()
        acted = (worlds["executed"] != self.simulator.noop) | (worlds["verdict"] != ADMISSIBLE)
        self.simulator.idle_totals(np.flatnonzero(acted), self._idle)  # where nothing was done, nothing changed
        return np.clip(self._idle - before, -_COUNTERFACTUAL_CLIP, _COUNTERFACTUAL_CLIP)

    def step_async(self, actions: np.ndarray) -> None:
        self._actions = as_indices(actions, self.num_envs)

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        assert self._actions is not None, "step_async comes first"
        training = self._advance(self._actions)
        self._actions = None
        rewards = np.multiply(training, self.reward_scale, dtype=np.float64).astype(np.float32)
        done = self.simulator.done
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]  # fresh ones: callbacks keep them
        if done.any():
            rows = np.flatnonzero(done)
            self._conclude(rows, infos)
            self._begin(rows, self._next_seeds(rows))
        return self.simulator.observations.copy(), rewards, done, infos

    def _conclude(self, rows: np.ndarray, infos: list[dict[str, Any]]) -> None:
        """Fill the infos of the episodes that ended, before their worlds are replaced."""
        simulator = self.simulator
        worlds = simulator.state.worlds[rows]
        returns, lengths = worlds["reward_total"].tolist(), worlds["tick"].tolist()
        won = simulator.won()[rows].tolist()
        elapsed = round(time.perf_counter() - self._start, 6)
        observations = simulator.observations[rows]
        for k, i in enumerate(rows):
            infos[i].update(
                {
                    "terminal_observation": observations[k],
                    "TimeLimit.truncated": False,
                    "episode": {"r": returns[k], "l": lengths[k], "t": elapsed},
                    "is_success": won[k],
                }
            )
        if self.gather_stats:
            columns = metrics(simulator, rows)
            columns |= dict(zip(REWARD_KEYS, self._terms[rows].T))
            names, values = list(columns), [column.tolist() for column in columns.values()]
            for i, row in zip(rows, zip(*values)):
                infos[i]["metrics"] = dict(zip(names, row))
                self._recent.append(infos[i]["metrics"])

    def recent_metrics(self) -> list[dict[str, float]]:
        """`metrics` of the last episodes that ended, at most 200 (with gather_stats)."""
        return list(self._recent)

    def restore_recent_metrics(self, metrics: Sequence[dict[str, float]]) -> None:
        """Put back what `recent_metrics` returned."""
        self._recent.clear()
        self._recent.extend(metrics)

    def action_masks(self) -> np.ndarray:
        """(B, A) bool, a copy: the actions that may be chosen now."""
        return self.simulator.masks.copy()

    def close(self) -> None:
        """Nothing is held open."""

    # ------------------------------------------------------------------ curriculum and resume
    def set_scenario(self, scenario: ScenarioLike) -> np.ndarray:
        """Go on in another scenario with the same spaces, seed and memory. Returns what `reset` returns."""
        old = self.simulator
        self._build(
            Simulator(
                to_scenario(scenario),
                old.n_worlds,
                reward=old.reward_weights,
                safety=old.safety,
                memory=old.memory,
                n_slots=old.n_slots,
            )
        )
        return self.reset()

    def get_state(self) -> dict[str, np.ndarray]:
        """Everything that the stream of worlds depends on, as arrays: `np.savez(path, **env.get_state())`."""
        out = {
            "format": np.array(STATE_FORMAT),
            "scenario": np.array(scenario_hash(self.scenario)),
            "seed": np.array(self._seed),
            "episodes": self._episodes.copy(),
            "terms": self._terms.copy(),
            "idle": self._idle.copy(),
            # not derived anew: the memory may have learned since
            "observations": self.simulator.observations.copy(),
            "masks": self.simulator.masks.copy(),
        }
        for name, array in self._arrays().items():
            out[name] = array.copy()
        return out

    def set_state(self, state: Mapping[str, np.ndarray]) -> np.ndarray:
        """Put a state back (a dict or open npz file). Returns the observations. Raises ValueError if foreign."""
        simulator = self.simulator
        mine: dict[str, np.ndarray] = {"episodes": self._episodes, "terms": self._terms, **self._arrays()}
        mine |= {"idle": self._idle, "observations": simulator.observations, "masks": simulator.masks}
        state = dict(state)
        if int(state["format"]) != STATE_FORMAT:
            raise ValueError(f"the state has format {int(state['format'])}, expected {STATE_FORMAT}")
        if str(state["scenario"]) != scenario_hash(self.scenario):
            raise ValueError("the state belongs to another scenario: call set_scenario first")
        for name, array in mine.items():
            theirs = state.get(name)
            if theirs is None or theirs.shape != array.shape or theirs.dtype != array.dtype:
                raise ValueError(
                    f"the state does not fit: {name} differs (n_envs, n_slots, control_variate or memory)"
                )
        for name, array in mine.items():
            array[...] = state[name]
        self._seed = int(state["seed"])
        return simulator.observations.copy()

    def _arrays(self) -> dict[str, np.ndarray]:
        """The arrays that the simulation lives in, by name."""
        out = {f"world.{name}": array for name, array in self.simulator.state._asdict().items()}
        if self.twin is not None:
            out |= {f"twin.{name}": array for name, array in self.twin.state._asdict().items()}
        if self.memory is not None:
            out |= {f"memory.{name}": array for name, array in self.memory.tables._asdict().items()}
        return out

    # ------------------------------------------------------------------ what SB3 asks
    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> Any:
        """`action_masks` answers with the (B, A) array in one go; `render` with texts."""
        rows = list(self._get_indices(indices))
        if method_name == "action_masks":
            return self.simulator.masks.copy() if indices is None else self.simulator.masks[rows]
        if method_name == "render":
            return [render_world(self.simulator, i, *method_args, **method_kwargs) for i in rows]
        raise AttributeError(f"{type(self).__name__} has no method {method_name!r} per environment")

    def has_attr(self, attr_name: str) -> bool:
        return hasattr(self, attr_name)

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        value = getattr(self, attr_name)
        if indices is None and not hasattr(self, "num_envs"):  # asked by VecEnv.__init__
            return [value] * len(self._rows)
        return [value] * len(list(self._get_indices(indices)))

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Set an attribute of the batch. The environments are one object: all of them or none."""
        if len(set(self._get_indices(indices))) != self.num_envs:
            raise ValueError(f"{attr_name} can only be set for all environments: they are one batch")
        setattr(self, attr_name, value)

    def env_is_wrapped(self, wrapper_class: type[gymnasium.Wrapper], indices: VecEnvIndices = None) -> list[bool]:
        return [False] * len(list(self._get_indices(indices)))

    # ------------------------------------------------------------------ copies
    def __getstate__(self) -> dict[str, Any]:
        # a copy of a view is no view
        return {key: value for key, value in self.__dict__.items() if key != "_tick_terms"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._connect()
