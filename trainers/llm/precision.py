"""What a model computes in. Weights that are trained stay float32, or small steps would be rounded away."""

from __future__ import annotations

import copy
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch as th

from trainers.llm.config import Dtype, ModelConfig


def weights_dtype(wanted: ModelConfig) -> th.dtype:
    """In which a pretrained model is loaded: behind adapters nothing of it is trained, so it may be small."""
    return th.bfloat16 if wanted.dtype is Dtype.bfloat16 and wanted.lora.rank > 0 else th.float32


def autocast(wanted: ModelConfig, model: Any) -> AbstractContextManager[Any]:
    """Forward passes of `model` within it compute in `model.dtype`, outside of TRL's own loop."""
    if wanted.dtype is Dtype.bfloat16:
        return th.autocast(next(model.parameters()).device.type, th.bfloat16)
    return nullcontext()


def for_play(wanted: ModelConfig, model: Any) -> Any:
    """`model` as it writes replies. In bfloat16 a copy: autocast would cast every weight for every token."""
    return copy.deepcopy(model).to(th.bfloat16) if wanted.dtype is Dtype.bfloat16 else model


def mask_dtype(wanted: ModelConfig) -> th.dtype:
    """Of attention masks that go with `autocast`."""
    return th.bfloat16 if wanted.dtype is Dtype.bfloat16 else th.float32
