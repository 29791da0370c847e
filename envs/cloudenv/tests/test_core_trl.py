"""One step of TRL's own trainer over CloudEnvTools: a tiny random model, no network."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from cloudenv.trl import CloudEnvTools

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(os.environ.get("CLOUDRL_FULL") != "1", reason="a trainer's step: CLOUDRL_FULL=1"),
]


def _tokenizer(trl: Any) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    special = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<tool_call>", "</tool_call>", "<tool_response>"]
    special += ["</tool_response>", "<think>", "</think>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    inner.train_from_iterator(
        ["repair the pipeline"],
        trainers.BpeTrainer(vocab_size=300, special_tokens=special, initial_alphabet=alphabet),
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token="<|im_end|>", pad_token="<|endoftext|>", model_max_length=65536
    )
    template = Path(trl.__file__).parent / "chat_templates" / "qwen3.jinja"
    tokenizer.chat_template = template.read_text()
    return tokenizer


def test_the_trainer_takes_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trl = pytest.importorskip("trl")
    datasets = pytest.importorskip("datasets")
    from transformers import Qwen3Config, Qwen3ForCausalLM

    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    tokenizer = _tokenizer(trl)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        max_position_embeddings=65536,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    seen: list[dict[str, Any]] = []

    class Watched(CloudEnvTools):
        def reset(self, **row: Any) -> str:  # type: ignore[override]
            seen.append(row)
            return super().reset(**row)

    rows = [
        {"prompt": [{"role": "user", "content": "Repair it."}], "task": "gen:easy", "seed": i} for i in range(2)
    ]
    trainer = trl.GRPOTrainer(
        model=Qwen3ForCausalLM(config),
        processing_class=tokenizer,
        args=trl.GRPOConfig(
            output_dir=str(tmp_path),
            num_generations=2,
            per_device_train_batch_size=2,
            max_completion_length=16,
            max_steps=1,
            report_to=[],
            use_cpu=True,
            bf16=False,
            save_strategy="no",
        ),
        train_dataset=datasets.Dataset.from_list(rows),
        environment_factory=Watched,
    )
    trainer.train()
    assert trainer.state.global_step == 1
    assert (
        len(seen) >= 2
        and {row["task"] for row in seen} == {"gen:easy"}
        and len({row["seed"] for row in seen}) == 1
    )
