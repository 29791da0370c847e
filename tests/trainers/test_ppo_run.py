"""The PPO trainer as people run it: it resumes exactly, stops cleanly, refuses what is wrong, and logs."""

from __future__ import annotations

import functools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from cloudrl.compose import compose, load_scenario, use_config_dirs
from cloudrl.config import PPOConfig
from cloudrl.errors import UserError
from cloudrl.observation import OBSERVATION_VERSION
from cloudrl.policies import scripted
from cloudrl.reward.bill import BILL_PARTS
from cloudrl.reward.terms import TERM_NAMES
from cloudrl.runs import Run, is_whole, latest_checkpoint, resume_point, save_json
from evaluation.agents.policy_agent import PolicyAgent
from evaluation.rollout import play_episodes
from tests.trainers.short_runs import (
    ROLLOUT,
    STAGES,
    arguments,
    differences,
    final_state,
    new_trainer,
    progress_rows,
    short_config,
)
from trainers import ppo
from trainers.common.build import FEATURE_NAMES
from trainers.common.fast_ppo import FastMaskablePPO
from trainers.common.interrupt import Interrupt
from trainers.common.logs import LAYOUT, CsvRows

ROOT = Path(__file__).resolve().parents[2]
FULL = os.environ.get("CLOUDRL_FULL") == "1"
POSIX = pytest.mark.skipif(os.name == "nt", reason="signals")

KINDS = {
    "fast": (STAGES,),
    "stock": ("ppo.engine=stock", "ppo.policy=mlp", "memory=off", "ppo.learning_rate=3e-4"),
    "twin": ("ppo.control_variate=noop", "safety=observe", "ppo.target_kl=null"),
}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    use_config_dirs([])


@functools.cache
def whole_run(kind: str, folder: Path) -> dict[str, Any]:
    """What a run that nobody stops ends with."""
    trainer = new_trainer(short_config(folder / kind, *KINDS[kind]))
    trainer.train()
    return final_state(trainer)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


class Killed(BaseException):
    """Stands for SIGKILL."""


def stop_at_save(trainer: ppo.Trainer, n: int) -> None:
    """Train, and stop right after the n-th checkpoint."""
    save, count = trainer.save, iter(range(1000))

    def saving() -> None:
        save()
        if next(count) == n:
            raise Killed

    trainer.save = saving  # type: ignore[method-assign]
    with pytest.raises(Killed):
        trainer.train()


# ---- the same numbers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind, saves", [("fast", 0), ("fast", 1), ("fast", 3), ("fast", 4), ("stock", 0), ("stock", 3), ("twin", 3)]
)
def test_a_resumed_run_equals_one_that_nobody_stopped(kind: str, saves: int, shared: Path, tmp_path: Path) -> None:
    """saves: 0 is before the warm start, 1 after it, 3 and 4 between rollouts, around a change of stage."""
    config = short_config(tmp_path, *KINDS[kind])
    first = new_trainer(config)
    stop_at_save(first, saves)
    th.manual_seed(99)  # whatever happens in the process in between
    np.random.seed(99)
    run, checkpoint = resume_point(first.run.path, "ppo")
    assert checkpoint is not None
    second = new_trainer(config, run)
    second.restore(checkpoint)
    assert (second.model.num_timesteps > 0) == (saves > 1)
    second.train()
    assert differences(final_state(second), whole_run(kind, shared)) == []


