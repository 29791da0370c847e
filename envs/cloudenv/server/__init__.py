"""The server side of CloudEnv."""
