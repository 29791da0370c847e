"""`openenv push` from the package's folder, against a stand-in of the hub on loopback."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml
from conftest import serve
from fastapi import FastAPI, Request

PACKAGE = Path(__file__).resolve().parents[1]


def hub() -> tuple[FastAPI, dict[str, Any]]:
    """What the hub's API does for a push; (the app, what it was sent)."""
    app = FastAPI()
    got: dict[str, Any] = {"files": {}, "created": None}

    @app.get("/api/whoami-v2")
    def whoami() -> dict[str, Any]:
        return {"type": "user", "name": "tester", "auth": {"type": "access_token"}}

    @app.post("/api/repos/create")
    async def create(request: Request) -> dict[str, Any]:
        got["created"] = await request.json()
        return {
            "url": f"{request.base_url}spaces/tester/cloudenv",
            "name": "tester/cloudenv",
            "id": "tester/cloudenv",
        }

    @app.post("/api/validate-yaml")
    async def validate(request: Request) -> dict[str, Any]:
        got["yaml"] = await request.json()
        return {"errors": [], "warnings": []}

    @app.post("/api/spaces/{owner}/{name}/preupload/{revision}")
    async def preupload(request: Request) -> dict[str, Any]:
        asked = (await request.json())["files"]
        return {"files": [{"path": f["path"], "uploadMode": "regular", "shouldIgnore": False} for f in asked]}

    @app.post("/api/spaces/{owner}/{name}/commit/{revision}")
    async def commit(request: Request) -> dict[str, Any]:
        for line in (await request.body()).splitlines():
            item = json.loads(line)
            if item["key"] == "file":
                got["files"][item["value"]["path"]] = base64.b64decode(item["value"]["content"])
        url = f"{request.base_url}spaces/tester/cloudenv/commit/1"
        return {"commitUrl": url, "commitOid": "1", "success": True}

    @app.get("/api/spaces/{owner}/{name}")
    @app.get("/api/spaces/{owner}/{name}/revision/{revision}")
    def info(owner: str, name: str) -> dict[str, Any]:
        return {"id": f"{owner}/{name}", "sha": "0", "siblings": [], "private": False, "sdk": "docker"}

    @app.get("/api/spaces/{owner}/{name}/tree/{revision}")
    def tree() -> list[Any]:
        return []

    @app.api_route("/api/spaces/{owner}/{name}/{rest:path}", methods=["GET", "POST", "DELETE"])
    def other(rest: str) -> dict[str, Any]:
        return {}

    return app, got


def test_push(tmp_path: Path) -> None:
    app, got = hub()
    ignored = shutil.ignore_patterns(".venv", "__pycache__", "*.egg-info", "build", "uv.lock")
    folder = shutil.copytree(PACKAGE, tmp_path / "cloudenv", ignore=ignored)
    with serve(app) as url:
        settings = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("HF_", "HUGGING"))},
            "HF_ENDPOINT": url,
            "HF_TOKEN": "hf_not_a_token",
            "HF_HOME": str(tmp_path / "home"),
            "HF_HUB_DISABLE_XET": "1",
        }
        done = subprocess.run(
            [sys.executable, "-m", "openenv.cli", "push"], capture_output=True, text=True, cwd=folder, env=settings
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Deployment complete" in done.stdout
    assert (got["created"]["type"], got["created"]["sdk"]) == ("space", "docker")
    files = got["files"]
    assert {
        "Dockerfile",
        "README.md",
        "openenv.yaml",
        "pyproject.toml",
        "server/app.py",
        "tasks/easy-task.json",
    } <= set(files)
    front = yaml.safe_load(files["README.md"].decode().split("---\n")[1])
    assert (front["sdk"], front["app_port"], front["base_path"]) == ("docker", 8000, "/web")
    assert b"cloudenv.server.app" in files["Dockerfile"]
