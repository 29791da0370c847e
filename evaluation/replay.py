"""Results that can be played again: the scenario and the rules behind them, if they are still the same."""

from __future__ import annotations

from cloudrl.errors import UserError
from cloudrl.safety.config import ActionSet, SafetyConfig, SafetyMode
from cloudrl.scenarios.library import scenario_hash
from cloudrl.scenarios.schema import Scenario
from evaluation.results import Suite
from evaluation.suites import find_scenario


def rules_of(suite: Suite) -> tuple[Scenario, SafetyConfig]:
    """Scenario and safety of a suite, as they are now. Raises UserError if they are not those of the results.

    An immune memory only forbids actions; those that ran were allowed, so a replay does without it.
    """
    scenario = find_scenario(suite.scenario)
    now = scenario_hash(scenario)
    if now != suite.scenario_hash:
        raise UserError(
            f"{suite.id}: the scenario has changed since the run (hash {suite.scenario_hash}, now {now}), so its "
            f"episodes cannot be replayed; run the evaluation again"
        )
    return scenario, SafetyConfig(mode=SafetyMode[suite.safety], actions=ActionSet[suite.actions])
