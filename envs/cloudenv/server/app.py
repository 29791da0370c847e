"""The CloudEnv server: OpenEnv's routes and WebSocket, the pipeline API, and a page at /web.

    python -m cloudenv.server.app --port 8000

It binds 127.0.0.1 unless told otherwise; there is no authentication, so tell it otherwise inside a container only.
Limits are set by environment variables (settings.py), the emulator by CLOUDENV_ENDPOINT_URL.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from fastapi.responses import FileResponse, JSONResponse, RedirectResponse

from .. import __version__
from .._openenv import ConcurrencyConfig, HTTPEnvServer
from ..models import CloudEnvAction, CloudEnvObservation, CloudEnvState
from . import errors
from .api import episodes
from .api.pipeline import routes as pipelines
from .cloudenv_environment import CloudEnvEnvironment
from .guard import Guard
from .host import EpisodeHost
from .settings import Settings

WEB = Path(__file__).parent / "web"
PAGE_POLICY = "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'"


class SessionServer(HTTPEnvServer):
    """OpenEnv's server without its harness: nothing here uses it, and its import is a third of the start."""

    def _factory_produces_harness_env(self) -> bool:
        return False


def create_app(settings: Settings | None = None, host: EpisodeHost | None = None) -> FastAPI:
    """The application; `host` holds its episodes (default: a new one, on the emulator of the environment)."""
    settings = settings or Settings.from_environ()
    host = host or EpisodeHost(settings)
    app = FastAPI(
        title="CloudEnv",
        version=__version__,
        description="Repair tasks on an emulated AWS. The page for people is at [/web](/web).",
        lifespan=partial(_life, host),
    )
    app.state.host = host
    app.add_middleware(Guard, max_body=settings.max_body_bytes)
    errors.install(app)
    # Ours come first: OpenEnv's own HTTP routes make a new environment for every request, and its
    # POST /{env_name}/tasks would catch more than it should.
    app.include_router(episodes.router(host))
    app.include_router(pipelines.router(host))
    _add_pages(app, host)
    openenv = SessionServer(
        partial(CloudEnvEnvironment, host),
        CloudEnvAction,
        CloudEnvObservation,
        env_name="cloudenv",
        state_cls=CloudEnvState,
        # No session timeout: OpenEnv would close sessions that are still in use. A session holds nothing but its
        # episode, which is closed here when it is idle; a dead connection is found by uvicorn's pings.
        concurrency_config=ConcurrencyConfig(max_concurrent_envs=settings.max_sessions, session_timeout=None),
    )
    openenv.register_routes(app, mode="production")  # in "simulation" it would add its own /reset, /step, /state
    return app


@contextlib.asynccontextmanager
async def _life(host: EpisodeHost, app: FastAPI) -> AsyncIterator[None]:
    async def reap() -> None:
        while True:
            await asyncio.sleep(min(host.settings.idle_seconds / 4, 30.0))
            await asyncio.to_thread(host.episodes.reap)

    task = asyncio.create_task(reap())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.to_thread(host.close)


def _add_pages(app: FastAPI, host: EpisodeHost) -> None:
    @app.get("/health", tags=["Health"])
    def health() -> dict[str, Any]:
        """Healthy when this is answered; also how many episodes there are, and on which emulator."""
        return {
            "status": "healthy",
            "version": __version__,
            "emulator": host.backend.name,
            "episodes": len(host.episodes),
            "max_episodes": host.settings.max_episodes,
        }

    @app.post("/mcp", tags=["Health"])
    def mcp() -> dict[str, Any]:
        """JSON-RPC's "method not found": CloudEnv has no MCP tools, and OpenEnv's own route would let anybody open
        sessions here that nobody closes."""
        error = {"code": -32601, "message": "CloudEnv has no MCP tools; use the WebSocket /ws or POST /step"}
        return {"jsonrpc": "2.0", "id": None, "error": error}

    @app.get("/", include_in_schema=False)
    def root() -> RedirectResponse:
        return RedirectResponse("/web")

    @app.get("/web", include_in_schema=False)
    @app.get("/web/", include_in_schema=False)
    def page() -> FileResponse:
        return FileResponse(WEB / "index.html", headers={"content-security-policy": PAGE_POLICY})

    @app.get("/web/{name}", include_in_schema=False)
    def asset(name: str) -> Any:
        if name not in ("style.css", "page.js"):
            return JSONResponse(errors.error_body("NotFound", f"no page {name!r}"), 404)
        return FileResponse(WEB / name)


def check_free(address: str, port: int) -> None:
    """Raises OSError when the port is taken: moto's server would wait for ever, uvicorn says it late."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((address, port))
    except (OSError, OverflowError) as error:
        raise OSError(f"cannot listen on {address}:{port}: {getattr(error, 'strerror', None) or error}") from None


def serve_emulator(address: str, port: int) -> Any:
    """Let others look into this process's emulator, as AWS's API over HTTP (moto's server, in a thread).

    Episodes live in accounts of their own: the header `x-moto-account-id` says which one a caller looks at.
    """
    try:
        from moto.server import ThreadedMotoServer
    except ImportError as error:
        raise SystemExit(
            f"cloudenv: --emulator-port needs moto's server ({error}); pip install 'moto[server]'"
        ) from None
    server = ThreadedMotoServer(ip_address=address, port=port, verbose=False)
    server.start()
    return server


def main(argv: Sequence[str] | None = None) -> None:
    """The command line; exit code 1 and one line on stderr for wrong input."""
    parser = argparse.ArgumentParser(prog="python -m cloudenv.server.app", description=__doc__.split("\n\n")[0])
    parser.add_argument("--host", default="127.0.0.1", help="address to bind (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="(default: %(default)s)")
    parser.add_argument("--emulator-port", type=int, help="also serve the emulator itself, on this port")
    args = parser.parse_args(argv)
    try:
        settings = Settings.from_environ()
        for port in filter(None, (args.port, args.emulator_port)):
            check_free(args.host, port)
        app = create_app(settings)
        if args.emulator_port is not None:
            serve_emulator(args.host, args.emulator_port)
    except (ValueError, OSError) as error:
        print(f"cloudenv: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    print(
        f"CloudEnv on http://{args.host}:{args.port}, page /web, emulator {app.state.host.backend.name}",
        flush=True,
    )
    # the guard answers what is too large; twice as much again and the connection is closed
    uvicorn.run(app, host=args.host, port=args.port, log_level="warning", ws_max_size=2 * settings.max_body_bytes)


def __getattr__(name: str) -> Any:
    """`uvicorn cloudenv.server.app:app` and openenv.yaml find `app`; importing this module builds nothing."""
    if name == "app":
        globals()["app"] = create_app()
        return globals()["app"]
    raise AttributeError(name)


if __name__ == "__main__":
    main()
