"""What a language model might have said: a group of its replies to the state that is shown, and their worth.

As GRPO compares them (envs/group.py): each reply is parsed, judged, and played in a fork of this very world; its
advantage is its reward less the mean of the group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cloudrl.llm.parse import Code
from cloudrl.simulator import Simulator
from envs.cloudops.render_ansi import describe, names_of
from envs.group import GroupScorer, Level, explain


@dataclass(frozen=True)
class Candidate:
    """One of the different replies of a group."""

    text: str
    times: int  # of the group
    code: str  # of the parser
    level: str
    verdict: str  # with its reason
    action: str  # in words; empty where there is none
    gain: float  # baseline ticks over doing nothing; NaN unless admissible
    reward: float
    advantage: float


@dataclass(frozen=True)
class Group:
    """G replies to one state, the best first."""

    prompt: str
    size: int
    temperature: float
    candidates: list[Candidate]


def can_sample(player: Any) -> bool:
    """Whether a player is a language model of this project."""
    return hasattr(player, "language") and hasattr(player, "prompts")


def draw(player: Any, sim: Simulator, size: int, temperature: float, salt: int) -> Group:
    """Sample `size` replies of a language model (CheckpointAgent) in the one world of `sim`; nothing is played.

    `salt`: another one, another group.
    """
    import torch as th

    from evaluation.agents.lm_sampling import pad_left, sample

    language = player.language
    (ids,) = player.prompts.ids(sim.observations, sim.masks)
    tokenizer, facts = language.tokenizer, language.facts
    w: Any = sim.state.worlds[0]
    luck = np.random.default_rng([int(w["seed"]), int(w["tick"]), salt])
    prompt, mask = pad_left([ids], tokenizer.pad_token_id)
    device = next(language.model.parameters()).device
    drawn = sample(
        language.model, prompt.to(device), mask.to(device), n=size, max_tokens=facts.max_tokens, eos=language.eos,
        pad=tokenizer.pad_token_id, temperature=temperature,
        uniforms=th.from_numpy(luck.random((size, facts.max_tokens))),
    )  # fmt: skip
    texts = tokenizer.batch_decode(drawn.ids, skip_special_tokens=True)
    result = GroupScorer(sim, thinks=facts.thinks).score([0], [texts])
    rewards = result.rewards[0]
    advantages = rewards - rewards.mean()
    out: dict[str, Candidate] = {}
    for k, text in enumerate(texts):
        action = int(result.actions[0, k])
        out[text] = Candidate(
            text, texts.count(text), str(result.codes[0, k]), Level(result.levels[0, k]).name.lower(),
            explain(sim, 0, result.parsed[0][k]),
            describe(action, sim, names_of(sim, 0)) if result.codes[0, k] == Code.ok else "",
            float(result.gains[0, k]), float(rewards[k]), float(advantages[k]),
        )  # fmt: skip
    best_first = sorted(out.values(), key=lambda candidate: -candidate.reward)
    return Group(player.prompts.text(ids), size, temperature, best_first)
