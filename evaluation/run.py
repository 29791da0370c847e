"""The benchmark: every agent on the same worlds.

    python -m evaluation.run suite=medium
    python -m evaluation.run suite=easy agents=[baselines,ppo:runs/ppo/<run>] seeds=validation
    python -m evaluation.run agents=[noop,python:my_module:MyAgent] seeds=10000-10019

What happens, from top to bottom of `evaluate`: agents, worlds and their version are looked up; what was played
before is read; the rest is played in blocks of worlds on all cores, each block kept as soon as it is done; scores
are taken against doing nothing and the oracle. The run folder <runs_dir>/eval/<time> appears when everything is
in it: results.json (the same command gives the same bytes), actions.npz, timing.json, report.html, report.md.

An agent that fails has its error in its row and the others finish; the exit code is then 1.
"""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
from tqdm import tqdm

from cloudrl.cli import command
from cloudrl.errors import UserError
from cloudrl.memory.immune import ImmuneMemory
from cloudrl.scenarios.schema import Scenario
from evaluation import terminal
from evaluation.agents.entry import Context, Entry
from evaluation.agents.registry import find
from evaluation.block import Conditions, Outcome, blocks, count_unnecessary
from evaluation.cache import Cache, Rows
from evaluation.config import EvalConfig
from evaluation.oracle_data import oracle_bills
from evaluation.report.summary import summarise
from evaluation.results import NOOP, ORACLE, AgentResult, Results
from evaluation.run_folder import write_run
from evaluation.schedule import Task, play
from evaluation.suites import SEED_WORDS, facts, find_scenario, find_seeds

Timing = dict[str, dict[str, float]]
"""By agent: seconds of processor or waiting time that its worlds took, when they were played, and per decision."""


@command("eval")
def main(config: EvalConfig) -> float:
    """Evaluate, print the table and write the run folder. Returns the mean score of the last agent."""
    results, timing = evaluate(config)
    folder = write_run(config, results, timing)
    summary = summarise(results)
    terminal.show(summary, timing)
    print(f"\nrun folder   {folder}")
    failed = [agent.name for agent in results if not agent.ok]
    if failed:
        raise UserError(f"{len(failed)} of {len(results.agents)} agents failed: {', '.join(failed)}")
    return terminal.last_figure(summary, list(results.agents)[-1])


def evaluate(config: EvalConfig) -> tuple[Results, Timing]:
    """Play all agents of the config on its worlds."""
    scenario = find_scenario(config.suite)
    seeds = find_seeds(config.seeds, scenario)
    conditions = Conditions(
        Context(scenario, config.language, config.safety.actions),
        config.reward,
        config.safety,
        _memory(config),
        config.ledger,
    )
    suite = facts(scenario, config.suite, config.safety, conditions.memory)
    specs = config.agents if NOOP in config.agents else [NOOP, *config.agents]
    entries = find(specs, conditions.context)
    root = Path(config.runs_dir) / "eval" / ".cache" if config.cache else None
    cache = Cache(root, suite, {"reward": asdict(config.reward)})

    errors = _play_what_is_missing(config, conditions, entries, seeds, cache)
    agents, timing = {}, {}
    for entry in entries:
        rows = {} if entry.name in errors else _with_ledger(cache, conditions, entry, seeds)
        agents[entry.name] = _result(entry, rows, errors.get(entry.name, ""))
        if rows:
            seconds = float(rows["seconds"].sum())
            timing[entry.name] = {"seconds": seconds, "ms_per_decision": 1e3 * seconds / len(seeds) / suite.ticks}
    oracle, why = _oracle(scenario, seeds, agents)
    split = config.seeds if config.seeds in SEED_WORDS else f"seeds {config.seeds}"
    return Results(suite, seeds, agents, split, oracle, why), timing


def _memory(config: EvalConfig) -> ImmuneMemory | None:
    if not config.memory.enabled or config.memory.path is None:
        return None
    config.memory.frozen = True
    return ImmuneMemory.load(config.memory.path, config.memory)


def _play_what_is_missing(
    config: EvalConfig, conditions: Conditions, entries: list[Entry], seeds: np.ndarray, cache: Cache
) -> dict[str, str]:
    """Fill the cache; returns what went wrong, by agent."""
    tasks: list[Task] = []
    for k, entry in enumerate(entries):
        missing = np.setdiff1d(seeds, cache.read(entry.identity, seeds).get("seed", []))
        tasks += [Task(k, entry, b, block) for b, block in enumerate(blocks(entry, missing))]
    workers = config.workers or os.cpu_count() or 1
    worlds = sum(len(task.seeds) for task in tasks)
    hidden = not (config.progress_bar and sys.stderr.isatty())
    errors: dict[str, tuple[int, str]] = {}
    with tqdm(total=worlds, desc=config.suite, unit="episode", disable=hidden) as bar:
        for task, outcome in play(conditions, tasks, workers):
            _note(task, outcome, cache, errors)
            bar.set_postfix_str(task.entry.name, refresh=False)
            bar.update(len(task.seeds))
    return {name: text for name, (_, text) in errors.items()}


def _with_ledger(cache: Cache, conditions: Conditions, entry: Entry, seeds: np.ndarray) -> Rows:
    """What was played, with or without the figures of the ledger: what was asked for, whatever is in the cache."""
    rows = cache.read(entry.identity, seeds)
    if not conditions.ledger:
        rows.pop("unnecessary", None)
    elif rows and "unnecessary" not in rows:  # played by a command that did not want them
        rows["unnecessary"] = count_unnecessary(conditions, seeds, rows["actions"])
        cache.write(entry.identity, rows)
    return rows


def _note(task: Task, outcome: Outcome, cache: Cache, errors: dict[str, tuple[int, str]]) -> None:
    name = task.entry.name
    if outcome.error:
        errors[name] = min(errors.get(name, (task.block, outcome.error)), (task.block, outcome.error))
    elif outcome.rows:
        cache.write(task.entry.identity, outcome.rows)


def _result(entry: Entry, rows: Rows, error: str) -> AgentResult:
    apart = ("seed", "seconds", "ops", "actions")
    return AgentResult(
        name=entry.name,
        spec=entry.spec,
        identity=entry.identity,
        group=entry.group,
        clairvoyant=entry.clairvoyant,
        error=error,
        metrics={name: values for name, values in rows.items() if name not in apart},
        ops=rows.get("ops"),
        actions=rows.get("actions"),
    )


def _oracle(
    scenario: Scenario, seeds: np.ndarray, agents: dict[str, AgentResult]
) -> tuple[np.ndarray | None, str]:
    """Bills of the oracle: those that ship, or those of an oracle that was played here; or why there are none."""
    bills, why = oracle_bills(scenario, seeds)
    played = agents.get(ORACLE)
    if bills is None and played is not None and played.ok:
        return played["bill"], ""
    return bills, why


if __name__ == "__main__":
    main()
