"""Lead from an uploaded file to ratings: choose how it is read, read it, or say why it cannot be.

An upload never leaves its session.
"""

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any, NamedTuple

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from dpmc_core.errors import DpmcError
from dpmc_data import LoadedDataset, datasets, features
from dpmc_data.memory import MemoryLimit, explain_limit
from dpmc_data.source import (
    MEGABYTE,
    NO_COLUMN,
    SEPARATORS,
    USUAL_BYTES,
    USUAL_ROWS,
    BadRows,
    Duplicates,
    Fault,
    Refused,
    Source,
)
from dpmc_lab.sweep.grid import format_command_options
from pages.ui import blocks, runs, sources, state
from pages.ui.jobs import READING_SLOTS
from pages.ui.session import Session, session
from pages.ui.text import escape

MAX_MEGABYTES = 200
MAX_ROWS = 5_000_000
MAX_EXAMINED_BYTES = 25 * MEGABYTE  # of a file, which is read once for each reading
MAX_RECOGNITIONS = 8  # kept of a file, for a person who tries options and goes back
GUESS = "guess"  # leaves an option to the reader
READING = "reading"  # the job that reads an upload
ROLES = {"user": "Users", "item": "Items", "rating": "Ratings", "time": "Times"}
NO_COLUMN_LABELS = {
    "rating": {NO_COLUMN: "none: each row is a click"},
    "time": {NO_COLUMN: "none"},
}
SCALE, OTHER_SCALE = "Possible ratings", "Others"
SCALES = {"1 to 5": (1.0, 5.0), "0.5 to 5": (0.5, 5.0), "1 to 10": (1.0, 10.0)}
SCALES |= {"0 to 1": (0.0, 1.0), "0 to 10": (0.0, 10.0), "0 to 100": (0.0, 100.0)}
# Options of reading with a usual answer: label of the control, and the choices.
RULES = {
    "encoding": (
        "Encoding",
        {GUESS: "UTF-8", "cp1252": "Western (Windows)", "latin-1": "Western (ISO)"},
    ),
    "separator": ("Separator", {GUESS: "as found"} | {name: name for name in SEPARATORS}),
    "header": (
        "First line",
        {GUESS: "as found", "yes": "names the columns", "no": "is a rating"},
    ),
    "layout": (
        "Each line",
        {
            GUESS: "as found",
            "rows": "is one rating",
            "wide": "is a user, a column for each item",
            "transposed": "is an item, a column for each user",
            "adjacency": "is a user and then the items",
        },
    ),
    "duplicates": (
        "A pair of user and item that appears twice",
        {
            GUESS: "tell me and stop",
            Duplicates.LAST.value: "keep the latest",
            Duplicates.MEAN.value: "take their mean",
        },
    ),
    "bad_rows": (
        "Rows without a usable rating",
        {GUESS: "tell me and stop", BadRows.LEAVE_OUT.value: "leave them out"},
    ),
}
CONTROLS = ROLES | {option: label for option, (label, _) in RULES.items()} | {"range": SCALE}
# What a reading may offer besides, which has no control here.
OFFERS = {"values": "Words are ratings", "missing": "Not rated", "event": "Rows that count"}


def ask_for_file() -> UploadedFile | None:
    """Show the uploader, and return a file that waits to be read."""
    if blocks.is_reserved_for_teacher("upload files", "The samples are for everybody."):
        return None
    file = st.file_uploader(
        "A file of ratings",
        max_upload_size=MAX_MEGABYTES,
        key=f"file {session.uploads_forgotten}",
        help="CSV, TSV, “::”, JSON, Parquet, Excel or OpenDocument sheets, MovieLens or Jester."
        f" Up to {MAX_MEGABYTES} MB and {MAX_ROWS:,} ratings, less if memory is short. Each line is"
        " one rating, or a user with a column for each item. The first line may name the columns."
        " User and item alone are clicks.",
        on_change=Session.waiting_file.forget,
    )
    st.caption("Only this session uses it. Closing the tab removes it.")
    waiting: UploadedFile | None = file or session.waiting_file
    if waiting and waiting.file_id == session.file_read:
        waiting = None
    session.waiting_file = waiting
    if waiting and not file:
        label = f"Forget {escape(waiting.name)}"
        st.button(label, icon=":material/delete:", on_click=forget_waiting_file)
    if session.upload is not None:
        with st.container(horizontal=True):
            st.button("Forget this upload", icon=":material/delete:", on_click=clear_uploader)
            if file and not waiting:
                st.button("Read it differently", on_click=Session.file_read.forget)
    return waiting


