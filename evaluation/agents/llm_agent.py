"""Language models that trainers.grpo left behind, as agents (`llm:<run or folder>`).

The path is a run folder (its best checkpoint is taken), a checkpoint, or any folder with language.json. With
`language.temperature=0` it gives its likeliest reply, otherwise it samples.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import torch as th

from cloudrl.errors import UserError
from cloudrl.jit import kernel
from cloudrl.llm.parse import NO_ACTION, Code, parse
from cloudrl.llm.prompt import Prompter
from cloudrl.observation import OBSERVATION_VERSION
from cloudrl.runs import MANIFEST, latest_checkpoint, resolve_run
from cloudrl.safety.config import ActionSet
from cloudrl.scenarios.schema import Scenario, params
from cloudrl.seeding import POLICY, stream, uniform
from evaluation.agents import lm_files
from evaluation.agents.agent import View
from evaluation.agents.entry import Context, Entry, code_of
from evaluation.agents.lm_files import LanguageModel
from evaluation.agents.lm_prompts import Prompts, prompts_for
from evaluation.agents.lm_sampling import pad_left, sample
from evaluation.agents.tiny_lm import TinyPrompter
from evaluation.metrics import REJECTED

BLOCK = 64
"""Rows of a forward pass, and ...
"""
WIDTH = 16
"""... prompts are padded to a multiple of this: a product may round differently for other shapes."""
_SLOTS = 32  # draws of one resource's stream


class CheckpointAgent:
    """A language model that acts in any number of worlds at once.

    What it says of a world depends on that world and the agent's luck alone, not on the worlds beside: forward
    passes always have `block` rows, and the width of a prompt's own length.

    Args:
        language: the model.
        prompts: how it reads worlds.
        temperature: of its samples; 0 = the likeliest reply.
        actions: the action set in use.
    """

    def __init__(
        self,
        language: LanguageModel,
        prompts: Prompts,
        *,
        temperature: float = 1.0,
        actions: ActionSet = ActionSet.full,
        block: int = BLOCK,
        name: str = "llm",
    ) -> None:
        self.name = name
        self.language, self.prompts = language, prompts
        self.temperature, self.actions, self.block = temperature, actions, block
        self._codes = np.zeros((0, len(Code)), np.int64)
        self._tokens = np.zeros((0, 2), np.int64)

    @classmethod
    def of(cls, language: LanguageModel, scenario: Scenario, n_slots: int, **options: Any) -> CheckpointAgent:
        """For worlds of a scenario."""
        actions = options.get("actions", ActionSet.full)
        style = "words" if language.style == "tiny" else language.style
        facts = Prompter(
            params(scenario)[0], scenario.horizon.ticks, style, actions=actions,
            allowed=language.allowed and language.style != "tiny",
        )  # fmt: skip
        if language.style != "tiny":
            return cls(language, prompts_for(language, facts), **options)
        known = language.n_slots or n_slots
        if n_slots > known:
            raise UserError(
                f"{language.facts.name}: its tokenizer knows {known} resources, these worlds have {n_slots} slots"
            )
        return cls(language, prompts_for(language, TinyPrompter(facts, known)), **options)

    def begin(self, view: View) -> None:
        """Before the first tick."""
        self._codes = np.zeros((view.n_worlds, len(Code)), np.int64)
        self._tokens = np.zeros((view.n_worlds, 2), np.int64)

    def act(self, view: View) -> np.ndarray:
        """Flat actions (B,). A reply that is not exactly one action in JSON is a NOOP, and counted."""
        texts = self.replies(view)
        resources = view.resource_feature("present").sum(axis=1).astype(int)
        actions = np.full(view.n_worlds, NO_ACTION)
        counted = len(self._codes) == view.n_worlds
        for b, text in enumerate(texts):
            parsed = parse(
                text, int(resources[b]), view.n_slots, actions=self.actions, thinks=self.language.facts.thinks
            )
            if counted:
                self._codes[b, _PLACE[parsed.code]] += 1
            actions[b] = parsed.action
        return np.where(actions == NO_ACTION, view.noop, actions)

    def replies(self, view: View) -> list[str]:
        """What the model writes in every world."""
        prompts = self.prompts.ids(view.observations, view.masks)
        max_tokens = self.language.facts.max_tokens
        draws = np.empty((view.n_worlds, max_tokens))
        uniforms(np.ascontiguousarray(view.luck, np.uint64), view.tick, draws)
        widths = np.array([-(-len(ids) // WIDTH) * WIDTH for ids in prompts])
        out: list[list[int]] = [[] for _ in prompts]
        for width in np.unique(widths):
            rows = np.flatnonzero(widths == width)
            for start in range(0, len(rows), self.block):
                part = rows[start : start + self.block]
                filled = np.concatenate([part, np.repeat(part[:1], self.block - len(part))])
                done = self._sample([prompts[b] for b in filled], draws[filled], int(width))
                for b, ids in zip(part, done, strict=False):
                    out[b] = ids
        if len(self._tokens) == view.n_worlds:
            self._tokens += np.array([[len(p), len(c)] for p, c in zip(prompts, out, strict=True)])
        return list(self.language.tokenizer.batch_decode(out, skip_special_tokens=True))

    def _sample(self, prompts: list[list[int]], draws: np.ndarray, width: int) -> list[list[int]]:
        language = self.language
        device = next(language.model.parameters()).device
        ids, mask = pad_left(prompts, language.tokenizer.pad_token_id, width)
        return sample(
            language.model, ids.to(device), mask.to(device), n=1, max_tokens=language.facts.max_tokens,
            eos=language.eos, pad=language.tokenizer.pad_token_id, temperature=self.temperature,
            uniforms=th.from_numpy(draws),
        ).ids  # fmt: skip

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


@kernel
def uniforms(keys, tick, out):  # type: ignore[no-untyped-def]
    """Numbers in [0, 1) for the tokens of every world's reply, from keys (B,) uint64 into out (B, C)."""
    for b in range(out.shape[0]):
        key = stream(keys[b], POLICY, tick)
        for c in range(out.shape[1]):
            out[b, c] = uniform(key, c // _SLOTS, c % _SLOTS)


# ---------------------------------------------------------------- the registry's side
def locate(path: str) -> Path | None:
    """The folder with the model of a run, checkpoint or folder; None: nothing of this project lies there.

    Raises UserError for a run without a whole checkpoint.
    """
    folder = Path(path)
    if (folder / lm_files.DESCRIPTION).is_file():
        return folder
    if not (folder / MANIFEST).is_file():
        return None
    run = resolve_run(path, "grpo")
    best = latest_checkpoint(run.best) or latest_checkpoint(run.checkpoints)
    if best is None:
        raise UserError(f"agents: llm:{path}: has no whole checkpoint; resume the run")
    return best if (best / lm_files.DESCRIPTION).is_file() else None


def describe(argument: str, folder: Path, context: Context) -> Entry:
    """What is known of the model in `folder`."""
    facts = lm_files.load_facts(folder)
    digest = hashlib.sha256()
    for file in sorted(folder.glob("*.safetensors")):
        digest.update(file.read_bytes())
    temperature = _temperature(context)
    how = "best reply" if temperature == 0 else f"sampled at {temperature:g}"
    code = code_of("cloudrl/llm/*.py", "evaluation/agents/lm_*.py", "evaluation/agents/tiny_lm.py")
    identity = f"llm {digest.hexdigest()[:16]} {facts} {temperature} {code}"
    seed = facts.notes.get("seed")
    title = f"llm {facts.name}, {how}" if seed is None else f"llm {facts.name} seed {seed}, {how}"
    return Entry(title, argument, identity, f"llm {facts.name}, {how}", slow=True)


def build(argument: str, folder: Path, context: Context) -> CheckpointAgent:
    """The agent itself. Raises UserError if its prompts were made from another observation."""
    facts = lm_files.load_facts(folder)
    if facts.observation_version != OBSERVATION_VERSION:
        raise UserError(
            f"agents: llm:{argument}: made for version {facts.observation_version} of the observation, this is "
            f"version {OBSERVATION_VERSION}: train anew"
        )
    th.set_num_threads(1)  # blocks of worlds are played by processes
    language = lm_files.load(folder)
    return CheckpointAgent.of(
        language, context.scenario, context.scenario.slots, temperature=_temperature(context),
        actions=context.actions, name=argument,
    )  # fmt: skip


def _temperature(context: Context) -> float:
    return float(context.language.temperature)
