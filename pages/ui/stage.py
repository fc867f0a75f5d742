"""Lay out the frame of six screens: a line of choices, a figure, a panel, and details below."""

from typing import NamedTuple

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

# The figure takes 60 % of the window's height. On a phone everything lies one below the other, the
# page scrolls, and what comes late has its height beforehand, page by page. The server sends this
# with the page, see `shell.STYLESHEET`.
# The answer of What if has its style from the first moment on, so that nothing moves later.
STYLESHEET = """<style>
.stMainBlockContainer:has(.st-key-choices) { padding-inline: 1.5rem; padding-bottom: 2rem; }
.st-key-choices h1 { font-size: 1.0625rem; font-weight: 600; padding: .55rem 0;
  white-space: nowrap; }
.st-key-question { gap: 0; min-height: calc(2 * 1.28 * 1.5rem); }
.st-key-question h1 { position: absolute; clip-path: inset(50%); font-size: 1rem; }
.st-key-question [data-testid="stMarkdownContainer"] { margin: 0; }
.st-key-choices > :has(.st-key-download) { margin-left: auto; }
.st-key-choices, .st-key-mechanisms, .st-key-layer { min-height: 2.5rem; }
.dpmc-say.dpmc-say { margin: 0; font-size: 1.5rem; line-height: 1.28; font-weight: 600;
  letter-spacing: -.2px; text-wrap: pretty; max-width: 82rem; }
.dpmc-say :is(.risk, .use) { font-weight: 700; }
.dpmc-say .risk { color: var(--risk, inherit); }
.dpmc-say .use { color: var(--usefulness, inherit); }
.st-key-choices > :is(.st-key-data, .st-key-task) { flex: 0 0 14.5rem; }
.st-key-choices > .st-key-scenario.st-key-scenario { flex: 0 1 26rem; max-width: 100%; }
[data-page=what_if] .stMainBlockContainer > .stVerticalBlock { gap: .75rem; }
/* the instrument's menu opens it */
[data-page=what_if] .st-key-download { visibility: hidden; }
.st-key-next .stPageLink { width: auto; }
.st-key-next > :nth-child(2) { margin-left: auto; }
.st-key-next a { min-height: 2.5rem; padding: 0 .875rem; border-radius: .5rem;
  border: 1px solid var(--line); justify-content: center; }
.st-key-next > :first-child a { background: var(--act); border-color: transparent; }
.st-key-next > :first-child a p { color: var(--on-act); font-weight: 600; }
.st-key-ratings { min-height: 4.25rem; }
.st-key-ways { min-height: 11rem; }
.st-key-figure { --high: 60vh; --least: 22rem; }
.st-key-figure :has(> * > .stPlotlyChart), .st-key-figure :has(> .stPlotlyChart),
.st-key-figure .stPlotlyChart, .st-key-figure .stPlotlyChart > div { flex: none;
  height: var(--high) !important; min-height: var(--least); }
:is(.st-key-figure, .st-key-drawn, .st-key-steering):not(#skip) { border: 0; padding: 0; }
.st-key-steering { min-height: 2.5rem; }
.st-key-drawn { min-height: max(var(--high, 60vh), var(--least, 22rem)); }
@media (min-width: 641px) {
  .st-key-choices :is([role=radio], .stPopover button) { min-height: 2.5rem; }
}
@media (min-width: 801px) {
  /* a chart has the name of its axis at the right end of its title */
  [data-page=compare] .st-key-title { max-width: calc(100% - 24rem); margin-bottom: -3.9rem; }
  :has(> * > .st-key-steering) .st-key-figure { --high: calc(55vh + 5rem); --least: 28rem; }
}
.st-key-steering .st-key-pause button { min-width: 7.2rem; }
.st-key-pin.st-key-pin { flex: 0 0 7.5rem; width: 7.5rem; min-width: 7.5rem; }
.st-key-stage > :has(> .st-key-figure) { flex: 1 1 28rem; min-width: 0; }
.st-key-stage > :has(> .st-key-panel) { flex: 0 0 20rem; margin-left: auto; }
:is([class*=st-key-title], .st-key-below) h2 { font-size: 1.0625rem; padding: .25rem 0;
  text-wrap: pretty; }
.st-key-answer h2 { padding: 0 0 .5rem; }
.st-key-beside [data-testid="stMetricValue"] { font-size: 1.2rem; }
.st-key-class, .st-key-room-list { min-height: 3.75rem; }
.st-key-coin-picture { min-height: 7.9rem; }
@media (max-width: 800px) {
  .stMainBlockContainer:has(.st-key-choices) { padding-inline: .875rem; }
  .st-key-choices h1 { white-space: normal; }
  :is([class*=st-key-title], .st-key-below) h2 { font-size: 1rem; }
  .st-key-choices > :has(.st-key-download) { margin-left: 0; }
  .dpmc-say.dpmc-say { font-size: 1.25rem; }
  /* sentence, knob, picture, person; then the choices */
  [data-page=what_if] :has(> .st-key-choices) { order: 1; }
  [data-page=what_if] :has(> .st-key-drawn) ~ * { order: 2; }
  [data-page=what_if] .st-key-drawn { min-height: 100vh; }
  [data-page=what_if] :has(> .st-key-download) { height: 0; margin-top: -1rem; }
  .st-key-next a { min-height: 2.75rem; }
  .st-key-next > * { flex: 1 1 auto; margin: 0 !important; }
  .st-key-next > :first-child { flex-basis: 100%; }
  .st-key-stage.st-key-stage > div { flex: 1 1 100%; }
  .st-key-figure { --high: 22rem; }
}
@media (max-width: 480px) {
  .st-key-question { min-height: calc(6 * 1.28 * 1.25rem); }
  .st-key-choices > :is(:has(h1), .st-key-data, .st-key-task) { flex: 1 0 100%; }
  .st-key-choices { min-height: var(--choices, 0); align-content: flex-start; }
  .st-key-figure { min-height: var(--figure, 0); }
  [data-page=what_if] { --choices: 11rem; }
  [data-page=train] { --choices: 13.3rem; --figure: 22rem; }
  [data-page=compare] { --choices: 19.8rem; --figure: 36rem; }
  [data-page=noise] { --choices: 13.3rem; --figure: 36rem; }
  [data-page=guarantees] { --choices: 13.8rem; --figure: 34.5rem; }
  [data-page=protocol] { --choices: 14.5rem; }
  [data-page=protocol] .st-key-drawn { min-height: 35rem; }
  [data-page=what_if] .st-key-drawn { min-height: 50rem; }
  .st-key-class { min-height: 4.5rem; }
  .st-key-room-list { min-height: 5.75rem; }
  .st-key-steering { min-height: 12.4rem; align-content: flex-start; }
  .st-key-layer { min-height: 5.75rem; }
  .st-key-mechanisms { min-height: 11.75rem; }
  .st-key-ratings { min-height: 8.5rem; }
  .st-key-ways { min-height: 17.4rem; }
}
</style>"""


