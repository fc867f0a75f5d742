"""Draw the projector's pictures: shares with their intervals, counts, coins and the QR code.

They change every second, and a Plotly figure would be mounted anew each time, while `st.html`
replaces only what differs. It allows no SVG, so marks are boxes at percentages of their row: they
and the letters keep their size on a projector and on a phone.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

import segno
import streamlit as st

from dpmc_lab.classroom import pictures
from dpmc_lab.classroom.room import CoinRule
from dpmc_lab.classroom.room_view import Mark, ShareRow, format_row_interval, format_row_share
from dpmc_lab.lessons import LABELS, PlanStep, Reveal, fill_text
from pages.ui import blocks
from pages.ui.text import escape as escape_markdown
from pages.ui.text import keep_units

_SHARES = """
.shares { container-type: inline-size; font-variant-numeric: tabular-nums; }
.shares .row { display: grid; align-items: center; column-gap: 1rem;
  grid-template-columns: minmax(9rem, min(29%, 16rem)) 1fr 6.5rem; }
.shares .alike .row { grid-template-columns: minmax(9rem, 33%) 1fr 6.5rem; }
.shares .name { line-height: 1.2; font-size: 1.05rem; overflow-wrap: anywhere; }
.shares small { display: block; font-size: .875rem; font-weight: 400; opacity: .8; }
.shares .said { line-height: 1.15; font-size: 1.05rem; }
.shares .track { position: relative; align-self: stretch; min-height: 2.2rem; margin: 0 1.2rem; }
.shares .track * { position: absolute; box-sizing: border-box; }
.shares .tick { top: 0; bottom: 0; border-left: 1px solid var(--line); }
.shares .tick span { top: .1rem; transform: translateX(-50%); font-size: .875rem;
  color: var(--note); white-space: nowrap; }
.shares .line { top: 50%; height: 3px; margin-top: -1.5px; background: var(--mark);
  min-width: 2px; }
.shares .dot { top: 50%; width: 14px; height: 14px; margin: -7px 0 0 -7px; border-radius: 50%;
  border: 3px solid var(--mark); background: var(--mark); }
.shares .truth { top: -2px; bottom: -2px; margin-left: -1.5px;
  border-left: 3px dashed var(--text); }
