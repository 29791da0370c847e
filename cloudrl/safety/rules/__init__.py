"""The safety rules, one file each. `RULES` fixes their order; `layer.py` calls them in it."""

from cloudrl.safety.rule import Rule
from cloudrl.safety.rules import (
    antibody,
    capacity,
    change_budget,
    delete_in_use,
    delete_protected,
    dependency_trouble,
    last_replica,
    recovery_only,
    replica_trouble,
    restart_loop,
    rotation_cooldown,
    scheduled_job,
)

RULES: tuple[Rule, ...] = (
    delete_in_use.RULE,
    delete_protected.RULE,
    scheduled_job.RULE,
    last_replica.RULE,
    capacity.RULE,
    replica_trouble.RULE,
    dependency_trouble.RULE,
    restart_loop.RULE,
    recovery_only.RULE,
    change_budget.RULE,
    rotation_cooldown.RULE,
    antibody.RULE,
)
