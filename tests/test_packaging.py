"""The wheel, built from the source distribution, holds every package, every config, and no test."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("cloudrl", "configs", "envs", "trainers", "evaluation")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Names in the wheel. Built in a copy: setuptools leaves build/ and an egg-info behind, and reuses them."""
    pytest.importorskip("build")
    pytest.importorskip("setuptools")
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE", "tests", *PACKAGES):
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(
                path, source / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", ".venv", "build")
            )
        elif path.exists():
            shutil.copy(path, source / name)
    # --no-isolation: no download, setuptools of this environment.
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(source / "dist"), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=source)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = (source / "dist").glob("*.whl")
    return zipfile.ZipFile(built).namelist()


def test_every_package_is_in_the_wheel(wheel: list[str]) -> None:
    wanted = {
        file.relative_to(ROOT).as_posix().removeprefix("envs/" if "cloudenv" in file.parts else "")
        for package in PACKAGES
        for file in (ROOT / package).rglob("*.py")
        if not {"tests", "scripts", ".venv"} & set(file.parts)
    }
    assert "cloudenv/models.py" in wanted
    assert wanted - set(wheel) == set()


def test_every_folder_with_code_is_a_package() -> None:
    """packages.find skips a folder without __init__.py, silently."""
    folders = {file.parent for package in PACKAGES for file in (ROOT / package).rglob("*.py")}
    # not packages: see the pytest.ini in tests; scripts are tools that write the bank of tasks
    folders -= {ROOT / "envs" / "cloudenv" / name for name in ("tests", "scripts")}
    assert [str(f.relative_to(ROOT)) for f in folders if not (f / "__init__.py").exists()] == []


def test_configs_and_type_marker_are_in_the_wheel(wheel: list[str]) -> None:
    wanted = {
        file.relative_to(ROOT).as_posix()
        for part in ("configs", "cloudrl")
        for file in (ROOT / part).rglob("*.yaml")
    }
    wanted |= {
        file.relative_to(ROOT / "envs").as_posix()
        for pattern in ("tasks/*.json", "docs/api/Pipeline Tests/*.md", "server/web/*")
        for file in (ROOT / "envs" / "cloudenv").glob(pattern)
    }
    assert (wanted | {"cloudrl/py.typed", "cloudenv/py.typed", "cloudenv/openenv.yaml"}) - set(wheel) == set()


def test_nothing_else_is_in_the_wheel(wheel: list[str]) -> None:
    tops = {name.split("/")[0] for name in wheel if ".dist-info/" not in name}
    assert tops <= {*PACKAGES, "cloudenv"}
    assert [name for name in wheel if "tests/" in name] == []
