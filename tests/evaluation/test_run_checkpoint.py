"""Policies and language models on disk as agents."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces

from cloudrl.compose import load_scenario
from cloudrl.errors import UserError
from cloudrl.observation import (
    DEPENDENCY_COLUMNS,
    N_RESOURCE_FEATURES,
    N_WORLD_FEATURES,
    OBSERVATION_VERSION,
    RESOURCE_COLUMN,
    RESOURCE_FEATURES,
    WORLD_FEATURES,
    size,
)
from evaluation.agents.entry import Context
from evaluation.agents.networks import SetPolicy
from evaluation.agents.policy_files import save_policy
from evaluation.agents.registry import build, find
from evaluation.config import LanguageSettings
from evaluation.rollout import play_episodes

EASY = load_scenario("easy", {"horizon.ticks": 8})
SEEDS = np.arange(10_000, 10_003)


def random_policy(folder: Path, observation_version: int = OBSERVATION_VERSION, n_slots: int = 6) -> Path:
    """A policy of random weights, saved."""
    import torch as th

    th.manual_seed(0)
    policy = SetPolicy(
        spaces.Box(-np.inf, np.inf, (size(n_slots),), np.float32),
        spaces.Discrete(n_slots * 12 + 1),
        lambda _: 0.0,
        resource_features=N_RESOURCE_FEATURES,
        world_features=N_WORLD_FEATURES,
        present_column=RESOURCE_COLUMN["present"],
        dependency_columns=DEPENDENCY_COLUMNS,
        width=16,
    )
    names = {"resource": RESOURCE_FEATURES, "world": WORLD_FEATURES}
    return save_policy(policy, folder, observation_version=observation_version, feature_names=names)


def test_a_policy_in_a_folder_plays_sampled_and_best(tmp_path: Path) -> None:
    folder = random_policy(tmp_path / "mine")
    context = Context(EASY)
    entries = find([f"ppo:{folder}", f"ppo-best:{folder}"], context)
    assert [entry.name for entry in entries] == ["ppo mine", "ppo-best mine"]
    assert entries[0].identity != entries[1].identity and str(tmp_path) not in str(entries[0].group)
    sampled, best = (play_episodes(build(entry, context), EASY, SEEDS) for entry in entries)
    again = play_episodes(build(entries[0], context), EASY, SEEDS)
    assert np.array_equal(sampled.bill, again.bill) and not np.array_equal(sampled.bill, best.bill)


def test_other_weights_are_another_agent(tmp_path: Path) -> None:
    folder = random_policy(tmp_path / "mine")
    before = find([f"ppo:{folder}"], Context(EASY))[0].identity
    description = json.loads((folder / "policy.json").read_text())
    (folder / "policy.json").write_text(json.dumps(description | {"weights_sha256": "0" * 64}))
    assert find([f"ppo:{folder}"], Context(EASY))[0].identity != before


def test_a_policy_of_another_observation_is_refused_when_it_is_made(tmp_path: Path) -> None:
    folder = random_policy(tmp_path / "old", OBSERVATION_VERSION - 1)
    (entry,) = find([f"ppo:{folder}"], Context(EASY))
    with pytest.raises(ValueError, match=f"observation version {OBSERVATION_VERSION - 1}, this is version"):
        build(entry, Context(EASY))


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model of random weights with a tokenizer of bytes."""
    import torch as th
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({c: i for i, c in enumerate([*alphabet, "<end>"])}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    folder = tmp_path_factory.mktemp("models") / "tiny"
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>").save_pretrained(folder)
    th.manual_seed(0)
    config = LlamaConfig(
        vocab_size=257, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        max_position_embeddings=4096, eos_token_id=256, bos_token_id=256,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def test_a_language_model_on_disk_plays(tiny_model: Path) -> None:
    context = Context(EASY, LanguageSettings(max_tokens=4))
    (entry,) = find([f"llm:{tiny_model}"], context)
    assert entry.name == "llm tiny" and entry.slow
    agent = build(entry, context)
    together = play_episodes(agent, EASY, SEEDS)
    counts = agent.counts()  # type: ignore[union-attr]
    assert (counts["replies"] == EASY.horizon.ticks).all() and (counts["prompt_tokens"] > 100 * 8).all()
    assert (counts["json_valid"] == 0).all(), "random weights do not write JSON"
    assert (together.operations == 0).all()
    alone = build(entry, context)
    play_episodes(alone, EASY, SEEDS[1:2])
    for name, values in alone.counts().items():  # type: ignore[union-attr]
        assert values[0] == counts[name][1], name


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no config\.json there"):
        find([f"llm:{tmp_path}"], Context(EASY))
