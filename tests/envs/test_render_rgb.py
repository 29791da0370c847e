"""The picture of a world: geometry without overlap, what it shows and hides, its cost, and films of it."""

from __future__ import annotations

import time
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

from cloudrl import Simulator, load_scenario
from cloudrl.scenarios.scale import scaled_scenario
from cloudrl.scenarios.schema import Scenario
from cloudrl.types import DEPENDENCY_NAMES
from envs.cloudops import CloudOpsEnv
from envs.cloudops.layout import Box, layout
from envs.cloudops.render_ansi import names_of
from envs.cloudops.render_rgb import HEIGHT, WIDTH, render_rgb
from envs.cloudops.scene import PARTS, TONES, facts
from evaluation.report.style import PARTS_LIGHT
from tests.evaluation.colours import told_apart

SIZES = {"easy": 6, "medium": 12, "hard": 25, "scaled-30": 30, "stress-topology-shift": 50}


def scenario(name: str) -> Scenario:
    return (
        scaled_scenario(int(name.removeprefix("scaled-"))) if name.startswith("scaled-") else load_scenario(name)
    )


def world(name: str, seed: int = 20_000, ticks: int = 0) -> Simulator:
    sim = Simulator(scenario(name))
    sim.reset(seed)
    for _ in range(ticks):
        sim.step([sim.noop])
    return sim


def film(name: str, ticks: int, **options: object) -> CloudOpsEnv:
    env = CloudOpsEnv(scenario(name), render_mode="rgb_array", split="test", **options)  # type: ignore[arg-type]
    env.reset(options={"world_seed": 20_003})
    rng = np.random.default_rng(0)
    for _ in range(ticks):
        env.step(int(rng.integers(env.simulator.n_actions)))
    return env


# ---- geometry --------------------------------------------------------------------------------------------------


def apart(a: Box, b: Box) -> bool:
    return a.right <= b.x or b.right <= a.x or a.bottom <= b.y or b.bottom <= a.y


@settings(max_examples=25, deadline=None)
@given(
    name=st.sampled_from(sorted(SIZES)), seed=st.sampled_from([0, 1, 2, 20_000, 20_001]),
    width=st.integers(500, 1600), height=st.integers(300, 900),
)  # fmt: skip
def test_everything_has_a_place_of_its_own(name: str, seed: int, width: int, height: int) -> None:
    sim = world(name, seed)
    area = Box(7, 11, width, height)
    places = layout(sim.state, 0, area)
    n, groups = int(sim.state.worlds["n_resources"][0]), sim.state.groups[0, : sim.state.worlds["n_groups"][0]]
    assert len(places.tiles) == n and len(places.frames) == len(groups)
    for box in places.frames:
        assert box.x >= area.x - 1e-6 and box.right <= area.right + 1e-6
        assert box.y >= area.y - 1e-6 and box.bottom <= area.bottom + 1e-6
    for boxes in (places.tiles, places.frames):
        assert all(apart(a, b) for i, a in enumerate(boxes) for b in boxes[:i])
    for frame, group in zip(places.frames, groups, strict=True):
        for tile in places.tiles[group["first"] : group["first"] + group["count"]]:
            assert (
                frame.x < tile.x and tile.right < frame.right and frame.y < tile.y and tile.bottom < frame.bottom
            )


@pytest.mark.parametrize("name", SIZES)
def test_calls_run_from_left_to_right(name: str) -> None:
    sim = world(name)
    places = layout(sim.state, 0, Box(0, 0, 900, 400))
    edges, groups = sim.state.edges[0], sim.state.groups[0]
    wanted = {
        (g, int(e["target"]), DEPENDENCY_NAMES[e["kind"]])
        for g in range(sim.state.worlds["n_groups"][0])
        for e in edges[groups[g]["edge_first"] : groups[g]["edge_first"] + groups[g]["edge_count"]]
    }
    assert {(wire.source, wire.target, wire.kind) for wire in places.wires} == wanted
    for wire in places.wires:
        source, target = places.frames[wire.source], places.frames[wire.target]
        assert source.right < target.x
        begin, end = wire.along(8)[0], wire.along(8)[-1]
        assert begin[0] == source.right and source.y <= begin[1] <= source.bottom
        assert end == (pytest.approx(target.x), pytest.approx(end[1])) and target.y <= end[1] <= target.bottom


def test_the_entry_stands_on_the_left() -> None:
    sim = world("hard")
    places = layout(sim.state, 0, Box(0, 0, 900, 400))
    entry = [g for g, group in enumerate(sim.state.groups[0]) if group["entry_share"] > 0]
    assert entry and all(places.frames[g].x == min(f.x for f in places.frames) for g in entry)


# ---- what it shows ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SIZES)
def test_a_frame(name: str) -> None:
    frame = film(name, 30).render()
    assert isinstance(frame, np.ndarray) and frame.shape == (HEIGHT, WIDTH, 3) and frame.dtype == np.uint8
    assert len(np.unique(frame.reshape(-1, 3), axis=0)) > 20  # it is no blank page


