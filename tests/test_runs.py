"""Run folders: no two share one, and a kill at any moment leaves a whole checkpoint or none."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from cloudrl import runs
from cloudrl.config import PPOConfig, StageConfig
from cloudrl.errors import UserError
from cloudrl.runs import (
    Run,
    check_trusted,
    checkpoint_manifest,
    config_hash,
    create_run,
    is_whole,
    latest_checkpoint,
    locked,
    new_checkpoint,
    prune,
    resolve_run,
    restore_rng,
    resume_command,
    resume_point,
    rng_state,
    save_json,
    write_atomic,
    write_card,
)

ROOT = Path(__file__).resolve().parents[1]
FULL = os.environ.get("CLOUDRL_FULL") == "1"


def config(tmp_path: Path, **changes: object) -> PPOConfig:
    return PPOConfig(runs_dir=str(tmp_path / "runs"), **changes)


def save(parent: Path, step: int, content: str = "weights", keep: int = 2, **meta: object) -> None:
    with new_checkpoint(parent, step, keep, **meta) as folder:
        (folder / "model.zip").write_text(content)
        (folder / "more").mkdir()
        (folder / "more" / "state.json").write_text(json.dumps({"step": step}))


# ---- the folder -------------------------------------------------------------------------------------------------


def test_a_run_holds_what_is_needed_to_repeat_it(tmp_path: Path) -> None:
    run = create_run("ppo", config(tmp_path, seed=4), ["seed=4"], observation_version=3)
    names = {p.name for p in run.path.iterdir()}
    assert names == {"config.yaml", "overrides.json", "command.txt", "manifest.json", "README.md",
                     "tb", "checkpoints", "best", "eval"}  # fmt: skip
    manifest = run.manifest()
    assert manifest["algo"] == "ppo" and manifest["seed"] == 4 and manifest["observation_version"] == 3
    assert {"git", "versions", "machine", "scenario_hash", "command", "created"} <= set(manifest)
    assert manifest["versions"]["numpy"] == np.__version__
    assert "seed: 4" in run.config_file.read_text()
    assert run.overrides() == ["seed=4"]
    assert str(run.path) in (run.path / "README.md").read_text()
    write_card(run, "| agent | reward |")
    assert "| agent | reward |" in (run.path / "README.md").read_text()


def test_the_manifest_does_not_name_the_machine_or_its_user(tmp_path: Path) -> None:
    import platform

    machine = json.dumps(create_run("ppo", config(tmp_path)).manifest()["machine"])
    assert not platform.node() or platform.node() not in machine


def test_the_scenario_hash_follows_every_value() -> None:
    one, two = PPOConfig(), PPOConfig()
    assert config_hash(one.scenario) == config_hash(two.scenario)
    two.scenario.load.burst_high += 1e-9
    assert config_hash(one.scenario) != config_hash(two.scenario)


def test_a_run_that_cannot_be_made_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(*_: object, **__: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(runs, "write_card", full_disk)
    with pytest.raises(OSError, match="No space"):
        create_run("ppo", config(tmp_path))
    assert list((tmp_path / "runs" / "ppo").iterdir()) == []


def _create(runs_dir: str) -> str:
    return str(create_run("ppo", PPOConfig(runs_dir=runs_dir)).path)


def test_no_two_runs_share_a_folder(tmp_path: Path) -> None:
    """Many at once, from several processes; the clock alone does not keep them apart (next test)."""
    with ProcessPoolExecutor(4, mp_context=get_context("spawn")) as pool:
        paths = list(pool.map(_create, [str(tmp_path)] * 40))
    assert len(set(paths)) == 40
    assert sorted(p.name for p in (tmp_path / "ppo").iterdir()) == sorted(Path(p).name for p in paths)


def test_two_runs_in_the_same_microsecond(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from datetime import datetime as real

    times = iter([real(2026, 1, 1), real(2026, 1, 1), real(2026, 1, 1), real(2026, 1, 2)])

    class Clock:
        @staticmethod
        def now() -> real:
            return next(times)

    monkeypatch.setattr(runs, "datetime", Clock)
    first, second = create_run("ppo", config(tmp_path)), create_run("ppo", config(tmp_path))
    assert first.path.name == "2026-01-01_00-00-00_000000"
    assert second.path.name == "2026-01-02_00-00-00_000000"


# ---- finding a run ----------------------------------------------------------------------------------------------


def test_a_run_is_found_from_its_folder_and_from_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = create_run("ppo", config(tmp_path))
    save(run.checkpoints, 10)
    checkpoint = latest_checkpoint(run.checkpoints)
    assert checkpoint is not None
    for path in (run.path, checkpoint, checkpoint / "model.zip"):
        assert resolve_run(path, "ppo").path.resolve() == run.path.resolve()
    monkeypatch.chdir(run.path)
    assert resolve_run(".").path.resolve() == run.path.resolve()


def test_where_a_run_goes_on(tmp_path: Path) -> None:
    run = create_run("ppo", config(tmp_path))
    assert resume_point(run.path, "ppo") == (run, None)  # stopped before its first checkpoint: begins again
    save(run.checkpoints, 1)
    save(run.checkpoints, 2)
    save(run.best, 1, keep=1)
    first, second = (run.checkpoints / f"step_{n:012d}" for n in (1, 2))
    assert resume_point(run.path, "ppo")[1] == second
    assert resume_point(first, "ppo")[1] == first.resolve()
    assert resume_point(first / "model.zip", "ppo")[1] == first.resolve()
    (second / "model.zip").write_text("")
    assert resume_point(run.path, "ppo")[1] == first
    with pytest.raises(UserError, match="this checkpoint is damaged"):
        resume_point(second, "ppo")
    with pytest.raises(UserError, match="a run of ppo, not of grpo"):
        resume_point(run.path, "grpo")


def test_a_missing_or_foreign_run_is_one_clear_line(tmp_path: Path) -> None:
    run = create_run("ppo", config(tmp_path))
    with pytest.raises(UserError, match=f"no such run; did you mean '{run.path.name}'"):
        resolve_run(str(run.path)[:-1])
    with pytest.raises(UserError, match="no such run"):
        resolve_run(tmp_path / "a" / "b")
    with pytest.raises(UserError, match="a run of ppo, not of grpo"):
        resolve_run(run.path, "grpo")
    (tmp_path / "foreign").mkdir()
    with pytest.raises(UserError, match="not a run of Cloud-RL"):
        resolve_run(tmp_path / "foreign")
    (tmp_path / "foreign" / "manifest.json").write_text("{not json")
    with pytest.raises(UserError, match="not a run of Cloud-RL"):
        resolve_run(tmp_path / "foreign")
    save_json(run.path / "manifest.json", run.manifest() | {"format": 99})
    with pytest.raises(UserError, match="another version"):
        resolve_run(run.path)


def test_only_own_runs_are_trusted(tmp_path: Path) -> None:
    run = create_run("ppo", config(tmp_path))
    check_trusted(run.path / "best", tmp_path / "runs", trust=False)
    check_trusted("/elsewhere/model.zip", tmp_path / "runs", trust=True)
    for path in ("/elsewhere/model.zip", tmp_path / "runs" / ".." / "model.zip", tmp_path / "runs2" / "x"):
        with pytest.raises(UserError, match="trust=true"):
            check_trusted(path, tmp_path / "runs", trust=False)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "runs" / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="trust=true"):
        check_trusted(tmp_path / "runs" / "link" / "model.zip", tmp_path / "runs", trust=False)


def test_whose_run_it_is_is_said_on_the_command_line(tmp_path: Path) -> None:
    run = create_run("ppo", config(tmp_path))
    with pytest.raises(UserError, match="runs_dir="):
        check_trusted(run.path, tmp_path / "others", trust=False)
    assert f"resume={run.path} runs_dir={tmp_path / 'runs'}" in (run.path / "README.md").read_text()
    assert resume_command(Run(Path("runs/ppo/x")), "ppo") == "python -m trainers.ppo resume=runs/ppo/x"


@pytest.mark.skipif(os.name == "nt", reason="no fcntl")
def test_one_process_at_a_time(tmp_path: Path) -> None:
    run = create_run("ppo", config(tmp_path))
    with locked(run), pytest.raises(UserError, match="another process"), locked(run):
        pass
    with locked(run):
        pass


# ---- checkpoints ------------------------------------------------------------------------------------------------


def test_the_latest_whole_checkpoint_is_found_and_old_ones_go(tmp_path: Path) -> None:
    assert latest_checkpoint(tmp_path / "nothing") is None
    for step in (100, 200, 300, 1_000_000_000_000_000):
        save(tmp_path, step, keep=2, score=step / 10)
    assert [p.name for p in sorted(tmp_path.iterdir())] == ["step_000000000300", "step_1000000000000000"]
    latest = latest_checkpoint(tmp_path)
    assert latest is not None
    manifest = checkpoint_manifest(latest)
    assert manifest["step"] == 10**15 and manifest["meta"] == {"score": 1e14}
    assert set(manifest["files"]) == {"model.zip", "more/state.json"}


def test_the_last_written_wins_not_the_highest_step(tmp_path: Path) -> None:
    """A resumed run goes through earlier steps again; saving twice at one step is fine too."""
    for step, content in ((200, "a"), (100, "b"), (100, "c")):
        save(tmp_path, step, content, keep=3)
    latest = latest_checkpoint(tmp_path)
    assert latest is not None and (latest / "model.zip").read_text() == "c"
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("damage", ["cut", "changed", "missing", "no manifest", "broken manifest"])
def test_a_broken_checkpoint_is_passed_over(tmp_path: Path, damage: str) -> None:
    save(tmp_path, 1)
    save(tmp_path, 2)
    good, bad = tmp_path / "step_000000000001", tmp_path / "step_000000000002"
    if damage == "cut":
        (bad / "model.zip").write_text("weig")
    elif damage == "changed":
        (bad / "model.zip").write_text("weightz")
    elif damage == "missing":
        (bad / "more" / "state.json").unlink()
    elif damage == "no manifest":
        (bad / "manifest.json").unlink()
    else:
        (bad / "manifest.json").write_text('{"files": {')
    assert not is_whole(bad)
    assert latest_checkpoint(tmp_path) == good
    prune(tmp_path, keep=1)  # never counts a broken one as the one to keep
    assert [p.name for p in tmp_path.iterdir()] == [good.name]


def test_an_error_while_saving_leaves_the_old_checkpoint(tmp_path: Path) -> None:
    save(tmp_path, 1)
    with pytest.raises(RuntimeError), new_checkpoint(tmp_path, 2) as folder:
        (folder / "model.zip").write_text("half")
        raise RuntimeError
    assert [p.name for p in tmp_path.iterdir()] == ["step_000000000001"]


class Killed(BaseException):
    """Stands for SIGKILL: no handler of the code under test may run on it, so `finally` is disabled too."""


def test_a_stop_between_any_two_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop before the n-th call that touches the disk, for every n, without any clean-up."""
    calls = {"left": -1}

    def stopping(function):
        def inner(*args, **kwargs):
            if calls["left"] == 0:
                raise Killed
            calls["left"] -= 1
            return function(*args, **kwargs)

        return inner

    def no_cleanup(path, *args, **kwargs):
        if calls["left"] == 0:
            raise Killed
        calls["left"] -= 1
        real_rmtree(path, *args, **kwargs)

    real_rmtree = shutil.rmtree
    for name in ("rename", "replace", "fsync"):
        monkeypatch.setattr(runs.os, name, stopping(getattr(os, name)))
    monkeypatch.setattr(runs.shutil, "rmtree", no_cleanup)

    stops = 0
    for n in range(100):
        folder = tmp_path / str(n)
        calls["left"] = -1
        save(folder, 1, "old", keep=1)
        calls["left"] = n
        try:
            save(folder, 2, "new", keep=1)
        except Killed:
            stops += 1
        else:
            break
        calls["left"] = -1
        latest = latest_checkpoint(folder)
        assert latest is not None, n
        assert (latest / "model.zip").read_text() in ("old", "new")
        save(folder, 3, "after", keep=1)  # the next run goes on, and tidies up
        assert [p.name for p in folder.iterdir()] == ["step_000000000003"], n
    assert stops >= 6


