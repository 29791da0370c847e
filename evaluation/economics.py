"""Is the world fair? Every scripted policy on the same worlds, and the gates that they must pass.

A benchmark is worth something only if doing nothing, doing the same thing over and over, or playing at random
earns nothing. `measure` plays all baselines of a suite on the same seeds, `gates` holds them to the limits of
docs/calibration.md. Every share is a ratio of sums over the worlds: dollars saved by one policy over dollars saved
by another.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from cloudrl.measurements import TICK_HOURS
from cloudrl.policies.scripted import ScriptedPolicy, baselines, play
from cloudrl.reward.bill import BILL_PARTS, bill, served_share, won
from cloudrl.scenarios.schema import Scenario, params
from cloudrl.seeding import VALIDATION_SEEDS
from cloudrl.simulator import Simulator
from evaluation.statistics import bootstrap

DEGENERATE = (
    "noop", "random", "stop-all", "delete-all", "patch-all", "restart-all", "resize-down-all", "resize-up-all",
    "analyze-all",
)  # fmt: skip
"""Play without a thought. The single cures (logging, access, credentials, encryption, start) are exempt: each of
them does one right thing wherever it can."""

DEGENERATE_SHARE = 1 / 20
"""Of what the best scripted policy saves: the most that a degenerate policy may save."""
RANDOM_SHARE = 1 / 10
"""Of what the runbook saves: less than this must be left to random play."""
QUIET_SHARE = 1 / 100
"""Of the idle bill: the most that anybody may save on the all-quiet day."""
RANK_CORRELATION = 0.8
"""Of mean reward and mean saving over all baselines, at least."""
QUIET = "CloudOps-Stress-Quiet"


@dataclass(frozen=True)
class Suite:
    """The final records of every policy on the same worlds."""

    scenario: Scenario
    worlds: dict[str, np.ndarray] = field(repr=False)

    @property
    def name(self) -> str:
        return self.scenario.name

    @property
    def quiet(self) -> bool:
        return self.name == QUIET

    @cached_property
    def bills(self) -> dict[str, np.ndarray]:
        """$ of every world, by policy."""
        return {name: bill(w) for name, w in self.worlds.items()}

    def savings(self, name: str) -> np.ndarray:
        """$ saved against doing nothing, world by world."""
        return self.bills["noop"] - self.bills[name]

    @cached_property
    def best(self) -> str:
        """The scripted policy that saves most."""
        return max(self.worlds, key=lambda name: float(self.savings(name).mean()))

    def share(self, name: str) -> float:
        """What a policy saves, in parts of what the best one saves; nan where nobody saves anything."""
        most = float(self.savings(self.best).mean())
        return float(self.savings(name).mean()) / most if most > 0 else float("nan")

    def won(self, name: str) -> np.ndarray:
        return won(params(self.scenario), self.worlds[name])

    def parts(self, name: str) -> dict[str, float]:
        """Mean $ of the four parts of the bill."""
        return {part: float(self.worlds[name][part].mean()) for part in BILL_PARTS}


def measure(scenario: Scenario, n_worlds: int, policies: Iterable[ScriptedPolicy] | None = None) -> Suite:
    """Play every policy (default: all baselines) on the first `n_worlds` validation worlds."""
    sim = Simulator(scenario, n_worlds)
    sim.reset(np.arange(VALIDATION_SEEDS.start, VALIDATION_SEEDS.start + n_worlds))
    start = sim.snapshot()
    played = {}
    for policy in baselines(scenario.name) if policies is None else policies:
        sim.restore(start)
        played[policy.name] = play(sim, policy).copy()
    return Suite(sim.scenario, played)


def standard_error(values: np.ndarray) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 0; equal values share the mean of theirs."""
    values = np.asarray(values, float)
    below = (values[None, :] < values[:, None]).sum(axis=1)
    equal = (values[None, :] == values[:, None]).sum(axis=1)
    return below + (equal - 1) / 2.0


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Spearman's rank correlation."""
    return float(np.corrcoef(ranks(a), ranks(b))[0, 1])


