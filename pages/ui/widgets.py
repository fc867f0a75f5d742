"""Show controls that several pages share; their values are in the session and in the address."""

import enum
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlencode

import streamlit as st

from dpmc_core import registry
from dpmc_core.errors import DpmcError, format_sentence
from dpmc_core.model import Mechanism
from dpmc_core.privacy import Guarantee
from dpmc_core.settings import Setting, list_settings, serialise_setting
from dpmc_data.public_inputs import read_setting
from dpmc_lab import glossary
from dpmc_lab.sweep.presets import EPSILONS
from dpmc_lab.views import groups
from dpmc_lab.views.groups import MechanismChoice
from pages.ui import blocks, rows, sources, state
from pages.ui.session import Session, session
from pages.ui.text import escape

T = TypeVar("T")
_MAX_NUMBER = 2.0**53 - 1  # of a number without limits: what browsers count exactly
WIDE_EPSILONS = (0.01, 0.02, 0.03, 0.05, 0.07, *EPSILONS, 15.0, 20.0, 30.0, 50.0, 100.0)


def choose_option(
    label: str,
    description: str,
    names: Mapping[T, str],
    key: str,
    default: T,
    *,
    shared: bool = True,
    **options: Any,
) -> T:
    """Show a choice of one option in a list.

    Args:
        label: of the control.
        description: what is chosen, for the note on an invalid link.
        names: labels by option.
        key: of the control.
        default: the option at first.
        shared: whether the choice is in the address. What comes out of an upload stays in the
            session, because its names do not belong in an address.
        **options: of the control.
    """
    storage = {"bind": "query-params"} if shared else {"persist_state": "session"}
    options |= storage | {"index": list(names).index(default)}
    return _choose(st.selectbox, label, description, names, key, default, **options)


def choose_segment(
    label: str, description: str, names: Mapping[T, str], key: str, default: T, **options: Any
) -> T:
    """Show a choice of one option with all of them visible; see `choose_option`."""
    options |= {"bind": "query-params", "required": True, "default": default}
    return _choose(st.segmented_control, label, description, names, key, default, **options)


def follow_default(key: str, default: object) -> None:
    """Move a control to its new default where it stands at its default of before."""
    if key in session.usual and st.session_state.get(key) == session.usual[key] != default:
        st.session_state[key] = default
    session.usual[key] = default


def _choose(
    make: Callable[..., T],
    label: str,
    description: str,
    names: Mapping[T, str],
    key: str,
    first: T,
    **options: Any,
) -> T:
    """Show a choice by the widget that `make` draws, after checking what the address asks for."""
    if "bind" in options:
        state.apply_link_choice(key, description, names)
    state.reset_unavailable_choice(key, names, first)
    chosen = make(label, list(names), format_func=names.__getitem__, key=key, **options)
    return first if chosen is None else chosen  # the browser went back to an empty value


def choose_number(
    label: str,
    description: str,
    low: Any,
    high: Any,
    default: Any,
    key: str,
    *,
    kind: str = "number_input",
    **options: Any,
) -> Any:
    """Show a number that is kept in the address; an impossible one is noted or reset.

    Args:
        label: of the control.
        description: what is chosen, for the note on an invalid link.
        low, high: limits; None for no limit.
        default: the number at first, or None.
        key: of the control.
        kind: name of the widget.
        **options: of the control.
    """

    def is_possible(value: Any) -> bool:
        """Return whether a number is within the limits."""
        minimum = -_MAX_NUMBER if low is None else low
        maximum = _MAX_NUMBER if high is None else high
        return minimum <= float(value) <= maximum

    state.check_link_value(key, description, is_possible)
    current = st.session_state.get(key)
    if current is not None and not is_possible(current):
        st.session_state[key] = default  # chosen for other data
    make = getattr(st, kind)
    try:
        return make(label, low, high, default, key=key, bind="query-params", **options)
    except OverflowError:  # the browser went back to an infinity, which only Streamlit may remove
        state.note_impossible_value(key, description)
        return make(label, low, high, default, **options)


