"""The GRPO trainer as people run it: it resumes exactly, stops cleanly, refuses what is wrong, and logs."""

from __future__ import annotations

import json
import os
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

from cloudrl.runs import Run, is_whole, latest_checkpoint
from evaluation.agents import lm_files
from evaluation.agents.entry import Context
from evaluation.agents.registry import build, find
from evaluation.config import LanguageSettings
from evaluation.rollout import play_episodes
from tests.llm.small_models import save_small
from tests.trainers.grpo_runs import arguments, differences, final_state, new_trainer, progress_rows, resumed
from trainers import grpo
from trainers.llm.stream import Stream
from trainers.llm.watch import LAYOUT

ROOT = Path(__file__).resolve().parents[2]
FULL = os.environ.get("CLOUDRL_FULL") == "1"
POSIX = pytest.mark.skipif(os.name == "nt", reason="signals")

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    th.set_num_threads(1)


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Command:
    def run(*argv: str) -> tuple[int, str, str]:
        code = 0
        try:
            grpo.main([*argv])
        except SystemExit as stop:
            code = int(stop.code or 0)
        out, err = capfd.readouterr()
        return code, out, err

    return run


def run_in(tmp_path: Path) -> Run:
    (path,) = (tmp_path / "runs" / "grpo").iterdir()
    return Run(path)


def no_run(tmp_path: Path) -> bool:
    return not list(tmp_path.glob("runs/grpo/*"))


# ---- resume ---------------------------------------------------------------------------------------------------


STAGES = (
    "curriculum.stages=[{name:first,scenario:easy,overrides:{horizon.ticks:12},max_fraction:0.5},"
    "{name:second,scenario:easy,overrides:{horizon.ticks:12,failures.failure_rate:0.01}}]"
)


@pytest.mark.parametrize(
    "options",
    [
        ("grpo.estimator=group", "memory=on", STAGES),
        ("grpo.micro_states=2",),
        ("grpo.estimator=group", "trl.path=stock", "grpo.micro_states=2"),
    ],
    ids=["shared", "exact", "stock"],
)
def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(tmp_path: Path, options: tuple[str, ...]) -> None:
    whole = new_trainer(tmp_path / "whole", *options)
    whole.train()
    whole.close()

    stopped = new_trainer(tmp_path / "stopped", *options)
    after_step = stopped.after_step

    def stop_at_three(step: int) -> bool:
        stopped.interrupt.asked = stopped.interrupt.asked or step == 3
        return after_step(step)

    stopped.after_step = stop_at_three  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        stopped.train()
    stopped.close()
    assert stopped.progress.step == 3
    second = resumed(stopped)
    th.manual_seed(99)
    second.train()
    second.close()
    assert differences(final_state(second), final_state(whole)) == []
    steps = [row["step"] for row in progress_rows(whole.run) if "train/reward" in row]
    assert len(steps) == 4


@POSIX
def test_ctrl_c_saves_and_the_run_goes_on(tmp_path: Path) -> None:
    """A real process, a real signal: exit code 130, a whole checkpoint, and resume finishes."""
    argv = arguments(tmp_path, "grpo.steps=100000", "grpo.eval_every=100000", "grpo.checkpoint_every=100000")
    process = subprocess.Popen(
        [sys.executable, "-m", "trainers.grpo", *argv], cwd=tmp_path, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    try:
        rows = 0
        for _ in range(1500):
            found = list(tmp_path.glob("runs/grpo/*/progress.csv"))
            rows = len(found[0].read_text().splitlines()) if found else 0
            if rows > 20:
                break
            assert process.poll() is None, process.stderr.read() if process.stderr else ""
            time.sleep(0.2)
        assert rows > 20
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=240)
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert "stopping after this update" in err and "resume=" in out and "Traceback" not in err
    run = run_in(tmp_path)
    checkpoint = latest_checkpoint(run.checkpoints)
    assert checkpoint is not None and is_whole(checkpoint)
    step = json.loads((checkpoint / "progress.json").read_text())["step"]
    assert step > 0 and f"stopped at step {step:,}" in out


