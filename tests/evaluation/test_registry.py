"""Agents by name: sets, other names, unique titles, and one line for what does not exist."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from cloudrl.actions import PATCH
from cloudrl.compose import load_scenario
from cloudrl.errors import UserError
from cloudrl.policies.scripted import ScriptedPolicy, baselines
from evaluation.agents.agent import View
from evaluation.agents.entry import Context, code_of
from evaluation.agents.registry import ALIASES, KINDS, SETS, build, find
from evaluation.config import LanguageSettings
from evaluation.economics import DEGENERATE
from evaluation.rollout import play_episodes

EASY = Context(load_scenario("easy"))


def names(*specs: str, context: Context = EASY) -> list[str]:
    return [entry.name for entry in find(specs, context)]


def test_every_scripted_policy_has_its_name() -> None:
    known = [policy.name for policy in baselines(EASY.scenario.name)]
    assert names(*known) == known
    for entry, policy in zip(find(known, EASY), baselines(EASY.scenario.name), strict=True):
        made = build(entry, EASY)
        assert isinstance(made, ScriptedPolicy) and made.name == policy.name


def test_sets_and_other_names() -> None:
    assert len(SETS["baselines"]) == 12
    assert set(DEGENERATE) <= {*SETS["baselines"], *SETS["constants"]}
    assert names("baselines") == list(SETS["baselines"])
    assert names("constants", "baselines", "noop") == list(dict.fromkeys([*SETS["constants"], *SETS["baselines"]]))
    assert names("restart-loop", "restart-all", "log-all") == ["restart-all", "enable-logging-all"]
    known = {policy.name for policy in baselines("CloudOps-Easy")}
    assert set(ALIASES.values()) <= known and set(SETS["constants"]) <= known


def test_only_the_oracle_sees_the_future() -> None:
    entries = find(["planners", "baselines"], EASY)
    assert [entry.name for entry in entries if entry.clairvoyant] == ["oracle"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("runbok", "did you mean 'runbook'"),
        ("nothing-like-it", "choose from .*noop.*ppo:"),
        ("ppp:x", "did you mean 'ppo'"),
        ("ppo:", "must follow the colon"),
        ("ppo:no/such/run", "no such run"),
        ("python:module", "write python:<module>:<class>"),
        ("python:no_such_module_here:Agent", "no module no_such_module_here"),
        ("python:no_such_package.module:Agent", "No module named 'no_such_package'"),
        ("endpoint:127.0.0.1#m", "#<model>"),
        ("llm:no/such/model", "no such"),
    ],
)
def test_what_does_not_exist_is_said_before_anything_is_played(spec: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        find(["noop", spec], EASY)
    assert "\n" not in str(caught.value)


def test_titles_are_unique(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("first_agents", "second_agents"):
        (tmp_path / f"{module}.py").write_text(
            "class Agent:\n    name = 'a'\n    def act(self, view): return None\n"
        )
    monkeypatch.syspath_prepend(tmp_path)
    entries = find(["python:first_agents:Agent", "python:second_agents:Agent"], EASY)
    assert [entry.name for entry in entries] == ["Agent", "python:second_agents:Agent"]
    assert entries[0].identity != entries[1].identity


def test_the_identity_follows_the_code_and_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    module = tmp_path / "changing_agents.py"
    module.write_text("class Agent:\n    def act(self, view): return 1\n")
    before = find(["python:changing_agents:Agent"], EASY)[0].identity
    assert find(["python:changing_agents:Agent"], EASY)[0].identity == before
    module.write_text("class Agent:\n    def act(self, view): return 2\n")
    assert find(["python:changing_agents:Agent"], EASY)[0].identity != before
    medium = Context(load_scenario("medium"))
    of = {context.scenario.name: find(["runbook", "noop"], context) for context in (EASY, medium)}
    assert of["CloudOps-Easy"][0].identity != of["CloudOps-Medium"][0].identity  # another list was found there
    assert of["CloudOps-Easy"][1].identity == of["CloudOps-Medium"][1].identity
    assert code_of("cloudrl/policies/*.py") != code_of("cloudrl/policies/simple.py")


def test_attempts_of_a_language_model_are_rows_of_one_group() -> None:
    context = Context(EASY.scenario, LanguageSettings(attempts=3))
    entries = find(["noop", "endpoint:http://127.0.0.1:1/v1#m"], context)
    assert [entry.name for entry in entries] == ["noop", "m", "m (2)", "m (3)"]
    assert len({entry.group for entry in entries[1:]}) == 1 and len({entry.identity for entry in entries}) == 4


def test_what_is_no_agent_fails_when_it_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "odd_agents.py").write_text("number = 3\nclass Mute: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    for spec, message in (
        ("python:odd_agents:number", "no class number"),
        ("python:odd_agents:Gone", "no class Gone"),
        ("python:odd_agents:Mute", r"no method act\(view\)"),
    ):
        (entry,) = find([spec], EASY)
        with pytest.raises(UserError, match=message):
            build(entry, EASY)


def test_the_agent_of_the_docs_plays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ten lines of docs/benchmark.md, as a person would paste them."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "benchmark.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    (tmp_path / "my_agents.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    medium = Context(load_scenario("medium", {"horizon.ticks": 100}))
    (entry,) = find(["python:my_agents:PatchWhatIsKnown"], medium)
    seeds = np.arange(10_000, 10_010)
    assert play_episodes(build(entry, medium), medium.scenario, seeds).operations.sum() == 0  # nobody analyses

    class AnalyseFirst:
        name = "analyse r0 to r11, then patch"

        def act(self, view: View) -> np.ndarray:
            if view.tick < 12:
                return np.where(view.masks[:, 12 * view.tick], 12 * view.tick, view.noop)
            return build(entry, medium).act(view)  # type: ignore[union-attr, no-any-return, call-arg, arg-type]

    played = play_episodes(AnalyseFirst(), medium.scenario, seeds)
    assert played.ops is not None and played.ops[:, PATCH].sum() > 0 and not played.vetoed.any()


def test_the_page_names_every_agent_and_set() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "benchmark.md").read_text()
    for name in [*(p.name for p in baselines("CloudOps-Easy")), *ALIASES, *SETS, "greedy", "mpc", "oracle"]:
        assert f"`{name}`" in page, name
    for kind in KINDS:
        assert f"`{kind}:" in page, kind
