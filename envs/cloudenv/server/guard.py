"""The door of the server: nothing comes in that is too large, or that is no JSON object.

OpenEnv ends a WebSocket session on a message that is a list, binary, or nested thousands of levels deep; and text
that can be read but not written back (lone surrogates, NaN) fails late, in whoever answers. Here such a message is
answered by an error, and the session goes on.
"""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .errors import error_body


def json_problem(text: str | bytes) -> str | None:
    """Why the text is no JSON object that can also be written back; None when it is one."""
    try:
        value = json.loads(text, parse_constant=_no_constant)
        if not isinstance(value, dict):
            return f"a JSON object is expected, not {_KINDS.get(type(value), 'a number')}"
        json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        return "nested too deep"
    except UnicodeError:
        return "text that is not Unicode"
    except ValueError as error:  # JSONDecodeError is one; so is an integer of more than 4,300 digits
        return str(error)
    return None


_KINDS = {list: "a list", str: "a string", bool: "a boolean", type(None): "null"}


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _refusal(status: int, code: str, message: str) -> JSONResponse:
    return JSONResponse(error_body(code, message), status, {"connection": "close"})  # what follows is not read


class Guard:
    """ASGI middleware; max_body: bytes of an HTTP body or a WebSocket message."""

    def __init__(self, app: ASGIApp, max_body: int) -> None:
        self.app = app
        self.max_body = max_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await self.app(scope, self._checked(receive, send), send)
        else:
            await self.app(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return  # the client has gone
            body += message.get("body", b"")
            if len(body) > self.max_body:
                refusal = _refusal(413, "TooLarge", f"a body has at most {self.max_body} bytes")
                return await refusal(scope, receive, send)
            if not message.get("more_body"):
                break
        wrong = json_problem(body) if body else None
        if wrong:
            return await _refusal(400, "InvalidJSON", f"the body is not usable: {wrong}")(scope, receive, send)
        given = False

        async def replay() -> Message:
            nonlocal given
            if given:
                return await receive()  # waits for the disconnect
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self.app(scope, replay, send)

    def _checked(self, receive: Receive, send: Send) -> Receive:
        async def checked() -> Message:
            while True:
                message = await receive()
                if message["type"] != "websocket.receive":
                    return message
                problem = self._problem(message)
                if problem is None:
                    return message
                data = {"message": problem, "code": "INVALID_JSON"}
                await send({"type": "websocket.send", "text": json.dumps({"type": "error", "data": data})})

        return checked

    def _problem(self, message: Message) -> str | None:
        text: str | None = message.get("text")
        if text is None:
            return "a binary message; CloudEnv speaks JSON text"
        if len(text) > self.max_body:
            return f"a message has at most {self.max_body} characters"
        problem = json_problem(text)
        return problem and f"Invalid JSON: {problem}"
