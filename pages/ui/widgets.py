"""Controls that several pages share; their values live in the session and in the address."""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlencode

import streamlit as st

from dpmc_core import registry
from dpmc_core.errors import DpmcError, sentence
from dpmc_core.model import Mechanism
from dpmc_core.privacy import Guarantee
from dpmc_core.settings import Setting, parse_setting, settings_of, show_setting
from dpmc_lab import glossary
from dpmc_lab.curves import groups
from dpmc_lab.curves.groups import Choice
from dpmc_lab.sweep.presets import EPSILONS
from pages.ui import blocks, rows, sources, state

T = TypeVar("T")
_MOST = 2.0**53 - 1  # of a number without limits: what browsers count exactly
WIDE = (0.01, 0.02, 0.03, 0.05, 0.07, *EPSILONS, 15.0, 20.0, 30.0, 50.0, 100.0)


def choose(
    label: str,
    description: str,
    names: Mapping[T, str],
    key: str,
    default: T,
    *,
    place: Any = st,
    shared: bool = True,
    **options: Any,
) -> T:
    """One of several in a list, kept in the address; junk in a link is noted with `description` it
    is.

    shared: not for what comes out of an upload, whose names belong into no address: it stays in
    the session.
    """
    storage = {"bind": "query-params"} if shared else {"persist_state": "session"}
    options |= storage | {"index": list(names).index(default)}
    return _among(place.selectbox, label, description, names, key, default, **options)


def switch(
    label: str, description: str, names: Mapping[T, str], key: str, default: T, **options: Any
) -> T:
    """The same with all of them in sight."""
    options |= {"bind": "query-params", "required": True, "default": default}
    return _among(st.segmented_control, label, description, names, key, default, **options)


def _among(
    make: Callable[..., T],
    label: str,
    description: str,
    names: Mapping[T, str],
    key: str,
    first: T,
    **options: Any,
) -> T:
    if "bind" in options:
        state.from_link(key, description, names)
    state.only_among(key, names, first)
    return make(label, list(names), format_func=names.__getitem__, key=key, **options)


def number(
    label: str,
    description: str,
    low: Any,
    high: Any,
    default: Any,
    key: str,
    *,
    place: Any = st,
    kind: str = "number_input",
    **options: Any,
) -> Any:
    """A number, kept in the address: one that cannot be is noted, or forgotten with its data."""

    def possible(value: Any) -> bool:
        ends = -_MOST if low is None else low, _MOST if high is None else high
        return ends[0] <= float(value) <= ends[1]

    state.only_possible(key, description, possible)
    current = st.session_state.get(key)
    if current is not None and not possible(current):
        st.session_state[key] = default  # chosen for other data
    make = getattr(place, kind)
    try:
        return make(label, low, high, default, key=key, bind="query-params", **options)
    except OverflowError:  # the browser went back to an infinity, which only Streamlit may remove
        state.impossible(key, description)
        return make(label, low, high, default, **options)


slider = partial(number, kind="slider")


def tabs(description: str, names: Sequence[str], key: str) -> Sequence[Any]:
    """Tabs, the open one kept in the address; what is in the others need not be drawn."""
    labels = {name: blocks.escape(name) for name in names}
    state.from_link(key, description, labels)
    state.only_among(key, {label: label for label in labels.values()}, labels[names[0]])
    return st.tabs(list(labels.values()), key=key, bind="query-params")


def toggle(
    label: str,
    description: str,
    key: str,
    default: bool = False,
    *,
    place: Any = st,
    **options: Any,
) -> bool:
    """On or off, kept in the address."""
    state.only_possible(key, description, lambda text: text.lower() in ("true", "false"))
    chosen: bool = place.toggle(label, default, key=key, bind="query-params", **options)
    return chosen


def mechanism(data: str) -> str:
    """Which mechanism; the same choice on every page and in the address."""
    ids = sources.mechanisms(data)
    try:
        public = sources.get(data).ratings.public
    except (DpmcError, OSError):  # the page says so where it needs the data
        public = groups.ANY
    # Where these sizes ask for other settings, it can be chosen all the same.
    (default_guarantees, _), (data_guarantees, _) = (
        groups.cards_of(ids, facts) for facts in (groups.ANY, public)
    )
    return picker(default_guarantees | data_guarantees, rows.ready(data))