choose_on_slider = partial(choose_number, kind="slider")


def lay_out_tabs(description: str, names: Sequence[str], key: str) -> Sequence[Any]:
    """Show tabs and return them; the address has the open one, and others need not be drawn.

    Args:
        description: what is chosen, for the note on an invalid link.
        names: of the tabs.
        key: of the tabs.
    """
    labels = {name: escape(name) for name in names}
    state.apply_link_choice(key, description, labels)
    state.reset_unavailable_choice(key, labels.values(), labels[names[0]])
    return st.tabs(list(labels.values()), key=key, bind="query-params")


def choose_toggle(
    label: str,
    description: str,
    key: str,
    default: bool = False,
    **options: Any,
) -> bool:
    """Show a switch that is kept in the address.

    Args:
        label: of the control.
        description: what is switched, for the note on an invalid link.
        key: of the control.
        default: the state at first.
        **options: of the control.
    """
    state.check_link_value(key, description, lambda text: text.lower() in ("true", "false"))
    chosen: bool = st.toggle(label, default, key=key, bind="query-params", **options)
    return chosen


def suggest_mechanism(data: str, choose: Callable[[Sequence[str]], str]) -> tuple[str, str] | None:
    """Open on the mechanism that suits a page, unless one was chosen or trained in this session.

    Args:
        data: id of the data set.
        choose: returns the id of the mechanism, of those of the data set.

    Returns:
        Names of the mechanism on the page before and of the one here, if that has changed.
    """
    ids = sources.list_available_mechanisms(data)
    if (
        st.query_params.get("mechanism")
        or session.suggested_mechanism
        or (session.mechanism or ids[0]) != ids[0]
        or state.get_run_history().runs
    ):
        return None
    suggested = choose(ids)
    session.mechanism = session.suggested_mechanism = suggested
    if session.previous_page not in ("", "guarantees") or suggested == ids[0]:
        return None
    return registry.get_mechanism(ids[0]).name, registry.get_mechanism(suggested).name


def choose_mechanism(data: str, *, shortlist: bool = False) -> str:
    """Show the choice of a mechanism, which is the same on every page and in the address.

    Args:
        data: the data set, as it is typed.
        shortlist: see `choose_by_guarantee`.
    """
    ids = sources.list_available_mechanisms(data)
    try:
        public = sources.get_dataset(data).ratings.public
    except (DpmcError, OSError):  # the page says so where it needs the data
        public = groups.ANY_PUBLIC_FACTS
    # Where these sizes ask for other settings, it can be chosen all the same.
    (default_guarantees, _), (data_guarantees, _) = (
        groups.build_guarantees(ids, public_facts)
        for public_facts in (groups.ANY_PUBLIC_FACTS, public)
    )
    return choose_by_guarantee(
        default_guarantees | data_guarantees,
        rows.list_ready_mechanisms(data),
        shortlist=shortlist,
    )


