"""What an evaluation run leaves behind: every agent's figures, world by world, in one file.

    results = Results.read("runs/eval/<time>")         # the folder, or its results.json
    results.agents["runbook"]["bill"]                  # (B,) $, in the order of results.seeds
    results.write(folder)                              # results.json and actions.npz

The same results give the same bytes: no times, no paths, keys in a fixed order. `actions.npz` holds what every
agent did, tick by tick, so that any episode can be replayed bit for bit (evaluation/replay.py).
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from cloudrl.actions import N_OPS
from cloudrl.errors import UserError, did_you_mean
from cloudrl.reward.bill import BILL_PARTS
from cloudrl.runs import write_atomic

FORMAT = 1
FILE, ACTIONS_FILE = "results.json", "actions.npz"
NOOP, ORACLE = "noop", "oracle"
"""Names of the agents that the score is measured against: 0 and 100."""
REQUIRED = ("reward", "bill", *BILL_PARTS, "won", "served")
"""Figures that no agent's results may lack; all others (docs/metrics.md) are shown where they are there."""


@dataclass(frozen=True)
class Suite:
    """Which worlds were played, and by which version of everything that decides what they cost."""

    name: str  # "CloudOps-Medium"
    version: int
    scenario: str  # what load_scenario takes: "medium", "stress/sale-day"
    scenario_hash: str  # every constant and shape
    prices_hash: str
    code: str  # version of the dynamics, the safety rules and the bill
    ticks: int  # of an episode
    slots: int  # padded resources
    safety: str = "enforce"  # mode of the safety layer
    actions: str = "full"  # set of operations
    memory: str | None = None  # hash of the frozen immune memory

    @property
    def id(self) -> str:
        return f"{self.name}-v{self.version}"

    def difference(self, other: Suite) -> str | None:
        """The first thing in which two suites differ, in words; None if results on them may be compared."""
        for f in fields(self):
            mine, theirs = getattr(self, f.name), getattr(other, f.name)
            if f.name != "scenario" and mine != theirs:
                return f"{f.name.replace('_', ' ')} {mine} and {theirs}"
        return None


@dataclass
class AgentResult:
    """One agent on B worlds.

    Attributes:
        name: the row's title, unique within a run.
        spec: the words that name the agent on a command line.
        identity: hash of what decides how it acts (weights, settings).
        group: agents of the same group differ by training seed, or by attempt, only: strata of an interval.
        clairvoyant: it saw the world's future, so it is a bound and no competitor.
        error: one line on why it has no figures, or not all; empty = it played every world.
        metrics: figures by name, each (B,).
        ops: (B, 13) how often each operation was executed, NOOP last; None where nobody counted.
        actions: (B, T) the flat action that really ran in each tick; None where nobody wrote it down.
    """

    name: str
    spec: str
    identity: str = ""
    group: str = ""
    clairvoyant: bool = False
    error: str = ""
    metrics: dict[str, np.ndarray] = field(default_factory=dict)
    ops: np.ndarray | None = None
    actions: np.ndarray | None = None

    @property
    def ok(self) -> bool:
        return not self.error

    def __getitem__(self, metric: str) -> np.ndarray:
        return self.metrics[metric]

    def __contains__(self, metric: str) -> bool:
        return metric in self.metrics

    def take(self, worlds: np.ndarray | Sequence[int] | slice) -> AgentResult:
        """The same agent on some of its worlds."""
        index = worlds if isinstance(worlds, slice) else np.asarray(worlds, np.int64)
        return AgentResult(
            self.name, self.spec, self.identity, self.group, self.clairvoyant, self.error,
            {name: values[index] for name, values in self.metrics.items()},
            None if self.ops is None else self.ops[index],
            None if self.actions is None else self.actions[index],
        )  # fmt: skip

    @staticmethod
    def join(parts: Sequence[AgentResult]) -> AgentResult:
        """The same agent on the worlds of all `parts`, one after the other."""
        first = parts[0]

        def stacked(arrays: list[np.ndarray | None]) -> np.ndarray | None:
            known = [a for a in arrays if a is not None]
            return np.concatenate(known) if len(known) == len(arrays) else None

        return AgentResult(
            first.name, first.spec, first.identity, first.group, first.clairvoyant,
            next((p.error for p in parts if p.error), ""),
            {name: np.concatenate([p.metrics[name] for p in parts]) for name in first.metrics},
            stacked([p.ops for p in parts]),
            stacked([p.actions for p in parts]),
        )  # fmt: skip