def clear_uploader() -> None:
    """Forget the upload, and empty the uploader."""
    state.get_jobs().drop(READING)
    del session.waiting_file
    sources.forget_upload()
    # A new key empties the uploader, which would otherwise still hold the file.
    session.uploads_forgotten += 1


def forget_waiting_file() -> None:
    """Forget a file that waits to be read, and what was recognised of it."""
    del session.waiting_file
    state.clear_memoized()


class Recognition(NamedTuple):
    """What was recognised of a file with some options, before it is read.

    Attributes:
        layout: its columns and first rows in the likeliest reading; None if there is none.
        examination: its possible readings; none if it is too long to compare them.
        refusal: why it cannot be read, if so.
    """

    layout: datasets.Layout | None
    examination: datasets.Examination
    refusal: DpmcError | None = None


def recognise_file(
    content: bytes, name: str, options: Mapping[str, Any], max_examined: float
) -> Recognition:
    """Recognise a file, and compare its readings unless it is longer than `max_examined` bytes."""
    examination = datasets.Examination(name, (), needs_range=True)
    try:
        if len(content) <= max_examined:
            examination = datasets.examine_upload(content, name, **options)
        return Recognition(datasets.preview_upload(content, name, **options), examination)
    except DpmcError as error:
        # The session keeps the error, and frames of a traceback would hold the file.
        error.__traceback__ = error.__context__ = None
        return Recognition(None, examination, error)


def read_upload(file: UploadedFile) -> None:
    """Show how a file would be read, take what cannot be guessed, and read it."""
    content, name, id = file.getvalue(), file.name, file.file_id
    # What is free changes while the file is shown; its limits do not.
    limits = state.memoize("limits", id, compute_limits)
    max_examined = limits["max_bytes"] * MAX_EXAMINED_BYTES / (MAX_MEGABYTES * MEGABYTE)
    chosen = {option: session.reading_option[option, id] for option in (*ROLES, *RULES)}
    submitted_id, submitted_range = session.submitted
    options = {option: value for option, value in chosen.items() if value != GUESS}
    options |= {**limits, **(submitted_range if submitted_id == id else {})}
    recognition = state.memoize(
        "recognition",
        (id, options),
        lambda: recognise_file(content, name, options, max_examined),
        n_kept=MAX_RECOGNITIONS,
    )
    layout, examination, refusal = recognition
    confirmed: Mapping[str, Any] | None = None
    if examination.readings:
        reading = choose_reading(examination, options, id)
        if reading is not None:
            layout, confirmed = reading.layout, options | reading.confirmed_options
    elif layout is None or layout.faults or examination.faults:
        problems = (
            list_faults(examination)
            or (layout.faults if layout else ())
            or (Fault("fewer than two ratings can be used: give a longer file"),)
        )
        show_refusal(refusal or Refused(name, problems), name)
    else:
        st.caption(
            f"The app compares the readings of files up to {max_examined / MEGABYTE:,.1f} MB"
            f"{explain_limit(limits['max_bytes'])}. This file has"
            f" {len(content) / MEGABYTE:,.1f} MB; its likeliest reading is shown."
        )
        show_rows([layout.columns, *layout.rows[:3]], "The first rows of the file")
        confirmed = None if "user" in layout.guessed else options
    if layout is not None and confirmed is not None:
        ends = choose_confirmed_range(layout, id, required=examination.needs_range)
        if ends is not None:
            session.submitted = (id, ends)
            unranged = {option: confirmed[option] for option in confirmed.keys() - {"low", "high"}}
            work = runs.make_reading_work(content, name, unranged | ends)
            # A small file is read in 0.3 seconds and needs no progress.
            state.get_jobs().start(READING, work, slots=READING_SLOTS).wait(0.3)
            st.rerun()
        finish_reading()
    show_rules(layout, id, expanded=confirmed is None and not examination.readings)


def choose_confirmed_range(
    layout: datasets.Layout, file_id: str, *, required: bool
) -> dict[str, float] | None:
    """Let a person give the public range and confirm it; None until the button is pressed.

    Args:
        layout: of the file.
        file_id: of the file.
        required: whether the file needs a range, unless it holds clicks.
    """
    if layout.known:
        st.markdown(f"This is **{escape(layout.known.description)}**.")
    ends = choose_range(layout, file_id)
    is_missing = required and not (layout.clicks or session.rating_scale[file_id])
    if is_missing:
        st.caption(
            "Choose the possible ratings first. The app does not take them from the file: its"
            " smallest and largest rating would reveal something about people."
        )
    return ends if st.button("Read the ratings", type="primary", disabled=is_missing) else None


