"""Memory: what a run has learned to be dangerous, and what it therefore forbids."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

import gradio as gr

from cloudrl.errors import UserError
from evaluation.dashboard.events import QUIET
from evaluation.dashboard.folders import Folders
from evaluation.dashboard.look import html, notice, problem
from evaluation.dashboard.records import TRAINERS, find_runs, read_curves

FILE = "memory.json"
NOTHING = (
    "There is no immune memory in {runs} yet. Training with PPO leaves one in every checkpoint (memory=on, the "
    "default); start one in the tab Train."
)
SHOWN = 25
"""Patterns in the table."""
_FIGURES = (
    ("safety/veto_rate", "share of the run's actions vetoed by any rule", 100.0, "%"),
    ("memory/vetoes", "situations with a veto by memory", 1.0, ""),
    ("memory/hits", "situations with a known risk", 1.0, ""),
)


def build(folders: Folders) -> None:
    """Lay out the tab."""
    with gr.Tab("Memory", id="memory") as tab:
        with gr.Row(equal_height=False):
            file = gr.Dropdown(
                [], label="Memory", allow_custom_value=True, scale=3, min_width=300,
                info="Of a checkpoint, or any memory file inside the runs folder.",
            )  # fmt: skip
            only = gr.Checkbox(False, label="Only what it vetoes", scale=1, min_width=200)
        patterns = html()

    view = _View(folders)
    gr.on([tab.select], view.refresh, [file], [file], **QUIET).then(view.show, [file, only], [patterns], **QUIET)
    gr.on([file.input, only.input], view.show, [file, only], [patterns], **QUIET)


class _View:
    def __init__(self, folders: Folders) -> None:
        self.folders = folders

    def refresh(self, chosen: str | None) -> Any:
        listed = memories(self.folders)
        names = [name for _, name in listed]
        return gr.Dropdown(listed, value=chosen or (names[0] if names else None))

    def show(self, chosen: str | None, only: bool) -> str:
        """The patterns of a memory, worst first."""
        if not chosen:
            return notice(NOTHING.format(runs=self.folders.runs))
        from cloudrl.memory.immune import N_SIGNATURES, ImmuneMemory

        try:
            path = self.folders.inside(chosen)
            if not path.is_file():
                return problem(f"{chosen}: this memory is gone; was the run deleted?")
            memory = ImmuneMemory.load(path)
        except ValueError as error:  # UserError among them
            return problem(str(error).replace(f"{self.folders.runs}/", ""))
        rows = memory.top(N_SIGNATURES)
        vetoed = [row for row in rows if row["vetoed"]]
        facts = [
            f"<b>{len(memory):,}</b> patterns seen in <b>{int(memory.tables.episodes[0]):,}</b> episodes",
            f"<b>{len(rows):,}</b> of them were followed by a cascade or breach at least once",
            f"<b>{len(vetoed):,}</b> would be vetoed now",
            *self._figures(path),
        ]
        head = f'<p class="status">{"".join(f"<span>{fact}</span>" for fact in facts)}</p>'
        shown = (vetoed if only else rows)[:SHOWN]
        if not shown:
            text = "Nothing is vetoed: no pattern is bad beyond doubt." if only else "Nothing bad happened yet."
            return f'<div class="crl">{head}</div>{notice(text)}'
        return f'<div class="crl">{head}{_table(shown)}</div>'

    def _figures(self, path: Path) -> list[str]:
        """What the run's last log says of vetoes, where the memory lies in a run."""
        run = next((p for p in path.parents if (p / "progress.csv").is_file()), None)
        if run is None or not run.is_relative_to(self.folders.runs):
            return []
        try:
            curves = read_curves(self.folders, str(run))
        except UserError:
            return []
        return [
            f"{escape(text)}: <b>{factor * curves[tag][1][-1]:.4g}{' ' + unit if unit else ''}</b>"
            for tag, text, factor, unit in _FIGURES
            if tag in curves
        ]


def memories(folders: Folders) -> list[tuple[str, str]]:
    """(label, path) of the memories in checkpoints, newest run first."""
    found = []
    for record in find_runs(folders, TRAINERS):
        for kind in ("checkpoints", "best"):
            for step in sorted((record.path / kind).glob("step_*"), reverse=True):
                if (step / FILE).is_file():
                    digits = step.name.removeprefix("step_").partition(".")[0]
                    at = f"step {int(digits):,}" if digits.isdigit() else step.name
                    best = "best, " if kind == "best" else ""
                    found.append((f"{record.label} · {best}{at}", f"{record.name}/{kind}/{step.name}/{FILE}"))
    return found


def _table(rows: list[dict[str, Any]]) -> str:
    columns = (
        ("bad", "times that a cascade or breach followed, older ones count less"),
        ("good", "times that none followed"),
        ("probability", "posterior mean that one follows"),
        ("severity", "share of the traffic hit, mean of the bad ones; a breach counts 1"),
        ("last seen", "episode"),
        ("verdict", "whether the safety layer forbids the action there"),
    )
    head = "".join(f'<th scope="col" title="{escape(hint, quote=True)}">{name}</th>' for name, hint in columns)
    body = "".join(
        f'<tr><th scope="row">{escape(str(row["signature"]))}</th>'
        f"<td>{row['bad']:.1f}</td><td>{row['good']:.1f}</td>"
        f"<td>{100 * row['probability']:.0f} %</td><td>{row['severity']:.2f}</td><td>{row['last_seen']:,}</td>"
        f"<td>{'<span class=miss>veto</span>' if row['vetoed'] else 'allowed'}</td></tr>"
        for row in rows
    )
    entries = "".join(f"<dt>{name}</dt><dd>{escape(hint)}</dd>" for name, hint in columns)
    return (
        '<p class="small soft">A pattern is a situation and what was done or happened in it; worst first.</p>'
        '<div class="scroll" tabindex="0" role="region" aria-label="Patterns"><table aria-label="Patterns">'
        f'<thead><tr><th scope="col">pattern</th>{head}</tr></thead><tbody>{body}</tbody></table></div>'
        f"<details><summary>What the columns mean</summary><dl>{entries}</dl></details>"
    )