def test_a_finished_run_again_and_to_a_larger_total(command: Command, tmp_path: Path) -> None:
    code, out, err = command(*arguments(tmp_path, "grpo.steps=2"))
    assert (code, err) == (0, "")
    run = run_in(tmp_path)
    assert "trained, sampled" in out and "best constant" in out and "groups won by NOOP" in out
    card = (run.path / "README.md").read_text()
    assert "| trained, sampled |" in card and "groups won by NOOP" in card
    final = json.loads((run.eval / "final.json").read_text())
    assert set(final["models"]) == {
        f"{m}, {how}" for m in ("warm start", "trained") for how in ("sampled", "likeliest")
    }
    before = sorted(p.name for p in run.checkpoints.iterdir())

    again = (f"resume={run.path}", f"runs_dir={tmp_path / 'runs'}")
    code, out, err = command(*again)
    assert (code, err) == (0, "") and "trained, sampled" in out
    assert sorted(p.name for p in run.checkpoints.iterdir()) == before

    code, out, err = command(*again, "grpo.steps=3")
    assert (code, err) == (0, "")
    checkpoint = latest_checkpoint(run.checkpoints)
    assert checkpoint is not None and json.loads((checkpoint / "progress.json").read_text())["step"] == 3


# ---- what is logged -------------------------------------------------------------------------------------------


def test_every_curve_of_the_page_is_there(tmp_path: Path) -> None:
    # warm enough that some replies are actions, whose gains have parts
    warm = ("warm_start.states=1600", "warm_start.batch=16", "warm_start.learning_rate=1e-2", "model.width=32")
    trainer = new_trainer(tmp_path, "grpo.estimator=group", *warm)
    trainer.train()
    trainer.close()
    events = EventAccumulator(str(trainer.run.tb))
    events.Reload()
    tags = set(events.Tags()["scalars"])
    charted = {tag for group in LAYOUT.values() for _, chart in group.values() for tag in chart}
    assert charted - tags == set()
    trl = {"train/reward", "train/reward_std", "train/frac_reward_zero_std", "train/entropy", "train/loss"}
    trl |= {f"train/completions/{name}" for name in ("mean_length", "clipped_ratio")}
    trl |= {"train/clip_ratio/region_mean", "train/grad_norm", "train/learning_rate"}
    assert trl - tags == set()
    assert (
        "groups/text_summary" in events.Tags()["tensors"]
        and "custom_scalars__config__" in events.Tags()["tensors"]
    )
    samples = sorted(p.name for p in (trainer.run.path / "samples").iterdir())
    assert samples == ["step_000002.md", "step_000004.md"]
    text = (trainer.run.path / "samples" / samples[0]).read_text()
    assert text.count("| times | reply |") == 2 and "r0.may=" in text


def test_figures_are_what_they_say(tmp_path: Path) -> None:
    """The noop baseline is a whole episode of doing nothing, and rewards of groups are those of the scorer."""
    trainer = new_trainer(tmp_path, "grpo.estimator=group", "warm_start.states=0", "grpo.steps=1")
    batches = []
    source = trainer.trl.source

    def watched(trl: Any, n: int) -> Any:
        batches.append(source(trl, n))  # type: ignore[misc]
        return batches[-1]

    trainer.trl.source = watched
    trainer.train()
    trainer.close()
    rows = progress_rows(trainer.run)
    logged = next(row for row in rows if "train/reward" in row)
    assert float(logged["train/rewards/score/mean"]) == pytest.approx(np.mean(batches[0].rewards), abs=1e-5)
    assert float(logged["train/rewards/surprise/mean"]) == pytest.approx(np.mean(batches[0].surprises), abs=1e-5)
    assert len(batches[0].prompt_ids) == 4 and len(batches[0].completion_ids) == 16
    assert float(logged["llm/json_valid"]) < 0.5  # a random model writes no JSON


# ---- models ---------------------------------------------------------------------------------------------------


