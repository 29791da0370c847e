"""report.html: one file, no script, nothing loaded from anywhere."""

from __future__ import annotations

from html import escape

import numpy as np

from evaluation.report import charts
from evaluation.report.episodes import Episode
from evaluation.report.style import STYLE
from evaluation.report.summary import Row, Summary
from evaluation.report.tables import gate_cells, gate_headings, score_columns
from evaluation.report.timeline import key, timeline
from evaluation.report.words import lead, measure_name, money, number, row_name, title
from evaluation.score import scores


def page(summary: Summary, episodes: dict[str, list[Episode]], no_episodes: str = "") -> str:
    """The whole page. `no_episodes`: why there are no timelines."""
    what = measure_name(summary)
    made = ("made", "How this was made", _made(summary))
    if not summary.agents:
        return _document(summary, [("scores", "Scores", _score_table(summary)), made])
    sections = [
        ("scores", "Scores", _score_table(summary) + _definitions(summary)),
        ("gates", "Gates", _gate_table(summary)),
        (
            "profiles",
            "Performance profiles",
            charts.profiles(summary)
            + f"<figcaption>Percent of the worlds that reach a {what} (to the right: better), with its 95 % band; "
            "in grey all other agents. A step near the left end is a share of ruined worlds, which a mean hides."
            "</figcaption>",
        ),
        (
            "bills",
            "Bill by part",
            charts.bills(summary) + "<figcaption>Mean dollars per episode. Exposure is the expected loss by "
            "breaches, not the loss by those that the dice drew.</figcaption>",
        ),
        ("reward", "Reward against " + ("score" if what == "score" else "savings"), _scatter(summary)),
        (
            "cascades",
            "Cascades",
            charts.cascades(summary)
            + "<figcaption>Outages per episode that took down services fine by themselves, and the largest share "
            "of the traffic that one of them hit (blast), mean over worlds.</figcaption>",
        ),
        ("actions", "Action mix", charts.action_mix(summary)),
        ("episodes", "Episodes", _episodes(summary, episodes, no_episodes)),
        made,
    ]
    return _document(summary, sections)


def _document(summary: Summary, sections: list[tuple[str, str, str]]) -> str:
    """The page around sections of (anchor, heading, html)."""
    links = "".join(f'<a href="#{anchor}">{escape(heading)}</a>' for anchor, heading, _ in sections)
    body = "".join(
        f'<section id="{anchor}"><h2>{escape(heading)}</h2>{text}</section>' for anchor, heading, text in sections
    )
    name = escape(title(summary))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{name}</title><style>{STYLE}</style></head><body><main>"
        f'<h1>{name}</h1><p class="lead">{escape(" ".join(lead(summary)))}</p>'
        f'<nav aria-label="Sections">{links}</nav>{body}</main></body></html>\n'
    )


# ---- tables ----------------------------------------------------------------------------------------------------


def _row_head(row: Row) -> str:
    hint = f' title="{escape(row.spec, quote=True)}"' if row.spec else ""
    return f'<th scope="row"{hint}><span class="n">{row.number}</span>{escape(row_name(row))}</th>'


def _row_class(summary: Summary, row: Row) -> str:
    names = [("best", row is summary.best), ("see", row.clairvoyant), ("group", row.runs > 1)]
    css = " ".join(name for name, holds in names if holds)
    return f' class="{css}"' if css else ""


def _table(label: str, caption: str, head: str, body: str) -> str:
    return (
        f'<p class="small soft">{caption}</p>'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(label, quote=True)}">'
        f'<table aria-label="{escape(label, quote=True)}">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _head(title_text: str, hint: str) -> str:
    return f'<th scope="col" title="{escape(hint, quote=True)}">{escape(title_text)}</th>'


def _score_table(summary: Summary) -> str:
    columns = score_columns(summary)
    head = '<th scope="col">agent</th>' + "".join(_head(c.title, c.hint) for c in columns)
    body = []
    for row in summary.rows:
        if not row.ok:
            body.append(
                f'<tr><th scope="row">{escape(row.name)}</th><td class="left error" colspan="{len(columns)}">'
                f"did not finish: {escape(row.error)}</td></tr>"
            )
            continue
        cells = ""
        for column in columns:
            text, limits = column.cell(row)
            cells += f"<td>{text}{f'<span class=ci>{limits}</span>' if limits else ''}</td>"
        body.append(f"<tr{_row_class(summary, row)}>{_row_head(row)}{cells}</tr>")
    caption = "Mean and 95 % interval over worlds; best first, bold: the best that does not see the future."
    if any(row.clairvoyant for row in summary.rows):
        caption += " \N{WHITE DIAMOND} sees the future: a bound, not a competitor."
    return _table("Scores", caption, head, "".join(body))


