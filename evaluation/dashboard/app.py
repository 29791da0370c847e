"""The page: one tab per question that a person has."""

from __future__ import annotations

import gradio as gr

from evaluation.dashboard.folders import Folders
from evaluation.dashboard.jobs import Jobs
from evaluation.dashboard.tabs import cloudenv, compare, episode, evaluate, memory, monitor, train

HEADING = "# Cloud-RL\nAgents that operate a simulated cloud: train, compare, look inside."

HEADING = "# Cloud-RL\nAgents that operate a simulated cloud: train, compare, look inside."


def make_app(folders: Folders, jobs: Jobs | None = None) -> gr.Blocks:
    """The whole page over the runs in `folders`. Nothing is served yet (see server.py).

    Each tab has `build`, which lays out one `gr.Tab` and listens to it.
    """
    jobs = jobs or Jobs()
    with gr.Blocks(title="Cloud-RL", analytics_enabled=False, fill_width=True) as app:
        gr.Markdown(HEADING, elem_id="head")
        with gr.Tabs(overflow_behavior="wrap"):
            train.build(folders, jobs)
            monitor.build(folders)
            evaluate.build(folders, jobs)
            compare.build(folders)
            episode.build(folders)
            memory.build(folders)
            cloudenv.build(folders)
    return app
