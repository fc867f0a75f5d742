"""Show blocks that several pages use: charts with their text, guarantees, progress and errors."""

import dataclasses
import logging
import shlex
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

# plotly looks into pandas wherever another session has begun to import it, and fails on the half
# of it that is there: so it is imported before the first figure, once, behind the import lock.
import pandas  # noqa: F401
import streamlit as st
from plotly.basedatatypes import BaseFigure
from streamlit.delta_generator import DeltaGenerator

from dpmc_core.errors import DpmcError, capitalise, format_sentence
from dpmc_core.experiment import EVALUATION_ONLY
from dpmc_core.privacy import Guarantee
from dpmc_lab import citation
from dpmc_lab.measured import MeasuredBound
from dpmc_lab.store import guard_formula
from dpmc_lab.views import cards, lines, measurements
from dpmc_lab.views.lines import CurveChart, EpsilonUnit
from pages.ui import classroom, report, sources, state
from pages.ui.charts import Figure
from pages.ui.jobs import MAX_RUNNING_JOBS, Job, Snapshot
from pages.ui.report import Exhibit
from pages.ui.session import session
from pages.ui.text import escape, keep_units

EVALUATION = format_sentence(EVALUATION_ONLY)
# SVG, which st.html leaves out. A click on what has data-open reports its value.
_drawing = st.components.v2.component(
    "drawing",
    html="<div></div>",
    js="""export default function ({ data, parentElement, setTriggerValue }) {
  const place = parentElement.querySelector("div");
  if (place.shown !== data) place.innerHTML = place.shown = data;
  place.onclick = event => {
    const link = event.target.closest("[data-open]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    setTriggerValue("opened", link.dataset.open);
  };
}""",
    isolate_styles=False,
)
# A file is printed in a frame that nobody sees, by the dialog of the browser.
_print_button = st.components.v2.component(
    "print",
    html="<button type='button'></button>",
    css="""button { font: inherit; color: inherit; background: none; cursor: pointer; width: 100%;
  min-height: 2.5rem; padding: .25rem .9rem; border: 1px solid var(--line);
  border-radius: var(--st-button-radius); }
button:hover { border-color: var(--act); color: var(--act); }
button:focus-visible { outline: 2px solid var(--act); outline-offset: 2px; }""",
    js="""export default function ({ data, parentElement }) {
  const button = parentElement.querySelector("button");
  button.textContent = data.label;
  button.onclick = () => {
    const frame = document.createElement("iframe");
    frame.title = data.label;
    frame.style.cssText = "position: fixed; width: 0; height: 0; border: 0; visibility: hidden";
    frame.srcdoc = data.page;
    frame.onload = () => {
      frame.contentWindow.onafterprint = () => setTimeout(() => frame.remove(), 1000);
      frame.contentWindow.focus();
      frame.contentWindow.print();
    };
    document.body.append(frame);
  };
}""",
)
_MESSAGE_TIMEOUT = 3.0  # seconds that a page waits to hear whether a file could be made
_PLOTLY_CONFIG = {"displayModeBar": False}  # a picture is saved by Download


class _PrebuiltFigure(BaseFigure):
    """A figure that Streamlit accepts as it is; it would have Plotly check a plain dictionary."""

    def __init__(self, figure_dict: dict[str, Any]) -> None:
        vars(self)["figure_dict"] = figure_dict

    def to_dict(self) -> dict[str, Any]:
        """Return the figure as Plotly's dictionary."""
        figure_dict: dict[str, Any] = self.figure_dict
        return figure_dict


def show_drawing(html: str, key: str, on_open: Callable[[str], None] | None = None) -> None:
    """Show HTML with SVG, which is trusted.

    Args:
        html: the drawing.
        key: of the drawing.
        on_open: called with the value of `data-open` of what is clicked.
    """

    def report_click() -> None:
        if on_open is not None and (value := st.session_state[key].opened):
            on_open(value)

    _drawing(data=html, key=key, on_opened_change=report_click)


def show_print_button(label: str, page: str, key: str) -> None:
    """Show a button that prints an HTML page by the browser's own dialog."""
    _print_button(data={"label": label, "page": page}, key=key)


def lay_out_row(**options: Any) -> DeltaGenerator:
    """Lay out a row, in which everything stands at the same height."""
    return st.container(horizontal=True, vertical_alignment="center", **options)


def show_heading(title: str, sentence: str) -> None:
    """Show the title of the page and one sentence on what to do there."""
    st.title(title)
    st.markdown(sentence)


