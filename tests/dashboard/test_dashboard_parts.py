"""The dashboard without a browser: folders, commands, jobs, curves. Nothing here imports Gradio or torch."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloudrl.cli import OverridesParser
from cloudrl.errors import UserError
from evaluation.dashboard import commands
from evaluation.dashboard.curves import first_tags, panels, smooth, step_text
from evaluation.dashboard.folders import Folders
from evaluation.dashboard.jobs import Job, Jobs
from evaluation.dashboard.records import find_runs, read_curves, run_folder
from tests.dashboard.conftest import plant_run, until

# ---- folders ---------------------------------------------------------------------------------------------------


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    (tmp_path / "runs").mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    return Folders(tmp_path / "runs")


@pytest.mark.parametrize(
    "text", ["../secret.txt", "/etc/passwd", "ppo/../../secret.txt", "..", "link", "link/deeper", "\0", "loop"]
)
def test_paths_outside_are_refused(folders: Folders, text: str) -> None:
    (folders.runs / "link").symlink_to(folders.runs.parent)
    (folders.runs / "loop").symlink_to(folders.runs / "loop")
    with pytest.raises(UserError, match="runs folder"):
        folders.inside(text)


@given(
    st.lists(st.sampled_from(["..", ".", "a", "link", "~", "b.json", "/", "//etc", "\\..", "%2e%2e"]), max_size=6)
)
def test_no_path_leads_outside(tmp_path_factory: pytest.TempPathFactory, parts: list[str]) -> None:
    root = tmp_path_factory.getbasetemp() / "fuzz"
    (root / "a").mkdir(parents=True, exist_ok=True)
    if not (root / "link").is_symlink():
        (root / "link").symlink_to("/etc")
    try:
        path = Folders(root).inside("/".join(parts))
    except UserError:
        return
    assert os.path.realpath(path).startswith(os.path.realpath(root))


def test_a_link_to_a_run_inside_is_fine(folders: Folders) -> None:
    plant_run(folders.runs, "a", [1.0])
    (folders.runs / "latest").symlink_to(folders.runs / "ppo" / "a")
    assert run_folder(folders, "latest") == folders.runs / "ppo" / "a"


def test_runs_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="not a folder"):
        Folders(tmp_path / "file")


# ---- records ---------------------------------------------------------------------------------------------------


def test_runs_are_found_at_any_level_but_not_in_checkpoints(folders: Folders) -> None:
    a = plant_run(folders.runs, "a", [1.0])
    deep = plant_run(folders.runs / "study" / "easy", "b", [1.0])
    plant_run(folders.runs / ".hidden", "c", [1.0])
    checkpoint = a / "checkpoints" / "step_1"
    checkpoint.mkdir(parents=True)
    (checkpoint / "manifest.json").write_text('{"algo": "ppo", "step": 1}')
    (folders.runs / "half").mkdir()
    (folders.runs / "half" / "manifest.json").write_text('{"algo": "pp')
    assert {r.path for r in find_runs(folders)} == {a, deep}
    assert {r.name for r in find_runs(folders)} == {"ppo/a", "study/easy/ppo/b"}
    assert find_runs(folders, ["eval"]) == []
    assert find_runs(Folders(folders.runs / "nowhere")) == []


def test_a_run_in_the_making(folders: Folders) -> None:
    a = plant_run(folders.runs, "a", [1.0, 2.0])
    with open(a / "progress.csv", "a") as file:
        file.write("200,nonsense,0.5\n300,nan,inf\n,4,4\n500,6.0,1.0,9\n600,7.")
    curves = read_curves(folders, "ppo/a")
    assert curves["eval/mean_reward"][0].tolist() == [0.0, 100.0]
    assert curves["ops/win_rate"][0].tolist() == [0.0, 100.0, 200.0]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda a: (a / "progress.csv").unlink(), "only trainings have them"),
        (lambda a: (a / "progress.csv").write_text(""), "nothing logged yet"),
        (lambda a: (a / "progress.csv").write_text("step,x"), "nothing logged yet"),
        (lambda a: (a / "progress.csv").write_bytes(b"step,x\n\xff\n"), "cannot be read"),
        (lambda a: (a / "manifest.json").unlink(), "not whole"),
        (lambda a: a.rename(a.with_name("moved")), "gone"),
    ],
)
def test_a_broken_run_is_a_message(folders: Folders, damage: Callable[[Path], object], message: str) -> None:
    damage(plant_run(folders.runs, "a", [1.0]))
    with pytest.raises(UserError, match=message) as error:
        read_curves(folders, "ppo/a")
    assert "\n" not in str(error.value) and str(folders.runs) not in str(error.value)


# ---- curves ----------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40), st.floats(0.0, 0.99))
def test_smoothing_is_a_weighted_mean_of_the_past(values: list[float], weight: float) -> None:
    x = np.array(values)
    for k, found in enumerate(smooth(x, weight)):
        weights = weight ** np.arange(k, -1, -1.0)
        assert found == pytest.approx((weights * x[: k + 1]).sum() / weights.sum(), rel=1e-6, abs=1e-3)


@given(
    st.lists(
        st.lists(st.tuples(st.floats(-1e9, 1e9), st.floats(-1e12, 1e12)), min_size=1, max_size=5),
        min_size=1,
        max_size=9,
    )
)
def test_any_curves_can_be_drawn(runs: list[list[tuple[float, float]]]) -> None:
    named = {f"<run {k}>": {"a<b": tuple(np.array(points).T)} for k, points in enumerate(runs)}
    html = panels(named, ["a<b"], 0.5)  # type: ignore[arg-type]
    assert "nan" not in html and "inf" not in html
    assert "<run" not in html and "&lt;run 0&gt;" in html
    assert html.count('path class="line curve') == sum(len(points) > 1 for points in runs)


def test_first_tags() -> None:
    assert first_tags(["z", "ops/win_rate", "eval/mean_reward"]) == ["eval/mean_reward", "ops/win_rate"]
    assert first_tags(["z", "y"]) == ["z", "y"]
    assert [step_text(v) for v in (0, 950, 2500, 1.5e6, -2e5)] == ["0", "950", "2.5k", "1.5M", "−200k"]


# ---- commands --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["runs_dir=/tmp", "+trust=true", "hydra.run.dir=/tmp", "++hydra.job.chdir=true", "hydra/launcher=joblib",
     "--config-dir=/tmp", "-m", "resume=x", "~runs_dir", "seed", "'unclosed", "runs_dir@x=1"],
)  # fmt: skip
def test_settings_that_a_page_may_not_pass_on(folders: Folders, text: str) -> None:
    with pytest.raises(UserError, match="further settings"):
        commands.train(folders, "ppo", "scenario=easy", "", "0", text)


@pytest.mark.parametrize("kind", ["ppo", "ppo-best", "llm"])
@pytest.mark.parametrize("path", ["/etc", "../../secret.txt", "~", "runs/../secret.txt"])
def test_an_agent_outside_is_not_evaluated(
    folders: Folders, kind: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folders.runs.parent)
    with pytest.raises(UserError, match="outside the runs folder"):
        commands.evaluate(folders, "easy", ["noop", f"{kind}:{path}"], "public", "")


@pytest.mark.parametrize("spec", ["python:os:system", "endpoint:http://127.0.0.1#m"])
def test_an_agent_that_runs_code_is_not_evaluated(folders: Folders, spec: str) -> None:
    with pytest.raises(UserError, match="for the command line"):
        commands.evaluate(folders, "easy", [spec], "public", "")


def test_a_suite_outside_is_not_evaluated(folders: Folders) -> None:
    (folders.runs.parent / "mine.yaml").write_text("secret")
    for suite in ("../mine.yaml", str(folders.runs.parent / "mine.yaml"), "/etc/estate.yml"):
        with pytest.raises(UserError, match="outside the runs folder"):
            commands.evaluate(folders, suite, ["noop"], "public", "")
    assert commands.evaluate(folders, "mine.yaml", ["noop"], "public", "")[2].endswith("mine.yaml")


@pytest.mark.parametrize("setting", ["scenario.path=%s", "memory.path='%s'", "++memory={path:%s}", "x=[1,%s]"])
def test_settings_do_not_name_files_outside(
    folders: Folders, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folders.runs.parent)
    for secret in (str(folders.runs.parent / "secret.txt"), "./secret.txt", "runs/../secret.txt", "~/"):
        with pytest.raises(UserError, match="outside the runs folder"):
            commands.train(folders, "ppo", "scenario=easy", "", "0", f'"{setting % secret}"')
    (folders.runs / "mine.json").write_text("{}")
    commands.train(folders, "ppo", "scenario=easy", "", "0", f'"{setting % "runs/mine.json"}"')


def test_commands(folders: Folders) -> None:
    train = commands.train(folders, "grpo", "+curriculum=easy", "1e3", "7", "grpo.group=4 'model.path=a b'")
    assert train[:5] == ["-m", "trainers.grpo", "+curriculum=easy", "seed=7", "grpo.steps=1000"]
    assert train[5:7] == ["grpo.group=4", "model.path=a b"]
    assert train[7].startswith("runs_dir=") and train[8] == "progress_bar=false"
    run = folders.runs / "a b" / "it's"
    found = commands.evaluate(folders, "easy", ["noop", f"ppo:{run}"], "10000-10003", "")
    quoted = str(run).replace("'", "\\'")
    assert found[2:5] == ["suite=easy", f"agents=[noop,'ppo:{quoted}']", "seeds=10000-10003"]
    for steps in ("0", "x", "1.5", "-3", "inf", "1e999"):
        with pytest.raises(UserError, match="steps"):
            commands.train(folders, "ppo", "scenario=easy", steps, "0", "")
    for trainer, world in (("rm -rf", "scenario=easy"), ("ppo", "scenario=easy +x=1")):
        with pytest.raises(UserError, match="choose"):
            commands.train(folders, trainer, world, "", "0", "")
    with pytest.raises(UserError, match="agent"):
        commands.evaluate(folders, "easy", [], "public", "")


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12))
def test_quoted_text_reaches_hydra_as_it_is(text: str) -> None:
    parsed = OverridesParser.create().parse_override(f"key={commands.quoted(text)}").value()
    assert isinstance(parsed, int) or parsed == text
    assert str(parsed) == text


def test_every_world_and_suite_on_offer_exists() -> None:
    from cloudrl.compose import options
    from evaluation.suites import find_scenario

    assert {world for _, world in commands.worlds()} >= {"+curriculum=easy", "scenario=medium"}
    assert {w.partition("=")[2] for _, w in commands.worlds() if w.startswith("+")} == set(options("curriculum"))
    for suite in commands.suites():
        find_scenario(suite)


# ---- jobs ------------------------------------------------------------------------------------------------------

WORKER = """
import signal, sys, time
print("run folder", "/tmp/some run", flush=True)
print("\\r 10%|#         | 1/10 [00:00<00:09]", end="", file=sys.stderr, flush=True)
print("\\r 40%|####      | 4/10 [00:04<00:06]", end="", file=sys.stderr, flush=True)
try:
    time.sleep(60)
