"""The ratings: where they come from, what they look like, how they are prepared."""

from typing import Any

import streamlit as st

from dpmc_core.data import MEGABYTE, BadRows, Duplicates, datasets, download
from dpmc_core.data.transforms import apply_steps
from dpmc_core.errors import DpmcError, sentence
from dpmc_core.model import Task
from dpmc_core.views import data as picture
from pages.ui import blocks, prepare, runs, shell, sources, state, widgets
from pages.ui.charts import data as charts_data
from pages.ui.jobs import Snapshot

WAYS = {"sample": "Open", "upload": "Upload your own", "public": "Download a public set"}
MAX_MEGABYTES = 200
MAX_ROWS = 5_000_000
LIMITS = {"max_bytes": MAX_MEGABYTES * MEGABYTE, "max_rows": MAX_ROWS}
ROLES = {"user": "Users", "item": "Items", "rating": "Ratings", "time": "Times (optional)"}
DUPLICATES = {
    Duplicates.ERROR: "tell me and stop",
    Duplicates.LAST: "keep the latest",
    Duplicates.MEAN: "take their mean",
}
BAD_ROWS = {BadRows.ERROR: "tell me and stop", BadRows.LEAVE_OUT: "leave them out"}


def page() -> None:
    blocks.heading(
        "The ratings",
        "Choose generated samples or bring your own ratings; every page then works on them.",
    )
    way = widgets.switch(
        "Where from", "the way in", WAYS, "way", "sample", label_visibility="collapsed"
    )
    if way == "upload":
        upload()
    elif way == "public":
        public_set()
    id = sources.pick("Open now")
    try:
        dataset = sources.get(id)
    except (DpmcError, OSError) as error:
        blocks.problem(error)
        return
    facts(dataset)
    pictures(id)
    preparation(dataset)


def upload() -> None:
    """The whole way from a file to ratings."""
    st.caption(
        "Your file stays in this session: it is never stored, logged or shown to anyone else, and"
        " it is gone when you close the tab."
    )
    file = st.file_uploader(
        "A file of ratings: CSV, TSV, “::”, MovieLens, Jester or Parquet",
        max_upload_size=MAX_MEGABYTES,
        key=f"file {st.session_state.get('uploads forgotten', 0)}",
        help=f"Up to {MAX_MEGABYTES} MB and {MAX_ROWS:,} ratings. One rating per row, with a"
        " header or without; Jester has one row per user.",
    )
    if sources.UPLOAD in st.session_state:
        st.button("Forget this upload", icon=":material/delete:", on_click=forget)
    if file is None:
        return
    content = file.getvalue()
    try:
        first = datasets.preview_upload(content, file.name, **LIMITS)
    except DpmcError as error:
        refused(str(error), file.name)
        return
    with st.form("read the upload"):
        if first.known:
            st.markdown(f"This looks like **{blocks.escape(first.known)}**.")
        chosen = columns(first) if first.columns_matter else {}
        chosen |= value_range(first)
        chosen |= remedies()
        pressed = st.form_submit_button("Read the ratings", type="primary")
    if pressed:
        read(content, file.name, chosen)


def columns(first: datasets.Preview) -> dict[str, Any]:
    """Which column holds what, by number from 1."""
    if first.rows:
        st.dataframe(
            {
                name: [row[k] if k < len(row) else "" for row in first.rows]
                for k, name in enumerate(first.columns)
            },
            hide_index=True,
            alt="The first rows of the file",
        )
    chosen: dict[str, Any] = {}
    for column, (role, label) in zip(st.columns(4), ROLES.items(), strict=True):
        position = column.selectbox(
            label,
            range(len(first.columns)),
            index=first.roles.get(role),
            format_func=first.columns.__getitem__,
            placeholder="none" if role == "time" else "choose a column",
        )
        if position is not None:
            chosen[role] = position + 1
    return chosen


def value_range(first: datasets.Preview) -> dict[str, Any]:
    """The public range of ratings, given by hand."""
    left, right = st.columns(2)
    words = (
        "The scale people could choose from, known before any rating is read. It is never taken"
        " from the data: the smallest and largest rating would reveal something about them."
    )
    low = left.number_input("Lowest possible rating", value=first.low, help=words, format="%g")
    high = right.number_input("Highest possible rating", value=first.high, help=words, format="%g")
    return {"low": low, "high": high}


def remedies() -> dict[str, Any]:
    """What to do with rows that cannot be taken as they are."""
    left, right = st.columns(2)
    twice = left.selectbox(
        "A pair of user and item that appears twice", DUPLICATES, format_func=DUPLICATES.get
    )
    bad = right.selectbox(
        "Rows without a usable rating",
        BAD_ROWS,
        format_func=BAD_ROWS.get,
        help="A user, item or rating is missing, is not a number, or is out of range.",
    )
    return {"duplicates": twice, "bad_rows": bad}


