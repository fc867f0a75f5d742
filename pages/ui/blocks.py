"""Blocks that several pages show: charts with their words, guarantee cards, progress, errors."""

from __future__ import annotations

import dataclasses
import logging
import shlex
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

# plotly looks into pandas wherever another session has begun to import it, and fails on the half
# of it that is there: so it is imported before the first figure, once, behind the import lock.
import pandas  # noqa: F401
import streamlit as st
from plotly.basedatatypes import BaseFigure

from dpmc_core.errors import DpmcError, capital, sentence
from dpmc_core.experiment import EVALUATION_ONLY
from dpmc_core.privacy import Guarantee
from dpmc_lab.curves import cards, lines, measurements
from dpmc_lab.curves.lines import Count, Picture
from dpmc_lab.measured import Shipped
from dpmc_lab.store import guarded
from pages.ui import classroom, report, sources, state
from pages.ui.charts import Figure
from pages.ui.jobs import AT_ONCE, Job, Snapshot
from pages.ui.report import Exhibit
from pages.ui.text import escape

EVALUATION = sentence(EVALUATION_ONLY)
ATTACKS = "attacks"  # of this session, by mechanism and epsilon
_NEWS = 3.0  # seconds that a page waits to hear whether a file could be made
# One tool, always in sight: it saves the picture.
_TOOLS = {"displaylogo": False, "displayModeBar": True, "modeBarButtons": [["toImage"]]}


class _Ready(BaseFigure):
    """A figure that Streamlit takes as it is: a bare dictionary it would have Plotly check."""

    def __init__(self, drawn: dict[str, Any]) -> None:
        vars(self)["drawn"] = drawn

    def to_dict(self) -> dict[str, Any]:
        figure_dict: dict[str, Any] = self.drawn
        return figure_dict


def heading(title: str, sentence: str) -> None:
    """The page's title and the one sentence that says what to do here."""
    st.title(title)
    st.markdown(sentence)


def problem(error: Exception) -> None:
    """An error as a sentence."""
    st.error(escape(sentence(str(error))), icon=":material/error:")


def show_safely(part: str, body: Callable[..., Any], *args: Any) -> Any:
    """Show one part of a page and return its result; where it fails, one sentence stands there,
    the rest of the page goes on, and the fault is logged once."""
    try:
        return body(*args)
    except Exception as error:
        log_once(part, error)
        st.warning(
            f"{part} cannot be shown because of a fault in the program. Everything else works.",
            icon=":material/error:",
        )
        return None


def log_once(section: str, error: Exception) -> None:
    """Log what took a part of a page away, unless the same fault is in the log."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    fault = section, frame.filename, frame.lineno
    if fault not in _logged:
        _logged.add(fault)
        logging.getLogger(__name__).error("%s of a page failed", section, exc_info=error)


_logged: set[tuple[object, ...]] = set()  # faults


def reserved(what: str, instead: str) -> bool:
    """Whether something is the teacher's alone here; a sentence says so, and what others can do."""
    if classroom.allowed():
        return False
    st.info(f"A class is on: only the teacher may {what}. {instead}", icon=":material/groups:")
    return True


def picture(
    fig: Figure,
    *,
    alt: str,
    key: str | None = None,
    config: Mapping[str, Any] = _TOOLS,
    **options: Any,
) -> None:
    """A chart alone, where its words and numbers stand beside it."""
    prebuilt = _Ready(fig.on(state.theme()))
    st.plotly_chart(prebuilt, theme=None, alt=alt, config=dict(config), key=key, **options)


def chart(
    fig: Figure,
    *,
    alt: str,
    caption: str = "",
    table: Mapping[str, Sequence[Any]] | None = None,
    key: str | None = None,
) -> None:
    """A chart with its text alternative and, folded beneath it, its table.

    caption: plain text. key: a name of the chart that is its own on the page. With it the table is
    built only when it is unfolded, so that a first view need not wait for what tables bring along.
    """
    picture(fig, alt=alt, key=key)
    if caption:
        st.caption(escape(caption))
    numbers(alt, table, key)


def numbers(
    alt: str, table: Mapping[str, Sequence[Any]] | None = None, key: str | None = None
) -> None:
    """What one chart shows, or several together, folded: the words, and the table."""

    def unfolded() -> None:
        st.text(alt)
        if table is not None:
            show_table(table, alt=f"Numbers of the chart: {alt}")

    label = "The chart in words and numbers"
    folded(label, unfolded, key=key and f"{key} table", type="compact")


