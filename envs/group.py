"""Scores of a group of replies to one state: what GRPO compares.

Each reply is parsed strictly and judged by the safety layer; an admissible action is played in a fork of that very
state and earns what it gains over doing nothing (cloudrl/llm/config.py has the formula). The order

    malformed < unknown < invalid < vetoed < admissible

always holds: a rejected reply earns its level's constant, and no loss of an admissible action reaches down there.

    scorer = GroupScorer(sim, GroupConfig())
    result = scorer.score(worlds=[0, 7], texts=[[...G replies...], [...]])
    result.rewards, result.levels, result.breakdown            # each (2, G)
    scorer.values_all([0, 7]).rewards                          # (2, A): of every action, without any text
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from cloudrl.actions import ANALYZE, N_OPS
from cloudrl.llm.config import END, GroupConfig, Reference
from cloudrl.llm.parse import NO_ACTION, Code, Parsed, parse
from cloudrl.policies.lookahead import FOLLOW_UP
from cloudrl.policies.scripted import ScriptedPolicy, from_runbook, handwritten, noop, searched_runbook
from cloudrl.reward.terms import TERM_NAMES
from cloudrl.simulator import Simulator
from envs.forks import Forks

PARTS = (*(f"reward/{term}" for term in TERM_NAMES), "clip", "lookahead")
"""Of a gain: terms of the tick in which the action is played, what the reward's clip took, and what followed."""


class Level(IntEnum):
    """What became of a reply, from worst to best."""

    MALFORMED = 0  # not the JSON that was asked for
    UNKNOWN = 1  # an operation or a resource that does not exist
    INVALID = 2  # makes no sense in this state
    VETOED = 3  # makes sense and is dangerous
    ADMISSIBLE = 4


_UNKNOWN = {Code.unknown_action, Code.unknown_resource}


@dataclass(frozen=True)
class GroupResult:
    """Scores of K groups of G replies. Gains and their parts: baseline ticks, against NOOP in the same state."""

    parsed: list[list[Parsed]]
    codes: np.ndarray  # (K, G) str: Code of each reply
    actions: np.ndarray  # (K, G) flat action, NO_ACTION where there is none
    levels: np.ndarray  # (K, G) Level
    rewards: np.ndarray  # (K, G) what the trainer compares
    gains: np.ndarray  # (K, G) before scaling and bounding; NaN unless admissible
    breakdown: dict[str, np.ndarray]  # PARTS -> (K, G): they sum to the gain; 0 unless admissible
    noop_action: int

    @property
    def allowed(self) -> np.ndarray:
        """(K, G) bool: admissible."""
        return self.levels == Level.ADMISSIBLE

    @property
    def noop_wins(self) -> np.ndarray:
        """(K,) bool: a NOOP is among the best replies of its group."""
        best = self.rewards == self.rewards.max(axis=1, keepdims=True)
        return (best & (self.actions == self.noop_action)).any(axis=1)

    def counts(self) -> dict[str, int]:
        """Replies per Code and per Level."""
        codes = {f"code/{code}": int((self.codes == code).sum()) for code in Code}
        return codes | {f"level/{level.name.lower()}": int((self.levels == level).sum()) for level in Level}


@dataclass(frozen=True)
class ActionValues:
    """Scores of every action in K states."""

    levels: np.ndarray  # (K, A) Level; actions on empty slots are UNKNOWN: no reply can name them
    rewards: np.ndarray  # (K, A)
    gains: np.ndarray  # (K, A) baseline ticks against NOOP; NaN unless admissible

    @property
    def allowed(self) -> np.ndarray:
        """(K, A) bool: admissible."""
        return self.levels == Level.ADMISSIBLE

    def best_constant(self) -> tuple[int, float]:
        """(flat action, its mean reward) of the action that is best if one is always given."""
        mean = self.rewards.mean(axis=0)
        return int(mean.argmax()), float(mean.max())

    def noop_wins(self) -> np.ndarray:
        """(K,) bool: nothing earns more than NOOP, which earns 0."""
        return self.rewards.max(axis=1) <= 0.0

    def random_valid(self) -> float:
        """Mean reward of a uniform choice among the admissible actions."""
        return float((np.where(self.allowed, self.rewards, 0.0).sum(axis=1) / self.allowed.sum(axis=1)).mean())

    def best(self) -> float:
        """Mean reward of the best action of each state: it knows the luck to come, so this bounds any policy."""
        return float(self.rewards.max(axis=1).mean())