def compute_limits() -> dict[str, int]:
    """Return the limits of an upload, which are lower where little memory is free."""
    max_bytes = min(MAX_MEGABYTES * MEGABYTE, MemoryLimit.from_usual(USUAL_BYTES))
    return {"max_bytes": max_bytes, "max_rows": min(MAX_ROWS, MemoryLimit.from_usual(USUAL_ROWS))}


def show_rules(layout: datasets.Layout | None, file_id: str, *, expanded: bool) -> None:
    """Show the choices on how a file is written, and on rows that cannot be used."""
    controls: dict[str, tuple[str, Mapping[Any, str]]] = {}
    if layout is not None and not layout.is_matrix:
        names = dict(enumerate(map(escape, layout.columns), 1))
        for role, label in ROLES.items():
            labels = {GUESS: "as found", **NO_COLUMN_LABELS.get(role, {}), **names}
            controls[role] = label, labels
    with (
        st.expander("How the file is written", icon=":material/text_fields:", expanded=expanded),
        st.grid(4, min_column_width=200),
    ):
        for option, (label, labels) in (controls | RULES).items():
            key = session.reading_option.key_of((option, file_id))
            is_open = option in ("encoding", "separator")
            if not is_open:
                state.reset_unavailable_choice(key, labels, GUESS)
            st.selectbox(
                label,
                list(labels),
                format_func=lambda value, labels=labels: labels.get(value, value),
                key=key,
                accept_new_options=is_open,
            )


def finish_reading() -> None:
    """Show how far the reading is; in the end keep the ratings, or show all that is wrong."""
    job = state.get_jobs().get(READING)
    if job is None:
        return
    now = job.snapshot()
    if now.state == "stopped":  # perhaps after the last line was read
        st.warning("Stopped: nothing of the file is kept.")
    elif now.active:
        blocks.show_stop_button(job, now)
        blocks.poll_job(job, now, blocks.show_job_progress)
    elif isinstance(now.result, Refused):
        show_refusal(now.result, now.result.name)
    elif now.result is not None:
        state.get_jobs().drop(READING)
        sources.keep_upload(now.result)
        session.file_read, _ = session.submitted
        st.rerun()
    else:
        blocks.show_job_progress(now)


def choose_reading(
    examination: datasets.Examination, options: Mapping[str, Any], file_id: str
) -> datasets.Reading | None:
    """Show the ways to read a file as pictures; return the only sure one, or the chosen one."""
    name, readings = examination.name, examination.readings
    is_sure = all(reading.confirmed_options == options for reading in readings)
    remembered = session.chosen_reading
    chosen = next((r for r in readings if is_sure or (file_id, r.summary) == remembered), None)
    title = "This is how your file will be read."
    if chosen is None:
        title = "Which of these is your file?" if len(readings) > 1 else "Is this your file?"
    doubt = " Check the roles: some are guesses." * any(r.layout.guessed for r in readings)
    st.markdown(f"**{title}** The role of each column stands before its name.{doubt}")
    with st.grid(1 if is_sure else 2, min_column_width=320):
        for reading in readings:
            with st.container(border=True):
                losses = f"; left out: {escape(reading.losses)}" * bool(reading.losses)
                st.markdown(f"**{escape(reading.summary)}**{losses}")
                if how := describe_options(reading.options, options):
                    st.caption(escape(how))
                roles, names, *rows = reading.preview
                heads = [*map(": ".join, zip(roles, names, strict=True))]
                show_rows([heads, *rows], f"The first rows: {reading.summary}")
                if not is_sure:
                    st.button(
                        "Chosen" if reading is chosen else "Choose this reading",
                        key=f"reading {reading.summary}",
                        on_click=remember_reading,
                        args=(file_id, reading.summary),
                    )
    if chosen is None:
        st.caption("Choose a reading, or say below how the file is written.")
        if faults := list_faults(examination):
            lines = map(format_fault, faults)
            st.info("\n".join(["**Why you are asked:**", *lines]), icon=":material/help:")
    elif not is_sure:
        command = ["dpmc", "data", "describe", name]
        command += format_command_options(chosen.confirmed_options, (), None)
        st.caption("The same on the command line, where `--range LOW:HIGH` gives the range:")
        st.code(shlex.join(command), language="bash", wrap_lines=True)
    return chosen


def describe_options(options: Mapping[str, Any], given: Collection[str]) -> str:
    """Return options in the words of their controls, without columns and those that are given."""
    texts = []
    for option, value in options.items():
        label, values = RULES.get(option, ((ROLES | OFFERS).get(option, option), {}))
        if option not in {*ROLES, *given} or value == NO_COLUMN:
            texts.append(f"{label}: {values.get(value, value)}")
    return "; ".join(texts)


