"""The schema of every config, and the way from a composed Hydra config to checked dataclasses.

Values live in configs/*.yaml; here stand their names, types, defaults and ranges. Code below the commands sees
these dataclasses only, never a DictConfig.
"""

from __future__ import annotations

import difflib
import functools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, ListConfig, OmegaConf

from cloudrl.errors import UserError, did_you_mean
from cloudrl.memory.config import MemoryConfig
from cloudrl.ranges import Range, check_ranges
from cloudrl.reward.weights import RewardWeights
from cloudrl.safety.config import SafetyConfig
from cloudrl.scenarios.ranges import check_scenario
from cloudrl.scenarios.schema import Scenario

__all__ = ["CONFIG_DIR", "CurriculumConfig", "PPOConfig", "PPOSettings", "StageConfig", "UserError", "to_config"]

CONFIG_DIR = str(Path(__file__).resolve().parents[1] / "configs")
"""Absolute, so that a folder `configs` in the working directory never takes its place."""

Schema = TypeVar("Schema")

POSITIVE = Range(low=0, low_open=True)
COUNT = Range(low=1, whole=True)
FRACTION = Range(low=0, high=1)
FACTOR = Range(low=0)


class Device(Enum):
    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


class Engine(Enum):
    """fast: batched masks, fused loss and optimiser. stock: sb3-contrib's MaskablePPO as it is."""

    fast = "fast"
    stock = "stock"


class Policy(Enum):
    """set: permutation-equivariant over resources, any number of them. mlp: flat, one size."""

    set = "set"
    mlp = "mlp"


class ControlVariate(Enum):
    """noop: the reward of a forked twin that does nothing is subtracted; same optimum, less noise.

    counterfactual: an action earns what it changes in the episode's reward, were nothing done afterwards (a
    potential: same optimum, credit at once).
    """

    none = "none"
    noop = "noop"
    counterfactual = "counterfactual"


@dataclass
class WarmStart:
    """Before PPO, the actor regresses the worth of actions that forks measure (trainers/common/warm_start.py)."""

    states: float = 150_000  # labelled states; 0 = start from nothing
    candidates: int = 8  # actions measured per state
    every: int = 2  # ticks between labelled states of a world
    updates: int = 2  # gradient steps per batch of labels
    learning_rate: float = 1e-3
    sharpness: float = 6.0  # logits per baseline tick of worth
    noop_offsets: list[float] = field(
        default_factory=lambda: [0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0]
    )  # baseline ticks by which acting must pay; chosen on validation worlds

    def __post_init__(self) -> None:
        self.states = whole("warm_start.states", self.states)
        check_ranges("warm_start", self, _WARM_START_RANGES)
        if not self.noop_offsets:
            raise UserError("warm_start.noop_offsets: is empty; give at least one, such as [0.0]")


_WARM_START_RANGES = {
    "states": Range(low=0, whole=True),
    "candidates": Range(low=2, whole=True),
    "every": COUNT,
    "updates": COUNT,
    "learning_rate": POSITIVE,
    "sharpness": POSITIVE,
}


@dataclass
class PPOSettings:
    """The algorithm. Steps are environment steps (one world, one tick), so n_envs does not rescale them."""

    engine: Engine = Engine.fast
    policy: Policy = Policy.set
    width: int = 64  # of the set policy's layers
    edges: bool = True  # the set policy looks along dependencies
    net_arch: list[int] = field(default_factory=lambda: [64, 64])  # of the mlp policy
    total_timesteps: float = 400_000  # a float in the schema, so that 1e6 may be written; an int afterwards
    n_envs: int = 64
    n_steps: int = 96  # ticks per rollout and world
    batch_size: int = 3072
    n_epochs: int = 3
    learning_rate: float = 1e-4
    learning_rate_final_fraction: float = 0.1  # linear decay to this share; 1 is constant
    gamma: float = 1.0  # the horizon is finite and the time left is observed
    gae_lambda: float = 0.8
    ent_coef: float = 0.002
    ent_coef_final_fraction: float = 0.1
    clip_range: float = 0.2
    clip_range_vf: float | None = None
    vf_coef: float = 0.5
    max_grad_norm: float = 0.5
    target_kl: float | None = 0.01
    noop_bias: float = 0.0  # added to NOOP's first logit: where exploration starts
    control_variate: ControlVariate = ControlVariate.counterfactual
    value_warmup_rollouts: int = 8  # first rollouts that train the critic only: the actor may be good already
    reward_scale: float = 0.1  # R is in baseline ticks; the value network likes it smaller
    checkpoint_every: float = 200_000
    eval_every: float = 50_000

    def __post_init__(self) -> None:
        for name in ("total_timesteps", "checkpoint_every", "eval_every"):
            setattr(self, name, whole(f"ppo.{name}", getattr(self, name)))
        check_ranges("ppo", self, _PPO_RANGES)
        for i, size in enumerate(self.net_arch):
            COUNT.check(f"ppo.net_arch[{i}]", size)
        rollout = self.n_envs * self.n_steps
        if self.batch_size > rollout:
            raise UserError(
                f"ppo.batch_size={self.batch_size} is larger than a rollout, n_envs x n_steps = {rollout}: "
                f"lower it, or raise ppo.n_envs or ppo.n_steps"
            )
        if self.batch_size == 1:
            raise UserError("ppo.batch_size=1: advantages are normalised within a batch, so take at least 2")


