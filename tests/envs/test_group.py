"""The group scorer: the order of levels, gains that forks confirm, and no trace in the worlds."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloudrl import ImmuneMemory, Simulator
from cloudrl.actions import N_OPS, OP_NAMES, Op
from cloudrl.errors import UserError
from cloudrl.llm.config import GroupConfig, LookaheadConfig, Reference
from cloudrl.llm.parse import NO_ACTION, Code, parse
from cloudrl.llm.schema import reply
from cloudrl.memory.config import MemoryConfig
from cloudrl.policies.lookahead import FOLLOW_UP, Lookahead
from cloudrl.safety.config import ActionSet, SafetyConfig, SafetyMode
from cloudrl.types import ADMISSIBLE, INVALID, VETOED
from envs.group import PARTS, ActionValues, GroupScorer, Level, explain
from tests.core.play import FULL, play, same_state, scenario_of

LEVEL_OF = {ADMISSIBLE: Level.ADMISSIBLE, INVALID: Level.INVALID, VETOED: Level.VETOED}


def worlds(name: str = "easy", n: int = 6, ticks: int = 25, **options: object) -> Simulator:
    """Worlds after some random play."""
    sim = Simulator(scenario_of(name), n, **options)  # type: ignore[arg-type]
    sim.reset(np.arange(n))
    play(sim, ticks, seed=2, noop_share=0.6)
    return sim


def text_of(sim: Simulator, action: int) -> str:
    """The reply that asks for a flat action."""
    if action == sim.noop:
        return reply("NOOP")
    slot, op = divmod(action, N_OPS)
    return reply(OP_NAMES[op], slot)


@cache
def one_world(mode: SafetyMode) -> Simulator:
    return Simulator(scenario_of("easy"), 1, safety=SafetyConfig(mode))


REPLIES = st.one_of(
    st.builds(reply, st.sampled_from(OP_NAMES), st.integers(0, 8)),
    st.sampled_from(["", "{}", '{"action":"REBOOT","resource":"r1"}', '{"action":"PATCH"}', "PATCH r1", "[]"]),
    st.text(max_size=20),
)


# ---------------------------------------------------------------- the order of levels


@settings(max_examples=300 if FULL else 20, deadline=None)
@given(
    texts=st.lists(REPLIES, min_size=8, max_size=8),
    seed=st.integers(0, 9_999),
    ticks=st.integers(0, 95),
    horizon=st.sampled_from([0, 1, 7, "end"]),
    reference=st.sampled_from(Reference),
    mode=st.sampled_from(SafetyMode),
    scale=st.floats(1e-6, 1e6),
    floor=st.floats(1e-3, 1e3),
    gaps=st.lists(st.floats(1e-3, 10.0), min_size=4, max_size=4),
)
def test_malformed_below_unknown_below_invalid_below_vetoed_below_admissible(
    texts: list[str], seed: int, ticks: int, horizon: int | str, reference: Reference, mode: SafetyMode,
    scale: float, floor: float, gaps: list[float],
) -> None:  # fmt: skip
    vetoed, invalid, unknown, malformed = -floor - np.cumsum(gaps)
    config = GroupConfig(
        LookaheadConfig(horizon, reference), scale, floor, vetoed=vetoed, invalid=invalid, unknown=unknown,
        malformed=malformed,
    )  # fmt: skip
    sim = one_world(mode)
    sim.reset([seed])
    play(sim, ticks, seed=seed, noop_share=0.3)
    scorer = GroupScorer(sim, config)
    # the group, and with it every action there is: the ruinous ones too
    everything = [[*texts, *(text_of(sim, a) for a in range(sim.n_actions))]]
    result = scorer.score([0], everything)
    order = np.argsort(result.rewards[0], kind="stable")
    assert (np.diff(result.levels[0][order]) >= 0).all()
    for level in Level:
        for higher in list(Level)[level + 1 :]:
            low, high = (result.rewards[0][result.levels[0] == x] for x in (level, higher))
            assert not low.size or not high.size or low.max() < high.min()
    assert np.isfinite(result.rewards).all()


def test_levels_are_those_of_parser_and_safety_layer() -> None:
    for mode in SafetyMode:
        sim = worlds("medium", 4, safety=SafetyConfig(mode))
        texts = [text_of(sim, a) for a in range(sim.n_actions)]
        texts += ["nonsense", '{"action":"REBOOT","resource":"r1"}', '{"action":"PATCH","resource":"r99"}']
        result = GroupScorer(sim, GroupConfig(LookaheadConfig(0))).score(np.arange(4), [texts] * 4)
        for k in range(4):
            for a in range(sim.n_actions):
                verdict = sim.verdict(k, a)
                assert result.levels[k, a] == LEVEL_OF[verdict.code]
                assert result.actions[k, a] == a
                assert explain(sim, k, result.parsed[k][a]).startswith(verdict.name)
            assert result.levels[k, -3:].tolist() == [Level.MALFORMED, Level.UNKNOWN, Level.UNKNOWN]
            assert result.codes[k, -3:].tolist() == ["not_json", "unknown_action", "unknown_resource"]
            assert (result.actions[k, -3:] == NO_ACTION).all()
            assert explain(sim, k, result.parsed[k][-1]) == "unknown_resource"
        if mode is SafetyMode.enforce:
            assert np.array_equal(result.allowed[:, :-3], sim.masks)
        counts = result.counts()
        assert sum(v for key, v in counts.items() if key.startswith("level/")) == result.levels.size
        assert counts["code/unknown_action"] == 4 and counts["code/ok"] == 4 * sim.n_actions


def test_padded_slots_and_a_smaller_action_set_are_unknown() -> None:
    sim = Simulator(scenario_of("easy"), 2, n_slots=9, safety=SafetyConfig(actions=ActionSet.core))
    sim.reset([0, 1])
    scorer = GroupScorer(sim, GroupConfig(LookaheadConfig(0)))
    texts = [reply("PATCH", 5), reply("PATCH", 6), reply("START", 0), reply("NOOP")]
    result = scorer.score([0, 1], [texts] * 2)
    assert result.codes[0].tolist() == ["ok", "unknown_resource", "unknown_action", "ok"]
    assert result.actions[0, 3] == sim.noop == 9 * N_OPS
    values = scorer.values_all()
    assert (values.levels[:, 6 * N_OPS : 9 * N_OPS] == Level.UNKNOWN).all()
    assert np.array_equal(values.allowed, sim.masks)


# ---------------------------------------------------------------- gains


@pytest.mark.parametrize("reference", Reference)
@pytest.mark.parametrize("horizon", [0, 4, "end"])
def test_gains_are_what_forks_earn(reference: Reference, horizon: int | str) -> None:
    """The scorer against forks that are stepped one by one, under the reference's own actions."""
    sim = worlds(n=3, ticks=70)
    scorer = GroupScorer(sim, GroupConfig(LookaheadConfig(horizon, reference, discount=0.9)))
    gains = scorer.values_all().gains
    rng = np.random.default_rng(0)
    for world in range(3):
        allowed = np.flatnonzero(sim.masks[world])
        for action in [sim.noop, *rng.choice(allowed, 6, replace=False)]:
            ask = reference is Reference.follow_up and action != sim.noop and action % N_OPS == Op.ANALYZE
            mine = played_by_hand(sim, world, int(action), horizon, scorer, bool(ask))
            idle = played_by_hand(sim, world, sim.noop, horizon, scorer, bool(ask))
            assert gains[world, action] == pytest.approx(mine - idle, abs=1e-9)


