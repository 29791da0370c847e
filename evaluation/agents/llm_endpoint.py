"""Agents `endpoint:<base url>#<model>`: a language model behind any OpenAI-compatible server.

    endpoint:http://127.0.0.1:8080/v1#my-model          POST <base url>/chat/completions

The key, if one is needed, is read from the environment (OPENAI_API_KEY) by the process that asks; it is never
written anywhere. A server that does not answer, or answers something that is no chat completion, fails the agent.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any
from urllib.parse import urlsplit

import httpx

from cloudrl.errors import UserError
from cloudrl.llm.prompt import Messages
from evaluation.agents.entry import Context, Entry, code_of
from evaluation.agents.language import LanguageAgent, Reply
from evaluation.config import LanguageSettings

KEY = "OPENAI_API_KEY"
_PASSING = {408, 409, 425, 429, 500, 502, 503, 504}
"""Statuses after which another try makes sense."""
_FIRST_PAUSE = 0.25  # seconds, doubled after every try


class EndpointError(ValueError):
    """The server cannot be used; one line."""


class Endpoint:
    """Answers chats by asking a server, several at once.

    Args:
        base_url: up to and including /v1.
        model: as the server calls it.
        settings: time-outs, retries, sampling.
        seed: sent along, so that attempts differ where the server samples.
    """

    def __init__(self, base_url: str, model: str, settings: LanguageSettings, seed: int = 0) -> None:
        self.base_url, self.model, self.settings, self.seed = base_url.rstrip("/"), model, settings, seed
        self._key = os.environ.get(KEY, "")
        local = urlsplit(base_url).hostname in ("127.0.0.1", "localhost", "::1")
        self._client = httpx.Client(
            headers={"Authorization": f"Bearer {self._key}"} if self._key else {},
            timeout=settings.timeout,
            limits=httpx.Limits(max_connections=settings.concurrency),
            trust_env=not local,  # no proxy stands between this machine and itself
        )
        self._pool = ThreadPoolExecutor(settings.concurrency)

    def __call__(self, chats: list[Messages]) -> list[Reply]:
        """Replies in the order of the chats. Raises EndpointError."""
        waiting = [self._pool.submit(self._ask, chat) for chat in chats]
        try:
            return [future.result() for future in waiting]
        except BaseException:
            for future in waiting:
                future.cancel()
            raise

    def _ask(self, chat: Messages) -> Reply:
        body = {
            "model": self.model,
            "messages": chat,
            "temperature": self.settings.temperature,
            "max_tokens": self.settings.max_tokens,
            "seed": self.seed,
        }
        tries = self.settings.retries + 1
        for k in range(tries):
            if k:
                time.sleep(_FIRST_PAUSE * 2 ** (k - 1))
            try:
                response = self._client.post(f"{self.base_url}/chat/completions", json=body)
            except httpx.TimeoutException:
                trouble = f"no answer within {self.settings.timeout:g} s"
                continue
            except httpx.TransportError as error:
                trouble = f"cannot be reached: {self._clean(str(error) or type(error).__name__)}"
                continue
            if response.status_code not in _PASSING:
                return self._reply(response)
            trouble = f"status {response.status_code}: {self._clean(response.text)}"
        raise EndpointError(f"{self.base_url}: {trouble} ({tries} tries)")

    def _reply(self, response: httpx.Response) -> Reply:
        if response.is_error or not response.is_success:
            raise EndpointError(f"{self.base_url}: status {response.status_code}: {self._clean(response.text)}")
        try:
            data: Any = response.json()
            text = data["choices"][0]["message"]["content"]
            usage = data.get("usage") or {}
            tokens = [int(usage.get(name) or 0) for name in ("prompt_tokens", "completion_tokens")]
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            raise EndpointError(
                f"{self.base_url}: the answer is no chat completion: {self._clean(response.text)}"
            ) from None
        return Reply("" if text is None else str(text), *tokens)

    def _clean(self, text: str) -> str:
        """The beginning of a text on one line, without the key in case a server repeats it."""
        text = text.replace(self._key, "***") if self._key else text
        text = " ".join(text.split())
        return text if len(text) <= 160 else text[:157] + "..."


# ---------------------------------------------------------------- the registry's side
def split(argument: str) -> tuple[str, str, int]:
    """(base url, model, attempt) of what follows `endpoint:`. Raises UserError."""
    url, _, rest = argument.partition("#")
    model, _, attempt = rest.partition("#")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or not model:
        raise UserError(
            f"agents: endpoint:{argument}: write 'endpoint:http://<host>:<port>/v1#<model>', in quotes"
        )
    if parts.username or parts.password or parts.query:
        raise UserError(f"agents: endpoint:{parts.scheme}://{parts.hostname}...: the key belongs into {KEY}")
    return url, model, int(attempt) if attempt.isdecimal() else 1


def describe(argument: str, context: Context) -> Entry:
    url, model, attempt = split(argument)
    asked = {k: v for k, v in asdict(context.language).items() if k not in ("timeout", "retries", "concurrency")}
    code = code_of("cloudrl/llm/*.py", "evaluation/agents/language.py", "evaluation/agents/llm_endpoint.py")
    name = model if attempt == 1 else f"{model} ({attempt})"
    return Entry(
        name, argument, f"{url} {model} {attempt} {sorted(asked.items())} {code}", f"{model} at {url}", slow=True
    )


def build(argument: str, context: Context) -> LanguageAgent:
    url, model, attempt = split(argument)
    return LanguageAgent(model, Endpoint(url, model, context.language, seed=attempt - 1), context)
