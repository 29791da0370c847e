"""Small randomly initialised chat models of the supported families, as folders: what model.path= takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch as th
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from cloudrl.actions import N_OPS, OP_NAMES
from cloudrl.llm.schema import reply

# The shape of Qwen's own templates: roles in <|im_start|> blocks, and Qwen3's empty thought if it must not think.
QWEN2_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
QWEN3_TEMPLATE = QWEN2_TEMPLATE.replace(
    "assistant\n{% endif %}",
    "assistant\n{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}"
    "{% endif %}",
)
WORDS = "early mid late load low high rising falling vm db cache queue critical idle data busy allowed r0 r1 r2 r3"


def tokenizer(template: str | None = QWEN2_TEMPLATE) -> Any:
    """A byte-level BPE that knows the words of prompts and replies."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    texts = [*(reply(op, k % 6) for k, op in enumerate(OP_NAMES[:N_OPS])), reply("NOOP"), WORDS] * 4
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=500, special_tokens=special, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    made.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=template
    )


def save_small(kind: str, folder: Path, *, template: bool = True, **changes: Any) -> Path:
    """A folder with a small random Qwen2 or Qwen3."""
    words = tokenizer((QWEN3_TEMPLATE if kind == "qwen3" else QWEN2_TEMPLATE) if template else None)
    th.manual_seed(0)
    sizes: dict[str, Any] = {
        "vocab_size": len(words), "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 1024,
        "eos_token_id": words.eos_token_id, "pad_token_id": words.pad_token_id, "bos_token_id": None,
        "tie_word_embeddings": True,
    } | changes  # fmt: skip
    model: Any = (
        Qwen3ForCausalLM(Qwen3Config(head_dim=8, **sizes))
        if kind == "qwen3"
        else Qwen2ForCausalLM(Qwen2Config(**sizes))
    )
    transformers.utils.logging.disable_progress_bar()  # its bar would be taken for the trainer's output
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    return folder
