"""The model card, README.md of a run: what a stranger must know before using what was trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from cloudrl.config import CurriculumConfig
from cloudrl.measurements import TICK_HOURS
from cloudrl.memory.config import MemoryConfig
from cloudrl.reward.weights import RewardWeights
from cloudrl.runs import Run
from cloudrl.safety.config import SafetyConfig
from cloudrl.scenarios.estate import with_estate
from cloudrl.scenarios.library import SUITES, load_scenario, scenario_hash
from cloudrl.scenarios.schema import Scenario
from cloudrl.seeding import TRAIN_SEEDS, VALIDATION_SEEDS
from trainers.common.validation import TUNING_START


class Config(Protocol):
    """What the configs of both trainers have."""

    reward: RewardWeights
    safety: SafetyConfig
    memory: MemoryConfig
    curriculum: CurriculumConfig
    seed: int


@dataclass(frozen=True)
class Card:
    """What differs between the trainers; each a paragraph of markdown, or a line of a list."""

    what: str  # it is
    training: tuple[str, ...]  # how, and how much
    results: str  # table and remarks
    chosen: str  # what validation worlds decided
    limits: tuple[str, ...]
    agent: str  # its name for evaluation.run, before the run's path
    page: str  # of the documentation
    licence: str  # of the weights


def markdown(card: Card, config: Config, run: Run, scenario: Scenario) -> str:
    """The card from the results on. What stands above and below them is written by cloudrl/runs.py."""
    stages = [stage.name for stage in config.curriculum.stages]
    overrides = run.overrides()
    source = f", the system in `{scenario.path}`" if scenario.path else ""
    hours = scenario.horizon.ticks * TICK_HOURS
    training = (
        f"World: {scenario.name}{source}: room for {with_estate(scenario).slots} resources, "
        f"{scenario.horizon.ticks} ticks ({hours:g} h), constants {scenario_hash(scenario)}.",
        *([f"Curriculum: {', '.join(stages)}."] if stages else []),
        *card.training,
        f"Safety: {config.safety.mode.value}, actions: {config.safety.actions.value}; "
        f"immune memory while training: {'on' if config.memory.enabled else 'off'}; "
        f"{_weights(config.reward)}; seed {config.seed}.",
        "Changed from the defaults: " + (", ".join(f"`{text}`" for text in overrides) or "nothing") + ".",
    )
    data = (
        f"Simulated worlds only{f', in the shape of `{scenario.path}`' if scenario.path else ''}. "
        f"Training worlds have seeds {TRAIN_SEEDS.start} to {TRAIN_SEEDS.stop - 1:,}. {card.chosen} on validation "
        f"worlds (seeds from {TUNING_START:,}); the table is of other ones (from {VALIDATION_SEEDS.start:,}). "
        f"The public test worlds (from {VALIDATION_SEEDS.stop:,}) were not played."
    )
    limits = (
        *card.limits,
        "One run with one training seed: the intervals are over worlds and say nothing of how far seeds differ.",
        "It knows the shapes, prices and rates of its scenario. Memory was off in the episodes of the table.",
        "A dollar here compares policies; it is no forecast of an invoice. It was made for this simulator, "
        "not for operating a real system.",
    )
    suite = _suite(scenario)
    own = suite in SUITES and scenario_hash(load_scenario(suite)) != scenario_hash(scenario)
    agents = f'"agents=[noop,runbook,{card.agent}:{run.path}]"'
    play = (
        f"```\npython -m evaluation.run suite={suite} {agents}\n```\n\n"
        + ("This run changed the scenario; the suite is as it is published.\n\n" if own else "")
        + f"Pages in `docs/`: `{card.page}` (how it was trained, from Python), `metrics.md` (every figure), "
        "`benchmark.md`, `simulator.md` (the world and its limits)."
    )
    return "\n\n".join(
        [
            card.results.strip(),
            f"## What it is\n\n{card.what}",
            f"## Training\n\n{_list(training)}",
            f"## Data\n\n{data}",
            f"## Limits\n\n{_list(limits)}",
            f"## Play it\n\n{play}",
            f"## Licence\n\n{card.licence}",
        ]
    )


def licence(base: str | None = None) -> str:
    """Of weights that were trained from nothing, or from those of the model `base`."""
    if base is None:
        return "The weights were trained from nothing on simulated worlds by Cloud-RL. MIT, as Cloud-RL itself."
    return f"The weights derive from `{base}`, whose licence binds them. Cloud-RL itself: MIT."


def _list(lines: tuple[str, ...]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _weights(reward: RewardWeights) -> str:
    changed = {name: value for name, value in vars(reward).items() if value != getattr(RewardWeights(), name)}
    if not changed:
        return "reward: balanced"
    return "reward: " + ", ".join(f"{name} {value:g}" for name, value in changed.items())


def _suite(scenario: Scenario) -> str:
    """What evaluation.run calls its worlds."""
    known = (key for key, gym_id in SUITES.items() if gym_id == f"{scenario.name}-v{scenario.version}")
    return scenario.path or next(known, "<suite>")
