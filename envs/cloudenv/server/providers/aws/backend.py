"""The emulator that answers AWS calls: moto in this process, or any emulator behind an HTTP endpoint on loopback.

No call can reach AWS. Clients are made from fixed fake keys and a session that reads neither environment nor
files; they send unsigned requests, and the last thing before a request is sent is a hook that either answers it
in process or checks that it goes to the one allowed endpoint. Proxies of the environment are switched off.
"""

from __future__ import annotations

import itertools
import os
import secrets
import threading
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any
from urllib.parse import urlsplit

import botocore.session
from botocore import UNSIGNED
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.client import BaseClient
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, ConnectionError, HTTPClientError, ParamValidationError
from botocore.validate import ParamValidator

from .errors import ApiError, BackendError

REGION = "us-east-1"
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
ENDPOINT_VARIABLE = "CLOUDENV_ENDPOINT_URL"
ALLOWED_HOST_VARIABLE = "CLOUDENV_ALLOWED_ENDPOINT_HOST"
"""Names one host besides loopback that the endpoint may have: an emulator in a neighbouring container."""

ANSWER_SECONDS = 20
"""How long an emulator behind an endpoint may take for one answer."""

ACCOUNT_PREFIX = "99"
"""Accounts of the emulator start with it. An agent never sees one, so a payload that names one is refused."""

_account: ContextVar[str] = ContextVar("account")