except KeyboardInterrupt:
    print("\\nsaved", flush=True)
    sys.exit(130)
"""
STUBBORN = (
    "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('up', flush=True); time.sleep(60)"
)


@pytest.fixture
def jobs() -> Iterator[Jobs]:
    registry = Jobs()
    yield registry
    registry.close(wait=0.2)


@pytest.mark.parametrize("terminal", [False, True])
def test_a_job_is_followed_and_stopped(jobs: Jobs, terminal: bool) -> None:
    job = jobs.start("ppo", "a training", ["-c", WORKER], terminal)
    until(lambda: job.folder is not None and job.bar is not None and job.bar[0] == 40)
    assert (
        job.state == "running"
        and job.folder == Path("/tmp/some run").resolve()
        and job.bar == (40, "4/10 [00:04<00:06]")
    )
    assert jobs.folders_in_use() == {Path("/tmp/some run").resolve()}
    job.stop()
    until(lambda: not job.running)
    assert (job.state, job.code, job.failure()) == ("stopped", 130, "")
    assert "saved" in job.log() and "%|" not in job.log()
    assert jobs.folders_in_use() == set()


def test_a_progress_bar_of_tqdm_is_seen(jobs: Jobs) -> None:
    code = (
        "import sys, time\nfrom tqdm import tqdm\n"
        "bar = tqdm(total=8, desc='easy', unit='episode', disable=not sys.stderr.isatty(), mininterval=0)\n"
        "bar.set_postfix_str('greedy', refresh=False); bar.update(2); time.sleep(60)"
    )
    job = jobs.start("eval", "", ["-c", code], terminal=True)
    until(lambda: job.bar is not None and job.bar[0] == 25)
    assert job.bar is not None and job.bar[1].startswith("2/8") and "greedy" in job.bar[1]
    assert job.log() == ""


def test_a_run_named_from_the_present_folder_is_found(
    jobs: Jobs, folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = plant_run(folders.runs, "a", [1.0])
    monkeypatch.chdir(folders.runs.parent)
    assert commands.shown(a) == "runs/ppo/a"
    job = jobs.start("ppo", "", ["-c", f"print('run folder', {commands.shown(a)!r})"])
    until(lambda: not job.running)
    assert job.folder == a and "eval/mean_reward" in read_curves(Folders("runs"), str(job.folder))


def test_a_failed_job_says_why(jobs: Jobs) -> None:
    said = jobs.start("ppo", "", ["-c", "import sys; sys.exit('cloudrl: seed=x: not a number')"])
    silent = jobs.start("eval", "", ["-c", "import sys; sys.exit(3)"])
    until(lambda: not said.running and not silent.running)
    assert said.failure() == "seed=x: not a number" and silent.failure().startswith("ended with code 3")
    assert [job.number for job in jobs.of("ppo", "eval")] == [2, 1] and jobs.of("eval") == [silent]
    assert jobs.get(1) is said and jobs.get(9) is None and jobs.get("1; rm") is None  # type: ignore[arg-type]


def test_who_does_not_listen_is_killed_at_the_third_time(jobs: Jobs) -> None:
    job = jobs.start("ppo", "", ["-c", STUBBORN])
    until(lambda: job.log() == "up")
    job.stop()
    job.stop()
    assert not job.wait(0.5) and job.state == "stopping"
    job.stop()
    until(lambda: not job.running)
    assert job.code == -9


def test_the_end_of_the_dashboard_ends_its_jobs() -> None:
    registry = Jobs()
    polite, stubborn = (registry.start("ppo", "", ["-c", text]) for text in (WORKER, STUBBORN))
    until(lambda: polite.folder is not None and stubborn.log() == "up")
    registry.close(wait=1.0)
    until(lambda: not polite.running and not stubborn.running)
    assert polite.code == 130 and stubborn.code == -9
    with pytest.raises(UserError, match="ending"):
        registry.start("ppo", "", ["-c", ""])


def test_a_job_keeps_its_last_lines(jobs: Jobs) -> None:
    job: Job = jobs.start("ppo", "", ["-c", "for k in range(3000): print('line', k)"])
    until(lambda: not job.running)
    lines = job.log().splitlines()
    assert len(lines) == 1000 and lines[-1] == "line 2999" and job.log(2) == "line 2998\nline 2999"


# ---- the command -----------------------------------------------------------------------------------------------


def test_without_gradio_one_line_says_how_to_get_it(tmp_path: Path) -> None:
    code = (
        "import sys, importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'gradio' else find(name, *a)\n"
        "from evaluation.dashboard.__main__ import main; main(['--port', '0'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "pip install" in done.stderr and done.stderr.count("\n") == 1
