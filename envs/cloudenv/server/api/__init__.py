"""The HTTP API beside OpenEnv's WebSocket."""
