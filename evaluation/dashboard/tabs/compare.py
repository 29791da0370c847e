"""Compare: several evaluations of the same worlds side by side, and whether a difference is real."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gradio as gr

from cloudrl.errors import UserError
from evaluation.dashboard import results
from evaluation.dashboard.events import QUIET
from evaluation.dashboard.folders import Folders
from evaluation.dashboard.look import html, notice, problem

NOTHING = "There is no evaluation in {runs} yet. Make one in the tab Evaluate, then compare its agents here."
CHOOSE = "Choose evaluations of the same worlds above."


def build(folders: Folders) -> None:
    """Lay out the tab."""
    with gr.Tab("Compare", id="compare") as tab:
        with gr.Row(equal_height=False):
            runs = gr.Dropdown(
                [], label="Evaluations", multiselect=True, allow_custom_value=True, scale=3, min_width=300,
                info="Several of the same suite and seeds are laid side by side.",
            )  # fmt: skip
            against = gr.Dropdown(
                [], label="Against", allow_custom_value=True, scale=1, min_width=200,
                info="The agent that others are compared with.",
            )  # fmt: skip
        verdicts = html(notice(CHOOSE))
        table = html()
        pictures = html()

    view = _View(folders)
    outputs = [verdicts, table, pictures, against]
    gr.on([tab.select], view.refresh, [runs], [runs], **QUIET).then(view.show, [runs, against], outputs, **QUIET)
    gr.on([runs.input, against.input], view.show, [runs, against], outputs, **QUIET)


class _View:
    def __init__(self, folders: Folders) -> None:
        self.folders = folders

    def refresh(self, chosen: Sequence[str] | None) -> Any:
        listed = results.evaluations(self.folders)
        value = list(chosen or []) or [name for _, name in listed[:1]]
        return gr.Dropdown(listed, value=value)

    def show(self, chosen: Sequence[str] | None, against: str | None) -> tuple[Any, Any, Any, Any]:
        """Verdicts, table, pictures and the agents to compare with."""
        names = list(chosen or [])
        if not names:
            text = CHOOSE if results.evaluations(self.folders) else NOTHING.format(runs=self.folders.runs)
            return notice(text), "", "", gr.Dropdown([], value=None)
        from evaluation.compare import within
        from evaluation.report.summary import summarise

        try:
            joined = results.join([(name, results.read(self.folders, name)) for name in names])
            played = list(joined.played)
            reference = (
                against if against in played else next((n for n in ("runbook", "noop") if n in played), None)
            )
            summary = summarise(joined)
            found = within(joined, against=reference) if len(played) > 1 else []
        except UserError as error:
            return problem(str(error)), "", "", gr.skip()
        return (
            results.verdicts_html(found) or notice("One agent alone: there is nothing to compare it with."),
            results.summary_html(summary),
            results.pictures_html(summary) if summary.agents else "",
            gr.Dropdown(played, value=reference),
        )
