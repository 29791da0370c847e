"""The schema of configs/eval.yaml."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from hydra.core.config_store import ConfigStore

from cloudrl.config import COUNT, FACTOR, POSITIVE, SCHEMAS
from cloudrl.errors import UserError
from cloudrl.memory.config import MemoryConfig
from cloudrl.ranges import Range, check_ranges
from cloudrl.reward.weights import RewardWeights
from cloudrl.safety.config import SafetyConfig


@dataclass
class LanguageSettings:
    """How language models are asked (agents `endpoint:<url>#<model>` and `llm:<folder>`)."""

    attempts: int = 1  # rows per model: more than one for pass^k
    timeout: float = 60.0  # seconds per request to an endpoint
    retries: int = 2  # after the first try, for what may pass: time-outs, 429, 5xx
    concurrency: int = 8  # requests at once
    temperature: float = 0.0
    max_tokens: int = 64  # of a reply
    style: str = "compact"  # of the prompt: compact | full
    allowed: bool = False  # the prompt lists the admissible actions
    thinks: bool = False  # the model may open with a <think> block

    def __post_init__(self) -> None:
        check_ranges("language", self, _LANGUAGE_RANGES)
        if self.style not in ("compact", "full"):
            raise UserError(f"language.style={self.style}: say compact or full")


_LANGUAGE_RANGES = {
    "attempts": Range(low=1, high=100, whole=True),
    "timeout": POSITIVE,
    "retries": Range(low=0, high=10, whole=True),
    "concurrency": Range(low=1, high=256, whole=True),
    "temperature": FACTOR,
    "max_tokens": COUNT,
}


@dataclass
class EvalConfig:
    """`python -m evaluation.run`."""

    suite: str = "medium"
    agents: list[str] = field(default_factory=lambda: ["noop", "random", "handwritten", "runbook"])
    seeds: str = "public"
    reward: RewardWeights = field(default_factory=RewardWeights)
    safety: SafetyConfig = field(default_factory=SafetyConfig)
    memory: MemoryConfig = field(default_factory=lambda: MemoryConfig(enabled=False))
    language: LanguageSettings = field(default_factory=LanguageSettings)
    ledger: bool = True  # count unnecessary disruptive actions by counterfactuals
    cache: bool = True  # read and write what was played before
    report: bool = True  # write report.html, report.md, report.json and points for TensorBoard
    workers: int | None = None  # processes; null = one per core
    progress_bar: bool = True  # never shown where the output is no terminal
    runs_dir: str = "runs"  # run folders are <runs_dir>/eval/<time>

    def __post_init__(self) -> None:
        COUNT.check("workers", self.workers)
        if not self.agents:
            raise UserError("agents=[]: name at least one, such as agents=[noop,runbook]")
        check_ranges("reward", self.reward, dict.fromkeys((f.name for f in fields(self.reward)), FACTOR))
        if self.memory.enabled and self.memory.path is None:
            raise UserError(
                "memory=on: every agent must meet the same memory, so give a saved one, memory.path=<file>; "
                "it is read and never written"
            )


SCHEMAS["eval"] = EvalConfig
ConfigStore.instance().store(name="eval_schema", node=EvalConfig, provider="cloudrl")
