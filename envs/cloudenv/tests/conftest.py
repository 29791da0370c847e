"""A real server on loopback, in a thread of the test process."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import uvicorn
from fastapi import FastAPI

from cloudenv.server.app import create_app
from cloudenv.server.settings import Settings


@contextmanager
def serve(app: FastAPI) -> Iterator[str]:
    """The base URL under which the app answers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = uvicorn.Server(
        uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning", ws_max_size=2**22)
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    for _ in range(1000):
        if server.started:
            break
        time.sleep(0.01)
    assert server.started, "the server did not start"
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(timeout=10)


@pytest.fixture(scope="session")
def app() -> FastAPI:
    return create_app(Settings(max_body_bytes=65_536))


@pytest.fixture(scope="session")
def url(app: FastAPI) -> Iterator[str]:
    with serve(app) as base:
        yield base
