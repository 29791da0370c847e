"""Pipelines that are right: what the task bank and the generator break."""

from __future__ import annotations

from . import compute, databases, identity, messaging, operations, serverless, storage
from .template import Names, Template

TEMPLATES: dict[str, Template] = {
    t.name: t
    for m in (storage, serverless, compute, identity, messaging, databases, operations)
    for t in m.TEMPLATES
}

__all__ = ["TEMPLATES", "Names", "Template"]