def show_headline(sentence: str, key: str | None = None, **options: Any) -> None:
    """Show a sentence as plain text, as large as a heading.

    Args:
        sentence: the sentence.
        key: "answer" if it answers the page; "title", or a key that begins so, if it is what a
            chart concludes.
        **options: of the heading.
    """
    st.container(key=key).header(keep_units(escape(sentence)), **options)


@contextmanager
def show_errors_in(container: Any) -> Iterator[None]:
    """Show an error of the data or the settings in a container, instead of the rest of a block."""
    try:
        yield
    except (DpmcError, OSError) as error:
        with container:
            show_error(error)


def show_bullets(sentences: Iterable[str]) -> None:
    """Show sentences as plain text in a list."""
    st.markdown("\n".join(f"- {escape(sentence)}" for sentence in sentences))


def show_error(error: Exception) -> None:
    """Show an error as a sentence."""
    st.error(escape(format_sentence(str(error))), icon=":material/error:")


def render_safely(section: str, body: Callable[..., Any], *args: Any) -> Any:
    """Draw one part of a page by `body(*args)`, and return its result.

    If it fails, one sentence takes its place, the rest of the page continues, and the fault is
    logged once.

    Args:
        section: name of the part, for the sentence and the log.
        body: draws the part.
        *args: its arguments.
    """
    try:
        return body(*args)
    except Exception as error:
        log_once(section, error)
        st.warning(
            f"{section} cannot be shown because of a fault in the program. Everything else works.",
            icon=":material/error:",
        )
        return None


def log_once(section: str, error: Exception) -> None:
    """Log the fault that removed a part of a page, unless the same fault was logged before."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    fault = section, frame.filename, frame.lineno
    if fault not in _logged_faults:
        _logged_faults.add(fault)
        logging.getLogger(__name__).error("%s of a page failed", section, exc_info=error)


_logged_faults: set[tuple[object, ...]] = set()  # faults


def is_reserved_for_teacher(action: str, alternative: str) -> bool:
    """Return whether only the teacher may do something; if so, say what others can do."""
    if classroom.is_teacher():
        return False
    st.info(
        f"A class is on: only the teacher may {action}. {alternative}", icon=":material/groups:"
    )
    return True


def show_figure(
    fig: Figure,
    *,
    alt: str,
    key: str | None = None,
    config: Mapping[str, Any] = _PLOTLY_CONFIG,
    **options: Any,
) -> None:
    """Show a chart without its text and table, for pages that show these elsewhere.

    Args:
        fig: the chart.
        alt: its text alternative.
        key: a name of the chart that is unique on the page.
        config: options of Plotly's toolbar.
        **options: of Streamlit's chart.
    """
    prebuilt = _PrebuiltFigure(fig.to_plotly(state.get_theme()))
    st.plotly_chart(prebuilt, theme=None, alt=alt, config=dict(config), key=key, **options)


def show_chart(
    fig: Figure,
    *,
    alt: str,
    table: Mapping[str, Sequence[Any]] | None,
    key: str,
    caption: str = "",
) -> None:
    """Show a chart with its text alternative and, in an expander, its table.

    Args:
        fig: the chart.
        alt: its text alternative.
        table: its numbers.
        key: a name of the chart that is unique on the page.
        caption: plain text.
    """
    show_figure(fig, alt=alt, key=key)
    if caption:
        st.caption(escape(caption))
    show_chart_numbers(alt, table, key)


def show_chart_numbers(alt: str, table: Mapping[str, Sequence[Any]] | None, key: str) -> None:
    """Show the text alternative and the table of one chart, or of several, in an expander.

    The table is drawn only when the expander is opened, so that a first view need not wait for it.
    """

    def show_details() -> None:
        """Show the text and the table."""
        st.text(alt)
        if table is not None:
            show_table(table, alt=f"Numbers of the chart: {alt}")

    label = "The chart in words and numbers"
    show_expander(label, show_details, key=f"{key} table", type="compact")


def show_exhibits(exhibits: Sequence[Exhibit]) -> None:
    """Show charts side by side, each under its title."""
    for column, exhibit in zip(st.columns(len(exhibits), gap="large"), exhibits, strict=True):
        with column:
            st.subheader(escape(exhibit.title))
            if exhibit.fig is None:
                st.caption(escape(exhibit.caption))
            else:
                show_chart(
                    exhibit.fig,
                    alt=exhibit.alt,
                    key=exhibit.key,
                    caption=exhibit.caption,
                    table=exhibit.table,
                )


def show_expander(
    label: str, body: Callable[[], object], *, key: str | None, opened_by: str = "", **options: Any
) -> None:
    """Show an expander for what few people need.

    With a key its content is drawn only when it is opened.

    Args:
        label: its label.
        body: draws the content.
        key: of the expander.
        opened_by: key of a choice inside; a link with this choice opens the expander.
        **options: of the expander.
    """
    options["expanded"] = bool(opened_by) and (
        opened_by in st.session_state or opened_by in st.query_params
    )
    expander = st.expander(label, key=key, on_change="rerun" if key else "ignore", **options)
    if key is None or expander.open:
        with expander:
            body()


def show_table(columns: Mapping[str, Sequence[Any]], **options: Any) -> None:
    """Show a table by its columns, which people can download as CSV."""
    safe_columns = {
        guard_formula(name): [guard_formula(v) for v in values] for name, values in columns.items()
    }
    for name, column_options in options.get("column_config", {}).items():
        if isinstance(column_options.get("width"), int):  # its head is never cut off
            column_options["width"] = max(column_options["width"], 20 + 7 * len(name))
    st.dataframe(safe_columns, hide_index=True, **options)


def show_guarantee(privacy_guarantee: Guarantee, id: str) -> None:
    """Show a mechanism's guarantee: what is protected, claimed, proved and measured."""
    description = cards.build_privacy_card(privacy_guarantee, columns=sources.get_column_roles())
    measurement = find_measurement(
        id, privacy_guarantee.claimed.epsilon if privacy_guarantee.claimed else 1.0
    )
    st.markdown(f"**{description.protects}**")
    certified_budget = privacy_guarantee.certified()
    unit = privacy_guarantee.change.label
    proved = cards.format_budget(certified_budget.epsilon, certified_budget.delta)
    if description.upheld:
        st.badge(f"proved: epsilon {proved} {unit}", icon=":material/verified:", color="green")
    else:
        claimed = (
            cards.format_budget(*dataclasses.astuple(privacy_guarantee.claimed))
            if privacy_guarantee.claimed
            else "none"
        )
        refuted = is_mechanism_refuted(id)
        st.badge(
            f"{'refuted: ' * refuted}claimed {claimed}, proved {proved} {unit}",
            icon=":material/cancel:" if refuted else ":material/radio_button_unchecked:",
            color="red" if refuted else "orange",
        )
    for name, text in description.details[
        2 if certified_budget.finite else 1 :
    ]:  # the badge says the first ones
        st.caption(f"**{capitalise(name)}**: {escape(format_sentence(text))}")
    if measurement is not None:
        st.caption(
            f"**Measured on invented ratings at epsilon {measurement.epsilon:g}**:"
            f" {escape(measurements.format_measured_bound(measurement))}."
        )
    show_paper_links(id)


