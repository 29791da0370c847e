"""The emulator behind the server: its port shows the one in use; settings, addresses and credentials."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from cloudenv import CloudEnvAction
from cloudenv.server.app import main, serve_emulator
from cloudenv.server.host import EpisodeHost
from cloudenv.server.managers.task import load_task
from cloudenv.server.providers.aws.backend import HttpBackend
from cloudenv.server.settings import Settings


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_the_emulator_s_port_shows_the_emulator_in_use() -> None:
    pytest.importorskip("moto.server")
    host, port = EpisodeHost(Settings()), free_port()
    server = serve_emulator("127.0.0.1", port)
    try:
        episode = host.open("http", "seen", load_task("easy-task-1"), None)
        account = {"x-moto-account-id": episode._account.number}
        assert "bucket1" in httpx.get(f"http://127.0.0.1:{port}/", headers=account, timeout=30).text
        assert "bucket1" not in httpx.get(f"http://127.0.0.1:{port}/", timeout=30).text
    finally:
        server.stop()
        host.close()


@pytest.mark.parametrize(
    ("variables", "flags", "word"),
    [
        ({"CLOUDENV_ENDPOINT_URL": "https://s3.amazonaws.com"}, [], "CLOUDENV_ENDPOINT_URL"),
        ({"CLOUDENV_ENDPOINT_URL": "http://192.0.2.1:4566"}, [], "loopback"),
        ({"CLOUDENV_MAX_EPISODES": "many"}, [], "CLOUDENV_MAX_EPISODES"),
        ({"CLOUDENV_IDLE_SECONDS": "-1"}, [], "CLOUDENV_IDLE_SECONDS"),
        ({}, ["--port", "99999"], "99999"),
        ({}, ["--host", "192.0.2.1"], "192.0.2.1"),
    ],
)
def test_wrong_settings_are_one_line_and_exit_code_1(
    variables: dict[str, str], flags: list[str], word: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    from cloudenv.server.providers.aws import backend

    monkeypatch.setattr(backend, "_shared", None)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as caught:
        main(flags)
    err = capsys.readouterr().err
    assert caught.value.code == 1 and word in err and len(err.splitlines()) == 1


def test_a_port_that_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for flags in (["--port", port], ["--port", str(free_port()), "--emulator-port", port]):
            with pytest.raises(SystemExit) as caught:
                main(flags)
            err = capsys.readouterr().err
            assert caught.value.code == 1 and port in err and len(err.splitlines()) == 1


def test_the_command_binds_loopback_and_never_says_a_credential(tmp_path: Path) -> None:
    port = free_port()
    secret = "wJalrXUtnFEMI-not-a-key"
    process = subprocess.Popen(
        [sys.executable, "-m", "cloudenv.server.app", "--port", str(port)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=Path(__file__).resolve().parents[2],
        env={"AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE", "AWS_SECRET_ACCESS_KEY": secret, "HOME": str(tmp_path)},
    )  # fmt: skip
    try:
        url = f"http://127.0.0.1:{port}"
        for _ in range(600):
            try:
                httpx.get(f"{url}/health")
                break
            except httpx.ConnectError:
                time.sleep(0.05)
        body = {"action": {"service": "internal", "operation": "InitializeEnvironment", "task_id": "easy-task-1"}}
        answer = httpx.post(f"{url}/step", json=body, timeout=60)
        assert answer.status_code == 200 and secret not in answer.text
        listening = [line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        assert [address for address in listening if address.endswith(f":{port:04X}")] != []
        assert f"00000000:{port:04X}" not in listening
    finally:
        process.terminate()
        said, _ = process.communicate(timeout=20)
    assert secret not in said and "AKIA" not in said
    assert said.startswith(f"CloudEnv on http://127.0.0.1:{port}")


def test_an_emulator_that_goes_away_and_comes_back() -> None:
    """The episode survives. (moto's server keeps its state in this process, so a restart does not lose it.)"""
    pytest.importorskip("moto.server")
    port = free_port()
    server = serve_emulator("127.0.0.1", port)
    host = EpisodeHost(Settings(), HttpBackend(f"http://127.0.0.1:{port}"))
    action = CloudEnvAction(service="s3", operation="GetBucketVersioning", payload={"Bucket": "bucket1"})
    try:
        host.open("http", "tough", load_task("easy-task-1"), None)
        assert host.act("http", "tough", action).operation_result["status"] == "SUCCESS"
        server.stop()
        lost = host.act("http", "tough", action)
        assert lost.operation_result["error"]["code"] == "EmulatorUnavailable"
        assert not lost.done
        server = serve_emulator("127.0.0.1", port)
        assert host.act("http", "tough", action).operation_result["status"] == "SUCCESS"
    finally:
        host.close()
        server.stop()