CHAT = ("grpo.max_tokens=24", "grpo.steps=2", "warm_start.states=16", "warm_start.batch=4", "grpo.group=2")


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("qwen2", ("model=qwen", "model.lora.rank=0")),
        ("qwen2", ("model=qwen", "grpo.estimator=exact", "model.lora.rank=0", "grpo.micro_states=2")),
        ("qwen2", ("model=qwen", "grpo.estimator=exact", "model.lora.rank=0", "model.dtype=bfloat16")),
        ("qwen3", ("model=qwen3", "model.lora.rank=4", "trl.beta=0.01")),
        ("qwen2", ("model=qwen", "model.lora.rank=4", "trl.path=stock", "model.dtype=bfloat16")),
    ],
    ids=["qwen2", "qwen2-exact", "qwen2-exact-bf16", "qwen3-lora", "qwen2-lora-stock-bf16"],
)
def test_chat_models_train_to_a_checkpoint_that_the_evaluation_loads(
    command: Command, tmp_path: Path, kind: str, options: tuple[str, ...]
) -> None:
    folder = save_small(kind, tmp_path / "model")
    code, _, err = command(*arguments(tmp_path, f"model.path={folder}", *CHAT, *options))
    assert (code, err) == (0, ""), err
    run = run_in(tmp_path)
    checkpoint = latest_checkpoint(run.checkpoints)
    assert checkpoint is not None
    lora = any("rank=4" in option for option in options)
    assert (checkpoint / "adapter_model.safetensors").exists() == lora
    trained = lm_files.load(checkpoint)
    if not lora:  # whatever they compute in, weights that are trained are kept in full
        assert {weight.dtype for weight in trained.model.parameters()} == {th.float32}
    assert trained.facts.template == ({"enable_thinking": False} if kind == "qwen3" else {})

    scenario = new_trainer(tmp_path / "other", "warm_start.states=0").config.scenario
    context = Context(scenario, LanguageSettings(temperature=1.0))
    (entry,) = find([f"llm:{run.path}"], context)
    agent = build(entry, context)
    episodes = play_episodes(agent, scenario, [10_000, 10_001])
    assert episodes.reward.shape == (2,)

    code, _, err = command(f"resume={run.path}", f"runs_dir={tmp_path / 'runs'}", "grpo.steps=3")
    assert (code, err) == (0, ""), err


def test_training_changes_adapters_only(tmp_path: Path) -> None:
    folder = save_small("qwen2", tmp_path / "model")
    trainer = new_trainer(tmp_path, "model=qwen", f"model.path={folder}", "model.lora.rank=4", *CHAT)
    before = {k: v.clone() for k, v in trainer.language.model.state_dict().items()}
    trainer.train()
    trainer.close()
    after = trainer.language.model.state_dict()
    changed = {k for k, v in after.items() if not th.equal(v, before[k])}
    assert changed and all("lora_" in name for name in changed)


# ---- wrong input ----------------------------------------------------------------------------------------------


def check_line(code: int, err: str, words: str) -> None:
    assert code == 1, err
    assert len(err.strip().splitlines()) == 1 and err.startswith("cloudrl:"), err
    assert re.search(words, err), err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("model=qwem",), "no such option; did you mean 'qwen'"),
        (("model=qwen", "model.path=./nowhere"), "no such folder"),
        (("model=qwen", "model.path=no_owner"), "no name on the hub"),
        (("grpo.group=1",), "at least 2"),
        (("grpo.sates=3",), "did you mean 'grpo.states'"),
        (("grpo.states=5", "grpo.block=2"), "multiple of grpo.block"),
        (("grpo.micro_states=3",), "must divide"),
        (("model.style=compact",), "reads no such prompt"),
        (("trl.extra.num_generatons=3",), "did you mean 'num_generations'"),
        (("trl.loss_type=dr_gpo",), "did you mean 'dr_grpo'"),
        (("trl.extra.epsilon=nothing",), "trl: "),
        (("grpo.estimator=exact", "trl.path=stock"), "exact estimator packs"),
        (("device=cuda",), "no CUDA device"),
        (("resume=runs/nothing",), "no such run"),
        (("group.vetoed=-3",), "must lie below"),
    ],
)  # fmt: skip
def test_wrong_settings_are_one_line(
    command: Command, tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    if "device=cuda" in options and th.cuda.is_available():
        pytest.skip("there is one")
    code, _, err = command(*arguments(tmp_path, *(o.replace("trl.extra.", "+trl.extra.") for o in options)))
    check_line(code, err, words)
    assert no_run(tmp_path)


def test_without_a_network_the_ways_out_are_named(command: Command, tmp_path: Path, monkeypatch: Any) -> None:
    import huggingface_hub.constants as constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "empty"))
    code, _, err = command(*arguments(tmp_path, "model=qwen"))
    check_line(code, err, "model.path=<dir>.*HF_HOME.*model=smollm2.*model=tiny")
    assert no_run(tmp_path)