def show_paper_links(id: str) -> None:
    """Link to what we found of the papers whose experiments run a mechanism."""
    for paper in citation.find_papers_running([id]):
        query = {"paper": paper.key.lower()}
        st.page_link("pages/papers.py", label=f"Its paper: {paper.label}", query_params=query)


def list_attacks(id: str) -> list[MeasuredBound]:
    """Return the measured bounds of a mechanism: the shipped one, then those of this session."""
    candidates = (measurements.find_default_measured_bound(id), *session.attacks.values())
    return [attack for attack in candidates if attack is not None and attack.mechanism == id]


def is_mechanism_refuted(id: str) -> bool:
    """Return whether an attack measured more than a mechanism claims, at any epsilon."""
    return any(map(measurements.is_refuted, list_attacks(id)))


def find_measurement(id: str, epsilon: float) -> MeasuredBound | None:
    """Return the newest measured bound of a mechanism at an epsilon.

    Without one, the result is the first bound at another epsilon, which is the shipped one if there
    is one; None without any.
    """
    matching_attacks = list_attacks(id)
    at_epsilon = [
        attack for attack in matching_attacks if attack.epsilon == epsilon
    ] or matching_attacks[:1]
    return at_epsilon[-1] if at_epsilon else None


class File(NamedTuple):
    """A file to download.

    Attributes:
        label: text of its button.
        name: of the file.
        mime: type of its content.
        make: makes the content when the file is requested.
    """

    label: str
    name: str
    mime: str
    make: Callable[[], str | bytes]


