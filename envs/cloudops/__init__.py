"""The simulated cloud as a gymnasium Env, a gymnasium VectorEnv and a Stable-Baselines3 VecEnv."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from envs.cloudops.env import CloudOpsEnv
from envs.cloudops.vector_env import CloudOpsVectorEnv

if TYPE_CHECKING:
    from envs.cloudops.sb3 import CloudOpsSB3VecEnv, make_sb3_vec

__all__ = ["CloudOpsEnv", "CloudOpsSB3VecEnv", "CloudOpsVectorEnv", "make_sb3_vec"]


def __getattr__(name: str) -> Any:
    """Stable-Baselines3 brings torch along: it is imported by who asks for it."""
    if name in ("CloudOpsSB3VecEnv", "make_sb3_vec"):
        from envs.cloudops import sb3

        return getattr(sb3, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
