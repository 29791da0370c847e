"""A language model as an agent: prompts from what it sees, strict JSON back, and counts of what came.

Who answers the prompts is passed in: an HTTP endpoint (llm_endpoint.py), a model on disk (llm_checkpoint.py), a
trainer's model. A reply that is not exactly one action in JSON is a NOOP, counted under the reason of rejection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from cloudrl.llm.parse import Code, parse
from cloudrl.llm.prompt import Messages, Prompter
from cloudrl.scenarios.schema import params
from evaluation.agents.agent import View
from evaluation.agents.entry import Context
from evaluation.metrics import REJECTED


class Reply(NamedTuple):
    """What a model wrote, and the tokens that it took."""

    text: str
    prompt_tokens: int = 0
    completion_tokens: int = 0


Ask = Callable[[list[Messages]], list[Reply]]
"""One reply per chat, in the same order. Raises if there is no way to get them."""


class LanguageAgent:
    """Asks a language model in every world and tick.

    Args:
        name: title of its row.
        ask: who answers.
        context: the scenario, and how a world is put into words.
    """

    def __init__(self, name: str, ask: Ask, context: Context) -> None:
        self.name = name
        self._ask, self._actions, self._thinks = ask, context.actions, context.language.thinks
        self._prompter = Prompter(
            params(context.scenario)[0],
            context.scenario.horizon.ticks,
            context.language.style,
            allowed=context.language.allowed,
            actions=context.actions,
        )
        self._codes = np.zeros((0, len(Code)), np.int64)
        self._tokens = np.zeros((0, 2), np.int64)

    def begin(self, view: View) -> None:
        """Before the first tick."""
        self._codes = np.zeros((view.n_worlds, len(Code)), np.int64)
        self._tokens = np.zeros((view.n_worlds, 2), np.int64)

    def act(self, view: View) -> np.ndarray:
        """Flat actions (B,)."""
        texts = self._prompter(view.observations, view.masks)
        replies = self._ask([self._prompter.messages(text) for text in texts])
        resources = view.resource_feature("present").sum(axis=1).astype(int)
        actions = np.full(view.n_worlds, view.noop)
        for b, reply in enumerate(replies):
            parsed = parse(reply.text, int(resources[b]), view.n_slots, actions=self._actions, thinks=self._thinks)
            self._codes[b, _PLACE[parsed.code]] += 1
            self._tokens[b] += reply.prompt_tokens, reply.completion_tokens
            if parsed.code is Code.ok:
                actions[b] = parsed.action
        return actions

    def counts(self) -> dict[str, np.ndarray]:
        """Figures of the episodes just played, each (B,)."""
        replies = self._codes.sum(axis=1)
        return {
            "replies": replies,
            "json_valid": self._codes[:, _PLACE[Code.ok]] / np.maximum(replies, 1),
            **{REJECTED + code: self._codes[:, k] for code, k in _PLACE.items() if code is not Code.ok},
            "prompt_tokens": self._tokens[:, 0],
            "completion_tokens": self._tokens[:, 1],
        }


_PLACE = {code: k for k, code in enumerate(Code)}