def choose_by_guarantee(
    cards: Mapping[str, Guarantee], ready_ids: Collection[str] = (), *, shortlist: bool = False
) -> str:
    """Show the choice of a mechanism, grouped by what the mechanisms protect and whom they trust.

    Args:
        cards: guarantees by mechanism id.
        ready_ids: ids of mechanisms whose curve is shipped.
        shortlist: whether to offer three mechanisms for each privacy unit, and the others behind a
            switch.
    """
    all_groups = groups.group_mechanisms(cards, blocks.is_mechanism_refuted)
    names = {choice.id: choice.name for group in all_groups for choice in group.choices}
    first = next(iter(cards))
    state.apply_link_choice("mechanism", "the mechanism", names)
    if st.query_params.get("mechanism"):
        # A link decides for as long as the page is open, even once Streamlit has taken what is the
        # default out of the address.
        session.suggested_mechanism = session.suggested_mechanism or "by link"
    unavailable = state.substitute_choice("mechanism", names, lambda id: _find_nearest(id, cards))
    requested = st.query_params.get("mechanism", names[first])
    displayed_name = names.get(session.mechanism or "", requested)
    if unavailable in registry.MECHANISMS:
        state.add_note(
            f"{registry.get_mechanism(unavailable).name} is not available here. The page shows"
            f" {displayed_name} instead."
        )
    with st.popover(f"Mechanism: **{escape(displayed_name)}**"):
        if shortlist and not st.toggle("All methods", key=Session.all_methods.key):
            # The default stays an option, or the address of another one would open it.
            current = (first, *(id for id, name in names.items() if name == displayed_name))
            all_groups = groups.shorten_groups(all_groups, cards, current)
        headings, choices = {}, {}
        for group in all_groups:
            headings[len(choices) + 1] = group.title
            choices |= {choice.id: choice for choice in group.choices}
        st.caption("● proved, ○ claimed only, ⊗ refuted; then what it predicts and publishes.")
        st.html(_build_heading_style(headings))
        chosen = st.radio(
            "Mechanism",
            list(choices),
            index=list(choices).index(first),
            format_func=names.__getitem__,
            captions=[_format_caption(choice, ready_ids) for choice in choices.values()],
            key="mechanism",
            bind="query-params",
            label_visibility="collapsed",
        )
        chosen = chosen if chosen in names else first
        blocks.show_paper_links(chosen)
    return chosen


def _find_nearest(id: str, cards: Mapping[str, Guarantee]) -> str:
    """Return the mechanism whose promise and task are most similar."""
    target_guarantees, _ = groups.build_guarantees(
        [id] if id in registry.MECHANISMS else [], groups.ANY_PUBLIC_FACTS
    )
    if id not in target_guarantees:
        return next(iter(cards))
    target, task = target_guarantees[id], registry.get_mechanism(id).task
    return max(  # the first of those that share most
        cards,
        key=lambda other: (
            cards[other].change.per_user is target.change.per_user,
            cards[other].trust is target.trust,
            registry.get_mechanism(other).task is task,
        ),
    )


def _format_caption(choice: MechanismChoice, ready_ids: Collection[str]) -> str:
    """Return what is shown beside a mechanism's name in the choice."""
    curve_state = ("curve ready" if choice.id in ready_ids else "no curve yet") if ready_ids else ""
    recommendation = choice.recommended and f"**{choice.recommended}**"
    return " · ".join(
        filter(
            None,
            (choice.state.value, choice.predicts, choice.publishes, curve_state, recommendation),
        )
    )


def _build_heading_style(headings: Mapping[int, str]) -> str:
    """Return a style with headings between the mechanisms, and captions beside their names.

    Streamlit's radio buttons have no groups, so a heading is shown as text before its first option.

    Args:
        headings: headings by the number, from 1, of the option below.
    """
    group = '.st-key-mechanism [data-testid="stRadioGroup"]'
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


def choose_wide_range() -> bool:
    """Show the switch that lets epsilon leave 0.1..10."""
    return choose_toggle(
        "Wide range",
        "the wide range",
        "wide",
        help="epsilon from 0.01 to 100, for experts: below 0.1 little is left to learn, above 10"
        " little is protected.",
    )


def list_epsilons(wide: bool) -> list[float]:
    """Return the epsilons of the slider: round numbers, spread over the logarithmic scale.

    Args:
        wide: whether those below 0.1 and above 10 are among them; see `choose_wide_range`.
    """
    return list(WIDE_EPSILONS if wide else EPSILONS)


def find_nearest_epsilon(epsilon: float, epsilons: Sequence[float]) -> float:
    """Return the epsilon of a grid that is nearest to one of another grid."""
    return min(epsilons, key=lambda candidate: abs(candidate - epsilon))


def choose_epsilon(wide: bool = False) -> float:
    """Show epsilon on a logarithmic slider, the same on every page and in the address."""
    epsilons = list_epsilons(wide)
    names = {value: f"{value:g}" for value in epsilons}
    state.apply_link_choice("epsilon", "epsilon", names)
    if session.epsilon not in epsilons:  # chosen on the wide range
        session.epsilon = find_nearest_epsilon(session.epsilon, epsilons)
    with blocks.lay_out_row(key="epsilon line"):
        st.caption(
            "**epsilon** \u2190 more private",
            width="content",
            help=glossary.explain_terms("epsilon"),
        )
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