_PPO_RANGES = {
    "width": COUNT,
    "total_timesteps": COUNT,
    "n_envs": COUNT,
    "n_steps": Range(low=2, whole=True),
    "batch_size": COUNT,
    "n_epochs": COUNT,
    "learning_rate": POSITIVE,
    "learning_rate_final_fraction": FRACTION,
    "gamma": Range(low=0, high=1, low_open=True),
    "gae_lambda": FRACTION,
    "ent_coef": FACTOR,
    "ent_coef_final_fraction": FRACTION,
    "clip_range": POSITIVE,
    "clip_range_vf": POSITIVE,
    "vf_coef": FACTOR,
    "max_grad_norm": POSITIVE,
    "target_kl": POSITIVE,
    "noop_bias": Range(),
    "reward_scale": POSITIVE,
    "value_warmup_rollouts": Range(low=0, whole=True),
    "checkpoint_every": COUNT,
    "eval_every": COUNT,
}


@dataclass
class StageConfig:
    """One stage of a curriculum: a scenario with changes, and when to go on.

    A stage ends when a validation reaches `promote_win_rate` or `promote_score` (whichever is given; both given:
    both), or at its step cap. It falls back to the stage before when the win rate drops below `demote_win_rate`.
    The last stage lasts until the end of training.
    """

    name: str = "stage"
    scenario: str = "easy"  # a file in configs/scenario
    overrides: dict[str, Any] = field(default_factory=dict)  # dotted keys of the scenario
    max_fraction: float = 1.0  # step cap as a share of ppo.total_timesteps
    max_steps: float | None = None  # step cap in environment steps, instead
    promote_win_rate: float | None = None  # of sampled play
    promote_score: float | None = None  # 0 = do nothing, 100 = oracle
    demote_win_rate: float | None = None

    def __post_init__(self) -> None:
        where = f"curriculum stage '{self.name}': "
        if self.max_steps is not None:
            self.max_steps = whole(where + "max_steps", self.max_steps)
            COUNT.check(where + "max_steps", self.max_steps)
        Range(low=0, high=1, low_open=True).check(where + "max_fraction", self.max_fraction)
        for name in ("promote_win_rate", "demote_win_rate"):
            FRACTION.check(where + name, getattr(self, name))
        Range(low=-100, high=100).check(where + "promote_score", self.promote_score)
        promote, demote = self.promote_win_rate, self.demote_win_rate
        if promote is not None and demote is not None and demote >= promote:
            raise UserError(f"{where}demote_win_rate={demote} must lie below promote_win_rate={promote}")

    def step_cap(self, total_timesteps: float) -> int:
        """Environment steps that this stage may take."""
        return int(self.max_steps) if self.max_steps is not None else round(self.max_fraction * total_timesteps)


@dataclass
class CurriculumConfig:
    """Without stages (the default) training stays on `scenario`."""

    stages: list[StageConfig] = field(default_factory=list)
    slots: int | None = None  # padded resources for every stage; default: the largest stage's

    def __post_init__(self) -> None:
        COUNT.check("curriculum.slots", self.slots)
        names = [stage.name for stage in self.stages]
        for name in names:
            if names.count(name) > 1:
                raise UserError(f"curriculum.stages: two stages are named '{name}'; give each its own name")


@dataclass
class EvaluationConfig:
    """Validation worlds have their own seeds and topologies; every agent sees the same ones."""

    worlds: int = 200  # per validation during training
    final_worlds: int = 100  # for the table at the end

    def __post_init__(self) -> None:
        check_ranges("evaluation", self, {"worlds": COUNT, "final_worlds": COUNT})


@dataclass
class PPOConfig:
    """`python -m trainers.ppo`."""

    scenario: Scenario = field(default_factory=Scenario)
    reward: RewardWeights = field(default_factory=RewardWeights)
    safety: SafetyConfig = field(default_factory=SafetyConfig)
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    curriculum: CurriculumConfig = field(default_factory=CurriculumConfig)
    warm_start: WarmStart = field(default_factory=WarmStart)
    ppo: PPOSettings = field(default_factory=PPOSettings)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    seed: int = 0
    device: Device = Device.auto
    threads: int = 1  # of torch; more is slower for networks of this size on shared cores
    resume: str | None = None  # a run folder: continue it to the same total
    trust: bool = False  # load pickled files from elsewhere than your own runs
    runs_dir: str = "runs"  # run folders are <runs_dir>/ppo/<time>
    keep_checkpoints: int = 2
    progress_bar: bool = True  # never shown where the output is no terminal

    def __post_init__(self) -> None:
        COUNT.check("threads", self.threads)
        COUNT.check("keep_checkpoints", self.keep_checkpoints)
        Range(low=0, high=2**32 - 1, whole=True).check("seed", self.seed)
        check_scenario("scenario", self.scenario)
        check_ranges("reward", self.reward, dict.fromkeys((f.name for f in fields(self.reward)), FACTOR))
        POSITIVE.check("reward.clip", self.reward.clip)
        check_ranges("memory", self.memory, _MEMORY_RANGES)


