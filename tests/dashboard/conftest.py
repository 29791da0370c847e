"""A dashboard over a folder of runs, and a browser: for tests that are marked `browser`."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cloudrl.actions import Op
from cloudrl.memory.immune import ImmuneMemory

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Dashboard:
    """A server that runs."""

    url: str
    runs: Path
    process: subprocess.Popen[str]


@contextlib.contextmanager
def dashboard_over(runs: Path) -> Iterator[Dashboard]:
    """`python -m evaluation.dashboard` on a free port of this machine; Ctrl-C at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "evaluation.dashboard", "--port", "0", "--runs", str(runs)],
        stderr=subprocess.PIPE, text=True, cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"http://\S+", line)
        assert found, line + process.stderr.read()
        yield Dashboard(found[0], runs, process)
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            raise


@pytest.fixture(scope="module")
def dashboard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    pytest.importorskip("gradio", reason="Gradio is not installed: pip install 'cloud-rl[dashboard]'")
    with dashboard_over(tmp_path_factory.mktemp("runs")) as running:
        yield running


def plant_run(runs: Path, name: str, rewards: list[float]) -> Path:
    """A run of trainers.ppo with curves, <runs>/ppo/<name>; one of that name is replaced."""
    path = runs / "ppo" / name
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    (path / "manifest.json").write_text(
        '{"format": 1, "algo": "ppo", "scenario": "CloudOps-Easy", "seed": 7, "overrides": [], '
        f'"created": "2030-01-01T00:00:0{ord(name) % 10}"}}'
    )
    (path / "config.yaml").write_text(f"seed: 7\nnote: config of {name}\n")
    (path / "command.txt").write_text(f"python -m trainers.ppo seed=7 # {name}\n")
    rows = "".join(f"{100 * k},{r},{r / 2}\n" for k, r in enumerate(rewards))
    (path / "progress.csv").write_text("step,eval/mean_reward,ops/win_rate\n" + rows)
    return path


def plant_memory(run: Path) -> tuple[Path, ImmuneMemory]:
    """A memory in a checkpoint of a run: two patterns, the first of which is bad beyond doubt."""
    made = ImmuneMemory()
    patterns = [Op.RESTART, Op.ANALYZE]  # in the first of all situations; only the disruptive one can be vetoed
    made.tables.bad[patterns] = 50.0, 3.0
    made.tables.severity[patterns] = 25.0, 3.0
    made.tables.last_seen[patterns] = 7, 5
    made.tables.episodes[0] = 9
    made.refresh()
    file = run / "checkpoints" / "step_000000001024" / "memory.json"
    file.parent.mkdir(parents=True)
    made.save(file)
    return file, made


def until(holds: Callable[[], Any], seconds: float = 90.0, what: str = "") -> Any:
    """Wait for something, and return it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = holds()
        if value:
            return value
        time.sleep(0.25)
    raise AssertionError(f"did not happen within {seconds:.0f} s: {what or holds}")


def open_tab(page: Any, name: str) -> None:
    page.get_by_role("tab", name=name, exact=True).click()


def visit(browser: Any, dashboard: Dashboard, **settings: Any) -> Any:
    """The page in a browser of its own; what it asks of other machines, and its errors, are kept on it."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **settings})
    page = context.new_page()
    page.outside, page.faults = [], []
    host = dashboard.url.removeprefix("http://")
    page.on(
        "request",
        lambda r: r.url.startswith(("http", "ws")) and host not in r.url and page.outside.append(r.url),
    )
    page.on("pageerror", lambda error: page.faults.append(str(error)))
    page.goto(dashboard.url)
    page.get_by_role("button", name="Start training").wait_for(timeout=60_000)
    return page
