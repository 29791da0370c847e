"""Train: start a training, watch its curves and its log, stop it so that it saves, go on with it."""

from __future__ import annotations

from typing import Any

import gradio as gr

from cloudrl.errors import UserError
from evaluation.dashboard import commands, job_view
from evaluation.dashboard.curves import first_tags, panels
from evaluation.dashboard.events import QUIET
from evaluation.dashboard.folders import Folders
from evaluation.dashboard.jobs import Job, Jobs
from evaluation.dashboard.look import html, notice, problem
from evaluation.dashboard.records import TRAINERS, Curve, find_runs, read_curves, read_record, run_folder

START = "No training was started here yet. Choose what to train and press Start: its curves appear here."
WARMING = "Starting: the first figures appear after the warm start's first states."


def build(folders: Folders, jobs: Jobs) -> None:
    """Lay out the tab."""
    with gr.Tab("Train", id="train") as tab:
        with gr.Row(equal_height=False):
            with gr.Column(scale=2, min_width=300):
                trainer = gr.Radio(
                    [("PPO, on numbers", "ppo"), ("GRPO, on JSON actions", "grpo")], value="ppo", label="Trainer"
                )
                world = gr.Dropdown(commands.worlds(), value="+curriculum=easy", label="World")
                with gr.Row():
                    steps = gr.Textbox(label="Steps", placeholder="default", min_width=120)
                    seed = gr.Textbox("0", label="Seed", min_width=80)
                more = gr.Textbox(
                    label="Further settings",
                    placeholder="ppo.learning_rate=3e-4 safety=observe",
                    info="key=value, as on the command line. +debug=short plays PPO's whole path in seconds.",
                )
                start = gr.Button("Start training", variant="primary")
                with gr.Accordion("Go on with a run", open=True):
                    run = gr.Dropdown(
                        [], label="Run", info="To its old total, or to the steps above.", allow_custom_value=True
                    )
                    resume = gr.Button("Resume")
            with gr.Column(scale=5, min_width=320):
                job = gr.Dropdown([], label="Started here", visible=False, allow_custom_value=True)
                with gr.Row(equal_height=False):
                    with gr.Column(scale=4, min_width=220):
                        status = html(notice(START))
                    stop = gr.Button("Stop", size="md", visible=False, scale=0, min_width=120)
                curves = html()
                log = gr.Textbox(
                    label="Log", lines=8, max_lines=16, interactive=False, elem_classes="log", visible=False
                )
        timer = gr.Timer(1.5, active=False)

    view = _View(folders, jobs)
    shown = [job, status, stop, curves, log, timer]

    gr.on([tab.select], view.refresh, [job], [*shown, run], **QUIET)
    gr.on(None, lambda: view.refresh(None), None, [*shown, run], **QUIET)  # the page was loaded
    timer.tick(view.show, [job], shown, **QUIET)
    job.input(view.show, [job], shown, **QUIET)
    start.click(view.start, [trainer, world, steps, seed, more], [*shown, run], **QUIET)
    resume.click(view.resume, [run, steps, more], [*shown, run], **QUIET)
    stop.click(view.stop, [job], shown, **QUIET)


class _View:
    """What the tab shows, from the number of the job that a browser has chosen."""

    def __init__(self, folders: Folders, jobs: Jobs) -> None:
        self.folders, self.jobs = folders, jobs

    def refresh(self, chosen: int | None) -> list[Any]:
        """Everything, lists too. Without a choice the newest job is shown."""
        mine = self.jobs.of(*TRAINERS)
        job = self.jobs.get(chosen) or (mine[0] if mine else None)
        return [*self._shown(job), self._runs()]

    def show(self, chosen: int | None) -> list[Any]:
        """The timer: everything but the choice of jobs, until the job ends."""
        return self._shown(self.jobs.get(chosen), lists=False)

    def start(self, trainer: str, world: str, steps: str, seed: str, more: str) -> list[Any]:
        try:
            command = commands.train(self.folders, trainer, world, steps, seed, more)
        except UserError as error:
            return self._refused(error)
        title = f"{trainer} {commands.world_title(world)}, seed {seed or 0}"
        return [*self._shown(self.jobs.start(trainer, title, command)), self._runs()]

    def resume(self, name: str | None, steps: str, more: str) -> list[Any]:
        try:
            job = self._resumed(name, steps, more)
        except UserError as error:
            return self._refused(error)
        return [*self._shown(job), self._runs()]

    def _resumed(self, name: str | None, steps: str, more: str) -> Job:
        if not name:
            raise UserError("choose the run to go on with; there is none if nothing was trained yet")
        path = run_folder(self.folders, name)
        record = read_record(self.folders, path)
        if record is None or record.algo not in TRAINERS:
            raise UserError(f"{name}: no training run")
        if path in self.jobs.folders_in_use():
            raise UserError(f"{name}: is being trained right now")
        command = commands.resume(self.folders, record.algo, path, steps, more)
        job = self.jobs.start(record.algo, f"{record.algo} {record.what}, resumed", command)
        job.folder = path
        return job

    def _refused(self, error: UserError) -> list[Any]:
        """Wrong input: one line in place of the status, and nothing else changes."""
        return [gr.skip(), problem(str(error)), *(gr.skip() for _ in range(5))]

    def stop(self, chosen: int | None) -> list[Any]:
        job = self.jobs.get(chosen)
        if job is not None and job.running:
            job.stop()
        return self._shown(job)

    # ------------------------------------------------------------------ pieces
    def _shown(self, job: Job | None, lists: bool = True) -> list[Any]:
        """Values of job, status, stop, curves, log, timer. `lists`: the choice of jobs too, which closes it."""
        if job is None:  # leave the page as it is: this answer may be older than a start that is under way
            return [gr.skip() for _ in range(6)]
        running = job.running  # before the rest is read, so that the last tick sees the end
        return [
            job_view.listed(self.jobs, job, *TRAINERS) if lists or not running else gr.skip(),
            job_view.status(job),
            job_view.stop_button(job),
            self._curves(job),
            gr.Textbox(f"$ {job_view.command_line(job)}\n{job.log(300)}", visible=True),
            gr.Timer(active=running),
        ]

    def _curves(self, job: Job) -> str:
        if job.folder is None:
            return notice(WARMING) if job.running else ""
        try:
            found: dict[str, Curve] = read_curves(self.folders, str(job.folder))
        except UserError as error:
            return notice(WARMING if job.running and job.folder.exists() else str(error))
        return panels({job.folder.name: found}, first_tags(found))

    def _runs(self) -> Any:
        """Runs to go on with: first those that did not end."""
        busy = self.jobs.folders_in_use()
        runs = [r for r in find_runs(self.folders, TRAINERS) if r.path.resolve() not in busy]
        runs.sort(key=lambda r: r.finished)
        listed = [(f"{r.label}{'' if r.finished else ' · not finished'}", r.name) for r in runs]
        return gr.Dropdown(listed, value=listed[0][1] if listed else None)
