"""The image, really built and really run. Outside the default run: it needs a container engine.

pytest envs/cloudenv/tests/test_server_docker.py -m docker
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

PACKAGE = Path(__file__).resolve().parents[1]
IMAGE = "cloudenv-env:latest"
pytestmark = [pytest.mark.docker, pytest.mark.slow]


def docker(*words: str) -> str:
    done = subprocess.run(["docker", *words], capture_output=True, text=True, cwd=PACKAGE)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout.strip()


@pytest.fixture(scope="module", autouse=True)
def image() -> None:
    if shutil.which("docker") is None or subprocess.run(["docker", "info"], capture_output=True).returncode:
        pytest.skip("no container engine answers")
    docker("build", "-t", "cloudenv", ".")
    docker("tag", "cloudenv", IMAGE)


@pytest.fixture
def container() -> Iterator[str]:
    """The seed's `docker run`, in the background; its name."""
    docker("run", "--rm", "--detach", "--name", "cloudenv", "-p", "4566:4566", "-p", "8000:8000", "cloudenv")
    try:
        yield "cloudenv"
    finally:
        docker("stop", "--time", "2", "cloudenv")


def answers(url: str) -> httpx.Response:
    """The first answer of a server that is starting."""
    return httpx.Client(transport=httpx.HTTPTransport(retries=8)).get(url, timeout=60)


def test_the_quick_start_as_written() -> None:
    """`MyEnv.from_docker_image` starts the container, and `close` stops it."""
    code = (PACKAGE / "README.md").read_text().split("```python\n")[1].split("```")[0]
    assert f'MyEnv.from_docker_image("{IMAGE}")' in code and "env.close()" in code
    scope: dict[str, Any] = {"__name__": "quick_start"}
    exec(code, scope)
    seen = scope["result"].observation
    assert seen.operation_result["status"] == "SUCCESS"
    assert (seen.task_id, seen.step_count) == ("easy-task-1", 1)
    assert "s3:test-bucket" in seen.current_pipeline_state
    assert docker("ps", "--quiet") == ""


def test_docker_run_serves_both_ports_as_an_ordinary_user(container: str) -> None:
    assert answers("http://127.0.0.1:8000/health").json()["status"] == "healthy"
    assert "ListAllMyBucketsResult" in answers("http://127.0.0.1:4566/").text
    assert docker("exec", container, "id", "-u") != "0"
