"""What can go wrong between an agent and the emulator, as AWS words it: a code and a message."""

from __future__ import annotations


class ApiError(Exception):
    """An AWS API error, from the emulator or from CloudEnv's own validation.

    `code` is AWS's (NoSuchBucket, AccessDenied, ...). Codes of CloudEnv itself: `NotAllowed` (operation or
    parameter outside the allow-list), `EmulatorUnavailable` (down or slow), `EmulatorError` (it failed in an
    unexpected way).
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class PipelineError(ValueError):
    """A pipeline or task that cannot be built: says which resource and which property."""


class BackendError(ValueError):
    """A backend that may not, or cannot, be used: an endpoint outside loopback, an emulator that is down."""
