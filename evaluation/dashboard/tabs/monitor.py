"""Monitor: curves of any runs below the runs folder, laid over each other, as they grow."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from html import escape
from typing import Any

import gradio as gr

from cloudrl.errors import UserError
from evaluation.dashboard.curves import first_tags, panels
from evaluation.dashboard.events import QUIET
from evaluation.dashboard.folders import Folders
from evaluation.dashboard.look import html, notice, problem
from evaluation.dashboard.records import TRAINERS, Curve, describe, find_runs, read_curves, read_record

NOTHING = (
    "There is no run in {runs} yet. Start one in the tab Train, or with `python -m trainers.ppo`; "
    "another folder is watched with --runs."
)
CHOOSE = "Choose runs above: their curves are laid over each other, and grow as the runs do."
MOST_RUNS = 8
"""Overlaid: as many as there are colours."""
Seen = tuple[str, list[str]]
"""What a browser shows: the curves, and the tags to choose from."""


def build(folders: Folders) -> None:
    """Lay out the tab."""
    with gr.Tab("Monitor", id="monitor") as tab:
        with gr.Row(equal_height=False):
            runs = gr.Dropdown(
                [], label="Runs", multiselect=True, max_choices=MOST_RUNS, allow_custom_value=True, scale=3,
                min_width=300,
            )  # fmt: skip
            tags = gr.Dropdown(
                [], label="Tags", multiselect=True, allow_custom_value=True, scale=3, min_width=300,
                info="Empty: the first that most people want to see.",
            )  # fmt: skip
            with gr.Column(scale=2, min_width=220):
                smoothing = gr.Slider(0, 0.99, value=0.0, step=0.01, label="Smoothing")
                live = gr.Checkbox(True, label="Live: read again every two seconds")
        curves = html(notice(CHOOSE))
        details = html()
        timer = gr.Timer(2.0, active=False)
        seen = gr.State(None)  # what this browser shows now

    view = _View(folders)
    chosen = [runs, tags, smoothing]
    gr.on([tab.select], view.refresh, [runs, live], [runs, timer], **QUIET).then(
        view.show, [*chosen, seen], [curves, tags, seen], **QUIET
    ).then(view.details, [runs], [details], **QUIET)
    gr.on([runs.change, tags.change, smoothing.change], view.show, [*chosen, seen], [curves, tags, seen], **QUIET)
    runs.change(view.details, [runs], [details], **QUIET)
    live.change(lambda on: gr.Timer(active=on), [live], [timer], **QUIET)
    timer.tick(view.show, [*chosen, seen], [curves, tags, seen], **QUIET)


class _View:
    def __init__(self, folders: Folders) -> None:
        self.folders = folders

    def refresh(self, chosen: Sequence[str] | None, live: bool) -> tuple[Any, Any]:
        """The list of runs; what was chosen stays, and the newest training is chosen for who chose nothing."""
        runs = sorted(find_runs(self.folders), key=lambda record: record.algo not in TRAINERS)
        listed = [(record.label, record.name) for record in runs]
        value = list(chosen or []) or [record.name for record in runs[:1]]
        return gr.Dropdown(listed, value=value), gr.Timer(active=bool(live))

    def show(
        self, chosen: Sequence[str] | None, tags: Sequence[str] | None, smoothing: float, seen: Seen | None
    ) -> tuple[Any, Any, Any]:
        """Curves of the chosen runs, the tags to choose from, and both as seen; nothing where nothing is new."""
        text, known = self._drawn(list(chosen or [])[:MOST_RUNS], tags or [], smoothing)
        if seen is not None and (text, known) == tuple(seen):
            return gr.skip(), gr.skip(), gr.skip()
        # A list of choices that is sent again closes under the hand of who is choosing.
        return text, gr.skip() if seen is not None and known == seen[1] else gr.Dropdown(known), (text, known)

    def _drawn(self, names: Sequence[str], tags: Sequence[str], smoothing: float) -> Seen:
        if not names:
            return notice(CHOOSE if find_runs(self.folders) else NOTHING.format(runs=self.folders.runs)), []
        found: dict[str, dict[str, Curve]] = {}
        problems = []
        for name in names:
            try:
                found[self._title(name, found)] = read_curves(self.folders, name)
            except UserError as error:
                problems.append(problem(str(error)))
        known = list(dict.fromkeys(tag for curves in found.values() for tag in sorted(curves)))
        wanted = [tag for tag in tags if tag in known] or first_tags(known)
        drawn = panels(found, wanted, min(max(float(smoothing), 0.0), 0.99)) if found else ""
        return "".join(problems) + drawn, known

    def _title(self, name: str, taken: Collection[str]) -> str:
        """What the legend calls a run: what the list calls it."""
        record = read_record(self.folders, self.folders.inside(name))
        return name if record is None or record.label in taken else record.label

    def details(self, chosen: Sequence[str] | None) -> str:
        """Command and settings of each chosen run, folded up."""
        out = []
        for name in list(chosen or [])[:MOST_RUNS]:
            try:
                command, config = describe(self.folders, name)
            except UserError:
                continue  # said above
            out.append(
                f"<details><summary>{escape(name)}<span>{escape(command[:120])}</span></summary>"
                f"<h3>Command</h3><pre>{escape(command)}</pre><h3>Settings</h3>"
                f'<pre tabindex="0">{escape(config)}</pre></details>'
            )
        return f'<div class="crl">{"".join(out)}</div>' if out else ""
