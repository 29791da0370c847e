"""How the safety layer acts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class SafetyMode(Enum):
    """enforce: a vetoed action is masked, and becomes NOOP. observe: it runs and is counted. off: no rules."""

    enforce = "enforce"
    observe = "observe"
    off = "off"


class ActionSet(Enum):
    """core: the nine operations of the first specification. full: all twelve and NOOP."""

    core = "core"
    full = "full"


@dataclass
class SafetyConfig:
    mode: SafetyMode = SafetyMode.enforce
    actions: ActionSet = ActionSet.full
