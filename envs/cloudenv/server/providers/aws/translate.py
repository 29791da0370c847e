"""Between what an agent sees and what the emulator holds.

An agent always sees account 123456789012, the bucket names of its task and ids that depend on names alone, so
the same episode reads the same on every emulator, in every run. The emulator holds an account of its own per
episode, bucket names with a suffix (they are global even across accounts), and random ids.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
from datetime import datetime
from typing import Any

from .backend import ACCOUNT_PREFIX, REGION
from .errors import ApiError

ACCOUNT = "123456789012"
"""The account number that every agent sees."""

QUEUE_URL = f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/"
EPOCH = "2026-01-01T00:00:00Z"
"""Stands for every time stamp."""

BASE64 = "$base64"
"""Bytes travel through json as {"$base64": "<text>"}."""

BUCKET_KEYS = frozenset({"Bucket", "TargetBucket", "S3BucketName"})
SUFFIX_LENGTH = 9

_OTHER_ACCOUNT = re.compile(rf"(?<!\d){ACCOUNT_PREFIX}\d{{10}}(?!\d)")
_URL = re.compile(r"https?://", re.IGNORECASE)
_BUCKET_ARN = re.compile(r"(arn:aws:s3:::)([a-z0-9][a-z0-9.-]*)(?![a-z0-9.*?-])")
_ID = re.compile(
    r"\b(?:(?P<ec2>sg|sgr|vpc|subnet|i|vol|eni|eni-attach|igw|acl|rtb|dopt|ami|r|snap|fl)"
    r"-(?:[0-9a-f]{17}|[0-9a-f]{8})"
    r"|(?P<iam>AROA|AIDA|AKIA|ANPA|AGPA|AIPA)[A-Z0-9]{12,17}"
    r"|(?P<uuid>[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}))\b"
)
_SECRET_ARN = re.compile(r"(arn:aws:secretsmanager:[\w-]*:\d{12}:secret:.+)-[A-Za-z0-9]{6}")
_TIME_KEY = re.compile(r"(Timestamp|Modified|Date|Time|TimeLoggingStarted|TimeLoggingStopped)$")
_TIME_TEXT = re.compile(r"\d{9,}(\.\d+)?$|\d{4}-\d\d-\d\d[T ]")
_HIDDEN = {
    "SecretAccessKey": "***",
    "SessionToken": "***",
    "PrivateIpAddress": "10.0.0.1",
    "PublicIpAddress": "203.0.113.1",
    "PublicIp": "203.0.113.1",
    "PrivateDnsName": "ip-10-0-0-1.ec2.internal",
    "PublicDnsName": "ec2-203-0-113-1.compute-1.amazonaws.com",
    "MacAddress": "02:00:00:00:00:01",
    "ClientToken": "",
    "NextToken": "-",
    "Address": "endpoint.internal",
    "DbiResourceId": "db-AAAAAAAAAAAAAAAAAAAAAAAAAA",
    "PreferredBackupWindow": "03:00-03:30",
    "PreferredMaintenanceWindow": "sun:05:00-sun:05:30",
    "CurrentKeyMaterialId": "-",
}
"""What stands for values that are secret, or that an emulator draws at random, by key."""


def stable_id(prefix: str, name: str) -> str:
    """The id an agent sees for a resource of this name: `sg-` and 17 hex digits, or a uuid for the prefix
    "uuid".
    """
    digest = hashlib.sha256(f"{prefix}:{name}".encode()).hexdigest()
    if prefix == "uuid":
        return f"{digest[:8]}-{digest[8:12]}-4{digest[13:16]}-8{digest[17:20]}-{digest[20:32]}"
    return f"{prefix}-{digest[:17]}"


class Translator:
    """The names of one episode, both ways."""

    def __init__(self, account: str, queue_origin: str) -> None:
        self.account = account
        self.suffix = f"-{secrets.token_hex(SUFFIX_LENGTH // 2)}"
        self._queue_prefix = f"{queue_origin}/{account}/"
        self._any_queue = re.compile(rf"https?://[^/\s\"]+/{account}/")
        self._to_physical: dict[str, str] = {}
        self._to_logical: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def bind(self, logical: str, physical: str) -> None:
        """From now on the agent's id `logical` means the emulator's `physical`."""
        self._to_physical[logical] = physical
        self._to_logical[physical] = logical

    def to_physical(self, value: Any, key: str = "") -> Any:
        """A payload for the emulator. Raises ApiError for accounts of others and for URLs."""
        if isinstance(value, dict):
            if set(value) == {BASE64}:
                return decode_bytes(value)
            return {self.to_physical(k): self.to_physical(v, str(k)) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.to_physical(v, key) for v in value]
        if not isinstance(value, str):
            return value
        if _OTHER_ACCOUNT.search(value):
            raise ApiError("AccessDenied", "the payload names an account of the emulator that is not yours")
        value = value.replace(QUEUE_URL, "\0queue/")
        if _URL.search(value):
            raise ApiError(
                "NotAllowed", "URLs are not allowed in a payload; the only ones are those of your queues"
            )
        if key in BUCKET_KEYS and not value.startswith("arn:"):
            return value + self.suffix
        value = _BUCKET_ARN.sub(lambda m: m.group(1) + m.group(2) + self.suffix, value)
        value = _ID.sub(self._known_id, value)
        return value.replace(ACCOUNT, self.account).replace("\0queue/", self._queue_prefix)

    def to_logical(self, value: Any, key: str = "") -> Any:
        """A response as the agent sees it: json values only, nothing random, no time."""
        if isinstance(value, dict):
            return {self.to_logical(k): self.to_logical(v, str(k)) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            items = [self.to_logical(v, key) for v in value]
            if items and all(isinstance(item, dict) for item in items):
                items.sort(key=_text)  # moto lists some resources in the order of their random ids
            return items
        if isinstance(value, datetime):
            return EPOCH
        if isinstance(value, (bytes, bytearray)):
            return {BASE64: base64.b64encode(value).decode()}
        if hasattr(value, "read"):
            return self.to_logical(value.read())
        if _TIME_KEY.search(key) and (
            (isinstance(value, str) and _TIME_TEXT.match(value))
            or (isinstance(value, float | int) and value > 1e9)
        ):
            return EPOCH
        if not isinstance(value, str):
            return value
        if key in _HIDDEN:
            return _HIDDEN[key]
        if key == "ARN" and (secret := _SECRET_ARN.fullmatch(value)):
            value = secret[1]  # AWS and the emulators end it with random characters, which may be left out
        value = value.replace(self.suffix, "")
        value = self._any_queue.sub(QUEUE_URL, value)
        value = value.replace(self.account, ACCOUNT)
        return _ID.sub(self._agent_id, value)

    def _known_id(self, match: re.Match[str]) -> str:
        found = self._to_physical.get(match[0])
        if found is None:  # the agent's own text, such as a uuid in an environment variable: it stays as it is
            self.bind(match[0], match[0])
            return match[0]
        return found

    def _agent_id(self, match: re.Match[str]) -> str:
        found = self._to_logical.get(match[0])
        if found is not None:
            return found
        prefix = match["ec2"] or match["iam"] or "uuid"
        number = self._counts[prefix] = self._counts.get(prefix, 0) + 1
        if match["uuid"]:
            logical = f"00000000-0000-4000-8000-{number:012d}"
        elif match["iam"]:
            logical = f"{prefix}{number:017d}"
        else:
            logical = f"{prefix}-{number:017d}"
        self.bind(logical, match[0])
        return logical


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def decode_bytes(value: dict[str, Any]) -> bytes:
    """The bytes of {"$base64": text}; raises ApiError when the text is not base64."""
    try:
        return base64.b64decode(value[BASE64], validate=True)
    except (ValueError, TypeError):
        raise ApiError("SerializationException", f"the text under {BASE64} is not base64") from None
