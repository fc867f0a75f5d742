"""The ratings: where they come from, what they look like, how they are prepared."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import streamlit as st

from dpmc_core.data import (
    MEGABYTE,
    SEPARATORS,
    BadRows,
    Duplicates,
    Refused,
    datasets,
    features,
    public_sets,
)
from dpmc_core.data.reading import size_words
from dpmc_core.data.source import NO_COLUMN, Source
from dpmc_core.data.synthetic import GENERATORS, list_sample_options
from dpmc_core.data.transforms import apply_steps
from dpmc_core.errors import DpmcError, format_sentence
from dpmc_core.model import Task
from dpmc_core.problem import format_command_options
from dpmc_lab.curves import data as picture
from pages.ui import blocks, prepare, runs, shell, sources, state, widgets
from pages.ui.charts import data as charts_data
from pages.ui.jobs import READING_SLOTS, Snapshot, get_snapshot
from pages.ui.text import format_count

MAX_MEGABYTES = 200
MAX_ROWS = 5_000_000
MAX_PICTURED_BYTES = 5 * MEGABYTE  # of a file, which is read once for each reading
LIMITS = {"max_bytes": MAX_MEGABYTES * MEGABYTE, "max_rows": MAX_ROWS}
ROLES = {"user": "Users", "item": "Items", "rating": "Ratings", "time": "Times"}
OPTIONAL_ROLE_LABELS = {"rating": "none: each row is a click", "time": "none"}
TWICE, UNUSABLE = "A pair of user and item that appears twice", "Rows without a usable rating"
DUPLICATES = {
    Duplicates.ERROR: "tell me and stop",
    Duplicates.LAST: "keep the latest",
    Duplicates.MEAN: "take their mean",
}
BAD_ROWS = {BadRows.ERROR: "tell me and stop", BadRows.LEAVE_OUT: "leave them out"}
WAYS = {"sample": "Open", "upload": "Upload your own", "public": "Download a public set"}
READING = "reading"  # the job that reads an upload
# How a text is cut: reading option -> label of its control, and the choices.
WRITTEN = {
    "encoding": (
        "Encoding",
        {"guess": "UTF-8", "cp1252": "Western (Windows)", "latin-1": "Western (ISO)"},
    ),
    "separator": ("Separator", {"guess": "as found"} | {name: name for name in SEPARATORS}),
    "header": (
        "First line",
        {"guess": "as found", "yes": "names the columns", "no": "is a rating"},
    ),
    "layout": (
        "Each line",
        {
            "guess": "as found",
            "rows": "is one rating",
            "wide": "is a user, a column for each item",
            "transposed": "is an item, a column for each user",
            "adjacency": "is a user and then the items",
        },
    ),
}
CONTROLS = ROLES | {option: label for option, (label, _) in WRITTEN.items()}
CONTROLS |= {"duplicates": TWICE, "bad_rows": UNUSABLE, "range": "Lowest possible rating"}


def page() -> None:
    blocks.show_heading(
        "The ratings",
        "Choose generated samples or bring your own ratings; every page then works on them.",
    )
    way = widgets.choose_segment(
        "Where from", "the way in", WAYS, "way", "sample", label_visibility="collapsed"
    )
    if way == "upload":
        upload()
    elif way == "public":
        public_set()
    else:
        draw_anew()
    id = sources.choose_data()
    try:
        dataset = sources.get_dataset(id)
    except (DpmcError, OSError) as error:
        blocks.show_error(error)
        return
    facts(dataset)
    if id == sources.UPLOAD:
        known_of_items(dataset)
        st.page_link(
            "pages/answer.py",
            label="What would privacy cost on these ratings? Get the answer",
            icon=":material/arrow_forward:",
        )
    pictures(id)
    preparation(dataset)


def upload() -> None:
    """The whole way from a file to ratings."""
    if blocks.is_reserved_for_teacher(
        "upload files", "The samples under “Open” are for everybody."
    ):
        return
    st.caption(
        "Your file stays in the memory of this session and is gone when you close the tab. Only a"
        " curve that you compute on it writes it to disk: to a folder of its own that nobody else"
        " can read, removed with the session."
    )
    file = st.file_uploader(
        "A file of ratings: CSV, TSV, “::”, JSON lines, Parquet, MovieLens, Jester",
        max_upload_size=MAX_MEGABYTES,
        key=f"file {st.session_state.get('uploads forgotten', 0)}",
        help=f"Up to {MAX_MEGABYTES} MB and {MAX_ROWS:,} ratings. A line for each rating, with or"
        " without a header, or a line for each user with a column for each item. User and item"
        " alone are clicks.",
    )
    if sources.UPLOAD in st.session_state:
        st.button("Forget this upload", icon=":material/delete:", on_click=forget)
    if file is not None:
        choices(file.getvalue(), file.name, file.file_id)
    outcome()


def known_of_items(dataset: datasets.Dataset) -> None:
    """The second file of an upload: what an outsider knows of the items."""
    known = blocks.escape(", ".join(dataset.ratings.item_features) or "nothing yet")
    with st.expander(f"What is publicly known of the items: {known}", icon=":material/menu_book:"):
        st.caption(
            "Genre, year, author, price: what an outsider has without your users. Not what was"
            " computed from what users did (tags, counts, mean ratings, prices that follow demand,"
            " embeddings), and not where items are people or have one buyer."
        )
        file = st.file_uploader(
            "A table with a row for each item: CSV or Parquet",
            max_upload_size=MAX_MEGABYTES,
            key=f"items {st.session_state.get('uploads forgotten', 0)}",
        )
        if file is None:
            return
        source = Source.from_upload(file.getvalue(), file.name)
        marks = (file.file_id, dataset.ratings.fingerprint)
        try:
            found = state.memoize(
                "items", marks, lambda: features.read_items(source, dataset.ratings)
            )
        except (DpmcError, OSError) as error:
            blocks.show_error(error)
            return
        table = {
            "column": [fact.name for fact in found],
            "what became of it": [fact.summary for fact in found],
            "beware": [fact.mark for fact in found],
        }
        blocks.show_table(table, alt="The columns of the table")
        public = st.pills(
            "Public, and not computed from what users did",
            [fact.name for fact in found if fact.columns is not None],
            selection_mode="multi",
            default=[fact.name for fact in found if fact.columns is not None and not fact.mark],
        )
        if st.button("Know these of the items", type="primary"):
            ratings = features.attach_features(dataset.ratings, found, public, with_digest=True)
            st.session_state[sources.UPLOAD] = replace(
                dataset, ratings=ratings, item_features=found
            )
            st.session_state["known"] = True  # a table that is given is used
            st.rerun()


def choices(content: bytes, name: str, file_id: str) -> None:
    """What cannot be guessed of a file, and the button that reads it."""
    how = {
        option: value
        for option in WRITTEN
        if (value := st.session_state.get(f"written {option}", "guess")) != "guess"
    }
    first, wrong = None, None
    try:
        first = datasets.preview_upload(content, name, **how, **LIMITS)
    except DpmcError as error:
        wrong = error
    asked = () if first is None else tuple(f for f in first.faults if f.option in WRITTEN)
    tried_id, tried_range = st.session_state.get("range tried", ("", {}))
    limits = LIMITS | (tried_range if tried_id == file_id else {})
    offered, reading = choose_reading(content, name, {**how, **limits}, file_id)
    if first is None or first.encoding:
        written(needed=not offered and (bool(asked) or isinstance(wrong, Refused)))
    if reading is None and (wrong is not None or asked):
        if not offered:
            refused(wrong or Refused(name, asked), name)
        return
    if reading is not None:
        first, chosen, sure = reading.layout, reading.confirmed_options, True
    elif first.is_matrix:
        chosen, sure = {}, "user" not in first.guessed
    else:
        chosen, sure = columns(first, name)
    if first.known:
        st.markdown(f"This is **{blocks.escape(first.known.description)}**.")
    if not sure:
        st.caption("Reading waits until you say which column names the person.")
    with st.form("read the upload"):
        public = rules(first, limits)
        pressed = st.form_submit_button("Read the ratings", type="primary", disabled=not sure)
    if pressed:
        ends = {end: public[end] for end in ("low", "high") if public["low"] is not None}
        st.session_state["range tried"] = (file_id, ends)
        options = {**how, **public, **chosen, **LIMITS, **ends}
        work = runs.make_reading_work(content, name, options)
        # A small file needs no progress.
        state.get_jobs().start(READING, work, slots=READING_SLOTS).wait(0.3)
        st.rerun()


def written(*, needed: bool) -> None:
    """How the text of a file is to be cut, where the guess is wrong or none is possible."""
    with (
        st.expander("How the file is written", icon=":material/text_fields:", expanded=needed),
        st.container(horizontal=True),
    ):
        for option, (label, names) in WRITTEN.items():
            st.selectbox(
                label,
                list(names),
                format_func=lambda value, names=names: names.get(value, value),
                key=f"written {option}",
                accept_new_options=option in ("encoding", "separator"),
            )


def outcome() -> None:
    """How far the reading is; what it found, or everything that is wrong."""
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
        refused(now.result, now.result.name)
    elif now.result is not None:
        state.get_jobs().drop(READING)
        sources.keep_upload(now.result)
        st.rerun()
    else:
        blocks.show_job_progress(now)


def choose_reading(
    content: bytes, name: str, given: Mapping[str, Any], file_id: str
) -> tuple[bool, datasets.Reading | None]:
    """Offer the ways to read a file as pictures if one must be chosen; return the chosen one."""
    if len(content) > MAX_PICTURED_BYTES:
        return False, None
    readings = state.memoize(
        "readings",
        (file_id, given),
        lambda: datasets.examine_upload(content, name, **given).readings,
    )
    if all(reading.confirmed_options == given for reading in readings):
        return False, None
    question = "Which of these is your file?" if len(readings) > 1 else "Is this your file?"
    st.markdown(f"**{question}** The role of each column stands before its name.")
    chosen, picked = st.session_state.get("chosen reading"), None
    with st.grid(2, min_column_width=320):
        for reading in readings:
            options = {o: v for o, v in reading.options.items() if o not in given}
            is_chosen = chosen == (file_id, options)
            picked = reading if is_chosen else picked
            with st.container(border=True):
                left_out = f"; {reading.left_out:.1%} left out" * (reading.left_out > 0)
                st.markdown(f"**{blocks.escape(reading.summary)}**{left_out}")
                assignments = [f"{option} = {value}" for option, value in options.items()]
                st.caption(blocks.escape(", ".join(assignments)))
                roles, names, *rows = reading.preview
                heads = _apart([f"{r}: {n}" for r, n in zip(roles, names, strict=True)])
                table = {head: [row[k] for row in rows] for k, head in enumerate(heads)}
                blocks.show_table(table, alt=f"The first rows: {reading.summary}")
                st.button(
                    "Chosen" if is_chosen else "Choose this reading",
                    key=f"reading {reading.summary}",
                    type="primary" if is_chosen else "secondary",
                    on_click=st.session_state.update,
                    args=({"chosen reading": (file_id, options)},),
                )
    if picked is None:
        st.caption("Choose one, or say below how the file is written.")
    else:
        command = ["dpmc", "data", "describe", name]
        command += format_command_options(picked.confirmed_options, (), None)
        st.caption("The same on the command line, where `--range LOW:HIGH` gives the range:")
        st.code(shlex.join(command), language="bash", wrap_lines=True)
    return True, picked


def columns(first: datasets.Layout, name: str) -> tuple[dict[str, Any], bool]:
    """Which column holds what, by number from 1; whether that of the users is certain.

    A column that the header names unmistakably is left to the reader, which may ask about it.
    """
    if first.rows:
        rows = {
            name: [row[k] if k < len(row) else "" for row in first.rows]
            for k, name in enumerate(_apart(first.columns))
        }
        blocks.show_table(rows, alt="The first rows of the file")
    chosen: dict[str, Any] = {}
    names = dict(enumerate(map(blocks.escape, first.columns)))
    for column, (role, label) in zip(st.columns(4), ROLES.items(), strict=True):
        none = OPTIONAL_ROLE_LABELS.get(role)
        labels = {NO_COLUMN: none} | names if none else names
        options = list(labels)
        # A file with a range is never read as clicks unless somebody says so.
        guess = first.roles.get(role, NO_COLUMN if role == "time" else None)
        position = column.selectbox(
            f"{label} (a guess)" if role in first.guessed else label,
            options,
            index=options.index(guess) if guess in options else None,
            format_func=labels.__getitem__,
            placeholder="choose a column",
        )
        if position is not None:
            chosen[role] = position if position == NO_COLUMN else position + 1
    if chosen.get("user") != first.roles.get("user", -1) + 1:
        return chosen, "user" in chosen  # chosen by hand
    if "user" not in first.guessed and not doubted(name):
        del chosen["user"]
        return chosen, True
    words = f"Each value in {blocks.escape(first.name_of('user'))} stands for one person"
    return chosen, st.checkbox(words, key=f"person {name} {chosen['user']}")


def doubted(name: str) -> bool:
    """Whether the last reading of the file asked which column names the person."""
    found = get_snapshot(state.get_jobs().get(READING)).result
    asked = isinstance(found, Refused) and found.name == name
    return asked and any(fault.option == "user" for fault in found.faults)


def _apart(names: Sequence[str]) -> list[str]:
    """Column names told apart by their number where two are alike or one is empty."""
    return [
        name if name and names.count(name) == 1 else f"{name} ({k})"
        for k, name in enumerate(names, 1)
    ]


def rules(first: datasets.Layout, given: Mapping[str, Any]) -> dict[str, Any]:
    """The public range of ratings, given by hand, and what to do with rows that cannot be taken as
    they are."""
    words = (
        "The scale people could choose from, known before any rating is read. It is never taken"
        " from the data: the smallest and largest rating would reveal something about them. Clicks"
        " need none."
    )
    low, high = given.get("low"), given.get("high")
    if first.known:
        low, high = first.known.low, first.known.high
    with st.grid(2, min_column_width=200):
        return {
            "low": st.number_input("Lowest possible rating", value=low, help=words, format="%g"),
            "high": st.number_input("Highest possible rating", value=high, help=words, format="%g"),
            "duplicates": st.selectbox(TWICE, DUPLICATES, format_func=DUPLICATES.get),
            "bad_rows": st.selectbox(
                UNUSABLE,
                BAD_ROWS,
                format_func=BAD_ROWS.get,
                help="A user, item or rating is missing, is not a number, or is out of range.",
            ),
        }


def refused(error: Exception, name: str) -> None:
    """Why the file was not taken, with the control that answers each fault, and what the page goes
    on to show."""
    if isinstance(error, Refused):
        told = []
        for fault in error.faults:
            label = CONTROLS.get(fault.option)
            here = f" → **{label}**" if label else ""
            advice = f": {fault.advice}" if fault.advice else ""
            told.append(f"- {blocks.escape(f'{fault.problem}{advice}')}{here}")
        head = f"**{blocks.escape(name)}** cannot be read yet:"
        st.error("\n".join((head, *told)), icon=":material/error:")
    else:
        text = str(error)
        about = f"The file {text}" if text.startswith(name) else text
        blocks.show_error(DpmcError(about))
    open_now = sources.list_names().get(st.session_state.get("data", ""), "")
    if open_now:
        st.caption(
            blocks.escape(f"Still open: {open_now}. What follows shows that, not your file.")
        )


def forget() -> None:
    state.get_jobs().drop(READING)
    sources.forget_upload()
    # A new key empties the uploader, which would otherwise still hold the file.
    st.session_state["uploads forgotten"] = st.session_state.get("uploads forgotten", 0) + 1


def draw_anew() -> None:
    """A generated sample with options of one's own, as the command line takes it."""
    with st.expander("Draw a generated set anew", icon=":material/casino:"), st.form("draw"):
        text = st.text_input(
            "Sample and options",
            placeholder="rank-one:users=1000,items=50,per_user=20,seed=2",
            help="  \n".join(
                f"{name}: {', '.join(list_sample_options(name))}" for name in GENERATORS
            ),
        )
        if st.form_submit_button("Draw it") and text:
            if (error := sources.find_generation_error(text)) is not None:
                blocks.show_error(error)
            else:
                st.session_state["next data"] = st.session_state["data"] = text
                st.rerun()


