"""The simulated cloud as a gymnasium environment: one world at a time."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded

from cloudrl import engine
from cloudrl.dispatch import direct
from cloudrl.safety.config import SafetyMode
from cloudrl.safety.layer import Verdict
from cloudrl.types import VERDICT_NAMES
from envs.cloudops.facts import N_TICK_KEYS, TICK_KEYS, facts_view, metrics
from envs.cloudops.history import History
from envs.cloudops.options import (
    MemoryLike,
    RewardLike,
    SafetyLike,
    ScenarioLike,
    as_index,
    make_simulator,
    spaces_of,
    to_split,
    wanted_world,
)
from envs.cloudops.render_ansi import LastAction, render_world

_VIEWS = ("_facts", "_observation", "_mask", "_mask_int8", "_arguments", "_tick")
"""Attributes that are made anew for a copy: a copy of a view is no view."""


class CloudOpsEnv(gymnasium.Env[np.ndarray, np.int64]):
    """Operate a small cloud for a day: keep it serving, safe and cheap. One step is a tick of five minutes.

    **Observation**: Box(-10, 10, (N * 53 + 16,), float32), N = scenario.slots (6, 12, 25 in Easy, Medium, Hard).
        N blocks of `cloudrl.observation.RESOURCE_FEATURES`, then `WORLD_FEATURES`; `observation.names(N)` names
        every number. An agent sees what monitoring shows: vulnerabilities and exposure stay hidden until they are
        found, metrics may be late, alarms may be false. Slots without a resource are zeros.

    **Action**: Discrete(N * 12 + 1). `slot * 12 + op` with op in ANALYZE, PATCH, ENCRYPT, ROTATE_CREDS, RESTART,
        RESIZE_DOWN, STOP, DELETE, START, RESIZE_UP, ENABLE_LOGGING, RESTRICT_ACCESS; the last index is NOOP
        (`cloudrl.Action.from_index`). The mask tells what is possible and, with safety="enforce", what is safe;
        never what is useful. An action outside it, or outside the space, does not run: NOOP runs instead, the
        rejection is named in the info and costs a little.

    **Reward**: a float, R = cost + security + reliability + action + failure, in units of the world's own baseline
        infrastructure dollars per tick. The bill in dollars, which benchmarks score, is apart from it.

    **Episode end**: after scenario.horizon.ticks steps with terminated=True. The horizon is part of the task and
        the time left is observed; nothing beyond it counts. truncated is always False.

    **Info**

        reset and step
            action_mask         int8 (A,)  1 = may be chosen (NOOP always may): `action_space.sample(mask)`;
                                           `action_masks()` gives the same as bool
        reset only
            world_seed          int        the world; `reset(options={"world_seed": n})` plays it again
        step only
            reward/<term>       float      cost, security, reliability, action, failure: weighted; they sum to R
                                           unless R was clipped (at +-30)
            bill/<part>         float      $ of this tick: infrastructure, outage, exposure, labour
            bill                float      $ so far
            crashes, breaches, cascades    int, events of this tick
            executed            int        the action that ran
            verdict             str        of the safety layer on the action: admissible, invalid or vetoed
        after an action that was not admissible
            rules               tuple      ids of the broken rules (empty for invalid)
            reason              str        why, for people
        last step only
            is_success          bool       the episode counts as won
            metrics             dict       the episode's figures: bill, bill/<part>, served, vetoed, invalid, ...

    Args:
        scenario: a name in cloudrl.scenarios.library.SUITES ("easy", "stress-zero-day"), or a `cloudrl.Scenario`.
        reward: preset ("balanced", "cost", "security", "reliability") or RewardWeights.
        safety: mode ("enforce", "observe", "off") or SafetyConfig.
        memory: immune memory: None (off), True, MemoryConfig, a saved file, or an ImmuneMemory to share.
        split: where worlds are drawn from: "train", "validation" or "test".
        n_slots: pad worlds to this many resources (default: scenario.slots).
        render_mode: "ansi" (text), "rgb_array" (a picture, (600, 960, 3) uint8: services, gauges and the day so
            far; what gymnasium's RecordVideo films) or None.
        render_truth: `render` also shows what the agent cannot see.

    `reset(seed=s)` seeds the draw of worlds: the same seed gives the same sequence of worlds, and every further
    `reset()` the next of them.

    Example:
        >>> import gymnasium as gym, envs
        >>> env = gym.make("CloudOps-Easy-v1", render_mode="ansi")
        >>> obs, info = env.reset(seed=0)
        >>> total, terminated = 0.0, False
        >>> while not terminated:
        ...     action = env.action_space.sample(info["action_mask"])
        ...     obs, reward, terminated, truncated, info = env.step(action)
        ...     total += reward
        >>> print(env.render())  # doctest: +SKIP
    """

    metadata = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}

    def __init__(
        self,
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
            raise ValueError(
                f"no render mode {render_mode!r}; there are {' and '.join(self.metadata['render_modes'])}"
            )
        self.render_mode = render_mode
        self.render_truth = render_truth
        self.split = split
        self._range = to_split(split)
        self.simulator = make_simulator(scenario, 1, reward, safety, memory, n_slots)
        self.observation_space, self.action_space = spaces_of(self.simulator)
        # In the other modes an action inside the mask is admissible, and nobody needs to ask.
        self._ask_always = self.simulator.safety.mode is SafetyMode.observe
        self._action = np.zeros(1, np.int64)
        self._running = False
        self._last: tuple[int, Verdict | None] | None = None
        self._history = History() if render_mode == "rgb_array" else None
        self._connect()

    def _connect(self) -> None:
        """Views into the simulator's arrays. They are made once: taking them anew costs as much as a tick."""
        self._facts = facts_view(self.simulator)
        self._observation = self.simulator.observations[0]
        self._mask = self.simulator.masks[0]
        self._mask_int8 = self._mask.view(np.int8)
        s = self.simulator
        self._arguments = (
            *(s.rules, s.tables, s.state, self._action, s.scratch),
            *(s.rewards, s.observations, s.masks, True),
        )
        self._tick = direct(engine.step_batch, *self._arguments)

    # ------------------------------------------------------------------ play
    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start the next world, or the one that options={"world_seed": n} names."""
        super().reset(seed=seed)
        wanted = wanted_world(options)
        world_seed = int(self.np_random.integers(self._range.start, self._range.stop))
        if wanted is not None:
            world_seed = as_index(wanted)
        self.simulator.reset(world_seed)
        self._running = True
        self._last = None
        self._history = History() if self.render_mode == "rgb_array" else None
        return self._observation.copy(), {"action_mask": self._mask_int8.copy(), "world_seed": world_seed}

    def step(self, action: int | np.int64) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Play one tick."""
        if not self._running:
            raise ResetNeeded("the episode is over (or has not begun): call reset()")
        simulator = self.simulator
        index = as_index(action)
        inside = 0 <= index <= simulator.noop
        verdict = None
        if not inside or not self._mask[index] or self._ask_always:
            verdict = simulator.verdict(0, index)
        self._action[0] = index if inside else -1
        self._last = (index, verdict)
        if simulator.memory is None:
            self._tick(*self._arguments)
        else:
            simulator.step(self._action)
        if self._history is not None:
            self._history.note(simulator, 0, index)

        facts = self._facts.item()
        info: dict[str, Any] = dict(zip(TICK_KEYS, facts))
        tick, code, infrastructure, outage, exposure, labour = facts[N_TICK_KEYS:]
        info["bill"] = infrastructure + outage + exposure + labour
        info["verdict"] = VERDICT_NAMES[code]
        if verdict is not None and verdict.code == code != 0:
            info["rules"] = verdict.rules
            info["reason"] = verdict.reason
        info["action_mask"] = self._mask_int8.copy()
        terminated = tick >= simulator.ticks
        if terminated:
            self._running = False
            info["is_success"] = bool(simulator.won()[0])
            figures = metrics(simulator, np.zeros(1, np.int64))
            info["metrics"] = {key: value.item() for key, value in figures.items()}
        return self._observation.copy(), float(simulator.rewards[0]), terminated, False, info

    def action_masks(self) -> np.ndarray:
        """(A,) bool: the actions that may be chosen now (the name that sb3-contrib calls)."""
        return self._mask.copy()

    # ------------------------------------------------------------------ look
    def render(self) -> str | np.ndarray | None:  # type: ignore[override]
        """The world as a table ("ansi") or as a picture ("rgb_array")."""
        if self.render_mode is None:
            gymnasium.logger.warn('render() needs gym.make(..., render_mode="ansi") or "rgb_array"')
            return None
        last = LastAction(*self._last) if self._last is not None else None
        if self._history is None:
            return render_world(self.simulator, 0, last=last, truth=self.render_truth)
        from envs.cloudops.render_rgb import render_rgb

        return render_rgb(self.simulator, 0, history=self._history, last=last, truth=self.render_truth)

    # ------------------------------------------------------------------ copies
    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key not in _VIEWS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._connect()
