"""Theme and style of the dashboard. System fonts only: a page asks no other machine for anything."""

from __future__ import annotations

import gradio as gr

SANS = ("system-ui", "-apple-system", "Segoe UI", "sans-serif")
MONO = ("ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "monospace")

CSS = """
.gradio-container { max-width: 1200px !important; margin: 0 auto !important; }
footer { display: none !important; }
"""


def theme() -> gr.themes.Base:
    return gr.themes.Default(font=SANS, font_mono=MONO)
