"""Trainers: MaskablePPO on numbers, GRPO on JSON actions."""
