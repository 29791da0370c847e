"""Cloud providers."""