def choose_settings(cls: type[Mechanism]) -> dict[str, Any] | None:
    """Show a control for each setting of a mechanism, and return what differs from the defaults.

    The result is None where one of them is not valid; a note says why.
    """
    chosen, possible = {}, True
    with st.grid(3, min_column_width=240):
        for setting in list_settings(cls):
            if setting.name in ("epsilon", "delta"):
                continue
            try:
                value = _choose_setting(cls, setting)
            except DpmcError as error:
                # A note is visible while the settings are closed, too.
                state.add_note(format_sentence(str(error)))
                possible = False
                continue
            if value != setting.default:
                chosen[setting.name] = value
    return chosen if possible else None


def choose_as_published() -> bool:
    """Show the switch for the paper's settings, the same on every page and in the address."""
    return choose_toggle(
        "As published",
        "the papers' settings",
        "published",
        help="Every setting as in the mechanism's paper. What you set yourself stays.",
    )


def choose_item_features(data: str, ids: Collection[str]) -> tuple[str, ...]:
    """Show the switch for public item features, and return the preparation step if it is on.

    There is no switch where the data have no item features or no method uses them.
    """
    ratings = sources.get_dataset(data).ratings
    item_features = ratings.public.available_features
    if not item_features or not any(registry.get_mechanism(id).uses_item_features for id in ids):
        return ()
    names = ", ".join(name for name, _ in item_features)
    use_features = choose_toggle(
        "Public facts",
        "the public facts",
        "known",
        bool(ratings.features_digest),
        help="What an outsider already knows about items costs no epsilon: here "
        f"{names}. Each user's own side takes it along.",
    )
    return ("features",) * use_features


def _choose_setting(cls: type[Mechanism], setting: Setting) -> Any:
    """Show the control for a setting's type, and return the chosen value.

    Raises:
        DpmcError: the value is not valid.
    """
    key = f"{cls.id}.{setting.name}"
    label = setting.name.replace("_", " ").capitalize()
    description = f"the setting {setting.name}"
    info = setting.info
    term = glossary.find_term(setting.name)
    help_text = " ".join(filter(None, (format_sentence(info.help), term and term.words))) or None
    if setting.type is bool:
        return choose_toggle(label, description, key, setting.default, help=help_text)
    if issubclass(setting.type, enum.Enum):
        names = {member: str(member.value) for member in setting.type}
        return choose_option(label, description, names, key, setting.default, help=help_text)
    if setting.type in (int, float):
        # an open end is checked by the core, with a sentence
        low = info.at_least if info.at_least is not None else info.above
        high = info.at_most if info.at_most is not None else info.below
        return choose_number(
            label,
            description,
            None if low is None else setting.type(low),
            None if high is None else setting.type(high),
            setting.default,
            key,
            step=1 if setting.type is int else None,
            format=None if setting.type is int else "%g",
            placeholder="none" if setting.optional else None,
            help=help_text,
        )
    text = st.selectbox(
        label,
        [choice for choice in info.choices if _can_parse(cls, setting.name, choice)],
        accept_new_options=True,
        placeholder=str(serialise_setting(setting.default)),
        key=key,
        bind="query-params",
        help=f"{info.help}. One of {', '.join(info.choices)}: type your own.",
    )
    return setting.default if text is None else read_setting(cls, setting.name, text)


def _can_parse(cls: type[Mechanism], name: str, text: str) -> bool:
    """Return whether a text is a valid value of a mechanism's setting."""
    try:
        read_setting(cls, name, text)
    except DpmcError:
        return False
    return True


def build_address(values: Mapping[str, object]) -> str:
    """Return the address that opens this page with these choices."""
    return f"{(st.context.url or '').split('?')[0]}?{urlencode(values, doseq=True)}"