def picker(cards: Mapping[str, Guarantee], ready_ids: Collection[str] = ()) -> str:
    """The same by their cards: grouped by promise. ready_ids: ids whose curve came with the app."""
    headings, choices = {}, {}
    for group in groups.grouped(cards):
        headings[len(choices) + 1] = group.title
        choices |= {choice.id: choice for choice in group.choices}
    names = {id: choice.name for id, choice in choices.items()}
    first = next(iter(cards))
    state.from_link("mechanism", "the mechanism", names)
    away = state.stand_in("mechanism", names, lambda id: _nearest(id, cards))
    requested = st.query_params.get("mechanism", names[first])
    now = names.get(st.session_state.get("mechanism"), requested)
    if away in registry.MECHANISMS:
        state.note(f"{registry.get(away).name} is not to be had here; {now} stands in for it.")
    with st.popover(f"Mechanism: **{blocks.escape(now)}**"):
        st.caption("● certified, ○ only claimed; what it predicts; what it publishes.")
        st.html(_headed("mechanism", headings))
        chosen = st.radio(
            "Mechanism",
            list(names),
            index=list(names).index(first),
            format_func=names.__getitem__,
            captions=[_caption(choice, ready_ids) for choice in choices.values()],
            key="mechanism",
            bind="query-params",
            label_visibility="collapsed",
        )
    return chosen if chosen in names else first


def _nearest(id: str, cards: Mapping[str, Guarantee]) -> str:
    """The one of these that promises and predicts most alike."""
    target_guarantees, _ = groups.cards_of([id] if id in registry.MECHANISMS else [], groups.ANY)
    if id not in target_guarantees:
        return next(iter(cards))
    target_guarantee, task = target_guarantees[id], registry.get(id).task

    def alike(other: str) -> tuple[bool, bool, bool]:
        guarantee = cards[other]
        same_task = registry.get(other).task is task
        return (
            guarantee.change.per_user is target_guarantee.change.per_user,
            guarantee.trust is target_guarantee.trust,
            same_task,
        )

    return max(cards, key=alike)  # the first of those alike


def _caption(choice: Choice, ready_ids: Collection[str]) -> str:
    curve_state = ("curve ready" if choice.id in ready_ids else "no curve yet") if ready_ids else ""
    recommendation = choice.recommended and f"**{choice.recommended}**"
    return " · ".join(
        filter(
            None,
            (choice.state.value, choice.predicts, choice.publishes, curve_state, recommendation),
        )
    )


def _headed(key: str, headings: Mapping[int, str]) -> str:
    """A style of a radio with captions: headings between its options, captions beside their labels.

    headings: number of the option (from 1) that a heading stands above, and the heading.
    """
    group = f'.st-key-{key} [data-testid="stRadioGroup"]'
    rules = [
        f"{group} {{ gap: 0.15rem; }}",
        f"@media (min-width: 800px) {{ {group} > div {{ display: grid; align-items: center;"
        " grid-template-columns: 18rem auto; }"
        f' {group} [data-testid="stRadioCaption"] {{ padding: 0; margin: 0; }} }}',
        f"{group} > div::before {{ grid-column: 1 / -1; display: block; font-weight: 600; }}",
        *(
            f"{group} > div:nth-child({k})::before {{ content: {json.dumps(text)};"
            f" margin: {'0' if k == 1 else '0.7rem'} 0 0.1rem; }}"
            for k, text in headings.items()
        ),
    ]
    return f"<style>{' '.join(rules)}</style>"


def wide() -> bool:
    """Whether epsilon may leave 0.1..10."""
    return toggle(
        "Wide range",
        "the wide range",
        "wide",
        help="epsilon from 0.01 to 100, for experts: below 0.1 little is left to learn, above 10"
        " little is protected.",
    )


def grid(wide: bool) -> list[float]:
    """The epsilons of the slider: rounded, spread over the logarithmic scale."""
    return list(WIDE if wide else EPSILONS)


