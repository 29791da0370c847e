"""The worlds that training states come from: they stand where the policy has led them.

Worlds are kept in blocks that take turns. A block gives its states, gets an action for each of its worlds,
and steps; so the next states of a block are those that the policy of that moment led to, with no lag. Blocks
stand at different times of day, so that a step sees mornings and evenings.

The stream depends on the seed, and on nothing else but the actions: its state can be saved and set, and then
goes on the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch as th

from cloudrl.memory.immune import ImmuneMemory
from cloudrl.reward.bill import BILL_PARTS, served_share
from cloudrl.reward.terms import TERM_NAMES
from cloudrl.scenarios.schema import Scenario
from cloudrl.seeding import TRAIN_SEEDS
from cloudrl.simulator import Simulator
from cloudrl.types import State
from envs.cloudops.seeds import episode_seeds
from envs.group import GroupScorer
from evaluation.agents.lm_prompts import Prompts, prompts_of
from trainers.llm.config import GRPOConfig

_RESULTS = 200
"""Ended episodes whose results are kept."""


class Block:
    """Some worlds that stand at the same tick."""

    def __init__(self, sim: Simulator, scorer: GroupScorer, prompts: Prompts, first_world: int) -> None:
        self.sim, self.scorer, self.prompts = sim, scorer, prompts
        self.first_world = first_world
        self.episode = 0
        self.terms: dict[str, np.ndarray] = {}  # reward of the present episode by term, (size,) each

    def prompt_ids(self) -> list[list[int]]:
        """Tokens of the prompt of every world."""
        return self.prompts.ids(self.sim.observations, self.sim.masks)


class Stream:
    """Blocks of worlds.

    Args:
        config: of the run.
        scenario: the present stage's.
        model: a loaded model (trainers/llm/models.py), for how its prompts are made.
        n_blocks: how many blocks.
        size: worlds per block.
        rank: of this process: processes play different worlds.
    """

    def __init__(
        self,
        config: GRPOConfig,
        scenario: Scenario,
        model: Any,
        n_blocks: int,
        size: int,
        memory: ImmuneMemory | None = None,
        rank: int = 0,
    ) -> None:
        self.config, self.model, self.memory, self.rank = config, model, memory, rank
        self.n_blocks, self.size = n_blocks, size
        self.turn = 0
        self.wait = 0.0
        self.results: list[dict[str, float]] = []
        self.set_scenario(scenario)

    def set_scenario(self, scenario: Scenario) -> None:
        """Start all worlds anew, in another stage's scenario."""
        self.scenario = scenario
        self.blocks = [self._new_block(k) for k in range(self.n_blocks)]
        for k, block in enumerate(self.blocks):
            self._reset(block)
            for _ in range(k * block.sim.ticks // self.n_blocks):  # spread over the day
                block.sim.step(np.full(self.size, block.sim.noop), look=False)
            block.sim.look()

    def _new_block(self, k: int) -> Block:
        config = self.config
        sim = Simulator(
            self.scenario, self.size, reward=config.reward, safety=config.safety, memory=self.memory,
            n_slots=self.model.n_slots,
        )  # fmt: skip
        scorer = GroupScorer(sim, config.group, thinks=config.model.thinks)
        return Block(sim, scorer, prompts_of(self.model, sim), (self.rank * self.n_blocks + k) * self.size)

    def _reset(self, block: Block) -> None:
        worlds = block.first_world + np.arange(self.size)
        block.sim.reset(episode_seeds(self.config.seed, worlds, [block.episode] * self.size, TRAIN_SEEDS))
        block.episode += 1
        block.terms = {term: np.zeros(self.size) for term in TERM_NAMES}

    # ------------------------------------------------------------------ play
    def take(self) -> Block:
        """The next block. Its `advance` must be called before it comes again."""
        block = self.blocks[self.turn]
        self.turn = (self.turn + 1) % self.n_blocks
        return block

    def advance(self, block: Block, actions: np.ndarray) -> None:
        """Play flat actions (size,) in the worlds of a block, and then wait until the next state is due; worlds
        that are through begin a new episode.

        In a share `wait` of the worlds nothing is done instead: a model that is still random would wreck them all.
        """
        if self.wait > 0.0:
            actions = np.where(th.rand(self.size).numpy() < self.wait, block.sim.noop, actions)
        for k in range(self.config.grpo.stride):
            last = k == self.config.grpo.stride - 1
            block.sim.step(actions if k == 0 else np.full(self.size, block.sim.noop), look=last)
            for term in TERM_NAMES:
                block.terms[term] += block.sim.state.worlds[f"reward_{term}"]
            if block.sim.done.all():
                self._remember(block)
                self._reset(block)
                return

    def _remember(self, block: Block) -> None:
        w = block.sim.state.worlds
        columns = {"reward": w["reward_total"], "served": served_share(w)}
        columns |= {name: w[name] for name in ("vetoed", "invalid", "violations", "cascades")}
        columns |= {f"reward_{term}": block.terms[term] for term in TERM_NAMES}
        columns |= {f"bill_{part}": w[part] for part in BILL_PARTS}
        self.results += [{key: float(v[b]) for key, v in columns.items()} for b in range(self.size)]
        self.results = self.results[-_RESULTS:]

    # ------------------------------------------------------------------ to save and go on
    def get_state(self) -> dict[str, np.ndarray]:
        """All that the stream will depend on."""
        out: dict[str, Any] = {"turn": np.array(self.turn), "episodes": np.array([b.episode for b in self.blocks])}
        for k, name, array in self._arrays():
            out[f"block{k}.{name}"] = array.copy()
        return out

    def set_state(self, saved: Any) -> None:
        """Go on from what `get_state` gave. Raises ValueError if the worlds are of another size."""
        if len(saved["episodes"]) != self.n_blocks:
            raise ValueError(f"{len(saved['episodes'])} blocks of worlds were saved, there are {self.n_blocks}")
        self.turn = int(saved["turn"])
        for k, block in enumerate(self.blocks):
            block.episode = int(saved["episodes"][k])
            block.sim.restore(State(*(saved[f"block{k}.{name}"] for name in State._fields)))
            block.terms = {term: saved[f"block{k}.term_{term}"] for term in TERM_NAMES}

    def _arrays(self) -> Iterator[tuple[int, str, np.ndarray]]:
        for k, block in enumerate(self.blocks):
            for name, array in zip(State._fields, block.sim.state, strict=True):
                yield k, name, array
            for term, values in block.terms.items():
                yield k, f"term_{term}", values
