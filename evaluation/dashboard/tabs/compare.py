"""Compare."""

from __future__ import annotations

import gradio as gr

from evaluation.dashboard.folders import Folders


def build(folders: Folders) -> None:
    """Lay out the tab."""
    with gr.Tab("Compare", id="compare"):
        gr.Markdown("Not here yet.")