def test_a_frame_changes_with_the_world_and_not_by_itself() -> None:
    env = film("medium", 10)
    state = [array.tobytes() for array in env.simulator.state]
    first = env.render()
    assert np.array_equal(first, env.render())
    assert [array.tobytes() for array in env.simulator.state] == state
    env.step(env.simulator.noop)
    assert not np.array_equal(first, env.render())


def test_what_is_hidden_is_drawn_for_the_truth_only() -> None:
    sim = world("medium")
    resources = sim.state.resources[0]
    resources["exposure_seen"], resources["exposed"], resources["hidden_count"] = 0, 0, 0
    resources["lag"] = 2
    clean = {truth: render_rgb(sim, truth=truth) for truth in (False, True)}
    resources["exposed"][3], resources["hidden_count"][5], resources["hidden_cvss"][5] = 1, 2, 9.0
    resources["past_health"][:, 0] = 0.1
    assert np.array_equal(render_rgb(sim), clean[False])
    assert not np.array_equal(render_rgb(sim, truth=True), clean[True])
    assert any(mark.hidden for fact in facts(sim, 0, truth=True) for mark in fact.marks)
    assert not any(mark.hidden for fact in facts(sim, 0) for mark in fact.marks)


def test_states_are_written_and_coloured() -> None:
    sim = world("easy")
    resources = sim.state.resources[0]
    resources["lag"], resources["past_health"] = 0, 0.95
    resources["past_health"][1], resources["past_health"][2] = 0.6, 0.2
    resources["status"][3], resources["status"][4] = 2, 1
    resources["busy_ticks"][5], resources["busy_op"][5] = 3, 1
    found = facts(sim, 0)
    assert [f.tone for f in found] == ["well", "worn", "ill", "crashed", "stopped", "well"]
    assert [f.status for f in found] == ["running"] * 3 + ["crashed", "stopped", "patch 3"]
    assert [f.name for f in found] == names_of(sim, 0)
    assert found[3].utilisation is None and found[5].busy


@pytest.mark.parametrize("blindness", ["none", "protanopia", "deuteranopia"])
def test_states_are_told_apart_by_everybody(blindness: str) -> None:
    """A deleted machine is a faint outline, so its grey may be near that of a stopped one."""
    told_apart({tone: colour for tone, colour in TONES.items() if tone != "deleted"}, blindness)


def test_the_bill_has_the_colours_of_the_report() -> None:
    assert PARTS == PARTS_LIGHT


# ---- as an environment -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("env_id", ["CloudOps-Easy-v1", "CloudOps-Hard-v1"])
def test_check_env(env_id: str) -> None:
    check_env(gym.make(env_id, render_mode="rgb_array").unwrapped)


def test_other_modes_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="ansi and rgb_array"):
        CloudOpsEnv("easy", render_mode="human")


def test_an_episode_begins_with_an_empty_day() -> None:
    env = film("easy", 20)
    later = env.render()
    env.reset(options={"world_seed": 20_003})
    first = env.render()
    assert isinstance(first, np.ndarray) and isinstance(later, np.ndarray)
    assert np.array_equal(first, film("easy", 0).render()) and not np.array_equal(first, later)


def test_frames_are_collected() -> None:
    env = gym.wrappers.RenderCollection(gym.make("CloudOps-Easy-v1", render_mode="rgb_array"))
    env.reset(seed=1)
    for _ in range(5):
        env.step(env.action_space.n - 1)  # type: ignore[attr-defined]
    frames = env.render()
    assert isinstance(frames, list) and len(frames) == 6 and all(f.shape == (600, 960, 3) for f in frames)


def test_several_worlds_are_filmed_by_gymnasiums_own_batch() -> None:
    env = gym.make_vec("CloudOps-Easy-v1", num_envs=2, vectorization_mode="sync", render_mode="rgb_array")
    env.reset(seed=0)
    frames = env.render()
    assert frames is not None and len(frames) == 2 and not np.array_equal(frames[0], frames[1])
    with pytest.raises(ValueError, match="no render mode"):
        gym.make_vec("CloudOps-Easy-v1", num_envs=2, render_mode="rgb_array")  # made for speed: text only


def test_a_video_is_recorded(tmp_path: Path) -> None:
    pytest.importorskip("moviepy")
    env = gym.wrappers.RecordVideo(gym.make("CloudOps-Easy-v1", render_mode="rgb_array"), str(tmp_path))
    env.reset(seed=1)
    done = False
    while not done:
        done = env.step(env.action_space.n - 1)[2]  # type: ignore[attr-defined]
    env.close()
    (video,) = tmp_path.glob("*.mp4")
    assert video.stat().st_size > 10_000


def test_a_frame_costs_less_than_40_ms() -> None:
    env = film("hard", 200)
    env.render()
    times = []
    for _ in range(8):
        env.step(env.simulator.noop)
        start = time.process_time()
        env.render()
        times.append(time.process_time() - start)
    assert min(times) < 0.040
