"""From what a person chose on the page to the arguments of a command. Nothing is run here."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from cloudrl.config import CONFIG_DIR
from cloudrl.errors import UserError
from evaluation.dashboard.folders import Folders
from evaluation.dashboard.records import TRAINERS

STEPS = {"ppo": "ppo.total_timesteps", "grpo": "grpo.steps"}
REFUSED = ("runs_dir", "resume", "trust", "progress_bar", "hydra")
"""Keys that the dashboard sets itself, or that only a person at a command line may set: they say where files are
written and whose pickled files are loaded."""
ON_DISK = ("ppo", "ppo-best", "llm")
"""Kinds of agents that a page may name by their path, inside the runs folder. Others run code or ask a server."""
_NO_SCENARIO = ("base", "topologies", "estate")
_ROOT = Path(CONFIG_DIR)


def worlds() -> list[tuple[str, str]]:
    """(title, override) of what can be trained on: curricula, scenarios, the estates that ship."""
    curricula = [(f"curriculum {name}", f"+curriculum={name}") for name in _names("curriculum")]
    scenarios = [(f"scenario {n}", f"scenario={n}") for n in _names("scenario") if n not in _NO_SCENARIO]
    estates = [(f"estate {name}", f"scenario=estate scenario.path={name}") for name in _names("estates")]
    return curricula + scenarios + estates


def world_title(override: str) -> str:
    return next((title for title, known in worlds() if known == override), override)


def suites() -> list[str]:
    """What can be evaluated: the main suites, the stress suites, the estates that ship."""
    main = ["easy", "medium", "hard"]
    others = [name for name in _names("scenario") if name not in (*main, *_NO_SCENARIO)]
    return main + others + _names("estates")


def _names(group: str) -> list[str]:
    order = {name: k for k, name in enumerate(("easy", "medium", "hard", "full", "quiet"))}
    return sorted((p.stem for p in (_ROOT / group).glob("*.yaml")), key=lambda n: (order.get(n, 99), n))


def suite(folders: Folders, name: str) -> str:
    """The suite that a page may name: one that ships, scaled-<n>, or an estate's file inside the runs folder."""
    name = name.strip()
    if name in suites() or re.fullmatch(r"scaled-\d+", name):
        return name
    if name.endswith((".yaml", ".yml")):
        return shown(folders.inside(name))
    raise UserError(
        f"suite {name}: choose one of the list, scaled-<n>, or an estate's file inside the runs folder"
    )


def agent(folders: Folders, spec: str) -> str:
    """The spec of an agent that a page may ask for. Raises UserError for others."""
    spec = spec.strip()
    if not spec:
        raise UserError("choose an agent")
    kind, colon, path = spec.partition(":")
    if not colon:
        return spec
    if kind not in ON_DISK:
        raise UserError(
            f"{spec}: agents of kind {kind} are for the command line; here: a name, ppo:, ppo-best: or llm:"
        )
    return f"{kind}:{shown(folders.inside(Path.cwd() / path))}"


def train(folders: Folders, trainer: str, world: str, steps: object, seed: object, more: str) -> list[str]:
    """Arguments of a new training. Raises UserError for what the dashboard does not pass on."""
    _check_trainer(trainer)
    known = dict(worlds()).values()
    if world not in known:
        raise UserError("choose a scenario or a curriculum from the list")
    out = ["-m", f"trainers.{trainer}", *world.split(), f"seed={_whole(seed, 'seed', 0)}"]
    if steps not in (None, ""):
        out.append(f"{STEPS[trainer]}={_whole(steps, 'steps', 1)}")
    return [*out, *overrides(folders, more), *_ours(folders)]


def resume(folders: Folders, trainer: str, run: Path, steps: object, more: str) -> list[str]:
    """Arguments that go on with a run, to the same total or to another one."""
    _check_trainer(trainer)
    out = ["-m", f"trainers.{trainer}", f"resume={quoted(shown(run))}"]
    if steps not in (None, ""):
        out.append(f"{STEPS[trainer]}={_whole(steps, 'steps', 1)}")
    return [*out, *overrides(folders, more), *_ours(folders)]


def evaluate(folders: Folders, suite_name: str, agents: Sequence[str], seeds: str, more: str) -> list[str]:
    """Arguments of an evaluation."""
    if not agents:
        raise UserError("choose at least one agent")
    chosen = ",".join(quoted(agent(folders, spec)) for spec in agents)
    out = ["-m", "evaluation.run", f"suite={quoted(suite(folders, suite_name))}", f"agents=[{chosen}]"]
    out += [f"seeds={quoted(seeds.strip())}", *overrides(folders, more)]
    return [*out, f"runs_dir={quoted(shown(folders.runs))}"]


def overrides(folders: Folders, text: str) -> list[str]:
    """Further settings, as on a command line.

    Raises UserError for flags, for keys that are refused, and for files and folders outside the runs folder.
    """
    try:
        parts = shlex.split(text or "")
    except ValueError as error:
        raise UserError(f"further settings: {error}") from None
    for part in parts:
        key = re.split(r"[=@]", part.lstrip("+~"), maxsplit=1)[0]
        if part.startswith("-"):
            raise UserError(f"further settings: {part}: flags are for the command line; write key=value")
        if re.split(r"[./]", key)[0] in REFUSED:
            raise UserError(f"further settings: {key}: this is for the command line, not for a page")
        if "=" not in part and not part.startswith("~"):
            raise UserError(f"further settings: {part}: write key=value")
        for word in re.findall(r"[^\s,:=\[\]{}()'\"]+", part.partition("=")[2]):
            path = Path(word).expanduser()
            if ("/" in word or word.startswith("~")) and (Path.cwd() / path).exists():
                folders.inside(Path.cwd() / path)
    return parts


def quoted(text: str) -> str:
    """A value that Hydra reads as this very text."""
    plain = re.fullmatch(r"[A-Za-z_./][A-Za-z0-9_./-]*|\d+-\d+|[1-9]\d*", text)
    if plain and text.lower() not in ("null", "true", "false", "nan", "inf"):
        return text
    # A backslash stands for itself, but for those in front of a quote.
    return "'" + re.sub(r"(\\*)('|\Z)", lambda m: m[1] + m[1] + ("\\'" if m[2] else ""), text) + "'"


def shown(path: Path) -> str:
    """A path as a person would type it: from the present folder where it lies inside."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) and path != here else str(path)


def _ours(folders: Folders) -> list[str]:
    return [f"runs_dir={quoted(shown(folders.runs))}", "progress_bar=false"]


def _check_trainer(trainer: str) -> None:
    if trainer not in TRAINERS:
        raise UserError(f"choose a trainer: {' or '.join(TRAINERS)}")


def _whole(value: object, name: str, least: int) -> int:
    try:
        number = float(str(value).strip().replace(",", "").replace("_", ""))
        whole = int(number)
    except (ValueError, OverflowError):
        raise UserError(f"{name}: {value} is not a number") from None
    if whole != number or whole < least:
        raise UserError(f"{name}: {value}: a whole number from {least} on is needed")
    return whole