def show_download_button(file: File) -> None:
    """Show the button that makes and saves a file, and the reason if that fails.

    The file is made in a thread without the session, while the page is drawn again for the click.
    """
    messages: SimpleQueue[str] = state.memoize(f"download {file.label}", None, SimpleQueue)

    def make() -> str | bytes:
        """Make the file's content, and pass on why it failed, or an empty message."""
        message = "Something went wrong inside the program; the server's log has details."
        try:
            content = file.make()
            message = ""
        except (DpmcError, OSError) as error:
            message = format_sentence(str(error))
            raise
        finally:
            messages.put(message)
        return content

    pressed = st.download_button(file.label, make, file.name, file.mime, width="stretch")
    with suppress(Empty):
        if message := messages.get(pressed, _MESSAGE_TIMEOUT):  # of an earlier one at least
            st.error(escape(f"{file.label} could not be made. {message}"))


def show_downloads(
    *files: File,
    chart: CurveChart | None = None,
    figure: tuple[str, Figure] | None = None,
    argv: Sequence[str] = (),
    displayed_argv: Sequence[str] = (),
    note: str = "",
) -> None:
    """Show all downloads of a result behind one button, with the command that computes it.

    Args:
        *files: files to download.
        chart: curves of the result, offered as a page with their picture, as numbers and as a
            citation; a file of the same name among `files` replaces one of these.
        figure: the picture of the page with its title, offered as a page.
        argv: the command of the curves.
        displayed_argv: the command to show, if it is another one.
        note: what one must know about a file.
    """
    if not classroom.is_teacher():
        return
    stem = files[0].name.rpartition(".")[0] if files else "curve"
    all_files = [*files]
    if figure is not None:
        title, drawn = figure
        all_files.append(
            File(
                "Picture (HTML)",
                f"{stem if files else 'picture'}.html",
                "text/html",
                lambda: report.render_figure_page(title, drawn, shlex.join(argv)),
            )
        )
    curves = chart is not None and chart.lines
    if curves:
        placed_lines = [lines.place_on_axis(entry, EpsilonUnit.PAPER) for entry in chart.lines]
        curve_files = [
            File(
                "Picture (HTML)",
                f"{stem}-picture.html",
                "text/html",
                lambda: report.render_picture_page(chart, shlex.join(argv)),
            ),
            File(
                "Numbers (CSV)",
                f"{stem}.csv",
                "text/csv",
                lambda: report.format_csv(lines.tabulate_chart(placed_lines, numbers_only=True)),
            ),
        ]
        all_files += [
            entry for entry in curve_files if entry.name not in {file.name for file in files}
        ]
    with st.popover("Download", icon=":material/download:"):
        for entry in all_files:
            show_download_button(entry)
        if note:
            st.caption(escape(note))
        if argv:
            st.caption("The command that does the same")
            st.code(shlex.join(displayed_argv or argv), language="bash", wrap_lines=True)
        if curves:
            st.caption("Cite this curve")
            st.code(
                report.format_citation(chart, shlex.join(argv)), language="latex", wrap_lines=True
            )


def show_stop_button(job: Job | None, now: Snapshot) -> None:
    """Show the button that stops a job."""
    st.button(
        "Stop",
        icon=":material/stop:",
        on_click=job.cancel if job is not None and now.active else None,
        disabled=not now.active or now.stopping,
    )


def show_job_progress(now: Snapshot) -> None:
    """Show the progress of a running job, or why it failed or was stopped."""
    label = escape(now.label)
    if not now.active:
        if now.message:
            (st.error if now.state == "failed" else st.warning)(escape(now.message))
        return
    if now.stopping:
        message = f"stopping … {label}".strip()
    elif now.state == "queued":
        message = f"Place {now.ahead + 1} in the queue. {MAX_RUNNING_JOBS} such jobs run at a time."
    elif now.paused:
        message = f"paused · {label}"
    else:
        time_left = (
            ""
            if now.seconds_left is None
            else f" · at most about {format_duration(now.seconds_left)} left"
        )
        message = f"{label or 'starting'}{time_left}"
    st.progress(now.share, text=message)


def format_duration(seconds: float) -> str:
    """Return a duration for people, in minutes from a minute and a half on."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def poll_job(job: Job | None, first: Snapshot, draw: Callable[[Snapshot], None]) -> None:
    """Call `draw(snapshot)` every half second while a job runs, and once after it.

    The page is drawn again when the job has its first result, and when it is over, even if that
    happened while the page was drawn.

    Args:
        job: the job, or None.
        first: the snapshot that the rest of the page shows.
        draw: draws a snapshot.
    """
    if job is None:
        return
    running = first.active
    interval = 0.5 if first.result is None else 1.0  # every tick takes time from the job

    @st.fragment(run_every=interval if running else None)
    def panel() -> None:
        """Draw the job's current snapshot, or the whole page again if it has changed state."""
        now = job.snapshot()
        if running and (not now.active or (first.result is None and now.result is not None)):
            st.rerun()
        draw(now)

    panel()
