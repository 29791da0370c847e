"""A scripted OpenAI-compatible server on loopback: real HTTP, no model."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, str]
"""Status and body."""


def completion(text: str | None, prompt_tokens: int = 11, completion_tokens: int = 7) -> Answer:
    """A chat completion that says `text`."""
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    return 200, json.dumps({"object": "chat.completion", "choices": [choice], "usage": usage})


class Server:
    """What was asked, and where to ask."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[dict[str, Any]] = []  # bodies, with "path" and "authorization"
        self.most_at_once = 0

    def spec(self, model: str = "model") -> str:
        return f"endpoint:{self.url}#{model}"


@contextmanager
def serving(answer: Callable[[dict[str, Any]], Answer]) -> Iterator[Server]:
    """A server that answers the body of each request by `answer(body)`; it may sleep or raise (= hang up)."""
    lock, now = threading.Lock(), [0]

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                now[0] += 1
                server.most_at_once = max(server.most_at_once, now[0])
                extra = {"path": self.path, "authorization": self.headers.get("Authorization")}
                server.requests.append(body | extra)
            try:
                status, text = answer(body)
                data = text.encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            except (BrokenPipeError, ConnectionError):
                self.close_connection = True
            finally:
                with lock:
                    now[0] -= 1

        def log_message(self, *arguments: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    server = Server(f"http://127.0.0.1:{http.server_port}/v1")
    thread = threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
