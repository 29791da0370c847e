"""From the words on a command line to agents.

    noop  random  round-robin  handwritten  runbook  cost-only  security-only  reliability-only
    stop-all, patch-all, ...: one operation over and over
    greedy  mpc  oracle: planners on forks; oracle sees the future and is a bound, no competitor
    ppo:<run>  ppo-best:<run>: a run or checkpoint of trainers.ppo, sampled or its best action
    llm:<folder>: a language model on disk
    endpoint:<base url>#<model>: a language model behind an OpenAI-compatible server
    python:<module>:<class>: your own
    baselines  constants  planners: sets of the above

`find` looks each one up, so that a typo ends the command before anything is played. `build` makes the agent,
in the process that plays it; what goes wrong there is this agent's error and nobody else's.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from cloudrl.errors import UserError, did_you_mean
from cloudrl.policies.scripted import ScriptedPolicy, baselines
from evaluation.agents.agent import Agent, Clairvoyant
from evaluation.agents.entry import Context, Entry, code_of

Player = Agent | Clairvoyant | ScriptedPolicy
"""What evaluation.rollout can play."""


class Kind(NamedTuple):
    """How agents of one kind are looked up and made, from what stands behind the colon."""

    describe: Callable[[str, Context], Entry]
    build: Callable[[str, Context], Player]


SETS = {
    "baselines": (
        "noop", "random", "stop-all", "delete-all", "patch-all", "restart-all", "resize-down-all", "cost-only",
        "security-only", "reliability-only", "handwritten", "runbook",
    ),
    "constants": (
        "noop", "random", "round-robin", "analyze-all", "patch-all", "encrypt-all", "rotate-creds-all",
        "restart-all", "resize-down-all", "stop-all", "delete-all", "start-all", "resize-up-all",
        "enable-logging-all", "restrict-access-all",
    ),
    "planners": ("greedy", "mpc", "oracle"),
}  # fmt: skip
"""A set stands for its agents."""

ALIASES = {
    "restart-loop": "restart-all",
    "rotate-all": "rotate-creds-all",
    "log-all": "enable-logging-all",
    "restrict-all": "restrict-access-all",
}


def find(specs: Sequence[str], context: Context) -> list[Entry]:
    """The agents of a list of specs, each once, titles unique. Raises UserError for what does not exist."""
    wanted: list[str] = []
    for spec in specs:
        wanted += SETS.get(spec, (ALIASES.get(spec, spec),))
    entries: list[Entry] = []
    for spec in _attempts(dict.fromkeys(wanted), context.language.attempts):
        kind, argument = _kind(spec, context)
        entry = replace(kind.describe(argument, context), spec=spec)
        if any(entry.name == other.name for other in entries):
            entry = replace(entry, name=spec)
        entries.append(entry)
    return entries


def _attempts(specs: Iterable[str], attempts: int) -> Iterator[str]:
    """Language models behind a server sample: each is asked to play the same worlds several times."""
    for spec in specs:
        yield spec
        if spec.startswith("endpoint:"):
            yield from (f"{spec}#{k}" for k in range(2, attempts + 1))


def build(entry: Entry, context: Context) -> Player:
    """The agent itself. Raises whatever its making raises."""
    kind, argument = _kind(entry.spec, context)
    return kind.build(argument, context)


def _kind(spec: str, context: Context) -> tuple[Kind, str]:
    """The kind of agent that a spec names, and what stands behind its colon."""
    head, colon, argument = spec.partition(":")
    if colon:
        if head not in KINDS:
            raise UserError(f"agents: {spec}: no such kind of agent; {did_you_mean(head, KINDS)}")
        if not argument:
            raise UserError(f"agents: {spec}: something must follow the colon; docs/benchmark.md has examples")
        return KINDS[head], argument
    if spec in _PLANNERS:
        return _PLANNER, spec
    if spec in _scripted(context.scenario.name):
        return _SCRIPTED, spec
    known = [*_scripted(context.scenario.name), *_PLANNERS, *ALIASES, *SETS]
    raise UserError(
        f"agents: {spec}: no such agent; {did_you_mean(spec, known, show=40)}. "
        f"Others are written {', '.join(f'{k}:...' for k in KINDS)}"
    )


# ---------------------------------------------------------------- scripted
@cache
def _scripted(scenario_name: str) -> dict[str, ScriptedPolicy]:
    return {policy.name: policy for policy in baselines(scenario_name)}


def _describe_scripted(name: str, context: Context) -> Entry:
    policy = _scripted(context.scenario.name)[name]
    settings = f"{policy.kind} {policy.argument} {policy.settings.tolist()}"
    return Entry(name, name, f"scripted {settings} {code_of('cloudrl/policies/*.py')}", name)


_SCRIPTED = Kind(_describe_scripted, lambda name, context: _scripted(context.scenario.name)[name])

# ---------------------------------------------------------------- planners
_PLANNERS: dict[str, str] = {
    "greedy": "evaluation.agents.greedy:Greedy",
    "mpc": "evaluation.agents.mpc:MPC",
    "oracle": "evaluation.agents.shipped_oracle:ShippedOracle",
}


def _describe_planner(name: str, context: Context) -> Entry:
    from evaluation.agents.planning import portfolio
    from evaluation.oracle_data import oracle_path

    code = code_of("cloudrl/policies/*.py", "evaluation/agents/planning*.py", f"evaluation/agents/{name}.py")
    identity = f"{name} {[policy.settings.tolist() for policy in portfolio(context.scenario.name)]} {code}"
    if name == "oracle":
        stored = oracle_path(context.scenario)
        identity += f" {hashlib.sha256(stored.read_bytes()).hexdigest()[:16]}" if stored.is_file() else ""
    return Entry(name, name, identity, name, clairvoyant=name == "oracle", slow=True)


def _build_planner(name: str, context: Context) -> Player:
    module, _, attribute = _PLANNERS[name].partition(":")
    planner: Player = getattr(importlib.import_module(module), attribute)()
    return planner


_PLANNER = Kind(_describe_planner, _build_planner)


# ---------------------------------------------------------------- your own
def _parts(argument: str) -> tuple[str, str]:
    module, colon, attribute = argument.partition(":")
    if not colon or not module or not attribute:
        raise UserError(f"agents: python:{argument}: write python:<module>:<class>")
    return module, attribute


def _describe_own(argument: str, context: Context) -> Entry:
    module, attribute = _parts(argument)
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError) as error:
        raise UserError(f"agents: python:{argument}: {error}") from None
    if spec is None:
        raise UserError(f"agents: python:{argument}: no module {module} here; start the command in its folder")
    origin = Path(spec.origin) if spec.origin else None
    source = origin.read_bytes() if origin is not None and origin.is_file() else b""
    code = hashlib.sha256(source).hexdigest()[:16]
    return Entry(attribute, argument, f"python {argument} {code}", attribute, slow=True)


def _build_own(argument: str, context: Context) -> Player:
    module, attribute = _parts(argument)
    make: Any = getattr(importlib.import_module(module), attribute, None)
    if not callable(make):
        raise UserError(f"{module} has no class {attribute}")
    agent: Player = make()
    if not callable(getattr(agent, "act", None)):
        raise UserError(f"{module}.{attribute} has no method act(view); docs/benchmark.md shows an agent")
    return agent


# ---------------------------------------------------------------- trained, and language models
def _later(module: str, function: str) -> Callable[[str, Context], Any]:
    """Torch and the like are loaded for those who ask for them."""

    def call(argument: str, context: Context) -> Any:
        return getattr(importlib.import_module(f"evaluation.agents.{module}"), function)(argument, context)

    return call


KINDS: dict[str, Kind] = {
    "ppo": Kind(_later("trained", "describe_sampled"), _later("trained", "build_sampled")),
    "ppo-best": Kind(_later("trained", "describe_best"), _later("trained", "build_best")),
    "llm": Kind(_later("llm_checkpoint", "describe"), _later("llm_checkpoint", "build")),
    "endpoint": Kind(_later("llm_endpoint", "describe"), _later("llm_endpoint", "build")),
    "python": Kind(_describe_own, _build_own),
}
"""What may stand before a colon."""
