"""The image, really built and really run. Outside the default run: it needs a container engine.

pytest envs/cloudenv/tests/test_server_docker.py -m docker
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from cloudenv import AWSService, CloudEnvAction, MyEnv

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


def test_from_docker_image_gives_a_ready_client() -> None:
    env = MyEnv.from_docker_image(IMAGE)
    try:
        env.reset()
        env.step(
            CloudEnvAction(
                episode_id="ep-1",
                task_id="gen:easy:7",
                service=AWSService.INTERNAL,
                operation="InitializeEnvironment",
                payload={},
            )
        )
        action = CloudEnvAction(service=AWSService.S3, operation="CreateBucket", payload={"Bucket": "test-bucket"})
        result = env.step(action)
        assert result.observation.operation_result["status"] == "SUCCESS"
        assert "s3:test-bucket" in result.observation.current_pipeline_state
    finally:
        env.close()
    assert docker("ps", "--quiet") == ""  # close() stops the container


def test_docker_run_serves_both_ports_as_an_ordinary_user(container: str) -> None:
    assert answers("http://127.0.0.1:8000/health").json()["status"] == "healthy"
    assert "ListAllMyBucketsResult" in answers("http://127.0.0.1:4566/").text
    assert docker("exec", container, "id", "-u") != "0"