.shares .solid .name { font-size: 1.35rem; font-weight: 600; }
.shares .solid .said { font-size: 2rem; font-weight: 600; }
.shares .solid .track { min-height: 3.8rem; }
.shares .solid .line { height: 7px; margin-top: -3.5px; }
.shares .solid .dot { width: 22px; height: 22px; margin: -11px 0 0 -11px; }
.shares .hollow .dot { background: var(--paper); }
.shares .faint .line { background: none; border-top: 3px dashed var(--mark); }
.shares .faint .dot { width: 10px; height: 10px; margin: -5px 0 0 -5px; }
.shares .bar .said { font-size: 1.3rem; font-weight: 600; }
.shares .bar .line { height: 16px; margin-top: -8px; }
.shares .bar .track { min-height: 3rem; }
.shares .numbers .track { min-height: 1.4rem; }
.shares .alike .solid .name { font-size: 1.05rem; font-weight: 400; }
.shares .alike .solid .said { font-size: 1.3rem; }
.shares .alike .solid .track { min-height: 3rem; }
@container (max-width: 620px) {
  .shares .row, .shares .alike .row { grid-template-columns: 1fr auto; }
  .shares .solid .track, .shares .alike .solid .track { min-height: 2.4rem; }
  .shares .row .track { grid-row: 2; grid-column: 1 / -1; }
  .shares .row .said { text-align: right; }
  .shares .row.numbers .track { grid-row: 1; }
}
"""


class ShareAxis(NamedTuple):
    """The axis of a row.

    Attributes:
        low, high: shares at its ends.
        ticks: shares with a number.
    """

    low: float = 0.0
    high: float = 1.0
    ticks: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)

    def to_percent(self, share: float) -> float:
        """Return the position of a share in percent; a share beyond the axis is at its end."""
        fraction = (share - self.low) / (self.high - self.low)
        return 100 * min(max(fraction, 0.0), 1.0)


SHARES = ShareAxis()
CERTAINTY = ShareAxis(0.5, 1.0, (0.5, 0.75, 1.0))


def render_shares(
    rows: Sequence[ShareRow],
    description: str,
    *,
    axis: ShareAxis = SHARES,
    equal_rows: bool = False,
) -> str:
    """Render rows over one axis.

    Args:
        rows: the rows.
        description: the same in words, for people who cannot see it.
        axis: the axis.
        equal_rows: whether no row is emphasised.
    """
    rows_html = "".join(_render_row(row, axis) for row in rows)
    return (
        f'<style>{_SHARES}</style><div class="shares" role="img"'
        f' aria-label="{escape(description)}"><div class="{"alike" if equal_rows else "first"}">'
        f"{rows_html}{_render_axis_numbers(axis)}</div></div>"
    )


def _render_row(row: ShareRow, axis: ShareAxis) -> str:
    """Render a row: its name, its marks on the axis, and its share with the interval."""
    note = f"<small>{escape(row.note)}</small>" if row.note else ""
    strong = row.mark in (Mark.ESTIMATE, Mark.PEOPLE, Mark.CERTAINTY)
    color = "usefulness" if strong else "note"
    return (
        f'<div class="row {row.mark.value}" style="--mark: var(--{color})">'
        f'<div class="name">{escape(row.name)}{note}</div>'
        f'<div class="track">{_render_ticks(axis)}{_render_marks(row, axis)}</div>'
        f'<div class="said">{format_row_share(row)}'
        f"<small>{format_row_interval(row)}</small></div></div>"
    )


def _render_ticks(axis: ShareAxis) -> str:
    """Render the vertical lines of an axis."""
    return "".join(
        f'<div class="tick" style="left: {axis.to_percent(t):.2f}%"></div>' for t in axis.ticks
    )


def _render_marks(row: ShareRow, axis: ShareAxis) -> str:
    """Render the interval as a line, the share as a dot (solid, hollow or faint), and the truth."""
    marks_html = ""
    if row.truth is not None:
        marks_html += f'<div class="truth" style="left: {axis.to_percent(row.truth):.2f}%"></div>'
    if row.interval is None:
        return marks_html
    share, low, high = row.interval
    if row.mark is Mark.CERTAINTY:
        low = axis.low
    left = axis.to_percent(low)
    right = axis.to_percent(high)
    marks_html += f'<div class="line" style="left: {left:.2f}%; width: {right - left:.2f}%"></div>'
    if row.mark is not Mark.CERTAINTY:
        marks_html += f'<div class="dot" style="left: {axis.to_percent(share):.2f}%"></div>'
    return marks_html


def _render_axis_numbers(axis: ShareAxis) -> str:
    """Render the numbers below the last row."""
    ticks_html = "".join(
        f'<div class="tick" style="left: {axis.to_percent(tick):.2f}%"><span>{100 * tick:.0f}'
        f"{' %' if tick == axis.ticks[-1] else ''}</span></div>"
        for tick in axis.ticks
    )
    return (
        '<div class="row numbers"><div></div><div'
        f' class="track">{ticks_html}</div><div></div></div>'
    )


# The question, to be read from the last row too.
LARGE = (
    "<style>.stMainBlockContainer h1 { font-size: clamp(1.75rem, 3.2vw, 3.2rem);"
    " padding: .3rem 0; }</style>"
)
_COUNTED = """
.counted { display: flex; flex-wrap: wrap; align-items: baseline; column-gap: 2rem;
  line-height: 1.1; }
.counted b { font-size: 2.4rem; font-variant-numeric: tabular-nums; }
.counted .of { font-size: 1.3rem; }
.counted .state { font-size: 1.05rem; opacity: .8; }
"""


def render_counter(counts: Iterable[tuple[str, str]], state: str) -> str:
    """Render how many have answered, large enough for the last row of the class."""
    counts_html = "".join(
        f'<div><b>{escape(number)}</b> <span class="of">{escape(label)}</span></div>'
        for number, label in counts
    )
    return (
        f'<style>{_COUNTED}</style><div class="counted">{counts_html}'
        f'<div class="state">{escape(state)}</div></div>'
    )


_COINS = """
.throws { display: flex; flex-wrap: wrap; gap: .6rem 2rem; }
.throws .sort > div { display: flex; flex-wrap: wrap; gap: .4rem 1rem; }
.throws .of { font-weight: 600; }
.throws i { display: inline-block; width: 1.6rem; height: 1.6rem; border-radius: 50%;
  border: 2px solid var(--act); margin-right: .15rem; text-align: center; line-height: 1.35rem;
  font-style: normal; font-size: .875rem; color: var(--text); background: var(--paper); }
