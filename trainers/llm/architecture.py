"""Which models may be packed: those whose layers look at other tokens through the attention mask alone.

Linear-attention and state-space layers carry a state along the row and know no mask: a packed row would be
silently wrong. Such models, and all that we do not know, take TRL's own path, one row per completion.
"""

from __future__ import annotations

from typing import Any

PACKABLE = ("llama", "mistral", "qwen2", "qwen3", "smollm3")
"""`model_type` of the architectures whose packed numbers were compared with TRL's (Llama, Qwen2, Qwen3) or that
are the same layers."""

MASKED = ("sdpa", "eager")
"""Attention implementations that take a mask of their own. FlashAttention does not."""


def why_not_packed(model: Any) -> str | None:
    """The reason why a model cannot be packed, as half a sentence; None if it can."""
    config = model.config.get_text_config()
    if config.model_type not in PACKABLE:
        return f"{config.model_type} is not among the architectures that were checked ({', '.join(PACKABLE)})"
    layers = set(getattr(config, "layer_types", None) or ["full_attention"])
    if layers != {"full_attention"}:
        return f"it has layers of type {', '.join(sorted(layers - {'full_attention'}))}"
    if getattr(config, "sliding_window", None) and getattr(
        config, "use_sliding_window", config.model_type == "mistral"
    ):
        return "it has sliding-window attention"
    if config._attn_implementation not in MASKED:
        return f"its attention ({config._attn_implementation}) takes no mask of our own"
    return None
