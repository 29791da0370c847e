"""Every command that a page shows exists, and its settings are ones that it takes. Nothing is run."""

from __future__ import annotations

import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import pytest

from cloudrl.compose import compose
from cloudrl.config import SCHEMAS
from evaluation.config import EvalConfig
from tests.docs.pages import ROOT
from tests.docs.test_links import PAGES
from trainers.llm.config import GRPOConfig

COMPOSED = {"trainers.ppo": "ppo", "trainers.grpo": "grpo", "evaluation.run": "eval"}
OWN_ESTATES = ("my.yaml", "tickets.yaml", "wrong.yaml")
EXAMPLE = str(ROOT / "configs" / "estates" / "example.yaml")


def commands(page: Path) -> list[str]:
    """Lines of the page's blocks that start a Python of ours."""
    fenced = re.findall(r"^```(?:bash)?\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    lines = "\n".join(fenced).replace("\\\n", " ").splitlines()
    return [
        line for line in lines if re.match(r"python (-m (trainers|evaluation|cloudenv|cloudrl)\.|scripts/)", line)
    ]


def words(command: str) -> list[str]:
    """What the shell would make of it, the reader's own names filled in."""
    command = re.sub(r"\$run|<(run|time|a|b|c)>", "2026-01-01_00-00-00", command)
    found = shlex.split(command, comments=True)
    ends = [k for k, word in enumerate(found) if word in ("||", "&&", "|", "&", ">", "2>")]
    return found[: min(ends, default=len(found))]


ALL = sorted({(page.relative_to(ROOT).as_posix(), command) for page in PAGES for command in commands(page)})


def test_commands_are_found() -> None:
    assert SCHEMAS["eval"] is EvalConfig and SCHEMAS["grpo"] is GRPOConfig  # importing them registers them
    pages = ("README.md", "docs/ppo.md", "docs/grpo.md", "docs/benchmark.md", "docs/tutorials/train-ppo.md")
    assert {page for page, _ in ALL} >= {*pages}


@pytest.mark.parametrize(("page", "command"), ALL)
def test_a_command_of_a_page(page: str, command: str) -> None:
    _, *rest = words(command)
    if rest[0] != "-m":
        assert (ROOT / rest[0]).exists()
        return
    module, arguments = rest[1], [word for word in rest[2:] if word != "-m"]
    assert find_spec(module) is not None
    if module not in COMPOSED or "--help" in arguments:
        return
    if "-m" in rest[2:]:  # a sweep: its first job
        arguments = [word.split(",")[0] for word in arguments]
    overrides = [re.sub("|".join(map(re.escape, OWN_ESTATES)), EXAMPLE, word) for word in arguments]
    compose(COMPOSED[module], overrides)
