"""Sampling and update of GRPO groups, shared prompt against TRL's own methods: same model, weights, rows, process.

    python scripts/bench.py grpo [--repetitions 3]         SmolLM2-135M, P about 200, G = 8, C = 16, fp32 and bf16

TRL's side is `_generate_single_turn` and `_get_per_token_logps_and_entropies` of its GRPOTrainer, without
gradient checkpointing (which is TRL's default and slower still). The update is forward and backward of the
policy loss with the entropy in it; both sides get the same completions. Gradients are compared as global
relative L2 distance, in bf16 with the fp32 gradient of TRL's method as the truth."""

from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import argparse
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch as th
from transformers import AutoModelForCausalLM, AutoTokenizer

from trainers.llm.engine import StepGRPOTrainer
from trainers.llm.smollm2 import fetch

PROMPT, GROUP, COMPLETION = 200, 8, 16
NEVER = [10**9]  # no end token: every completion has its full length on both sides

Method = Callable[..., Any]


def make_trainer(dtype: th.dtype, folder: str) -> StepGRPOTrainer:
    """A trainer around SmolLM2 whose methods are called by hand."""
    from datasets import Dataset
    from trl import GRPOConfig

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
    arguments = GRPOConfig(
        output_dir=tempfile.mkdtemp(), per_device_train_batch_size=GROUP, num_generations=GROUP,
        max_completion_length=COMPLETION, max_steps=1, use_cpu=True, bf16=False, gradient_checkpointing=False,
        report_to=[], shuffle_dataset=False,
    )  # fmt: skip
    trainer = StepGRPOTrainer(
        source=None, shared=True, args=arguments, model=model, reward_funcs=lambda **_: [0.0],
        train_dataset=Dataset.from_dict({"prompt": ["-"]}), processing_class=AutoTokenizer.from_pretrained(folder),
    )  # fmt: skip
    trainer.eos_token_ids = NEVER
    trainer.generation_config.eos_token_id = None
    trainer.generation_kwargs["eos_token_id"] = None
    return trainer


def rows(states: int) -> tuple[th.Tensor, th.Tensor, list[list[int]]]:
    """(input ids, mask) (states * G, P + C), and the prompts."""
    generator = th.Generator().manual_seed(0)
    prompts = th.randint(100, 40_000, (states, PROMPT), generator=generator)
    completions = th.randint(100, 40_000, (states * GROUP, COMPLETION), generator=generator)
    ids = th.cat([prompts.repeat_interleave(GROUP, 0), completions], 1)
    return ids, th.ones_like(ids), prompts.tolist()


def update(trainer: StepGRPOTrainer, method: Method, ids: th.Tensor, mask: th.Tensor) -> th.Tensor:
    """Forward and backward of a policy loss; the gradient as one vector."""
    weights = th.randn(len(ids), COMPLETION, generator=th.Generator().manual_seed(1))
    trainer.model.zero_grad()
    logps, entropies, _ = method(trainer.model, ids, mask, COMPLETION, compute_entropy=True)
    loss = -(weights * logps).sum() / logps.numel() - 0.01 * entropies.mean()
    loss.backward()
    return th.cat([p.grad.float().flatten() for p in trainer.model.parameters() if p.grad is not None])


def distance(a: th.Tensor, b: th.Tensor) -> float:
    return float((a - b).norm() / b.norm())


def bench(states: int, repetitions: int) -> tuple[list[list[str]], dict[str, Any]]:
    """Rows of the table, and the numbers."""
    folder = str(fetch())
    ids, mask, prompts = rows(states)
    repeated = [p for p in prompts for _ in range(GROUP)]
    table, data, truth = [], {}, None
    for name, dtype in (("fp32", th.float32), ("bf16", th.bfloat16)):
        trainer = make_trainer(dtype, folder)
        trl: Any = super(StepGRPOTrainer, trainer)
        sides = {
            "trl": (trl._generate_single_turn, trl._get_per_token_logps_and_entropies),
            "shared": (trainer._generate_single_turn, trainer._get_per_token_logps_and_entropies),
        }
        gradients = {side: update(trainer, methods[1], ids, mask) for side, methods in sides.items()}
        seconds: dict[str, list[list[float]]] = {side: [] for side in sides}
        for _ in range(repetitions):
            for side, (generate, logps) in sides.items():
                start = time.process_time()
                generate(repeated, None, {}, GROUP)
                middle = time.process_time()
                update(trainer, logps, ids, mask)
                seconds[side].append([middle - start, time.process_time() - middle])
        a, b = (np.array(seconds[side]) for side in ("trl", "shared"))
        both = float(np.median(a.sum(1) / b.sum(1)))
        if truth is None:
            truth = gradients["trl"]
            errors = {"shared against TRL": distance(gradients["shared"], truth)}
        else:
            errors = {side: distance(g, truth) for side, g in gradients.items()}
        for k, part in enumerate(("sampling", "update")):
            table.append(
                [f"{name} {part}", f"{np.median(a[:, k]):.2f}", f"{np.median(b[:, k]):.2f}",
                 f"{np.median(a[:, k] / b[:, k]):.2f}x", ""]
            )  # fmt: skip
        table.append(
            [f"{name} both", f"{np.median(a.sum(1)):.2f}", f"{np.median(b.sum(1)):.2f}", f"{both:.2f}x",
             ">= 3 " + ("met" if both >= 3 else "MISSED")]
        )  # fmt: skip
        data[name] = {"seconds": {"trl": a.tolist(), "shared": b.tolist()}, "ratio": both, "gradients": errors}
        del trainer, sides
    exact = data["fp32"]["gradients"]["shared against TRL"]
    table.append(
        [
            "fp32 gradients, relative L2",
            "",
            f"{exact:.1e}",
            "",
            "<= 1e-5 " + ("met" if exact <= 1e-5 else "MISSED"),
        ]
    )
    ours, theirs = data["bf16"]["gradients"]["shared"], data["bf16"]["gradients"]["trl"]
    table.append(
        ["bf16 gradients against fp32", f"{theirs:.4f}", f"{ours:.4f}", f"{ours / theirs:.2f}x",
         "<= 1.2x " + ("met" if ours <= 1.2 * theirs else "MISSED")]
    )  # fmt: skip
    return table, data


HEADER = ["one state: seconds", "TRL", "shared", "ratio", "must reach"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--states", type=int, default=1)
    parser.add_argument("--repetitions", type=int, default=3)
    args = parser.parse_args()
    th.set_num_threads(1)
    table, _ = bench(args.states, args.repetitions)
    for row in [HEADER, *table]:
        print(" | ".join(cell.ljust(28 if k == 0 else 14) for k, cell in enumerate(row)))


if __name__ == "__main__":
    main()
