"""Where a step's groups come from: states of the stream, replies of the model, scores by forks.

One reply of each group is played in its world, so the next states are those of the present policy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch as th

from cloudrl.llm.parse import NO_ACTION
from envs.group import GroupScorer, Level
from evaluation.agents.lm_files import LanguageModel
from trainers.llm.config import Walk
from trainers.llm.engine import Batch, StepGRPOTrainer
from trainers.llm.meter import Meter
from trainers.llm.stream import Block, Stream

_ALIKE = 1e-6
"""Rewards of a group that differ by less teach nothing."""


@dataclass(frozen=True)
class Sample:
    """One group, for the table that a person reads."""

    prompt_ids: list[int]
    texts: list[str]
    codes: list[str]
    levels: list[str]
    rewards: np.ndarray  # (G,)
    gains: np.ndarray  # (G,) baseline ticks; NaN unless admissible


class _Group(NamedTuple):
    prompt_ids: list[int]
    completion_ids: list[list[int]]
    rewards: np.ndarray
    surprises: np.ndarray


class GroupSource:
    """Scored groups of sampled replies.

    Args:
        stream: of states.
        language: the model, for its tokenizer.
        group: replies per state.
        redraw: how often groups without variance are replaced by others.
        act_price: baseline ticks by which acting must pay.
        meter: what is counted.
        measure_every: steps between two looks at what every action would earn, for the constant baseline.
        walk: which reply of a group is played.
    """

    def __init__(
        self,
        stream: Stream,
        language: LanguageModel,
        meter: Meter,
        *,
        group: int,
        redraw: int,
        act_price: float,
        measure_every: int,
        walk: Walk = Walk.likeliest,
    ) -> None:
        self.walk = walk
        self.stream, self.language, self.meter = stream, language, meter
        self.group, self.redraw, self.act_price = group, redraw, act_price
        self.measure_every, self._calls = measure_every, 0

    def __call__(self, trainer: StepGRPOTrainer, n: int) -> Batch:
        """Groups of `n` states."""
        useful: list[_Group] = []
        flat: list[_Group] = []
        if self._calls % self.measure_every == 0:
            self.meter.values(self.stream.blocks[self.stream.turn].scorer.values_all())
        self._calls += 1
        for _ in range(1 + self.redraw):
            missing = n - len(useful)
            blocks = [self.stream.take() for _ in range(-(-missing // self.stream.size))]
            for group in self._draw(trainer, blocks):
                (useful if np.ptp(group.rewards) > _ALIKE else flat).append(group)
            if len(useful) >= n:
                break
        self.meter.add("llm/groups_without_variance", len(flat) / (len(flat) + len(useful)))
        chosen = (useful + flat)[:n]
        return Batch(
            prompts=["-"] * n,
            prompt_ids=[g.prompt_ids for g in chosen],
            completion_ids=[ids for g in chosen for ids in g.completion_ids],
            rewards=[float(r) for g in chosen for r in g.rewards],
            surprises=[float(s) for g in chosen for s in g.surprises],
        )

    def _draw(self, trainer: StepGRPOTrainer, blocks: Sequence[Block]) -> list[_Group]:
        """A group for every world of the blocks, which then step."""
        prompts = [block.prompt_ids() for block in blocks]
        completions, logps = trainer.completions([ids for part in prompts for ids in part], self.group)
        texts = self.language.tokenizer.batch_decode(completions, skip_special_tokens=True)
        size, groups = self.stream.size, []
        for b, (block, ids) in enumerate(zip(blocks, prompts, strict=True)):
            rows = [range((b * size + k) * self.group, (b * size + k + 1) * self.group) for k in range(size)]
            result = block.scorer.score(np.arange(size), [[texts[row] for row in group] for group in rows])
            rewards = with_price(block.scorer, result.rewards, result.gains, result.actions, self.act_price)
            likely = np.array([[logps[row] for row in group] for group in rows])
            surprises = np.where(result.allowed, -likely, 0.0)
            self.meter.group(result)
            self.meter.add("llm/action_entropy", float(surprises.mean()))
            for k, group in enumerate(rows):
                own = [completions[row] for row in group]
                groups.append(_Group(ids[k], own, rewards[k], surprises[k]))
            chosen = likely.argmax(1) if self.walk is Walk.likeliest else np.zeros(size, int)
            played = result.actions[np.arange(size), chosen]
            self.stream.advance(block, np.where(played == NO_ACTION, block.sim.noop, played))
        return groups


def with_price(
    scorer: GroupScorer, rewards: np.ndarray, gains: np.ndarray, actions: np.ndarray, price: float
) -> np.ndarray:
    """Rewards of actions that must pay `price` baseline ticks besides what they cost. NOOP keeps its own."""
    if price == 0.0:
        return rewards
    pays = ~np.isnan(gains) & (actions != scorer.sim.noop)
    return np.where(pays, scorer._bounded((np.where(pays, gains, 0.0) - price) / scorer.config.scale), rewards)


def draw_samples(
    trainer: StepGRPOTrainer, stream: Stream, language: LanguageModel, group: int, act_price: float, n: int = 4
) -> list[Sample]:
    """Groups of `n` states as they stand, for people: no world steps, and no draw of training is used up."""
    block = stream.blocks[stream.turn]
    prompts = block.prompt_ids()[:n]
    with th.random.fork_rng(devices=[]):
        completions = trainer.completions(prompts, group).ids
    texts = language.tokenizer.batch_decode(completions, skip_special_tokens=True)
    shaped = [texts[k * group : (k + 1) * group] for k in range(len(prompts))]
    result = block.scorer.score(np.arange(len(prompts)), shaped)
    rewards = with_price(block.scorer, result.rewards, result.gains, result.actions, act_price)
    return [
        Sample(
            ids, shaped[k], [str(code) for code in result.codes[k]],
            [Level(level).name.lower() for level in result.levels[k]], rewards[k], result.gains[k],
        )
        for k, ids in enumerate(prompts)
    ]  # fmt: skip


class ExactBatch(NamedTuple):
    """States, and what every action earns in them."""

    prompt_ids: list[list[int]]  # (N,)
    rewards: np.ndarray  # (N, A)
    admissible: np.ndarray  # (N, A) bool
    advance: Callable[[np.ndarray], None]  # is given the actions (N,) that are to be played


class ExactSource:
    """States with the rewards of all their actions; the arguments are those of GroupSource."""

    def __init__(self, stream: Stream, meter: Meter, *, act_price: float) -> None:
        self.stream, self.meter, self.act_price = stream, meter, act_price

    def __call__(self, trainer: Any, n: int) -> ExactBatch:
        size = self.stream.size
        blocks = [self.stream.take() for _ in range(n // size)]
        rewards, admissible = [], []
        for block in blocks:
            values = block.scorer.values_all()
            actions = np.broadcast_to(np.arange(block.sim.n_actions), values.rewards.shape)
            rewards.append(with_price(block.scorer, values.rewards, values.gains, actions, self.act_price))
            admissible.append(values.allowed)
            self.meter.values(values)

        def advance(actions: np.ndarray) -> None:
            for k, block in enumerate(blocks):
                self.stream.advance(block, actions[k * size : (k + 1) * size])

        ids = [row for block in blocks for row in block.prompt_ids()]
        return ExactBatch(ids, np.concatenate(rewards), np.concatenate(admissible), advance)