def public_set() -> None:
    """Choose a set, read its terms, fetch it once."""
    sets = public_sets.ARCHIVES
    names = {id: f"{archive.title} ({archive.megabytes:g} MB)" for id, archive in sets.items()}
    names |= {id: f"{known.title} (your copy)" for id, known in public_sets.BY_HAND.items()}
    name = widgets.choose_option(
        "Public set", "the public set", names, "public_set", next(iter(names))
    )
    terms = public_sets.SETS[name].licence
    if name in sets or public_sets.is_downloaded(name):
        st.caption(blocks.escape(format_sentence(terms)))
    else:
        st.info(blocks.escape(format_sentence(public_sets.format_manual_steps(name))))
        return
    if public_sets.is_downloaded(name):
        st.button(
            "Open it",
            type="primary",
            on_click=lambda: st.session_state.update({"next data": name}),
        )
        return
    if blocks.is_reserved_for_teacher(
        "download data sets", "The samples under “Open” are for everybody."
    ):
        return
    job = state.get_jobs().get(name)
    now = get_snapshot(job)
    accept = "Accept these terms and download"
    if blocks.show_start_and_stop_buttons(job, now, accept, ":material/download:"):
        state.get_jobs().start(name, runs.make_download_work(name))
        st.rerun()
    blocks.poll_job(job, now, progress)


