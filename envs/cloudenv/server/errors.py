"""Errors over HTTP: `{"error": {"code": ..., "message": ...}}`, as in the operation_result of an observation."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException


class ApiProblem(Exception):
    """Answered with `status` and a body that says what is wrong and what to do."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


def error_body(code: str, message: str, **more: Any) -> dict[str, Any]:
    """The body of every error."""
    return {"error": {"code": code, "message": message, **more}}


def install(app: FastAPI) -> None:
    """Give the app these bodies. What the caller sent is never echoed: it may be huge, or impossible to write."""

    @app.exception_handler(ApiProblem)
    async def problem(_: Request, error: ApiProblem) -> JSONResponse:
        return JSONResponse(error_body(error.code, error.message), error.status)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        fields = [
            {"field": ".".join(str(part) for part in item["loc"]), "problem": item["msg"]}
            for item in error.errors()
        ]
        first = f"{fields[0]['field']}: {fields[0]['problem']}" if fields else "invalid request"
        return JSONResponse(error_body("InvalidRequest", first, fields=fields), 422)

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> JSONResponse:
        code = {404: "NotFound", 405: "MethodNotAllowed"}.get(error.status_code, "HTTPError")
        message = f"{request.method} {request.url.path}: {error.detail}"
        return JSONResponse(error_body(code, message), error.status_code, error.headers)
