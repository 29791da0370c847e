"""A policy as `model.safetensors` + `policy.json`: weights without code, readable without trust.

`policy.json` says how to build the network, which observation it reads and what the weights' hash is, so that
a file from elsewhere, of another version or half replaced is refused with one line.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.torch_layers import FlattenExtractor
from torch import nn

from evaluation.agents.networks import SetPolicy

WEIGHTS, DESCRIPTION = "model.safetensors", "policy.json"
_FORMAT, _FORMAT_VERSION = "cloudrl-policy", 1
_ACTIVATIONS: dict[str, type[nn.Module]] = {
    c.__name__: c for c in (nn.Tanh, nn.ReLU, nn.ELU, nn.GELU, nn.SiLU, nn.LeakyReLU)
}

FeatureNames = Mapping[str, Sequence[str]]


def save_policy(
    policy: MaskableActorCriticPolicy,
    folder: str | os.PathLike[str],
    *,
    observation_version: int,
    feature_names: FeatureNames,
    notes: Mapping[str, Any] | None = None,
) -> Path:
    """Write the policy into `folder` (created if missing); an older policy there is replaced.

    :param observation_version: version of the observation that the policy was trained on
    :param feature_names: names of the observed numbers, e.g. {"resource": [...], "world": [...]}
    :param notes: anything else that fits into JSON (training steps, scenario)
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    weights = save({name: tensor.detach().cpu().contiguous() for name, tensor in policy.state_dict().items()})
    description = {
        "format": _FORMAT,
        "format_version": _FORMAT_VERSION,
        **_architecture(policy),
        "observation_length": int(np.prod(policy.observation_space.shape or (0,))),
        "n_actions": int(_discrete(policy.action_space).n),
        "observation_version": observation_version,
        "feature_names": {group: list(names) for group, names in feature_names.items()},
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
        "notes": dict(notes or {}),
    }
    _replace(target / WEIGHTS, weights)
    _replace(target / DESCRIPTION, (json.dumps(description, indent=2) + "\n").encode())
    return target


def load_policy(
    folder: str | os.PathLike[str],
    *,
    observation_version: int | None = None,
    feature_names: FeatureNames | None = None,
    device: str = "cpu",
) -> tuple[MaskableActorCriticPolicy, dict[str, Any]]:
    """The policy in `folder`, ready to act, and its description.

    :param observation_version: what the caller observes with; another version is refused
    :param feature_names: the same, by name
    :raises ValueError: one line that says which file is wrong and why
    """
    source = Path(folder)
    description = _read_description(source / DESCRIPTION)
    theirs = description["observation_version"]
    if observation_version is not None and theirs != observation_version:
        raise ValueError(
            f"{source}: trained on observation version {theirs}, this is version {observation_version}"
        )
    if feature_names is not None:
        ours = {group: list(names) for group, names in feature_names.items()}
        if description["feature_names"] != ours:
            raise ValueError(f"{source}: trained on other features than this observation has")
    weights = _read_weights(source / WEIGHTS, description["weights_sha256"])
    try:
        with th.random.fork_rng(devices=[]):  # initial weights are thrown away, so their draws must not count
            policy = _build(description)
        policy.load_state_dict(weights)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"{source}: weights and description do not fit: {reason}") from error
    policy.set_training_mode(False)
    return policy.to(device), description


def _discrete(space: spaces.Space[Any]) -> spaces.Discrete:
    if not isinstance(space, spaces.Discrete):
        raise ValueError(f"a policy file needs discrete actions, not {space}")
    return space


def _architecture(policy: MaskableActorCriticPolicy) -> dict[str, Any]:
    if isinstance(policy, SetPolicy):
        return {"architecture": "set", "arguments": policy.network_arguments}
    activation = policy.activation_fn.__name__
    if (
        type(policy) is not MaskableActorCriticPolicy
        or type(policy.features_extractor) is not FlattenExtractor
        or activation not in _ACTIVATIONS
    ):
        raise ValueError(f"only SetPolicy and a plain MlpPolicy can be saved as a policy file, not {policy}")
    return {"architecture": "mlp", "arguments": {"net_arch": policy.net_arch, "activation_fn": activation}}


def _build(description: dict[str, Any]) -> MaskableActorCriticPolicy:
    observation = spaces.Box(-np.inf, np.inf, (description["observation_length"],), np.float32)
    actions = spaces.Discrete(description["n_actions"])
    arguments = dict(description["arguments"])
    if description["architecture"] == "set":
        return SetPolicy(observation, actions, _no_schedule, **arguments)
    if description["architecture"] == "mlp":
        arguments["activation_fn"] = _ACTIVATIONS[arguments["activation_fn"]]
        return MaskableActorCriticPolicy(observation, actions, _no_schedule, **arguments)
    raise ValueError(f"unknown architecture {description['architecture']!r}")


def _no_schedule(_progress: float) -> float:
    return 0.0


def _read_description(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise ValueError(f"{path}: no such file; a policy is a folder with {DESCRIPTION} and {WEIGHTS}")
    try:
        description = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: not JSON") from error
    if not isinstance(description, dict) or description.get("format") != _FORMAT:
        raise ValueError(f"{path}: not a policy of this project")
    if description.get("format_version") != _FORMAT_VERSION:
        raise ValueError(f"{path}: format version {description.get('format_version')}, expected {_FORMAT_VERSION}")
    needed = ("architecture", "arguments", "observation_length", "n_actions", "observation_version")
    missing = [key for key in (*needed, "feature_names", "weights_sha256") if key not in description]
    if missing:
        raise ValueError(f"{path}: {missing[0]} is missing")
    return description


def _read_weights(path: Path, sha256: str) -> dict[str, th.Tensor]:
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    if hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
        raise ValueError(f"{path}: not the weights that {DESCRIPTION} describes")
    try:
        return load_file(path)
    except SafetensorError as error:
        raise ValueError(f"{path}: not a safetensors file") from error


def _replace(path: Path, content: bytes) -> None:
    """Write under a temporary name, then rename: a reader never sees half a file."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
