"""What travels on the wire: bytes, wrong types, text that no JSON document can hold."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from cloudenv import AWSService, CloudEnvAction, CloudEnvObservation

PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(
    PLAIN | st.binary(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=9
)


def action(**changes: Any) -> CloudEnvAction:
    return CloudEnvAction(**{"service": "s3", "operation": "PutObject", **changes})


@given(
    st.dictionaries(st.text(), VALUES).filter(lambda payload: "$base64" not in json.dumps(payload, default=str))
)
def test_a_payload_survives_the_wire(payload: dict[str, Any]) -> None:
    wire = json.dumps(action(payload=payload).model_dump(mode="json"))
    assert CloudEnvAction.model_validate(json.loads(wire)).payload == payload


def test_bytes_are_tagged_base64() -> None:
    sent = action(payload={"Body": b"data"}).model_dump(mode="json")
    assert sent["payload"] == {"Body": {"$base64": "ZGF0YQ=="}}


def test_bytes_of_a_result_are_tagged_too() -> None:
    observation = CloudEnvObservation(operation_result={"output": {"Body": b"\xff"}})
    assert json.loads(observation.model_dump_json())["operation_result"]["output"]["Body"] == {"$base64": "/w=="}


@pytest.mark.parametrize("value", [AWSService.S3, "s3"])
def test_a_known_service_is_the_enum(value: Any) -> None:
    assert action(service=value).service is AWSService.S3


def test_an_unknown_service_is_left_to_the_observation() -> None:
    assert action(service="quantum").service == "quantum"


DEEP: dict[str, Any] = {}
for _ in range(40):
    DEEP = {"a": DEEP}

BAD: dict[str, dict[str, Any]] = {
    "no operation": {"operation": ""},
    "operation of a wrong type": {"operation": 3},
    "a field that does not exist": {"resource": "x"},
    "payload of a wrong type": {"payload": []},
    "payload of tagged bytes": {"payload": {"$base64": "ZGF0YQ=="}},
    "bad base64": {"payload": {"Body": {"$base64": "?"}}},
    "base64 of a wrong type": {"payload": {"Body": {"$base64": 3}}},
    "not a number": {"payload": {"a": float("nan")}},
    "a lone surrogate in the payload": {"payload": {"a": "\ud800"}},
    "a lone surrogate in a key": {"payload": {"\ud800": 1}},
    "a lone surrogate in a name": {"episode_id": "\ud800"},
    "nested too deep": {"payload": DEEP},
    "a name that is too long": {"task_id": "x" * 256},
    "a service that is too long": {"service": "x" * 65},
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_action_is_refused_with_json_details(case: str) -> None:
    with pytest.raises(ValidationError) as caught:
        action(**BAD[case])
    json.dumps(caught.value.errors(include_url=False, include_input=False))  # a ValueError in `ctx` would break it
