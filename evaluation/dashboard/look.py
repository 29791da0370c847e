"""Theme and style of the dashboard. System fonts only: a page asks no other machine for anything.

Pieces of the evaluation's report stand on the page within an element of class `crl`, where its style holds.
"""

from __future__ import annotations

import re
from html import escape

import gradio as gr

from evaluation.report.style import STYLE

SANS = ("system-ui", "-apple-system", "Segoe UI", "Roboto", "Helvetica Neue", "Arial", "sans-serif")
MONO = ("ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "monospace")

LINES_LIGHT = ("#0b5cad", "#c2410c", "#0f766e", "#7c3aed", "#a16207", "#be185d", "#4b5563", "#3f6212")
LINES_DARK = ("#6fb1f5", "#fb923c", "#2dd4bf", "#b79cff", "#eab308", "#f472b6", "#a3adb8", "#a3e635")
"""Colours of overlaid runs, in order."""


def _lines(colours: tuple[str, ...]) -> str:
    return "".join(f"--s{k}:{colour};" for k, colour in enumerate(colours))


_LIGHT, _DARK = re.findall(r":root\{(.*?)\}", STYLE, re.DOTALL)
_RULES = STYLE[STYLE.index("*{box-sizing") :]  # what follows is about elements, and nested it is about ours only
_SERIES = "".join(
    f".s{k}{{stroke:var(--s{k})}}b.s{k},.point.s{k}{{background:var(--s{k});border-color:var(--s{k})}}"
    for k in range(len(LINES_LIGHT))
)

_OWN = """
.gradio-container { width: 100%; max-width: 1240px !important; margin: 0 auto !important;
  padding: 8px 20px 40px !important; font-variant-numeric: tabular-nums; }
footer { display: none !important; }
#head h1 { font-size: 1.35rem; letter-spacing: -.01em; margin: .5em 0 0; }
#head p { color: var(--body-text-color-subdued); margin: .1em 0 .3em; }
.log textarea { font-family: var(--font-mono); font-size: .8rem; line-height: 1.45; }
.command textarea { font-family: var(--font-mono); font-size: .85rem; }
.crl { background: none; color: var(--ink); font-size: 1rem; line-height: 1.55; width: 100%;
  contain: inline-size; /* a wide table scrolls, and never widens the page */ }
.dark button[role=tab].selected { color: #6fb1f5; }
.crl h3 { font-weight: 600; }
.crl .notice { border: 1px solid var(--hair); border-left: 3px solid var(--accent); border-radius: 8px;
  padding: .65em .9em; background: var(--card); color: var(--ink); max-width: none; margin: 0;
  overflow-wrap: anywhere; }
.crl .notice.problem { border-left-color: var(--outage); }
.crl .status { display: flex; flex-wrap: wrap; gap: .2em 1.2em; margin: 0; color: var(--soft); max-width: none; }
.crl .status b { color: var(--ink); font-weight: 600; }
.crl progress { width: 100%; height: 8px; accent-color: var(--accent); display: block; margin: .5em 0 0; }
.crl h3:first-child { margin-top: .2em; }
.crl .lead { font-size: 1rem; }
.crl .verdicts { font-size: .92rem; }
.crl .verdicts .real::marker { content: "\\2713\\00A0"; color: var(--good); }
.crl th[scope=row] { min-width: 10.5em; }
.job:not(:has(.crl)) { display: none; }
.crl .curves { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 360px), 1fr));
  gap: 18px 22px; margin: .8em 0 0; }
.crl .curve-panel { min-width: 0; }
.crl .curve-panel h3 { font-size: .9rem; font-weight: 600; margin: 0; }
.crl .ends { display: flex; flex-wrap: wrap; gap: 0 .9em; font-size: .84rem; color: var(--soft);
  margin: 0 0 .5em; }
.crl .ends b, .crl .legend b { display: inline-block; width: 12px; height: 4px; border: 0; border-radius: 2px;
  margin-right: .4em; vertical-align: 3px; }
.crl .faint { stroke-width: 1; opacity: .3; }
.crl .curve { stroke-width: 2; }
.crl .dot.point { min-width: 8px; width: 8px; height: 8px; padding: 0; }
.crl .frame { border-color: var(--faint); }
.crl iframe { width: 100%; height: 75vh; border: 1px solid var(--hair); border-radius: 8px;
  background: var(--page); }
.gradio-container .wrap-inner input { text-overflow: ellipsis; padding-right: 1.8em; }
@media (max-width: 640px) { .gradio-container { padding: 4px 4px 30px !important; }
  .gradio-container main.fillable { padding: 8px !important; } }
/* separate, so that a column that stays keeps its lines */
.crl table { margin: 0; padding: 0; border-collapse: separate; border-spacing: 0; }
.crl th, .crl td { border-left: 0; border-right: 0; border-top: 0; }
.crl pre { white-space: pre-wrap; overflow-wrap: anywhere; font: .8rem/1.5 var(--font-mono); margin: 0; }
"""

HEAD = (
    f"<style>.crl{{{_LIGHT}{_lines(LINES_LIGHT)}color-scheme:light}}"
    f".dark .crl{{{_DARK}{_lines(LINES_DARK)}color-scheme:dark}}"
    f".crl{{{_RULES}{_SERIES}}}{_OWN}</style>"
)
"""For the head of the page: Gradio's own way of adding style rewrites selectors."""


def theme() -> gr.themes.Base:
    """Calm, with the colours of the report."""
    return gr.themes.Default(
        primary_hue="blue", neutral_hue="slate", radius_size="md", font=SANS, font_mono=MONO
    ).set(
        body_background_fill="#fbfbf9",
        body_background_fill_dark="#14171b",
        body_text_color="#1d242c",
        body_text_color_dark="#e4e8ec",
        body_text_color_subdued="#56616d",
        body_text_color_subdued_dark="#a3adb8",
        block_background_fill="#ffffff",
        block_background_fill_dark="#1b1f24",
        block_border_color="#e3e6ea",
        block_border_color_dark="#2a3037",
        border_color_primary="#e3e6ea",
        border_color_primary_dark="#2a3037",
        block_info_text_color="#56616d",
        block_info_text_color_dark="#a3adb8",
        block_label_text_color="#3b4550",
        block_label_text_color_dark="#c3cbd3",
        block_title_text_color="#3b4550",
        block_title_text_color_dark="#c3cbd3",
        block_title_text_weight="600",
        block_shadow="none",
        block_shadow_dark="none",
        input_background_fill="#ffffff",
        input_background_fill_dark="#14171b",
        input_placeholder_color="#626d79",
        input_placeholder_color_dark="#98a2ad",
        button_primary_background_fill="#0b5cad",
        button_primary_background_fill_dark="#0b5cad",
        button_primary_background_fill_hover="#094a8c",
        button_primary_background_fill_hover_dark="#1a6fc4",
        button_primary_text_color="#ffffff",
        color_accent="#0b5cad",
        link_text_color="#0b5cad",
        link_text_color_dark="#6fb1f5",
    )  # fmt: skip


def html(text: str = "") -> gr.HTML:
    """A place for html of class `crl`, without the rules for prose that Gradio would lay over it."""
    return gr.HTML(text, apply_default_css=False)


def notice(text: str) -> str:
    """A quiet line that says what to do, or how things stand."""
    return f'<div class="crl"><p class="notice" role="status">{escape(text)}</p></div>'


def problem(text: str) -> str:
    """A line on what went wrong and what to do about it."""
    return f'<div class="crl"><p class="notice problem" role="alert">{escape(text)}</p></div>'
