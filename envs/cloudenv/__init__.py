"""CloudEnv: repair tasks on an emulated AWS."""
