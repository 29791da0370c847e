"""CloudEnv: repair tasks on an emulated AWS, served over OpenEnv.

from cloudenv import CloudEnvAction, MyEnv
from cloudenv.server.providers.aws.services import AWSService
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if __name__ != "cloudenv":
    # A checkout of Cloud-RL also finds this folder as `envs.cloudenv`. Two copies of a module would have two
    # AWSService enums that are not equal, so there is only one name.
    raise ImportError(f"import it as `cloudenv`, not as `{__name__}`")

if TYPE_CHECKING:
    from .client import AsyncMyEnv, MyEnv
    from .models import CloudEnvAction, CloudEnvObservation, CloudEnvState
    from .server.providers.aws.services import AWSService

__version__ = "0.1.0"
__all__ = ["AWSService", "AsyncMyEnv", "CloudEnvAction", "CloudEnvObservation", "CloudEnvState", "MyEnv"]

_HOMES = {
    "AWSService": ".server.providers.aws.services",
    "AsyncMyEnv": ".client",
    "MyEnv": ".client",
    "CloudEnvAction": ".models",
    "CloudEnvObservation": ".models",
    "CloudEnvState": ".models",
}


def __getattr__(name: str) -> Any:
    """Names are imported when first used: the in-process session needs neither OpenEnv nor a web server."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