def played_by_hand(
    sim: Simulator, world: int, action: int, horizon: int | str, scorer: GroupScorer, ask: bool
) -> float:
    """What one fork earns, discounted by 0.9 per tick; `ask`: the follow-up of an ANALYZE plays on."""
    policy = FOLLOW_UP if ask else scorer._reference
    fork = sim.fork(world, 1)
    total, factor, ticks = 0.0, 1.0, 0
    while True:
        tick = int(fork.state.worlds["tick"][0])
        fork.step([action])
        total += factor * fork.rewards[0]
        if fork.done[0] or (horizon != "end" and ticks >= int(horizon)):
            return total
        factor, ticks, tick = factor * 0.9, ticks + 1, tick + 1
        action = int(policy.act(fork.observations, fork.masks, fork.state.worlds["key"], tick)[0])


def test_to_the_end_it_agrees_with_the_lookahead_of_the_ppo_trainer() -> None:
    sim = worlds("medium", 4, ticks=200)
    values = GroupScorer(sim, GroupConfig()).values_all()  # "end", follow_up
    candidates = np.array([np.flatnonzero(row)[:5] for row in sim.masks])
    worth = Lookahead(sim, threads=1).worth(candidates)
    once = ~np.isnan(worth)
    found = np.take_along_axis(values.gains, candidates, axis=1)
    np.testing.assert_allclose(found[once], worth[once], atol=1e-9)
    assert once.sum() >= 8