def beside(exhibits: Sequence[Exhibit]) -> None:
    """Charts side by side, each under its question."""
    for column, exhibit in zip(st.columns(len(exhibits), gap="large"), exhibits, strict=True):
        with column:
            if exhibit.question:
                st.subheader(escape(exhibit.question), anchor=False)
            if exhibit.fig is None:
                st.caption(escape(exhibit.caption))
            else:
                chart(
                    exhibit.fig,
                    alt=exhibit.alt,
                    key=exhibit.key,
                    caption=exhibit.caption,
                    table=exhibit.table,
                )


def folded(
    label: str, body: Callable[[], object], *, key: str | None, holds: str = "", **options: Any
) -> None:
    """What few need; with a key it is made only when it is unfolded.

    holds: a choice in it: a link with that finds it unfolded.
    """
    options["expanded"] = bool(holds) and (holds in st.session_state or holds in st.query_params)
    expander = st.expander(label, key=key, on_change="rerun" if key else "ignore", **options)
    if key is None or expander.open:
        with expander:
            body()


def show_table(columns: Mapping[str, Sequence[Any]], *, place: Any = st, **options: Any) -> None:
    """A table by its columns, which people may take along as CSV."""
    safe_columns = {guarded(name): [guarded(v) for v in values] for name, values in columns.items()}
    for name, column_options in options.get("column_config", {}).items():
        if isinstance(column_options.get("width"), int):  # its head is never cut off
            column_options["width"] = max(column_options["width"], 20 + 7 * len(name))
    place.dataframe(safe_columns, hide_index=True, **options)


def guarantee(privacy_guarantee: Guarantee, id: str) -> None:
    """The card of a mechanism: what is protected, claimed, certified and measured, and what that
    means for an attacker."""
    shown, found = (
        cards.card(privacy_guarantee, columns=sources.columns()),
        measured(id, privacy_guarantee.claimed.epsilon if privacy_guarantee.claimed else 1.0),
    )
    st.markdown(f"**{shown.protects}**")
    certified_budget, unit = privacy_guarantee.certified(), privacy_guarantee.change.label
    proved = cards.budget_text(certified_budget.epsilon, certified_budget.delta)
    if shown.upheld:
        st.badge(f"certified: epsilon {proved} {unit}", icon=":material/verified:", color="green")
    else:
        claimed = (
            cards.budget_text(*dataclasses.astuple(privacy_guarantee.claimed))
            if privacy_guarantee.claimed
            else "none"
        )
        refuted = any(map(measurements.refuted, attacks(id)))
        st.badge(
            f"{'refuted: ' * refuted}claimed {claimed}, certified {proved} {unit}",
            icon=":material/cancel:" if refuted else ":material/radio_button_unchecked:",
            color="red" if refuted else "orange",
        )
    for name, text in shown.facts[
        2 if certified_budget.finite else 1 :
    ]:  # the badge says the first ones
        st.caption(f"**{capital(name)}**: {escape(sentence(text))}")
    if found is not None:
        st.caption(
            f"**Measured**: {escape(measurements.tick(found))}, set to epsilon {found.epsilon:g}."
        )


def attacks(id: str) -> list[Shipped]:
    """What attacks found of a mechanism: the one that ships, then this session's."""
    session_attacks: dict[object, Shipped] = st.session_state.get(ATTACKS, {})
    candidates = (measurements.shipped_of(id), *session_attacks.values())
    return [attack for attack in candidates if attack is not None and attack.mechanism == id]


def measured(id: str, epsilon: float) -> Shipped | None:
    """What the last attack found at an epsilon, else what ships of another one."""
    matching_attacks = attacks(id)
    at_epsilon = [
        attack for attack in matching_attacks if attack.epsilon == epsilon
    ] or matching_attacks[:1]
    return at_epsilon[-1] if at_epsilon else None


class File(NamedTuple):
    """What may be taken along. make: called when it is asked for."""

    label: str
    name: str
    mime: str
    make: Callable[[], str | bytes]