class Backend:
    """Answers AWS calls in accounts that do not see each other. Thread-safe; subclasses say how a request is
    sent.
    """

    name = "backend"
    queue_origin = f"https://sqs.{REGION}.amazonaws.com"
    """What the emulator's queue URLs start with."""

    def __init__(self) -> None:
        self._clients: dict[str, BaseClient] = {}
        self._lock = threading.Lock()
        self._session: botocore.session.Session | None = None
        self._accounts = itertools.count(secrets.randbelow(10**9) * 10)

    def new_account(self) -> str:
        """An account number (12 digits) that no other episode of this process uses, nor likely any other
        process.
        """
        return f"{ACCOUNT_PREFIX}{next(self._accounts) % 10**10:010d}"

    def call(self, account: str, service: str, operation: str, payload: Mapping[str, Any]) -> dict[str, Any]:
        """The response of one API call, without its metadata.

        Raises ApiError for everything that can go wrong, errors of the emulator's own code included.
        """
        client = self._client(service)
        token = _account.set(account)
        try:
            response = client._make_api_call(operation, dict(payload))
        except ClientError as e:
            error = e.response.get("Error", {})
            raise ApiError(str(error.get("Code") or "Unknown"), str(error.get("Message") or e)) from None
        except ParamValidationError as e:
            raise ApiError("ParamValidationError", " ".join(str(e).split())) from None
        except (ConnectionError, HTTPClientError, OSError) as e:
            raise ApiError("EmulatorUnavailable", f"{self.name} does not answer: {type(e).__name__}") from None
        except BotoCoreError as e:
            raise ApiError("ParamValidationError", str(e)) from None
        except BackendError as e:
            raise ApiError("NotAllowed", str(e)) from None
        except Exception as e:  # moto raises KeyError, NotImplementedError, RecursionError, ... from its own code
            if wrong := _wrong_types(client, operation, payload):
                raise ApiError("ParamValidationError", wrong) from None
            raise ApiError("EmulatorError", f"{service}.{operation} failed inside the emulator: {e!r}") from None
        finally:
            _account.reset(token)
        response.pop("ResponseMetadata", None)
        return response

    def operations(self, service: str) -> frozenset[str]:
        """Every operation that AWS has for the service; raises ValueError for an unknown service."""
        return frozenset(self._client(service).meta.service_model.operation_names)

    def free(self, account: str) -> bool:
        """Drop everything the account holds; False when the backend cannot, and resources must be deleted
        singly.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            for client in self._clients.values():
                client.close()
            self._clients.clear()

    def _client(self, service: str) -> BaseClient:
        client = self._clients.get(service)
        if client is None:
            with self._lock:
                client = self._clients.get(service) or self._new_client(service)
                self._clients[service] = client
        return client

    def _new_client(self, service: str) -> BaseClient:
        if self._session is None:
            self._session = _blind_session()
        client = self._session.create_client(
            service,
            region_name=REGION,
            endpoint_url=self._endpoint(),
            aws_access_key_id="CLOUDENVFAKEKEY00000",
            aws_secret_access_key="fake",
            config=Config(
                signature_version=UNSIGNED,  # a real signature costs 0.3 ms a call and no emulator checks it
                s3={"addressing_style": "path"},
                retries={"total_max_attempts": 1},
                proxies={},
                connect_timeout=5,
                read_timeout=ANSWER_SECONDS,
                max_pool_connections=64,
                use_fips_endpoint=False,
                use_dualstack_endpoint=False,
                ignore_configured_endpoint_urls=True,
                inject_host_prefix=False,
            ),
        )
        scope = client.meta.service_model.signing_name

        def send(request: AWSPreparedRequest, **_: Any) -> AWSResponse | None:
            account = _account.get()
            # moto takes the account from its header, ministack from a key of 12 digits
            request.headers["x-moto-account-id"] = account
            request.headers["Authorization"] = (
                f"AWS4-HMAC-SHA256 Credential={account}/20260101/{REGION}/{scope}/aws4_request, "
                "SignedHeaders=host, Signature=0"
            )
            return self._send(request)

        self._prepare(client)
        client.meta.events.register_first("before-send", send)
        return client

    def _endpoint(self) -> str | None:
        return None

    def _prepare(self, client: BaseClient) -> None:
        """A last change to a new client."""

    def _send(self, request: AWSPreparedRequest) -> AWSResponse | None:
        """Answer the request, or return None to have it sent; raises BackendError when it must not be sent."""
        raise NotImplementedError


class HttpBackend(Backend):
    """An emulator at an HTTP endpoint: ministack, moto server, LocalStack. Loopback only.

    It must keep accounts apart, by the `x-moto-account-id` header or by an access key of 12 digits.
    """

    def __init__(self, url: str, allowed_host: str | None = None) -> None:
        super().__init__()
        parts = urlsplit(url)
        host = parts.hostname or ""
        if parts.scheme not in ("http", "https") or not host:
            raise BackendError(f"{ENDPOINT_VARIABLE}={url!r} is not a URL such as http://127.0.0.1:4566")
        if host not in LOOPBACK and host != (allowed_host or None):
            raise BackendError(
                f"{ENDPOINT_VARIABLE}={url!r} is not on loopback; CloudEnv talks to a local emulator only "
                f"(a neighbouring container is named in {ALLOWED_HOST_VARIABLE})"
            )
        if host.endswith("amazonaws.com") or host.endswith("amazonaws.com.cn"):
            raise BackendError(f"{ENDPOINT_VARIABLE}={url!r} is real AWS; CloudEnv never calls it")
        self.url = self.queue_origin = url.rstrip("/")
        self.name = f"the emulator at {self.url}"
        self._origin = (parts.scheme, parts.netloc)

    def _endpoint(self) -> str:
        return self.url

    def _send(self, request: AWSPreparedRequest) -> None:
        parts = urlsplit(request.url)
        if (parts.scheme, parts.netloc) != self._origin:
            raise BackendError(f"a request to {parts.netloc} was stopped: only {self.url} is allowed")

    def free(self, account: str) -> bool:
        return False


def make_backend(environ: Mapping[str, str] | None = None) -> Backend:
    """The backend that the environment names: `CLOUDENV_ENDPOINT_URL`, or moto in this process when it is unset.

    Raises BackendError for an endpoint outside loopback.
    """
    variables = os.environ if environ is None else environ
    url = variables.get(ENDPOINT_VARIABLE, "").strip()
    if url:
        return HttpBackend(url, variables.get(ALLOWED_HOST_VARIABLE, "").strip() or None)
    from .moto_backend import MotoBackend

    return MotoBackend()


_shared: Backend | None = None
_shared_lock = threading.Lock()


def default_backend(make: Callable[[], Backend] = make_backend) -> Backend:
    """The one backend of this process, made on first use: clients are expensive to make and cheap to share."""
    global _shared
    with _shared_lock:
        if _shared is None:
            _shared = make()
        return _shared


def _wrong_types(client: BaseClient, operation: str, payload: Mapping[str, Any]) -> str:
    """What is wrong with the types of a payload; empty: nothing. botocore looks at some values (is this a bucket's
    name?) before it checks the types, and fails with its own TypeError.
    """
    shape = client.meta.service_model.operation_model(operation).input_shape
    report = ParamValidator().validate(dict(payload), shape) if shape is not None else None
    if report is None or not report.has_errors():
        return ""
    return " ".join(str(ParamValidationError(report=report.generate_report())).split())


def _blind_session() -> botocore.session.Session:
    """A botocore session that reads no profile, no config file and no credentials."""
    nothing = (None, None, None, None)
    return botocore.session.Session(
        session_vars={
            "profile": nothing,
            "config_file": (None, None, os.devnull, None),
            "credentials_file": (None, None, os.devnull, None),
        }
    )
