"""A job on the page: how it stands, its progress, its button, its log. Train and Evaluate share it."""

from __future__ import annotations

from html import escape
from typing import Any

import gradio as gr

from evaluation.dashboard.jobs import Job, Jobs
from evaluation.dashboard.look import problem

_STOP = ("Stop", "Stop at once", "Kill")


def status(job: Job) -> str:
    """How a job stands, as html."""
    if job.state == "failed":
        return problem(job.failure())
    facts = [f"<span><b>{job.state}</b></span>", f"<span>{_duration(job.seconds)}</span>"]
    if job.folder is not None:
        facts.append(f"<span>run <b>{escape(job.folder.name)}</b></span>")
    bar = ""
    if job.running and job.bar is not None:
        percent, figures = job.bar
        bar = f'<progress max="100" value="{percent}" aria-label="progress"></progress>'
        facts.append(f"<span>{percent} % · {escape(figures)}</span>")
    return f'<div class="crl"><p class="status" role="status">{"".join(facts)}</p>{bar}</div>'


def stop_button(job: Job) -> Any:
    """The button's text says what the next press does; it is there while the job runs."""
    return gr.Button(_STOP[min(job.asked, 2)], interactive=job.running, visible=job.running)


def listed(jobs: Jobs, chosen: Job, *kinds: str) -> Any:
    """The choice among all jobs of some kinds."""
    return gr.Dropdown([(job.label, job.number) for job in jobs.of(*kinds)], value=chosen.number, visible=True)


def command_line(job: Job) -> str:
    return "python " + " ".join(job.command)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
