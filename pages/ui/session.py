"""List what a session remembers: every key of `st.session_state`, its type, and its owner.

The owner is the file that shows the control of this key, or computes the value. A page reads and
writes `session.epsilon`. Keys that are in an address, and those of widgets, must not be renamed.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

import streamlit as st

from pages.ui.shelf import RunHistory

if TYPE_CHECKING:  # a page loads the types of its own values only
    from streamlit.runtime.uploaded_file_manager import UploadedFile

    from dpmc_core.model import Task
    from dpmc_data.datasets import LoadedDataset
    from dpmc_lab.audit_bounds import MeasuredBound
    from dpmc_lab.classroom.room import Room

T = TypeVar("T")


class Key(Generic[T]):
    """A key of the session, which is read and written as an attribute of `session`."""

    def __init__(self, key: str, owner: str, default: T | Callable[[], T] | None = None) -> None:
        """Describe a key.

        Args:
            key: the key.
            owner: file below pages/ that shows or computes the value.
            default: the value while there is none, or a function that makes and keeps it.
        """
        self.key = key
        self.owner = owner
        self._default = default

    @overload
    def __get__(self, session: None, _: type) -> Key[T]: ...
    @overload
    def __get__(self, session: Session, _: type) -> T: ...
    def __get__(self, session: Session | None, _: type) -> Key[T] | T:
        if session is None:
            return self  # read from the class, as in `Session.instrument.key`
        # A default that is drawn must be drawn once, so it is stored.
        if callable(self._default) and self.key not in st.session_state:
            st.session_state[self.key] = self._default()
        return cast(T, st.session_state.get(self.key, self._default))

    def __set__(self, _: Session, value: T) -> None:
        st.session_state[self.key] = value

    def __delete__(self, _: Session) -> None:
        self.forget()

    def forget(self) -> None:
        """Forget the value, if there is one."""
        st.session_state.pop(self.key, None)


class Family(Generic[T]):
    """Keys that differ in a name, or a tuple of names, which stand in place of {}."""

    def __init__(self, pattern: str, owner: str, default: T | None = None) -> None:
        self.key = pattern
        self.owner = owner
        self._default = default

    def key_of(self, name: object) -> str:
        """Return the key with this name."""
        return self.key.format(*(name if isinstance(name, tuple) else (name,)))

    def __contains__(self, name: object) -> bool:
        return self.key_of(name) in st.session_state

    def __getitem__(self, name: object) -> T:
        return cast(T, st.session_state.get(self.key_of(name), self._default))

    def __setitem__(self, name: object, value: T) -> None:
        st.session_state[self.key_of(name)] = value

    def __delitem__(self, name: object) -> None:
        st.session_state.pop(self.key_of(name), None)


class Session:
    """What a session remembers, as attributes of `session`."""

    # Choices that several pages share.
    data = Key[str]("data", "ui/sources.py", "")
    next_data = Key[str | None]("next data", "ui/sources.py")  # chosen from the next run on
    mechanism = Key[str | None]("mechanism", "ui/widgets.py")
    epsilon = Key[float]("epsilon", "ui/widgets.py", 1.0)
    wide = Key[bool]("wide", "ui/widgets.py", False)
    all_methods = Key[bool]("all methods", "ui/widgets.py", False)
    uses_item_features = Key[bool]("known", "ui/widgets.py", False)
    usual = Family[object]("usual {}", "ui/widgets.py")  # default of a control before
    put_away = Family[tuple[Any, Any]]("{} put away", "ui/state.py")  # and its substitute

    # The visit.
    inside = Key[bool]("inside", "ui/shell.py", False)  # whether it came through app.py
    page = Key[str | None]("page", "ui/state.py")
    previous_page = Key[str | None]("previous page", "ui/state.py")
    suggested_mechanism = Key[str]("suggested", "ui/widgets.py", "")  # until the page is left
    last_written_params = Key[dict[str, str | None]]("written", "what_if.py", dict)
    notes = Key[list[str]]("notes", "ui/state.py", list)
    memoized = Key[dict[str, list[tuple[object, Any]]]]("kept", "ui/state.py", dict)

    # Uploads.
    upload: Key[LoadedDataset | None] = Key("upload", "ui/sources.py")
    waiting_file: Key[UploadedFile | None] = Key("waiting file", "ui/upload.py")  # not yet read
    file_read = Key[str | None]("file read", "ui/upload.py")  # its id
    uploads_forgotten = Key[int]("uploads forgotten", "ui/upload.py", 0)
    submitted = Key[tuple[str, Mapping[str, Any]]]("submitted", "ui/upload.py", ("", {}))
    chosen_reading = Key[tuple[str, str] | None]("chosen reading", "ui/upload.py")
    reading_option = Family[Any]("{} {}", "ui/upload.py", "guess")  # option, id of the file
    rating_scale = Family[Any]("scale {}", "ui/upload.py")  # id of the file

    # What was run.
    run_history = Key[RunHistory]("shelf", "ui/state.py", RunHistory)
    attacks: Key[dict[tuple[str, float], MeasuredBound]] = Key("attacks", "ui/blocks.py", dict)

    # What if.
    instrument = Key[Mapping[str, Any]]("instrument", "what_if.py")  # its state in the browser
    rewritten_params = Key[list[str]]("what if told late", "what_if.py", list)
    target = Key[float | None]("target", "what_if.py")
    carried = Key[tuple[object, float] | None]("carried", "what_if.py")  # to Compare
    protect = Key[Any]("protect", "what_if.py")

    # Compare.
    mechanisms = Key[list[str] | None]("mechanisms", "compare.py")
    task: Key[Task | None] = Key("task", "compare.py")
    last_visited = Key[str | None]("brought", "compare.py")  # mechanism of the page before
    wanted = Family[float]("wanted {}", "compare.py")  # target of a metric

    # Other pages.
    answer_task: Key[Task | None] = Key("answer_task", "data.py")
    clicks = Key[int]("clicks on claims", "guarantees.py", 0)
    claims = Family[Any]("claims {}", "guarantees.py")  # selection after so many clicks
    second_epsilon = Key[float | None]("pin", "noise.py")
    paper = Key[str | None]("paper", "papers.py")
    experiment = Key[str | None]("experiment", "papers.py")
    table = Family[Any]("papers table {}", "papers.py")  # selection in a paper's table
    playing = Key[bool]("protocol playing", "protocol.py", False)
    message = Key[int]("message", "protocol.py", 0)
    measured = Key[object]("protocol measured", "protocol.py")  # for which data
    tried = Key[str | None]("protocol tried", "protocol.py")  # scenario that was attacked
    lesson_keys = Key[Any]("keys", "learn.py")  # of the component, with what the browser remembers
    guesses = Key[dict[tuple[str, str], int | None]]("guesses", "learn.py", dict)
    guessed = Key[bool]("guessed", "learn.py", False)  # in the run before
    lessons = Key[dict[str, str]]("lessons", "learn.py", dict)  # and their last steps
    lessons_done = Key[set[str]]("lessons done", "learn.py", set)
    seed = Key[int]("chance", "learn.py", lambda: secrets.randbelow(2**32))
    presses = Family[int]("{} count", "learn.py", 0)  # of a button
    room: Key[Room | None] = Key("own room", "ui/classroom.py")  # outside class mode
    room_list = Key[str | None]("room list", "room.py")
    room_questions = Key[str | None]("room questions", "room.py")  # one on each line
    room_truth = Key[bool]("room truth shown", "room.py", False)
    room_free = Key[bool]("room free", "room.py", False)  # although it has a plan
    room_prior = Key[float | None]("room prior", "room.py")

    def update(self, **values: object) -> None:
        """Set several values, as the callback of a control."""
        for name, value in values.items():
            setattr(self, name, value)


session = Session()
