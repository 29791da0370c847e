"""The kernels against the twin, bit for bit: no tolerance anywhere."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from cloudrl import ImmuneMemory, Simulator
from cloudrl.memory.config import MemoryConfig
from cloudrl.memory.immune import N_CONTEXTS
from cloudrl.memory.signature import N_EVENTS
from cloudrl.safety.config import ActionSet, SafetyConfig, SafetyMode
from tests.core.play import FULL, WORLDS, random_actions, same_state, scenario_of, seed_of
from tests.twin import TwinEnv, TwinMemory
from tests.twin.compare import bits, differences

NOOP_SHARES = (0.3, 0.6, 0.95)
"""Chains of worlds differ in how often they let things be: nothing but operations wears every world down."""

WARY = MemoryConfig(window_ticks=6, prior_bad=4.0, prior_good=1.0, minimum_evidence=2.0, credible_z=1.0)
"""A memory that forms antibodies within a short test."""


class Chains:
    """B chains of episodes, each world restarted from its chain's next seed when its horizon is reached."""

    def __init__(self, sim: Simulator, first: int = 0) -> None:
        self.sim, self.first, self.episode = sim, first, -1
        self.restart()

    def restart(self) -> None:
        self.episode += 1
        self.sim.reset([seed_of(self.first + c, self.episode) for c in range(self.sim.n_worlds)])

    def step(self, actions: np.ndarray) -> None:
        self.sim.step(actions)
        if self.sim.done.all():
            self.restart()


def assert_equal(twin: TwinEnv, sim: Simulator, b: int, when: str) -> None:
    """World `b` of the simulator is the twin's world, and looks the same."""
    found = differences(twin.world, sim.state, b)
    assert not found, f"{when}: {'; '.join(found[:6])}"
    seen = twin.observation()
    assert np.array_equal(seen, sim.observations[b]), (
        f"{when}: observation {np.flatnonzero(seen != sim.observations[b])}"
    )
    assert np.array_equal(twin.action_masks(), sim.masks[b]), f"{when}: mask"


def compare(name: str, ticks: int, n_twins: int, batches: tuple[int, ...], safety: SafetyConfig) -> int:
    """The twins against the largest batch, the other batches against it too. Returns the ticks compared."""
    scenario = scenario_of(name)
    chains = [Chains(Simulator(scenario, n, safety=safety)) for n in batches]
    largest = chains[-1].sim
    twins = [TwinEnv(largest.scenario, safety_config=safety) for _ in range(n_twins)]
    uniforms = np.random.default_rng(len(name)).random((ticks, largest.n_worlds, 2))
    shares = np.resize(NOOP_SHARES, largest.n_worlds)
    episode = -1
    for t in range(ticks):
        if chains[-1].episode > episode:
            episode = chains[-1].episode
            for c, twin in enumerate(twins):
                twin.reset(seed=seed_of(c, episode))
                assert_equal(twin, largest, c, f"{name} world {c} episode {episode} at reset")
        actions = random_actions(uniforms[t], largest.masks, shares)
        last_tick = int(largest.state.worlds["tick"][0]) == largest.ticks - 1
        for chain in chains:
            chain.step(actions[: chain.sim.n_worlds])
        for chain in chains[:-1]:
            n = chain.sim.n_worlds
            assert np.array_equal(chain.sim.rewards, largest.rewards[:n]), f"rewards at B={n}, tick {t}"
            assert np.array_equal(chain.sim.observations, largest.observations[:n])
            assert np.array_equal(chain.sim.masks, largest.masks[:n])
            assert same_state(chain.sim.state, (a[:n] for a in largest.state))
        for c, twin in enumerate(twins):
            assert twin.play(int(actions[c])) == largest.rewards[c], f"{name} world {c} tick {t}: reward"
            if not last_tick:  # the batch has begun the next episode; compared at the top of the loop
                assert_equal(twin, largest, c, f"{name} world {c} tick {t} action {actions[c]}")
    return ticks * n_twins