@dataclass
class Results:
    """All agents of one run on the same worlds.

    `oracle`: $ of the clairvoyant search in each world, (B,); None, with the reason in `no_oracle`, where nobody
    has searched: then there are savings but no scores.
    """

    suite: Suite
    seeds: np.ndarray  # (B,) int64
    agents: dict[str, AgentResult]
    split: str = ""  # "public", "validation" or the words of the range
    oracle: np.ndarray | None = None
    no_oracle: str = ""

    def __post_init__(self) -> None:
        self.seeds = np.asarray(self.seeds, np.int64)

    def __iter__(self) -> Iterator[AgentResult]:
        return iter(self.agents.values())

    @property
    def played(self) -> dict[str, AgentResult]:
        """The agents that finished."""
        return {name: agent for name, agent in self.agents.items() if agent.ok}

    @property
    def noop(self) -> np.ndarray | None:
        """$ of doing nothing in each world, (B,)."""
        agent = self.agents.get(NOOP)
        return agent["bill"] if agent is not None and agent.ok else None

    def agent(self, name: str) -> AgentResult:
        """The agent called `name`. Raises UserError if there is none, or if it did not finish."""
        if name not in self.agents:
            raise UserError(f"no agent '{name}' in these results; {did_you_mean(name, self.agents)}")
        agent = self.agents[name]
        if not agent.ok:
            raise UserError(f"agent '{name}' has no results: {agent.error}")
        return agent

    # ------------------------------------------------------------------ files
    def write(self, folder: str | Path) -> None:
        """Write `results.json` and, where actions are known, `actions.npz` into an existing folder."""
        folder = Path(folder)
        actions = {str(i): a.actions for i, a in enumerate(self) if a.actions is not None}
        if actions:
            buffer = io.BytesIO()
            np.savez_compressed(buffer, **{key: array.astype(np.int16) for key, array in actions.items()})  # type: ignore[arg-type]
            write_atomic(folder / ACTIONS_FILE, buffer.getvalue())
        write_atomic(folder / FILE, _text(self.plain()) + "\n")

    def plain(self) -> dict[str, Any]:
        """Everything but the actions, as json knows it."""
        return {
            "format": FORMAT,
            "suite": asdict(self.suite),
            "split": self.split,
            "seeds": self.seeds.tolist(),
            "oracle": None if self.oracle is None else self.oracle.tolist(),
            "no_oracle": self.no_oracle,
            "agents": {name: _plain_agent(agent) for name, agent in self.agents.items()},
        }

    @classmethod
    def read(cls, path: str | Path) -> Results:
        """The results in a run folder, or in the file itself. Raises UserError for anything else."""
        file = Path(path)
        file = file / FILE if file.is_dir() else file
        try:
            data = json.loads(file.read_text())
        except FileNotFoundError:
            raise UserError(f"{path}: no {FILE} here; give the folder that evaluation.run printed") from None
        except ValueError:
            raise UserError(f"{file}: not valid json; run the evaluation again") from None
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise UserError(f"{file}: not results of this version of Cloud-RL (format {FORMAT})")
        where = file
        try:
            results = cls._from(data)
            results.check()
            where = file.with_name(ACTIONS_FILE)
            results._read_actions(where)
            results.check()
        except (KeyError, TypeError, ValueError, AttributeError, zipfile.BadZipFile) as error:
            reason = f"no {error}" if isinstance(error, KeyError) else str(error)
            raise UserError(f"{where}: damaged: {reason}; run the evaluation again") from None
        return results

    @classmethod
    def _from(cls, data: Mapping[str, Any]) -> Results:
        agents = {
            name: AgentResult(
                name=name,
                metrics={k: _array(v) for k, v in a["metrics"].items()},
                ops=None if a["ops"] is None else np.asarray(a["ops"], np.int64).reshape(-1, N_OPS + 1),
                **{k: a[k] for k in ("spec", "identity", "group", "clairvoyant", "error")},
            )
            for name, a in data["agents"].items()
        }
        return cls(
            Suite(**data["suite"]), data["seeds"], agents, data["split"],
            None if data["oracle"] is None else np.asarray(data["oracle"], float), data["no_oracle"],
        )  # fmt: skip

    def check(self) -> None:
        """Raise ValueError if an array is missing or has not one row per world."""
        worlds = len(self.seeds)
        for agent in self:
            if not agent.ok:
                continue
            missing = [name for name in REQUIRED if name not in agent]
            if missing:
                raise ValueError(f"agent '{agent.name}' has no {missing[0]}")
            for name, values in [*agent.metrics.items(), ("ops", agent.ops), ("actions", agent.actions)]:
                if values is not None and len(values) != worlds:
                    raise ValueError(f"agent '{agent.name}' has {len(values)} rows of {name} for {worlds} worlds")
                if values is not None and values.dtype.kind not in "biuf":
                    raise ValueError(f"agent '{agent.name}' has something else than numbers as {name}")
        if self.oracle is not None and self.oracle.shape != (worlds,):
            raise ValueError(f"{len(self.oracle)} oracle bills for {worlds} worlds")

    def _read_actions(self, file: Path) -> None:
        if not file.exists():
            return
        with np.load(file, allow_pickle=False) as stored:
            for i, agent in enumerate(self):
                if str(i) in stored:
                    agent.actions = stored[str(i)].astype(np.int64)


def _plain_agent(agent: AgentResult) -> dict[str, Any]:
    return {
        "spec": agent.spec,
        "identity": agent.identity,
        "group": agent.group,
        "clairvoyant": agent.clairvoyant,
        "error": agent.error,
        "metrics": {name: _numbers(values) for name, values in agent.metrics.items()},
        "ops": None if agent.ops is None else agent.ops.tolist(),
    }


def _numbers(values: np.ndarray) -> list[Any]:
    """A list for json, which knows no nan: null."""
    return [None if value != value else value for value in np.asarray(values).tolist()]


def _array(values: list[Any]) -> np.ndarray:
    return np.asarray([np.nan if value is None else value for value in values])


def _text(value: Any, indent: str = "") -> str:
    """Json with a line per key and a line per list: a person can look at it, and a difference is short."""
    if not isinstance(value, dict) or not value:
        return json.dumps(value, allow_nan=False)
    inner = indent + " "
    lines = [f"{inner}{json.dumps(key)}: {_text(item, inner)}" for key, item in value.items()]
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
