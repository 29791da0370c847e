"""What a language model reads of a world: its state as text, made from what an agent sees and nothing else.

    render(sim, world=0)                          # text
    messages(sim, 0, style="full", allowed=True)  # chat: what to do, and the text
    Prompter.of(sim)(sim.observations, sim.masks) # all worlds at once, or from a View: observations and masks

Styles: `compact` (bands beside ids, below 200 tokens for eight resources), `full` (numbers, names, what every
operation does: for a model that was not trained here), `words` (for a tokenizer of our own, see words.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from cloudrl.actions import N_OPS, OP_NAMES
from cloudrl.errors import did_you_mean
from cloudrl.llm import compact, full, recall, words
from cloudrl.llm.bands import bands, labour_of, split
from cloudrl.memory.config import MemoryConfig
from cloudrl.memory.immune import Tables
from cloudrl.observation import RESOURCE_COLUMN
from cloudrl.safety.config import ActionSet
from cloudrl.scenarios.names import resource_names
from cloudrl.simulator import Simulator

STYLES = ("compact", "full", "words")
Messages = list[dict[str, str]]


class Prompter:
    """Makes prompts of one style from observations. It holds constants of the scenario, no world.

    Args:
        params: the scenario's record, `sim.params[0]`.
        ticks: length of the episode.
        style: one of STYLES.
        allowed: also list the actions that are admissible now.
        actions: the action set in use.
        names: names of the resources per template, for `full`.
        memory: the immune memory's tables and config, for hints; None = no hints. `words` has no room for them:
            its risk band must do.
    """

    def __init__(
        self,
        params: Any,
        ticks: int,
        style: str = "compact",
        *,
        allowed: bool = False,
        actions: ActionSet = ActionSet.full,
        names: Sequence[Sequence[str]] = (),
        memory: tuple[Tables, MemoryConfig] | None = None,
    ) -> None:
        if style not in STYLES:
            raise ValueError(f"no prompt style {style!r}; {did_you_mean(style, STYLES)}")
        self.style, self.allowed, self.actions, self.ticks = style, allowed, actions, ticks
        self._labour = labour_of(params)
        self._names, self._memory = names, memory

    @classmethod
    def of(cls, sim: Simulator, style: str = "compact", allowed: bool = False) -> Prompter:
        """For the worlds of a simulator."""
        memory = (sim.tables, sim.memory.config) if sim.memory is not None and sim.rules.memory_on else None
        names = resource_names(sim.scenario) if style == "full" else ()
        actions = sim.safety.actions
        return cls(
            sim.params[0], sim.ticks, style, allowed=allowed, actions=actions, names=names, memory=memory
        )  # fmt: skip

    @property
    def system(self) -> str:
        """What the model is told before the state; empty for `words`."""
        if self.style == "full":
            return full.system(self.actions)
        return compact.SYSTEM if self.style == "compact" else ""

    def __call__(
        self, observations: np.ndarray, masks: np.ndarray, templates: np.ndarray | None = None
    ) -> list[str]:
        """One text per world, from observations (B, D) and masks (B, A).

        `templates` (B,): shape of each world (`sim.state.worlds["template"]`), for the names; None = no names.
        """
        if self.style == "words":
            n_slots = masks.shape[1] // N_OPS
            texts = [words.in_words(row, n_slots) for row in self.indices(observations)]
        else:
            remembered = self._remembered(observations)
            if self.style == "compact":
                resources, worlds = bands(observations, self._labour)
                texts = [compact.compact(*world) for world in zip(resources, worlds, remembered, strict=True)]
            else:
                chosen = [self._names[t] for t in templates] if templates is not None and self._names else None
                texts = [
                    full.full(row, self.ticks, chosen[b] if chosen else (), remembered[b])
                    for b, row in enumerate(observations)
                ]
        if self.allowed:
            present = split(observations)[0][..., RESOURCE_COLUMN["present"]] > 0
            texts = [
                f"{text}\n{allowed_actions(mask, row)}"
                for text, mask, row in zip(texts, masks, present, strict=True)
            ]
        return texts

    def indices(self, observations: np.ndarray) -> np.ndarray:
        """(B, 3 + 7 N) int32: the `words` prompt as indices into `words.vocabulary`; -1 in empty slots."""
        return words.indices(*bands(observations, self._labour))

    def messages(self, text: str) -> Messages:
        """The text of one world as a chat."""
        chat = [{"role": "system", "content": self.system}] if self.system else []
        return [*chat, {"role": "user", "content": text}]

    def _remembered(self, observations: np.ndarray) -> list[list[recall.Hint]]:
        if self._memory is None:
            return [[] for _ in observations]
        top = full.HINTS if self.style == "full" else compact.HINTS
        return recall.hints(observations, *self._memory, top)


def allowed_actions(mask: np.ndarray, present: np.ndarray) -> str:
    """The line "allowed: PATCH r0 r2; STOP r4; NOOP" from a mask (A,) and the slots that hold a resource (N,)."""
    table = mask[:-1].reshape(-1, N_OPS) & present[:, None]
    parts = [
        " ".join([OP_NAMES[op], *(f"r{slot}" for slot in np.flatnonzero(table[:, op]))])
        for op in range(N_OPS)
        if table[:, op].any()
    ]
    return "allowed: " + "; ".join([*parts, OP_NAMES[N_OPS]])


_PROMPTERS: WeakKeyDictionary[Simulator, dict[tuple[str, bool], Prompter]] = WeakKeyDictionary()


def prompter(sim: Simulator, style: str = "compact", allowed: bool = False) -> Prompter:
    """The prompter of a simulator; made once, since names are read from files."""
    known = _PROMPTERS.setdefault(sim, {})
    if (style, allowed) not in known:
        known[style, allowed] = Prompter.of(sim, style, allowed)
    return known[style, allowed]


def render(sim: Simulator, world: int = 0, style: str = "compact", allowed: bool = False) -> str:
    """World `world` as text.

    Raises:
        IndexError: no such world.
        ValueError: no such style.
    """
    return render_batch(sim, [world], style, allowed)[0]


def render_batch(sim: Simulator, worlds: Any = None, style: str = "compact", allowed: bool = False) -> list[str]:
    """The worlds `worlds` (indices; default: all) as texts. Per world this is many times faster than `render`."""
    which = np.arange(sim.n_worlds) if worlds is None else np.asarray(worlds, np.int64)
    templates = sim.state.worlds["template"][which]
    return prompter(sim, style, allowed)(sim.observations[which], sim.masks[which], templates)


def messages(sim: Simulator, world: int = 0, style: str = "compact", allowed: bool = False) -> Messages:
    """World `world` as a chat: what to do, and its state."""
    return prompter(sim, style, allowed).messages(render(sim, world, style, allowed))
