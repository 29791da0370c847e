"""The simulated cloud as a gymnasium VectorEnv: the whole batch in one kernel call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from cloudrl.reward.bill import bill
from cloudrl.safety.config import SafetyMode
from cloudrl.safety.layer import Verdict
from envs.cloudops.facts import TICK_COLUMNS, VERDICTS, metrics
from envs.cloudops.options import (
    MemoryLike,
    RewardLike,
    SafetyLike,
    ScenarioLike,
    as_indices,
    make_simulator,
    spaces_of,
    to_split,
    wanted_world,
)
from envs.cloudops.render_ansi import render_world

Infos = dict[str, Any]


class CloudOpsVectorEnv(VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """B worlds of one scenario; observations, rewards and infos are those of B `CloudOpsEnv`.

    It gives, bit for bit, what SyncVectorEnv(..., autoreset_mode=AutoresetMode.SAME_STEP) of CloudOpsEnv gives: an
    environment whose episode ends returns the first observation of its next world in the same step; the last one
    stands in `infos["final_obs"][i]`, the last info in infos["final_info"]. infos["action_mask"] is (B, A) int8,
    always that of the returned observations.

    `reset(seed=s)` seeds environment i with s + i (or a list of B seeds); options: "world_seed" (one, or B of
    them) and "reset_mask" (B,) bool.

    Args: those of CloudOpsEnv, and num_envs.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 4, "autoreset_mode": AutoresetMode.SAME_STEP}

    def __init__(
        self,
        num_envs: int = 1,
        scenario: ScenarioLike = "medium",
        *,
        reward: RewardLike = None,
        safety: SafetyLike = None,
        memory: MemoryLike = None,
        split: str = "train",
        n_slots: int | None = None,
        render_mode: str | None = None,
        render_truth: bool = False,
    ) -> None:
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise ValueError(f"no render mode {render_mode!r}; there is ansi")
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.render_truth = render_truth
        self.split = split
        self._range = to_split(split)
        self.simulator = make_simulator(scenario, num_envs, reward, safety, memory, n_slots)
        self.single_observation_space, self.single_action_space = spaces_of(self.simulator)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._generators: list[np.random.Generator] = []
        self._rows = np.arange(num_envs)
        self._all = np.ones(num_envs, np.bool_)
        self._running = False

    # ------------------------------------------------------------------ play
    def reset(  # type: ignore[override]
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, Infos]:
        """Start the next world of every environment (of those in options["reset_mask"])."""
        options = dict(options or {})
        chosen = options.pop("reset_mask", None)
        rows = self._rows if chosen is None else np.flatnonzero(np.asarray(chosen, np.bool_))
        self._seed(seed, rows)
        wanted = wanted_world(options)
        seeds = self._draw(rows)
        if wanted is not None:
            seeds = np.broadcast_to(np.asarray(wanted, np.int64), self.num_envs)[rows]
        self.simulator.reset(seeds, rows)
        self._running = True
        return self.simulator.observations.copy(), self._reset_infos(rows)

    def _seed(self, seed: int | Sequence[int | None] | None, rows: np.ndarray) -> None:
        """One generator per environment, as B single environments have."""
        if seed is None or isinstance(seed, (int, np.integer)):
            seeds = [None if seed is None else int(seed) + i for i in range(self.num_envs)]
        else:
            seeds = list(seed)
            if len(seeds) != self.num_envs:
                raise ValueError(f"there are {len(seeds)} seeds for {self.num_envs} environments")
        if not self._generators:
            self._generators = [seeding.np_random(s)[0] for s in seeds]
        else:
            for i in rows:
                if seeds[i] is not None:
                    self._generators[i] = seeding.np_random(seeds[i])[0]

    def _draw(self, rows: np.ndarray) -> np.ndarray:
        low, high = self._range.start, self._range.stop
        return np.array([self._generators[i].integers(low, high) for i in rows], np.int64)

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, Infos]:
        """Play one tick everywhere; environments that end start their next world."""
        if not self._running:
            raise gymnasium.error.ResetNeeded("call reset() first")
        simulator = self.simulator
        actions = as_indices(actions, self.num_envs).astype(np.int64)
        rejected = self._verdicts(actions)
        simulator.step(actions)
        rewards, done = simulator.rewards.copy(), simulator.done

        infos: Infos = {}
        if not done.any():
            self._describe(infos, self._all, rejected)
            self._put(infos, "action_mask", simulator.masks.view(np.int8), self._all)
        else:
            rows = np.flatnonzero(done)
            final = np.full(self.num_envs, None, object)
            for i in rows:
                final[i] = simulator.observations[i].copy()
            infos |= {"final_obs": final, "_final_obs": done.copy()}
            infos |= {"final_info": self._final_info(done, rows, rejected), "_final_info": done.copy()}
            if len(rows) < self.num_envs:
                self._describe(infos, ~done, rejected)
            simulator.reset(self._draw(rows), rows)
            infos |= self._reset_infos(rows)
            self._put(infos, "action_mask", simulator.masks.view(np.int8), self._all)
        return simulator.observations.copy(), rewards, done, np.zeros(self.num_envs, np.bool_), infos

    def action_masks(self) -> np.ndarray:
        """(B, A) bool: the actions that may be chosen now."""
        return self.simulator.masks.copy()

    # ------------------------------------------------------------------ infos
    def _put(self, infos: Infos, key: str, values: np.ndarray, mask: np.ndarray) -> None:
        """infos[key] = values where mask, zeros elsewhere, and the mask beside it: gymnasium's layout."""
        if mask is self._all:
            infos[key] = values.copy()
        else:
            shaped = mask.reshape(-1, *(1,) * (values.ndim - 1))
            infos[key] = np.where(shaped, values, np.zeros((), values.dtype))
        infos[f"_{key}"] = mask.copy()

    def _reset_infos(self, rows: np.ndarray) -> Infos:
        mask = np.zeros(self.num_envs, np.bool_)
        mask[rows] = True
        infos: Infos = {}
        self._put(infos, "action_mask", self.simulator.masks.view(np.int8), mask)
        self._put(infos, "world_seed", self.simulator.state.worlds["seed"], mask)
        return infos

    def _describe(self, infos: Infos, mask: np.ndarray, rejected: dict[int, Verdict]) -> None:
        """What a step's info tells, for the environments in `mask`."""
        worlds = self.simulator.state.worlds
        for key, field in TICK_COLUMNS.items():
            values = worlds[field]
            self._put(infos, key, values if values.dtype.kind == "f" else values.astype(np.int64), mask)
        self._put(infos, "bill", bill(worlds), mask)
        names = VERDICTS[worlds["verdict"]]
        infos["verdict"] = names if mask is self._all else np.where(mask, names, None)
        infos["_verdict"] = mask.copy()
        named = [i for i in rejected if mask[i]]
        if named:
            where = np.zeros(self.num_envs, np.bool_)
            rules, reasons = np.full(self.num_envs, None, object), np.full(self.num_envs, None, object)
            for i in named:
                where[i], rules[i], reasons[i] = True, rejected[i].rules, rejected[i].reason
            infos |= {"rules": rules, "_rules": where, "reason": reasons, "_reason": where.copy()}

    def _final_info(self, done: np.ndarray, rows: np.ndarray, rejected: dict[int, Verdict]) -> Infos:
        final: Infos = {}
        self._describe(final, done, rejected)
        self._put(final, "action_mask", self.simulator.masks.view(np.int8), done)
        self._put(final, "is_success", self.simulator.won(), done)
        final["metrics"] = {}
        for key, values in metrics(self.simulator, rows).items():
            column = np.zeros(self.num_envs, values.dtype)
            column[rows] = values
            self._put(final["metrics"], key, column, done)
        final["_metrics"] = done.copy()
        return final

    def _verdicts(self, actions: np.ndarray) -> dict[int, Verdict]:
        """The verdicts on the actions that are not admissible, by environment. They are read before the tick."""
        simulator = self.simulator
        inside = (actions >= 0) & (actions <= simulator.noop)
        suspects = ~(inside & simulator.masks[self._rows, np.where(inside, actions, 0)])
        if simulator.safety.mode is SafetyMode.observe:  # the mask does not know
            suspects[:] = True
        found = {int(i): simulator.verdict(int(i), int(actions[i])) for i in np.flatnonzero(suspects)}
        return {i: verdict for i, verdict in found.items() if verdict.code != 0}

    # ------------------------------------------------------------------ look
    def render(self) -> tuple[str, ...] | None:  # type: ignore[override]
        """Every world as a table, in render_mode "ansi"."""
        if self.render_mode is None:
            return None
        return tuple(render_world(self.simulator, i, truth=self.render_truth) for i in range(self.num_envs))
