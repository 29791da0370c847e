"""What each emulator cannot do. tests/test_core_emulators.py tries every property and fault on every emulator that
is there: it fails when something is missing here, and when something here works after all.
"""

from __future__ import annotations

from collections.abc import Iterable

UNSUPPORTED: dict[str, dict[tuple[str, str, str], str]] = {
    "moto": {
        ("lambda", "function", "dead_letters"): "DeadLetterConfig is dropped",
    },
    "ministack": {
        ("ec2", "instance", "metadata_tokens"): "there is no ModifyInstanceMetadataOptions",
        ("ec2", "instance", "termination_protection"): "there is no ModifyInstanceAttribute",
    },
}
"""By emulator: (service, kind, property) -> why. moto in process and as a server are one."""

UNREPAIRABLE: dict[str, dict[str, str]] = {
    "moto-server": dict.fromkeys(
        ("CACHE_PLAIN_TRAFFIC", "CACHE_PLAIN_DISKS"),
        "the name of a deleted replication group can never be used again",
    ),
}
"""By emulator: fault -> why its repair cannot be carried out there. A generated task has none of these faults, so
that it is the same on every emulator."""


def unsupported(emulator: str, service: str, kind: str, prop: str) -> str | None:
    """Why an emulator cannot have a property, or None when it can."""
    return UNSUPPORTED.get(emulator, {}).get((service, kind, prop))


def unrepairable(emulator: str, faults: Iterable[str]) -> list[str]:
    """Which of the faults cannot be repaired on an emulator, and why."""
    known = UNREPAIRABLE.get(emulator, {})
    return [f"{fault}: {known[fault]}" for fault in faults if fault in known]
