"""A language model of some 0.3 million parameters whose tokens are the words of this world.

A transformer of the ordinary kind (Qwen3's architecture) with a vocabulary of its own:

- `r3.rotate=high,restrict=- ` is one token: a fact bound to its resource (cloudrl/llm/words.py);
- `r3.may=ROTATE_CREDS,STOP ` is one token: what the safety layer allows now (the mask that every agent gets);
- `{"action":"PATCH","resource":"` is one token, and so is `r3"}`. Their text is plain JSON, sampling is free, the
  parser strict: nothing but training makes the model write an action.

Words of one fact start from the same direction, those of one resource too, so that what is learned of one
resource helps with the others. The tokenizer is an ordinary fast tokenizer of transformers, saved with the
model.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import torch as th

from cloudrl.actions import N_OPS, OP_NAMES, Op
from cloudrl.llm import words
from cloudrl.llm.prompt import Messages, Prompter
from cloudrl.llm.schema import reply
from cloudrl.observation import N_RESOURCE_FEATURES, RESOURCE_COLUMN
from cloudrl.simulator import Simulator

PAD, EOS, BEGIN, ACT = "<pad>", "<eos>", "<s>", "<act>"
SPECIAL = (PAD, EOS, BEGIN, ACT)
MAY = (
    (Op.PATCH, Op.ENCRYPT, Op.RESTART, Op.RESIZE_DOWN),
    (Op.ROTATE_CREDS, Op.STOP, Op.DELETE, Op.START, Op.RESIZE_UP),
)
"""Operations that share a word about what is allowed. The others are allowed almost always."""


@cache
def may_words() -> tuple[str, ...]:
    """The words about what is allowed, without their resource: one per subset of each group of MAY."""
    out = []
    for name, ops in zip(("fix", "may"), MAY, strict=True):
        for bits in range(1 << len(ops)):
            allowed = [op.name for k, op in enumerate(ops) if bits >> k & 1]
            out.append(f"{name}={','.join(allowed) or '-'}")
    return tuple(out)


@cache
def tokens(n_slots: int) -> tuple[str, ...]:
    """Every token, by id."""
    openings = [reply(op, 0).removesuffix('r0"}') for op in OP_NAMES[:N_OPS]]
    ids = [f'r{slot}"}}' for slot in range(n_slots)]
    facts = [f"{word} " for word in words.vocabulary(n_slots)]
    may = [f"r{slot}.{word} " for slot in range(n_slots) for word in may_words()]
    return (*SPECIAL, *openings, reply(OP_NAMES[N_OPS]), *ids, *facts, *may)


def make_tokenizer(n_slots: int) -> Any:
    """The tokenizer for worlds of up to `n_slots` resources."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {token: k for k, token in enumerate(tokens(n_slots))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=PAD))
    pieces = [r'\{"action":"[A-Z_]+"(?:\}|,"resource":")', r'r\d+"\}', r'[^\s"{}]+ ']
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("|".join(pieces)), "removed", invert=True)
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=PAD, eos_token=EOS, bos_token=BEGIN, padding_side="left",
        additional_special_tokens=[ACT], clean_up_tokenization_spaces=False,
    )  # fmt: skip