SAVER = """
import sys
from pathlib import Path
from cloudrl.runs import new_checkpoint, write_atomic
folder = Path(sys.argv[1])
for step in range(int(sys.argv[2]), 10**9):
    with new_checkpoint(folder / "checkpoints", step, keep=2) as new:
        (new / "model.bin").write_bytes(bytes([step % 256]) * 200_000)
    write_atomic(folder / "state.json", '{"step": %d}' % step * 1)
    if step == int(sys.argv[2]) + 2:
        print("ready", flush=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_sigkill_at_random_moments(tmp_path: Path) -> None:
    pause, step, environment = random.Random(0), 0, {**os.environ, "PYTHONPATH": str(ROOT)}
    for _ in range(10 if FULL else 4):
        process = subprocess.Popen(
            [sys.executable, "-c", SAVER, str(tmp_path), str(step)], stdout=subprocess.PIPE, env=environment
        )
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        time.sleep(pause.uniform(0, 0.2))
        process.kill()
        process.communicate()
        latest = latest_checkpoint(tmp_path / "checkpoints")
        assert latest is not None
        reached = checkpoint_manifest(latest)["step"]
        assert reached >= step + 2
        assert (latest / "model.bin").read_bytes() == bytes([reached % 256]) * 200_000
        assert json.loads((tmp_path / "state.json").read_text())["step"] >= reached - 1
        step = reached + 1


# ---- files and generators ---------------------------------------------------------------------------------------


def test_write_atomic_keeps_the_old_content_on_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.json"
    write_atomic(file, "old")

    def full_disk(*_: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(runs.os, "replace", full_disk)
    with pytest.raises(OSError):
        write_atomic(file, b"new")
    assert file.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_json_of_what_we_hold(tmp_path: Path) -> None:
    save_json(tmp_path / "x.json", {"a": np.float32(0.5), "b": np.arange(2), "c": StageConfig(), "d": tmp_path,
                                    "e": PPOConfig().device})  # fmt: skip
    read = json.loads((tmp_path / "x.json").read_text())
    assert (read["a"], read["b"], read["c"]["name"], read["e"]) == (0.5, [0, 1], "stage", "auto")
    with pytest.raises(TypeError, match="cannot write"):
        save_json(tmp_path / "y.json", object())
    assert not (tmp_path / "y.json").exists()


def test_random_generators_continue(tmp_path: Path) -> None:
    random.seed(1)
    np.random.seed(1)
    random.gauss(0, 1), np.random.normal()  # both keep a second gaussian for later
    text = rng_state(torch=b"\x00\xff torch")
    expected = [random.gauss(0, 1), random.random(), np.random.normal(), np.random.rand()]
    random.seed(2)
    np.random.seed(2)
    assert restore_rng(text) == {"torch": b"\x00\xff torch"}
    assert [random.gauss(0, 1), random.random(), np.random.normal(), np.random.rand()] == expected


def test_run_paths(tmp_path: Path) -> None:
    run = Run(tmp_path)
    assert run.progress_file == tmp_path / "progress.csv"
    assert run.tb.parent == run.best.parent == run.eval.parent == run.checkpoints.parent == tmp_path