.throws i.head { background: var(--act); color: var(--paper); }
"""


def render_coins(rule: CoinRule, description: str) -> str:
    """Render all equally likely throws of a rule, grouped by the answer that a person then shows.

    Args:
        rule: the rule.
        description: the same in words, for people who cannot see it.
    """
    throws = sorted(itertools.product("HT", repeat=rule.coins), key=lambda throw: throw.count("H"))
    faces = {"H": '<i class="head">H</i>', "T": "<i>T</i>"}
    rendered_throws = [
        (f"<span>{''.join(faces[coin] for coin in throw)}</span>", throw.count("H"))
        for throw in throws
    ]
    sorts = {
        "Show the opposite": [text for text, heads in rendered_throws if heads <= rule.heads],
        "Show your answer": [text for text, heads in rendered_throws if heads > rule.heads],
    }
    sorts_html = "".join(
        f'<div class="sort"><span class="of">{name}: {len(rendered)} of {len(throws)}</span>'
        f"<div>{''.join(rendered)}</div></div>"
        for name, rendered in sorts.items()
    )
    return (
        f'<style>{_COINS}</style><div class="throws" role="img" aria-label="{escape(description)}">'
        f"{sorts_html}</div>"
    )


_PEOPLE = """
.people { display: flex; flex-wrap: wrap; gap: .55rem; margin: .6rem 0; max-width: 32rem; }
.people i { width: 1.7rem; height: 1.7rem; border-radius: 50%; box-sizing: border-box;
  border: 3px solid var(--line); }
.people.many { gap: .3rem; } .people.many i { width: .95rem; height: .95rem; }
.people .here { background: var(--baseline); border-color: var(--baseline);
  animation: arrive .35s ease-out; }
@keyframes arrive { from { opacity: 0; transform: scale(.3); } }
@media (prefers-reduced-motion: reduce) { .people .here { animation: none; } }
"""
MAX_DOTS = 120  # of phones; the number stands beside them


def render_dots(arrived: int, total: int = 0) -> str:
    """Render a dot for each phone: filled for those that have arrived, empty for the others."""
    places = min(max(arrived, total), MAX_DOTS)
    dots = "".join(f'<i class="{"here" if k < arrived else ""}"></i>' for k in range(places))
    size = " many" if places > 40 else ""
    return f'<style>{_PEOPLE}</style><div class="people{size}" aria-hidden="true">{dots}</div>'


# --- a plan -------------------------------------------------------------------------------------

_STEP = """
.clock { display: flex; align-items: baseline; gap: .5rem; color: var(--note); }
.clock b { font-size: 2.1rem; line-height: 1; color: var(--text); }
.clock .late { margin-left: auto; }
.time { display: flex; gap: 3px; height: 12px; margin: .6rem 0; }
.time i { border-radius: 3px; background: var(--line); min-width: 3px; }
.time .done { background: var(--baseline); } .time .now { background: var(--text); }
.step h3 { font-size: .875rem; font-weight: 600; color: var(--note); margin: .7rem 0 0;
  padding: 0; }
[data-testid=stMain] h1:focus-visible { outline: none !important; }
.step p { font-size: 1.06rem; line-height: 1.36; margin: 0; }
.step .say { font-size: 1.19rem; border-left: 4px solid var(--text); padding-left: 12px; }
.step .expect { font-size: 1rem; color: var(--note); }
"""


def render_step(steps: Sequence[PlanStep], index: int) -> str:
    """Render a step of a plan for the teacher: the minute, and what to ask, say and expect."""
    step, last = steps[index], steps[-1]
    values = {"step": step, "number": index + 1, "steps": len(steps)}
    values["end"] = last.start + last.minutes
    names = {name: escape(fill_text(text, values)) for name, text in LABELS["step"].items()}
    states = ["done"] * index + ["now"] + [""] * len(steps)
    line = "".join(
        f'<i class="{state}" style="flex: {entry.minutes}"></i>'
        for entry, state in zip(steps, states, strict=False)
    )
    texts = "".join(
        f'<h3>{names[name]}</h3><p class="{name}">{escape(text)}</p>'
        for name in ("wall", "ask", "say", "expect")
        if (text := step.screen if name == "wall" else getattr(step, name))
    )
    return (
        f'<style>{_STEP}</style><div class="clock"><b>{names["minute"]}</b> {names["of"]}'
        f'<span class="late">{names["takes"]}</span></div><div class="time" role="img"'
        f' aria-label="{names["position"]}">{line}</div><div class="step">{texts}</div>'
    )


# The wall fills its window, without anything around it.
WALL = """<style>
:root { font-size: clamp(22px, 1.8vw, 34px); }
.stMainBlockContainer.stMainBlockContainer.stMainBlockContainer { max-width: none;
  padding: 1rem 1.6rem 3rem; }
