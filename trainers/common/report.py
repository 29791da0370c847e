"""What a run writes about itself: scalars, evaluation files, the final table and the model card."""

from __future__ import annotations

from typing import Any

import numpy as np
from sb3_contrib import MaskablePPO

from cloudrl.actions import N_OPS, OP_NAMES
from cloudrl.config import PPOConfig
from cloudrl.reward.bill import BILL_PARTS
from cloudrl.reward.terms import TERM_NAMES
from cloudrl.runs import Run, latest_checkpoint, resume_command, save_json, write_card
from cloudrl.scenarios.schema import Scenario
from cloudrl.seeding import VALIDATION_SEEDS
from envs.cloudops.sb3 import CloudOpsSB3VecEnv
from evaluation import table
from evaluation.agents.policy_agent import PolicyAgent
from evaluation.rollout import Episodes
from evaluation.statistics import paired
from trainers.common import card
from trainers.common.checkpoints import Progress, load_model
from trainers.common.pictures import board_of, show_validation
from trainers.common.validation import Validation, Validator, baselines


def record_episodes(model: MaskablePPO, worlds: CloudOpsSB3VecEnv, stage: int) -> None:
    """Scalars of the episodes that ended lately, as SB3 and this project name them."""
    record = model.logger.record
    ended = [info for info in (model.ep_info_buffer or []) if info]
    if ended:
        record("rollout/ep_rew_mean", float(np.mean([e["r"] for e in ended])))
        record("rollout/ep_len_mean", float(np.mean([e["l"] for e in ended])))
    if model.ep_success_buffer:
        record("rollout/success_rate", float(np.mean(model.ep_success_buffer)))
    metrics = worlds.recent_metrics()
    if metrics:
        mean = {key: float(np.mean([m[key] for m in metrics])) for key in metrics[0]}
        for term in TERM_NAMES:
            record(f"reward/{term}", mean[f"reward/{term}"])
        for part in BILL_PARTS:
            record(f"bill/{part}", mean[f"bill/{part}"])
        ticks = worlds.simulator.ticks
        record("safety/veto_rate", mean["vetoed"] / ticks)
        record("safety/invalid_rate", mean["invalid"] / ticks)
        record("safety/violations", mean["violations"])
        record("ops/slo", mean["served"])
        record("ops/cascades", mean["cascades"])
    record("safety/mask_fraction", float(worlds.simulator.masks.mean()))
    record("curriculum/stage", stage)
    if worlds.memory is not None:
        record("memory/size", len(worlds.memory))
        record("memory/hits", int((worlds.memory.tables.risk > 0).sum()))
        record("memory/vetoes", int((worlds.memory.tables.antibodies != 0).sum()))


def record_validation(model: MaskablePPO, run: Run, validator: Validator, result: Validation) -> None:
    """Scalars and pictures of a validation, and its details in eval/<steps>.json."""
    record = model.logger.record
    record("eval/mean_reward", result.reward)
    record("eval/deterministic_reward", float(result.deterministic.reward.mean()))
    record("eval/success_rate", result.win_rate)
    for name in ("bill", "served", "violations", "cascades"):
        record(f"eval/{name}", float(getattr(result.sampled, name).mean()))
    record("ops/win_rate", result.win_rate)
    record("ops/savings", result.savings)
    board = board_of(model.logger)
    if board is not None:
        safety = validator.config.safety
        show_validation(board, validator.scenario, safety, result.sampled, result.actions, model.num_timesteps)
    save_json(
        run.eval / f"{model.num_timesteps:012d}.json",
        {
            "steps": model.num_timesteps,
            "sampled": summary(result.sampled),
            "deterministic": summary(result.deterministic),
        },
    )


def summary(episodes: Episodes) -> dict[str, Any]:
    """Means over worlds."""
    out: dict[str, Any] = {
        "worlds": len(episodes.seeds),
        "reward": float(episodes.reward.mean()),
        "bill": float(episodes.bill.mean()),
        "win_rate": float(episodes.won.mean()),
        "served": float(episodes.served.mean()),
        "violations": float(episodes.violations.mean()),
        "cascades": float(episodes.cascades.mean()),
        **{part: float(values.mean()) for part, values in episodes.parts.items()},
    }
    if episodes.ops is not None:
        out["operations"] = {OP_NAMES[k]: float(episodes.ops[:, k].mean()) for k in range(N_OPS + 1)}
    return out


def final_report(config: PPOConfig, run: Run, scenario: Scenario, model: MaskablePPO, progress: Progress) -> float:
    """Load the best policy, tune NOOP, print the table and write the card. Returns the sampled mean reward."""
    steps, best = model.num_timesteps, latest_checkpoint(run.best)
    if best is not None:
        model = load_model(best, config, model.get_env())  # type: ignore[arg-type]
    tuner = Validator(config, scenario, config.evaluation.worlds)
    offset = tuner.best_noop_offset(model, [0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0, -4.0], deterministic=True)
    judge = Validator(config, scenario, config.evaluation.final_worlds, VALIDATION_SEEDS.start)
    results = {name: judge.play(agent) for name, agent in baselines(scenario).items()}
    results["trained, sampled"] = judge.play(PolicyAgent(model.policy, deterministic=False))
    results["trained, best action"] = judge.play(PolicyAgent(model.policy, noop_offset=offset))
    rows = table.rows(results)
    seeds = judge.seeds
    title = f"{scenario.name}: {len(seeds)} validation worlds, seeds {seeds[0]}-{seeds[-1]}; ± = 95 % interval"
    table.show(rows, title)
    hand, sampled = results["handwritten"], results["trained, sampled"]
    gain = paired(hand.bill, sampled.bill)
    print(f"Against the hand-written runbook, world by world: sampled play saves $ {gain} (below 0: costs more).")
    save_json(run.eval / "final.json", {"rows": table.plain(rows), "noop_offset": offset, "seeds": seeds})
    net, size = config.ppo.policy.value, sum(weight.numel() for weight in model.policy.parameters())
    about = card.Card(
        what=f"A network (`{net}`, {size:,} weights) that reads the observation and the mask, and answers with "
        "one action per tick.",
        training=(
            f"Warm start on {config.warm_start.states:,} states whose actions were measured by forks, then masked "
            f"PPO, {steps:,} environment steps; {progress.seconds:.0f} s of processor time. The policy of step "
            f"{model.num_timesteps:,}, which had the best validation, is kept in `best/`.",
        ),
        results=f"{title}.\n\n{table.markdown(rows)}\n"
        f"Against the hand-written runbook, world by world, sampled play saves $ {gain} (below 0: costs more). "
        f"Best action with {offset:+.1f} on the logit of NOOP.",
        chosen="The checkpoint, and how much acting must pay (the logit of NOOP), were chosen",
        limits=(
            "It runs on any number of resources; how well it does elsewhere was not measured here."
            if net == "set"
            else "It runs on this number of resources only.",
        ),
        agent="ppo",
        page="ppo.md",
        licence=card.licence(),
    )
    write_card(run, card.markdown(about, config, run, scenario))
    print(f"\nrun folder   {run.path}\ncurves       tensorboard --logdir {run.path.parent.parent}\n"
          f"go on        {resume_command(run, 'ppo')} ppo.total_timesteps=...")  # fmt: skip
    return float(sampled.reward.mean())