def learning_rows(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """Without those of the warm start."""
    return [row for row in rows if int(row["step"]) > 0]


def test_the_stages_were_passed_through(shared: Path) -> None:
    rows = learning_rows(whole_run("fast", shared)["csv"])
    assert {row["curriculum/stage"] for row in rows} == {"0", "1"}
    assert [int(row["step"]) for row in rows] == [ROLLOUT * (i + 1) for i in range(8)]


def test_the_same_seed_gives_the_same_weights(shared: Path, tmp_path: Path) -> None:
    trainer = new_trainer(short_config(tmp_path, *KINDS["fast"]))
    trainer.train()
    assert differences(final_state(trainer), whole_run("fast", shared)) == []
    other = new_trainer(short_config(tmp_path, *KINDS["fast"], "seed=1"))
    other.train()
    assert any(name.startswith("weight") for name in differences(final_state(other), whole_run("fast", shared)))


def test_more_steps_go_on_from_a_finished_run(tmp_path: Path) -> None:
    config = short_config(tmp_path, f"ppo.total_timesteps={2 * ROLLOUT}")
    first = new_trainer(config)
    first.train()
    config.ppo.total_timesteps = 4 * ROLLOUT
    config.ppo.learning_rate = 1e-3  # a setting of the algorithm may change
    second = new_trainer(config, first.run)
    second.restore(latest_checkpoint(first.run.checkpoints))
    second.train()
    rows = learning_rows(progress_rows(first.run))
    assert [int(row["step"]) for row in rows] == [ROLLOUT * (i + 1) for i in range(4)]
    assert second.progress.rollouts == 4
    assert float(rows[2]["train/learning_rate"]) == pytest.approx(1e-3 * (0.1 + 0.9 / 4))


def test_evaluation_does_not_depend_on_the_batch(tmp_path: Path) -> None:
    trainer = new_trainer(short_config(tmp_path, f"ppo.total_timesteps={3 * ROLLOUT}"))
    trainer.train()
    seeds = np.arange(12_000, 12_007)
    for deterministic in (False, True):
        agent = PolicyAgent(trainer.model.policy, deterministic=deterministic)
        together = play_episodes(agent, trainer.scenarios[-1], seeds)
        parts = [play_episodes(agent, trainer.scenarios[-1], part) for part in (seeds[:1], seeds[1:4], seeds[4:])]
        for name in ("reward", "bill", "won", "served", "ops"):
            assert np.array_equal(getattr(together, name), np.concatenate([getattr(p, name) for p in parts])), name


# ---- files of a run -------------------------------------------------------------------------------------------


def check_files(run: Run, steps: int) -> None:
    """Nothing in a finished run's folder is broken or left behind."""
    for path in run.path.rglob("*.json"):
        json.loads(path.read_text(), parse_constant=lambda text, path=path: pytest.fail(f"{path}: {text}"))
    checkpoints = [*run.checkpoints.iterdir(), *run.best.iterdir()]
    assert checkpoints and all(is_whole(path) for path in checkpoints)
    assert not [p for p in run.path.rglob("*") if p.name.endswith(".tmp") or ".new-" in p.name]
    column = [int(row["step"]) for row in progress_rows(run)]
    assert column == sorted(set(column)) and column[-1] == steps
    assert all(None not in row.values() and None not in row for row in progress_rows(run))


def test_a_row_cut_short_by_a_kill_is_dropped(tmp_path: Path) -> None:
    file = tmp_path / "progress.csv"
    rows = CsvRows(file, None)
    for step in (96, 192, 288):
        rows.write({"a": step / 2, "b": 1.0}, {}, step)
    with open(file, "a") as out:
        out.write("38,1")
    CsvRows(file, 192).write({"a": 0.5, "b": 2.0}, {}, 288)
    assert file.read_text().splitlines() == ["step,a,b", "96,48.0,1.0", "192,96.0,1.0", "288,0.5,2.0"]


def scalars(run: Run) -> EventAccumulator:
    events = EventAccumulator(str(run.tb))
    events.Reload()
    return events


def test_tensorboard_holds_every_promised_tag(tmp_path: Path) -> None:
    trainer = new_trainer(short_config(tmp_path, STAGES, "warm_start.states=128"))
    stop_at_save(trainer, 5)
    trainer.close()
    second = new_trainer(trainer.config, trainer.run)
    second.restore(latest_checkpoint(trainer.run.checkpoints))
    second.train()
    second.close()
    events = scalars(trainer.run)
    tags = set(events.Tags()["scalars"])
    wanted = {f"reward/{term}" for term in TERM_NAMES} | {f"bill/{part}" for part in BILL_PARTS}
    wanted |= {f"safety/{n}" for n in ("veto_rate", "invalid_rate", "violations", "mask_fraction")}
    wanted |= {f"ops/{n}" for n in ("win_rate", "slo", "cascades", "savings")}
    wanted |= {f"memory/{n}" for n in ("size", "hits", "vetoes")}
    wanted |= {"rollout/ep_rew_mean", "rollout/ep_len_mean", "time/fps", "curriculum/stage", "train/learning_rate"}
    wanted |= {"eval/mean_reward", "eval/deterministic_reward", "eval/cascades"}
    wanted |= {tag for group in LAYOUT.values() for _, chart in group.values() for tag in chart}
    assert wanted - tags == set()
    steps = [e.step for e in events.Scalars("curriculum/stage")]
    assert steps == [ROLLOUT * (i + 1) for i in range(8)]  # what came after the checkpoint is not there twice
    assert "custom_scalars__config__" in events.Tags()["tensors"]
    assert "_hparams_/session_start_info" in events.summary_metadata
    assert max(e.step for e in events.Scalars("warm_start/loss")) <= 0


# ---- the command ----------------------------------------------------------------------------------------------


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., tuple[int, str, str]]:
    def run(*argv: str) -> tuple[int, str, str]:
        code = 0
        try:
            ppo.main([*argv])
        except SystemExit as stop:
            code = int(stop.code or 0)
        out, err = capfd.readouterr()
        return code, out, err

    return run