[data-testid=stHeader], .st-key-share, [data-testid=stPageLink] { display: none; }
[data-testid=stMain] [data-testid=stVerticalBlock] { gap: .5rem; }
.stMainBlockContainer h1 { font-size: max(36px, 1.6rem); line-height: 1.16;
  padding: 0 0 .4rem; }
.counted b { font-size: max(40px, 1.7rem); }
.phone-link.large.large { width: min(26rem, 100%, 50vh); }
.st-key-drawing:has(.dots) { max-width: 60vw; }
.shares small, .shares .tick span, .stMain small, [data-testid=stCaptionContainer] p {
  font-size: max(22px, .8rem); }
.st-key-finding [data-testid=stMarkdownContainer] p { font-size: 1.3rem; line-height: 1.25; }
.st-key-turns.st-key-turns { position: fixed; right: 1rem; bottom: .4rem; width: auto;
  opacity: .75; }
</style>"""


# --- the way in for phones ----------------------------------------------------------------------

_LINK = """
.phone-link { background: white; color: black; border-radius: .4rem; text-align: center;
  box-sizing: border-box; padding: .3rem .3rem .5rem; font-weight: 600; line-height: 1.25;
  overflow-wrap: anywhere; }
.phone-link img { display: block; width: 100%; }
.phone-link.large { width: min(26rem, 100%, 46vh); font-size: 1.4rem; }
@media (min-width: 900px) {
  .phone-link.corner { position: fixed; z-index: 5; right: 1.2rem; top: 4.6rem; width: 12.5rem; }
  .folded-link { display: none; }
  .stMainBlockContainer:has(.corner) { padding-right: 15.5rem; }
}
@media (max-width: 899.98px) { .phone-link.corner { display: none; } }
"""


def render_phone_link(link: str, *, large: bool) -> str:
    """Render the link as a QR code with its address.

    Args:
        link: the address.
        large: whether it is shown alone; otherwise it is in a corner of the projector, or folded
            where there is no room.
    """
    code = segno.make(link, micro=False, error="m")
    source = code.svg_data_uri(border=3, dark="black", light="white", omitsize=True)
    address = escape(link.removeprefix("http://"))
    link_html = f'<img src="{source}" alt="QR code of {escape(link)}"><div>{address}</div>'
    if large:
        return f'<style>{_LINK}</style><div class="phone-link large">{link_html}</div>'
    return (
        f'<style>{_LINK}</style><div class="phone-link corner">{link_html}</div>'
        '<details class="folded-link"><summary>Open on a phone</summary>'
        f'<div class="phone-link large">{link_html}</div></details>'
    )


# --- a slide of a lesson ------------------------------------------------------------------------

VEILED = "veiled"  # key of a picture before the answer


def show_reveal(reveal: Reveal, projector: bool, key: str = "drawing") -> None:
    """Show what the step reveals; on a projector, without a need to scroll."""
    first, *other_sentences = reveal.sentences
    with st.container(key="finding"):
        st.markdown(f"**{keep_units(escape_markdown(first))}**")
    if projector and reveal.picture is not None:
        drawing, sentences = st.columns([5, 3], gap="medium")
    else:
        drawing, sentences = st.container(), st.container()
    with sentences:
        for sentence in other_sentences:
            st.markdown(escape_markdown(sentence))
    with drawing:
        if reveal.picture is not None:
            draw_picture(reveal.picture, key)
    with sentences if projector else drawing:
        if reveal.note:
            st.caption(escape_markdown(reveal.note))
        if reveal.picture is not None and not projector:
            blocks.show_chart_numbers(reveal.picture.description, reveal.picture.table(), "picture")


def draw_picture(picture: pictures.Picture, key: str) -> None:
    """Draw a picture, or what can be seen of it before the answer."""
    drawing = pictures.render_picture(picture)
    if key == VEILED:  # no text alternative says what is hidden
        drawing = f'<div class="drawing veiled" aria-hidden="true">{picture.to_html()}</div>'
    with st.container(key=key):
        st.html(f"<style>{pictures.STYLE_SHEET}</style>{drawing}")