def read(content: bytes, name: str, chosen: dict[str, Any]) -> None:
    """Read the file with the chosen columns and range; a problem is a sentence."""
    missing = [label for role, label in list(ROLES.items())[:3] if role not in chosen]
    if missing and "user" in chosen:
        refused(f"Choose a column for: {', '.join(missing).lower()}.", name)
        return
    if chosen["low"] is None or chosen["high"] is None:
        refused("Give the lowest and the highest possible rating: the range is public.", name)
        return
    try:
        with st.spinner("Reading the ratings"):
            dataset = datasets.load_upload(content, name, **chosen, **LIMITS)
    except DpmcError as error:
        refused(str(error), name)
        return
    except MemoryError:
        refused("There is not enough memory for this file: bring a smaller one.", name)
        return
    sources.keep_upload(dataset)
    st.rerun()


def refused(problem: str, name: str) -> None:
    """Why the file was not taken, its name as it is, and what the page goes on to show."""
    about = f"The file {problem}" if problem.startswith(name) else problem
    open_now = sources.names().get(st.session_state.get("data", ""), "")
    blocks.problem(DpmcError(about))
    if open_now:
        st.caption(
            blocks.escape(f"Still open: {open_now}. What follows shows that, not your file.")
        )


def forget() -> None:
    sources.forget_upload()
    # A new key empties the uploader, which would otherwise still hold the file.
    st.session_state["uploads forgotten"] = st.session_state.get("uploads forgotten", 0) + 1


def public_set() -> None:
    """Choose a set, read its terms, fetch it once."""
    sets = download.ARCHIVES
    names = {id: f"{archive.title} ({archive.megabytes:g} MB)" for id, archive in sets.items()}
    name = widgets.choose("Public set", "the public set", names, "public_set", next(iter(names)))
    st.caption(blocks.escape(sets[name].terms))
    if download.folder_of(name).is_dir():
        st.button(
            "Open it",
            type="primary",
            on_click=lambda: st.session_state.update({"next data": name}),
        )
        return
    job = state.jobs().get(name)
    if blocks.start_and_stop(job, "Accept these terms and download", ":material/download:"):
        state.jobs().start(name, runs.download_of(name))
        st.rerun()
    blocks.ticking(name, progress)


def progress(now: Snapshot) -> None:
    blocks.progress_or_problem(now)
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
        st.markdown("\n".join(f"- {blocks.escape(sentence(s))}" for s in dataset.report))
        st.caption(blocks.escape(f"Source: {dataset.source}. Licence: {dataset.licence}."))


def pictures(id: str) -> None:
    """Where ratings are, which values they have, who gave how many."""
    theme = state.theme()
    where, values = sources.look(id, picture.sparsity), sources.look(id, picture.histogram)
    users, items = sources.look(id, picture.tails)
    left, right = st.columns(2, gap="large")
    with left:
        st.subheader("Which cells are rated")
        blocks.chart(
            charts_data.sparsity(where, theme),
            alt=picture.sparsity_words(where),
            key="sparsity",
            caption="Each block shows the share of its cells that is rated. Raw data: that a rating"
            " exists is not protected by every mechanism.",
            table=picture.sparsity_table(where),
        )
    with right:
        st.subheader("Which ratings are given")
        blocks.chart(
            charts_data.histogram(values, theme),
            alt=picture.histogram_words(values),
            key="histogram",
            table={"rating": values.centers.round(3), "times": values.counts},
        )
    st.subheader("Ratings per user and per item")
    blocks.chart(
        charts_data.tails(users, items, theme),
        alt=picture.tails_words(users, items),
        key="tails",
        caption="The busiest users reveal most: a guarantee per rating grows with the number of"
        " ratings of a person, unless a cap bounds it.",
        table=picture.tails_table(users, items),
    )


def preparation(dataset: sources.Dataset) -> None:
    """The steps, what they leave, and what they cost in privacy."""
    st.subheader("Preparation")
    st.markdown("These steps are learnt on the training ratings; Train uses the same choices.")
    steps, _ = prepare.controls(dataset.ratings.public, Task.BINARY)
    try:
        after, _ = apply_steps(steps, dataset.ratings)
    except DpmcError as error:
        blocks.problem(error)
        return
    st.markdown(
        f"After preparation: {after.public.users:,} users, {after.public.items:,} items,"
        f" {len(after):,} of {len(dataset.ratings):,} ratings."
    )
    for step in after.prepared:
        st.caption(f"Caveat on every guarantee card: certified given that {step} is public.")


shell.enter()
page()
