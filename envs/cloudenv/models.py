"""What travels between client and server: action, observation, state. JSON, with `bytes` as tagged base64."""

from __future__ import annotations

import base64
import binascii
import math
from typing import Annotated, Any

from pydantic import AfterValidator, Field, field_serializer, field_validator
from pydantic_core import PydanticCustomError

from ._openenv import Action, Observation, State
from .server.providers.aws.services import AWSService

BYTES_TAG = "$base64"
"""`b"data"` travels as `{"$base64": "ZGF0YQ=="}`, at any depth of a payload."""

MAX_DEPTH = 32
"""Levels of nesting that a payload may have."""


def encode_bytes(value: Any) -> Any:
    """The same value with every `bytes` in it tagged, so that it can be written as JSON."""
    if isinstance(value, bytes | bytearray):
        return {BYTES_TAG: base64.b64encode(value).decode("ascii")}
    if isinstance(value, dict):
        return {key: encode_bytes(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [encode_bytes(item) for item in value]
    return value


def decode_bytes(value: Any, depth: int = 0) -> Any:
    """The inverse of `encode_bytes`.

    Raises PydanticCustomError (whose context is JSON, unlike a ValueError's) for what no JSON document can hold or
    no AWS call takes: nesting beyond MAX_DEPTH, numbers that are not finite, lone surrogates, bad base64.
    """
    if depth > MAX_DEPTH:
        raise PydanticCustomError(
            "payload_depth", "payload is nested deeper than {most} levels", {"most": MAX_DEPTH}
        )
    if isinstance(value, dict):
        if value.keys() == {BYTES_TAG}:
            return _decode_tagged(value[BYTES_TAG])
        return {decode_bytes(key): decode_bytes(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [decode_bytes(item, depth + 1) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise PydanticCustomError("payload_number", "payload has a number that is not finite")
    if isinstance(value, str) and not _is_text(value):
        raise PydanticCustomError("payload_text", "payload has a lone surrogate, which is no Unicode text")
    return value


def _decode_tagged(text: Any) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise PydanticCustomError("payload_base64", "{tag} wants standard base64", {"tag": BYTES_TAG}) from None


def _is_text(value: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in value)


def _text(value: str) -> str:
    if not _is_text(value):
        raise PydanticCustomError("not_text", "a lone surrogate is no Unicode text")
    return value


def _service(name: str) -> str:
    try:
        return AWSService(name)
    except ValueError:
        return name


Text = Annotated[str, AfterValidator(_text)]
Service = Annotated[Text, Field(max_length=64), AfterValidator(_service)]
"""An AWSService where there is one of the name, which is a `str` too; any other text stays what it is."""


class CloudEnvAction(Action):
    """One call of AWS as boto3 names it: service "s3", operation "CreateBucket", payload its arguments.

    `service="internal", operation="InitializeEnvironment"` starts the episode `episode_id` on the task `task_id`;
    it comes first. A service or operation that does not exist is answered by an error in the observation.
    """

    episode_id: Text | None = Field(
        default=None, max_length=255, description="default: the last one of this session"
    )
    task_id: Text | None = Field(default=None, max_length=255, description="a task or a posted pipeline")
    service: Service = Field(description=f"one of {', '.join(service.value for service in AWSService)}")
    operation: Text = Field(min_length=1, max_length=128, description="such as 'PutBucketPolicy'")
    payload: dict[str, Any] = Field(default_factory=dict, description="arguments of the operation, as in boto3")

    @field_validator("payload", mode="after")
    @classmethod
    def _decode(cls, payload: dict[str, Any]) -> dict[str, Any]:
        decoded = decode_bytes({"payload": payload}, -1)["payload"]  # wrapped: a payload itself is never a tag
        if not isinstance(decoded, dict):
            raise PydanticCustomError("payload_type", "payload is an object of arguments, not tagged bytes")
        return decoded

    @field_serializer("payload")
    def _encode(self, payload: dict[str, Any]) -> Any:
        return encode_bytes(payload)


class CloudEnvObservation(Observation):
    """What the agent sees: the result of its call and the pipeline as it is now; `done` when it is repaired.

    What it should be is not in it: finding that out is the task. The pipeline API's `validate` says it to people.
    """

    task_id: str | None = Field(default=None)
    episode_id: str | None = Field(default=None)
    step_count: int = Field(
        default=0, ge=0, description="actions of the episode, InitializeEnvironment not counted"
    )
    instruction: str = Field(default="", description="what to do; said on reset and InitializeEnvironment")
    operation_result: dict[str, Any] = Field(
        default_factory=dict,
        description="service, operation, status SUCCESS or ERROR, and output or error {code, message}",
    )
    current_pipeline_state: dict[str, Any] = Field(
        default_factory=dict, description="every declared resource as read back from the emulator"
    )
    truncated: bool = Field(default=False, description="the steps of the task are used up, unrepaired")

    @field_serializer("operation_result", "current_pipeline_state")
    def _encode(self, value: Any) -> Any:
        return encode_bytes(value)


class CloudEnvState(State):
    """Where an episode stands (`episode_id` and `step_count` come from OpenEnv's State)."""

    task_id: str | None = None
    done: bool = False
    reward: float | None = None