def download(one: File) -> None:
    """The button that makes and saves a file; where it fails, a sentence says why.

    The file is made in a thread without the session, while the page is drawn again for the click.
    """
    messages: SimpleQueue[str] = state.kept(f"download {one.label}", None, SimpleQueue)

    def make() -> str | bytes:
        message = "Something went wrong inside the program; the server's log has details."
        try:
            content, message = one.make(), ""
        except (DpmcError, OSError) as error:
            message = sentence(str(error))
            raise
        finally:
            messages.put(message)
        return content

    pressed = st.download_button(one.label, make, one.name, one.mime, width="stretch")
    with suppress(Empty):
        if message := messages.get(pressed, _NEWS):  # of an earlier one at least
            st.error(escape(f"{one.label} could not be made. {message}"))


def take(
    *files: File,
    picture: Picture | None = None,
    argv: Sequence[str] = (),
    shown: Sequence[str] = (),
    note: str = "",
) -> None:
    """All that a result can be taken along as, behind one button; what computes it.

    picture: curves among it, as a page with their picture, numbers, and how to cite them; a file of
    the same name among `files` takes the place of one of these. shown: the command to show, where
    it is not that of the curves. note: what one must know of a file.
    """
    if not classroom.allowed():
        return
    stem = files[0].name.rpartition(".")[0] if files else "curve"
    all_files = [*files]
    curves = picture is not None and picture.lines
    if curves:
        placed_lines = [lines.place(entry, Count.PAPER) for entry in picture.lines]
        curve_files = [
            File(
                "Picture (HTML)",
                f"{stem}-picture.html",
                "text/html",
                lambda: report.picture_page(picture, shlex.join(argv)),
            ),
            File(
                "Numbers (CSV)",
                f"{stem}.csv",
                "text/csv",
                lambda: report.csv(lines.table(placed_lines, bare=True)),
            ),
        ]
        all_files += [
            entry for entry in curve_files if entry.name not in {file.name for file in files}
        ]
    with st.popover("Download", icon=":material/download:"):
        for entry in all_files:
            download(entry)
        if note:
            st.caption(escape(note))
        if argv:
            st.caption("The command that does the same")
            st.code(shlex.join(shown or argv), language="bash", wrap_lines=True)
        if curves:
            st.caption("Cite this curve")
            st.code(report.cited(picture, shlex.join(argv)), language="latex", wrap_lines=True)


def start_and_stop(job: Job | None, now: Snapshot, label: str, icon: str) -> bool:
    """The buttons of a job; whether it is to start."""
    with st.container(horizontal=True):
        start = st.button(label, type="primary", icon=icon, disabled=now.active)
        stop(job, now)
    return start


def stop(job: Job | None, now: Snapshot) -> None:
    """The button that ends a job."""
    st.button(
        "Stop",
        icon=":material/stop:",
        on_click=job.cancel if job is not None and now.active else None,
        disabled=not now.active or now.stopping,
    )


def progress_or_problem(now: Snapshot) -> None:
    """How far a job is while it runs, in words and as a bar; a sentence when it failed or was
    stopped."""
    label = escape(now.label)
    if not now.active:
        if now.message:
            (st.error if now.state == "failed" else st.warning)(escape(now.message))
        return
    if now.stopping:
        message = f"stopping … {label}".strip()
    elif now.state == "queued":
        message = f"place {now.ahead + 1} in the queue: {AT_ONCE} run at a time"
    elif now.paused:
        message = f"paused · {label}"
    else:
        left = "" if now.left is None else f" · at most about {duration(now.left)} left"
        message = f"{label or 'starting'}{left}"
    st.progress(now.share, text=message)


def duration(seconds: float) -> str:
    """A duration for people."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def ticking(job: Job | None, first: Snapshot, draw: Callable[[Snapshot], None]) -> None:
    """Draw `body(snapshot)` every half second while a job runs, and once after it.

    first: what the page around it shows. The page is drawn anew when the job has a first result,
    and when it is over: be it while the page was drawn.
    """
    if job is None:
        return
    running = first.active
    interval = 0.5 if first.result is None else 1.0  # every tick takes time from the job

    @st.fragment(run_every=interval if running else None)
    def panel() -> None:
        now = job.snapshot()
        if running and (not now.active or (first.result is None and now.result is not None)):
            st.rerun()
        draw(now)

    panel()
