"""Read what the address says and what a session keeps."""

import enum
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from pages.ui.charts import DARK, LIGHT, Theme
from pages.ui.jobs import Jobs
from pages.ui.private import UploadFolder
from pages.ui.session import session
from pages.ui.shelf import RunHistory
from pages.ui.text import escape

T = TypeVar("T")

_IN_RUN, _MAX_IN_RUN = "in this run", 10  # more than any page reads in a run


@st.cache_resource(scope="session", on_release=lambda jobs: jobs.cancel(), show_spinner=False)
def get_jobs() -> Jobs:
    """Return the background jobs of this session, which a closed tab stops."""
    return Jobs()


@st.cache_resource(
    scope="session", on_release=lambda upload_folder: upload_folder.close(), show_spinner=False
)
def get_upload_folder() -> UploadFolder:
    """Return the folder for sweeps on this session's upload, which a closed tab removes."""
    return UploadFolder()


def get_run_history() -> RunHistory:
    """Return the training runs that this session remembers."""
    return session.run_history


def get_theme() -> Theme:
    """Return the chart colours for the light or dark surface of this visitor."""
    return DARK if st.context.theme.type == "dark" else LIGHT


def apply_link_choice(key: str, description: str, names: Mapping[Any, str]) -> None:
    """Turn what the address asks for into labels that a widget bound to it accepts.

    Call this before the widget. The address may name options by id; invalid values, also an empty
    one, are noted and leave the address.

    Args:
        key: of the widget.
        description: what is chosen, for the note.
        names: the label that Streamlit writes into the address, by option.
    """
    if key in st.session_state or key not in st.query_params:
        return
    accepted_labels = {label.lower(): label for label in names.values()}
    for option, label in names.items():
        id = option.name if isinstance(option, enum.Enum) else str(option)
        accepted_labels.setdefault(id.lower(), label)
    requested = st.query_params.get_all(key)
    accepted = []
    for text in requested:
        bare_text = text.partition(" · ")[0]  # once there were remarks behind names
        label = accepted_labels.get(text.lower()) or accepted_labels.get(bare_text.lower())
        if label is None:
            add_note(
                f"The link asks for {description} “{text[:40]}”, which this page does not have."
            )
        else:
            accepted.append(label)
    if accepted != requested:  # what the widget understands, from the next run on
        st.query_params[key] = accepted
        if not accepted:
            del st.query_params[key]
        st.rerun()


def reset_unavailable_choice(key: str, options: Collection[Any], default: Any) -> None:
    """Forget a choice that is no longer available, since it was made for other data.

    Args:
        key: of the widget.
        options: the options now.
        default: the option that takes its place.
    """
    if st.session_state.get(key, default) not in options:
        st.session_state[key] = default


def substitute_choice(
    key: str, options: Collection[Any], nearest: Callable[[Any], Any]
) -> Any | None:
    """Replace a choice that this page cannot show by its nearest option.

    The choice comes back as soon as it is an option again, unless somebody chose another meanwhile.

    Args:
        key: of the widget.
        options: the options of this page.
        nearest: returns the option that is nearest to a choice.

    Returns:
        The choice that was just replaced, if any.
    """
    now = st.session_state.get(key)
    if key in session.put_away and now is not None:
        original, substitute = session.put_away[key]
        if now != substitute:  # somebody has chosen anew
            del session.put_away[key]
        elif original in options:
            now = st.session_state[key] = original
            del session.put_away[key]
    if now is None or now in options:
        return None
    original, _ = session.put_away[key] or (now, None)
    substitute = st.session_state[key] = nearest(now)
    session.put_away[key] = (original, substitute)
    return now


def check_link_value(key: str, description: str, is_possible: Callable[[str], bool]) -> None:
    """Note a value in the address that its widget will not accept, and remove it from there.

    Streamlit itself would fail, for example at an infinity for an integer.

    Args:
        key: of the widget.
        description: what is chosen, for the note.
        is_possible: returns whether a value is accepted; it may raise ValueError.
    """
    if key in st.session_state or not st.query_params.get(key):
        return
    with suppress(ValueError):
        if is_possible(st.query_params[key]):
            return
    note_impossible_value(key, description)
    del st.query_params[key]  # from the next run on
    st.rerun()


def note_impossible_value(key: str, description: str) -> None:
    """Note a value in the address that its widget will not accept."""
    requested = st.query_params[key][:40]
    add_note(
        f"The link asks for {description} “{requested}”, which is impossible. The default is used."
    )


def note_removed(key: str, sentence: str) -> None:
    """Note a choice in the address that the app no longer offers, and remove it from there."""
    if key in st.query_params:
        add_note(sentence)
        del st.query_params[key]


def record_page_change(page: str) -> None:
    """When another page is opened, forget what the one before wrote into the address."""
    if session.page != page:
        session.previous_page, session.page = session.page, page
        del session.last_written_params
        # A link inside the app may bring its own mechanism along.
        if session.suggested_mechanism == session.mechanism or "mechanism" in st.query_params:
            del session.mechanism
        del session.suggested_mechanism


def save_bound_choices() -> None:
    """Save the choices of this run for a change of page; call this at the end of a run.

    Streamlit carries bound choices over from what it has saved. It saves what a run has read from
    the address only when the next run begins. A click on another page cleans up before that, so
    without this the choices of a link would be lost with the first click.
    """
    context = get_script_run_ctx()
    if context is not None:
        context.session_state.on_script_will_rerun(None)


def memoize(name: str, dependencies: object, make: Callable[[], T], n_kept: int = 1) -> T:
    """Return the value that the session made of these dependencies; make it where there is none.

    Args:
        name: of the value.
        dependencies: what the value depends on.
        make: makes the value.
        n_kept: number of values kept under this name; the one unused for longest goes first.
    """
    entries = session.memoized.get(name, ())  # pairs of dependencies and the value, newest last
    entry = next((entry for entry in entries if entry[0] == dependencies), None)
    if entry is None:
        entry = (dependencies, make())
    rest = [other for other in session.memoized.get(name, ()) if other[0] != dependencies]
    session.memoized[name] = [*rest, entry][-n_kept:]
    value: T = entry[1]
    return value


def memoize_in_run(dependencies: object, make: Callable[[], T]) -> T:
    """Return the value that this run of the page made of these dependencies, or make it.

    Use it for what may change at any time, such as a file, and is read in several places.
    """
    return memoize(_IN_RUN, dependencies, make, n_kept=_MAX_IN_RUN)


def begin_run() -> None:
    """Forget what `memoize_in_run` holds; a run of a page, or of a part that polls, begins."""
    session.memoized.pop(_IN_RUN, None)


def clear_memoized() -> None:
    """Forget everything that `memoize` holds."""
    del session.memoized


def add_note(sentence: str) -> None:
    """Keep a sentence to show at the top of the page."""
    if sentence not in session.notes:
        session.notes.append(sentence)


def show_notes() -> None:
    """Show and forget the sentences that were kept."""
    for sentence in session.notes:
        st.warning(escape(sentence), icon=":material/link_off:")
    del session.notes
