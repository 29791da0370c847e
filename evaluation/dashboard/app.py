"""The page: one tab per question that a person has."""

from __future__ import annotations

import gradio as gr

from evaluation.dashboard.folders import Folders
from evaluation.dashboard.tabs import cloudenv, compare, episode, evaluate, memory, monitor, train

TABS = (train, monitor, evaluate, compare, episode, memory, cloudenv)
"""Modules with `build(folders)`, which lays out one `gr.Tab`; in the order of the page."""


def make_app(folders: Folders) -> gr.Blocks:
    """The whole page over the runs in `folders`. Nothing is served yet (see server.py)."""
    with gr.Blocks(title="Cloud-RL", analytics_enabled=False, fill_width=True) as app:
        gr.Markdown("# Cloud-RL", elem_id="title")
        with gr.Tabs():
            for tab in TABS:
                tab.build(folders)
    return app
