"""The schema of configs/grpo.yaml and configs/model/*.yaml. Values live in the yaml files."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any

from hydra.core.config_store import ConfigStore

from cloudrl.config import COUNT, FACTOR, FRACTION, POSITIVE, SCHEMAS, CurriculumConfig, Device, whole
from cloudrl.errors import UserError, did_you_mean
from cloudrl.llm.config import GroupConfig
from cloudrl.llm.prompt import STYLES
from cloudrl.memory.config import MemoryConfig
from cloudrl.ranges import Range, check_ranges
from cloudrl.reward.weights import RewardWeights
from cloudrl.safety.config import SafetyConfig
from cloudrl.scenarios.ranges import check_scenario
from cloudrl.scenarios.schema import Scenario

__all__ = ["Estimator", "GRPOConfig", "GRPOSettings", "ModelConfig", "TRLPath", "WarmStartConfig"]

LOSSES = ("grpo", "dr_grpo", "dapo", "bnpo", "cispo", "sapo", "luspo", "vespo")
"""What TRL knows; it asks only when it computes the first one."""
WHOLE = Range(low=0, whole=True)


class Kind(Enum):
    """tiny: built here. smollm2: from the wheel. hub: a folder, or a name on the model hub."""

    tiny = "tiny"
    smollm2 = "smollm2"
    hub = "hub"


class Estimator(Enum):
    """group: G sampled replies are compared. exact: every action's probability, and so the expected gradient."""

    group = "group"
    exact = "exact"


class Walk(Enum):
    """Which of a group's replies is played: the one that the model finds likeliest, or the first."""

    likeliest = "likeliest"
    sampled = "sampled"


class TRLPath(Enum):
    """shared: a group's prompt is computed once. stock: TRL's own methods. auto: shared where it is correct."""

    auto = "auto"
    shared = "shared"
    stock = "stock"


class Dtype(Enum):
    float32 = "float32"
    bfloat16 = "bfloat16"


@dataclass
class LoraConfig:
    """Low-rank adapters instead of all weights."""

    rank: int = 0  # 0 = train all weights
    alpha: int = 32
    dropout: float = 0.0
    targets: str = "all-linear"  # as peft names them, or a list of names with commas

    def __post_init__(self) -> None:
        ranges = {"rank": WHOLE, "alpha": COUNT, "dropout": FRACTION}
        check_ranges("model.lora", self, ranges)


@dataclass
class ModelConfig:
    """Which model, and what it reads."""

    name: str = "tiny"
    kind: Kind = Kind.tiny
    path: str | None = None  # a folder, or a name on the hub
    style: str = "tiny"  # of the prompt: tiny (the tiny model's own), compact, full, words
    allowed: bool = True  # the prompt says what the safety layer allows now
    thinks: bool = False  # replies may open with a <think> block
    template: dict[str, Any] = field(default_factory=dict)  # options of the chat template
    dtype: Dtype = Dtype.float32  # what it computes in; weights that are trained stay float32
    lora: LoraConfig = field(default_factory=LoraConfig)
    width: int = 64  # of the tiny model
    layers: int = 2
    heads: int = 4

    def __post_init__(self) -> None:
        check_ranges("model", self, {"width": COUNT, "layers": COUNT, "heads": COUNT})
        styles = ("tiny",) if self.kind is Kind.tiny else STYLES
        if self.style not in styles:
            raise UserError(
                f"model.style={self.style}: this model reads no such prompt; {did_you_mean(self.style, styles)}"
            )
        if self.kind is Kind.tiny and self.width % (2 * self.heads):
            raise UserError(f"model.width={self.width}: must be a multiple of 2 model.heads = {2 * self.heads}")


@dataclass
class WarmStartConfig:
    """Before GRPO the model learns to answer at all: every admissible action equally likely."""

    states: float = 16_000  # 0 = none
    batch: int = 16  # states per gradient step
    learning_rate: float = 2e-3
    runbook_share: float = 0.0  # of the target that is the hand-written runbook's action instead of a uniform one

    def __post_init__(self) -> None:
        self.states = whole("warm_start.states", self.states)
        ranges = {"states": WHOLE, "batch": COUNT, "learning_rate": POSITIVE, "runbook_share": FRACTION}
        check_ranges("warm_start", self, ranges)


@dataclass
class TRLSettings:
    """What is handed to TRL."""

    path: TRLPath = TRLPath.auto
    loss_type: str = "dr_grpo"
    scale_rewards: str = "none"  # none: advantages are differences; group: divided by the group's deviation; batch
    num_iterations: int = 1
    beta: float = 0.0  # weight of the KL divergence from the warm-started model
    extra: dict[str, Any] = field(default_factory=dict)  # further arguments of trl.GRPOConfig, as they are

    def __post_init__(self) -> None:
        check_ranges("trl", self, {"num_iterations": COUNT, "beta": FACTOR})
        if self.scale_rewards not in ("none", "group", "batch"):
            raise UserError(f"trl.scale_rewards={self.scale_rewards}: must be none, group or batch")
        if self.loss_type not in LOSSES:
            hint = did_you_mean(self.loss_type, LOSSES)
            raise UserError(f"trl.loss_type={self.loss_type}: no such loss; {hint}")