def _definitions(summary: Summary) -> str:
    entries = "".join(f"<dt>{escape(c.title)}</dt><dd>{escape(c.hint)}</dd>" for c in score_columns(summary))
    return f"<details><summary>What the columns mean</summary><dl>{entries}</dl></details>"


def _gate_table(summary: Summary) -> str:
    headings = gate_headings(summary)
    head = '<th scope="col">agent</th>' + "".join(_head(h, hint) for h, hint in headings)
    body = []
    for row in summary.agents:
        cells = "".join(
            f"<td{' class=miss' if cell.missed else ''}>{cell.text}</td>" for cell in gate_cells(summary, row)
        )
        body.append(f"<tr{_row_class(summary, row)}>{_row_head(row)}{cells}</tr>")
    caption = (
        "Mean per episode. Gates stand beside the score and are never averaged into it; \N{BALLOT X} = missed."
    )
    entries = "".join(f"<dt>{escape(h)}</dt><dd>{escape(hint)}</dd>" for h, hint in headings)
    return _table("Gates", caption, head, "".join(body)) + (
        f"<details><summary>What the columns mean and the gates ask for</summary><dl>{entries}</dl></details>"
    )


# ---- the rest --------------------------------------------------------------------------------------------------


def _scatter(summary: Summary) -> str:
    found = summary.rank_correlation
    text = "" if found is None else f"Rank correlation over all agents: <b>{number(found, 3)}</b>. "
    return (
        f"<p>{text}The reward is what training maximises, the {measure_name(summary)} is what counts: if they "
        "disagreed, training would learn the wrong thing.</p>" + charts.reward_against_score(summary)
    )


def _episodes(summary: Summary, episodes: dict[str, list[Episode]], missing: str) -> str:
    if not episodes:
        reason = missing or "nobody wrote down what the agents did"
        return f'<p class="soft">No timelines: {escape(reason)}.</p>'
    out = [
        f"<p>Every agent's median and worst world, replayed from its actions. What an action saved or lost is the "
        f"bill of the same world without it, minus the bill: the counterfactual ledger.</p>{key()}"
    ]
    first = next((row for row in summary.agents if row.name in episodes and not row.clairvoyant), None)
    for row in summary.agents:
        if row.name not in episodes:
            continue
        shown = "".join(f"{timeline(row.name, e, _measured(summary, e))}" for e in episodes[row.name])
        short = ", ".join(f"{e.which}: {_measured(summary, e)}" for e in episodes[row.name])
        open_now = " open" if row is first else ""
        out.append(
            f"<details{open_now}><summary>{escape(row.name)}<span>{short}</span></summary>"
            f'<div class="two">{shown}</div></details>'
        )
    return "".join(out)


def _measured(summary: Summary, episode: Episode) -> str:
    """Score of an episode, or what it saved."""
    results = summary.results
    if results.noop is None:
        return f"bill {money(episode.bill)}"
    world = int((results.seeds == episode.seed).argmax())
    noop = results.noop[[world]]
    if summary.measure == "score" and results.oracle is not None:
        score = scores(np.array([episode.bill]), noop, results.oracle[[world]])
        return f"score {number(float(score[0]), 1)}"
    return f"saved {money(float(noop[0]) - episode.bill)}"


def _made(summary: Summary) -> str:
    results, suite = summary.results, summary.results.suite
    seeds = results.seeds
    spans = f"{seeds.min()} to {seeds.max()}" if len(seeds) else "none"
    facts = [
        ("Suite", f"{suite.id}, {suite.ticks} ticks of five minutes, up to {suite.slots} resources"),
        ("Worlds", f"{len(seeds)}, seeds {spans}: every agent met the same worlds with the same luck"),
        (
            "Versions",
            f"scenario {suite.scenario_hash}, prices {suite.prices_hash}, code {suite.code}, "
            f"safety {suite.safety}, actions {suite.actions}, memory {suite.memory or 'off'}",
        ),
        (
            "Intervals",
            "95 % percentile bootstrap over worlds, 2,000 samples; of several training runs all worlds are drawn "
            "together, since the runs share them",
        ),
        (
            "Again",
            f"python -m evaluation.run suite={suite.scenario} seeds={results.split.removeprefix('seeds ')} "
            f"agents=[...]",
        ),
    ]
    entries = "".join(
        f"<dt>{name}</dt><dd>{f'<code>{escape(text)}</code>' if name == 'Again' else escape(text)}</dd>"
        for name, text in facts
    )
    return f"<dl>{entries}</dl>"
