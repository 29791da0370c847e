"""What a validation leaves in TensorBoard besides curves: a picture of a world, and the mix of operations."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.tensorboard import SummaryWriter

from cloudrl import Simulator, load_scenario
from cloudrl.actions import N_OPS, OP_NAMES
from cloudrl.policies import scripted
from cloudrl.safety.config import SafetyConfig
from envs.cloudops.history import History
from envs.cloudops.render_rgb import render_rgb
from evaluation.metrics import Recorder
from evaluation.rollout import play_episodes
from tests.trainers.short_runs import new_trainer, short_config
from trainers.common.pictures import OPERATIONS, WORLD, explain_operations, show_validation, worst_moment

EASY = load_scenario("easy")


def read(folder: Path) -> Any:
    events = EventAccumulator(str(folder), size_guidance={"images": 0, "histograms": 0, "tensors": 0})
    events.Reload()
    return events


def picture(event: Any) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(event.encoded_image_string)))


def test_the_median_world_and_the_operations(tmp_path: Path) -> None:
    recorder = Recorder()
    seeds = 10_000 + np.arange(5)
    episodes = play_episodes(scripted.handwritten(), EASY, seeds, on_tick=recorder)
    with SummaryWriter(str(tmp_path)) as board:
        explain_operations(board)
        show_validation(board, EASY, SafetyConfig(), episodes, recorder.actions, 7)
    events = read(tmp_path)
    (image,), (histogram,) = events.Images(WORLD), events.Histograms(OPERATIONS)
    assert image.step == histogram.step == 7
    median = int(np.argsort(episodes.bill)[2])
    expected = worst_moment(EASY, SafetyConfig(), int(seeds[median]), recorder.actions[median])
    assert np.array_equal(picture(image), expected) and expected.shape == (600, 960, 3)
    assert episodes.ops is not None
    assert histogram.histogram_value.bucket == episodes.ops[:, :N_OPS].sum(axis=0).tolist()
    text = events.Tensors(f"{OPERATIONS}/text_summary")[0].tensor_proto.string_val[0].decode()
    assert all(name in text for name in OP_NAMES[:N_OPS])


def test_the_worst_moment_is_the_tick_with_the_costliest_outage() -> None:
    noop = EASY.slots * N_OPS
    outages = play_episodes(scripted.noop(), EASY, np.arange(10_000, 10_020)).parts["outage"]
    seed = int(10_000 + outages.argmax())
    sim, costs = Simulator(EASY), []
    sim.reset(seed)
    for _ in range(sim.ticks):
        sim.step([noop])
        costs.append(float(sim.state.worlds["tick_outage"][0]))
    worst = int(np.argmax(costs))
    assert costs[worst] > 0.0 and worst < sim.ticks - 1
    sim.reset(seed)
    history = History()
    for _ in range(worst + 1):
        sim.step([noop])
        history.note(sim, 0, noop)
    frame = worst_moment(EASY, SafetyConfig(), seed, np.full(sim.ticks, noop))
    assert np.array_equal(frame, render_rgb(sim, history=history))


def test_every_validation_of_a_run_is_pictured(tmp_path: Path) -> None:
    trainer = new_trainer(short_config(tmp_path))
    trainer.train()
    trainer.close()
    events = read(trainer.run.tb)
    steps = [int(path.stem) for path in sorted(trainer.run.eval.glob("0*.json"))]
    assert steps and [event.step for event in events.Images(WORLD)] == steps
    assert [event.step for event in events.Histograms(OPERATIONS)] == steps
