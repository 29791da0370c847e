"""Agents that act in many worlds at once, and the networks behind them."""