def test_smollm2_that_was_not_fetched(command: Command, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    code, _, err = command(*arguments(tmp_path, "model=smollm2"))
    check_line(code, err, r"not fetched yet; run python scripts/fetch_smollm2.py")
    assert no_run(tmp_path)


def test_a_model_without_chat_template(command: Command, tmp_path: Path) -> None:
    folder = save_small("qwen2", tmp_path / "model", template=False)
    code, _, err = command(*arguments(tmp_path, "model=qwen", f"model.path={folder}", *CHAT))
    check_line(code, err, "no chat template")
    assert no_run(tmp_path)


def test_a_model_without_pad_token_trains(command: Command, tmp_path: Path) -> None:
    folder = save_small("qwen2", tmp_path / "model")
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    del settings["pad_token"]
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    code, _, err = command(*arguments(tmp_path, "model=qwen", f"model.path={folder}", *CHAT, "grpo.steps=1"))
    assert (code, err) == (0, "")


def test_a_prompt_longer_than_the_context(command: Command, tmp_path: Path) -> None:
    folder = save_small("qwen2", tmp_path / "model", max_position_embeddings=64)
    code, _, err = command(*arguments(tmp_path, "model=qwen", f"model.path={folder}", *CHAT))
    check_line(code, err, r"a prompt has \d+ tokens, and the model's context leaves room for 40")
    assert no_run(tmp_path)


def test_damaged_weights(command: Command, tmp_path: Path) -> None:
    folder = save_small("qwen2", tmp_path / "model")
    (folder / "model.safetensors").write_bytes(b"nothing")
    code, _, err = command(*arguments(tmp_path, "model=qwen", f"model.path={folder}", *CHAT))
    check_line(code, err, "cannot be loaded")
    assert no_run(tmp_path)


def test_a_checkpoint_from_elsewhere_is_not_loaded(command: Command, tmp_path: Path) -> None:
    trainer = new_trainer(tmp_path, "grpo.steps=1")
    trainer.train()
    trainer.close()
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(trainer.run.path, elsewhere)
    code, _, err = command(f"resume={elsewhere}", f"runs_dir={tmp_path / 'runs'}")
    check_line(code, err, "outside runs_dir")


# ---- several processes ----------------------------------------------------------------------------------------


def test_processes_play_different_worlds(tmp_path: Path) -> None:
    """Streams of two ranks never hold the same world."""
    trainer = new_trainer(tmp_path, "warm_start.states=0")
    keys = []
    for rank in (0, 1):
        stream = Stream(trainer.config, trainer.scenarios[0], trainer.language, 3, 2, rank=rank)
        for _ in range(30):  # beyond an episode
            block = stream.take()
            stream.advance(block, np.full(2, block.sim.noop))
            keys.append({(rank, int(key)) for b in stream.blocks for key in b.sim.state.worlds["key"]})
    first, second = ({key for rank, key in set().union(*keys) if rank == r} for r in (0, 1))
    assert first and second and not first & second
    trainer.close()


@pytest.mark.full
@pytest.mark.skipif(not FULL, reason="CLOUDRL_FULL=1")
def test_accelerate_launch_with_two_processes(tmp_path: Path) -> None:
    """Two CPU processes train one model to the end; one run folder, one table."""
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--cpu", "--num_processes", "2"]
    launch += ["--num_machines", "1", "--mixed_precision", "no", "-m", "trainers.grpo"]
    done = subprocess.run(
        [*launch, *arguments(tmp_path)], cwd=tmp_path, capture_output=True, text=True, timeout=600,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("trained, sampled: valid JSON") == 1
    checkpoint = latest_checkpoint(run_in(tmp_path).checkpoints)
    assert checkpoint is not None and json.loads((checkpoint / "progress.json").read_text())["step"] == 4
