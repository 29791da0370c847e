"""Agents `llm:<path>`: a causal language model on disk.

What trainers.grpo left behind is played as it was trained (llm_agent.py). Any other folder in the layout of
transformers, with config.json, weights and a tokenizer, is asked in chats, and the likeliest reply is taken.
There a batch always has the same number of rows, since a matrix product may round differently for another
number; its width is that of its longest prompt.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from cloudrl.errors import UserError
from cloudrl.llm.prompt import Messages
from evaluation.agents import llm_agent
from evaluation.agents.entry import Context, Entry, code_of
from evaluation.agents.language import LanguageAgent, Reply

ROWS = 8
"""Prompts per batch."""


def locate(path: str) -> Path:
    """The folder of a foreign model. Raises UserError if there is none."""
    folder = Path(path)
    if not folder.is_dir():
        raise UserError(f"agents: llm:{path}: no such folder")
    if (folder / "config.json").is_file():
        return folder
    raise UserError(
        f"agents: llm:{path}: no config.json there; give a folder saved by transformers, or a grpo run"
    )


class LocalModel:
    """Answers chats with a model on this machine."""

    def __init__(self, folder: Path, max_tokens: int) -> None:
        import torch as th
        from transformers import AutoModelForCausalLM, AutoTokenizer

        th.set_num_threads(1)
        # nothing is fetched, and no code from the folder runs
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True, padding_side="left")
        self.model: Any = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True).eval()
        if self.tokenizer.pad_token_id is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token
        self.max_tokens = max_tokens

    def __call__(self, chats: list[Messages]) -> list[Reply]:
        replies: list[Reply] = []
        for start in range(0, len(chats), ROWS):
            texts = [self._text(chat) for chat in chats[start : start + ROWS]]
            replies += self._answer(texts + texts[:1] * (ROWS - len(texts)))[: len(texts)]
        return replies

    def _text(self, chat: Messages) -> str:
        if self.tokenizer.chat_template:
            return str(self.tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True))
        return "\n".join(message["content"] for message in chat) + "\n"

    def _answer(self, texts: list[str]) -> list[Reply]:
        import torch as th

        batch = self.tokenizer(texts, return_tensors="pt", padding=True, add_special_tokens=False)
        pad = self.tokenizer.pad_token_id
        with th.no_grad():
            out = self.model.generate(
                input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], do_sample=False,
                max_new_tokens=self.max_tokens, pad_token_id=pad,
            )  # fmt: skip
        new = out[:, batch["input_ids"].shape[1] :]
        written = self.tokenizer.batch_decode(new, skip_special_tokens=True)
        read = batch["attention_mask"].sum(1).tolist()
        return [Reply(w, r, int((n != pad).sum())) for w, r, n in zip(written, read, new, strict=True)]


# ---------------------------------------------------------------- the registry's side
def describe(path: str, context: Context) -> Entry:
    ours = llm_agent.locate(path)
    if ours is not None:
        return llm_agent.describe(path, ours, context)
    folder = locate(path)
    digest = hashlib.sha256()
    for file in sorted(p for p in folder.iterdir() if p.is_file()):
        digest.update(file.name.encode())
        with open(file, "rb") as handle:
            digest.update(hashlib.file_digest(handle, "sha256").digest())
    settings = context.language
    asked = (settings.style, settings.allowed, settings.max_tokens, settings.thinks)
    code = code_of("cloudrl/llm/*.py", "evaluation/agents/language.py", "evaluation/agents/llm_checkpoint.py")
    name = f"llm {folder.resolve().name}"
    return Entry(name, path, f"llm {digest.hexdigest()[:16]} {asked} {code}", name, slow=True)


def build(path: str, context: Context) -> LanguageAgent | llm_agent.CheckpointAgent:
    ours = llm_agent.locate(path)
    if ours is not None:
        return llm_agent.build(path, ours, context)
    model = LocalModel(locate(path), context.language.max_tokens)
    return LanguageAgent(f"llm {path}", model, context)
