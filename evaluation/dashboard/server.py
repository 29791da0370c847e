"""Serving the page: a small FastAPI application around Gradio, on one address, until Ctrl-C.

The page asks no other machine for anything, and is told so (Content-Security-Policy). Reports of evaluations are
served from inside the runs folder only, and as documents that may run no script.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import sys
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import fastapi
import gradio as gr
import uvicorn
from fastapi.responses import HTMLResponse, PlainTextResponse
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cloudrl.errors import UserError
from evaluation.dashboard.address import is_loopback, url
from evaluation.dashboard.app import make_app
from evaluation.dashboard.folders import Folders
from evaluation.dashboard.jobs import Jobs
from evaluation.dashboard.look import HEAD, theme
from evaluation.dashboard.records import run_folder

PAGE_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:; "
    "frame-ancestors 'self'; form-action 'self'; base-uri 'self'"
)
REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'; sandbox"


def make_server(folders: Folders, jobs: Jobs | None = None, hosts: list[str] | None = None) -> fastapi.FastAPI:
    """The application that a server runs. Its jobs end with it. `hosts`: the names it answers to; None = any."""
    jobs = jobs or Jobs()

    @contextlib.asynccontextmanager
    async def life(app: fastapi.FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(jobs.close, say=lambda text: print(f"\n{text}", file=sys.stderr, flush=True))

    outer = fastapi.FastAPI(openapi_url=None, lifespan=life)
    if hosts is not None:  # a page of somebody else may not reach this server under a name of its own
        outer.add_middleware(TrustedHostMiddleware, allowed_hosts=hosts)
    outer.add_middleware(_Policy)

    @outer.get("/report/{name:path}", include_in_schema=False)
    def report(name: str) -> fastapi.Response:
        """report.html of an evaluation inside the runs folder."""
        headers = {"Content-Security-Policy": REPORT_POLICY, "Cache-Control": "no-store"}
        try:
            file = folders.inside(run_folder(folders, name) / "report.html")
            return HTMLResponse(file.read_text(), headers=headers)
        except (UserError, OSError, UnicodeDecodeError):
            text = "No report here: outside the runs folder, deleted, or made with report=false."
            return PlainTextResponse(text, 404, headers=headers)

    return gr.mount_gradio_app(
        outer, make_app(folders, jobs), path="/", theme=theme(), head=HEAD, footer_links=[], run_history=False,
        ssr_mode=False, pwa=False, mcp_server=False, enable_monitoring=False, show_error=True,
    )  # fmt: skip


class _Policy:
    """Takes requests that change something from its own pages only, and says with every answer that has no policy
    of its own what the page may load: nothing from elsewhere."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and _from_elsewhere(scope):
            await PlainTextResponse("refused: asked for by a page of another server", 403)(scope, receive, send)
            return

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.setdefault("Content-Security-Policy", PAGE_POLICY)
                headers.setdefault("X-Content-Type-Options", "nosniff")
                headers.setdefault("Referrer-Policy", "no-referrer")
            await send(message)

        await self.app(scope, receive, answer if scope["type"] == "http" else send)


def _from_elsewhere(scope: Scope) -> bool:
    """Whether a page of another server asks for more than to read (browsers say whose page it is)."""
    headers = Headers(scope=scope)
    origin = headers.get("origin")
    own = origin is None or urlsplit(origin).netloc == headers.get("host")
    return scope["method"] not in ("GET", "HEAD", "OPTIONS") and not own


def serve(folders: Folders, listener: socket.socket, host: str) -> None:
    """Serve until Ctrl-C."""
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    alone = is_loopback(listener)
    jobs = Jobs()
    application = make_server(folders, jobs, ["127.0.0.1", "localhost", "[::1]", "::1", host] if alone else None)
    if not alone:
        print(f"note: whoever reaches {host} can start programs through this page", file=sys.stderr)
    print(f"dashboard   {url(listener, host)}   (Ctrl-C ends it)", file=sys.stderr, flush=True)
    config = uvicorn.Config(application, log_level="warning", timeout_graceful_shutdown=1)
    try:
        _Server(config).run(sockets=[listener])
    except KeyboardInterrupt:
        pass
    finally:
        jobs.close()  # once more: a second Ctrl-C skips the end of the application


class _Server(uvicorn.Server):
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # every open page has a stream, which is cut
        await super().shutdown(sockets)
