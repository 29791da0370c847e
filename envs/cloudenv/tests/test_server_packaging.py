"""The package installed alone: all modules and files are in its list, and it starts without torch."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import cloudenv
from cloudenv.server import app

PACKAGE = Path(__file__).resolve().parents[1]
INNER = tomllib.loads((PACKAGE / "pyproject.toml").read_text())
NOT_INSTALLED = {"tests", "scripts", "docs", "build", "dist", ".venv", "__pycache__"}


def test_every_folder_with_code_is_listed() -> None:
    """setuptools takes the list as it is: a new folder would be missing from the wheel, in silence."""
    folders = {
        file.parent.relative_to(PACKAGE)
        for file in PACKAGE.rglob("*.py")
        if not NOT_INSTALLED & set(file.relative_to(PACKAGE).parts)
    }
    names = {".".join(["cloudenv", *folder.parts]) for folder in folders}
    assert names == set(INNER["tool"]["setuptools"]["packages"])


def test_every_file_that_is_read_is_listed() -> None:
    data = INNER["tool"]["setuptools"]["package-data"]
    listed = {
        file
        for package, patterns in data.items()
        for pattern in patterns
        for file in PACKAGE.joinpath(*package.split(".")[1:]).glob(pattern)
    }
    wanted = {*PACKAGE.glob("tasks/*.json"), *PACKAGE.glob("docs/api/Pipeline Tests/*.md"), *app.WEB.iterdir()}
    assert len(wanted) > 60
    assert wanted | {PACKAGE / "openenv.yaml", PACKAGE / "py.typed"} == listed


def test_it_says_one_version() -> None:
    manifest = yaml.safe_load((PACKAGE / "openenv.yaml").read_text())
    assert manifest["version"] == INNER["project"]["version"] == cloudenv.__version__


def test_the_root_s_extra_has_every_dependency() -> None:
    root = PACKAGE.parents[1] / "pyproject.toml"
    if not root.exists():
        pytest.skip("not in a checkout of Cloud-RL")
    extra = tomllib.loads(root.read_text())["project"]["optional-dependencies"]["cloudenv"]
    names = {requirement.split("[")[0].split(">")[0] for requirement in extra}
    assert {requirement.split("[")[0].split(">")[0] for requirement in INNER["project"]["dependencies"]} <= names


def test_the_server_needs_neither_torch_nor_gradio_nor_the_simulator() -> None:
    code = (
        "import sys, cloudenv.server.app as app; app.create_app();"
        "print([m for m in ('torch', 'gradio', 'cloudrl', 'envs', 'numba', 'trl', 'openai') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=PACKAGE.parent)
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr


def test_it_has_one_name() -> None:
    code = "import envs.cloudenv"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=PACKAGE.parents[1])
    assert done.returncode != 0 and "import it as `cloudenv`" in done.stderr


def test_openenv_accepts_the_package() -> None:
    command = [sys.executable, "-m", "openenv.cli", "validate", str(PACKAGE), "--level", "static", "--skip-build"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and "Verdict: PASS" in done.stdout, done.stdout + done.stderr


def test_openenv_accepts_the_running_server(url: str) -> None:
    command = [sys.executable, "-m", "openenv.cli", "validate", "--url", url]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and "FAIL" not in done.stdout and "Verdict: PASS" in done.stdout, done.stdout
