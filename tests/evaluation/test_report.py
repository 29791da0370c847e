"""The report: its figures are those of the statistics, its page stands alone, its episodes are the real ones."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cloudrl.errors import UserError
from evaluation import report
from evaluation.report import style
from evaluation.report.__main__ import main
from evaluation.report.episodes import episodes, pick
from evaluation.report.plot import Plot, labelled_ticks, nice_ticks
from evaluation.report.summary import Summary, summarise
from evaluation.report.words import money, number
from evaluation.results import AgentResult, Results
from evaluation.score import scores
from evaluation.statistics import bootstrap, improvement, iqm, mean, pass_power, stratified
from tests.evaluation.colours import BLINDNESS, linear, told_apart
from tests.evaluation.synthetic import agent, noop_bills, played, results, usual


@pytest.fixture(scope="module")
def real() -> Results:
    return played()


@pytest.fixture(scope="module")
def built(real: Results, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    real.write(folder)
    return report.write_report(folder)


def row(summary: Summary, name: str) -> object:
    return next(r for r in summary.rows if r.name == name)


# ---- the figures -----------------------------------------------------------------------------------------------


def test_figures_are_those_of_the_statistics() -> None:
    made = usual()
    noop, bill = made.agents["noop"]["bill"], made.agents["runbook"]["bill"]
    score = scores(bill, noop, noop - 40)
    found = row(summarise(made), "runbook")
    assert found.score == bootstrap(score) and found.iqm == bootstrap(score, estimator=iqm)
    assert found.bill == bootstrap(bill) and found.saved == bootstrap(noop - bill)
    assert found.regret == bootstrap(bill - (noop - 40)) and found.won == bootstrap(made.agents["runbook"]["won"])
    assert found.ratio_of_sums == pytest.approx(100 * (noop - bill).sum() / (40 * 40))
    assert row(summarise(made), "ruin").beats_runbook == improvement(-made.agents["ruin"]["bill"], -bill)


def test_best_first_bounds_on_top_failures_last() -> None:
    summary = summarise(usual())
    assert [r.name for r in summary.rows] == ["oracle", "runbook", "noop", "ruin", "broken"]
    assert [r.number for r in summary.rows] == [1, 2, 3, 4, 0]
    assert summary.best is not None and summary.best.name == "runbook"
    assert [r.name for r in summary.failed] == ["broken"]
    assert summary.rank_correlation == pytest.approx(1.0)


def test_reward_that_disagrees_with_the_score_shows() -> None:
    noop = noop_bills()
    gamed = [agent(f"a{k}", noop - 10 * k, metrics={"reward": np.full(40, -float(k))}) for k in range(1, 5)]
    made = results([agent("noop", noop, metrics={"reward": np.zeros(40)}), *gamed], noop - 60)
    assert summarise(made).rank_correlation == pytest.approx(-1.0)


def test_worlds_that_tie_have_no_score() -> None:
    noop = np.full(40, 100.0)
    oracle = np.where(np.arange(40) < 10, 99.5, 50.0)
    summary = summarise(results([agent("noop", noop), agent("x", noop - 25)], oracle))
    assert summary.ties == 10 and len(summary.values["x"]) == 30
    assert row(summary, "x").score.mean == 50.0
    assert row(summary, "x").regret.mean == pytest.approx(np.mean(noop - 25 - oracle))
    assert row(summary, "x").tie_regret.mean == pytest.approx(-24.5)
    everywhere = summarise(results([agent("noop", noop), agent("x", noop - 25)], np.full(40, 99.5)))
    assert everywhere.measure == "saved" and row(everywhere, "x").score is None
    assert row(everywhere, "x").iqm.mean == 25.0 and everywhere.ties == 40


def test_without_an_oracle_there_are_savings() -> None:
    summary = summarise(results([agent("noop", noop_bills()), agent("x", noop_bills() - 3)]))
    assert summary.measure == "saved" and row(summary, "x").iqm.mean == pytest.approx(3.0)
    assert row(summary, "x").regret is None


def test_training_runs_are_strata() -> None:
    noop = noop_bills()
    rng = np.random.default_rng(0)
    runs = [agent(f"ppo {k}", noop - 10 - k + rng.normal(size=40), group="ppo") for k in range(3)]
    summary = summarise(results([agent("noop", noop), *runs], noop - 40))
    group = next(r for r in summary.rows if r.runs == 3)
    values = np.stack([scores(r["bill"], noop, noop - 40) for r in runs])
    assert group.score == stratified(values, mean) and group.iqm == stratified(values, iqm)
    assert group.spread == (values.mean(axis=1).min(), values.mean(axis=1).max())
    assert len(summary.agents) == 4  # pictures show single runs
    assert summary.rows[0].name == "ppo 2" and summary.best is group  # the luckiest run is not the agent


def test_attempts_of_a_language_model() -> None:
    noop = noop_bills()
    runbook = agent("runbook", noop - 10)
    valid = {"json_valid": np.ones(40)}
    bills = [noop - 10 - np.where(np.arange(40) < n, 1.0, -1.0) for n in (40, 30, 20, 10)]
    tries = [agent(f"llm {k}", b, group="llm", metrics=valid) for k, b in enumerate(bills)]
    group = next(r for r in summarise(results([agent("noop", noop), runbook, *tries])).rows if r.runs == 4)
    passed = np.stack([b <= runbook["bill"] for b in bills])
    assert group.pass_power == {k: pytest.approx(pass_power(passed, k)) for k in (1, 2, 3, 4)}
    assert group.pass_power[4] == pytest.approx(0.25)


# ---- the page --------------------------------------------------------------------------------------------------


class Reader(HTMLParser):
    """Checks that tags are balanced; collects what a browser would fetch or run."""

    VOID = {"meta", "br", "path"}

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.outside: list[str] = []
        self.tags: dict[str, int] = {}
        self.text: list[str] = []
        self.unlabelled: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        given = dict(attrs)
        for name in ("src", "href", "data", "action", "poster", "srcset"):
            value = given.get(name)
            if value is not None and not value.startswith("#"):
                self.outside.append(f"{tag} {name}={value}")
        self.outside += [f"{tag} {name}" for name in given if name.startswith("on")]
        if given.get("role") in ("img", "region") and not given.get("aria-label"):
            self.unlabelled.append(tag)
        if tag == "th" and "scope" not in given:
            self.unlabelled.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def parsed(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == []
    return reader


def test_the_page_stands_alone(built: Path) -> None:
    html = built.read_text()
    reader = parsed(html)
    assert reader.outside == [] and reader.unlabelled == []
    assert not {"script", "link", "img", "iframe", "object", "embed"} & set(reader.tags)
    assert not re.search(r"https?:|//[a-z]|@import|url\(", html)
    assert len(html) < 2_000_000


def test_the_page_shows_what_was_asked_for(built: Path, real: Results) -> None:
    text = "".join(parsed(built.read_text()).text)
    for heading in (
        "Scores", "Gates", "Performance profiles", "Bill by part", "Reward against savings", "Cascades",
        "Action mix", "Episodes", "The median world", "The worst world", "Earned most",
    ):  # fmt: skip
        assert heading in text, heading
    for name, found in real.agents.items():
        assert name in text and f"{found['bill'].mean():,.2f}" in text
    assert real.suite.scenario_hash in text and "nobody has searched these worlds" in text


def test_what_a_stranger_wrote_is_text(tmp_path: Path) -> None:
    made = usual()
    evil = '"><script>alert(1)</script>'
    made.agents[evil] = agent(evil, noop_bills())
    made.agents[evil].spec = evil
    made.write(tmp_path)
    html = report.write_report(tmp_path).read_text()
    assert "script" not in parsed(html).tags and "alert(1)" in "".join(parsed(html).text)


def test_the_same_results_give_the_same_bytes(built: Path, real: Results, tmp_path: Path) -> None:
    real.write(tmp_path)
    report.write_report(tmp_path)
    for name in ("report.html", "report.md", "report.json"):
        assert (tmp_path / name).read_bytes() == (built.parent / name).read_bytes(), name


def test_json_and_markdown_hold_the_same_figures(built: Path, real: Results) -> None:
    data = json.loads((built.parent / "report.json").read_text())
    summary = summarise(real)
    assert [r["name"] for r in data["rows"]] == [r.name for r in summary.rows]
    for stored, found in zip(data["rows"], summary.rows, strict=True):
        assert found.bill is not None and stored["bill"] == list(found.bill)
    text = (built.parent / "report.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("| 1 |")]
    assert len(lines) == 1 and summary.rows[0].name in lines[0]
    assert len({line.count("|") for line in text.splitlines() if re.match(r"\| \d", line)}) == 1


def test_wall_times_are_shown_and_not_kept(real: Results, tmp_path: Path) -> None:
    real.write(tmp_path)
    (tmp_path / "timing.json").write_text(json.dumps({"noop": {"seconds": 1.0, "ms_per_decision": 12.3}}))
    html = report.write_report(tmp_path)
    assert "ms per decision" in html.read_text()
    assert "12.3" not in (tmp_path / "report.json").read_text()


# ---- episodes --------------------------------------------------------------------------------------------------


def test_episodes_are_the_real_ones(real: Results) -> None:
    found = episodes(summarise(real))
    assert set(found) == set(real.agents)
    for name, pair in found.items():
        assert [e.which for e in pair] == ["median", "worst"]
        for episode in pair:
            world = int((real.seeds == episode.seed).argmax())
            result = real.agents[name]
            assert episode.bill == result["bill"][world]
            assert sum(d.sum() for d in episode.dollars.values()) == pytest.approx(episode.bill)
            assert len(episode.decisions) == result["operations"][world]
            assert episode.crashes.sum() == result["crashes"][world]
            assert sum(d.unnecessary for d in episode.decisions) == result["unnecessary"][world]


def test_median_and_worst() -> None:
    noop = np.full(5, 100.0)
    made = results([agent("noop", noop), agent("x", np.array([90.0, 50.0, 70.0, 300.0, 60.0]))], np.full(5, 40.0))
    assert pick(summarise(made), "x") == {"median": 2, "worst": 3}
    assert pick(summarise(made), "noop")["worst"] == 0


def test_a_replay_that_differs_is_refused(real: Results, tmp_path: Path) -> None:
    changed = Results(real.suite, real.seeds, dict(real.agents), real.split, None, "none")
    other = real.agents["random"]
    changed.agents["random"] = AgentResult(
        "random", "random", metrics=other.metrics | {"bill": other["bill"] + 0.01}, actions=other.actions
    )
    with pytest.raises(UserError, match="another version of the simulator"):
        episodes(summarise(changed))
    changed.write(tmp_path)
    text = "".join(parsed(report.write_report(tmp_path).read_text()).text)
    assert "No timelines: the replay of 'random'" in text


def test_without_actions_there_are_no_timelines(tmp_path: Path) -> None:
    usual().write(tmp_path)
    assert "nobody wrote down what the agents did" in report.write_report(tmp_path).read_text()


def test_an_empty_report_is_a_report(tmp_path: Path) -> None:
    """Nobody finished."""
    made = results([agent("noop", noop_bills(3))])
    made.agents = {"broken": AgentResult("broken", "broken", error="raised ValueError")}
    made.write(tmp_path)
    text = "".join(parsed(report.write_report(tmp_path).read_text()).text)
    assert "did not finish: raised ValueError" in text


def test_nothing_to_measure_against(tmp_path: Path) -> None:
    """Doing nothing failed: bills stand, scores and savings do not."""
    made = results(
        [AgentResult("noop", "noop", error="raised"), agent("x", noop_bills(1)), agent("y", noop_bills(1))]
    )
    made.write(tmp_path)
    text = "".join(parsed(report.write_report(tmp_path).read_text()).text)
    assert f"{noop_bills(1)[0]:.2f}" in text and "nothing can be saved" in text


# ---- the look --------------------------------------------------------------------------------------------------


def test_round_ticks() -> None:
    assert nice_ticks(0, 1, 5) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    assert [t for _, t in labelled_ticks(0, 6, 3)] == ["0", "2", "4", "6"]
    assert [t for _, t in labelled_ticks(0, 7, 3)] == ["0.0", "2.5", "5.0"]
    assert nice_ticks(3, 3) == [3]


def test_figures_as_text() -> None:
    assert (
        number(-1234.56, 1) == "\N{MINUS SIGN}1,234.6"
        and number(-0.001, 1) == "0.0"
        and number(None) == "\N{EN DASH}"
    )
    assert money(-2.345) == "\N{MINUS SIGN}$2.35" or money(-2.345) == "\N{MINUS SIGN}$2.34"
    assert money(3, plus=True) == "+$3.00" and money(-0.001) == "$0.00"


def test_a_plot_cuts_off_what_lies_outside() -> None:
    plot = Plot((0, 10), (0, 1), "a line")
    plot.line([0, 10], [-5, 7], "main")
    assert "M0 1000L1000 0" in plot.html()


@pytest.mark.parametrize("palette", [style.PARTS_LIGHT, style.PARTS_DARK], ids=["light", "dark"])
@pytest.mark.parametrize("blindness", BLINDNESS)
def test_parts_of_the_bill_are_told_apart_by_everybody(palette: dict[str, str], blindness: str) -> None:
    told_apart(palette, blindness)


def luminance(colour: str) -> float:
    return float(linear(colour) @ np.array([0.2126, 0.7152, 0.0722]))


def variables(block: str) -> dict[str, str]:
    return dict(re.findall(r"--(\w+):(#[0-9a-f]{6})", block))


def test_text_has_contrast() -> None:
    """WCAG AA: 4.5 to 1 for text, in both schemes."""
    light, dark = style.STYLE.split("@media (prefers-color-scheme:dark)")[:2]
    for colours in (variables(light), variables(dark.split("}}")[0])):
        for text in ("ink", "soft", "accent", "warn", "good"):
            for ground in ("page", "card"):
                a, b = sorted((luminance(colours[text]), luminance(colours[ground])))
                assert (b + 0.05) / (a + 0.05) >= 4.5, (text, ground)


# ---- the command -----------------------------------------------------------------------------------------------


def test_command(real: Results, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    real.write(tmp_path)
    main([str(tmp_path), "--out", str(tmp_path / "elsewhere")])
    assert capsys.readouterr().out.strip() == str(tmp_path / "elsewhere" / "report.html")
    assert sorted(p.name for p in (tmp_path / "elsewhere").iterdir()) == [
        "report.html",
        "report.json",
        "report.md",
    ]
    with pytest.raises(SystemExit) as stop:
        main([str(tmp_path / "nothing")])
    assert stop.value.code == 1 and "no results.json here" in capsys.readouterr().err


@pytest.mark.browser
def test_in_a_browser(built: Path, browser: Any) -> None:
    """Nothing is fetched, nothing sticks out sideways, and nothing needs a script."""
    for width, scheme in ((1280, "light"), (390, "dark")):
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        asked: list[str] = []
        page.on("request", lambda request, asked=asked: asked.append(request.url))
        page.goto(built.as_uri())
        page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert len(asked) == 1
        page.close()
    context = browser.new_context(java_script_enabled=False)
    plain = context.new_page()
    plain.goto(built.as_uri())
    assert plain.locator("summary").count() > 3 and plain.locator("svg").first.is_visible()
    context.close()
