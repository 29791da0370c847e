"""Prompts: what is seen and nothing else, short, and the same for the same state.

CLOUDRL_REGENERATE=1 writes the golden files anew.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import numpy as np
import pytest

from cloudrl import ImmuneMemory, Simulator
from cloudrl.actions import DISRUPTIVE_OPS, N_OPS, OP_NAMES, Op, contains
from cloudrl.llm import compact, recall, words
from cloudrl.llm.bands import FACT, GAIN_EDGES, N_FACTS, NEEDS, RESOURCE_FACTS, bands, labour_of
from cloudrl.llm.prompt import STYLES, Prompter, messages, prompter, render, render_batch
from cloudrl.llm.schema import operations
from cloudrl.memory.signature import context
from cloudrl.observation import N_RESOURCE_FEATURES, RESOURCE_COLUMN
from cloudrl.policies.lookahead import Lookahead
from cloudrl.safety.config import ActionSet, SafetyConfig
from cloudrl.types import DELETED
from tests.core.play import FULL, WORLDS, play, scenario_of
from tests.llm import tokens
from tests.llm.worlds import any_observations, experienced, played

GOLDEN = Path(__file__).parent / "golden"


# ---------------------------------------------------------------- golden files


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", ["easy", "medium"])
def test_golden(name: str, style: str) -> None:
    sim = played(name, memory=experienced())
    texts = []
    for world in range(3):
        chat = messages(sim, world, style, allowed=style != "words")
        texts += [
            f"--- world {world}, {m['role']}\n{m['content']}" for m in chat if m["role"] == "user" or not world
        ]
    text = "\n".join(texts) + "\n"
    path = GOLDEN / f"{name}_{style}.txt"
    if os.environ.get("CLOUDRL_REGENERATE") == "1":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


# ---------------------------------------------------------------- nothing hidden


@pytest.mark.parametrize("name", WORLDS)
def test_what_is_hidden_does_not_change_a_prompt(name: str) -> None:
    sim = played(name, 3, memory=experienced())
    before = {(style, allowed): render_batch(sim, None, style, allowed) for style in STYLES for allowed in (0, 1)}
    r, w, rng = sim.state.resources, sim.state.worlds, np.random.default_rng(0)
    present = r["status"] < DELETED
    r["hidden_count"] += rng.integers(1, 9, r.shape) * present
    r["hidden_epss"] += rng.random(r.shape)
    r["hidden_cvss"] += rng.random(r.shape)
    r["leak"], r["repair_ticks"] = rng.random(r.shape), rng.integers(1, 50, r.shape)
    r["exposed"] = np.where(r["exposure_seen"] == 1, r["exposed"], 1 - r["exposed"])
    w["key"] += np.uint64(99)
    w["burst_ticks"] += 5
    sim.look()
    for (style, allowed), texts in before.items():
        assert render_batch(sim, None, style, bool(allowed)) == texts


@pytest.mark.parametrize("name", WORLDS)
def test_worlds_imagined_from_what_is_seen_have_the_same_prompt(name: str) -> None:
    sim = played(name, 3)
    for world in range(3):
        imagined = sim.fork(world, 4, luck="resampled", salt=7)
        imagined.look()
        for style in STYLES:
            assert set(render_batch(imagined, None, style)) == {render(sim, world, style)}


def test_late_sensors_are_read_late() -> None:
    sim = played("hard", 8)
    before = render_batch(sim)
    late = sim.state.resources["lag"] > 0
    assert late.any()
    sim.state.resources["health"][late] = 0.123
    sim.state.resources["past_health"][late, 0] = 0.123
    sim.look()
    assert render_batch(sim) == before


# ---------------------------------------------------------------- what it says


def line(text: str, slot: int) -> str:
    """The line of one resource."""
    return next(row for row in text.splitlines() if row.split()[0] == f"r{slot}")


def test_every_resource_has_its_line_and_no_other() -> None:
    for name in WORLDS:
        sim = played(name, 3)
        for world, n in enumerate(sim.state.worlds["n_resources"]):
            for style in ("compact", "full"):
                rows = [m[0] for row in render(sim, world, style).splitlines() if (m := re.match(r"r\d+\b", row))]
                assert rows == [f"r{k}" for k in range(n)]
            assert len(render(sim, world, "words").split()) == words.N_WORLD_WORDS + words.N_WORDS * n


def test_a_padded_world_reads_the_same() -> None:
    sims = [Simulator(scenario_of("easy"), 2, n_slots=n) for n in (6, 12)]
    for sim in sims:
        sim.reset([0, 10_000])
    for style in STYLES:
        small, large = (render_batch(sim, None, style) for sim in sims)
        assert small == large
    padded = prompter(sims[1], "words").indices(sims[1].observations)
    assert (padded[:, words.N_WORLD_WORDS + 6 * words.N_WORDS :] == -1).all()
    assert words.vocabulary(12)[: len(words.vocabulary(6))] == words.vocabulary(6)


def test_states_are_named() -> None:
    sim = Simulator(scenario_of("easy"), 1)
    sim.reset([0])
    r = sim.state.resources[0]
    r["status"][:4], r["busy_ticks"][:4], r["busy_op"][:4] = (0, 1, 2, 3), (3, 0, 0, 0), (int(Op.ENCRYPT), 0, 0, 0)
    r["past_health"][4], r["health"][4] = 0.3, 0.3
    sim.look()
    text = render(sim)
    for slot, word in enumerate(("busy", "stopped", "down", "gone", "health low")):
        assert word in line(text, slot), text
    assert ":" not in line(text, 0)  # nothing can be done while it is busy
    full = render(sim, style="full")
    for slot, word in enumerate(("busy for 3 more ticks", "stopped", "crashed", "deleted", "health 0.30")):
        assert word in line(full.replace(":", " :"), slot)


OPEN = {"exposed": 1, "exposure_seen": 1}


@pytest.mark.parametrize(
    ("need", "op", "changes"),
    [
        ("patch", Op.PATCH, {"known_count": 3, "known_epss": 0.9, "known_cvss": 9.0, **OPEN}),
        ("rotate", Op.ROTATE_CREDS, {"credential_days": 300.0, **OPEN}),
        ("restrict", Op.RESTRICT_ACCESS, OPEN),
        ("log", Op.ENABLE_LOGGING, {"logging": 0, "known_epss": 0.5, **OPEN}),
        ("encrypt", Op.ENCRYPT, {"encrypted": 0, "data_bearing": 1, "known_epss": 0.9, **OPEN}),
        ("shrink", Op.RESIZE_DOWN, {"size": 3}),
        ("stop", Op.STOP, {"job_start": -1, "size": 3}),
    ],
)  # fmt: skip
def test_a_need_that_is_called_high_is_worth_curing(need: str, op: Op, changes: dict[str, float]) -> None:
    """What the words say, forks of the true world confirm: the cure gains against doing nothing, on average."""
    sim = Simulator(scenario_of("easy", load__noise_sd=0.0), 160)
    sim.reset(np.arange(160))
    resources = sim.state.resources
    resources["hidden_epss"], resources["hidden_count"] = 0.0, 0
    rows = np.arange(160)
    slots = resources["idle"].argmax(axis=1) if need == "stop" else np.zeros(160, np.int64)
    for field, value in changes.items():
        resources[field][rows, slots] = value
    resources["past_utilisation"][rows, slots] = 0.05
    sim.look()
    band = bands(sim.observations, labour_of(sim.params[0]))[0][rows, slots, FACT[need]]
    actions = slots * N_OPS + int(op)
    high = (band == 3) & sim.masks[rows, actions]
    assert high.sum() >= 5, np.bincount(band)
    worth = Lookahead(sim, threads=1).worth(actions[:, None])[:, 0]
    assert worth[high].mean() > GAIN_EDGES[1]


def test_bands_are_indices_and_depend_on_their_row_alone() -> None:
    observations = any_observations(0, 4000, 8)
    labour = np.linspace(0.1, 1.5, len(NEEDS))
    resources, worlds = bands(observations, labour)
    assert resources.shape == (4000, 8, N_FACTS)
    for k, fact in enumerate(RESOURCE_FACTS):
        assert set(np.unique(resources[..., k])) == set(range(len(fact.bands))), fact.name
    for b in (0, 13, 3999):
        one, world = bands(observations[b : b + 1], labour)
        assert np.array_equal(one[0], resources[b]) and np.array_equal(world[0], worlds[b])


def test_words_and_compact_say_the_same_bands() -> None:
    sim = played("medium", 6)
    bound = prompter(sim, "words").indices(sim.observations)
    known = words.vocabulary(sim.n_slots)
    resources, _ = bands(sim.observations, labour_of(sim.params[0]))
    for world in range(6):
        facts: dict[tuple[str, str], str] = {}
        for k in bound[world][bound[world] >= 0]:
            who, _, said = known[k].partition(".")
            facts |= {(who, name): band for name, band in (part.split("=") for part in said.split(","))}
        assert len(facts) == len(words.WORLD_PAIRS) * 2 + N_FACTS * sim.n_slots
        for slot in range(sim.n_slots):
            for k, fact in enumerate(RESOURCE_FACTS):
                assert facts[f"r{slot}", fact.name] == (fact.bands[resources[world, slot, k]] or "-")
    assert len(set(known)) == len(known)


def test_the_allowed_actions_are_those_of_the_mask() -> None:
    sim = played("medium", 4)
    for world in range(4):
        said = render(sim, world, allowed=True).splitlines()[-1].removeprefix("allowed: ").split("; ")
        assert said[-1] == "NOOP"
        listed = {(op, name) for op, *names in map(str.split, said[:-1]) for name in names}
        mask = sim.masks[world, :-1].reshape(-1, N_OPS)
        assert listed == {(OP_NAMES[op], f"r{slot}") for slot, op in zip(*np.nonzero(mask), strict=True)}


def test_the_full_style_tells_what_there_is_to_do() -> None:
    for actions in ActionSet:
        sim = Simulator(scenario_of("easy"), 1, safety=SafetyConfig(actions=actions))
        sim.reset([0])
        chat = messages(sim, 0, "full")
        assert [m["role"] for m in chat] == ["system", "user"]
        offered = re.findall(r"^- ([A-Z_]+):", chat[0]["content"], re.MULTILINE)
        assert offered == [*operations(actions), "NOOP"]
    assert "(web-1)" in chat[1]["content"]


def test_a_prompter_needs_no_simulator() -> None:
    sim = played("easy", 3)
    for style in ("compact", "words"):
        alone = Prompter(sim.params[0], sim.ticks, style)
        assert alone(sim.observations, sim.masks) == render_batch(sim, None, style)
    unnamed = Prompter(sim.params[0], sim.ticks, "full")(sim.observations, sim.masks)
    assert unnamed[0] == re.sub(r" \([a-z0-9-]+\):", ":", render(sim, 0, "full"))


def test_wrong_styles_and_worlds_are_refused() -> None:
    sim = played("easy", 2)
    with pytest.raises(ValueError, match="no prompt style 'compakt'; did you mean 'compact'"):
        render(sim, 0, "compakt")
    with pytest.raises(IndexError):
        render(sim, 2)


# ---------------------------------------------------------------- memory


def test_contexts_are_those_of_the_memory() -> None:
    for name in ("easy", "hard", "medium"):
        sim = played(name, 6)
        where = recall.contexts(sim.observations)
        for b, world in enumerate(sim.state.resources):
            for i, r in enumerate(world):
                if i < sim.state.worlds["n_resources"][b] and r["status"] < DELETED:
                    assert where[b, i] == context(sim.state.groups[b, r["group"]], r)
                else:
                    assert where[b, i] == -1


def test_hints_are_the_worst_patterns_that_match() -> None:
    memory = experienced()
    sim = played("easy", 16, ticks=1, memory=ImmuneMemory(memory.config))
    assert "avoid" not in "".join(render_batch(sim))
    sim = played("easy", 16, memory=memory)
    found = recall.hints(sim.observations, memory.tables, memory.config, 3)
    assert any(found)
    for world, hints in enumerate(found):
        chances = [h.probability for h in hints]
        assert chances == sorted(chances, reverse=True) and all(p >= 0.1 for p in chances)
        text, full = render(sim, world), render(sim, world, "full")
        assert ("avoid" in text) == bool(hints) == ("memory:" in full)
        if hints:
            first = hints[0]
            assert f"avoid {compact._OPS[first.op]} r{first.slot}" in text
            assert f"memory: {OP_NAMES[first.op]} on r{first.slot}" in full
            assert contains(DISRUPTIVE_OPS, first.op)
            risk = sim.observations[world, first.slot * N_RESOURCE_FEATURES + RESOURCE_COLUMN["memory_risk"]]
            assert first.probability == pytest.approx(risk)
    forks = sim.fork(0, 2)
    forks.look()
    assert "avoid" not in render(forks)  # forks carry no memory of their own


# ---------------------------------------------------------------- length


def worst_line() -> tuple[str, int]:
    """The longest line that a resource can have, and its tokens: every fact said, needs on all three levels."""
    lines = []
    for idle in (False, True):
        row = [0] * N_FACTS
        row[FACT["role"]], row[FACT["health"]] = 1, 0
        row[FACT["load" if not idle else "job"]] = 1
        needs = [n for n in NEEDS if n not in (("shrink", "delete") if idle else ("stop", "delete"))]
        for k, need in enumerate(needs):
            row[FACT[need]] = 1 + k % 3
        lines.append("r0 " + compact._resource(tuple(row)))
    text = max(lines, key=tokens.count)
    return text, tokens.count("\n" + text)


def test_the_compact_prompt_of_eight_resources_stays_below_200_tokens() -> None:
    """In the worst case, and for any observation at all; template, system line and memory hints included."""
    world = "early load low falling served low cascade changes spent"
    hint = "\navoid restart r0 restart r1"
    bound = tokens.count(tokens.chat(world)) + 8 * worst_line()[1] + tokens.count(hint)
    assert bound < 200, (bound, worst_line())
    n = 20_000 if FULL else 2_000
    observations = any_observations(1, n, 8)
    masks = np.ones((n, 8 * N_OPS + 1), np.bool_)
    prompt = Prompter(Simulator(scenario_of("easy"), 1).params[0], 96)
    lengths = np.array([tokens.count(tokens.chat(text)) for text in prompt(observations, masks)])
    assert lengths.max() + tokens.count(hint) <= bound


def test_real_worlds_are_far_below_the_bound() -> None:
    for name, limit in (("easy", 115), ("medium", 200)):
        sim = played(name, 32, ticks=0)
        lengths = []
        for _ in range(8):
            play(sim, 11, noop_share=np.resize([0.3, 0.8, 0.97], 32))
            lengths += [tokens.count(tokens.chat(text)) for text in render_batch(sim)]
        assert max(lengths) < limit


@pytest.mark.skipif(
    tokens.real_tokenizer() is None, reason="CLOUDRL_SMOLLM2: a folder with SmolLM2's tokenizer.json"
)
def test_the_table_of_tokens_is_that_of_the_tokenizer() -> None:
    tokenizer = tokens.real_tokenizer()
    prompt = Prompter(Simulator(scenario_of("easy"), 1).params[0], 96)
    masks = np.ones((500, 8 * N_OPS + 1), np.bool_)
    texts = prompt(any_observations(2, 500, 8), masks) + render_batch(played("hard", 50, memory=experienced()))
    for text in map(tokens.chat, texts):
        assert tokens.count(text) == len(tokenizer.encode(text, add_special_tokens=False).ids)


# ---------------------------------------------------------------- speed


def test_it_is_fast() -> None:
    """At most 0.3 ms for one compact prompt, a tenth of it in a batch; the best of several rounds."""
    sim = played("medium", 64)
    for style in ("compact", "words"):
        render_batch(sim, None, style)
        assert best_of(lambda: [render(sim, world, style) for world in range(64)]) / 64 < 0.3e-3  # noqa: B023
        assert best_of(lambda: render_batch(sim, None, style)) / 64 < 0.1e-3  # noqa: B023


def best_of(call: object, rounds: int = 7) -> float:
    """Seconds of the fastest of several calls."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()  # type: ignore[operator]
        times.append(time.perf_counter() - start)
    return min(times)
