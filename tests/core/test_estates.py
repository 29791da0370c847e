"""Estates: the shipped ones play, sound ones of any shape play, unsound ones end in one line that names it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cloudrl import Simulator, load_scenario
from cloudrl.cli import command
from cloudrl.compose import curriculum_scenarios
from cloudrl.config import CurriculumConfig, PPOConfig, StageConfig
from cloudrl.errors import UserError
from cloudrl.scenarios import estate_file
from cloudrl.scenarios.estate import ESTATES_DIR, estate_of, fingerprint, numbers_of, with_estate
from cloudrl.scenarios.library import available, scenario_hash
from cloudrl.scenarios.names import resource_names
from cloudrl.scenarios.scale import scaled_scenario, scaled_services
from cloudrl.scenarios.schema import Scenario
from cloudrl.scenarios.topology import front_to_back
from tests.core.play import FULL, random_actions

SHIPPED = sorted(p.stem for p in ESTATES_DIR.glob("*.yaml"))

SOUND = """\
name: Test
value_per_hour: 10
load: {amplitude: 0.4, peak_hour: 12}
services:
  web:
    kind: vm
    replicas: 2
    vcpu: 2
    entry: 1
    calls:
      cache: {kind: cache}
      database: {rate: 1.0, cache: cache}
  cache: {kind: cache, vcpu: 1}
  database: {kind: database, vcpu: 4, data: true}
  spare: {kind: vm, vcpu: 1, idle: true}