@dataclass
class GRPOSettings:
    """The algorithm."""

    estimator: Estimator = Estimator.exact
    steps: float = 1400  # gradient steps
    states: int = 32  # per gradient step and process
    group: int = 8  # replies per state
    micro_states: int | None = None  # states per forward pass; null = all of a step
    block: int = 8  # worlds that step together
    blocks: int = 24  # of worlds per process
    max_tokens: int = 6  # of a reply
    temperature: float = 1.0
    learning_rate: float = 2e-3
    learning_rate_final_fraction: float = 0.1
    warmup: int = 10  # steps until the learning rate is full
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    entropy_coef: float = 1.0  # weight of the entropy of an action, at the start
    entropy_coef_final: float = 0.05  # ... and at the end; it falls by the same factor with every step
    stride: int = 3  # ticks between two states of a world: neighbours are alike
    walk: Walk = Walk.likeliest
    wait: float = 0.8  # share of worlds in which nothing is done instead, at the start; 0 from half the steps on
    act_price: float = 5.0  # baseline ticks by which acting must pay, beyond its own costs
    redraw: int = 2  # times that the groups without variance of a step are drawn again
    forced_coef: float = 1.0  # exact: weight of the loss on tokens that follow with necessity
    forced_actions: int = 4  # exact and warm start: actions per step that are spelled out whole; 0 = all
    eval_every: float = 300
    checkpoint_every: float = 300
    samples_every: float = 100  # steps between tables of sampled groups
    log_every: int = 10

    def __post_init__(self) -> None:
        for name in ("steps", "eval_every", "checkpoint_every", "samples_every"):
            setattr(self, name, whole(f"grpo.{name}", getattr(self, name)))
        check_ranges("grpo", self, _GRPO_RANGES)
        if self.group < 2:
            raise UserError(f"grpo.group={self.group}: replies are compared with each other, so take at least 2")
        if self.states % self.block:
            raise UserError(f"grpo.states={self.states}: must be a multiple of grpo.block={self.block}")
        if self.blocks * self.block < self.states:
            raise UserError(
                f"grpo.states={self.states}: more than there are worlds, grpo.blocks x grpo.block = "
                f"{self.blocks * self.block}; raise grpo.blocks"
            )
        if self.entropy_coef_final > 0.0 and self.entropy_coef == 0.0:
            raise UserError(
                "grpo.entropy_coef=0: and entropy_coef_final is not; say grpo.entropy_coef_final=0 too"
            )
        micro = self.micro_states
        if micro is not None and self.states % micro:
            raise UserError(f"grpo.micro_states={micro}: must divide grpo.states={self.states}")


_GRPO_RANGES = {
    "steps": WHOLE,
    "states": COUNT,
    "group": COUNT,
    "micro_states": COUNT,
    "block": COUNT,
    "blocks": COUNT,
    "max_tokens": COUNT,
    "temperature": POSITIVE,
    "learning_rate": POSITIVE,
    "learning_rate_final_fraction": FRACTION,
    "warmup": WHOLE,
    "weight_decay": FACTOR,
    "max_grad_norm": POSITIVE,
    "entropy_coef": FACTOR,
    "entropy_coef_final": FACTOR,
    "stride": COUNT,
    "wait": FRACTION,
    "act_price": FACTOR,
    "redraw": WHOLE,
    "forced_coef": FACTOR,
    "forced_actions": WHOLE,
    "eval_every": COUNT,
    "checkpoint_every": COUNT,
    "samples_every": COUNT,
    "log_every": COUNT,
}


@dataclass
class GRPOEvaluation:
    """Whole episodes on worlds of their own; every agent meets the same ones."""

    worlds: int = 32  # per validation during training
    final_worlds: int = 100  # for the table at the end

    def __post_init__(self) -> None:
        check_ranges("evaluation", self, {"worlds": COUNT, "final_worlds": COUNT})


@dataclass
class GRPOConfig:
    """`python -m trainers.grpo`."""

    scenario: Scenario = field(default_factory=Scenario)
    reward: RewardWeights = field(default_factory=RewardWeights)
    safety: SafetyConfig = field(default_factory=SafetyConfig)
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    curriculum: CurriculumConfig = field(default_factory=CurriculumConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    warm_start: WarmStartConfig = field(default_factory=WarmStartConfig)
    group: GroupConfig = field(default_factory=GroupConfig)
    grpo: GRPOSettings = field(default_factory=GRPOSettings)
    trl: TRLSettings = field(default_factory=TRLSettings)
    evaluation: GRPOEvaluation = field(default_factory=GRPOEvaluation)
    seed: int = 0
    device: Device = Device.auto
    threads: int = 1  # of torch; two were up to 26 times slower on shared cores
    resume: str | None = None  # a run folder: continue it to the same total
    trust: bool = False  # load pickled files from elsewhere than your own runs
    runs_dir: str = "runs"  # run folders are <runs_dir>/grpo/<time>
    keep_checkpoints: int = 2
    progress_bar: bool = True  # never shown where the output is no terminal

    def __post_init__(self) -> None:
        COUNT.check("threads", self.threads)
        COUNT.check("keep_checkpoints", self.keep_checkpoints)
        Range(low=0, high=2**32 - 1, whole=True).check("seed", self.seed)
        check_scenario("scenario", self.scenario)
        check_ranges("reward", self.reward, dict.fromkeys((f.name for f in fields(self.reward)), FACTOR))


SCHEMAS["grpo"] = GRPOConfig
ConfigStore.instance().store(name="grpo_schema", node=GRPOConfig, provider="cloudrl")
