"""Warm start: the model learns to answer at all, and to read what is allowed.

The target is every admissible action equally likely, in states that random admissible play leads to: it uses
the mask, which every agent is given, and no reward and no runbook. A uniform target keeps the entropy that
GRPO needs (a model cloned from a runbook collapsed), and it can only be met by reading the prompt.

The whole distribution is the target, by the trie of all actions: one forward pass per state, no sampling.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch as th

from cloudrl.actions import N_OPS
from cloudrl.policies.scripted import handwritten
from cloudrl.scenarios.schema import Scenario
from cloudrl.seeding import TRAIN_SEEDS
from cloudrl.simulator import Simulator
from evaluation.agents.lm_files import LanguageModel
from evaluation.agents.lm_prompts import prompts_of
from evaluation.agents.lm_sampling import pad_left
from evaluation.agents.tiny_lm import action_tokens
from trainers.llm.config import GRPOConfig
from trainers.llm.precision import autocast, mask_dtype
from trainers.llm.trie import Trie, action_logps

_TRIES = 16
"""Sets of actions whose forced tokens are spelled out, in turn."""
_STRIDE = 3
"""Ticks between two labelled states of a world: neighbours are alike."""

Report = Callable[[int, dict[str, float]], None]


def make_tries(language: LanguageModel, n_slots: int, forced: int, seed: int) -> list[Trie]:
    """Tries of all actions, each with the forced tokens of other actions; one trie with all if `forced` is 0."""
    sequences = action_tokens(language.tokenizer, n_slots)
    if forced == 0 or forced >= len(sequences):
        return [Trie(sequences, None)]
    rng = np.random.default_rng([seed, 11])
    noop = len(sequences) - 1  # in every set: it is played most, so its end token must not be forgotten
    return [Trie(sequences, [noop, *rng.choice(noop, forced - 1, replace=False)]) for _ in range(_TRIES)]


def targets(masks: np.ndarray, present: np.ndarray, book: np.ndarray | None, share: float) -> np.ndarray:
    """(B, A) probabilities: uniform over admissible actions, and `share` on the actions `book` (B,)."""
    allowed = masks.copy()
    absent = np.repeat(~present, N_OPS, axis=1)
    allowed[:, :-1] &= ~absent
    uniform = allowed / allowed.sum(1, keepdims=True)
    if book is not None and share > 0.0:
        uniform *= 1.0 - share
        uniform[np.arange(len(book)), book] += share
    return uniform


def warm_start(language: LanguageModel, config: GRPOConfig, scenario: Scenario, report: Report) -> None:
    """Train all trainable weights of the model; `report(states, facts)` after every gradient step."""
    settings, model = config.warm_start, language.model
    batch = settings.batch
    sim = Simulator(
        scenario, batch, reward=config.reward, safety=config.safety, n_slots=language.n_slots or scenario.slots
    )
    prompts = prompts_of(language, sim)
    rng = np.random.default_rng([config.seed, 13])
    tries = make_tries(language, sim.n_slots, config.grpo.forced_actions, config.seed)
    weights = [p for p in model.parameters() if p.requires_grad]
    optimizer = th.optim.AdamW(weights, lr=settings.learning_rate, betas=(0.9, 0.98), weight_decay=0.0, fused=True)
    device = weights[0].device
    model.train()
    book = handwritten() if settings.runbook_share else None
    steps = int(settings.states) // batch
    sim.reset(rng.integers(TRAIN_SEEDS.start, TRAIN_SEEDS.stop, batch))
    for step in range(steps):
        ids, mask = pad_left(prompts.ids(sim.observations, sim.masks), language.tokenizer.pad_token_id)
        present = np.arange(sim.n_slots) < sim.state.worlds["n_resources"][:, None]
        chosen = None
        if book is not None:
            chosen = book.act(sim.observations, sim.masks, sim.state.worlds["key"], 0)
        target = th.from_numpy(targets(sim.masks, present, chosen, settings.runbook_share)).float().to(device)
        logps, forced = action_logps(
            model, tries[step % len(tries)], ids.to(device), mask.to(device), 1.0, mask_dtype(config.model),
            lambda: autocast(config.model, model),
        )  # fmt: skip
        fit = -(target * logps).sum(1).mean()
        loss = fit - forced.sum(1).mean()
        for group in optimizer.param_groups:
            group["lr"] = settings.learning_rate * min(1.0, (step + 1) / 20) * (1.0 - 0.9 * step / steps)
        optimizer.zero_grad()
        loss.backward()
        th.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        with th.no_grad():
            right = (logps.exp() * (target > 0)).sum(1).mean()
        report(
            (step + 1) * batch,
            {
                "warm_start/loss": float(fit.detach()),
                "warm_start/admissible": float(right),
                "warm_start/forced": float(forced.detach().exp().mean()),
            },
        )
        for _ in range(_STRIDE):
            if sim.done.any():
                sim.reset(rng.integers(TRAIN_SEEDS.start, TRAIN_SEEDS.stop, batch))
            sim.step(random_play(sim.masks, rng))


def random_play(masks: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(B,) actions: a random admissible one in every other world, else NOOP: random acts alone wreck a world."""
    anything = np.argmax(np.where(masks, rng.random(masks.shape), -1.0), axis=1)
    return np.where(rng.random(len(masks)) < 0.15, anything, masks.shape[1] - 1)