def runs_in(tmp_path: Path) -> list[Run]:
    return [Run(path) for path in sorted((tmp_path / "runs" / "ppo").iterdir())]


def test_a_sweep_and_a_finished_run_again(command, tmp_path: Path) -> None:
    code, out, err = command("-m", *arguments(tmp_path, f"ppo.total_timesteps={2 * ROLLOUT}", "seed=1,2"))
    assert (code, err) == (0, "")
    assert [run.manifest()["seed"] for run in runs_in(tmp_path)] == [1, 2]
    assert out.count("trained, sampled") == 2 and "wins" in out
    run = runs_in(tmp_path)[0]
    check_files(run, 2 * ROLLOUT)
    card = (run.path / "README.md").read_text()
    assert "| trained, sampled |" in card and "| noop |" in card
    before = sorted(p.name for p in run.checkpoints.iterdir())

    code, out, err = command(f"resume={run.path}", f"runs_dir={tmp_path / 'runs'}")
    assert (code, err) == (0, "") and "trained, sampled" in out
    assert sorted(p.name for p in run.checkpoints.iterdir()) == before
    check_files(run, 2 * ROLLOUT)

    code, _, err = command(
        f"resume={run.path}", f"runs_dir={tmp_path / 'runs'}", f"ppo.total_timesteps={3 * ROLLOUT}"
    )
    assert (code, err) == (0, "")
    check_files(run, 3 * ROLLOUT)


def test_a_run_killed_before_its_first_checkpoint_begins_again(command, tmp_path: Path) -> None:
    small = arguments(tmp_path, f"ppo.total_timesteps={ROLLOUT}", "warm_start.states=0")
    trainer = new_trainer(compose("ppo", small))
    code, _, err = command(f"resume={trainer.run.path}", f"runs_dir={tmp_path / 'runs'}")
    assert (code, err) == (0, "")
    assert len(runs_in(tmp_path)) == 1
    check_files(trainer.run, ROLLOUT)


@pytest.mark.parametrize("shipped", ["online_boutique", "magento"])
def test_shipped_estates_train(command, tmp_path: Path, shipped: str) -> None:
    estate = (
        "scenario=estate",
        f"scenario.path={shipped}",
        f"ppo.total_timesteps={ROLLOUT}",
        "warm_start.states=8",
    )
    code, out, err = command(*arguments(tmp_path, *estate))
    assert (code, err) == (0, "") and "trained, sampled" in out
    run = runs_in(tmp_path)[0]
    code, out, err = command(f"resume={run.path}", f"runs_dir={tmp_path / 'runs'}")
    assert (code, err) == (0, "") and "trained, sampled" in out


@pytest.mark.parametrize("options", [("+curriculum=easy",), ("safety=observe", "memory=off", "+debug=stock")])
def test_options_of_the_shipped_configs(command, tmp_path: Path, options: tuple[str, ...]) -> None:
    code, _, err = command(*arguments(tmp_path, *options, f"ppo.total_timesteps={ROLLOUT}", "warm_start.states=8"))
    assert (code, err) == (0, "")