def test_parts_sum_to_the_gain_and_noop_is_the_zero() -> None:
    sim = worlds("medium", 5, ticks=40)
    texts = [text_of(sim, a) for a in range(sim.n_actions)]
    result = GroupScorer(sim).score(np.arange(5), [texts] * 5)
    assert tuple(result.breakdown) == PARTS
    total = sum(result.breakdown.values())
    assert np.allclose(total[result.allowed], result.gains[result.allowed], atol=1e-9)
    assert not total[~result.allowed].any() and np.isnan(result.gains[~result.allowed]).all()
    for part in (result.rewards, result.gains, *result.breakdown.values()):
        assert not part[:, sim.noop].any()
    first = sim.peek(0, np.flatnonzero(sim.masks[0]))[0]
    now = sum(result.breakdown[p] for p in PARTS if p != "lookahead")[0, sim.masks[0]]
    assert np.allclose(now, first - first[-1])


def test_small_gains_count_in_full_and_order_is_kept() -> None:
    scorer = GroupScorer(worlds(n=1), GroupConfig())
    gains = np.array([-1e9, -50.0, -2.0, -1e-4, 0.0, 1e-4, 2.0, 50.0])
    bounded = scorer._bounded(gains)
    assert (np.diff(bounded[1:]) > 0).all() and bounded[0] == -scorer.config.floor <= bounded[1]
    assert bounded[3:6] == pytest.approx([-1e-4, 0.0, 1e-4], rel=1e-3)
    assert bounded[-1] < scorer.config.ceiling


# ---------------------------------------------------------------- groups and batches


def test_a_state_scores_the_same_alone_in_any_company_and_on_any_number_of_threads() -> None:
    sim = worlds(n=8)
    rng = np.random.default_rng(0)
    texts = [[text_of(sim, a) for a in rng.integers(0, sim.n_actions, 6)] for _ in range(8)]
    together = GroupScorer(sim).score(np.arange(8), texts)
    threads = GroupScorer(sim, threads=2).score(np.arange(8), texts)
    again = GroupScorer(sim).score([5, 5, 2], [texts[5], texts[5][::-1], texts[2]])
    for name in ("rewards", "levels", "actions", "gains"):
        whole = getattr(together, name)
        np.testing.assert_array_equal(whole, getattr(threads, name))
        part = getattr(again, name)
        np.testing.assert_array_equal(part, [whole[5], whole[5][::-1], whole[2]])


def test_groups_and_all_values_agree() -> None:
    sim = worlds(n=4)
    scorer = GroupScorer(sim)
    values = scorer.values_all([3, 1])
    texts = [text_of(sim, a) for a in range(sim.n_actions)]
    result = scorer.score([3, 1], [texts] * 2)
    for name in ("rewards", "levels", "gains"):
        np.testing.assert_array_equal(getattr(values, name), getattr(result, name))


def test_a_distinct_action_is_played_once() -> None:
    sim = worlds(n=2)
    scorer = GroupScorer(sim)
    played: list[int] = []
    forks = scorer._forks.play
    scorer._forks.play = lambda which, *rest: (played.append(len(which)), forks(which, *rest))[1]  # type: ignore[method-assign]
    allowed = int(np.flatnonzero(sim.masks[0])[1])
    scorer.score([0, 0], [[text_of(sim, allowed)] * 8, [text_of(sim, sim.noop)] * 8])
    assert sum(played) <= 2 * 3  # it, NOOP, and the NOOP that is subtracted; in two passes at most


def test_nothing_in_the_worlds_or_their_memory_changes() -> None:
    memory = ImmuneMemory(MemoryConfig(window_ticks=4))
    sim = worlds(n=4, ticks=40, memory=memory)
    before, tables = sim.snapshot(), [table.copy() for table in memory.tables]
    observations, masks = sim.observations.copy(), sim.masks.copy()
    for reference in Reference:
        GroupScorer(sim, GroupConfig(LookaheadConfig("end", reference)), threads=2).values_all()
    assert same_state(before, sim.state)
    assert all(np.array_equal(a, b) for a, b in zip(tables, memory.tables, strict=True))
    assert np.array_equal(observations, sim.observations) and np.array_equal(masks, sim.masks)


