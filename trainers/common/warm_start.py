"""Warm start of the actor: regress the worth of actions, measured by forks, before PPO begins.

Needs persist in this world: an act that is due saves two dollars whether it comes now or in ten minutes, and a
policy gradient from scratch cannot see two dollars in a day's noise: it learns to do nothing. A fork can: the same
world with and without the act, on the same luck. For sampled states and candidate actions a

    worth(s, a) = reward of the episode (a now, nothing after) - reward of the episode (nothing)

is regressed by the actor's own logits,  logit(a) - logit(NOOP) = sharpness worth(s, a),  so that the softmax
policy prefers what is worth more, and acts where something is worth it. No demonstration, no runbook: only the
world.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch as th
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy

from cloudrl.config import WarmStart
from cloudrl.policies.lookahead import Lookahead
from cloudrl.seeding import TRAIN_SEEDS
from cloudrl.simulator import Simulator
from evaluation.agents.networks import action_logits_and_values, policy_inputs, policy_outputs

CLIP = 60.0  # baseline ticks
_RECENT = 800  # batches of labels that may be drawn again
_BATCHES_PER_UPDATE = 8


def warm_start(
    model: MaskablePPO,
    sim: Simulator,
    settings: WarmStart,
    seed: int,
    progress: Callable[[int, dict[str, float]], None] = lambda states, facts: None,
) -> None:
    """Train the actor of `model` on `settings.states` labelled states of `sim` (its worlds are restarted)."""
    policy, rng = model.policy, np.random.default_rng([seed, 7])
    optimizer = th.optim.Adam(policy.parameters(), settings.learning_rate, eps=1e-5, fused=True)
    ahead = Lookahead(sim)
    batches: list[tuple[th.Tensor, th.Tensor, th.Tensor]] = []
    n, tick = sim.n_worlds, 0
    sim.reset(rng.integers(TRAIN_SEEDS.start, TRAIN_SEEDS.stop, n))
    states = 0
    with ThreadPoolExecutor(1) as forks:
        while states < settings.states:
            done = states / settings.states
            if sim.done.any():
                sim.reset(rng.integers(TRAIN_SEEDS.start, TRAIN_SEEDS.stop, n))
            logits = _logits(policy, sim.observations)
            if tick % settings.every == 0:
                candidates = _candidates(logits, sim.masks, settings.candidates, rng)
                measured = forks.submit(ahead.worth, candidates)  # while the actor learns from the labels so far
                loss = 0.0
                if len(batches) >= _BATCHES_PER_UPDATE:
                    for group in optimizer.param_groups:
                        group["lr"] = settings.learning_rate * max(0.05, 1.0 - done)
                    for _ in range(settings.updates):
                        loss = _update(policy, optimizer, batches, settings.sharpness, rng)
                worth = np.clip(measured.result(), -CLIP, CLIP)
                worth[candidates == sim.noop] = np.nan  # fewer actions than candidates: filled up with NOOP
                batches.append(
                    (
                        th.from_numpy(sim.observations.copy()),
                        th.from_numpy(candidates),
                        th.from_numpy(worth.astype(np.float32)),
                    )
                )
                batches = batches[-_RECENT:]
                states += n
                progress(states, {"warm_start/loss": loss, "warm_start/worth": float(np.nanmean(np.abs(worth)))})
            sim.step(_behave(logits, sim.masks, done, rng))
            tick += 1


def _logits(policy: MaskableActorCriticPolicy, observations: np.ndarray) -> np.ndarray:
    with th.no_grad():
        return action_logits_and_values(policy, th.from_numpy(observations).to(policy.device))[0].cpu().numpy()


def _candidates(logits: np.ndarray, masks: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """(B, k) different admissible actions: half of them uniform, half as the policy would choose; never NOOP.

    The largest of logits plus Gumbel noise are a sample without replacement from the softmax.
    """
    noise = rng.gumbel(size=(2, *masks.shape))
    allowed = masks.copy()
    allowed[:, -1] = False
    rows = np.arange(len(masks))[:, None]
    uniform = np.argsort(-np.where(allowed, noise[0], -np.inf), axis=1)[:, : k // 2]
    uniform = np.where(allowed[rows, uniform], uniform, masks.shape[1] - 1)
    left = allowed.copy()
    left[rows, uniform] = False
    likely = np.argsort(-np.where(left, logits + noise[1], -np.inf), axis=1)[:, : k - k // 2]
    likely = np.where(left[rows, likely], likely, masks.shape[1] - 1)
    return np.concatenate([uniform, likely], axis=1)


def _behave(logits: np.ndarray, masks: np.ndarray, done: float, rng: np.random.Generator) -> np.ndarray:
    """Actions (B,) that lead to the next states: the policy's, at first mostly NOOP, always a few random ones."""
    n = len(masks)
    own = np.argmax(np.where(masks, logits + rng.gumbel(size=masks.shape), -np.inf), axis=1)
    anything = np.argmax(np.where(masks, rng.random(masks.shape), -1.0), axis=1)
    u = rng.random(n)
    wait = 0.05 + 0.6 * max(0.0, 1.0 - 3.0 * done)
    return np.where(u < 0.05, anything, np.where(u < wait, masks.shape[1] - 1, own))


def _update(
    policy: MaskableActorCriticPolicy,
    optimizer: th.optim.Optimizer,
    batches: list[tuple[th.Tensor, th.Tensor, th.Tensor]],
    sharpness: float,
    rng: np.random.Generator,
) -> float:
    """One gradient step on a few batches of labels. Returns the loss."""
    picked = [batches[i] for i in rng.integers(0, len(batches), _BATCHES_PER_UPDATE)]
    observations, candidates, worth = (th.cat(part).to(policy.device) for part in zip(*picked, strict=True))
    logits, _ = policy_outputs(policy, policy_inputs(policy, observations))
    predicted = (logits.gather(1, candidates) - logits[:, -1:]) / sharpness
    known = ~th.isnan(worth)
    error = th.where(known, predicted - th.nan_to_num(worth), 0.0)
    loss = 0.01 * error.square().mean()
    optimizer.zero_grad()
    loss.backward()
    th.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()
    return float(loss.detach())
