"""moto inside this process, without its global mocks: only CloudEnv's own clients are answered by it."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import SplitResult, urlsplit

import moto.backend_index as backend_index
import moto.backends as moto_backends
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.client import BaseClient
from moto.core import DEFAULT_ACCOUNT_ID
from moto.core.base_backend import BackendDict, backend_lock
from moto.core.botocore_stubber import MockRawResponse
from moto.core.config import default_user_config
from moto.core.exceptions import HTTPException
from moto.core.model_instances import reset_model_data
from moto.core.models import botocore_stubber
from moto.core.request import normalize_request

from .backend import REGION, Backend
from .errors import BackendError

Handler = Callable[[Any, str, Any], tuple[int, Any, Any]]


@contextmanager
def _unenforced(account: str, url: SplitResult) -> Iterator[None]:
    """Look away from the bucket's policy during a call about an object.

    moto evaluates it without its conditions, so that a policy against plain http would refuse every call. Other
    emulators evaluate none.
    """
    bucket_name, _, key = url.path.lstrip("/").partition("/")
    if not key or not url.netloc.startswith("s3."):
        yield
        return
    bucket = moto_backends.get_backend("s3")[account]["aws"].buckets.get(bucket_name)
    policy = getattr(bucket, "policy", None)
    if bucket is not None:
        bucket.policy = None
    try:
        yield
    finally:
        if bucket is not None:
            bucket.policy = policy


class MotoBackend(Backend):
    """moto's backends, called directly: no server, no sockets, no patch of boto3 or requests."""

    name = "moto"

    def __init__(self) -> None:
        super().__init__()
        default_user_config["lambda"] = {
            "use_docker": False
        }  # functions answer with a canned result; no code runs
        default_user_config["batch"] = {"use_docker": False}
        # 1,300 images per account cost 200 ms, and megabytes; instances may name any image without them
        os.environ.setdefault("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")
        self._routes: dict[str, list[tuple[re.Pattern[str], Handler]]] = {}
        self._routes_lock = threading.Lock()
        self._called: set[tuple[str, str]] = set()
        self._first_call = threading.Lock()

    def call(self, account: str, service: str, operation: str, payload: Mapping[str, Any]) -> dict[str, Any]:
        if (service, operation) not in self._called:
            # botocore and moto load models at first use, and sixty threads that begin at once would each load them
            with self._first_call:
                if (service, operation) not in self._called:
                    try:
                        return self._call(account, service, operation, payload)
                    finally:
                        self._called.add((service, operation))
        return self._call(account, service, operation, payload)

    def _call(self, account: str, service: str, operation: str, payload: Mapping[str, Any]) -> dict[str, Any]:
        response = super().call(account, service, operation, payload)
        if (service, operation) == ("elasticache", "DeleteReplicationGroup"):
            # moto keeps it as "deleting" for ever, and its name can never be used again
            groups = moto_backends.get_backend("elasticache")[account][REGION].replication_groups
            groups.pop(payload["ReplicationGroupId"], None)
        return response

    def _prepare(self, client: BaseClient) -> None:
        # under somebody's mock_aws the built-in hook would execute every request a second time
        client.meta.events.unregister("before-send", botocore_stubber)

    def _send(self, request: AWSPreparedRequest) -> AWSResponse:
        url = request.url.split("?", 1)[0]
        handler = self._route(url)
        if handler is None:
            raise BackendError(f"a request to {url} was stopped: moto does not emulate it")
        mocked = normalize_request(request)
        try:
            with _unenforced(request.headers["x-moto-account-id"], urlsplit(url)):
                status, headers, body = handler(mocked, mocked.raw_url, mocked.headers)
        except HTTPException as e:
            status, headers, body = e.code or 500, e.get_headers(), e.get_body()
        return AWSResponse(request.url, status, headers, MockRawResponse(body))  # type: ignore[arg-type]

    def _route(self, url: str) -> Handler | None:
        for service, pattern in backend_index.backend_url_patterns:
            if pattern.match(url):
                for path, handler in self._service_routes(service):
                    if path.match(url):
                        return handler
        return None

    def _service_routes(self, service: str) -> list[tuple[re.Pattern[str], Handler]]:
        """moto formats and compiles these patterns anew for every request; here it is done once."""
        routes = self._routes.get(service)
        if routes is None:
            with self._routes_lock:
                accounts = moto_backends.get_backend(service)  # type: ignore[call-overload]
                regions = accounts[DEFAULT_ACCOUNT_ID] if isinstance(accounts, BackendDict) else accounts
                one = regions["us-east-1" if "us-east-1" in regions else "global"]
                routes = [(re.compile(url), handler) for url, handler in one.urls.items()]
                self._routes[service] = routes
        return routes

    def free(self, account: str) -> bool:
        with backend_lock:
            for accounts in list(BackendDict._instances):  # type: ignore[misc]
                if account not in dict.keys(accounts):
                    continue
                held = dict.pop(accounts, account)
                for region in list(held.values()):
                    if accounts.service_name == "s3":
                        _drop_buckets(region, accounts)
                    region.__dict__.clear()
                held.clear()  # a cache of moto keeps the last 128 of these dictionaries alive: leave them empty
            reset_model_data()  # moto remembers every object it ever made, for a page that shows them
        return True


def _drop_buckets(region: Any, accounts: Any) -> None:
    """What `region.reset()` does for its own buckets; that also closes the objects of all other accounts."""
    for bucket in region.buckets.values():
        for item in [*bucket.keys.values(), *bucket.multiparts.values()]:
            if hasattr(item, "dispose"):
                item.dispose()
        accounts.bucket_accounts.pop(bucket.name, None)  # names are global: the table is shared by all accounts
