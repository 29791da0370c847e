"""Cloud-RL: a simulated cloud in which agents learn to operate infrastructure."""

from cloudrl.actions import Action, Op
from cloudrl.memory.immune import ImmuneMemory
from cloudrl.scenarios.library import load_scenario
from cloudrl.scenarios.schema import Scenario
from cloudrl.simulator import Simulator

__version__ = "0.1.0"
__all__ = ["Action", "ImmuneMemory", "Op", "Scenario", "Simulator", "load_scenario"]
