"""Every described service. A new one is a file of its own and a line here."""

from __future__ import annotations

import difflib

from . import (
    cloudtrail,
    cloudwatch,
    dynamodb,
    ec2,
    elasticache,
    events,
    iam,
    kms,
    lambda_function,
    rds,
    s3,
    secretsmanager,
    sns,
    sqs,
)
from .description import ResourceType, Service
from .errors import PipelineError

SERVICES: dict[str, Service] = {
    m.SERVICE.name: m.SERVICE
    for m in (
        cloudtrail,
        cloudwatch,
        dynamodb,
        ec2,
        elasticache,
        events,
        iam,
        kms,
        lambda_function,
        rds,
        s3,
        secretsmanager,
        sns,
        sqs,
    )
}


def service(name: str) -> Service:
    """The description of a service; raises PipelineError with the closest name for an unknown one."""
    if name not in SERVICES:
        raise PipelineError(f"unknown service {name!r}; {closest(name, SERVICES)}")
    return SERVICES[name]


def resource_type(service_name: str, kind: str | None = None) -> ResourceType:
    """A type of a service, by default its first; raises PipelineError for an unknown one."""
    types = {t.kind: t for t in service(service_name).types}
    if kind is None:
        return next(iter(types.values()))
    if kind not in types:
        raise PipelineError(f"unknown kind {kind!r} of service {service_name!r}; {closest(kind, types)}")
    return types[kind]


def closest(name: str, known: object) -> str:
    """A closing phrase for an unknown name."""
    names = sorted(known)  # type: ignore[call-overload]
    close = difflib.get_close_matches(str(name), names, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    if len(names) > 40:
        return f"there are {len(names)}, such as {', '.join(names[:: len(names) // 6])}"
    return f"choose from {', '.join(names)}"
