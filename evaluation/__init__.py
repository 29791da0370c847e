"""Agents, metrics, statistics and reports."""
