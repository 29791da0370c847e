"""Serving the page: its own small FastAPI application around Gradio, on one address, until Ctrl-C."""

from __future__ import annotations

import errno
import socket
import sys

import fastapi
import gradio as gr
import uvicorn

from cloudrl.errors import UserError
from evaluation.dashboard.app import make_app
from evaluation.dashboard.folders import Folders
from evaluation.dashboard.look import CSS, theme


def make_server(folders: Folders) -> fastapi.FastAPI:
    """The application that a server runs."""
    outer = fastapi.FastAPI(openapi_url=None)
    return gr.mount_gradio_app(
        outer, make_app(folders), path="/", theme=theme(), css=CSS, footer_links=[], run_history=False,
        ssr_mode=False, pwa=False, mcp_server=False, enable_monitoring=False,
    )  # fmt: skip


def serve(folders: Folders, host: str, port: int) -> None:
    """Serve until Ctrl-C. Raises UserError when the address cannot be had."""
    listener = _listen(host, port)
    application = make_server(folders)
    print(f"dashboard   http://{host}:{listener.getsockname()[1]}   (Ctrl-C ends it)", file=sys.stderr, flush=True)
    uvicorn.Server(uvicorn.Config(application, log_level="warning")).run(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.socket(family)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        return listener
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise UserError(f"port {port} of {host} is in use: say --port with another number") from None
        raise UserError(f"cannot listen on {host}, port {port}: {error.strerror or error}") from None
    except OverflowError:
        raise UserError(f"--port {port}: ports are 0 to 65535") from None
