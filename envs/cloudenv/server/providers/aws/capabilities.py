"""What each emulator cannot do. tests/test_core_emulators.py tries every property on every emulator that is there:
it fails when something is missing here, and when something here works after all.
"""

from __future__ import annotations

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


def unsupported(emulator: str, service: str, kind: str, prop: str) -> str | None:
    """Why an emulator cannot have a property, or None when it can."""
    return UNSUPPORTED.get(emulator, {}).get((service, kind, prop))
