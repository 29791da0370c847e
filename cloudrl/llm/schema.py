"""The contract of a reply: exactly one JSON object, as a JSON schema.

    {"action": "PATCH", "resource": "r3"}        an operation on a resource
    {"action": "NOOP"}                           nothing; "resource" must be absent

Both may carry a short "reason". Resources are named r0, r1, ... in the order of their slots, in every prompt.

    python -m cloudrl.llm.schema                                      # print it: any resource, every operation
    python -m cloudrl.llm.schema --resources 6 --actions core --out action.schema.json
"""

from __future__ import annotations

import argparse
import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

from cloudrl.actions import ALL_OPS, CORE_OPS, N_OPS, OP_NAMES, Op
from cloudrl.errors import UserError
from cloudrl.safety.config import ActionSet

MAX_REASON = 200
"""Characters of a reason."""
MAX_CHARACTERS = 512
"""Characters of a whole reply, a <think> block not counted."""
MAX_RESOURCES = 1000
"""More than any world has."""


@cache
def operations(actions: ActionSet = ActionSet.full) -> tuple[str, ...]:
    """Names of the operations of an action set that need a resource."""
    ops = CORE_OPS if actions is ActionSet.core else ALL_OPS
    return tuple(OP_NAMES[op] for op in range(N_OPS) if ops >> op & 1)


def resource_id(slot: int) -> str:
    """What prompts and replies call the resource in `slot`."""
    return f"r{slot}"


def action_schema(resources: int | None = None, actions: ActionSet = ActionSet.full) -> dict[str, Any]:
    """JSON schema (draft 2020-12) of a reply in a world of `resources` resources; None: of any world."""
    name: dict[str, Any] = {"type": "string", "pattern": "^r(0|[1-9][0-9]*)$"}
    if resources is not None:
        name = {"enum": [resource_id(slot) for slot in range(resources)]}
    reason = {"type": "string", "maxLength": MAX_REASON}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "One action of an agent that operates cloud infrastructure",
        "oneOf": [
            {
                "title": "An operation on a resource",
                "type": "object",
                "properties": {"action": {"enum": list(operations(actions))}, "resource": name, "reason": reason},
                "required": ["action", "resource"],
                "additionalProperties": False,
            },
            {
                "title": "Do nothing",
                "type": "object",
                "properties": {"action": {"const": Op.NOOP.name}, "reason": reason},
                "required": ["action"],
                "additionalProperties": False,
            },
        ],
    }


def reply(op: str, slot: int | None = None) -> str:
    """The canonical text of an action: no spaces, no reason."""
    if op == Op.NOOP.name:
        return '{"action":"NOOP"}'
    return f'{{"action":"{op}","resource":"r{slot}"}}'


def main(argv: list[str] | None = None) -> None:
    """Print or write the schema."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--resources", type=int, help="resources of the world (default: any)")
    parser.add_argument("--actions", choices=[a.value for a in ActionSet], default="full")
    parser.add_argument("--out", type=Path, help="a file to write (default: print)")
    args = parser.parse_args(argv)
    try:
        if args.resources is not None and not 1 <= args.resources <= MAX_RESOURCES:
            raise UserError(f"--resources {args.resources}: must be in [1, {MAX_RESOURCES}]")
        text = json.dumps(action_schema(args.resources, ActionSet(args.actions)), indent=2) + "\n"
        if args.out is None:
            print(text, end="")
            return
        temporary = args.out.with_name(args.out.name + ".tmp")
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(args.out)
    except UserError as error:
        sys.exit(f"cloudrl: {error}")
    except OSError as error:
        sys.exit(f"cloudrl: cannot write {args.out} ({error.strerror}): check --out")


if __name__ == "__main__":
    main()
