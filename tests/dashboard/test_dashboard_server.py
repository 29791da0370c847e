"""The dashboard's server and tabs without a browser."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gradio", reason="Gradio is not installed: pip install 'cloud-rl[dashboard]'")

import gradio as gr

from cloudrl.errors import UserError
from cloudrl.reward.bill import BILL_PARTS
from evaluation.dashboard import results
from evaluation.dashboard.folders import Folders
from evaluation.dashboard.jobs import Jobs
from evaluation.dashboard.server import PAGE_POLICY, make_server
from evaluation.dashboard.tabs import compare, evaluate, memory, monitor, train
from evaluation.results import AgentResult, Results, Suite
from tests.dashboard.conftest import plant_memory, plant_run

WORLDS = 6


def plant_evaluation(runs: Path, name: str, agents: dict[str, float], **suite: Any) -> Path:
    """An evaluation of made-up agents: `agents` by mean bill."""
    folder = runs / "eval" / name
    folder.mkdir(parents=True)
    noise = np.linspace(-0.5, 0.5, WORLDS)
    made = {}
    for agent, bill in {"noop": 20.0, **agents}.items():
        values = bill + noise
        metrics = {"reward": -values, "bill": values, "won": np.ones(WORLDS), "served": np.ones(WORLDS)}
        metrics |= {part: values / len(BILL_PARTS) for part in BILL_PARTS}
        made[agent] = AgentResult(agent, agent, identity=f"{agent} {bill}", metrics=metrics)
    facts: dict[str, Any] = dict.fromkeys(("scenario_hash", "prices_hash", "code"), "x")
    about = Suite("CloudOps-Easy", 1, "easy", ticks=10, slots=6, **{**facts, **suite})
    Results(about, np.arange(WORLDS), made, "seeds 0-5", np.full(WORLDS, 5.0)).write(folder)
    (folder / "manifest.json").write_text(f'{{"algo": "eval", "created": "2030-01-01T00:00:0{len(name) % 10}"}}')
    (folder / "config.yaml").write_text("suite: easy\nseeds: 0-5\n")
    (folder / "report.html").write_text(f"<p>report of {name}</p>")
    return folder


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    (tmp_path / "runs").mkdir()
    return Folders(tmp_path / "runs")


# ---- start -----------------------------------------------------------------------------------------------------


def test_the_page_is_made_without_torch(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom evaluation.dashboard.app import make_app\n"
        "from evaluation.dashboard.folders import Folders\n"
        f"make_app(Folders({str(tmp_path)!r}))\n"
        "print([m for m in ('torch', 'stable_baselines3', 'transformers', 'trl') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[]", done.stderr


def test_a_port_in_use_is_one_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [sys.executable, "-m", "evaluation.dashboard", "--port", port, "--runs", str(tmp_path)],
            capture_output=True, text=True, timeout=120, env=os.environ | {"GRADIO_ANALYTICS_ENABLED": "False"},
        )  # fmt: skip
    assert done.returncode == 1 and f"port {port}" in done.stderr and "Traceback" not in done.stderr


# ---- what is served --------------------------------------------------------------------------------------------


@pytest.fixture
def client(folders: Folders) -> Any:
    from fastapi.testclient import TestClient

    with TestClient(make_server(folders, hosts=["127.0.0.1"]), base_url="http://127.0.0.1") as made:
        yield made


def test_what_the_server_gives_and_what_it_refuses(client: Any, folders: Folders, tmp_path: Path) -> None:
    plant_evaluation(folders.runs, "one", {"a": 10.0})
    other = plant_evaluation(tmp_path / "elsewhere", "two", {"a": 10.0})
    (folders.runs / "link").symlink_to(other)
    (folders.runs / "eval" / "leak").mkdir()
    shutil.copy(folders.runs / "eval" / "one" / "manifest.json", folders.runs / "eval" / "leak")
    (folders.runs / "eval" / "leak" / "report.html").symlink_to("/etc/passwd")

    report = client.get("/report/eval/one")
    assert report.status_code == 200 and "report of one" in report.text
    assert "sandbox" in report.headers["content-security-policy"]
    outside = [
        "link",
        "eval/leak",
        f"/{other}",
        "../elsewhere/eval/two",
        "..%2felsewhere%2feval%2ftwo",
        "eval/none",
    ]
    for name in outside:
        answer = client.get(f"/report/{name}")
        assert answer.status_code == 404 and "report of two" not in answer.text and "root:" not in answer.text

    page = client.get("/")
    assert page.headers["content-security-policy"] == PAGE_POLICY
    assert client.get("/theme.css").text.count("https://") == 0
    assert client.get("/", headers={"host": "evil.example"}).status_code == 400
    for file in ("/etc/passwd", str(folders.runs / "eval" / "one" / "results.json"), "pyproject.toml"):
        assert client.get(f"/gradio_api/file={file}").status_code in (403, 404)


def test_a_page_of_somebody_else_starts_nothing(client: Any) -> None:
    body = {"data": [], "fn_index": 0, "session_hash": "x"}
    for headers in ({"origin": "http://evil.example"}, {"origin": "null"}, {"origin": "http://127.0.0.1:9"}):
        answer = client.post("/gradio_api/run/predict", content=json.dumps(body), headers=headers)
        assert answer.status_code == 403 and "another server" in answer.text
    own = client.post("/gradio_api/run/predict", json=body, headers={"origin": "http://127.0.0.1"})
    assert own.status_code != 403


def test_handlers_are_no_public_interface(client: Any) -> None:
    assert client.get("/gradio_api/info").json()["named_endpoints"] == {}


# ---- tabs ------------------------------------------------------------------------------------------------------


def test_monitor_says_what_is_wrong_with_a_run(folders: Folders) -> None:
    view = monitor._View(folders)
    assert "There is no run" in view.show([], [], 0, None)[0]
    a, b = (plant_run(folders.runs, name, [1.0, 2.0]) for name in "ab")
    html, _, seen = view.show(["ppo/a", "ppo/b"], ["ops/win_rate", "unknown"], 0, None)
    assert html.count("line curve") == 2 and "ops/win_rate" in html
    assert view.show(["ppo/a", "ppo/b"], ["ops/win_rate"], 0, seen)[2] == gr.skip()  # nothing new: left as it is
    assert view.show(["ppo/a", "ppo/b"], ["eval/mean_reward"], 0, seen)[1] == gr.skip()  # the same tags to choose
    shutil.rmtree(a)
    (b / "progress.csv").write_text("")
    html, _, _ = view.show(["ppo/a", "ppo/b", "../../etc"], [], 0, seen)
    assert html.count('role="alert"') == 3
    assert "ppo/a: this run is gone" in html and "nothing logged yet" in html and "refused" in html
    assert "config of b" in view.details(["ppo/b", "ppo/a"])
    (b / "command.txt").write_text("<script>alert(1)</script>")
    assert "<script>" not in view.details(["ppo/b"])


def test_compare_joins_runs_of_the_same_worlds_only(folders: Folders) -> None:
    view = compare._View(folders)
    assert "There is no evaluation" in view.show([], None)[0]
    plant_evaluation(folders.runs, "one", {"runbook": 10.0, "mine": 8.0})
    plant_evaluation(folders.runs, "two", {"runbook": 10.0, "mine": 12.0})
    plant_evaluation(folders.runs, "else", {"mine": 12.0}, scenario_hash="y")
    verdicts, table, pictures, _ = view.show(["eval/one", "eval/two"], None)
    assert verdicts.count("<li") == 3 and "saves $2.00" in verdicts  # noop and both of mine, with the runbook
    assert table.count('<th scope="row"') == 4 and "mine, two" in table
    assert pictures.count('class="panel"') == 4
    assert "cannot be compared" in view.show(["eval/one", "eval/else"], None)[0]
    assert "refused" in view.show(["../.."], None)[0]
    verdicts = unescape(view.show(["eval/one"], "noop")[0])
    assert "'mine' is cheaper than 'noop': it saves $12.00" in verdicts


def test_an_agent_that_two_runs_played_stands_there_once(folders: Folders) -> None:
    one = results.read(folders, folders.name(plant_evaluation(folders.runs, "one", {"a": 10.0, "b": 9.0})))
    two = results.read(folders, folders.name(plant_evaluation(folders.runs, "two", {"a": 10.0, "b": 7.0})))
    joined = results.join([("eval/one", one), ("eval/two", two)])
    assert list(joined.agents) == ["noop", "a", "b", "b, two"]
    assert joined.agents["b, two"]["bill"].mean() == pytest.approx(7.0)
    assert list(one.agents) == ["noop", "a", "b"]  # the originals stay


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "results.json").unlink(), "results.json is missing"),
        (lambda f: (f / "results.json").write_text("{"), "not valid json"),
        (lambda f: (f / "results.json").write_text('{"format": 99}'), "not results of this version"),
        (lambda f: shutil.rmtree(f), "gone"),
    ],
)
def test_a_broken_evaluation_is_a_message(folders: Folders, damage: Any, message: str) -> None:
    damage(plant_evaluation(folders.runs, "one", {"a": 10.0}))
    table, report = evaluate._View(folders, Jobs()).results("eval/one")
    assert message in table and 'role="alert"' in table and report == ""
    assert str(folders.runs) not in table


def test_memory_shows_patterns_and_vetoes(folders: Folders) -> None:
    view = memory._View(folders)
    assert "There is no immune memory" in view.show(None, False)
    run = plant_run(folders.runs, "a", [1.0])
    file, made = plant_memory(run)
    vetoed = [row["signature"] for row in made.top(5) if row["vetoed"]]
    assert len(vetoed) == 1
    (label, name), = memory.memories(folders)  # fmt: skip
    assert "step 1,024" in label
    html = view.show(name, False)
    for row in made.top(5):
        assert row["signature"].replace("<", "&lt;").replace(">", "&gt;") in html
    assert html.count('<th scope="row"') == 2 and html.count("class=miss>veto") == len(vetoed)
    assert view.show(name, True).count('<th scope="row"') == len(vetoed)
    file.write_text(json.dumps({"format": 1}))
    assert "not a saved immune memory" in view.show(name, False)
    for outside in ("../x", "/etc/passwd"):
        assert "refused" in view.show(outside, False)
    file.unlink()
    assert "gone" in view.show(name, False)


def test_train_refuses_what_is_wrong_before_anything_starts(folders: Folders) -> None:
    jobs = Jobs()
    view = train._View(folders, jobs)
    assert "further settings" in view.start("ppo", "scenario=easy", "", "0", "trust=true")[1]
    assert "choose the run" in view.resume("", "", "")[1]
    assert "refused" in view.resume("../..", "", "")[1]
    plant_evaluation(folders.runs, "one", {"a": 10.0})
    assert "no training run" in view.resume("eval/one", "", "")[1]
    assert jobs.of("ppo", "grpo", "eval") == []


def test_a_running_job_is_in_the_list_and_its_run_is_not_offered(folders: Folders) -> None:
    plant_run(folders.runs, "a", [1.0])
    jobs = Jobs()
    view = train._View(folders, jobs)
    try:
        job = jobs.start("ppo", "a training", ["-c", "import time; time.sleep(60)"])
        job.folder = folders.runs / "ppo" / "a"
        assert "is being trained right now" in view.resume("ppo/a", "", "")[1]
        shown = view.refresh(None)
        assert "running" in shown[1] and "line curve" not in shown[3] and "point s0" in shown[3]
        assert [name for _, name in shown[-1].choices] == [] and shown[0].value == job.number
    finally:
        jobs.close(wait=5.0)
    end = time.monotonic() + 5
    while job.running and time.monotonic() < end:
        time.sleep(0.05)
    assert "stopped" in view.show(job.number)[1]


def test_unknown_choices_are_errors_of_the_user(folders: Folders) -> None:
    with pytest.raises(UserError):
        results.read(folders, "/etc")
