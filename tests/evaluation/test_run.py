"""The command: the same bytes however it is played, nothing lost by a kill, every failure in its own row."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from cloudrl.compose import compose
from cloudrl.errors import UserError
from cloudrl.memory.immune import ImmuneMemory
from cloudrl.observation import OBSERVATION_VERSION
from evaluation import block, run
from evaluation.cache import Cache
from evaluation.config import EvalConfig
from evaluation.results import Results
from evaluation.run import evaluate
from evaluation.suites import bare, dynamics_version, facts, find_scenario, find_seeds
from tests.evaluation.openai_server import serving
from tests.evaluation.test_run_checkpoint import random_policy

ROOT = Path(__file__).resolve().parents[2]
OWN = "python:tests.evaluation.own_agents:"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def config(*overrides: str) -> EvalConfig:
    made: EvalConfig = compose(
        "eval", ["suite=easy", "seeds=10000-10004", "workers=1", "report=false", *overrides]
    )
    return made


def agents(*specs: str) -> str:
    return "agents=[" + ",".join(f"'{spec}'" for spec in specs) + "]"


def command(*arguments: str) -> tuple[int, Path | None]:
    """Run the command in this process: exit code and the run folder."""
    code = 0
    try:
        run.main(["suite=easy", "seeds=10000-10004", "workers=1", *arguments])
    except SystemExit as stop:
        code = int(stop.code or 0)
    folders = sorted(Path("runs/eval").glob("2*")) if Path("runs/eval").exists() else []
    return code, folders[-1] if folders else None


# ---------------------------------------------------------------- the same results
def test_results_do_not_depend_on_blocks_workers_or_what_was_played_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = agents("noop", "random", "runbook", OWN + "Dice")
    written = []
    for k, (size, more) in enumerate(
        [(50, ["cache=false"]), (2, ["cache=false", "workers=2"]), (3, []), (1, []), (50, ["seeds=10000-10004"])]
    ):
        monkeypatch.setattr(block, "BLOCK", size)
        monkeypatch.setattr(block, "SLOW_BLOCK", size)
        folder = tmp_path / str(k)
        folder.mkdir()
        if k == 3:  # some worlds known, others not
            evaluate(config(wanted, "seeds=10002-10006"))
        results, _ = evaluate(config(wanted, *more))
        assert [agent.error for agent in results] == [""] * 4, f"case {k}"
        results.write(folder)
        written.append([(folder / name).read_bytes() for name in ("results.json", "actions.npz")])
    assert [k for k, files in enumerate(written) if files != written[0]] == []


def test_the_command_writes_the_same_bytes_twice_and_a_report() -> None:
    arguments = ("agents=[noop,handwritten]", "cache=false")
    code, first = command(*arguments)
    assert code == 0 and first is not None
    assert command(*arguments)[0] == 0
    second = sorted(Path("runs/eval").glob("2*"))[-1]
    assert first != second
    for name in ("results.json", "actions.npz", "report.json"):  # report.md shows wall times
        assert (first / name).read_bytes() == (second / name).read_bytes(), name
    assert "<html" in (first / "report.html").read_text()
    points = EventAccumulator(str(first / "tb" / "handwritten")).Reload()
    bill = np.mean(Results.read(first).agents["handwritten"]["bill"])
    (event,) = points.Tensors("bill/total")
    assert event.tensor_proto.float_val[0] == pytest.approx(bill, rel=1e-6)
    timing = json.loads((first / "timing.json").read_text())
    assert timing["noop"]["seconds"] > 0 and "seconds" not in (first / "results.json").read_text()
    for name in ("config.yaml", "command.txt", "manifest.json"):
        assert (first / name).stat().st_size > 0
    assert not list(Path("runs/eval").glob(".new-*"))


def test_doing_nothing_is_always_there_and_a_twin_of_it_scores_zero() -> None:
    results, _ = evaluate(config(agents(OWN + "Idle")))
    assert list(results.agents) == ["noop", "Idle"]
    assert np.array_equal(results.agents["Idle"]["bill"], results.agents["noop"]["bill"])
    assert results.suite.id == "CloudOps-Easy-v1" and results.split == "seeds 10000-10004"


def test_the_actions_that_are_kept_replay_the_bill() -> None:
    from cloudrl.simulator import Simulator

    results, _ = evaluate(config("agents=[handwritten]"))
    agent = results.agents["handwritten"]
    assert agent.actions is not None
    sim = Simulator(find_scenario("easy"), 5)
    sim.reset(results.seeds)
    for tick in range(sim.ticks):
        sim.step(agent.actions[:, tick])
    assert np.array_equal(sim.bill(), agent["bill"])


# ---------------------------------------------------------------- what is kept
def played(log: Path) -> int:
    """Worlds that the slow agent was given."""
    return sum(int(line.split()[0]) for line in log.read_text().splitlines()) if log.exists() else 0


def test_what_was_played_is_not_played_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    monkeypatch.setenv("OWN_AGENTS_LOG", str(log))
    monkeypatch.setenv("OWN_AGENTS_SLEEP", "0")
    slow = agents(OWN + "Slow")
    evaluate(config(slow))
    assert played(log) == 5
    evaluate(config(slow))
    assert played(log) == 5
    evaluate(config(slow, "seeds=10003-10007"))
    assert played(log) == 8
    evaluate(config(slow, "safety=observe"))  # other worlds
    assert played(log) == 13


def test_the_ledger_is_added_to_what_was_played_without_it() -> None:
    wanted = "agents=[handwritten,random]"
    without, _ = evaluate(config(wanted, "ledger=false"))
    late, _ = evaluate(config(wanted))
    at_once, _ = evaluate(config(wanted, "cache=false"))
    again, _ = evaluate(config(wanted, "ledger=false"))
    assert late.plain() == at_once.plain() and without.plain() == again.plain()
    assert "unnecessary" not in without.agents["random"] and late.agents["random"]["unnecessary"].all()


def test_a_killed_evaluation_goes_on(tmp_path: Path) -> None:
    """Killed for good while it plays; what was finished is not played again, and the results are the same."""
    log = tmp_path / "log"
    environment = {**os.environ, "OWN_AGENTS_LOG": str(log), "OWN_AGENTS_SLEEP": "2", "PYTHONPATH": str(ROOT)}
    arguments = ["suite=easy", "seeds=10000-10029", "workers=1", agents(OWN + "Slow"), "report=false"]
    start = [sys.executable, "-m", "evaluation.run", *arguments]
    first = subprocess.Popen(start, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while played(log) < 20:  # the second block of ten has begun, so the first is kept
        assert first.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert not list(Path("runs/eval").glob("2*"))
    environment["OWN_AGENTS_SLEEP"] = "0"
    again = subprocess.run(start, env=environment, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert played(log) == 20 + 20  # two blocks begun before, two to play
    (folder,) = Path("runs/eval").glob("2*")
    results = Results.read(folder)
    assert np.array_equal(results.agents["Slow"]["bill"], results.agents["noop"]["bill"])


def test_ctrl_c_ends_all_processes_and_keeps_what_is_finished(tmp_path: Path) -> None:
    log = tmp_path / "log"
    environment = {**os.environ, "OWN_AGENTS_LOG": str(log), "OWN_AGENTS_SLEEP": "1", "PYTHONPATH": str(ROOT)}
    arguments = ["suite=easy", "seeds=10000-10099", "workers=2", agents(OWN + "Slow"), "report=false"]
    process = subprocess.Popen(
        [sys.executable, "-m", "evaluation.run", *arguments], env=environment, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 120
    while played(log) < 30:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130 and stderr == "cloudrl: interrupted\n"
    for pid in {int(line.split()[1]) for line in log.read_text().splitlines()}:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert list(Path("runs/eval/.cache").rglob("*.npz")) and not list(Path("runs/eval").glob("2*"))


def test_the_cache_is_keyed_by_the_version_of_the_suite(tmp_path: Path) -> None:
    scenario = find_scenario("easy")
    rows = {"seed": np.array([3, 4]), "bill": np.array([1.5, 2.5])}
    kept = Cache(tmp_path, facts(scenario, "easy"), {})
    kept.write("agent", rows)
    assert kept.read("agent", np.array([4, 9]))["bill"].tolist() == [2.5]
    assert kept.read("another", np.array([4])) == {}
    scenario.prices.vm_vcpu_hour *= 1.01
    assert Cache(tmp_path, facts(scenario, "easy"), {}).read("agent", np.array([4])) == {}
    assert Cache(tmp_path, facts(find_scenario("easy"), "easy"), {"reward": 2}).read("agent", np.array([4])) == {}
    for file in tmp_path.rglob("*.npz"):
        file.write_bytes(file.read_bytes()[:100])  # damaged: as if it were not there
    assert kept.read("agent", np.array([3, 4])) == {}


def test_the_version_of_the_code_is_blind_to_comments() -> None:
    source = 'x = 1  # one\n\n\ndef f():\n    """Text."""\n    return "# no comment"\n'
    assert bare(source) == bare(source.replace("  # one", "").replace("Text.", "Other text."))
    assert bare(source) != bare(source.replace("x = 1", "x = 2"))
    assert '"# no comment"' in bare(source)
    assert len(dynamics_version()) == 12


def test_a_memory_is_read_by_all_and_written_by_nobody(tmp_path: Path) -> None:
    path = tmp_path / "memory.json"
    memory = ImmuneMemory()
    memory.tables.bad[:50], memory.tables.last_seen[:50] = 3.0, 0
    memory.refresh()
    memory.save(path)
    before = path.read_bytes()
    with_it, _ = evaluate(config("agents=[random]", "memory=on", f"memory.path={path}", "cache=false"))
    without, _ = evaluate(config("agents=[random]", "cache=false"))
    again, _ = evaluate(config("agents=[random]", "memory=on", f"memory.path={path}", "cache=false"))
    assert path.read_bytes() == before and without.suite.memory is None
    assert with_it.suite.memory is not None and with_it.suite == again.suite
    assert "memory" in (with_it.suite.difference(without.suite) or "")
    assert np.array_equal(with_it.agents["random"]["bill"], again.agents["random"]["bill"])


# ---------------------------------------------------------------- failures
def test_an_agent_that_fails_says_so_and_the_others_finish(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block, "SLOW_BLOCK", 2)
    old = random_policy(tmp_path / "old", OBSERVATION_VERSION - 1)
    with serving(lambda body: (time.sleep(0.5), (200, "{}"))[1]) as late, serving(lambda body: (200, "hm")) as odd:
        bad = {
            OWN + "Raises": "ZeroDivisionError: a bug (own_agents.py, line ",
            OWN + "NotANumber": "actions are whole numbers",
            OWN + "OutOfRange": "returned 73: actions are 0 to 72",
            OWN + "WrongShape": "shape (3,), expected (2,)",
            OWN + "FailsToStart": "RuntimeError: no licence",
            f"ppo:{old}": f"observation version {OBSERVATION_VERSION - 1}",
            late.spec("late"): "no answer within 0.05 s (1 tries)",
            odd.spec("odd"): "no chat completion: hm",
        }
        code, folder = command(
            agents(*bad, "runbook", OWN + "Stubborn"), "language.timeout=0.05", "language.retries=0"
        )
    assert code == 1 and folder is not None
    printed = capsys.readouterr()
    assert printed.err.startswith("cloudrl: 8 of 11 agents failed: Raises, ") and printed.err.count("\n") == 1
    results = Results.read(folder)
    for spec, message in bad.items():
        agent = next(agent for agent in results if agent.spec == spec)
        assert message in agent.error and "\n" not in agent.error and not agent.metrics, spec
        assert f"{agent.name} failed: " in printed.out
    for name in ("noop", "runbook", "Stubborn"):
        assert results.agents[name].ok and len(results.agents[name]["bill"]) == 5
    asked = results.agents["Stubborn"]["invalid"] + results.agents["Stubborn"]["vetoed"]
    assert (asked == results.suite.ticks).all() and "asking" in printed.out
    assert (folder / "report.html").exists()


def test_an_agent_that_takes_its_process_along() -> None:
    results, _ = evaluate(config(agents(OWN + "Dies", OWN + "Idle", "runbook"), "workers=2"))
    assert results.agents["Dies"].error == "its process died: out of memory, or a crash in native code"
    assert [agent.name for agent in results if agent.ok] == ["noop", "Idle", "runbook"]


def test_the_first_failure_in_the_order_of_the_seeds_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block, "SLOW_BLOCK", 1)
    errors = {
        evaluate(config(agents(OWN + "WrongShape"), "cache=false", f"workers={n}"))[0].agents["WrongShape"].error
        for n in (1, 2)
    }
    assert errors == {"the agent returned actions of shape (2,), expected (1,)"}


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("agents=[noop,runbok]", "agents: runbok: no such agent; did you mean 'runbook'?"),
        ("agents=[]", "agents=[]: name at least one"),
        ("suite=medum", "suite=medum: no such suite; did you mean 'medium'?"),
        ("seeds=some", "seeds=some: say public, validation, one seed, or a range"),
        ("seeds=10005-10001", "ends before it starts"),
        ("seeds=9990-10010", "mixes train and validation worlds"),
        ("seeds=0-99999", "at most 10,000"),
        ("language.style=long", "language.style=long: say compact or full"),
        ("workers=0", "workers=0: must be at least 1"),
        ("memory=on", "memory.path=<file>"),
        ("agent=[noop]", "agent: no such key; did you mean 'agents'?"),
    ],
)
def test_wrong_input_is_one_line(argument: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, folder = command("agents=[noop]" if not argument.startswith("agents") else "ledger=true", argument)
    printed = capsys.readouterr()
    assert code == 1 and message in printed.err and printed.err.count("\n") == 1 and not printed.out
    assert folder is None and not Path("runs").exists()


# ---------------------------------------------------------------- scores
def test_without_an_oracle_there_are_savings_and_a_reason(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "oracle_bills", lambda scenario, seeds: (None, "nobody searched these worlds"))
    assert command("agents=[noop,runbook]")[0] == 0
    out = capsys.readouterr().out
    assert (
        "No scores, savings only: nobody searched these worlds." in out and "saved $" in out and "IQM" not in out
    )


def test_scores_and_ties_in_the_table(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    idle = evaluate(config("agents=[noop]"))[0].agents["noop"]["bill"]
    bills = 0.5 * idle
    bills[0] = 0.99 * idle[0]  # nothing to gain there
    monkeypatch.setattr(run, "oracle_bills", lambda scenario, seeds: (bills, ""))
    _, folder = command("agents=[noop,runbook]")
    out = capsys.readouterr().out
    assert "In 1 of 5 worlds the oracle saves less than 2 % of the idle bill" in out
    assert "score" in out and "regret %" in out and folder is not None
    assert np.allclose(Results.read(folder).oracle, bills)


def test_seeds_and_suites() -> None:
    easy, quiet = find_scenario("easy"), find_scenario("quiet")
    assert find_seeds("public", easy).tolist() == list(range(20_000, 20_200))
    assert find_seeds("validation", quiet).tolist() == list(range(10_000, 10_050))
    assert find_seeds("20007", easy).tolist() == [20_007]
    assert find_scenario("scaled-30").slots == 30 and find_scenario("online_boutique").path is not None
    with pytest.raises(UserError, match="no such suite"):
        find_scenario("scaled-")
    changed: Any = find_scenario("easy")
    changed.prices.vm_vcpu_hour = 1.0
    difference = facts(easy, "easy").difference(facts(changed, "easy"))
    assert difference is not None and "hash" in difference
