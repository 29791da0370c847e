"""Evaluate: play agents on the worlds of a suite, watch it go, read the table and the report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gradio as gr

from cloudrl.errors import UserError
from evaluation.dashboard import commands, job_view, results
from evaluation.dashboard.agents import agent_choices
from evaluation.dashboard.events import QUIET
from evaluation.dashboard.folders import Folders
from evaluation.dashboard.jobs import Job, Jobs
from evaluation.dashboard.look import html, notice, problem

NOTHING = "No evaluation yet. Choose a suite and agents and press Evaluate: table and report appear here."
SEEDS = [
    ("public: 200 test worlds", "public"),
    ("validation: 200 worlds to choose by", "validation"),
    ("20 of the test worlds", "20000-20019"),
    ("20 of the validation worlds", "10000-10019"),
]


def build(folders: Folders, jobs: Jobs) -> None:
    """Lay out the tab."""
    with gr.Tab("Evaluate", id="evaluate") as tab:
        with gr.Row(equal_height=False):
            with gr.Column(scale=2, min_width=300):
                suite = gr.Dropdown(
                    commands.suites(), value="easy", label="Suite", allow_custom_value=True,
                    info="Or scaled-<n>, or an estate's yaml file inside the runs folder.",
                )  # fmt: skip
                agents = gr.Dropdown(
                    ["noop", "random", "handwritten", "runbook"], value=["random", "handwritten", "runbook"],
                    multiselect=True, allow_custom_value=True, label="Agents",
                    info="Or ppo:<run>, llm:<run> inside the runs folder. noop is always played.",
                )  # fmt: skip
                seeds = gr.Dropdown(
                    SEEDS, value="20000-20019", allow_custom_value=True, label="Worlds",
                    info="Or a range of seeds, such as 10000-10099.",
                )  # fmt: skip
                more = gr.Textbox(label="Further settings", placeholder="safety=observe ledger=false")
                start = gr.Button("Evaluate", variant="primary")
            with gr.Column(scale=5, min_width=320):
                job = gr.Dropdown([], label="Started here", visible=False, allow_custom_value=True)
                with gr.Row(equal_height=False, elem_classes="job"):
                    with gr.Column(scale=4, min_width=220):
                        status = html()
                    stop = gr.Button("Stop", size="md", visible=False, scale=0, min_width=120)
                run = gr.Dropdown([], label="Evaluation", allow_custom_value=True, visible=False)
                table = html(notice(NOTHING))
        report = html()
        timer = gr.Timer(1.5, active=False)

    view = _View(folders, jobs)
    shown = [job, status, stop, timer]
    gr.on([tab.select], view.refresh, [job, run], [*shown, run, agents], **QUIET)
    gr.on(None, view.listed, None, shown, **QUIET)
    timer.tick(view.tick, [job], [*shown, run], **QUIET)
    job.input(view.tick, [job], [*shown, run], **QUIET)
    run.change(view.results, [run], [table, report], **QUIET)
    start.click(view.start, [suite, agents, seeds, more], shown, **QUIET)
    stop.click(view.stop, [job], shown, **QUIET)


class _View:
    def __init__(self, folders: Folders, jobs: Jobs) -> None:
        self.folders, self.jobs = folders, jobs

    def listed(self) -> list[Any]:
        """Jobs alone: the page was loaded."""
        mine = self.jobs.of("eval")
        return self._shown(mine[0] if mine else None)

    def refresh(self, chosen: int | None, run: str | None) -> list[Any]:
        """Lists of jobs, evaluations and agents."""
        mine = self.jobs.of("eval")
        job = self.jobs.get(chosen) or (mine[0] if mine else None)
        return [*self._shown(job), self._runs(run), gr.Dropdown(agent_choices(self.folders))]

    def tick(self, chosen: int | None) -> list[Any]:
        """How the job stands; when it has ended, its run becomes the one that is shown."""
        job = self.jobs.get(chosen)
        if job is None or job.running or job.folder is None:
            return [*self._shown(job, lists=False), gr.skip()]
        return [*self._shown(job), self._runs(self.folders.name(job.folder))]

    def start(self, suite: str, agents: Sequence[str], seeds: str, more: str) -> list[Any]:
        try:
            command = commands.evaluate(self.folders, suite or "", agents or [], seeds or "", more)
        except UserError as error:
            return [gr.skip(), problem(str(error)), gr.skip(), gr.skip()]
        title = f"{suite}, {len(agents)} agents, {seeds}"
        return self._shown(self.jobs.start("eval", title, command, terminal=True))

    def stop(self, chosen: int | None) -> list[Any]:
        job = self.jobs.get(chosen)
        if job is not None and job.running:
            job.stop()
        return self._shown(job)

    def results(self, run: str | None) -> tuple[Any, Any]:
        """Table and report of an evaluation."""
        if not run:
            return notice(NOTHING), ""
        try:
            from evaluation.report.summary import summarise

            summary = summarise(results.read(self.folders, run))
            has_report = (self.folders.inside(run) / "report.html").is_file()
        except UserError as error:
            return problem(str(error)), ""
        return results.summary_html(summary), results.report_html(run) if has_report else notice("No report here.")

    # ------------------------------------------------------------------ pieces
    def _shown(self, job: Job | None, lists: bool = True) -> list[Any]:
        """Values of job, status, stop, timer. `lists`: the choice of jobs too, which closes it."""
        if job is None:  # leave the page as it is: this answer may be older than a start that is under way
            return [gr.skip() for _ in range(4)]
        running = job.running
        return [
            job_view.listed(self.jobs, job, "eval") if lists or not running else gr.skip(),
            job_view.status(job),
            job_view.stop_button(job),
            gr.Timer(active=running),
        ]

    def _runs(self, chosen: str | None) -> Any:
        listed = results.evaluations(self.folders)
        names = [name for _, name in listed]
        value = chosen if chosen in names else (names[0] if names else None)
        return gr.Dropdown(listed, value=value, visible=bool(listed))
