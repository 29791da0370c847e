"""The form of a template, and parts that several of them use."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Graph = dict[str, list[dict[str, Any]]]

_SUBJECTS = (
    "orders",
    "invoices",
    "photos",
    "claims",
    "parcels",
    "reviews",
    "payments",
    "tickets",
    "sensors",
    "recipes",
)
_STAGES = ("prod", "live", "main", "core", "eu", "shop", "blue")


class Names:
    """Names of one instance of a template, drawn from a seed: a subject such as `orders`, and a stage."""

    def __init__(self, rng: random.Random) -> None:
        self.subject = rng.choice(_SUBJECTS)
        self.stage = rng.choice(_STAGES)

    def __call__(self, part: str) -> str:
        return f"{self.subject}-{part}-{self.stage}"


@dataclass(frozen=True)
class Template:
    """A pipeline as it should be. `purpose` tells an agent what it is for."""

    name: str
    purpose: str
    make: Callable[[Names], Graph]


def node(service: str, instance: str, **properties: Any) -> list[dict[str, Any]]:
    return [{"service": service, "instance": instance, **properties}]


def allow(actions: str | list[str], resource: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": actions, "Resource": resource}


def tls(bucket: str) -> dict[str, Any]:
    """The statement that refuses plain http to the bucket of this id."""
    return {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:*",
        "Resource": [f"${{{bucket}.arn}}", f"${{{bucket}.arn}}/*"],
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }


def send(service: str, queue: str, source: str) -> dict[str, Any]:
    """The statement that lets a service send to a queue, for one source only."""
    return {
        "Effect": "Allow",
        "Principal": {"Service": service},
        "Action": "sqs:SendMessage",
        "Resource": f"${{{queue}.arn}}",
        "Condition": {"ArnEquals": {"aws:SourceArn": f"${{{source}.arn}}"}},
    }


def trust(service: str) -> list[dict[str, Any]]:
    return [{"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}]
