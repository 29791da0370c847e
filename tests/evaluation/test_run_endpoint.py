"""Language models behind a server: real HTTP on loopback, strict parsing, bounded waiting, no secrets."""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np
import pytest

from cloudrl.actions import OP_NAMES
from cloudrl.compose import load_scenario
from cloudrl.errors import UserError
from evaluation.agents.entry import Context
from evaluation.agents.language import LanguageAgent
from evaluation.agents.llm_endpoint import Endpoint, EndpointError, build, describe, split
from evaluation.config import LanguageSettings
from evaluation.metrics import Recorder
from evaluation.rollout import play_episodes
from tests.evaluation.openai_server import Answer, completion, serving

SEEDS = np.arange(10_000, 10_003)
TICKS = 20
CHAT = [{"role": "user", "content": "hello"}]
NOOP_REPLY = '{"action": "NOOP"}'


def played(spec_of: Any, **settings: Any) -> tuple[LanguageAgent, Recorder]:
    scenario = load_scenario("easy", {"horizon.ticks": TICKS})
    agent = build(spec_of.spec().partition(":")[2], Context(scenario, LanguageSettings(**settings)))
    recorder = Recorder()
    play_episodes(agent, scenario, SEEDS, on_tick=recorder)
    return agent, recorder


def test_a_model_plays_and_its_replies_and_tokens_are_counted() -> None:
    """The server analyses r0 in every second request of a world; the other replies are faulty in turn."""
    faulty = [
        "not json",
        '{"action": "NOOP"} and more',
        '{"action": "FLY", "resource": "r0"}',
        '{"action": "PATCH"}',
    ]
    seen: dict[str, int] = {}

    def answer(body: dict[str, Any]) -> Answer:
        k = seen[body["model"]] = seen.get(body["model"], -1) + 1
        return completion('{"action": "ANALYZE", "resource": "r0"}' if k % 2 == 0 else faulty[k // 2 % 4])

    with serving(answer) as server:
        agent, recorder = played(server, concurrency=1)
    counts, n = agent.counts(), TICKS * len(SEEDS)
    assert counts["replies"].tolist() == [TICKS] * 3
    assert counts["json_valid"].mean() == pytest.approx(0.5)
    rejected = {
        name.removeprefix("rejected_"): int(v.sum()) for name, v in counts.items() if name.startswith("rej")
    }
    for code in ("not_json", "trailing_text", "unknown_action", "missing_key"):
        assert rejected.pop(code) in (n // 8, n // 8 + 1), code
    assert not any(rejected.values())
    assert (counts["prompt_tokens"] == 11 * TICKS).all() and (counts["completion_tokens"] == 7 * TICKS).all()
    ops = dict(zip(OP_NAMES, recorder.ops.sum(axis=0), strict=True))
    assert ops["ANALYZE"] == n // 2 - int(recorder.metrics()["invalid"].sum()) and ops["ANALYZE"] > 0
    assert ops["ANALYZE"] + ops["NOOP"] == n
    body = server.requests[0]
    assert body["path"] == "/v1/chat/completions" and body["max_tokens"] == 64 and body["temperature"] == 0.0
    assert [m["role"] for m in body["messages"]] == ["system", "user"] and "r0" in body["messages"][1]["content"]


def test_what_the_model_reads_is_what_it_sees() -> None:
    """Every tick and world gives a prompt of its own, and the style and the list of actions are the settings'."""
    with serving(lambda body: completion(NOOP_REPLY)) as server:
        played(server, style="full", allowed=True)
    texts = [body["messages"][1]["content"] for body in server.requests]
    assert len(texts) == TICKS * len(SEEDS) and len(set(texts)) == len(texts)
    assert all("allowed: " in text for text in texts)


def test_replies_come_in_order_and_several_requests_are_under_way() -> None:
    def answer(body: dict[str, Any]) -> Answer:
        k = int(body["messages"][0]["content"])
        time.sleep(0.05 if k % 3 == 0 else 0.01)  # later questions are answered first
        return completion(str(k))

    with serving(answer) as server:
        ask = Endpoint(server.url, "m", LanguageSettings(concurrency=4))
        replies = ask([[{"role": "user", "content": str(k)}] for k in range(24)])
        assert [reply.text for reply in replies] == [str(k) for k in range(24)]
        assert 2 <= server.most_at_once <= 4


def test_what_may_pass_is_tried_again() -> None:
    answers = iter([(503, "busy"), (429, "slow down"), completion(NOOP_REPLY)])
    with serving(lambda body: next(answers)) as server:
        assert Endpoint(server.url, "m", LanguageSettings(retries=2))([CHAT])[0].text == NOOP_REPLY
        assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("answer", "tries", "message"),
    [
        ((503, "busy"), 2, r"status 503: busy \(2 tries\)"),
        ((401, '{"error": "no key"}'), 1, "status 401"),
        ((404, "no such model"), 1, "status 404: no such model"),
        ((200, "<html>hello</html>"), 1, "no chat completion: <html>"),
        ((200, '{"choices": []}'), 1, "no chat completion"),
        ((200, '{"choices": [{"message": "hi"}]}'), 1, "no chat completion"),
        ((200, "[1, 2]"), 1, "no chat completion"),
        ((302, ""), 1, "status 302"),
    ],
)
def test_a_server_that_cannot_be_used_is_named(answer: Answer, tries: int, message: str) -> None:
    with serving(lambda body: answer) as server:
        with pytest.raises(EndpointError, match=message) as caught:
            Endpoint(server.url, "m", LanguageSettings(retries=1))([CHAT] * 3)
        assert server.url in str(caught.value) and "\n" not in str(caught.value)
        assert len(server.requests) >= tries


def test_waiting_is_bounded() -> None:
    with serving(lambda body: (time.sleep(1.0), completion(NOOP_REPLY))[1]) as server:
        start = time.perf_counter()
        with pytest.raises(EndpointError, match=r"no answer within 0\.1 s \(2 tries\)"):
            Endpoint(server.url, "m", LanguageSettings(timeout=0.1, retries=1))([CHAT])
        assert time.perf_counter() - start < 0.9


def test_nobody_there() -> None:
    with pytest.raises(EndpointError, match=r"127\.0\.0\.1:9/v1: cannot be reached"):
        Endpoint("http://127.0.0.1:9/v1", "m", LanguageSettings(retries=0))([CHAT])


def test_an_answer_without_text_or_usage_is_an_empty_reply() -> None:
    body = json.dumps({"choices": [{"message": {"content": None}}], "usage": None})
    with serving(lambda _: (200, body)) as server:
        assert Endpoint(server.url, "m", LanguageSettings())([CHAT])[0] == ("", 0, 0)


def test_the_key_is_sent_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    with serving(lambda body: (400, "your key sk-secret is wrong")) as server:
        ask = Endpoint(server.url, "m", LanguageSettings())
        with pytest.raises(EndpointError) as caught:
            ask([CHAT])
        assert server.requests[0]["authorization"] == "Bearer sk-secret"
    assert "sk-secret" not in str(caught.value) and "***" in str(caught.value)


def test_specs() -> None:
    assert split("http://127.0.0.1:8080/v1#Qwen/Qwen3-0.6B") == ("http://127.0.0.1:8080/v1", "Qwen/Qwen3-0.6B", 1)
    assert split("https://host/v1#m#3") == ("https://host/v1", "m", 3)
    for wrong in ("http://host/v1", "host/v1#m", "ftp://host/v1#m", "#m", "http:///v1#m"):
        with pytest.raises(UserError, match="#<model>"):
            split(wrong)
    for secret in ("https://me:pw123@host/v1#m", "https://host/v1?api_key=pw123#m"):
        with pytest.raises(UserError, match="OPENAI_API_KEY") as caught:
            split(secret)
        assert "pw123" not in str(caught.value)


def test_identity_follows_what_is_asked() -> None:
    scenario = load_scenario("easy")

    def identity(argument: str = "http://h/v1#m", **settings: Any) -> str:
        return describe(argument, Context(scenario, LanguageSettings(**settings))).identity

    assert identity() == identity(timeout=5.0, retries=0, concurrency=1)
    others = [
        identity("http://h/v1#n"),
        identity("http://h/v1#m#2"),
        identity(temperature=1.0),
        identity(allowed=True),
    ]
    assert len({identity(), *others}) == 5
