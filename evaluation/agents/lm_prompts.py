"""What a language model reads, as tokens: its prompter's text, wrapped as its tokenizer wants it."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from cloudrl.errors import UserError
from cloudrl.llm.prompt import Messages, Prompter
from cloudrl.simulator import Simulator
from evaluation.agents.tiny_lm import TinyPrompter


class Prompts(Protocol):
    """Prompts of worlds, from what an agent sees."""

    def ids(self, observations: np.ndarray, masks: np.ndarray) -> list[list[int]]:
        """Tokens of the prompt of each world, from observations (B, D) and masks (B, A)."""
        ...

    def text(self, ids: list[int]) -> str:
        """What a person would read."""
        ...


class TinyPrompts:
    """Of the tiny model: its words are its tokens."""

    def __init__(self, prompter: TinyPrompter, tokenizer: Any) -> None:
        self.prompter, self.tokenizer = prompter, tokenizer

    def ids(self, observations: np.ndarray, masks: np.ndarray) -> list[list[int]]:
        return self.prompter.ids(observations, masks)

    def text(self, ids: list[int]) -> str:
        return str(self.tokenizer.decode(ids))


class ChatPrompts:
    """Of a chat model: the state as a user's message in the model's own chat template.

    Args:
        prompter: style of the text.
        tokenizer: with a chat template.
        options: of the template, such as {"enable_thinking": False}.
        limit: tokens that a prompt may have.
    """

    def __init__(self, prompter: Prompter, tokenizer: Any, options: dict[str, Any], limit: int) -> None:
        self.prompter, self.tokenizer, self.options, self.limit = prompter, tokenizer, options, limit

    def ids(self, observations: np.ndarray, masks: np.ndarray) -> list[list[int]]:
        return self.of_chats([self.prompter.messages(text) for text in self.prompter(observations, masks)])

    def of_chats(self, chats: list[Messages]) -> list[list[int]]:
        """Tokens of whole chats. Raises UserError for one that leaves no room to answer."""
        out: list[list[int]] = self.tokenizer.apply_chat_template(
            chats, add_generation_prompt=True, tokenize=True, return_dict=True, **self.options
        )["input_ids"]
        longest = max(map(len, out), default=0)
        if longest > self.limit:
            raise UserError(
                f"a prompt has {longest} tokens, and the model's context leaves room for {self.limit}: say "
                f"model.style=compact, model.allowed=false, a smaller scenario, or another model"
            )
        return out

    def text(self, ids: list[int]) -> str:
        return str(self.tokenizer.decode(ids))


def prompts_of(model: Any, sim: Simulator) -> Prompts:
    """How `model` (evaluation/agents/lm_files.py) reads the worlds of `sim`."""
    return prompts_for(
        model, Prompter.of(sim, model.style, model.allowed) if model.style != "tiny" else TinyPrompter.of(sim)
    )


def prompts_for(model: Any, prompter: Prompter | TinyPrompter) -> Prompts:
    """How `model` reads what `prompter` says."""
    if isinstance(prompter, TinyPrompter):
        return TinyPrompts(prompter, model.tokenizer)
    return ChatPrompts(prompter, model.tokenizer, model.template_options, model.prompt_limit)
