"""Sampling and update of GRPO groups, shared prompt against TRL's own methods: same model, weights, rows, process.

    python scripts/bench.py grpo [--repetitions 3]         SmolLM2-135M, P about 200, G = 8, C = 16, fp32 and bf16

TRL's side is `_generate_single_turn` and `_get_per_token_logps_and_entropies` of its GRPOTrainer, without
gradient checkpointing (which is TRL's default and slower still). The update is forward and backward of the
policy loss with the entropy in it; both sides get the same completions. Gradients are compared as global
relative L2 distance to the gradient in fp64: TRL's method in fp32 is itself some 5e-5 away from it.
"""

from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch as th
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer

from trainers.llm.engine import StepGRPOTrainer
from trainers.llm.smollm2 import fetch

PROMPT, GROUP, COMPLETION = 200, 8, 16
SHAPE = f"P = {PROMPT}, G = {GROUP}, C = {COMPLETION}"
SIDES = ("trl", "shared")
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
    return th.cat([p.grad.double().flatten() for p in trainer.model.parameters() if p.grad is not None])


def distance(a: th.Tensor, b: th.Tensor) -> float:
    return float((a - b).norm() / b.norm())


def bench(states: int, repetitions: int) -> tuple[list[list[str]], dict[str, Any]]:
    """Rows of the table, and the numbers."""
    transformers.logging.disable_progress_bar()
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    folder = str(fetch())
    ids, mask, prompts = rows(states)
    truth = gradients_of(make_trainer(th.float64, folder), ids, mask, ["shared"])["shared"]
    table: list[list[str]] = []
    data: dict[str, Any] = {}
    for name, dtype in (("fp32", th.float32), ("bf16", th.bfloat16)):
        trainer = make_trainer(dtype, folder)
        gradients = gradients_of(trainer, ids, mask, SIDES)
        errors = {side: distance(gradient, truth) for side, gradient in gradients.items()}
        errors["between"] = distance(gradients["shared"], gradients["trl"])
        seconds: dict[str, list[list[float]]] = {side: [] for side in SIDES}
        for _ in range(repetitions):
            for side in SIDES:
                seconds[side].append(time_of(trainer, side, ids, mask, prompts))
        a, b = (np.array(seconds[side]) for side in SIDES)
        ratio = float(np.median(a.sum(1) / b.sum(1)))
        for k, part in enumerate(("sampling", "update")):
            table.append(
                [f"{name} {part}, s", *_pair(a[:, k], b[:, k]), f"{np.median(a[:, k] / b[:, k]):.2f}x", ""]
            )
        table.append(
            [f"{name} both, s", *_pair(a.sum(1), b.sum(1)), f"{ratio:.2f}x", _verdict(ratio >= 3, ">= 3x")]
        )
        data[name] = {"seconds": {"trl": a.tolist(), "shared": b.tolist()}, "ratio": ratio, "gradients": errors}
        del trainer, gradients
    fp32, bf16 = data["fp32"]["gradients"], data["bf16"]["gradients"]
    table += [
        ["fp32 gradient, distance to fp64", f"{fp32['trl']:.1e}", f"{fp32['shared']:.1e}", "",
         _verdict(fp32["shared"] <= 1e-5, "<= 1e-5")],
        ["fp32 gradients, distance of the two", "", f"{fp32['between']:.1e}", "", ""],
        ["bf16 gradient, distance to fp64", f"{bf16['trl']:.4f}", f"{bf16['shared']:.4f}",
         f"{bf16['shared'] / bf16['trl']:.2f}x", _verdict(bf16["shared"] <= 1.2 * bf16["trl"], "<= 1.2x")],
    ]  # fmt: skip
    return table, data


def methods(trainer: StepGRPOTrainer, side: str) -> tuple[Method, Method]:
    """(sampling, log-probabilities) of a side."""
    of: Any = super(StepGRPOTrainer, trainer) if side == "trl" else trainer
    return of._generate_single_turn, of._get_per_token_logps_and_entropies


def gradients_of(
    trainer: StepGRPOTrainer, ids: th.Tensor, mask: th.Tensor, sides: Sequence[str]
) -> dict[str, th.Tensor]:
    return {side: update(trainer, methods(trainer, side)[1], ids, mask) for side in sides}


def time_of(
    trainer: StepGRPOTrainer, side: str, ids: th.Tensor, mask: th.Tensor, prompts: list[list[int]]
) -> list[float]:
    """[sampling, update] in seconds of processor time."""
    generate, logps = methods(trainer, side)
    repeated = [prompt for prompt in prompts for _ in range(GROUP)]
    start = time.process_time()
    generate(repeated, None, {}, GROUP)
    middle = time.process_time()
    update(trainer, logps, ids, mask)
    return [middle - start, time.process_time() - middle]


def _pair(a: np.ndarray, b: np.ndarray) -> list[str]:
    return [f"{np.median(a):.2f}", f"{np.median(b):.2f}"]


def _verdict(met: bool, target: str) -> str:
    return f"{target} {'met' if met else 'MISSED'}"


HEADER = ["", "TRL", "shared", "ratio", "must reach"]


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
