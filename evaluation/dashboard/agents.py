"""Agents that an evaluation can be asked for: those of the registry, and what the runs have trained."""

from __future__ import annotations

from evaluation.dashboard.commands import shown
from evaluation.dashboard.folders import Folders
from evaluation.dashboard.records import find_runs


def agent_choices(folders: Folders) -> list[tuple[str, str]]:
    """(label, spec), trained ones first. Imports the registry, which takes a moment."""
    from evaluation.agents.registry import SETS

    trained = []
    for record in find_runs(folders, ["ppo", "grpo"]):
        path = shown(record.path)
        if not any((record.path / "best").glob("step_*")) and not any(
            (record.path / "checkpoints").glob("step_*")
        ):
            continue
        if record.algo == "ppo":
            trained.append((f"{record.label}, sampled", f"ppo:{path}"))
            if record.finished:
                trained.append((f"{record.label}, best action", f"ppo-best:{path}"))
        else:
            trained.append((record.label, f"llm:{path}"))
    names = list(dict.fromkeys([*SETS["baselines"], *SETS["constants"]]))
    planners = [(f"{name} (slow)" if name != "oracle" else name, name) for name in SETS["planners"]]
    return [*((name, name) for name in names[:1]), *trained, *((n, n) for n in names[1:]), *planners]