def progress(now: Snapshot) -> None:
    blocks.show_job_progress(now)
    if now.state == "done":
        st.success("Downloaded, checked and unpacked.")


def facts(dataset: sources.Dataset) -> None:
    """Headline numbers and the report in plain words."""
    public = dataset.ratings.public
    tiles = (
        ("Users", f"{public.users:,}"),
        ("Items", f"{public.items:,}"),
        ("Ratings", f"{len(dataset.ratings):,}"),
        ("Cells rated", f"{100 * dataset.ratings.density:.3g} %"),
    )
    for column, (label, value) in zip(st.columns(4), tiles, strict=True):
        column.metric(label, value)
    st.markdown(
        f"Ratings may lie from **{public.low:g}** to **{public.high:g}**: a public fact, known"
        " before any rating is read."
    )
    with st.expander("What was found in the data", icon=":material/fact_check:", expanded=True):
        size = size_words(dataset.ratings)  # what the tiles say
        st.markdown(
            "\n".join(f"- {blocks.escape(format_sentence(s))}" for s in dataset.report if s != size)
        )
        st.caption(blocks.escape(f"Source: {dataset.source}. Licence: {dataset.licence}."))


def pictures(id: str) -> None:
    """Which values ratings have, and who gave how many."""
    values, (users, items) = (
        sources.compute_once(id, make)
        for make in (picture.compute_histogram, picture.compute_tails)
    )
    left, right = st.columns(2, gap="large")
    with left:
        st.header("Which ratings are given")
        blocks.show_chart(
            charts_data.plot_histogram(values),
            alt=picture.describe_histogram(values),
            key="histogram",
            table={"rating": values.centers.round(3), "times": values.counts},
        )
    with right:
        st.header("Ratings per user and per item")
        blocks.show_chart(
            charts_data.plot_long_tails(users, items),
            alt=picture.describe_tails(users, items),
            key="tails",
            caption="The busiest users reveal most: a guarantee per rating grows with the number of"
            " ratings of a person, unless a cap bounds it. Raw data: not every mechanism protects"
            " that a rating exists.",
            table=picture.tabulate_tails(users, items),
        )


def preparation(dataset: sources.Dataset) -> None:
    """The steps, what they leave, and what they cost in privacy."""
    st.header("Preparation")
    st.markdown("These steps are learnt on the training ratings; Train uses the same choices.")
    timed = dataset.ratings.times is not None
    steps, _ = prepare.show_preparation_controls(dataset.ratings.public, Task.BINARY, timed=timed)
    try:
        after, _ = apply_steps(steps, dataset.ratings)
    except DpmcError as error:
        blocks.show_error(error)
        return
    st.markdown(
        f"After preparation: {format_count(after.public.users, 'user')},"
        f" {format_count(after.public.items, 'item')}"
        f", {len(after):,} of {format_count(len(dataset.ratings), 'rating')}."
    )
    for step in after.prepared:
        st.caption(
            f"Caveat on every guarantee card: certified given that {blocks.escape(step)} is public."
        )


shell.enter_through_app()
page()
