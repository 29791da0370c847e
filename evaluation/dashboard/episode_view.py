"""What the tab Episode shows of a playthrough, as html of class `crl`."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from cloudrl.actions import N_OPS, OP_NAMES
from cloudrl.measurements import TICK_HOURS
from cloudrl.reward.bill import BILL_PARTS, bill, served_share
from cloudrl.simulator import Simulator
from cloudrl.types import CRASHED, DELETED, QUEUE, RUNNING
from envs.cloudops.render_ansi import describe, names_of
from envs.cloudops.scene import Fact, facts, trouble
from evaluation.dashboard import scene
from evaluation.dashboard.candidates import Candidate, Group
from evaluation.dashboard.playthrough import Decision, Playthrough
from evaluation.report.plot import stacked_bar
from evaluation.report.words import money, number

_TAGS = ("critical", "data", "multi-AZ", "idle")


def clock(tick: int) -> str:
    """Hours and minutes since the start."""
    minutes = round(tick * TICK_HOURS * 60)
    return f"{minutes // 60}:{minutes % 60:02d}"


# ---------------------------------------------------------------- the state in a few lines
def head(play: Playthrough) -> str:
    """Time, traffic, cascade, and the bill so far by part."""
    sim = play.sim
    w: Any = sim.state.worlds[0]
    parts = [
        f"<b>{clock(play.tick)}</b> of {clock(play.ticks)} h (tick {play.tick} of {play.ticks})",
        f"served now <b>{_percent(float(w['served']))}</b>",
        f"so far <b>{_percent(float(served_share(sim.state.worlds)[0]))}</b>",
        f"traffic <b>{float(w['load']):.2f}</b> of its mean, forecast peak {float(w['forecast_peak']):.2f}",
    ]
    alarm = trouble(sim, 0)
    if alarm is not None:
        first = int(sim.state.groups["first"][0, alarm.root])
        root = escape(names_of(sim, 0)[first])
        parts.append(f'<span class="miss">cascade from {root}: {_percent(alarm.blast)} of the traffic hit</span>')
    if play.tick >= play.ticks:
        parts.append('<span class="ok">won</span>' if sim.won()[0] else '<span class="miss">not won</span>')
    title = f"{escape(play.title)} in world {play.seed} of {escape(sim.scenario.name)}"
    state = f'<p class="status">{_spans(parts)}</p>'
    return f'{scene.STYLE}{STYLE}<div class="crl"><h3>{title}</h3>{state}{_bill(play)}</div>'


def _bill(play: Playthrough) -> str:
    w: Any = play.sim.state.worlds[0]
    cost, idle = float(bill(play.sim.state.worlds)[0]), float(play.idle[play.tick])
    amounts = [(part, float(w[part]), part) for part in BILL_PARTS]
    most = max(cost, float(play.idle[-1]), 1e-9)
    label = "Bill so far: " + ", ".join(f"{name} {money(amount)}" for name, amount, _ in amounts)
    legend = "".join(f'<li><i class="{part}"></i>{part} {money(amount)}</li>' for part, amount, _ in amounts)
    return (
        f'<p class="status"><span>bill so far <b>{money(cost)}</b></span><span>doing nothing would have cost '
        f"{money(idle)} by now, {money(float(play.idle[-1]))} by the end</span></p>"
        f'{stacked_bar(amounts, most, label)}<ul class="legend">{legend}</ul>'
    )


def _percent(share: float) -> str:
    """99.97 stays below 100."""
    return f"{int(1000 * share) / 10 if share < 1 else 100:g} %"


def _spans(parts: Sequence[str]) -> str:
    return "".join(f"<span>{part}</span>" for part in parts)


# ---------------------------------------------------------------- the graph
def graph(play: Playthrough, truth: bool) -> str:
    """The services, the target of the last action framed."""
    last = play.last
    target = None
    if last is not None and last.action < play.sim.noop:
        target = last.action // N_OPS
    return f'<div class="crl">{scene.picture(play.sim, 0, truth, target)}{scene.key(truth)}</div>'


# ---------------------------------------------------------------- decisions
def decision(play: Playthrough) -> str:
    """The decision that led here: action, verdict, rules, reason, and the dollars that it changed."""
    last = play.last
    if last is None:
        text = "Nothing has been decided yet: step forward, play, or act by hand."
        return f'<div class="crl"><p class="soft">{text}</p>{_next(play)}</div>'
    who = "by hand" if last.by_hand else "by the agent"
    name = describe(last.action, play.sim, names_of(play.sim, 0)).replace("_", " ")
    css = {"admissible": "ok", "vetoed": "miss", "invalid": "miss"}[last.verdict]
    lines = [
        f'<p><b>{escape(name)}</b> <span class="soft">at {clock(play.tick - 1)}, {who}</span></p>',
        f'<p><span class="{css}">{last.verdict}</span>{_why(last)}</p>',
    ]
    lines.append(_dollars(play, play.tick - 1))
    brought = [
        f"{count} {word}{'' if count == 1 else ending}"
        for count, word, ending in ((last.crashes, "crash", "es"), (last.breaches, "breach", "es"))
        if count
    ]
    if brought:
        lines.append(f'<p class="miss">In this tick: {", ".join(brought)}</p>')
    return f'<div class="crl decision">{"".join(lines)}{_next(play)}</div>'


def _why(last: Decision) -> str:
    rules = f" by {', '.join(f'<code>{escape(rule)}</code>' for rule in last.rules)}" if last.rules else ""
    return f"{rules}: {escape(last.reason)}" if last.reason else rules


def _dollars(play: Playthrough, tick: int) -> str:
    """What the decision of a tick was worth by the end of the day."""
    last = play.decisions[tick]
    if last.executed == play.sim.noop:
        why = "It did not run: nothing was done instead" if last.executed != last.action else "Nothing was done"
        return f'<p class="soft small">{why}, so no dollar was changed.</p>'
    found = play.worths()
    dollars = float(found.dollars[0, tick])
    parts = [
        f"{part} {money(value, plus=True)}"
        for part, value in zip(BILL_PARTS, found.parts[0, tick].tolist(), strict=True)
        if abs(value) >= 0.005
    ]
    word = "saved" if dollars >= 0 else "lost"
    text = f"<p>It {word} <b>{money(abs(dollars))}</b>{': ' + ', '.join(parts) if parts else ''}.</p>"
    notes = ["the bill of the same world and luck without it, less the bill"]
    if play.played < play.ticks:
        notes.append(f"nothing is done after {clock(play.played)}, where play ends so far")
    lost = int(found.lost[0, tick])
    if lost:
        notes.append(f"{lost} later {'decision needs' if lost == 1 else 'decisions need'} it")
    if found.unnecessary[0, tick]:
        notes.append("an unnecessary disruption")
    return f'{text}<p class="soft small">{"; ".join(notes)}.</p>'


def _next(play: Playthrough) -> str:
    if play.tick >= play.played:
        return ""
    coming = play.decisions[play.tick]
    name = describe(coming.action, play.sim, names_of(play.sim, 0)).replace("_", " ")
    return f'<p class="soft small">Next, as it was played: {escape(name)}.</p>'


def ranking(play: Playthrough) -> str:
    """The decisions that changed most, and where they are."""
    ran = [t for t, d in enumerate(play.decisions) if d.executed != play.sim.noop]
    if not ran:
        return '<div class="crl"><p class="soft">No operation has run yet.</p></div>'
    dollars = play.worths().dollars[0]
    ranked = sorted(ran, key=lambda t: -abs(dollars[t]))[:12]
    names = names_of(play.sim, 0)
    rows = "".join(
        f"<tr><th scope='row'>{clock(t)}</th><td class='left'>"
        f"{escape(describe(play.decisions[t].executed, play.sim, names).replace('_', ' '))}</td>"
        f"<td>{money(float(dollars[t]), plus=True)}</td><td>{t + 1}</td></tr>"
        for t in sorted(ranked)
    )
    total = money(float(dollars[ran].sum()), plus=True)
    return (
        f'<div class="crl"><p class="small soft">{len(ran)} operations ran; each for itself, they saved {total}. '
        "They do not add up: one that makes another possible counts twice (docs/ledger.md).</p>"
        '<div class="scroll" tabindex="0" role="region" aria-label="Decisions that changed most"><table>'
        "<thead><tr><th scope='col'>time</th><th scope='col'>decision</th><th scope='col'>saved</th>"
        f"<th scope='col'>shown at tick</th></tr></thead><tbody>{rows}</tbody></table></div></div>"
    )


# ---------------------------------------------------------------- the resources
_COLUMNS = (
    # title, what it says
    ("kind", "and its size"),
    ("status", "or the operation in progress and the ticks left of it"),
    ("health", "0 to 1"),
    ("util.", "load / capacity"),
    ("slow", "response time / service time"),
    ("$/h", "price now"),
    ("holes · CVSS · risk", "vulnerabilities, the worst severity, the chance that one is exploited in 30 days"),
    ("public", "open to the internet"),
    ("encrypted", ""),
    ("logs", ""),
    ("credentials", "their age"),
    ("scanned", "hours since the last ANALYZE"),
)


def table(play: Playthrough, truth: bool) -> str:
    """Every resource as monitoring shows it; with `truth`, what is hidden from agents stands below, set apart."""
    sim = play.sim
    rows = zip(facts(sim, 0), facts(sim, 0, truth=True), strict=True)
    head = "".join(f'<th scope="col" title="{hint}">{name}</th>' for name, hint in _COLUMNS)
    body = "".join(_row(sim, seen, true, truth) for seen, true in rows)
    note = "Cells hold what agents see. " + (
        f"What is hidden from them, where it differs: {_true('so')}." if truth else "What is hidden is not shown."
    )
    return (
        f'<div class="crl resources"><p class="small soft">{note}</p>'
        '<div class="scroll" tabindex="0" role="region" aria-label="Resources"><table>'
        f'<thead><tr><th scope="col">resource</th>{head}</tr></thead><tbody>{body}</tbody></table></div></div>'
    )


def _row(sim: Simulator, seen: Fact, true: Fact, truth: bool) -> str:
    r: Any = sim.state.resources[0, seen.slot]
    flags = (r["critical"], r["data_bearing"], r["multi_az"], r["idle"])
    tags = ", ".join(name for name, flag in zip(_TAGS, flags, strict=True) if flag)
    name = f'<b>r{seen.slot}</b> {escape(seen.name)} <span class="tags">{tags}</span>'
    kind = f"{seen.kind} {seen.size}".strip()
    if r["status"] >= DELETED:
        return _tr(name, [kind, "deleted"] + [""] * (len(_COLUMNS) - 2))
    lag = int(r["lag"])
    alarm = ' <span class="miss">alarm</span>' if r["alarm"] else ""
    repair = f"back in {int(r['repair_ticks'])} ticks" if r["status"] == CRASHED else ""
    slow = [float(r["past_latency"][k]) for k in (lag, 0)]
    running = r["status"] == RUNNING
    unseen = "open" if r["exposed"] and not r["exposure_seen"] else ""
    hidden = ["", repair, _other(seen.health, true.health), _other(seen.utilisation, true.utilisation)]
    hidden += [_other(slow[0], slow[1], 1) if running else "", "", _holes(r, "hidden"), unseen, "", "", "", ""]
    cells = [
        kind, escape(seen.status) + alarm, number(seen.health, 2), number(seen.utilisation, 2),
        f"×{min(slow[0], 99.9):.1f}" if running else "", f"{_price(sim, r):.3f}", _holes(r, "known") or "–",
        '<span class="miss">open</span>' if r["exposure_seen"] else "no",
        "yes" if r["encrypted"] else "no", "yes" if r["logging"] else "no",
        f"{float(r['credential_days']):.0f} d", f"{int(r['ticks_since_analyze']) * TICK_HOURS:.0f} h",
    ]  # fmt: skip
    if truth:
        cells = [cell + (_true(text) if text else "") for cell, text in zip(cells, hidden, strict=True)]
    return _tr(name, cells)


def _price(sim: Simulator, r: Any) -> float:
    """$ per hour."""
    price = float(r["unit_price"]) * (1 if r["kind"] == QUEUE else 1 << int(r["size"]))
    return price if r["status"] in (RUNNING, CRASHED) else price * float(sim.params[0]["stopped_fraction"])


def _true(text: str) -> str:
    """Something that agents do not see."""
    return f'<span class="true">{text}</span>'


def _other(seen: float | None, true: float | None, digits: int = 2) -> str:
    """The true figure, where it reads differently from what is seen."""
    return "" if number(true, digits) == number(seen, digits) else number(true, digits)


def _holes(r: Any, which: str) -> str:
    count = int(r[f"{which}_count"])
    if not count:
        return ""
    risk = 100.0 * (1.0 - float(np.exp(-float(r[f"{which}_epss"]))))
    return f"{count} · {float(r[f'{which}_cvss']):.1f} · {risk:.0f} %"


def _tr(name: str, cells: Sequence[str]) -> str:
    return f"<tr><th scope='row'>{name}</th>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


# ---------------------------------------------------------------- by hand, and language models
def preview(play: Playthrough, action: int) -> str:
    """What the safety layer says of an action before it is tried."""
    verdict = play.sim.verdict(0, action)
    name = escape(describe(action, play.sim, names_of(play.sim, 0)).replace("_", " "))
    if verdict.name == "admissible":
        return f'<div class="crl"><p class="small"><b>{name}</b>: <span class="ok">admissible now</span></p></div>'
    rules = f" by {', '.join(f'<code>{escape(rule)}</code>' for rule in verdict.rules)}" if verdict.rules else ""
    return (
        f'<div class="crl"><p class="small"><b>{name}</b>: <span class="miss">{verdict.name} now</span>{rules}: '
        f"{escape(verdict.reason)}. It may be tried all the same.</p></div>"
    )


def choices(play: Playthrough) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """(label, value) of the resources, and of the operations, NOOP last."""
    names = names_of(play.sim, 0)
    n = int(play.sim.state.worlds["n_resources"][0])
    resources = [(f"r{slot} {names[slot]}", slot) for slot in range(n)]
    return resources, [(name.replace("_", " "), op) for op, name in enumerate(OP_NAMES)]


def group(found: Group) -> str:
    """A table of candidates: code, verdict, reward and advantage of every different reply."""
    rows = "".join(_candidate(candidate) for candidate in found.candidates)
    head = "".join(
        f"<th scope='col' title='{escape(hint, quote=True)}'>{name}</th>"
        for name, hint in (
            ("times", "of the group"),
            ("code", "of the strict parser"),
            ("verdict", "of the safety layer, with its reason"),
            ("gain", "baseline ticks over doing nothing, same luck"),
            ("reward", "what GRPO compares"),
            ("advantage", "reward less the mean of the group"),
        )
    )
    return (
        f'<div class="crl"><p class="small soft">{found.size} replies at temperature {found.temperature:g}, '
        f"{len(found.candidates)} different ones; the best first. None of them is played.</p>"
        '<div class="scroll" tabindex="0" role="region" aria-label="Candidates"><table>'
        f"<thead><tr><th scope='col'>reply</th>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
        f"<details><summary>What the model reads</summary><pre>{escape(found.prompt)}</pre></details></div>"
    )


def _candidate(candidate: Candidate) -> str:
    text = candidate.text if len(candidate.text) <= 300 else candidate.text[:300] + "…"
    gain = number(candidate.gain, 2)
    action = (
        f"<br><span class='soft'>{escape(candidate.action.replace('_', ' '))}</span>" if candidate.action else ""
    )
    return (
        f"<tr><th scope='row'><code>{escape(text)}</code>{action}</th><td>{candidate.times}</td>"
        f"<td class='left'>{escape(candidate.code)}</td><td class='left'>{escape(candidate.verdict)}</td>"
        f"<td>{gain}</td><td>{number(candidate.reward, 3)}</td><td>{number(candidate.advantage, 3)}</td></tr>"
    )


STYLE = """<style>
.crl .decision p { margin: .25em 0; }
.crl .now { stroke: var(--ink); stroke-width: 1.5; }
.crl .hand { stroke: var(--good); stroke-width: 3; }
.crl .day .strip .frame { margin-left: 2.6em; }
.crl .day .strip { margin: .5em 0 0; }
.crl .resources table { font-size: .8rem; }
.crl .resources td, .crl .resources th { white-space: nowrap; padding: .3em .45em; }
.crl .resources th[scope=row] { min-width: 8.5em; max-width: 17em; white-space: normal; }
.crl .tags { color: var(--soft); font-size: .85em; font-weight: 400; }
.crl .true { display: inline-block; margin-left: .4em; padding: 0 .35em; border: 1px dashed var(--warn);
  border-radius: 4px; background: var(--lag); color: var(--warn); font-size: .92em; }
</style>"""
