"""From a checked config to TRL's trainer around a model and a stream of states."""

from __future__ import annotations

import inspect
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch as th
import transformers
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import PrinterCallback, ProgressCallback
from trl import GRPOConfig as TRLConfig

from cloudrl.errors import UserError, did_you_mean
from cloudrl.memory.immune import ImmuneMemory
from cloudrl.runs import Run, locked
from cloudrl.scenarios.schema import Scenario
from cloudrl.simulator import Simulator
from evaluation.agents.lm_files import LanguageModel
from evaluation.agents.lm_prompts import prompts_of
from trainers.llm.architecture import why_not_packed
from trainers.llm.config import Dtype, Estimator, GRPOConfig, TRLPath, Walk
from trainers.llm.engine import StepGRPOTrainer
from trainers.llm.exact import ExactGRPOTrainer
from trainers.llm.groups import ExactSource, GroupSource
from trainers.llm.meter import Meter
from trainers.llm.stream import Stream
from trainers.llm.warm_start import make_tries


class Driver(Protocol):
    """Who is told how TRL's loop stands (trainers.grpo.Trainer)."""

    def begin(self) -> None: ...

    def first_batch(self) -> None: ...

    def before_step(self, step: int) -> None: ...

    def after_step(self, step: int) -> bool: ...

    def after_log(self, figures: dict[str, Any]) -> None: ...


class _Tell(TrainerCallback):
    """TRL's loop calls the driver."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        self.driver.begin()

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        self.driver.before_step(state.global_step)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> TrainerControl:
        if self.driver.after_step(state.global_step):
            control.should_training_stop = True
        return control

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, logs: Any = None, **_: Any
    ) -> None:
        self.driver.after_log(dict(logs or {}))


def falling(start: float, end: float, done: float) -> float:
    """From `start` to `end` by the same factor with every step; to 0 in a straight line."""
    if min(start, end) <= 0.0:
        return start + (end - start) * done
    return float(start * (end / start) ** done)


def set_entropy_coef(trainer: StepGRPOTrainer, coef: float) -> None:
    """What the entropy of an action is worth from now on."""
    if isinstance(trainer, ExactGRPOTrainer):
        trainer.action_entropy_coef = coef
    else:
        trainer.reward_weights[1] = coef


def quiet() -> None:
    """Libraries keep to themselves what concerns their authors; errors stay."""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    logging.getLogger("accelerate").setLevel(logging.ERROR)
    logging.getLogger("trl").setLevel(logging.ERROR)
    for category in (FutureWarning, UserWarning):
        warnings.filterwarnings("ignore", category=category, module=r"(transformers|trl|peft|accelerate|torch)\b")


def rank() -> int:
    """Of this process among those that `accelerate launch` started."""
    return int(os.environ.get("RANK", 0))


def world_size() -> int:
    return int(os.environ.get("WORLD_SIZE", 1))


@contextmanager
def only_writer(run: Run) -> Iterator[None]:
    """The first process of a launch holds the run; the others only read it."""
    with locked(run) if rank() == 0 else nullcontext():
        yield


def of_the_first(make: Callable[[], Run]) -> Run:
    """The run that the first process makes, in all of them."""
    if world_size() == 1:
        return make()
    from accelerate import PartialState
    from accelerate.utils import broadcast_object_list

    PartialState(cpu=not th.cuda.is_available())
    path = str(make().path) if rank() == 0 else ""
    return Run(Path(broadcast_object_list([path])[0]))


def check(config: GRPOConfig, device: str) -> None:
    """What can be wrong across settings. Raises UserError before anything is made."""
    if config.resume is not None and world_size() > 1:
        raise UserError("resume: only a run of one process can go on; start it without accelerate launch")
    known = set(inspect.signature(TRLConfig).parameters)
    for key in config.trl.extra:
        if key not in known:
            raise UserError(f"trl.extra.{key}: trl.GRPOConfig has no such argument; {did_you_mean(key, known)}")
        default, value = getattr(TRLConfig, key, None), config.trl.extra[key]
        if isinstance(default, int | float) and not isinstance(value, int | float):
            raise UserError(f"trl: extra.{key}={value}: expects a number, such as {default}")
    arguments(config, Run(Path(config.runs_dir)), device)
    exact = config.grpo.estimator is Estimator.exact
    if exact and config.trl.path is TRLPath.stock:
        raise UserError("trl.path=stock: the exact estimator packs; say trl.path=auto or grpo.estimator=group")
    if exact and config.trl.num_iterations > 1:
        raise UserError("trl.num_iterations: the exact estimator has no old samples to use again; say 1")
    if exact and config.trl.extra.get("use_vllm"):
        raise UserError("trl.extra.use_vllm: the exact estimator generates nothing; say grpo.estimator=group")


def check_prompts(config: GRPOConfig, language: LanguageModel, scenarios: list[Scenario]) -> None:
    """The first prompts of every stage fit into the model's context. Raises UserError."""
    for scenario in scenarios:
        sim = Simulator(scenario, 4, reward=config.reward, safety=config.safety)
        sim.reset(np.arange(sim.n_worlds))
        prompts_of(language, sim).ids(sim.observations, sim.masks)


