"""Immune memory: deterministic, persistent, explainable, and off when it is off."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cloudrl import ImmuneMemory, Simulator
from cloudrl.actions import DISRUPTIVE_OPS, N_OPS, Op, contains
from cloudrl.memory.config import MemoryConfig
from cloudrl.memory.immune import N_SIGNATURES
from cloudrl.memory.signature import EVENT_NAMES, N_CONTEXTS, N_EVENTS, context, describe
from cloudrl.observation import N_RESOURCE_FEATURES, RESOURCE_COLUMN
from cloudrl.types import ADMISSIBLE, BREACH_INCIDENT, FAILURE_INCIDENT, VETOED
from tests.core.play import play, same_state, scenario_of

HASTY = MemoryConfig(window_ticks=6, prior_bad=4.0, prior_good=1.0, minimum_evidence=2.0, credible_z=1.0)
"""Forms antibodies within a short test."""


def same_memory(a: ImmuneMemory, b: ImmuneMemory) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(a.tables, b.tables, strict=True))


def trained(config: MemoryConfig = HASTY, ticks: int = 60, n_worlds: int = 6) -> tuple[ImmuneMemory, Simulator]:
    """A memory after some random play."""
    memory = ImmuneMemory(config)
    sim = Simulator(scenario_of("easy"), n_worlds, memory=memory)
    sim.reset(np.arange(n_worlds))
    play(sim, ticks, seed=1, noop_share=0.2)
    return memory, sim


def memory_column(sim: Simulator) -> np.ndarray:
    """(B, N) of the observation."""
    blocks = sim.observations[:, : sim.n_slots * N_RESOURCE_FEATURES].reshape(sim.n_worlds, sim.n_slots, -1)
    return blocks[:, :, RESOURCE_COLUMN["memory_risk"]]


def teach(memory: ImmuneMemory, where: int, op: Op, bad: float, good: float = 0.0) -> None:
    """Put evidence into one signature."""
    k = where * N_EVENTS + op
    memory.tables.bad[k], memory.tables.good[k], memory.tables.last_seen[k] = bad, good, 0
    memory.refresh()


# ---------------------------------------------------------------- what it learns


def test_the_same_play_leaves_the_same_memory() -> None:
    (a, _), (b, _) = trained(), trained()
    assert same_memory(a, b)
    assert len(a) > 0 and a.tables.bad.sum() + a.tables.good.sum() > 0


def test_every_executed_operation_and_incident_becomes_evidence_after_its_window() -> None:
    memory = ImmuneMemory(MemoryConfig(window_ticks=4))
    sim = Simulator(scenario_of("quiet"), 1, memory=memory)
    sim.reset([0])
    slot = 0
    where = context(sim.state.groups[0, sim.state.resources[0, slot]["group"]], sim.state.resources[0, slot])
    sim.step([slot * N_OPS + Op.ANALYZE])
    for _ in range(2):
        sim.step([sim.noop])
        assert memory.tables.good.sum() == memory.tables.bad.sum() == 0.0
    sim.step([sim.noop])
    assert memory.tables.good[where * N_EVENTS + Op.ANALYZE] == memory.tables.good.sum() == 1.0
    assert len(memory) == 1 and memory.tables.bad.sum() == 0.0


@pytest.mark.parametrize("known", [False, True])
def test_a_breach_within_the_window_is_blamed_on_its_group(known: bool) -> None:
    memory = ImmuneMemory(MemoryConfig(window_ticks=4))
    scenario = scenario_of("easy", security__security_clock=1e9 if known else 0.0, security__credential_rate=0.0)
    sim = Simulator(scenario, 1, memory=memory)
    sim.reset([0])
    r = sim.state.resources[0]
    r["hidden_epss"], r["hidden_count"] = 0.0, 0
    r["credential_days"] = 0.0
    r["hidden_epss"][0] = 1.0  # with the clock of `known`, breached for certain
    sim.step([0 * N_OPS + Op.ENABLE_LOGGING])
    assert (r["incident"][0] == BREACH_INCIDENT) == known
    for _ in range(4):
        sim.step([sim.noop])
    ops = memory.tables.bad.reshape(N_CONTEXTS, N_EVENTS)[:, Op.ENABLE_LOGGING].sum()
    breaches = memory.tables.bad.reshape(N_CONTEXTS, N_EVENTS)[:, N_OPS + BREACH_INCIDENT - 1].sum()
    assert (ops > 0) == known and (breaches > 0) == known
    if known:
        assert memory.top(1)[0]["severity"] == 1.0


def test_a_situation_is_told_by_what_is_seen_of_it() -> None:
    """A late metric counts as it is shown, from the first tick on; what it has not shown yet does not count."""
    sim = Simulator(scenario_of("hard"), 1, memory=ImmuneMemory())
    sim.reset([0])
    r = sim.state.resources[0]
    slot = int(np.flatnonzero(r["lag"] == 2)[0])
    group = sim.state.groups[0, r["group"][slot]]
    assert np.ptp(r["past_health"][slot]) == np.ptp(r["past_utilisation"][slot]) == 0.0
    before = context(group, r[slot])
    r["health"][slot], r["utilisation"][slot] = 0.1, 5.0
    r["past_health"][slot, :2], r["past_utilisation"][slot, :2] = 0.1, 5.0
    assert context(group, r[slot]) == before
    r["past_health"][slot, 2], r["past_utilisation"][slot, 2] = 0.1, 5.0
    assert "health < 0.5, load > 0.8" in describe(context(group, r[slot]) * N_EVENTS)


def test_incidents_have_signatures_of_their_own() -> None:
    assert EVENT_NAMES[N_OPS + FAILURE_INCIDENT - 1] == "failure"
    assert len({describe(k) for k in range(N_SIGNATURES)}) == N_SIGNATURES
    assert "PATCH on vm" in describe(int(Op.PATCH))


def test_notes_of_the_last_episode_are_forgotten_at_reset() -> None:
    memory, sim = trained(MemoryConfig(window_ticks=1_000))
    assert (sim.state.pending["signature"] >= 0).any()
    sim.reset(np.arange(6))
    assert (sim.state.pending["signature"] < 0).all()
    assert len(memory) == 0


def test_the_waiting_list_drops_the_oldest_when_it_is_full() -> None:
    _, sim = trained(MemoryConfig(window_ticks=1_000), ticks=90)
    full = (sim.state.pending["signature"] >= 0).all(axis=1)
    assert full.any()
    for b in np.flatnonzero(full):
        ticks = np.sort(sim.state.pending["tick"][b])
        assert ticks[-1] >= 80  # the newest are there
        assert ticks[0] > 0


# ---------------------------------------------------------------- antibodies


def test_an_antibody_forms_when_the_evidence_is_enough_and_vetoes_with_its_reason() -> None:
    memory = ImmuneMemory(MemoryConfig())
    sim = Simulator(scenario_of("medium"), 1, memory=memory)
    sim.reset([0])
    slot = int(np.flatnonzero(sim.masks[0].reshape(-1)[:-1].reshape(-1, N_OPS)[:, Op.PATCH])[0])
    r = sim.state.resources[0, slot]
    where, action = context(sim.state.groups[0, r["group"]], r), slot * N_OPS + Op.PATCH
    teach(memory, where, Op.PATCH, bad=memory.config.minimum_evidence - 1)
    sim.look()
    assert sim.masks[0, action]  # too little evidence
    teach(memory, where, Op.PATCH, bad=50.0)
    sim.look()
    verdict = sim.verdict(0, action)
    assert not sim.masks[0, action] and verdict.code == VETOED and verdict.rules == ("antibody",)
    assert "immune memory" in verdict.reason
    assert memory.top(1)[0]["vetoed"]
    assert r["memory_risk"] == memory.tables.risk[where] > 0.5
    teach(memory, where, Op.PATCH, bad=50.0, good=500.0)
    sim.look()
    assert sim.masks[0, action]  # it went well often enough


def test_a_veto_whose_antibody_has_faded_since_the_last_look_still_has_its_reason() -> None:
    memory = ImmuneMemory()
    sim = Simulator(scenario_of("medium"), 1, memory=memory)
    sim.reset([0])
    slot = int(np.flatnonzero(sim.masks[0, :-1].reshape(-1, N_OPS)[:, Op.PATCH])[0])
    r, action = sim.state.resources[0, slot], slot * N_OPS + Op.PATCH
    where = context(sim.state.groups[0, r["group"]], r)
    teach(memory, where, Op.PATCH, bad=50.0)
    sim.look()
    teach(memory, where, Op.PATCH, bad=0.0)
    verdict = sim.verdict(0, action)
    assert not sim.masks[0, action] and verdict.code == VETOED and verdict.rules == ("antibody",)
    assert sim.verdict(0, slot * N_OPS + Op.RESTART).code == ADMISSIBLE
    sim.look()
    assert sim.masks[0, action] and sim.verdict(0, action).code == ADMISSIBLE


def test_only_disruptive_operations_are_vetoed_by_memory() -> None:
    memory = ImmuneMemory()
    for op in range(N_OPS):
        teach(memory, 0, Op(op), bad=1_000.0)
    assert int(memory.tables.antibodies[0]) == DISRUPTIVE_OPS
    assert not contains(int(memory.tables.antibodies[0]), Op.ANALYZE)


def test_an_antibody_fades_over_episodes() -> None:
    memory = ImmuneMemory(MemoryConfig(decay=0.99))
    teach(memory, 3, Op.STOP, bad=30.0)
    assert memory.tables.antibodies[3] and memory.tables.risk[3] > 0.5
    before = memory.tables.risk[3]
    memory.end_episodes(100)
    assert 0.0 < memory.tables.bad[3 * N_EVENTS + Op.STOP] == 30.0 * 0.99**100
    assert memory.tables.risk[3] < before
    assert not memory.tables.antibodies[3]  # too little evidence is left


def test_decay_does_not_depend_on_how_episodes_are_grouped() -> None:
    at_once, in_turn = ImmuneMemory(), ImmuneMemory()
    for memory in (at_once, in_turn):
        teach(memory, 3, Op.STOP, bad=30.0)
    at_once.end_episodes(250)
    for _ in range(250):
        in_turn.end_episodes(1)
    assert at_once.tables.episodes[0] == in_turn.tables.episodes[0] == 250
    np.testing.assert_allclose(at_once.tables.bad, in_turn.tables.bad, rtol=1e-12)


@pytest.mark.parametrize(("prior_bad", "prior_good"), [(0.5, 9.5), (0.1, 0.2), (1 / 3, 7.7)])
def test_what_was_never_seen_has_no_risk(prior_bad: float, prior_good: float) -> None:
    memory = ImmuneMemory(MemoryConfig(prior_bad=prior_bad, prior_good=prior_good))
    assert (memory.tables.risk == 0.0).all() and (memory.tables.antibodies == 0).all()


def test_episodes_are_counted_when_their_horizon_is_reached() -> None:
    memory = ImmuneMemory()
    sim = Simulator(scenario_of("easy", horizon__ticks=3), 4, memory=memory)
    sim.reset(np.arange(4))
    for t in range(5):
        assert memory.tables.episodes[0] == (4 if t >= 3 else 0)
        sim.step(np.full(4, sim.noop))


# ---------------------------------------------------------------- who writes, who reads


def test_forks_never_write() -> None:
    memory, sim = trained()
    before = [a.copy() for a in memory.tables]
    fork = sim.fork(0, 8)
    play(fork, 35, noop_share=0.1)
    sim.peek(0, np.flatnonzero(sim.masks[0]))
    sim.idle_totals()
    assert all(np.array_equal(a, b) for a, b in zip(before, memory.tables, strict=True))


def test_forks_read_the_memory_of_their_world() -> None:
    _, sim = trained()
    assert memory_column(sim).any()
    assert np.array_equal(memory_column(sim.fork(2)), memory_column(sim)[2:3])


@pytest.mark.parametrize("change", [{"frozen": True}, {"enabled": False}])
def test_a_frozen_or_disabled_memory_never_writes(change: dict[str, bool]) -> None:
    learned, _ = trained()
    memory = ImmuneMemory(MemoryConfig(**{**HASTY.__dict__, **change}))
    for mine, theirs in zip(memory.tables, learned.tables, strict=True):
        mine[:] = theirs
    sim = Simulator(scenario_of("easy", horizon__ticks=30), 4, memory=memory)
    sim.reset(np.arange(4))
    play(sim, 30, noop_share=0.1)
    assert same_memory(memory, learned)
    assert memory_column(sim).any() == change.get("frozen", False)


def test_off_has_no_features_and_changes_nothing() -> None:
    sims = [Simulator(scenario_of("easy"), 3, memory=m) for m in (None, ImmuneMemory(MemoryConfig(enabled=False)))]
    for sim in sims:
        sim.reset([1, 2, 3])
    for actions in play(sims[0], 60, noop_share=0.2):
        sims[1].step(actions)
        assert not memory_column(sims[1]).any()
    assert same_state(sims[0].state, sims[1].state)


def test_a_frozen_memory_keeps_worlds_independent_of_the_batch() -> None:
    learned, _ = trained()
    frozen = ImmuneMemory(MemoryConfig(**{**HASTY.__dict__, "frozen": True}))
    for mine, theirs in zip(frozen.tables, learned.tables, strict=True):
        mine[:] = theirs
    together, alone = (Simulator(scenario_of("easy"), n, memory=frozen) for n in (5, 1))
    together.reset(np.arange(5))
    actions = play(together, 50, noop_share=0.2)
    alone.reset([3])
    for action in actions[:, 3]:
        alone.step([action])
    assert same_state(alone.state, (a[3:4] for a in together.state))


# ---------------------------------------------------------------- files


def test_a_saved_memory_comes_back_exactly(tmp_path: Path) -> None:
    memory, _ = trained()
    memory.end_episodes(230)
    memory.save(tmp_path / "memory.json")
    loaded = ImmuneMemory.load(tmp_path / "memory.json")
    assert same_memory(memory, loaded) and loaded.config == memory.config
    assert loaded.top() == memory.top() and len(loaded) == len(memory)
    other = ImmuneMemory.load(tmp_path / "memory.json", MemoryConfig(frozen=True))
    assert other.config.frozen and np.array_equal(other.tables.bad, memory.tables.bad)
    assert list(tmp_path.iterdir()) == [tmp_path / "memory.json"]  # no temporary file is left


GOOD: dict[str, Any] = {"format": 1, "config": {}, "episodes": 0, "signatures": {"5": [1.0, 2.0, 0.5, 0]}}
BAD_FILES: dict[str, Any] = {
    "text": "not json",
    "empty": "",
    "list": [],
    "number": 7,
    "format": {**GOOD, "format": 99},
    "no signatures": {k: v for k, v in GOOD.items() if k != "signatures"},
    "signatures are a list": {**GOOD, "signatures": [1, 2]},
    "signature is not a number": {**GOOD, "signatures": {"x": [1.0, 2.0, 0.5, 0]}},
    "signature too large": {**GOOD, "signatures": {str(N_SIGNATURES): [1.0, 2.0, 0.5, 0]}},
    "signature negative": {**GOOD, "signatures": {"-1": [1.0, 2.0, 0.5, 0]}},
    "too few numbers": {**GOOD, "signatures": {"5": [1.0, 2.0]}},
    "text for a number": {**GOOD, "signatures": {"5": ["a", 2.0, 0.5, 0]}},
    "negative evidence": {**GOOD, "signatures": {"5": [-1.0, 2.0, 0.5, 0]}},
    "not finite": {**GOOD, "signatures": {"5": [float("nan"), 2.0, 0.5, 0]}},
    "unknown setting": {**GOOD, "config": {"decayy": 1.0}},
    "setting of a wrong type": {**GOOD, "config": {"prior_bad": "much"}},
    "config is a list": {**GOOD, "config": [1]},
    "episodes are text": {**GOOD, "episodes": "many"},
}


def test_the_good_file_is_good(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text(json.dumps(GOOD))
    assert ImmuneMemory.load(tmp_path / "m.json").tables.good[5] == 2.0


@pytest.mark.parametrize("what", BAD_FILES)
def test_a_bad_file_is_refused_in_one_line(tmp_path: Path, what: str) -> None:
    path, content = tmp_path / "m.json", BAD_FILES[what]
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(ValueError, match=r"is not a saved immune memory .*check memory\.path$") as error:
        ImmuneMemory.load(path)
    assert "\n" not in str(error.value)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="is not a saved immune memory"):
        ImmuneMemory.load(tmp_path / "m.json")


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no immune memory at"):
        ImmuneMemory.load(tmp_path / "none.json")
    with pytest.raises(ValueError, match=r"check memory\.path"):
        ImmuneMemory.load(tmp_path)
