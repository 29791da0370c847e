"""What CloudEnv uses of OpenEnv, imported without Gradio.

`openenv.core` imports Gradio for a page that CloudEnv replaces by its own; that alone takes two of the three
seconds of a start. OpenEnv works without Gradio (it catches the ModuleNotFoundError): it is hidden for a moment.
"""

from __future__ import annotations

import sys

_hidden = "gradio" not in sys.modules and "openenv.core" not in sys.modules
if _hidden:
    sys.modules["gradio"] = None  # type: ignore[assignment]  # makes `import gradio` raise ModuleNotFoundError
try:
    from openenv.core.client_types import StepResult
    from openenv.core.env_client import EnvClient
    from openenv.core.env_server.http_server import HTTPEnvServer
    from openenv.core.env_server.interfaces import Environment
    from openenv.core.env_server.serialization import serialize_observation
    from openenv.core.env_server.types import (
        Action,
        ConcurrencyConfig,
        EnvironmentMetadata,
        Observation,
        State,
    )
    from openenv.core.sync_client import SyncEnvClient
finally:
    if _hidden:
        del sys.modules["gradio"]

__all__ = [
    "Action", "ConcurrencyConfig", "EnvClient", "Environment", "EnvironmentMetadata", "HTTPEnvServer",
    "Observation", "State", "StepResult", "SyncEnvClient", "serialize_observation",
]  # fmt: skip
