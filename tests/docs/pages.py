"""Follow a page as a reader would: its files and patches first, then its blocks one after the other.

| block | what happens |
|---|---|
| ```bash | run by bash; must succeed |
| ```python | run by a Python of its own; must succeed |
| ```<any> title="path" | written to that file of the folder, nothing is run |
| ```diff | applied to the folder by `git apply` |
| ```text right after one that was run | each of its lines stands in the output, in this order; `...` is anything |

Port 8123 of a page becomes one that is free. Other blocks, and any block after the line `<!-- not run -->`, are
for reading.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(
    r"^(<!-- not run -->\n+)?^```(\w*)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.DOTALL | re.MULTILINE
)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    title: str
    text: str
    line: int
    run: bool


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    text = page.read_text()
    return [
        Block(language, title or "", body, text[: match.start()].count("\n") + 1, not skip)
        for match in _BLOCK.finditer(text)
        for skip, language, title, body in [match.groups()]
    ]


def environment(code: Path) -> dict[str, str]:
    """Of a reader's shell: `python` is this one, and finds the packages in the folder `code`."""
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([str(code), str(ROOT), str(ROOT / "envs")]),
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "200",
        "PYTHONUNBUFFERED": "1",
    }


def write(page: Path, folder: Path, code: Path = ROOT) -> None:
    """Write the files of the page and apply its patches, and run nothing."""
    for block in blocks(page):
        if not block.run:
            continue
        if block.title:
            file = folder / block.title
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.text)
        elif block.language == "diff":
            execute(block, folder, code, f"{page.name}, line {block.line}", 60.0)


def follow(page: Path, folder: Path, code: Path = ROOT, limit: float = 900.0) -> str:
    """Follow the page in `folder`. Returns all output; AssertionError names the place and what was printed."""
    write(page, folder, code)
    return run(page, folder, code, limit)


def run(page: Path, folder: Path, code: Path = ROOT, limit: float = 900.0) -> str:
    """Run the blocks of a page whose files are written."""
    output = everything = ""
    for block in blocks(page):
        place = f"{page.name}, line {block.line}"
        if not block.run or block.title:
            continue
        if block.language in ("bash", "python"):
            output = execute(block, folder, code, place, limit)
            everything += output
        elif block.language == "text":
            shown_in(output, block.text, place)
    return everything


def execute(block: Block, folder: Path, code: Path, place: str, limit: float) -> str:
    """Run one block; its output."""
    text = block.text.replace("8123", str(free_port()))
    command = {
        "bash": ["bash", "-e", "-o", "pipefail", "-c", text],
        "python": [sys.executable, "-c", text],
        "diff": ["git", "apply"],
    }[block.language]
    stdin = block.text if block.language == "diff" else None
    done = subprocess.run(
        command, cwd=folder, env=environment(code), input=stdin, text=True, timeout=limit,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0, f"{place}: exit code {done.returncode}\n{done.stdout}"
    return done.stdout


def free_port() -> int:
    """A port of loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def shown_in(output: str, text: str, place: str) -> None:
    """The lines that a page shows stand in the output; runs of blanks are one blank."""
    rest = re.sub(r"[ \t]+", " ", output)
    for line in text.splitlines():
        wanted = re.sub(r"[ \t]+", " ", line).strip()
        if wanted in ("", "..."):
            continue
        match = re.search(".*?".join(re.escape(part) for part in wanted.split("...")), rest)
        assert match, f"{place}: the page shows\n  {line}\nwhich is not in the output:\n{output}"
        rest = rest[match.end() :]