class Stage(NamedTuple):
    """The containers for the parts of a page.

    Attributes:
        choices: a line of choices.
        figure: the figure with its slider below.
        panel: the number, one sentence, and what to do next.
        details: everything else.
    """

    choices: DeltaGenerator
    figure: DeltaGenerator
    panel: DeltaGenerator
    details: DeltaGenerator


def lay_out_stage(title: str) -> Stage:
    """Lay out the frame of a page with its title."""
    return lay_out_body(lay_out_choices(title))


def lay_out_body(choices: DeltaGenerator | None = None) -> Stage:
    """Lay out figure, panel and details below a line of choices.

    Args:
        choices: the line; None in a part of the page that updates itself, which gets a line there.
    """
    with st.container(horizontal=True, key="stage"):
        figure = st.container(key="figure", border=True)  # empty, it would be left out without
        panel = st.container(key="panel", border=True)
    return Stage(choices or st.container(), figure, panel, st.container(key="below"))


def reserve_figure() -> DeltaGenerator:
    """Return a container for a figure that has the figure's height while it is still empty."""
    return st.container(border=True, key="drawn")  # without its border an empty one is left out


def lay_out_choices(title: str = "") -> DeltaGenerator:
    """Lay out the line of choices, with the page's title if it stands there."""
    alignment = "bottom" if title else "center"
    choices = st.container(horizontal=True, vertical_alignment=alignment, key="choices")
    if title:
        choices.title(title, width="content")
    return choices


def ask_question(title: str) -> DeltaGenerator:
    """Show a page's question as its title, and return the place of the answer below.

    It is no empty place, which would lose the last answer before the next one is there.
    """
    question = st.container(key="question")
    question.title(title)
    return question