def compare_with_memory(name: str, ticks: int, n_worlds: int, config: MemoryConfig, safety: SafetyConfig) -> int:
    """Worlds that share a memory: what one learns, all see in the next tick. Returns the ticks with antibodies."""
    memory, twin_memory = ImmuneMemory(config), TwinMemory(config)
    chains = Chains(Simulator(scenario_of(name), n_worlds, memory=memory, safety=safety))
    sim = chains.sim
    twins = [TwinEnv(sim.scenario, memory=twin_memory, safety_config=safety) for _ in range(n_worlds)]
    uniforms = np.random.default_rng(n_worlds).random((ticks, n_worlds, 2))
    episode, antibodies = -1, 0
    for t in range(ticks):
        if chains.episode > episode:
            episode = chains.episode
            for c, twin in enumerate(twins):
                twin.reset(seed=seed_of(c, episode))
        for c, twin in enumerate(twins):
            assert_equal(twin, sim, c, f"{name} with memory, world {c} tick {t}")
        actions = random_actions(uniforms[t], sim.masks, np.resize(NOOP_SHARES, n_worlds))
        chains.step(actions)
        for c, twin in enumerate(twins):
            assert twin.play(int(actions[c])) == sim.rewards[c]
        twin_memory.settle(n_worlds if twins[0].finished else 0)
        antibodies += bool(twin_memory.antibodies)
    assert_same_memory(memory, twin_memory)
    return antibodies


def assert_same_memory(memory: ImmuneMemory, twin: TwinMemory) -> None:
    tables = memory.tables
    assert int(tables.episodes[0]) == twin.episodes
    seen = {k: e for (where, event), e in twin.evidence.items() for k in (where * N_EVENTS + event,)}
    assert len(memory) == len(seen)
    for k, e in seen.items():
        assert (tables.bad[k], tables.good[k], tables.severity[k], tables.last_seen[k]) == (
            e.bad, e.good, e.severity, e.last_seen,
        )  # fmt: skip
    assert [int(x) for x in tables.antibodies] == [bits(twin.antibodies.get(c, ())) for c in range(N_CONTEXTS)]
    assert tables.risk.tolist() == [twin.risk.get(c, 0.0) for c in range(N_CONTEXTS)]


# ---------------------------------------------------------------- every day


@pytest.mark.parametrize("name", WORLDS)
def test_kernels_equal_twin_in_enforce_at_every_batch_size(name: str) -> None:
    compare(name, ticks=320, n_twins=2, batches=(1, 7, 256), safety=SafetyConfig())


@pytest.mark.parametrize("name", WORLDS)
def test_kernels_equal_twin_in_observe(name: str) -> None:
    compare(name, ticks=150, n_twins=2, batches=(2,), safety=SafetyConfig(SafetyMode.observe))


@pytest.mark.parametrize(
    ("mode", "actions"), [(SafetyMode.off, ActionSet.full), (SafetyMode.enforce, ActionSet.core)]
)
def test_kernels_equal_twin_without_rules_and_with_the_core_actions(mode: SafetyMode, actions: ActionSet) -> None:
    compare("medium", ticks=150, n_twins=2, batches=(2,), safety=SafetyConfig(mode, actions))


@pytest.mark.parametrize("mode", [SafetyMode.enforce, SafetyMode.observe])
def test_kernels_equal_twin_with_a_shared_memory(mode: SafetyMode) -> None:
    formed = compare_with_memory("easy", 400, 3, WARY, SafetyConfig(mode))
    assert formed > 0, "no antibody formed: the test does not reach the rule"


def test_kernels_equal_twin_with_a_frozen_and_with_a_disabled_memory() -> None:
    for config in (replace(WARY, frozen=True), replace(WARY, enabled=False)):
        assert compare_with_memory("easy", 100, 2, config, SafetyConfig()) == 0


def test_kernels_equal_twin_on_padded_worlds() -> None:
    scenario = scenario_of("easy")
    sim = Simulator(scenario, 1, n_slots=scenario.slots + 5)
    twin = TwinEnv(scenario, n_slots=sim.n_slots)
    sim.reset([3])
    twin.reset(seed=3)
    for u in np.random.default_rng(0).random((60, 1, 2)):
        assert_equal(twin, sim, 0, "padded")
        action = random_actions(u, sim.masks)
        sim.step(action)
        twin.play(int(action[0]))


# ---------------------------------------------------------------- the size that the issue states


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.skipif(not FULL, reason="CLOUDRL_FULL=1 runs it")
@pytest.mark.parametrize("name", WORLDS)
def test_kernels_equal_twin_at_full_size(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    start, compared = time.perf_counter(), 0
    for safety in (SafetyConfig(), SafetyConfig(SafetyMode.observe)):
        compared += compare(name, ticks=2_000, n_twins=20, batches=(1, 7, 256), safety=safety)
    compare_with_memory(name, 2_000, 3, WARY, SafetyConfig())
    with capsys.disabled():
        print(
            f"\nparity {name}: {compared} world-ticks (20 worlds) equal to the twin bit for bit, B = 1, 7, 256, "
            f"enforce and observe, {time.perf_counter() - start:.0f} s"
        )
