"""An agent that was looked up but not made yet, and what it may depend on."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from cloudrl.safety.config import ActionSet
from cloudrl.scenarios.schema import Scenario
from evaluation.config import LanguageSettings
from evaluation.suites import bare

_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Context:
    """What an agent may depend on besides the words of its spec."""

    scenario: Scenario
    language: LanguageSettings = field(default_factory=LanguageSettings)
    actions: ActionSet = ActionSet.full


@dataclass(frozen=True)
class Entry:
    """What is known of an agent before it is made.

    Attributes:
        name: title of its row.
        spec: the words that name it.
        identity: differs whenever it may act differently (weights, settings, code).
        group: agents of one group differ by training seed only.
        clairvoyant: it sees the future.
        slow: it takes more than some milliseconds per world.
    """

    name: str
    spec: str
    identity: str
    group: str = ""
    clairvoyant: bool = False
    slow: bool = False


@cache
def code_of(*patterns: str) -> str:
    """Hash of source files, such as "cloudrl/policies/*.py": an agent is what it is by its code too."""
    digest = hashlib.sha256()
    for pattern in patterns:
        for file in sorted(_ROOT.glob(pattern)):
            digest.update(file.name.encode() + bare(file.read_text(encoding="utf-8")).encode())
    return digest.hexdigest()[:16]
