"""Provide the data of a session; samples are shared, an upload never leaves its session."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import streamlit as st

from dpmc_core import registry
from dpmc_core.errors import DpmcError, InvalidSetting
from dpmc_core.model import Mechanism, Task
from dpmc_core.preparation import parse_step
from dpmc_core.problem import build_problem, prepare_public_facts
from dpmc_core.ratings import ColumnRoles, PublicFacts, Ratings
from dpmc_data import datasets, public_sets
from dpmc_data.datasets import LoadedDataset
from dpmc_data.synthetic import (
    GENERATORS,
    ON_DEMAND,
    SAMPLES,
    count_sample_cells,
    list_sample_options,
)
from dpmc_lab.views import noise
from pages.ui import state
from pages.ui.session import session

UPLOAD = "upload"
UPLOAD_TITLE = "Your upload"  # as it stands in the address
MAX_GENERATED_CELLS = 4_000_000  # cells, users x items, of a set that is generated for a page


def list_names() -> dict[str, str]:
    """Return the ids and titles of the data sets that this session can open."""
    titles = {id: sample.title for id, sample in SAMPLES.items()}
    titles["rank-one"] = ON_DEMAND["rank-one"].title
    public_sets_by_id = {**public_sets.ARCHIVES, **public_sets.BY_HAND}
    titles |= {
        id: public_set.title
        for id, public_set in public_sets_by_id.items()
        if public_sets.is_downloaded(id)
    }
    for id in (session.data, st.query_params.get("data")):
        if id and id not in titles and find_generation_error(id) is None:
            titles[id] = id
    if session.upload is not None:
        titles[UPLOAD] = UPLOAD_TITLE
    return titles


def find_generation_error(text: str) -> DpmcError | None:
    """Return why a text does not name a generated sample; None if it does."""
    try:
        generator_request = datasets.parse_drawn_sample(text)
        if generator_request is None:
            names = ", ".join(f"{name}:..." for name in GENERATORS)
            raise InvalidSetting("sample drawn anew", f"one of {names}", text)
        name, options = generator_request
        supported_options = list_sample_options(name)
        unknown = [option for option in options if option not in supported_options]
        if unknown:
            raise InvalidSetting(
                f"option of {name}", f"one of {', '.join(supported_options)}", unknown
            )
        cells = count_sample_cells(name, options)
        if not 0 < cells <= MAX_GENERATED_CELLS:
            limit = f"at most {MAX_GENERATED_CELLS:,} (the command line takes more)"
            raise InvalidSetting("users x items of a generated set", limit, f"{cells:,.0f}")
    except DpmcError as error:
        return error
    except (TypeError, ValueError, OverflowError):
        return InvalidSetting(f"option of {text.partition(':')[0]}", "a number", text)
    return None


def choose_data(label: str = "Data", **options: Any) -> str:
    """Show the choice of a data set, which is the same on every page and in the address."""
    if session.next_data is not None:
        session.data = session.next_data
        del session.next_data
    available_names = list_names()
    first = next(iter(available_names))
    if (session.data or first) not in available_names:
        session.data = first  # an upload that is gone
    is_requested = st.query_params.get("data") in (UPLOAD, UPLOAD_TITLE)
    is_lost = is_requested and not session.data and session.upload is None
    if not is_lost:
        state.apply_link_choice("data", "the data", available_names)
    chosen: str = st.selectbox(
        label,
        list(available_names),
        format_func=available_names.__getitem__,
        key="data",
        bind="query-params",
        help="Generated samples, public sets you downloaded, or your own ratings: see Your data.",
        **options,
    )
    if is_lost:
        state.add_note(
            "The address asks for uploaded ratings, which only the session that uploaded them has."
            f" You see {available_names[chosen]} instead."
        )
    return chosen


def get_dataset(id: str) -> LoadedDataset:
    """Return the data set with this id.

    Raises:
        DpmcError: there is no such data set, or it cannot be read.
    """
    if id == UPLOAD:
        if session.upload is None:
            raise InvalidSetting("data", "uploaded again: uploads end with their session", id)
        return session.upload
    return _load_shared(id)


def get_column_roles() -> ColumnRoles:
    """Return the column roles of the file that the page is about."""
    with suppress(DpmcError, OSError):
        return get_dataset(session.data).ratings.columns
    return ColumnRoles()


@st.cache_resource(max_entries=6, show_spinner="Reading the data")
def _load_shared(id: str) -> LoadedDataset:
    """Load a data set that all sessions share."""
    return datasets.load(id)


def keep_upload(dataset: LoadedDataset) -> None:
    """Store an upload in this session, in place of an earlier one, and select it."""
    forget_upload()
    session.upload, session.next_data = dataset, UPLOAD


def forget_upload() -> None:
    """Drop an upload and what was computed from it."""
    state.get_jobs().forget_data(UPLOAD)
    state.get_run_history().forget_data(UPLOAD)
    state.get_upload_folder().close()
    state.clear_memoized()
    del session.upload, session.upload_results, session.chosen_reading


def compute_once(id: str, compute: Callable[[Ratings], Any], name: str = "") -> Any:
    """Compute a value from a data set once: shared for samples, in the session for an upload.

    Args:
        id: of the data set.
        compute: computes the value from the ratings.
        name: of the value (default: the name of the function).

    Raises:
        DpmcError: there is no such data set, or it cannot be read.
        OSError: a file cannot be read.
    """
    name = name or compute.__name__
    if id != UPLOAD:
        return _compute_shared(id, name, compute)
    if name not in session.upload_results:
        session.upload_results[name] = compute(get_dataset(id).ratings)
    return session.upload_results[name]


@st.cache_resource(max_entries=250, show_spinner=False)
def _compute_shared(id: str, name: str, _compute: Callable[[Ratings], Any]) -> Any:  # noqa: ARG001
    """Compute a value from a shared data set, cached by the value's name."""
    return _compute(get_dataset(id).ratings)


def list_available_mechanisms(id: str) -> tuple[str, ...]:
    """Return the ids of the mechanisms for a data set, without reading a sample for it."""
    if id in SAMPLES:
        return registry.list_suitable_mechanisms(clicks=SAMPLES[id].clicks)
    try:
        clicks: bool = compute_once(id, lambda ratings: ratings.has_only_clicks, "clicks")
    except (DpmcError, OSError):  # the page says so where it needs the data
        return registry.list_private_mechanisms(Task.BINARY)
    return registry.list_suitable_mechanisms(clicks=clicks)


def list_available_tasks(id: str) -> list[Task]:
    """Return the tasks for a data set, in the order of its mechanisms."""
    return registry.list_tasks(list_available_mechanisms(id))


def compute_before_after(id: str, mechanism: Mechanism) -> Any:
    """Return a mechanism's releases on the busiest users and most rated items of a data set.

    Raises:
        DpmcError: the data set cannot be used.
        OSError: a file cannot be read.
    """
    task = mechanism.task

    def release_corner(_: Ratings) -> Any:
        """Run the mechanism on the corner of the ratings, which is prepared once for a task."""
        corner = compute_once(
            id,
            lambda ratings: noise.select_block(build_problem((ratings, ratings), task).train),
            f"corner for {task.value}",
        )
        return noise.run_on_block(mechanism, corner)

    return compute_once(id, release_corner, repr(mechanism))


def get_public_facts(id: str, task: Task, steps: Sequence[str] = ()) -> PublicFacts:
    """Return the public facts after these steps and the task's default preparation."""
    return prepare_public_facts(
        get_dataset(id).ratings.public, task, [parse_step(step) for step in steps]
    )
