"""Configs: every option composes, every kind of wrong input ends in one line before anything exists."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf

from cloudrl.cli import command
from cloudrl.compose import compose, curriculum_scenarios, load_scenario, options, target_scenario, use_config_dirs
from cloudrl.config import CONFIG_DIR, PPOConfig, PPOSettings, StageConfig, known_keys, suggest_key, to_config
from cloudrl.errors import UserError
from cloudrl.records import leaves
from cloudrl.runs import create_run, new_checkpoint, resolve_run
from cloudrl.scenarios.schema import Scenario

ROOT = Path(__file__).resolve().parents[1]
NO_SCENARIO = {"topologies"}  # data that scenarios refer to

DEMO = """
from cloudrl.cli import command
from cloudrl.runs import create_run

@command("ppo")
def main(config):
    run = create_run("ppo", config)
    print("RUN", run.path, config.seed, config.ppo.total_timesteps, flush=True)
    if config.seed == 130:
        import time
        time.sleep(60)
    if config.seed == 99:
        raise RuntimeError("a bug")
    if config.seed == 98:
        raise ValueError("a bad value somewhere")

if __name__ == "__main__":
    main()
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run in an empty folder."""
    monkeypatch.chdir(tmp_path)
    use_config_dirs([])


@pytest.fixture
def play(capfd: pytest.CaptureFixture[str]):
    """Run a demo command in this process: (exit code, stdout, stderr, configs that reached main)."""

    def run(*argv: str) -> tuple[int, str, str, list[PPOConfig]]:
        seen: list[PPOConfig] = []

        @command("ppo")
        def main(config: PPOConfig) -> float:
            seen.append(config)
            return 1.0

        code = 0
        try:
            main(argv)
        except SystemExit as stop:
            code = int(stop.code or 0)
        out, err = capfd.readouterr()
        return code, out, err, seen

    return run


def demo(tmp_path: Path, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    script = tmp_path.parent / f"{tmp_path.name}_demo.py"
    script.write_text(DEMO)
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **env}
    command_line = [sys.executable, str(script), *argv]
    return subprocess.run(command_line, capture_output=True, text=True, cwd=tmp_path, env=variables)


# ---- what composes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", ["scenario", "reward", "safety", "memory"])
def test_every_option_of_a_group_composes(group: str) -> None:
    names = [name for name in options(group) if name not in NO_SCENARIO]
    assert names
    for name in names:
        compose("ppo", [f"{group}={name}"])


@pytest.mark.parametrize("group", ["curriculum", "debug", "experiment"])
def test_every_option_that_is_added_composes(group: str) -> None:
    names = options(group)
    assert names
    for name in names:
        config = compose("ppo", [f"+{group}={name}"])
        curriculum_scenarios(config)


def test_the_shipped_groups_are_those_of_the_design() -> None:
    assert {"easy", "medium", "hard", "quiet", "estate"} <= set(options("scenario"))
    assert options("reward") == ["balanced", "cost", "reliability", "security"]
    assert options("safety") == ["enforce", "observe", "off"]
    assert options("memory") == ["off", "on"]
    assert options("curriculum") == ["easy", "full", "hard", "medium"]


def test_yaml_and_schema_agree_on_the_defaults() -> None:
    """ppo.yaml is what people read; the schema is what a bare PPOConfig() gives."""
    config, bare = compose("ppo"), PPOConfig()
    for name in ("ppo", "evaluation", "reward", "safety", "memory"):
        assert getattr(config, name) == getattr(bare, name), name
    for field in dataclasses.fields(PPOConfig):
        if not dataclasses.is_dataclass(getattr(bare, field.name)):
            assert getattr(config, field.name) == getattr(bare, field.name), field.name


def test_ppo_yaml_states_every_setting() -> None:
    text = OmegaConf.load(Path(CONFIG_DIR) / "ppo.yaml")
    assert set(text.ppo) == {f.name for f in dataclasses.fields(PPOSettings)}


@pytest.mark.parametrize("text, steps", [("1e6", 1_000_000), ("2.5e5", 250_000), ("300000", 300_000)])
def test_step_counts_may_be_written_in_scientific_form(text: str, steps: int) -> None:
    settings = compose("ppo", [f"ppo.total_timesteps={text}"]).ppo
    assert settings.total_timesteps == steps and isinstance(settings.total_timesteps, int)


def test_a_curriculum_ends_on_its_suite_and_has_one_width() -> None:
    for name, slots in (("easy", 6), ("medium", 12), ("hard", 25), ("full", 25)):
        config = compose("ppo", [f"+curriculum={name}"])
        suite = load_scenario("hard" if name == "full" else name)
        assert {s.slots for s in curriculum_scenarios(config)} == {slots}
        assert target_scenario(config) == suite
        assert config.curriculum.stages[-1].overrides == {}
    assert target_scenario(compose("ppo", ["scenario=medium"])).name == load_scenario("medium").name
    wider = compose("ppo", ["+curriculum=easy", "curriculum.slots=30"])
    assert {s.slots for s in curriculum_scenarios(wider)} == {30}


def test_load_scenario_changes_a_copy() -> None:
    changed = load_scenario("easy", {"failures.failure_rate": 0.0, "slots": 9})
    assert (changed.failures.failure_rate, changed.slots) == (0.0, 9)
    assert load_scenario("easy").failures.failure_rate > 0


def test_composing_leaves_another_hydra_program_alone() -> None:
    from hydra import initialize_config_dir

    with initialize_config_dir(CONFIG_DIR, version_base="1.3"):
        before = GlobalHydra.instance().hydra
        compose("ppo")
        load_scenario("medium")
        assert GlobalHydra.instance().hydra is before
    assert not GlobalHydra.instance().is_initialized()


def test_a_saved_config_is_the_same_config(tmp_path: Path) -> None:
    config = compose("ppo", ["+curriculum=full", "safety=off", "ppo.engine=stock", "ppo.clip_range_vf=0.3"])
    text = OmegaConf.to_yaml(OmegaConf.structured(config))
    again = OmegaConf.merge(OmegaConf.structured(PPOConfig), OmegaConf.create(text))
    assert to_config(again, PPOConfig) == config


# ---- wrong input ------------------------------------------------------------------------------------------------

WRONG = [
    # unknown group option, group, key
    ("scenario=esay", "scenario=esay: no such option; did you mean 'easy'?"),
    ("reward=zzz", "choose from balanced, cost, reliability, security"),
    ("+curriculum=eesy", "did you mean 'easy'?"),
    ("+debug=shrot", "did you mean 'short'?"),
    ("scenaro=easy", "scenaro: no such key; did you mean 'scenario'?"),
    ("+scenaro=easy", "did you mean 'scenario'?"),
    ("curriculum=easy", "say +curriculum=easy, with the plus"),
    ("ppo.gama=1", "ppo.gama: no such key; did you mean 'ppo.gamma'?"),
    ("+ppo.gama=1", "ppo.gama: no such key; did you mean 'ppo.gamma'?"),
    ("++ppo.gama=1", "did you mean 'ppo.gamma'?"),
    ("gamma=0.9", "did you mean 'ppo.gamma'?"),
    ("learning_rat=0.1", "did you mean 'ppo.learning_rate'?"),
    ("+scenario.failures.failure_rat=0", "did you mean 'scenario.failures.failure_rate'?"),
    ("scenario.failure_rate=0", "did you mean 'scenario.failures.failure_rate'?"),
    ("+xyzzy=3", "xyzzy: no such key"),
    ("hydra.xyzzy=3", "hydra.xyzzy: no such key"),
    # type
    ("ppo.n_steps=abc", "must be a whole number, not 'abc'"),
    ("ppo.n_steps=1.5", "must be a whole number, not '1.5'"),
    ("ppo.gamma=high", "must be a number, not 'high'"),
    ("ppo.edges=maybe", "must be true or false, not 'maybe'"),
    ("ppo.net_arch=[64,x]", "must be a whole number, not 'x'"),
    ("ppo.engine=fats", "'fats' is none of fast, stock"),
    ("safety.mode=of", "'of' is none of enforce, observe, off"),
    ("device=tpu", "'tpu' is none of auto, cpu, cuda"),
    ("ppo=3", "ppo=3"),
    ("curriculum.stages=3", "curriculum.stages=3"),
    ("scenario.name=null", "must have a value"),
    # range
    ("ppo.gamma=1.5", "ppo.gamma=1.5: must be in (0, 1]"),
    ("ppo.gamma=0", "must be in (0, 1]"),
    ("ppo.gamma=nan", "must be in (0, 1]"),
    ("ppo.learning_rate=inf", "ppo.learning_rate=inf: must be greater than 0"),
    ("ppo.total_timesteps=0", "must be at least 1"),
    ("ppo.total_timesteps=1.5", "must be a whole number"),
    ("ppo.total_timesteps=inf", "must be a whole number"),
    ("ppo.n_envs=0", "must be at least 1"),
    ("ppo.net_arch=[64,0]", "ppo.net_arch[1]=0: must be at least 1"),
    ("ppo.batch_size=1000000", "larger than a rollout"),
    ("seed=-1", "must be in [0, 4294967295]"),
    ("threads=0", "threads=0: must be at least 1"),
    ("reward.cost=-1", "reward.cost=-1.0: must be at least 0"),
    ("memory.decay=2", "memory.decay=2.0: must be in (0, 1]"),
    ("evaluation.worlds=0", "must be at least 1"),
    ("scenario.failures.failure_rate=2", "must be in [0, 1]"),
    ("scenario.load.burst_low=9", "must not lie above scenario.load.burst_high"),
    ("scenario.topology.size_2=1", "probabilities must sum to 1"),
    ("scenario.sensors.lag_ticks_max=4", "must be in [0, 3]"),
    ("curriculum.stages=[{name:x,promote_win_rate:2}]", "stage 'x': promote_win_rate=2.0: must be in [0, 1]"),
    ("curriculum.stages=[{name:x,promote_win_rat:.2}]", "promote_win_rat: no such key; did you mean"),
    ("curriculum.stages=[{name:x,scenario:esay}]", "stage 'x': scenario=esay: no such option; did you mean"),
    ("curriculum.stages=[{name:x,overrides:{load.burst_lo:2}}]", "did you mean 'load.burst_low'?"),
    ("curriculum.stages=[{name:x,overrides:{load.burst_low:9}}]", "must not lie above"),
    ("curriculum.stages=[{name:x,overrides:{load.burst_low:much}}]", "must be a number, not 'much'"),
    ("curriculum.stages=[{name:x},{name:x}]", "two stages are named 'x'"),
    # path
    ("scenario.path=nowhere.yaml", "scenario.path=nowhere.yaml: no such file"),
    ("scenario=estate", "say scenario.path=<your estate>.yaml"),
    ("memory.path=nowhere", "memory.path=nowhere: no such file"),
    ("resume=runs/ppo/nowhere", "runs/ppo/nowhere: no such run"),
    ("resume=.", "not a run of Cloud-RL"),
    # form
    ("ppo", "cannot read the argument 'ppo'"),
    ("ppo.gamma=[", "cannot read the argument"),
    ("seed=1,2", "add -m to run each"),
    ("ppo.batch_size=???", "ppo.batch_size: needs a value"),
    ("runs_dir=${nowhere}", "nowhere"),
    ("--config-name=ppp", "no config named 'ppp'; did you mean 'ppo'?"),
    ("--config-dir=nowhere", "nowhere' not found"),
]


@pytest.mark.parametrize("argument, expected", WRONG, ids=[w[0] for w in WRONG])
def test_wrong_input_is_one_line(play, tmp_path: Path, argument: str, expected: str) -> None:
    code, out, err, seen = play(argument)
    assert (code, seen, out) == (1, [], "")
    assert expected in err
    assert err.startswith("cloudrl: ") and err.count("\n") == 1 and err.endswith("\n")
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_flag_is_a_usage_error(play) -> None:
    code, _, err, seen = play("--resume", "x")
    assert (code, seen) == (2, [])
    assert err.startswith("cloudrl: unrecognized arguments: --resume") and err.count("\n") == 1


def test_a_sweep_is_checked_before_its_first_job(play, tmp_path: Path) -> None:
    code, _, err, seen = play("-m", "ppo.gamma=0.9,0.99,7")
    assert (code, seen) == (1, []) and err == "cloudrl: ppo.gamma=7.0: must be in (0, 1]\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name, text, expected",
    [
        ("curriculum/mine.yaml", "stages:\n  - {name: a, promot_win_rate: 0.1}\n", "(in curriculum/mine.yaml)"),
        ("curriculum/mine.yaml", "stages:\n  - name: [a\n", "mine.yaml, line 3: not valid yaml"),
        ("curriculum/mine.yaml", "a: 1\n", "curriculum.a: no such key"),
        ("curriculum/mine.yaml", "stages:\n  - {name: a, scenario: nope}\n", "scenario=nope: no such option"),
        ("curriculum/other.yaml", "stages: []\n", "curriculum=mine: no such option"),
    ],
)
def test_a_wrong_file_is_named(play, tmp_path: Path, name: str, text: str, expected: str) -> None:
    (tmp_path / "mine" / name).parent.mkdir(parents=True)
    (tmp_path / "mine" / name).write_text(text)
    code, _, err, seen = play("--config-dir", "mine", "+curriculum=mine")
    assert (code, seen) == (1, []) and err.count("\n") == 1 and expected in err


@pytest.mark.parametrize(
    "settings, expected",
    [
        ({"gamma": 2.0}, "ppo.gamma=2.0"),
        ({"clip_range": 0.0}, "ppo.clip_range=0.0"),
        ({"eval_every": 0.5}, "ppo.eval_every=0.5"),
        ({"batch_size": 1}, "at least 2"),
    ],
)
def test_the_dataclasses_check_themselves(settings: dict[str, float], expected: str) -> None:
    with pytest.raises(UserError, match=expected.replace(".", r"\.")):
        PPOSettings(**settings)


def test_a_stage_demotes_below_where_it_promotes() -> None:
    with pytest.raises(UserError, match="must lie below"):
        StageConfig(promote_win_rate=0.2, demote_win_rate=0.3)
    assert StageConfig(max_fraction=0.25).step_cap(1e6) == 250_000
    assert StageConfig(max_steps=1e3).step_cap(1e6) == 1000


def test_hints() -> None:
    assert suggest_key("curriculum.stages[2].promote_winrate", PPOConfig).endswith(
        "'curriculum.stages[2].promote_win_rate'?"
    )
    assert "scenario.load.noise_sd" in known_keys(PPOConfig)


def test_every_number_of_a_scenario_is_checked() -> None:
    """nan anywhere is refused, and so is a negative number."""
    keys = [k for k in known_keys(Scenario) if k.rpartition(".")[2] in dict(leaves(Scenario()))]
    assert len(keys) > 80
    for key in keys:
        with pytest.raises(UserError):
            load_scenario("medium", {key: -1})


# ---- flags and runs ---------------------------------------------------------------------------------------------


def test_help_lists_groups_keys_and_examples(play) -> None:
    code, out, err, seen = play("--help")
    assert (code, err, seen) == (0, "", [])
    for text in ("curriculum: easy, full, hard, medium", "total_timesteps", "+curriculum=easy", "--cfg job"):
        assert text in out


def test_show_config(play, tmp_path: Path) -> None:
    code, out, err, seen = play("--cfg", "job", "seed=7")
    assert (code, err, seen) == (0, "", []) and "seed: 7" in out
    assert list(tmp_path.iterdir()) == []


def test_a_single_run_creates_nothing_of_hydra(play, tmp_path: Path) -> None:
    code, out, err, (config,) = play("seed=3", "+curriculum=easy")
    assert (code, out, err, config.seed) == (0, "", "", 3)
    assert list(tmp_path.iterdir()) == []


def test_multirun(play, tmp_path: Path) -> None:
    code, _, err, seen = play("-m", "seed=1,2", "safety=enforce,off")
    assert (code, err) == (0, "")
    assert [(c.seed, c.safety.mode.name) for c in seen] == [(1, "enforce"), (1, "off"), (2, "enforce"), (2, "off")]
    assert [p.name for p in (tmp_path / "runs").rglob("*") if p.is_file()] == ["multirun.yaml"]


def test_config_dir_adds_options(play, tmp_path: Path) -> None:
    for group, text in {
        "curriculum": "stages: [{name: a, scenario: mine}, {name: b}]\n",
        "scenario": "defaults: [easy, _self_]\nname: mine\nslots: 9\n",
    }.items():
        (tmp_path / "own" / group).mkdir(parents=True)
        (tmp_path / "own" / group / "mine.yaml").write_text(text)
    for argv in (["+curriculum=mine", "scenario=mine"], ["-m", "+curriculum=mine,easy"]):
        code, _, err, seen = play("--config-dir", "own", *argv)
        assert (code, err) == (0, "")
        assert {s.slots for s in curriculum_scenarios(seen[0])} == {9}


def test_resume_takes_the_run_s_config(play, tmp_path: Path) -> None:
    first = compose("ppo", ["+curriculum=easy", "reward=cost", "seed=5"])
    run = create_run("ppo", first, ["+curriculum=easy", "reward=cost", "seed=5"])
    _, _, _, (config,) = play(f"resume={run.path}")  # stopped before its first checkpoint: begins again
    assert config == dataclasses.replace(first, resume=str(run.path))
    with new_checkpoint(run.checkpoints, 10) as folder:
        (folder / "model").write_text("weights")
    for argv in ([], ["+curriculum=easy"], ["reward=cost"]):
        code, _, err, (config,) = play(f"resume={run.path}", *argv)
        assert (code, err) == (0, "")
        assert config == dataclasses.replace(first, resume=str(run.path))
    _, _, _, (config,) = play(f"resume={run.path}", "ppo.total_timesteps=2e6", "progress_bar=false")
    assert (config.ppo.total_timesteps, config.progress_bar, config.seed) == (2_000_000, False, 5)
    code, _, err, seen = play(f"resume={run.path}", "seed=6")
    assert (code, seen) == (1, []) and "has seed 5" in err and err.count("\n") == 1
    code, _, err, seen = play(f"resume={run.path}", "reward=security")
    assert (code, seen) == (1, []) and "start a new run to change it" in err and err.count("\n") == 1


# ---- by subprocess ----------------------------------------------------------------------------------------------


def test_exit_codes(tmp_path: Path) -> None:
    done = demo(tmp_path, "+ppo.gama=1")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "cloudrl: ppo.gama: no such key; did you mean 'ppo.gamma'?\n"
    assert list(tmp_path.iterdir()) == []

    done = demo(tmp_path, "seed=98")
    assert (done.returncode, done.stderr) == (1, "cloudrl: a bad value somewhere (CLOUDRL_DEBUG=1 shows where)\n")

    done = demo(tmp_path, "seed=99")
    assert done.returncode == 1 and "Traceback" in done.stderr and "RuntimeError: a bug" in done.stderr

    done = demo(tmp_path, "ppo.total_timesteps=1e6", "seed=1")
    assert (done.returncode, done.stderr) == (0, "")
    _, path, seed, steps = done.stdout.split()
    assert (seed, steps) == ("1", "1000000")
    assert resolve_run(tmp_path / path).overrides() == ["ppo.total_timesteps=1e6", "seed=1"]


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    done = demo(tmp_path, "ppo.gamma=9", CLOUDRL_DEBUG="1")
    assert done.returncode == 1 and "Traceback" in done.stderr and "must be in (0, 1]" in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_interrupt_exits_130(tmp_path: Path) -> None:
    script = tmp_path / "demo.py"
    script.write_text(DEMO)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, str(script), "seed=130"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=environment,
    )  # fmt: skip
    assert process.stdout is not None and process.stdout.readline().startswith("RUN")
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (130, "cloudrl: interrupted\n")