class GroupScorer:
    """Scores replies in the worlds of one simulator, as they stand when it is asked.

    Args:
        sim: its verdicts must be those of the current state: after `step(look=False)` call `sim.look()`.
        config: look-ahead and levels.
        thinks: replies may begin with a <think> block.
        threads: forks are shared out among them; results do not depend on their number.
    """

    def __init__(
        self, sim: Simulator, config: GroupConfig | None = None, *, thinks: bool = False, threads: int = 1
    ) -> None:
        self.sim = sim
        self.config = config or GroupConfig()
        self.thinks = thinks
        self._forks = Forks(sim, threads)
        c = self.config
        self._constants = np.array([c.malformed, c.unknown, c.invalid, c.vetoed, np.nan])  # by Level
        self._reference = _policy(c.lookahead.reference, sim.scenario.name)
        self._horizon = sim.ticks if c.lookahead.horizon == END else int(c.lookahead.horizon)

    def score(self, worlds: Any, texts: Sequence[Sequence[str]]) -> GroupResult:
        """Score `texts[k][g]`, the g-th reply to the state of world `worlds[k]`.

        Raises:
            ValueError: groups of different sizes, or not as many as worlds.
            IndexError: no such world.
        """
        which = self._which(worlds)
        sizes = {len(group) for group in texts}
        if len(texts) != len(which) or len(sizes) > 1:
            found = f"{len(texts)} groups of sizes {sorted(sizes)}"
            raise ValueError(f"{found} for {len(which)} worlds: give each world a group, all of one size")
        n_resources = self.sim.state.worlds["n_resources"][which].tolist()
        n_slots, ops = self.sim.n_slots, self.sim.safety.actions
        parsed = [
            [parse(text, n, n_slots, actions=ops, thinks=self.thinks) for text in group]
            for n, group in zip(n_resources, texts, strict=True)
        ]
        shape = (len(which), sizes.pop() if sizes else 0)
        codes = np.array([[p.code for p in group] for group in parsed], dtype="U16").reshape(shape)
        actions = np.array([[p.action for p in group] for group in parsed], np.int64).reshape(shape)
        levels = np.where(np.isin(codes, list(_UNKNOWN)), Level.UNKNOWN, Level.MALFORMED).astype(np.int8)
        known = actions != NO_ACTION
        at = np.broadcast_to(which[:, None], shape)
        levels[known] = self._judge(at[known], actions[known])
        rewards, gains, parts = self._reward(at, actions, levels)
        breakdown = dict(zip(PARTS, np.moveaxis(parts, -1, 0), strict=True))
        return GroupResult(parsed, codes, actions, levels, rewards, gains, breakdown, self.sim.noop)

    def values_all(self, worlds: Any = None) -> ActionValues:
        """Score every action in the worlds `worlds` (default: all): each admissible one is played once."""
        which = self._which(np.arange(self.sim.n_worlds) if worlds is None else worlds)
        shape = (len(which), self.sim.n_actions)
        at = np.broadcast_to(which[:, None], shape)
        actions = np.broadcast_to(np.arange(shape[1]), shape)
        levels = self._judge(at.ravel(), actions.ravel()).reshape(shape)
        absent = actions // N_OPS >= self.sim.state.worlds["n_resources"][which][:, None]
        levels[absent & (actions != self.sim.noop)] = Level.UNKNOWN
        rewards, gains, _ = self._reward(at, actions, levels)
        return ActionValues(levels, rewards, gains)

    def _which(self, worlds: Any) -> np.ndarray:
        which = np.atleast_1d(np.asarray(worlds, np.int64))
        wrong = which[(which < 0) | (which >= self.sim.n_worlds)]
        if wrong.size:
            raise IndexError(f"world {wrong[0]} is outside 0..{self.sim.n_worlds - 1}")
        return which

    def _judge(self, which: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """(M,) Level of flat actions in the worlds `which`, from the bits that the safety layer left."""
        slots, ops = np.minimum(actions // N_OPS, self.sim.n_slots - 1), actions % N_OPS
        resources = self.sim.state.resources
        levels = np.full(len(actions), Level.ADMISSIBLE, np.int8)
        levels[(resources["forbidden"][which, slots] >> ops) & 1 == 1] = Level.VETOED
        levels[(resources["impossible"][which, slots] >> ops) & 1 == 1] = Level.INVALID
        levels[actions == self.sim.noop] = Level.ADMISSIBLE
        return levels

    def _reward(
        self, which: np.ndarray, actions: np.ndarray, levels: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rewards and gains of the shape of `actions`, and the parts of the gains in a last dimension more."""
        rewards = self._constants[levels]
        gains = np.full(actions.shape, np.nan)
        parts = np.zeros((*actions.shape, len(PARTS)))
        play = levels == Level.ADMISSIBLE
        if play.any():
            parts[play] = self._gains(which[play], actions[play])
            gains[play] = parts[play].sum(axis=-1)
            rewards[play] = self._bounded(gains[play] / self.config.scale)
        return rewards, gains, parts

    def _gains(self, which: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """(M, len(PARTS)) parts of the gain over NOOP; an action that comes twice in a world is played once."""
        width = self.sim.n_actions
        pairs, back = np.unique(which * width + actions, return_inverse=True)
        worlds, acts = np.divmod(pairs, width)
        out = np.zeros((len(pairs), len(PARTS)))
        asks = (acts % N_OPS == ANALYZE) & (acts != self.sim.noop)
        if self.config.lookahead.reference is Reference.follow_up and self._horizon > 0:
            out[asks] = self._over_noop(worlds[asks], acts[asks], FOLLOW_UP)
            out[~asks] = self._over_noop(worlds[~asks], acts[~asks], self._reference)
        else:
            out = self._over_noop(worlds, acts, self._reference)
        return out[back.ravel()]

    def _over_noop(self, worlds: np.ndarray, acts: np.ndarray, policy: ScriptedPolicy) -> np.ndarray:
        """(M, len(PARTS)) of what the forks of `acts` earn and that of NOOP does not."""
        distinct, at = np.unique(worlds, return_inverse=True)
        all_worlds = np.concatenate([worlds, distinct])
        all_acts = np.concatenate([acts, np.full(len(distinct), self.sim.noop)])
        total, first, terms = self._forks.play(
            all_worlds, all_acts, policy, self._horizon, self.config.lookahead.discount
        )
        parts = np.column_stack([terms, first - terms.sum(axis=1), total - first])
        n = len(worlds)
        return parts[:n] - parts[n:][at.ravel()]

    def _bounded(self, gains: np.ndarray) -> np.ndarray:
        """Gains in units of reward, bounded softly and in order: above -floor and below the ceiling."""
        floor, ceiling = self.config.floor, self.config.ceiling
        return np.where(
            gains >= 0.0,
            -ceiling * np.expm1(-np.maximum(gains, 0.0) / ceiling),
            floor * np.expm1(np.minimum(gains, 0.0) / floor),
        )


def explain(sim: Simulator, world: int, parsed: Parsed) -> str:
    """One line for tables of samples: what became of a reply in `world` as it stands now."""
    if parsed.code != Code.ok:
        return str(parsed.code)
    verdict = sim.verdict(world, parsed.action)
    return verdict.name + (f": {verdict.reason}" if verdict.reason else "")


def _policy(reference: Reference, scenario: str) -> ScriptedPolicy:
    if reference is Reference.runbook:
        return from_runbook("runbook", searched_runbook(scenario))
    return handwritten() if reference is Reference.handwritten else noop()
