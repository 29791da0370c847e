"""Emulators for the tests: moto in process, and moto's server and ministack as processes on loopback.

ministack needs its own environment (it pins botocore): CLOUDENV_MINISTACK_PYTHON names that environment's Python.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cloudenv.server.providers.aws.backend import Backend, HttpBackend
from cloudenv.server.providers.aws.moto_backend import MotoBackend

PYTHON = os.environ.get("CLOUDENV_MINISTACK_PYTHON", "")


def family(kind: str) -> str:
    """The emulator's name in UNSUPPORTED: moto in process and as a server are one."""
    return kind.removesuffix("-server")


@contextmanager
def running(kind: str) -> Iterator[Backend]:
    """A backend of `moto`, `moto-server` or `ministack`; the last is skipped where it is not installed."""
    if kind == "moto":
        yield MotoBackend()
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    if kind == "ministack":
        if not PYTHON:
            pytest.skip("CLOUDENV_MINISTACK_PYTHON does not name the Python of an environment with ministack")
        command = [str(Path(PYTHON).with_name("ministack"))]
        if not Path(command[0]).exists():
            pytest.skip(f"{command[0]} is not there: install ministack in that environment")
    else:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    env = {
        **os.environ,
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "MOTO_EC2_LOAD_DEFAULT_AMIS": "false",
    }
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert process.poll() is None, f"{kind} ended at once"
            time.sleep(0.1)
        yield HttpBackend(f"http://127.0.0.1:{port}")
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:  # moto's server does not always end when it is asked to
            process.kill()
            process.wait()