def mean_rewards(suite: Suite) -> np.ndarray:
    """Mean training reward of an episode, by policy."""
    return np.array([w["reward_total"].mean() for w in suite.worlds.values()])


def usual_rewards(suite: Suite) -> np.ndarray:
    """Mean of the reward one meets most often: four terms squeezed to [0, 1], .05 for each act. For contrast only.

    Per episode: share of infrastructure saved + (1 - expected breach loss per dollar of infrastructure, at least
    0) + share of traffic served - 0.05 x operations per tick.
    """
    out = []
    for w in suite.worlds.values():
        base = w["base_cost"] * TICK_HOURS * w["tick"]
        saved = np.clip(1.0 - w["infrastructure"] / base, 0.0, 1.0)
        safe = np.clip(1.0 - w["exposure"] / base, 0.0, 1.0)
        out.append((saved + safe + served_share(w) - 0.05 * w["operations"] / w["tick"]).mean())
    return np.array(out)


def mean_savings(suite: Suite) -> np.ndarray:
    return np.array([suite.savings(name).mean() for name in suite.worlds])


def price_of_dice(suite: Suite, name: str) -> float:
    """Times the worlds that the interval of a policy's savings would need if breaches as drawn were billed."""

    def realised(w: np.ndarray) -> np.ndarray:
        return bill(w) - w["exposure"] + w["breach_realised"]

    drawn = realised(suite.worlds["noop"]) - realised(suite.worlds[name])
    return float(drawn.var() / suite.savings(name).var())


@dataclass(frozen=True)
class Gate:
    """One limit and what was measured."""

    text: str
    figure: str
    excess: float  # by how much the limit is missed; <= 0 = met
    slack: float = 0.0  # by how much it may be missed: smaller sizes measure less exactly

    @property
    def met(self) -> bool:
        return self.excess <= self.slack + 1e-9


def gates(suite: Suite, errors: float = 0.0) -> list[Gate]:
    """The gates of one suite. `errors`: standard errors of the paired difference by which each may be missed."""
    most = suite.savings(suite.best)
    idle = float(suite.bills["noop"].mean())

    def at_most(text: str, figure: str, surplus: np.ndarray) -> Gate:
        return Gate(text, figure, float(surplus.mean()), errors * standard_error(surplus))

    out = []
    for name in DEGENERATE[1:]:
        saved = suite.savings(name)
        figure = f"{100 * suite.share(name):+.1f} %" if most.mean() > 0 else f"$ {saved.mean():+.2f}"
        text = f"{name} saves at most 1/20 of what the best scripted policy ({suite.best}) saves"
        out.append(at_most(text, figure, saved - DEGENERATE_SHARE * most))
    if suite.quiet:
        text = "no policy beats doing nothing by more than 1 % of its bill"
        out.append(
            at_most(text, f"best: {suite.best}, {100 * most.mean() / idle:+.2f} %", most - QUIET_SHARE * idle)
        )
    else:
        runbook, random = suite.savings("runbook"), suite.savings("random")
        text = "random play saves less than 1/10 of what the runbook saves"
        figure = f"{100 * random.mean() / runbook.mean():+.1f} %"
        out.append(at_most(text, figure, random - RANDOM_SHARE * runbook))
        for name in ("handwritten", "runbook"):
            difference = bootstrap(suite.savings(name))
            text = f"doing nothing loses to {name}: the 95 % interval of the paired difference is above 0"
            out.append(Gate(text, f"$ {difference}", -difference.low))
    agreement = rank_correlation(mean_rewards(suite), mean_savings(suite))
    text = f"rank correlation of mean reward and mean saving over all baselines is at least {RANK_CORRELATION}"
    out.append(Gate(text, f"{agreement:.3f}", RANK_CORRELATION - agreement))
    return out
