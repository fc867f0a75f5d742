"""Public rating sets: their terms, and a download with progress."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from dpmc_core.data import download
from dpmc_core.errors import DpmcError
from pages.ui import blocks, state
from pages.ui.jobs import Report, Snapshot, Work


def panel() -> None:
    """Choose a set, read its terms, fetch it once."""
    sets = download.ARCHIVES
    names = {id: f"{archive.title} ({archive.megabytes:g} MB)" for id, archive in sets.items()}
    state.from_link("public_set", "the public set", names, next(iter(names)))
    name = st.selectbox(
        "Public set",
        list(names),
        format_func=names.__getitem__,
        key="public_set",
        bind="query-params",
    )
    st.caption(blocks.escape(sets[name].terms))
    if download.folder_of(name).is_dir():
        st.button(
            "Open it",
            type="primary",
            on_click=lambda: st.session_state.update({"next data": name}),
        )
        return
    job = state.jobs().get(name)
    busy = job is not None and job.snapshot().active
    with st.container(horizontal=True):
        if st.button(
            "Accept these terms and download",
            type="primary",
            icon=":material/download:",
            disabled=busy,
        ):
            state.jobs().start(name, _work(name))
            st.rerun()
        if st.button("Stop", icon=":material/stop:", disabled=not busy):
            job.cancel()
    blocks.ticking(name, _progress)


def _progress(now: Snapshot) -> None:
    blocks.progress_or_problem(now)
    if now.state == "done":
        st.success("Downloaded, checked and unpacked.")


def _work(name: str) -> Work:
    def work(report: Report, stopped: Callable[[], bool]) -> None:
        def progress(have: int, total: int | None) -> None:
            if stopped():
                raise DpmcError("stopped; what arrived is kept, and a new start goes on from there")
            size = "" if total is None else f" of {total / 1e6:.1f}"
            report(have, total or 0, f"{have / 1e6:.1f}{size} MB")

        report(0, 0, "asking the server")
        download.get(name, progress=progress)

    return work