_MEMORY_RANGES = {
    "window_ticks": COUNT,
    "prior_bad": POSITIVE,
    "prior_good": POSITIVE,
    "decay": Range(low=0, high=1, low_open=True),
    "veto_bound": FRACTION,
    "credible_z": FACTOR,
    "minimum_evidence": FACTOR,
}


def to_config(cfg: DictConfig, schema: type[Schema]) -> Schema:
    """Resolve a composed config and turn it into its checked dataclass.

    Hydra lets `+ppo.gama=1` through, since a plus means "add a key": unknown keys are refused here.
    """
    unknown = next(unknown_keys(cfg, schema), None)
    if unknown is not None:
        raise UserError(f"{unknown}: no such key; {suggest_key(unknown, schema)}")
    OmegaConf.resolve(cfg)
    missing = sorted(OmegaConf.missing_keys(cfg))
    if missing:
        raise UserError(f"{missing[0]}: needs a value; say {missing[0]}=...")
    return cast(Schema, OmegaConf.to_object(cfg))


@functools.cache
def known_keys(schema: type) -> tuple[str, ...]:
    """Every dotted key that a schema knows, groups included; "[]" stands for the index into a list."""
    keys: list[str] = []
    for f in fields(schema):
        keys.append(f.name)
        child, is_list = _child(schema, f.name)
        if child is not None:
            keys += [f"{f.name}{'[]' if is_list else ''}.{key}" for key in known_keys(child)]
    return tuple(keys)


def suggest_key(key: str, schema: type) -> str:
    """A hint for an unknown key: the same name elsewhere (gamma -> ppo.gamma), a close one, or what there is."""
    known = known_keys(schema)
    index = re.search(r"\[(\d+)\]", key)
    plain = re.sub(r"\[\d+\]", "[]", key)
    parent, _, leaf = plain.rpartition(".")
    same_name = [k for k in known if k.rpartition(".")[2] == leaf]
    siblings = [k for k in known if k.rpartition(".")[0] == parent]
    if same_name:
        hint = f"did you mean '{same_name[0]}'?"
    elif close := difflib.get_close_matches(plain, siblings, 1) or difflib.get_close_matches(plain, known, 1):
        hint = f"did you mean '{close[0]}'?"
    elif close := difflib.get_close_matches(leaf, [k.rpartition(".")[2] for k in known], 1):
        hint = f"did you mean '{next(k for k in known if k.rpartition('.')[2] == close[0])}'?"
    elif not siblings:
        hint = "--cfg job shows the keys there are"
    else:
        hint = did_you_mean(leaf, (k.rpartition(".")[2] for k in siblings))
    return hint.replace("[]", index[0]) if index else hint


def unknown_keys(cfg: DictConfig, schema: type, prefix: str = "") -> Iterator[str]:
    """Dotted keys in `cfg` that the schema does not have."""
    names = {f.name for f in fields(schema)}
    for key in map(str, cfg):
        if key not in names:
            yield prefix + key
        elif (child := _child(schema, key)[0]) is not None and not OmegaConf.is_missing(cfg, key):
            node = cfg[key]
            if isinstance(node, DictConfig):
                yield from unknown_keys(node, child, f"{prefix}{key}.")
            elif isinstance(node, ListConfig):
                for i, item in enumerate(node):
                    yield from unknown_keys(item, child, f"{prefix}{key}[{i}].")


@functools.cache
def _child(schema: type, name: str) -> tuple[type | None, bool]:
    """(dataclass, is_list) of a field that holds a dataclass or a list of them, else (None, False)."""
    hint = get_type_hints(schema)[name]
    inner = get_args(hint)[0] if get_origin(hint) is list else hint
    return (inner, inner is not hint) if is_dataclass(inner) and isinstance(inner, type) else (None, False)


def whole(key: str, value: float) -> int:
    """A count that may be written 1e6."""
    if not math.isfinite(value) or value != int(value):
        raise UserError(f"{key}={value}: must be a whole number")
    return int(value)


SCHEMAS: dict[str, type] = {"ppo": PPOConfig}
"""Schema of each primary config: configs/<name>.yaml starts its defaults list with <name>_schema."""

for _name, _schema in SCHEMAS.items():
    ConfigStore.instance().store(name=f"{_name}_schema", node=_schema, provider="cloudrl")
