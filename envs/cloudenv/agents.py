"""Agents for `python -m cloudenv.inference`: a language model, the task's own solution, random calls, none at all.

An agent is told an observation and answers with an action, or with None when it has nothing (more) to do.
"""

from __future__ import annotations

import json
import random
from collections import deque
from collections.abc import Iterator
from typing import Any, Protocol

from pydantic import ValidationError

from .models import CloudEnvAction, CloudEnvObservation
from .server.providers.aws.registry import SERVICES
from .server.providers.aws.services import AWSService


class NoAction(ValueError):
    """The model's reply holds no action; says what is wrong with it, in words for the model."""


class AgentError(Exception):
    """The model does not answer, in one line."""


class Agent(Protocol):
    """`reply` is what it said in its own words, for the transcript; `guarded`: stopped when it runs in circles."""

    guarded: bool
    reply: str

    def act(self, seen: CloudEnvObservation) -> CloudEnvAction | None:
        """The next action, or None to stop. Raises NoAction, AgentError."""


SYSTEM = """\
You repair a cloud. Each turn you see an AWS pipeline and answer with ONE AWS API call as JSON:
{"service": "s3", "operation": "PutBucketVersioning", "payload": {"Bucket": "b", "VersioningConfiguration": {...}}}
Operations and payloads are those of boto3 (CamelCase). Answer with the JSON object only. Change only what is
wrong: extra permissions and extra resources count as faults. The account is 123456789012, the region us-east-1."""


class ModelAgent:
    """A chat model behind an OpenAI-compatible API."""

    guarded = True

    def __init__(self, client: Any, model: str, turns: int = 6, most_characters: int = 8000) -> None:
        """client: an openai.OpenAI; turns: how many earlier exchanges it is reminded of."""
        self.client, self.model, self.most = client, model, most_characters
        self.history: deque[dict[str, str]] = deque(maxlen=2 * turns)
        self.reply = ""

    def act(self, seen: CloudEnvObservation) -> CloudEnvAction:
        from openai import OpenAIError

        asked = {"role": "user", "content": describe(seen, self.most)}
        messages = [{"role": "system", "content": SYSTEM}, *self.history, asked]
        try:
            answer = self.client.chat.completions.create(model=self.model, messages=messages, max_tokens=800)
            self.reply = answer.choices[0].message.content or ""
        except (
            OpenAIError,
            AttributeError,
            IndexError,
            TypeError,
        ) as error:  # the rest: no chat completion at all
            text = " ".join(str(error).split())[:300]
            raise AgentError(f"model {self.model} at {self.client.base_url}: {text}") from None
        self.history.extend([asked, {"role": "assistant", "content": self.reply}])
        return parse_action(self.reply)


def describe(seen: CloudEnvObservation, most: int) -> str:
    """An observation as text of at most about `most` characters."""
    result = json.dumps(seen.operation_result, default=str)
    state = json.dumps(seen.current_pipeline_state, default=str)
    parts = [
        seen.instruction,
        f"Result of the last call: {_cut(result, most // 4)}",
        f"Reward so far: {seen.reward}",
        f"The pipeline now: {_cut(state, most // 2)}",
    ]
    return "\n\n".join(part for part in parts if part)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]} ... ({len(text) - most} more characters)"


def parse_action(reply: str) -> CloudEnvAction:
    """The first JSON object in a reply that has an operation; what stands around it does not matter."""
    decoder, start = json.JSONDecoder(), reply.find("{")
    while start >= 0:
        try:
            found, _ = decoder.raw_decode(reply, start)
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict) and "operation" in found:
            wanted = {key: found[key] for key in ("service", "operation", "payload") if key in found}
            try:
                return CloudEnvAction(**wanted)
            except ValidationError as error:
                first = error.errors(include_url=False)[0]
                raise NoAction(f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}") from None
        start = reply.find("{", start + 1)
    raise NoAction('no JSON object with "service", "operation" and "payload" in the reply')


class SolutionAgent:
    """Replays calls that are known to repair the task."""

    guarded = False
    reply = ""

    def __init__(self, calls: list[dict[str, Any]]) -> None:
        self.calls = iter(calls)

    def act(self, seen: CloudEnvObservation) -> CloudEnvAction | None:
        call = next(self.calls, None)
        return CloudEnvAction(**call) if call else None


class RandomAgent:
    """Random allowed operations on random resources of the pipeline, with the resource's name and nothing else."""

    guarded = False
    reply = ""

    def __init__(self, seed: int = 0) -> None:
        self.random = random.Random(seed)

    def act(self, seen: CloudEnvObservation) -> CloudEnvAction | None:
        choices = list(resources(seen))
        if not choices:
            return None
        service, name = self.random.choice(choices)
        operation = self.random.choice(sorted(SERVICES[service].operations))
        kind = SERVICES[service].types[0]
        return CloudEnvAction(service=service, operation=operation, payload={kind.id_param: kind.identifier(name)})


class NoopAgent:
    """Reads, and changes nothing: what a task is worth untouched."""

    guarded = False
    reply = ""

    def act(self, seen: CloudEnvObservation) -> CloudEnvAction | None:
        for service, _ in resources(seen):
            for operation in SERVICES[service].reads:
                if operation.startswith(("List", "Describe")):
                    return CloudEnvAction(service=service, operation=operation)
        return None


def resources(seen: CloudEnvObservation) -> Iterator[tuple[str, str]]:
    """(service, name) of every resource in the state that has a description."""
    for entries in seen.current_pipeline_state.values():
        for entry in entries if isinstance(entries, list) else [entries]:
            service, name = str(entry.get("service", "")), entry.get("instance")
            if service in SERVICES and service != AWSService.INTERNAL and isinstance(name, str):
                yield service, name
