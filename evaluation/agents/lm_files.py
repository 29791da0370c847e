"""A language model of this project on disk: weights and tokenizer as transformers saves them, and what it reads.

folder/model.safetensors config.json tokenizer.json ...     or an adapter of peft, adapter_model.safetensors
folder/language.json      style of its prompts and of its replies
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch as th
from safetensors import SafetensorError

from cloudrl.errors import UserError

DESCRIPTION = "language.json"
FORMAT = 1


@dataclass
class LanguageFacts:
    """What has to be known of a model besides its files."""

    name: str
    style: str  # of its prompts
    allowed: bool  # they say what is allowed
    thinks: bool
    template: dict[str, Any]  # options of the chat template
    max_tokens: int  # of a reply
    n_slots: int | None  # that its tokenizer knows; None = any
    observation_version: int
    base: str | None = None  # what an adapter belongs to: a folder or a name on the hub
    notes: dict[str, Any] = field(default_factory=dict)
    format: int = FORMAT


@dataclass
class LanguageModel:
    """A loaded model. `model` may be wrapped by an adapter."""

    model: Any
    tokenizer: Any
    facts: LanguageFacts

    @property
    def style(self) -> str:
        return self.facts.style

    @property
    def allowed(self) -> bool:
        return self.facts.allowed

    @property
    def n_slots(self) -> int | None:
        return self.facts.n_slots

    @property
    def template_options(self) -> dict[str, Any]:
        return self.facts.template

    @property
    def eos(self) -> list[int]:
        """Tokens that end a reply: the tokenizer's, and those that the model names."""
        named = self.model.generation_config.eos_token_id
        named = [] if named is None else [named] if isinstance(named, int) else list(named)
        return sorted({self.tokenizer.eos_token_id, *named})

    @property
    def prompt_limit(self) -> int:
        """Tokens of a prompt that leave room for a reply."""
        longest = getattr(self.model.config.get_text_config(), "max_position_embeddings", None) or 2**31
        return int(longest) - self.facts.max_tokens


def save(language: LanguageModel, folder: Path) -> None:
    """Write model, tokenizer and description into a folder."""
    from transformers.utils import logging

    logging.disable_progress_bar()  # it would write over the trainer's own
    language.model.save_pretrained(folder)
    language.tokenizer.save_pretrained(folder)
    (folder / DESCRIPTION).write_text(json.dumps(asdict(language.facts), indent=2) + "\n")


def load_facts(folder: Path) -> LanguageFacts:
    """Raises UserError: not such a folder, or made by another version."""
    try:
        data = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
        facts = LanguageFacts(**data)
    except FileNotFoundError:
        raise UserError(f"{folder}: no language model of Cloud-RL (no {DESCRIPTION} in it)") from None
    except (ValueError, TypeError) as error:
        raise UserError(f"{folder / DESCRIPTION}: damaged ({error}); take another checkpoint") from None
    if facts.format != FORMAT:
        raise UserError(f"{folder}: made by another version of Cloud-RL (format {facts.format})")
    return facts


def load(folder: Path, device: str = "cpu", trainable: bool = False) -> LanguageModel:
    """The model in a folder. Weights are safetensors: loading runs no code of the folder. Raises UserError."""
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    facts = load_facts(folder)
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
        if facts.base is None:
            model = AutoModelForCausalLM.from_pretrained(folder, dtype="auto", use_safetensors=True)
        else:
            from peft import PeftModel

            base = AutoModelForCausalLM.from_pretrained(facts.base, dtype="auto", use_safetensors=True)
            model = PeftModel.from_pretrained(base, str(folder), is_trainable=trainable)
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        first = str(error).strip().splitlines()[0]
        raise UserError(f"{folder}: cannot be loaded: {first}") from error
    model.to(th.device(device))
    model.train(trainable)
    return LanguageModel(model, tokenizer, facts)