constants:
  failures.failure_rate: 1.0e-4
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(text: str | bytes, name: str = "my.yaml") -> str:
    Path(name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return name


def load(text: str | bytes, **changes: Any) -> Scenario:
    return load_scenario("estate", path=write(text), **changes)


def refused(text: str | bytes, *fragments: str, **changes: Any) -> str:
    """The one line with which a file is refused."""
    with pytest.raises(UserError) as error:
        load(text, **changes)
    line = str(error.value)
    assert "\n" not in line and "\r" not in line and len(line) < 400, line
    assert line.startswith("my.yaml"), line
    for fragment in fragments:
        assert fragment in line, line
    return line


def play(scenario: Scenario, ticks: int, n_worlds: int = 4, seed: int = 0) -> Simulator:
    """Random admissible play; everything stays finite and in bounds."""
    sim = Simulator(scenario, n_worlds)
    rng = np.random.default_rng(seed)
    observations = sim.reset(np.arange(n_worlds) * 9_000 + seed)
    for _ in range(min(ticks, sim.ticks)):
        observations, rewards, _done = sim.step(
            random_actions(rng.random((n_worlds, 2)), sim.masks, stray_share=0)
        )
        assert np.isfinite(observations).all() and np.isfinite(rewards).all()
        assert sim.masks.any(axis=1).all()
    for array in sim.state[:4]:
        for field in array.dtype.names or ():
            assert np.isfinite(array[field]).all(), field
    w, r = sim.state.worlds, sim.state.resources
    assert (sim.bill() >= 0).all() and (w["violations"] == 0).all()
    assert ((w["served"] >= 0) & (w["served"] <= 1 + 1e-12)).all()
    assert ((r["health"] >= 0) & (r["health"] <= 1)).all() and (r["utilisation"] >= 0).all()
    return sim


# ---- sound files ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_estates_play_a_day(name: str) -> None:
    scenario = load_scenario("estate", path=name)
    sim = play(scenario, 288, n_worlds=8)
    estate = estate_of(scenario)
    assert estate.source and scenario.name == estate.name
    assert sim.n_slots == scenario.slots == estate.n_resources
    assert estate.value_per_hour is not None
    np.testing.assert_allclose(sim.state.worlds["value"], estate.value_per_hour, rtol=1e-12)


def test_two_public_systems_and_an_example_ship() -> None:
    assert {"online_boutique", "magento", "example"} <= set(SHIPPED)
    assert len(estate_of(load_scenario("estate", path="online_boutique")).services) == 12


def test_what_the_file_says_is_what_the_world_holds() -> None:
    sim = Simulator(load(SOUND), 3)
    sim.reset([1, 10_001, 20_001])
    w, r = sim.state.worlds, sim.state.resources
    names = resource_names(sim.scenario)[0]
    assert sorted(names) == ["cache", "database", "spare", "web-1", "web-2"]
    assert sim.scenario.failures.failure_rate == 1e-4 and sim.scenario.load.diurnal_amplitude == 0.4
    np.testing.assert_allclose(w["base_cost"], 0.048 * (2 + 2 + 1) + 0.078 + 0.0855 * 4, rtol=1e-12)
    np.testing.assert_allclose(w["value"], 10.0, rtol=1e-12)
    size = {name: 1 << int(s) for name, s in zip(names, r["size"][0], strict=True)}
    assert size == {"web-1": 2, "web-2": 2, "cache": 1, "database": 4, "spare": 1}
    assert {n for n, idle in zip(names, r["idle"][0], strict=True) if idle} == {"spare"}
    profile = sim.rules.profile
    assert profile.shape == (2, 288) and profile[0].argmax() == 144
    np.testing.assert_allclose(profile[0].max(), 1.4)
    np.testing.assert_allclose(profile[0].mean(), 1.0)


def test_the_command_line_beats_the_file_and_the_file_beats_the_defaults() -> None:
    text = SOUND + "  security.breach_loss: 3\nhorizon_hours: 2\n"
    assert load(text).security.breach_loss == 3
    assert load(text).horizon.ticks == 24
    chosen = load(text, security__breach_loss=2.0, horizon__ticks=12, load__diurnal_amplitude=0.1, slots=9)
    assert (chosen.security.breach_loss, chosen.horizon.ticks, chosen.load.diurnal_amplitude) == (2.0, 12, 0.1)
    assert chosen.slots == 9
    sim = Simulator(chosen, 1)
    sim.reset([0])
    assert sim.n_slots == 9 and sim.state.worlds["n_resources"][0] == 5


def test_settling_twice_changes_nothing() -> None:
    once = load(SOUND)
    assert with_estate(once) == once
    assert with_estate(load_scenario("easy")) == load_scenario("easy")


def test_the_hash_follows_content_not_place() -> None:
    first = scenario_hash(load(SOUND))
    Path("sub").mkdir()
    Path("sub/other.yaml").write_text(SOUND)
    assert scenario_hash(load_scenario("estate", path="sub/other.yaml")) == first
    assert scenario_hash(load(SOUND.replace("replicas: 2", "replicas: 3"))) != first
    assert fingerprint(load(SOUND.replace("peak_hour: 12", "peak_hour: 13"))) != fingerprint(load(SOUND))


def test_anchors_merges_unicode_and_windows_line_ends() -> None:
    text = """\
services:
  eingang: &m {kind: vm, vcpu: 2, entry: 1, calls: {größe: 1, 東京-db: 0.5, off: 1}}
  größe:
    <<: *m
    entry: 0
    calls: {東京-db: 1}
  東京-db: {kind: database, vcpu: 2}
  off: {kind: vm, vcpu: 1}
"""
    scenario = load(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    assert sorted(resource_names(scenario)[0]) == sorted(["eingang", "größe", "東京-db", "off"])
    play(scenario, 20)


def test_names_of_suites_follow_the_slots() -> None:
    for suite in available():
        scenario = load_scenario(suite)
        sim = Simulator(scenario, 1)
        for names, head, kinds in zip(
            resource_names(scenario), sim.blueprints.heads, sim.blueprints.resources["kind"], strict=True
        ):
            assert len(names) == len(set(names)) == head["n_resources"]
            for name, kind in zip(names, kinds, strict=False):
                assert kind == 1 or name.split("-")[0] != "database"


# ---- unsound files ----------------------------------------------------------------------------------------------

BAD: dict[str, tuple[str | bytes, list[str]]] = {
    "empty": ("", ["is empty", "services"]),
    "only a comment": ("# nothing\n", ["is empty"]),
    "not yaml": ("services: {web: [1, 2\n", ["line", "not valid yaml"]),
    "a tab": ("services:\n\tweb: 1\n", ["line 2", "not valid yaml"]),
    "two documents": (SOUND + "---\na: 1\n", ["not valid yaml"]),
    "control character": (b"services: \x01\n", ["not valid yaml"]),
    "not UTF-8": (b"name: a\nservices: \xff\xfe\n", ["line 2", "UTF-8"]),
    "a list": ("- a\n- b\n", ["must be a mapping"]),
    "text": ("hello\n", ["must be a mapping", "'hello'"]),
    "a python object": ("services: !!python/object:os.system {}\n", ["tag"]),
    "a tag": (SOUND.replace("vcpu: 1,", "vcpu: !Ref x,"), ["tag"]),
    "too deep": ("a: " + "[" * 50 + "]" * 50, ["deeper"]),
    "very deep": ("a: " + "[" * 20_000, ["nest"]),
    "an anchor in itself": ("services: &a {web: *a}\n", ["itself"]),
    "no services": ("name: x\n", ["no `services:`"]),
    "services empty": ("services:\n", ["line 1", "services", "is empty"]),
    "services empty mapping": ("services: {}\n", ["is empty"]),
    "services a list": ("services: [web]\n", ["must be a mapping", "a list"]),
    "a service without anything": ("services:\n  web:\n", ["line 2", "services.web", "must be a mapping"]),
    "no kind": ("services:\n  web: {entry: 1}\n", ["line 2", "services.web", "no kind"]),
    "no entry": (SOUND.replace("    entry: 1\n", ""), ["line 4", "no traffic enters", "entry: 1"]),
    "unknown top key": (SOUND + "horizn_hours: 2\n", ["line 18", "'horizn_hours'", "'horizon_hours'"]),
    "resources for services": (
        SOUND.replace("services:", "resources:"),
        ["line 4", "unknown key 'resources'", "'services'"],
    ),
    "unknown service key": (
        SOUND.replace("    replicas", "    replica"),
        ["line 7", "services.web", "'replicas'"],
    ),
    "unknown call key": (SOUND.replace("{rate: 1.0,", "{rat: 1.0,"), ["line 12", "'rat'", "'rate'"]),
    "twice": (SOUND.replace("  spare", "  cache"), ["line 15", "'cache' is written twice", "line 13"]),
    "a key that is a list": ("services: {[a]: 1}\n", ["a key must be text"]),
    "replicas as text": (SOUND.replace("replicas: 2", "replicas: two"), ["line 7", "a number", "'two'"]),
    "replicas quoted": (
        SOUND.replace("replicas: 2", "replicas: '2'"),
        ["line 7", "a number", "remove the quotes"],
    ),
    "replicas a half": (SOUND.replace("replicas: 2", "replicas: 2.5"), ["line 7", "whole number"]),
    "replicas 0": (SOUND.replace("replicas: 2", "replicas: 0"), ["line 7", "at least 1", "remove the service"]),
    "replicas nan": (SOUND.replace("replicas: 2", "replicas: nan"), ["line 7", "a number"]),
    "too many replicas": (SOUND.replace("replicas: 2", "replicas: 1e9"), ["line 7", "2,000"]),
    "kind": (SOUND.replace("kind: database", "kind: databse"), ["line 14", "'databse'", "'database'"]),
    "kind empty": (SOUND.replace("kind: database", "kind: ~"), ["line 14", "must be text, not nothing"]),
    "flag as text": (SOUND.replace("data: true", "data: maybe"), ["line 14", "true or false"]),
    "flag as number": (SOUND.replace("data: true", "data: 1"), ["line 14", "true or false"]),
    "probability": (SOUND.replace("data: true", "exposed: 1.5"), ["line 14", "[0, 1]", "'1.5'"]),
    "probability as text": (SOUND.replace("data: true", "logging: often"), ["line 14", "'often'"]),
    "vcpu 3": (SOUND.replace("vcpu: 4", "vcpu: 3"), ["line 14", "1, 2, 4, 8", "'3'"]),
    "vcpu 16": (SOUND.replace("vcpu: 4", "vcpu: 16"), ["line 14", "1, 2, 4, 8"]),
    "vcpu of a queue": (SOUND.replace("{kind: vm, vcpu: 1, i", "{kind: queue, vcpu: 1, i"), ["line 15", "queue"]),
    "utilisation": (SOUND.replace("data: true", "utilisation: 20"), ["line 14", "at most 1", "20"]),
    "price 0": (SOUND.replace("data: true", "price_per_hour: 0"), ["line 14", "above 0"]),
    "price without size": (
        "services:\n  web: {kind: vm, entry: 1, price_per_hour: 1}\n",
        ["line 2", "price_per_hour", "vcpu"],
    ),
    "negative days": (SOUND.replace("data: true", "credential_days: -1"), ["line 14", "credential_days"]),
    "call to nobody": (SOUND.replace("database: {rate", "databse: {rate"), ["line 12", "'databse'", "'database'"]),
    "self-call": (SOUND.replace("      cache: {kind", "      web: {kind"), ["line 11", "call itself"]),
    "circle": (
        SOUND.replace("data: true", "calls: {spare: 1}").replace("idle: true", "calls: {web: 1}"),
        ["circle: ", "web -> database -> spare -> web", "remove one"],
    ),
    "a cache that is none": (SOUND.replace("cache: cache}", "cache: spare}"), ["line 12", "'spare' is a vm"]),
    "a cache that is nobody": (SOUND.replace("cache: cache}", "cache: cach}"), ["line 12", "'cach'", "'cache'"]),
    "a cache nobody asks": (
        SOUND.replace("      cache: {kind: cache}\n", ""),
        ["'web' does not call 'cache'", "kind: cache"],
    ),
    "kind cache to a database": (
        SOUND.replace("{rate: 1.0, cache: cache}", "{kind: cache}"),
        ["line 12", "database"],
    ),
    "call kind": (SOUND.replace("{kind: cache}\n      d", "{kind: hrd}\n      d"), ["line 11", "'hard'"]),
    "calls a list": (SOUND.replace("data: true", "calls: [web]"), ["line 14", "must be a mapping"]),
    "calls 0": (SOUND.replace("{rate: 1.0", "{rate: 0"), ["line 12", "[0.001, 1000]", "0"]),
    "calls a triple": (SOUND.replace("{rate: 1.0", "{rate: [1, 2, 3]"), ["line 12", "[low, high]"]),
    "calls falling": (SOUND.replace("{rate: 1.0", "{rate: [2, 1]"), ["line 12", "swap"]),
    "calls to idle": (SOUND.replace("data: true", "calls: {spare: 1}"), ["line 14", "'spare' is idle"]),
    "nobody calls it": (SOUND.replace(", idle: true", ""), ["line 15", "nothing calls it", "idle: true"]),
    "entry negative": (SOUND.replace("entry: 1", "entry: -1"), ["line 9", "-1"]),
    "entry 0": (SOUND.replace("entry: 1", "entry: 0"), ["every entry share is 0"]),
    "entry tiny": (SOUND.replace("data: true", "entry: 1e-12"), ["millionth"]),
    "idle with entry": (SOUND.replace("idle: true", "idle: true, entry: 1"), ["line 15", "entry", "no traffic"]),
    "stopped and busy": (SOUND.replace("data: true", "stopped: true"), ["line 14", "stopped"]),
    "job on a busy machine": (SOUND.replace("data: true", "job: 0.5"), ["line 14", "job"]),
    "a name taken by a replica": (SOUND.replace("  spare:", "  web-2:"), ["line 15", "replica 2 of 'web'"]),
    "a name with a line break": (SOUND.replace("  spare:", '  "a\\nb":'), ["printable"]),
    "an empty name": (SOUND.replace("  spare:", '  "":'), ["printable"]),
    "calls multiply": (
        "services:\n  a0: {kind: vm, entry: 1, calls: {a1: 1000}}\n"
        + "".join(f"  a{k}: {{kind: vm, calls: {{a{k + 1}: 1000}}}}\n" for k in range(1, 9))
        + "  a9: {kind: vm}\n",
        ["million"],
    ),
    "calls fade": (
        "services:\n  a0: {kind: vm, entry: 1, calls: {a1: 0.001}}\n"
        + "".join(f"  a{k}: {{kind: vm, calls: {{a{k + 1}: 0.001}}}}\n" for k in range(1, 9))
        + "  a9: {kind: vm}\n",
        ["too few to count", "'a"],
    ),
    "too many resources": (
        "services:\n  a: {kind: vm, entry: 1, replicas: 1500}\n  b: {kind: vm, entry: 1, replicas: 600}\n",
        ["line 3", "2,000"],
    ),
    "value negative": (SOUND.replace("value_per_hour: 10", "value_per_hour: -1"), ["line 2", "above 0"]),
    "value with unknown sizes": (SOUND.replace("vcpu: 4, ", ""), ["line 2", "'database' has no vcpu"]),
    "horizon": (SOUND + "horizon_hours: 0\n", ["line 18", "horizon_hours"]),
    "horizon uneven": (SOUND + "horizon_hours: 1.01\n", ["5 minutes"]),
    "load amplitude": (SOUND.replace("amplitude: 0.4", "amplitude: 1.4"), ["line 3", "[0, 1]"]),
    "load key": (SOUND.replace("amplitude: 0.4", "amplitud: 0.4"), ["line 3", "'amplitude'"]),
    "load both": (SOUND.replace("amplitude: 0.4", "csv: t.csv"), ["line 3", "peak_hour"]),
    "load without file": (SOUND.replace("amplitude: 0.4, peak_hour: 12", "csv: t.csv"), ["line 3", "'t.csv'"]),
    "constant unknown": (SOUND.replace("failure_rate", "failure_rat"), ["line 17", "'failures.failure_rate'"]),
    "constant without section": (SOUND.replace("failures.f", "f"), ["line 17", "'failures.failure_rate'"]),
    "constant out of range": (SOUND.replace("1.0e-4", "2"), ["line 17", "failures.failure_rate", "[0, 1]"]),
    "constant as text": (SOUND.replace("1.0e-4", "often"), ["line 17", "number"]),
    "constant whole": (SOUND.replace("failures.failure_rate: 1.0e-4", "jobs.job_ticks: 1.5"), ["whole number"]),
    "constant not for estates": (SOUND.replace("failures.failure_rate", "slots"), ["line 17", "no such constant"]),
    "constant for the horizon": (
        SOUND.replace("failures.failure_rate", "horizon.ticks"),
        ["line 17", "horizon_hours"],
    ),
    "constants nested": (
        SOUND.replace("failures.failure_rate: 1.0e-4", "failures: {failure_rate: 1.0e-4}"),
        ["line 17", "dotted"],
    ),
    "constants that disagree": (
        SOUND.replace("failures.failure_rate: 1.0e-4", "load.burst_low: 9"),
        ["burst_high"],
    ),
    "nothing costs anything": (
        "services:\n  web: {kind: vm, entry: 1}\nconstants: {prices.vm_vcpu_hour: 0}\n",
        ["$0 per hour"],
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_ends_in_one_line(case: str) -> None:
    text, fragments = BAD[case]
    refused(text, *fragments)


def test_fixed_slots_too_few() -> None:
    refused(SOUND, "5 resources", "slots is 4", slots=4)


def test_a_file_too_large() -> None:
    refused(SOUND + "#" * 1_000_001, "1 MB")


def test_merges_do_not_multiply() -> None:
    """A few lines of nested anchors must not fill the memory."""
    lines = ["a0: &a0 {k0: 1}"]
    lines += [f"a{k}: &a{k} {{<<: [{', '.join([f'*a{k - 1}'] * 9)}], k{k}: 1}}" for k in range(1, 40)]
    lines += ["l0: &l0 [1]", *(f"l{k}: &l{k} [{', '.join([f'*l{k - 1}'] * 9)}]" for k in range(1, 40))]
    refused("\n".join(lines), "unknown key")


@pytest.mark.parametrize(
    ("path", "fragments"),
    [
        ("nowhere.yaml", ["scenario.path=nowhere.yaml: no such file", "magento"]),
        ("magneto", ["'magento'"]),
        ("sub/nowhere.yaml", ["working directory"]),
        (".", ["folder"]),
        ("a\0b", ["no such file"]),
    ],
)
def test_a_missing_file(path: str, fragments: list[str]) -> None:
    with pytest.raises(UserError) as error:
        load_scenario("estate", path=path)
    assert "\n" not in str(error.value)
    for fragment in fragments:
        assert fragment in str(error.value)


def test_an_estate_without_a_path() -> None:
    with pytest.raises(UserError, match=r"scenario\.path"):
        Simulator(load_scenario("estate"), 1)


# ---- any sound estate plays, any damaged one is refused in one line --------------------------------------------


@st.composite
def estates(draw: st.DrawFn) -> dict[str, Any]:
    """A sound estate: services front to back, each called by one before it."""
    n = draw(st.integers(1, 7))
    names = draw(st.lists(st.text("abcäß東Ω_.:/ 0", min_size=1, max_size=6), min_size=n, max_size=n, unique=True))
    names = [f"s{k}{name}".strip() for k, name in enumerate(names)]
    services: dict[str, dict[str, Any]] = {}
    rate = st.one_of(st.floats(0.01, 3), st.tuples(st.floats(0.01, 1), st.floats(1, 3)).map(list))
    flag = st.one_of(st.booleans(), st.floats(0, 1))
    for k, name in enumerate(names):
        kind = draw(st.sampled_from(["vm", "database", "cache", "queue"]))
        service: dict[str, Any] = {"kind": kind, "replicas": draw(st.integers(1, 4))}
        if kind != "queue" and draw(st.booleans()):
            service["vcpu"] = draw(st.sampled_from([1, 2, 4, 8]))
        if kind == "queue" or "vcpu" in service:
            service |= draw(st.sampled_from([{}, {"price_per_hour": 0.3}]))
        for key in ("critical", "data", "multi_az"):
            if draw(st.booleans()):
                service[key] = draw(st.booleans())
        for key in ("exposed", "encrypted", "logging"):
            if draw(st.booleans()):
                service[key] = draw(flag)
        idle = k > 0 and draw(st.integers(0, 4)) == 0
        if idle:
            service |= {"idle": True, "stopped": draw(st.booleans())}
        elif draw(st.booleans()):
            service["utilisation"] = draw(st.floats(0.01, 1))
        busy = [other for other in names[:k] if "idle" not in services[other]]
        if k == 0 or (not idle and draw(st.integers(0, 3)) == 0):
            service["entry"] = draw(st.floats(0.01, 5))
        elif not idle:
            for caller in draw(st.lists(st.sampled_from(busy), min_size=1, max_size=3, unique=True)):
                call: Any = draw(rate)
                form = draw(st.integers(0, 2))
                if form:
                    call = {"rate": call, "kind": "cache" if kind == "cache" and form == 1 else "soft"}
                calls = services[caller].setdefault("calls", {})
                caches = [c for c in calls if services[c]["kind"] == "cache"]
                if caches and isinstance(call, dict) and kind != "cache":
                    call["cache"] = caches[0]
                calls[name] = call
        services[name] = service
    out: dict[str, Any] = {"services": services}
    if all(s["kind"] == "queue" or "vcpu" in s for s in services.values()) and draw(st.booleans()):
        out["value_per_hour"] = draw(st.floats(0.01, 1e4))
    if draw(st.booleans()):
        out["load"] = {"amplitude": draw(st.floats(0, 1)), "peak_hour": draw(st.floats(0, 24))}
    if draw(st.booleans()):
        out["horizon_hours"] = draw(st.integers(1, 48))
    return out


QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]


@settings(max_examples=1000 if FULL else 100, deadline=None, suppress_health_check=QUIET)
@given(estates(), st.integers(0, 2**31))
def test_any_sound_estate_plays(estate: dict[str, Any], seed: int) -> None:
    scenario = load(yaml.safe_dump(estate, allow_unicode=True))
    sim = play(scenario, 24, n_worlds=2, seed=seed)
    assert len(resource_names(scenario)[0]) == sim.n_slots == scenario.slots


PIECES = [
    "", "\n", ":", ": ", " ", "  ", "\t", "-", "- ", "[", "]", "{", "}", "&a ", "*a", "<<: ", "!x ", "'", '"', "#",
    "|", "0", "-1", "1e9", "nan", ".inf", "~", "true", "web", "cache", "database", "spare", "kind", "calls", "\0",
    "é", "\x85",
    "idle: true", "entry: 0", "vcpu: 3", "---\n", "%", "\ufeff", "\U0001f600", ", ",
]  # fmt: skip


@st.composite
def damage(draw: st.DrawFn) -> str:
    text = SOUND
    for _ in range(draw(st.integers(1, 4))):
        i = draw(st.integers(0, len(text)))
        j = min(len(text), i + draw(st.integers(0, 12)))
        text = text[:i] + draw(st.sampled_from(PIECES)) + text[j:]
    return text


@settings(max_examples=5000 if FULL else 400, deadline=None, suppress_health_check=QUIET)
@given(damage())
def test_a_damaged_file_plays_or_is_refused_in_one_line(text: str) -> None:
    try:
        scenario = load(text)
        sim = Simulator(scenario, 1)
        sim.reset([0])
        assert np.isfinite(sim.observations).all()
    except UserError as error:
        assert len(str(error).splitlines()) == 1


@settings(max_examples=2000 if FULL else 150, deadline=None, suppress_health_check=QUIET)
@given(st.one_of(st.binary(max_size=60), st.text(max_size=60).map(lambda t: t.encode("utf-8", "surrogatepass"))))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    with pytest.raises(UserError) as error:
        load(data)
    assert len(str(error.value).splitlines()) == 1


# ---- shapes of any size -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [*range(6, 40), 100, 999, 1000, 5000])
def test_scaled_shapes_have_exactly_n_resources(n: int) -> None:
    services = scaled_services(n)
    assert sum(s.get("replicas", 1) for s in services.values()) == n
    called = {target for s in services.values() for target in s.get("calls", {})}
    assert called | {"service0"} == set(services) and len(front_to_back(services)) == len(services)
    assert all(2 <= s["replicas"] <= 4 for s in services.values() if s["kind"] == "vm")


def test_scaled_scenarios_play() -> None:
    for n in (6, 37, 300):
        sim = play(scaled_scenario(n, horizon__ticks=12), 12, n_worlds=2)
        assert sim.n_slots == n and (sim.state.worlds["n_resources"] == n).all()
        assert len(scenario_hash(sim.scenario)) == 12
    for n in (5, 5001):
        with pytest.raises(UserError, match="6 to 5000"):
            scaled_scenario(n)


def test_the_largest_estate_loads() -> None:
    services = scaled_services(estate_file.MAX_RESOURCES)
    sim = Simulator(load(yaml.safe_dump({"services": services})), 1)
    sim.reset([0])
    assert sim.state.worlds["n_resources"][0] == estate_file.MAX_RESOURCES


# ---- from the command line --------------------------------------------------------------------------------------


def run(*arguments: str) -> Scenario:
    """The scenario that reaches a command's main for these arguments."""
    seen: list[Scenario] = []

    @command("ppo")
    def main(config: PPOConfig) -> None:
        seen.append(config.scenario)

    main(arguments)
    return seen[0]


def test_a_command_gets_the_settled_scenario() -> None:
    scenario = run("scenario=estate", "scenario.path=magento", "scenario.failures.failure_rate=0.001")
    assert (scenario.slots, scenario.name, scenario.failures.failure_rate) == (7, "Magento shop", 0.001)
    write(SOUND)
    assert run("scenario=estate", "scenario.path=my.yaml") == load(SOUND)
    assert run("scenario=estate", "scenario.path=my.yaml", "scenario.slots=8").slots == 8


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["scenario=estate"], "say scenario.path=<your estate>.yaml"),
        (["scenario=estate", "scenario.path=magneto"], "did you mean 'magento'?"),
        (["scenario=estate", "scenario.path=my.yaml"], "my.yaml, line 7: services.web.replicas: must be a number"),
        (
            ["scenario=estate", "scenario.path=magento", "scenario.slots=3"],
            "has 7 resources, but scenario.slots is 3",
        ),
        (["scenario=easy", "scenario.slots=0"], "scenario.slots=0: must be at least 1"),
    ],
)
def test_a_command_refuses_in_one_line(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write(SOUND.replace("replicas: 2", "replicas: two"))
    with pytest.raises(SystemExit) as stop:
        run(*arguments)
    err = capsys.readouterr().err
    assert stop.value.code == 1 and len(err.splitlines()) == 1 and line in err
    assert [p.name for p in tmp_path.iterdir()] == ["my.yaml"], "nothing is created"


def test_a_curriculum_takes_its_slots_from_an_estate() -> None:
    stages = [
        StageConfig(name="suite", scenario="easy"),
        StageConfig(name="mine", scenario="estate", overrides={"path": "magento"}),
    ]
    config = PPOConfig(scenario=load_scenario("easy"), curriculum=CurriculumConfig(stages=stages))
    assert [s.slots for s in curriculum_scenarios(config)] == [7, 7]


EXTREMES = """\
services:
  web: {kind: vm, replicas: 2, entry: 1, calls: {cache: {kind: cache}, database: {rate: 1, cache: cache}}}
  cache: {kind: cache}
  database: {kind: database, data: true}
  old: {kind: vm, idle: true}
horizon_hours: 1
"""


@pytest.mark.parametrize("name", sorted(numbers_of(load_scenario("estate"))))
def test_a_constant_at_its_limits_plays_or_is_refused(name: str) -> None:
    for value in ("0", "1", "100", "1e9"):
        try:
            scenario = load(EXTREMES + f"constants: {{{name}: {value}}}\n")
        except UserError as error:
            assert len(str(error).splitlines()) == 1
        else:
            play(scenario, 12)
