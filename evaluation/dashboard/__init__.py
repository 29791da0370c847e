"""The dashboard: train, monitor, evaluate, compare, step through episodes, in a browser (docs/dashboard.md)."""