@pytest.mark.parametrize("name", ["medium", "hard", "full"])
def test_shipped_curricula_train_in_every_stage(name: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(ppo.Trainer, "_validator", lambda self: None)
    monkeypatch.setattr(ppo.Trainer, "_validate", lambda self: None)
    trainer = new_trainer(short_config(tmp_path, f"+curriculum={name}", "warm_start.states=0"))
    trainer.train()
    stages = trainer.config.curriculum.stages
    rows = progress_rows(trainer.run)
    assert [int(row["curriculum/stage"]) for row in rows] == sorted(int(row["curriculum/stage"]) for row in rows)
    assert trainer.curriculum.stage == len(stages) - 1


# ---- wrong input ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, PPOConfig]:
    folder = tmp_path_factory.mktemp("small")
    config = short_config(folder, f"ppo.total_timesteps={ROLLOUT}", "warm_start.states=0")
    trainer = new_trainer(config)
    trainer.train()
    trainer.close()
    return trainer.run, config


def copy_of(run: Run, tmp_path: Path) -> Run:
    path = tmp_path / "runs" / "ppo" / run.path.name
    shutil.copytree(run.path, path)
    return Run(path)


def seal(checkpoint: Path, **meta: Any) -> None:
    """Make a checkpoint that was changed whole again."""
    from cloudrl.runs import _digest, checkpoint_manifest

    manifest = checkpoint_manifest(checkpoint)
    manifest["meta"] |= meta
    manifest["files"] = {name: _digest(checkpoint / name) for name in manifest["files"]}
    save_json(checkpoint / "manifest.json", manifest)


def test_wrong_checkpoints_are_one_line(command, small_run: tuple[Run, PPOConfig], tmp_path: Path) -> None:
    own = f"runs_dir={tmp_path / 'runs'}"

    def refused(expected: str, *argv: str) -> None:
        code, _, err = command(*argv)
        assert code == 1 and err.startswith("cloudrl: ") and err.count("\n") == 1, err
        assert expected in err

    run = copy_of(small_run[0], tmp_path)
    newest = latest_checkpoint(run.checkpoints)
    assert newest is not None
    refused("no such run", f"resume={run.path}/checkpoints/step_7", own)
    refused("say trust=true", f"resume={run.path}", f"runs_dir={tmp_path / 'others'}")
    refused("its network differs", f"resume={run.path}", own, "ppo.width=8")
    refused("does not fit", f"resume={run.path}", own, "ppo.n_envs=4", "ppo.batch_size=8")
    refused("has seed 0", f"resume={run.path}", own, "seed=5")
    seal(newest, observation_version=OBSERVATION_VERSION + 1)
    refused(f"version {OBSERVATION_VERSION + 1} of the observation", f"resume={newest}", own)
    seal(newest, observation_version=OBSERVATION_VERSION)
    (newest / "model.zip").write_bytes(b"not a zip")
    refused("damaged", f"resume={newest}", own)
    seal(newest)
    refused("cannot be loaded", f"resume={newest}", own)
    if not th.cuda.is_available():
        refused("no CUDA device", "device=cuda", own)
    assert len(runs_in(tmp_path)) == 1


def test_a_foreign_run_cannot_vouch_for_itself(command, small_run: tuple[Run, PPOConfig], tmp_path: Path) -> None:
    run = copy_of(small_run[0], tmp_path / "download")
    text = run.config_file.read_text()
    text = re.sub("(?m)^trust: .*$", "trust: true", re.sub("(?m)^runs_dir: .*$", f"runs_dir: {tmp_path}", text))
    run.config_file.write_text(text)
    code, _, err = command(f"resume={run.path}")
    assert code == 1 and "say trust=true" in err
    code, _, err = command(f"resume={run.path}", "trust=true")
    assert (code, err) == (0, "")


@POSIX
def test_two_processes_do_not_train_the_same_run(
    command, small_run: tuple[Run, PPOConfig], tmp_path: Path
) -> None:
    import fcntl

    run = copy_of(small_run[0], tmp_path)
    with open(run.path / ".lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        code, _, err = command(f"resume={run.path}", f"runs_dir={tmp_path / 'runs'}")
    assert code == 1 and "another process is training this run" in err and err.count("\n") == 1


# ---- stopping -------------------------------------------------------------------------------------------------


@POSIX
@pytest.mark.parametrize("phase", ["_warm_start", "_validate", "collect_rollouts", "train"])
def test_ctrl_c_saves_and_exits_130(phase: str, command, shared: Path, tmp_path: Path, monkeypatch) -> None:
    """Pressed once, wherever: the run is saved whole, and goes on as if nobody had pressed."""
    made: list[ppo.Trainer] = []

    class Watched(ppo.Trainer):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            made.append(self)

    owner = Watched if phase.startswith("_") else FastMaskablePPO
    real, times = getattr(owner, phase), iter(range(1000))

    def pressing(*args: Any, **kwargs: Any) -> Any:
        if len(made) == 1 and next(times) == (0 if phase == "_warm_start" else 1):
            os.kill(os.getpid(), signal.SIGINT)
        return real(*args, **kwargs)

    monkeypatch.setattr(owner, phase, pressing)
    monkeypatch.setattr(ppo, "Trainer", Watched)
    monkeypatch.setattr(ppo, "final_report", lambda *_: 0.0)
    code, out, err = command(*arguments(tmp_path, STAGES))
    assert code == 130 and err.endswith("cloudrl: interrupted\n")
    run = runs_in(tmp_path)[0]
    assert f"resume={run.path}" in out
    assert (made[0].model.num_timesteps > 0) == (phase != "_warm_start")
    code, _, err = command(f"resume={run.path}", f"runs_dir={tmp_path / 'runs'}")
    assert code == 0
    assert differences(final_state(made[1]), whole_run("fast", shared)) == []


@POSIX
def test_ctrl_c_at_the_final_table_loses_nothing(command, tmp_path: Path, monkeypatch) -> None:
    def pressing(*_: Any) -> float:
        os.kill(os.getpid(), signal.SIGINT)
        return 0.0

    monkeypatch.setattr(ppo, "final_report", pressing)
    code, _, err = command(*arguments(tmp_path, f"ppo.total_timesteps={ROLLOUT}", "warm_start.states=0"))
    assert code == 130 and err == "cloudrl: interrupted\n"
    check_files(runs_in(tmp_path)[0], ROLLOUT)


@POSIX
def test_a_second_ctrl_c_does_not_wait() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), Interrupt() as interrupt:
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupt.asked
        os.kill(os.getpid(), signal.SIGINT)
        pytest.fail("the second one was not heard")
    assert signal.getsignal(signal.SIGINT) is before
    with pytest.raises(KeyboardInterrupt), Interrupt():
        os.kill(os.getpid(), signal.SIGINT)  # never checked: heard at the end


@POSIX
def test_sigkill_at_random_moments(tmp_path: Path) -> None:
    """By CLOUDRL_FULL ten times: the run ends at its step count, and no file is broken."""
    steps = (60 if FULL else 16) * ROLLOUT
    argv = arguments(tmp_path, f"ppo.total_timesteps={steps}", STAGES, "warm_start.states=512")
    moments, path = random.Random(4), None
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    for attempt in range((10 if FULL else 2) + 1):
        last = attempt == (10 if FULL else 2)
        more = argv if path is None else [f"resume={path}", f"runs_dir={tmp_path / 'runs'}"]
        process = subprocess.Popen(
            [sys.executable, "-m", "trainers.ppo", *more],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip
        assert process.stdout is not None
        if last:
            out, err = process.communicate(timeout=600)
            assert (process.returncode, err) == (0, "")
            assert "trained, sampled" in out
            break
        line = process.stdout.readline()
        assert line.startswith("run folder "), line
        path = Path(line.removeprefix("run folder ").strip())
        time.sleep(moments.uniform(0.0, 1.0))
        process.kill()
        process.communicate()
    assert path is not None
    check_files(Run(path), steps)
    assert len(runs_in(tmp_path)) == 1


# ---- elsewhere ------------------------------------------------------------------------------------------------


def test_a_policy_of_12_slots_plays_30_and_an_estate(tmp_path: Path) -> None:
    config = short_config(tmp_path, f"ppo.total_timesteps={ROLLOUT}", "warm_start.states=8", "scenario.slots=12")
    trainer = new_trainer(config)
    trainer.train()
    folder = latest_checkpoint(trainer.run.best)
    assert folder is not None
    agent = PolicyAgent.load(
        folder, observation_version=OBSERVATION_VERSION, feature_names=FEATURE_NAMES, deterministic=False
    )
    assert agent.description["n_actions"] == trainer.worlds.simulator.n_actions
    estate = load_scenario("estate", {"path": "online_boutique", "horizon.ticks": 24})
    large = load_scenario("medium", {"topology.train": ["scaled-30"], "slots": 30, "horizon.ticks": 24})
    for scenario, split in ((estate, 10_000), (large, 0)):
        seeds = split + np.arange(3)
        episodes = play_episodes(agent, scenario, seeds)
        assert episodes.violations.sum() == 0 and np.isfinite(episodes.reward).all()
        assert episodes.ops is not None and episodes.ops[:, 1:].sum() > 0
        assert np.isfinite(play_episodes(scripted.random(), scenario, seeds).reward).all()


def test_a_policy_for_another_observation_is_refused(small_run: tuple[Run, PPOConfig]) -> None:
    folder = latest_checkpoint(small_run[0].checkpoints)
    assert folder is not None
    with pytest.raises(ValueError, match="observation version"):
        PolicyAgent.load(folder, observation_version=OBSERVATION_VERSION + 1)
    with pytest.raises((UserError, ValueError), match="no such file"):
        PolicyAgent.load(folder / "nowhere", observation_version=OBSERVATION_VERSION)
