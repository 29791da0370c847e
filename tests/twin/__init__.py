"""The simulated cloud once more, as plain Python objects: written from the equations, not from the kernels.

It is the oracle of the parity tests (bit-exact), and the ordinary object-per-resource environment that the
benchmarks compare the kernels with. It shares constants, enums and blueprints with cloudrl, and no kernel.
"""

from tests.twin.env import TwinEnv
from tests.twin.memory import TwinMemory

__all__ = ["TwinEnv", "TwinMemory"]