def test_scores_follow_the_worlds_as_they_walk_on() -> None:
    sim = worlds(n=2)
    scorer = GroupScorer(sim)
    first = scorer.values_all().gains
    sim.step(np.full(2, sim.noop))
    assert not np.array_equal(first, scorer.values_all().gains, equal_nan=True)
    np.testing.assert_array_equal(scorer.values_all().gains, GroupScorer(sim).values_all().gains)


def test_thinking_models() -> None:
    sim = worlds(n=1)
    text = "<think>nothing is due</think>" + reply("NOOP")
    assert GroupScorer(sim).score([0], [[text]]).codes[0, 0] == Code.not_json
    assert GroupScorer(sim, thinks=True).score([0], [[text]]).codes[0, 0] == Code.ok


# ---------------------------------------------------------------- figures that keep a trainer honest


def test_constant_noop_and_random() -> None:
    rewards = np.array([[0.5, -1.1, 0.0], [-0.2, -1.2, 0.0], [-0.9, 2.0, 0.0]])
    levels = np.where(rewards < -1.0, int(Level.VETOED), int(Level.ADMISSIBLE))
    values = ActionValues(levels, rewards, rewards)
    assert values.best_constant() == (2, 0.0)
    assert values.noop_wins().tolist() == [False, True, False]
    assert values.best() == pytest.approx((0.5 + 0.0 + 2.0) / 3)
    assert values.random_valid() == pytest.approx((0.25 - 0.1 + 1.1 / 3) / 3)


def test_a_group_is_won_by_noop_if_a_noop_is_among_its_best() -> None:
    sim = worlds("quiet", 2, ticks=3)  # an ANALYZE earns nothing here
    noop, ask = reply("NOOP"), reply("ANALYZE", 0)
    result = GroupScorer(sim).score([0, 1, 0], [[noop, ask], [ask, ask], ["nonsense", noop]])
    assert result.noop_wins.tolist() == [True, False, True]
    assert result.rewards[0, 1] < 0.0


# ---------------------------------------------------------------- wrong input


def test_wrong_shapes_and_worlds_are_refused() -> None:
    scorer = GroupScorer(worlds(n=2))
    with pytest.raises(ValueError, match="all of one size"):
        scorer.score([0, 1], [["a"], ["a", "b"]])
    with pytest.raises(ValueError, match="1 groups of sizes"):
        scorer.score([0, 1], [["a"]])
    with pytest.raises(IndexError, match=r"world 2 is outside 0\.\.1"):
        scorer.score([2], [["a"]])
    empty = scorer.score([], [])
    assert empty.rewards.shape == (0, 0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LookaheadConfig(-1), "lookahead.horizon=-1: must be at least 0"),
        (lambda: LookaheadConfig("soon"), "lookahead.horizon=soon: must be a number of ticks or 'end'"),
        (lambda: LookaheadConfig(discount=1.5), r"lookahead.discount=1.5: must be in \[0, 1\]"),
        (lambda: GroupConfig(scale=0.0), "group.scale=0.0: must be greater than 0"),
        (lambda: GroupConfig(vetoed=-0.9), "group.vetoed=-0.9: must lie below -group.floor=-1.0"),
        (lambda: GroupConfig(unknown=-1.15), "group.unknown=-1.15: must lie below group.invalid=-1.2"),
        (lambda: GroupConfig(malformed=math.nan), "group.malformed=nan: must be a finite number"),
        (lambda: replace(GroupConfig(), floor=1.3), "group.vetoed=-1.1: must lie below -group.floor=-1.3"),
    ],
)
def test_settings_that_break_the_order_are_refused(make: object, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make()  # type: ignore[operator]
    assert LookaheadConfig("12").horizon == 12


def test_a_reply_played_through_the_simulator_earns_its_first_part() -> None:
    """The score's immediate part is the reward that the world then really gives."""
    sim = worlds(n=1)
    action = int(np.flatnonzero(sim.masks[0])[3])
    result = GroupScorer(sim, GroupConfig(LookaheadConfig(0))).score([0], [[text_of(sim, action)]])
    idle = sim.fork(0)
    idle.step([sim.noop])
    sim.step([parse(text_of(sim, action), 6).action])
    assert result.gains[0, 0] == pytest.approx(sim.rewards[0] - idle.rewards[0])
