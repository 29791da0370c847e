"""CloudEnv."""

from __future__ import annotations

import gradio as gr

from evaluation.dashboard.folders import Folders


def build(folders: Folders) -> None:
    """Lay out the tab."""
    with gr.Tab("CloudEnv", id="cloudenv"):
        gr.Markdown("Not here yet.")
