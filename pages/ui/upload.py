"""Bring your own ratings: choose the columns and the public range by hand, read, forget."""

from __future__ import annotations

from typing import Any

import streamlit as st

from dpmc_core.data import MEGABYTE, BadRows, Duplicates, datasets
from dpmc_core.errors import DpmcError
from pages.ui import blocks, sources

MAX_MEGABYTES = 200
MAX_ROWS = 5_000_000
_LIMITS = {"max_bytes": MAX_MEGABYTES * MEGABYTE, "max_rows": MAX_ROWS}
_ROLES = {"user": "Users", "item": "Items", "rating": "Ratings", "time": "Times (optional)"}
_DUPLICATES = {
    Duplicates.ERROR: "tell me and stop",
    Duplicates.LAST: "keep the latest",
    Duplicates.MEAN: "take their mean",
}
_BAD_ROWS = {BadRows.ERROR: "tell me and stop", BadRows.LEAVE_OUT: "leave them out"}


def panel() -> None:
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
        st.button("Forget this upload", icon=":material/delete:", on_click=_forget)
    if file is None:
        return
    content = file.getvalue()
    try:
        first = datasets.preview_upload(content, file.name, **_LIMITS)
    except DpmcError as error:
        _refused(str(error), file.name)
        return
    with st.form("read the upload"):
        if first.known:
            st.markdown(f"This looks like **{blocks.escape(first.known)}**.")
        chosen = {} if first.dense else _columns(first)
        chosen |= _range(first)
        chosen |= _remedies()
        pressed = st.form_submit_button("Read the ratings", type="primary")
    if pressed:
        read(content, file.name, chosen)


def _refused(problem: str, name: str) -> None:
    """Why the file was not taken, its name as it is, and what the page goes on to show."""
    about = f"The file {problem}" if problem.startswith(name) else problem
    open_now = sources.names().get(st.session_state.get("data", ""), "")
    blocks.problem(DpmcError(about))
    if open_now:
        st.caption(
            blocks.escape(f"Still open: {open_now}. What follows shows that, not your file.")
        )


def _forget() -> None:
    sources.forget_upload()
    # A new key empties the uploader, which would otherwise still hold the file.
    st.session_state["uploads forgotten"] = st.session_state.get("uploads forgotten", 0) + 1


def _columns(first: datasets.Preview) -> dict[str, Any]:
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
    for column, (role, label) in zip(st.columns(4), _ROLES.items(), strict=True):
        position = column.selectbox(
            label,
            range(len(first.columns)),
            index=first.guess.get(role),
            format_func=first.columns.__getitem__,
            placeholder="none" if role == "time" else "choose a column",
        )
        if position is not None:
            chosen[role] = position + 1
    return chosen


def _range(first: datasets.Preview) -> dict[str, Any]:
    left, right = st.columns(2)
    words = (
        "The scale people could choose from, known before any rating is read. It is never taken"
        " from the data: the smallest and largest rating would reveal something about them."
    )
    low = left.number_input("Lowest possible rating", value=first.low, help=words, format="%g")
    high = right.number_input("Highest possible rating", value=first.high, help=words, format="%g")
    return {"low": low, "high": high}


def _remedies() -> dict[str, Any]:
    left, right = st.columns(2)
    twice = left.selectbox(
        "A pair of user and item that appears twice", _DUPLICATES, format_func=_DUPLICATES.get
    )
    bad = right.selectbox(
        "Rows without a usable rating",
        _BAD_ROWS,
        format_func=_BAD_ROWS.get,
        help="A user, item or rating is missing, is not a number, or is out of range.",
    )
    return {"duplicates": twice, "bad_rows": bad}


def read(content: bytes, name: str, chosen: dict[str, Any]) -> None:
    """Read the file with the chosen columns and range; a problem is a sentence."""
    missing = [label for role, label in list(_ROLES.items())[:3] if role not in chosen]
    if missing and "user" in chosen:
        _refused(f"Choose a column for: {', '.join(missing).lower()}.", name)
        return
    if chosen["low"] is None or chosen["high"] is None:
        _refused("Give the lowest and the highest possible rating: the range is public.", name)
        return
    try:
        with st.spinner("Reading the ratings"):
            dataset = datasets.load_upload(content, name, **chosen, **_LIMITS)
    except DpmcError as error:
        _refused(str(error), name)
        return
    except MemoryError:
        _refused("There is not enough memory for this file: bring a smaller one.", name)
        return
    sources.keep_upload(dataset)
    st.rerun()