def make_memory(config: GRPOConfig, checkpoint: Path | None) -> ImmuneMemory | None:
    """The immune memory that training starts with; None if it is off."""
    if not config.memory.enabled:
        return None
    saved = checkpoint / "memory.json" if checkpoint is not None else None
    path = saved if saved is not None and saved.exists() else config.memory.path
    return ImmuneMemory.load(path, config.memory) if path is not None else ImmuneMemory(config.memory)


def is_shared(config: GRPOConfig, language: LanguageModel) -> bool:
    """Whether a group's prompt is computed once. Raises UserError if that was asked for and would be wrong."""
    wanted = config.trl.path
    reason = why_not_packed(language.model)
    exact = config.grpo.estimator is Estimator.exact
    if reason is not None and (wanted is TRLPath.shared or exact):
        asked = "grpo.estimator=exact" if exact else "trl.path=shared"
        cure = "grpo.estimator=group trl.path=stock" if exact else "trl.path=stock"
        raise UserError(f"{asked}: {language.facts.name} cannot be packed, since {reason}; say {cure}")
    return wanted is not TRLPath.stock and reason is None and not config.trl.extra.get("use_vllm")


def arguments(config: GRPOConfig, run: Run, device: str) -> TRLConfig:
    """TRL's arguments. Raises UserError for what TRL refuses."""
    grpo, trl = config.grpo, config.trl
    micro = grpo.micro_states or grpo.states
    bf16 = config.model.dtype is Dtype.bfloat16
    chosen: dict[str, Any] = {
        "output_dir": str(run.path),  # TRL itself writes nothing there
        "max_steps": int(grpo.steps),
        "per_device_train_batch_size": micro * grpo.group,
        "gradient_accumulation_steps": grpo.states // micro,
        "num_generations": grpo.group,
        "max_completion_length": grpo.max_tokens,
        "temperature": grpo.temperature,
        "learning_rate": grpo.learning_rate,
        "lr_scheduler_type": "cosine_with_min_lr",
        "lr_scheduler_kwargs": {"min_lr_rate": grpo.learning_rate_final_fraction},
        "warmup_steps": grpo.warmup,
        "weight_decay": grpo.weight_decay,
        "adam_beta2": 0.98,
        "max_grad_norm": grpo.max_grad_norm,
        "loss_type": trl.loss_type,
        "scale_rewards": trl.scale_rewards,
        "num_iterations": trl.num_iterations,
        "beta": trl.beta,
        "logging_steps": grpo.log_every,
        "seed": config.seed % 2**32,
        "use_cpu": device == "cpu",
        "bf16": bf16,
        "gradient_checkpointing": False,
        "shuffle_dataset": False,
        "dataloader_num_workers": 0,
        "dataloader_pin_memory": False,
        "save_strategy": "no",
        "report_to": [],
        "disable_tqdm": True,
    }
    try:
        return TRLConfig(**(chosen | dict(trl.extra)))
    except (ValueError, TypeError) as error:
        raise UserError(f"trl: {str(error).splitlines()[0]}") from error


def make_trl(
    config: GRPOConfig,
    run: Run,
    language: LanguageModel,
    stream: Stream,
    meter: Meter,
    device: str,
    driver: Driver,
) -> StepGRPOTrainer:
    """TRL's trainer. The model must already be what is to be trained."""
    grpo = config.grpo
    common: dict[str, Any] = {
        "args": arguments(config, run, device),
        "model": language.model,
        "processing_class": language.tokenizer,
        "callbacks": [_Tell(driver)],
    }
    started = False

    def first_time() -> None:
        nonlocal started
        if not started:
            started = True
            driver.first_batch()

    if grpo.estimator is Estimator.exact:
        is_shared(config, language)
        states = ExactSource(stream, meter, act_price=grpo.act_price)

        def exact(trainer: Any, n: int) -> Any:
            first_time()
            return states(trainer, n)

        tries = make_tries(language, stream.blocks[0].sim.n_slots, grpo.forced_actions, config.seed)
        trainer: StepGRPOTrainer = ExactGRPOTrainer(
            exact=exact, tries=tries, floor=config.group.malformed, forced_coef=grpo.forced_coef, meter=meter,
            draws=grpo.group if grpo.walk is Walk.likeliest else 1,
            source=_nothing, shared=True, **common,
        )  # fmt: skip
    else:
        groups = GroupSource(
            stream, language, meter, group=grpo.group, redraw=grpo.redraw, act_price=grpo.act_price,
            measure_every=grpo.log_every, walk=grpo.walk,
        )  # fmt: skip

        def source(trainer: Any, n: int) -> Any:
            first_time()
            return groups(trainer, n)

        trainer = StepGRPOTrainer(source=source, shared=is_shared(config, language), **common)
    for callback in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(callback)
    return trainer


def _nothing(trainer: Any, n: int) -> Any:
    raise AssertionError("the exact estimator samples no groups")
