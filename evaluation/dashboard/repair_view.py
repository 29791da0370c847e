"""What the tab CloudEnv shows of a repair task, as html of class `crl`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from evaluation.dashboard.repair import Repair
from evaluation.report.words import number

_WIDTH, _HEIGHT, _ROW, _COLUMN, _PAD = 200, 46, 64, 300, 8  # of a tile, and between two; pixels
_LEAST = 520  # width of the picture
_LONGEST = 4000  # characters of a value


def head(repair: Repair) -> str:
    """What to do, and how it stands."""
    task = repair.task
    steps = int(repair.observation["step_count"])
    state = '<span class="ok">repaired</span>' if repair.done else "broken"
    if repair.truncated and not repair.done:
        state = '<span class="miss">no steps left</span>'
    parts = [
        f"reward <b>{number(repair.reward, 3)}</b>",
        f"steps <b>{steps}</b> of {task.max_steps}",
        f"differences left <b>{len(repair.diff)}</b>",
        f"state <b>{state}</b>",
    ]
    title = escape(task.title or task.id)
    return (
        f'{STYLE}<div class="crl"><h3>{title} <span class="soft small">{escape(task.id)}, {task.level}</span></h3>'
        f'<p class="lead">{escape(task.instruction)}</p>'
        f'<p class="status">{"".join(f"<span>{part}</span>" for part in parts)}</p>'
        f'<progress max="0.99" value="{max(0.0, repair.reward):.3f}" aria-label="reward"></progress></div>'
    )


# ---------------------------------------------------------------- the graph
def graph(repair: Repair) -> str:
    """The resources and what refers to what; references that should be there are dashed."""
    state = repair.state
    now, wanted = repair.references(), repair.wanted_references()
    names = list(state)
    edges = sorted((now | wanted) & {(a, b) for a in names for b in names if a != b})
    places = _places(names, edges)
    wrong = Counter(entry["resource"] for entry in repair.diff)
    width = max(_LEAST, max((x for x, _ in places.values()), default=0) + _WIDTH + _PAD)
    height = max((y for _, y in places.values()), default=0) + _HEIGHT + _PAD
    lines = "".join(_line(places[a], places[b], (a, b) in now) for a, b in edges)
    tiles = "".join(_tile(places[name], name, state[name], wrong[name], repair) for name in names)
    label = f"{len(names)} resources, {len(now)} references, {len(repair.diff)} differences from the ideal"
    missing = len([edge for edge in edges if edge not in now])
    note = "Arrows: the configuration of one names the other. "
    note += f"{missing} dashed: it should, and does not." if missing else "All that should be there are."
    return (
        f'<div class="crl"><div class="pipeline" tabindex="0" role="region" aria-label="Pipeline">'
        f'<svg viewBox="0 0 {width} {height}" style="max-width:{width}px" role="img" '
        f'aria-label="{escape(label, quote=True)}">{lines}{tiles}</svg></div>'
        f'<p class="small soft">{note}</p></div>'
    )


def _places(names: Sequence[str], edges: Iterable[tuple[str, str]]) -> dict[str, tuple[int, int]]:
    """Upper left corners, in columns: what refers stands left of what it refers to. Circles are cut open."""
    targets: dict[str, list[str]] = {name: [] for name in names}
    for a, b in edges:
        targets[a].append(b)
    column: dict[str, int] = {}

    def depth(name: str, above: tuple[str, ...]) -> int:
        """How many steps of references lead on from here."""
        if name not in column:
            onward = [depth(b, (*above, name)) for b in targets[name] if b not in above and b != name]
            column[name] = 1 + max(onward) if onward else 0
        return column[name]

    deepest = max((depth(name, ()) for name in names), default=0)
    rows: Counter[int] = Counter()
    out = {}
    for name in names:
        x = deepest - column[name]
        out[name] = (_PAD + x * _COLUMN, _PAD + rows[x] * _ROW)
        rows[x] += 1
    return out


def _line(start: tuple[int, int], end: tuple[int, int], there: bool) -> str:
    css = "" if there else " hit"
    x, y, end_x, end_y = start[0] + _WIDTH, start[1] + _HEIGHT // 2, end[0], end[1] + _HEIGHT // 2
    bend, tip = max(24, 2 * (end_x - x) // 5), -7
    via = end_x - bend
    if end_x <= x:  # back, or within a column: around the right side
        y, end_y, end_x, bend, tip = y - 8, end_y + 8, end_x + _WIDTH, 40, 7
        via = end_x + bend
    curve = f"M{x} {y}C{x + bend} {y} {via} {end_y} {end_x} {end_y}"
    head = f"M{end_x} {end_y}l{tip} -3.5v7z"
    return f'<path class="wire{css}" d="{curve}"/><path class="head{css}" d="{head}"/>'


def _tile(
    corner: tuple[int, int], name: str, entries: Sequence[Mapping[str, Any]], wrong: int, repair: Repair
) -> str:
    there = bool(entries)
    declared = repair.nodes().get(name)
    service = str(entries[0]["service"]) if there else name.partition(":")[0]
    kind = str(entries[0].get("kind", "")) if there else declared.type.kind if declared else ""
    instance = str(entries[0]["instance"]) if there else declared.name if declared else ""
    state = "missing" if not there else "not of the pipeline" if wrong and declared is None else ""
    if not state and wrong:
        state = f"{wrong} {'differs' if wrong == 1 else 'differ'}"
    state = state or "as wanted"
    css = " ".join(["tile", "wrong" if wrong else "right"] + ["missing"] * (not there))
    words = " ".join(dict.fromkeys([service, kind])).strip()
    x, y = corner
    label = f"{name}: {words} {instance}, {state}"
    return (
        f"<g><title>{escape(label)}</title>"
        f'<rect class="{css}" x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="4"/>'
        f'<text x="{x + 10}" y="{y + 19}">{escape(_cut(instance, 27))}</text>'
        f'<text class="second" x="{x + 10}" y="{y + 36}">{escape(_cut(words, 30 - len(state)))}</text>'
        f'<text class="second {"off" if wrong else "fine"}" x="{x + _WIDTH - 8}" y="{y + 36}" text-anchor="end">'
        f"{escape(state)}</text></g>"
    )


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


# ---------------------------------------------------------------- differences, state, log
def differences(repair: Repair) -> str:
    """What differs from the ideal: a person may look, an agent may not."""
    if not repair.diff:
        return '<div class="crl"><p><span class="ok">Nothing differs: the pipeline is repaired.</span></p></div>'
    cards = []
    for entry in repair.diff:
        values = ""
        if entry["kind"] == "changed":
            values = (
                f"<div class='is'><div>is<pre>{_json(entry['actual'])}</pre></div>"
                f"<div>should be<pre>{_json(entry['expected'])}</pre></div></div>"
            )
        cards.append(f"<li><b>{escape(entry['text'])}</b>{values}</li>")
    return f'<div class="crl"><ul class="differences">{"".join(cards)}</ul></div>'


def state(repair: Repair) -> str:
    """Every resource as read back from the emulator."""
    parts = []
    for name, entries in repair.state.items():
        text = _json(entries[0] if len(entries) == 1 else entries)
        missing = "" if entries else ' <span class="miss">missing</span>'
        parts.append(f"<details><summary>{escape(name)}{missing}</summary><pre>{text}</pre></details>")
    return f'<div class="crl">{"".join(parts)}</div>'


def answer(repair: Repair) -> str:
    """What came back of the last action."""
    if not repair.log:
        return '<div class="crl"><p class="soft">No operation has been sent yet.</p></div>'
    last = repair.log[-1]
    name = f"{last.action['service']} {last.action['operation']}"
    if last.error:
        return (
            f'<div class="crl"><p><b>{escape(name)}</b>: <span class="miss">refused</span></p>'
            f"<pre>{escape(last.error)}</pre></div>"
        )
    output = last.result.get("output") or {}
    shown = f"<pre>{_json(output)}</pre>" if output else '<p class="soft small">It gives nothing back.</p>'
    return f'<div class="crl"><p><b>{escape(name)}</b>: <span class="ok">done</span></p>{shown}</div>'


def log(repair: Repair) -> str:
    """All actions, the last one first."""
    if not repair.log:
        return ""
    rows = "".join(
        f"<tr><th scope='row'>{escape(done.action['service'])} {escape(done.action['operation'])}</th>"
        f"<td class='left'>{escape(done.error) or 'done'}</td><td>{number(done.reward, 3)}</td></tr>"
        for done in repair.log[::-1]
    )
    return (
        '<div class="crl"><div class="scroll" tabindex="0" role="region" aria-label="Log"><table>'
        "<thead><tr><th scope='col'>operation</th><th scope='col' class='left'>result</th><th scope='col'>reward"
        f"</th></tr></thead><tbody>{rows}</tbody></table></div></div>"
    )


def _json(value: Any) -> str:
    text = json.dumps(value, indent=2, default=str)
    return escape(text if len(text) <= _LONGEST else text[:_LONGEST] + "\n…")


STYLE = """<style>
.crl .pipeline { overflow-x: auto; }
.crl .pipeline:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
.crl .pipeline svg { display: block; width: 100%; min-width: 520px; height: auto; font-size: 12.5px; }
.crl .pipeline text { fill: var(--ink); }
.crl .pipeline .second { fill: var(--soft); font-size: 11px; }
.crl .pipeline .second.off { fill: var(--warn); font-weight: 600; }
.crl .pipeline .second.fine { fill: var(--good); }
.crl .pipeline .tile { fill: var(--card); stroke: var(--faint); }
.crl .pipeline .tile.wrong { stroke: var(--warn); stroke-width: 2; }
.crl .pipeline .tile.missing { fill: none; stroke-dasharray: 5 4; }
.crl .pipeline .wire { fill: none; stroke: var(--soft); stroke-width: 1.4; }
.crl .pipeline .wire.hit { stroke: var(--warn); stroke-dasharray: 6 5; }
.crl .pipeline .head { fill: var(--soft); }
.crl .pipeline .head.hit { fill: var(--warn); }
.crl .differences { list-style: none; padding: 0; margin: 0; display: grid; gap: .8em; font-size: .9rem; }
.crl .differences li { border-left: 3px solid var(--outage); padding: .1em 0 .1em .8em; overflow-wrap: anywhere; }
.crl .is { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 220px), 1fr)); gap: .3em 1em;
  color: var(--soft); font-size: .85rem; }
.crl .is pre { color: var(--ink); }
.crl th.left { text-align: left; }
</style>"""