def list_faults(examination: datasets.Examination) -> tuple[Fault, ...]:
    """Return what is wrong with a file, besides the range that is still to be given."""
    return tuple(fault for fault in examination.faults if fault.option != "range")


def remember_reading(file_id: str, summary: str) -> None:
    """Remember the chosen way to read a file; an earlier refusal is over with it."""
    session.chosen_reading = (file_id, summary)
    state.get_jobs().drop(READING)


def show_rows(rows: Sequence[Sequence[str]], alt: str) -> None:
    """Show a table from its head and its rows, which may be too short."""
    table = {
        (name if name and rows[0].count(name) == 1 else f"{name} ({number})"): cells
        for number, (name, *cells) in enumerate(zip_longest(*rows, fillvalue=""), 1)
    }
    blocks.show_table(table, alt=alt)


def choose_range(layout: datasets.Layout, file_id: str) -> dict[str, float]:
    """Let a person give the public range of ratings; empty where none is given."""
    known_range = layout.known and (layout.known.low, layout.known.high)
    default = next((label for label, ends in SCALES.items() if ends == known_range), OTHER_SCALE)
    scale = st.pills(
        SCALE,
        [*SCALES, OTHER_SCALE],
        default=default if known_range else None,
        key=session.rating_scale.key_of(file_id),
        help="The scale people could choose from, known before any rating is read. It is never"
        " taken from the data: the smallest and largest rating would reveal something about them."
        " Clicks need none.",
    )
    low, high = SCALES.get(scale or "", (None, None))
    if scale == OTHER_SCALE:
        start_low, start_high = known_range or (None, None)
        with st.grid(2, min_column_width=200):
            low = st.number_input("Lowest possible rating", value=start_low, format="%g")
            high = st.number_input("Highest possible rating", value=start_high, format="%g")
    return {} if low is None or high is None else {"low": low, "high": high}


def show_refusal(error: Exception, name: str) -> None:
    """Show why a file is not taken as it is, with the control that answers each fault."""
    if not isinstance(error, Refused):
        text = str(error)
        blocks.show_error(DpmcError(f"The file {text}" if text.startswith(name) else text))
        return
    lines = [f"**{escape(name)}** cannot be read yet:", *map(format_fault, error.faults)]
    st.error("\n".join(lines), icon=":material/error:")


def format_fault(fault: Fault) -> str:
    """Return a fault as an entry of a list, with the control that answers it."""
    label = CONTROLS.get(fault.option)
    control = f" → **{label}**" if label else ""
    advice = f": {fault.advice}" if fault.advice else ""
    return f"- {escape(f'{fault.problem}{advice}')}{control}"


def choose_public_features(dataset: LoadedDataset) -> None:
    """Take the second file of an upload: what an outsider knows of the items."""
    names = escape(", ".join(dataset.ratings.item_features) or "nothing yet")
    st.markdown(f"**What is publicly known of the items: {names}**")
    st.caption(
        "Genre, year, author, price: what an outsider knows without your users. Leave out tags,"
        " counts, mean ratings, embeddings and prices that follow demand: they come from what"
        " users did. Leave out everything if items are people or have one buyer."
    )
    file = st.file_uploader(
        "A table with a row for each item: CSV or Parquet",
        max_upload_size=MAX_MEGABYTES,
        key=f"items {session.uploads_forgotten}",
    )
    if file is None:
        return

    def read_features() -> tuple[features.ItemFeature, ...] | DpmcError:
        """Read the table, or return why it cannot be read, without a traceback that holds it."""
        try:
            source = Source.from_upload(file.getvalue(), file.name)
            return features.read_items(source, dataset.ratings)
        except (DpmcError, OSError) as error:
            return DpmcError(str(error))

    dependencies = (file.file_id, dataset.ratings.fingerprint)
    item_features = state.memoize("items", dependencies, read_features)
    if isinstance(item_features, DpmcError):
        blocks.show_error(item_features)
        return
    fields = {"column": "name", "what became of it": "summary", "beware": "mark"}
    table = {
        label: [getattr(feature, field) for feature in item_features]
        for label, field in fields.items()
    }
    blocks.show_table(table, alt="The columns of the table")
    usable = [feature for feature in item_features if feature.columns is not None]
    public = st.pills(
        "Public, and not computed from what users did",
        [feature.name for feature in usable],
        selection_mode="multi",
        default=[feature.name for feature in usable if not feature.mark],
    )
    if st.button("Use these public facts", type="primary"):
        ratings = features.attach_features(dataset.ratings, item_features, public, with_digest=True)
        session.upload = replace(dataset, ratings=ratings, item_features=item_features)
        session.uses_item_features = True  # a table that is given is used
        st.rerun()