class TinyPrompter:
    """Prompts of the tiny model, as text or as token ids: the same, and the ids without any text are quick.

    Args:
        facts: the prompter of the style `words`.
        n_slots: slots of the worlds, and of the vocabulary.
    """

    style = "tiny"

    def __init__(self, facts: Prompter, n_slots: int) -> None:
        self.facts, self.n_slots = facts, n_slots
        first = len(SPECIAL) + N_OPS + 1
        self._first_fact = first + n_slots
        self._first_may = self._first_fact + len(words.vocabulary(n_slots))
        sizes = [1 << len(ops) for ops in MAY]
        self._starts = np.cumsum([0, *sizes[:-1]])
        self._bits = np.zeros((N_OPS, len(MAY)), np.int64)
        for group, ops in enumerate(MAY):
            for k, op in enumerate(ops):
                self._bits[op, group] = 1 << k

    @classmethod
    def of(cls, sim: Simulator) -> TinyPrompter:
        return cls(Prompter.of(sim, "words"), sim.n_slots)

    def ids(self, observations: np.ndarray, masks: np.ndarray) -> list[list[int]]:
        """Token ids of one prompt per world, from observations (B, D) and masks (B, A)."""
        facts = self.facts.indices(observations).astype(np.int64)
        facts = np.where(facts >= 0, facts + self._first_fact, -1)
        n = masks.shape[1] // N_OPS
        allowed = masks[:, :-1].reshape(len(masks), n, N_OPS).astype(np.int64)
        may = allowed @ self._bits + self._starts + self._first_may
        may += (len(may_words()) * np.arange(n))[:, None]
        present = observations[:, RESOURCE_COLUMN["present"] : n * N_RESOURCE_FEATURES : N_RESOURCE_FEATURES] > 0
        may = np.where(present[..., None], may, -1).reshape(len(masks), -1)
        begin, act = SPECIAL.index(BEGIN), SPECIAL.index(ACT)
        rows = np.concatenate([facts, may], 1)
        if (rows >= 0).all():
            edge = np.ones((len(rows), 1), np.int64)
            full: list[list[int]] = np.concatenate([begin * edge, rows, act * edge], 1).tolist()
            return full
        return [[begin, *row[row >= 0].tolist(), act] for row in rows]

    def __call__(
        self, observations: np.ndarray, masks: np.ndarray, templates: np.ndarray | None = None
    ) -> list[str]:
        """The same as text."""
        known = tokens(self.n_slots)
        return ["".join(known[k] for k in row) for row in self.ids(observations, masks)]

    def messages(self, text: str) -> Messages:
        """The text as a chat; the tiny model has no system prompt."""
        return [{"role": "user", "content": text}]


def action_tokens(tokenizer: Any, n_slots: int) -> list[list[int]]:
    """Tokens of every flat action's canonical reply, its end token included."""
    texts = [reply(OP_NAMES[a % N_OPS], a // N_OPS) for a in range(n_slots * N_OPS)]
    texts.append(reply(OP_NAMES[N_OPS]))
    ids = tokenizer(texts, add_special_tokens=False)["input_ids"]
    return [[*row, tokenizer.eos_token_id] for row in ids]


def make_model(n_slots: int, width: int, layers: int, heads: int, seed: int) -> Any:
    """A fresh model. Words start as the sum of a vector for their resource and one for each of their facts."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    th.manual_seed(seed)
    known = tokens(n_slots)
    config = Qwen3Config(
        vocab_size=len(known), hidden_size=width, intermediate_size=3 * width, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=heads, head_dim=max(8, width // heads),
        max_position_embeddings=1024, tie_word_embeddings=False, attention_dropout=0.0,
        pad_token_id=SPECIAL.index(PAD), eos_token_id=SPECIAL.index(EOS), bos_token_id=SPECIAL.index(BEGIN),
    )  # fmt: skip
    model = Qwen3ForCausalLM(config)
    depth = math.sqrt(2 * layers)
    with th.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() < 2:
                continue
            if "embed_tokens" in name:
                weight.copy_(_word_vectors(known, width))
            elif "lm_head" in name:
                th.nn.init.normal_(weight, std=0.02)
            else:  # as wide layers: each output about as large as its input
                out = "o_proj" in name or "down_proj" in name
                th.nn.init.normal_(weight, std=weight.size(1) ** -0.5 / (depth if out else 1.0))
    model.generation_config.pad_token_id = config.pad_token_id
    return model


def _word_vectors(known: Sequence[str], width: int) -> th.Tensor:
    """(V, width): parts of a word each have a random vector; a word is their sum, and a little of its own."""
    generator = th.Generator().manual_seed(0)
    parts: dict[str, th.Tensor] = {}

    def vector(part: str) -> th.Tensor:
        if part not in parts:
            parts[part] = th.randn(width, generator=generator)
        return parts[part]

    out = th.randn(len(known), width, generator=generator)
    for k, token in enumerate(known):
        match = re.fullmatch(r"(r\d+|w)\.(.*) ", token)
        if match is None:
            continue
        name, _, allowed = match[2].partition("=")
        facts = allowed.split(",") if name in ("fix", "may") else match[2].split(",")
        out[k] = 0.3 * out[k] + vector(match[1]) + sum((vector(fact) for fact in facts), th.zeros(width))
        out[k] /= math.sqrt(1.09 + len(facts))
    return out