def epsilon(wide: bool = False) -> float:
    """The privacy budget on a logarithmic slider, the same on every page and in the address."""
    epsilons = grid(wide)
    names = {value: f"{value:g}" for value in epsilons}
    state.from_link("epsilon", "epsilon", names)
    current = st.session_state.get("epsilon", 1.0)
    if current not in epsilons:  # chosen on the wide range
        st.session_state["epsilon"] = min(epsilons, key=lambda e: abs(e - current))
    with st.container(horizontal=True, vertical_alignment="center", key="epsilon line"):
        caption = "**epsilon** \u2190 more private"
        st.caption(caption, width="content", help=glossary.help("epsilon"))
        chosen = st.select_slider(
            "epsilon",
            epsilons,
            value=1.0,
            format_func=names.__getitem__,
            key="epsilon",
            bind="query-params",
            label_visibility="collapsed",
        )
        st.caption("more accurate \u2192", width="content")
    return float(chosen)


def settings(cls: type[Mechanism]) -> dict[str, Any] | None:
    """A widget for each public setting of a mechanism; what differs from the defaults.

    None where one of them makes no sense: a sentence says why.
    """
    chosen, possible = {}, True
    with st.grid(3, min_column_width=240):
        for setting in settings_of(cls):
            if setting.name in ("epsilon", "delta"):
                continue
            try:
                value = _setting(cls, setting)
            except DpmcError as error:
                state.note(sentence(str(error)))  # seen also while the settings are closed
                possible = False
                continue
            if value != setting.default:
                chosen[setting.name] = value
    return chosen if possible else None


def as_published() -> bool:
    """Whether every setting is the paper's; the same choice on every page and in the address."""
    return toggle(
        "As published",
        "the papers' settings",
        "published",
        help="Every setting as in the mechanism's paper. What you set yourself stays.",
    )


def facts(data: str, ids: Collection[str]) -> tuple[str, ...]:
    """The step that uses what is publicly known of the items, where somebody wants it and there is
    something that one of these methods uses."""
    ratings = sources.get(data).ratings
    item_features = ratings.public.known
    if not item_features or not any(registry.takes_facts(registry.get(id)) for id in ids):
        return ()
    names = ", ".join(name for name, _ in item_features)
    use_features = toggle(
        "Public facts",
        "the public facts",
        "known",
        bool(ratings.told),
        help="What an outsider already knows about items costs no epsilon: here "
        f"{names}. Each user's own side takes it along.",
    )
    return ("features",) * use_features


def _setting(cls: type[Mechanism], s: Setting) -> Any:
    key, label = f"{cls.id}.{s.name}", s.name.replace("_", " ").capitalize()
    description, i = f"the setting {s.name}", s.info
    term = glossary.named(s.name)
    help_text = " ".join(filter(None, (sentence(i.help), term and term.words))) or None
    if s.type is bool:
        return toggle(label, description, key, s.default, help=help_text)
    if issubclass(s.type, enum.Enum):
        names = {member: str(member.value) for member in s.type}
        return choose(label, description, names, key, s.default, help=help_text)
    if s.type in (int, float):
        # an open end is checked by the core, with a sentence
        low = i.at_least if i.at_least is not None else i.above
        high = i.at_most if i.at_most is not None else i.below
        return number(
            label,
            description,
            None if low is None else s.type(low),
            None if high is None else s.type(high),
            s.default,
            key,
            step=1 if s.type is int else None,
            format=None if s.type is int else "%g",
            placeholder="none" if s.optional else None,
            help=help_text,
        )
    text = st.selectbox(
        label,
        [choice for choice in i.choices if _parses(cls, s.name, choice)],
        accept_new_options=True,
        placeholder=str(show_setting(s.default)),
        key=key,
        bind="query-params",
        help=f"{i.help}. One of {', '.join(i.choices)}: type your own.",
    )
    return s.default if text is None else parse_setting(cls, s.name, text)


def _parses(cls: type[Mechanism], name: str, text: str) -> bool:
    try:
        parse_setting(cls, name, text)
    except DpmcError:
        return False
    return True


def build(id: str, epsilon: float, chosen: Mapping[str, Any] | None) -> Mechanism | None:
    """The mechanism with its settings; on a bad one a sentence is shown and None returned."""
    if chosen is None:
        return None
    try:
        return registry.create(id, epsilon=epsilon, **chosen)
    except DpmcError as error:
        blocks.problem(error)
        return None


def address(values: Mapping[str, object]) -> str:
    """Where this page opens with these choices."""
    return f"{(st.context.url or '').split('?')[0]}?{urlencode(values, doseq=True)}"
