"""The federated flow on the Protocol page: its controls, its budget and what it costs to send."""

from __future__ import annotations

from typing import Any

import streamlit as st

from dpmc_core import registry
from dpmc_core.errors import DpmcError
from dpmc_core.mechanisms.dpimf import Profiles
from dpmc_core.model import Task
from dpmc_core.problem import build_problem
from dpmc_core.protocol.federated import FLOW, VARIANTS, Federation, build
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.views import federated
from pages.ui import blocks, protocol_blocks, sources, widgets

_PARTIES, _ROUNDS, _LOCAL, _ITEMS = 6, 5, 20, 12
_SHARED = {
    Profiles.ITEMS: "users; item profiles are sent",
    Profiles.USERS: "items; user profiles are sent",
}


def page(data: str) -> None:
    """Everything below the choice of data and scenario."""
    try:
        part: Ratings = sources.look(data, _corner)
        public = sources.facts(data, Task.RANKING)
    except (DpmcError, OSError) as error:
        blocks.problem(error)
        return
    with st.expander("Who plays, and by which rules", icon=":material/tune:"):
        chosen, watched = _rules(part)
    epsilon = widgets.epsilon(link={"data": data, "scenario": FLOW})
    try:
        flow = build(chosen.pop("variant"), epsilon, **chosen)
        play = _played(data, flow, part, watched)
    except DpmcError as error:
        blocks.problem(error)
        return
    protocol_blocks.theatre(play)
    st.caption(
        f"Played on a corner of the data, the {play.run.public.users:,} busiest users and the"
        f" {play.run.public.items:,} most chosen items. {federated.counted_words(play.run)}"
    )
    _budget(flow, public)
    _promise(flow, public)
    _communication(flow, public)


def _corner(ratings: Ratings) -> Ratings:
    return federated.corner(build_problem((ratings, ratings), Task.RANKING).train)


def _rules(part: Ratings) -> tuple[dict[str, Any], int]:
    names = {id: registry.get(id).name for id in VARIANTS}
    with st.grid(3, min_column_width=240):
        variant = st.selectbox(
            "Variant",
            list(names),
            index=list(names).index("dpimf-optimal"),
            format_func=names.__getitem__,
            key="federated variant",
            help="How each party puts noise on the loss of a profile: see Noise.",
        )
        profiles = st.selectbox(
            "The parties share out the",
            list(_SHARED),
            format_func=_SHARED.__getitem__,
            key="federated profiles",
            help="Who holds what: each party has some users with all their clicks, or some items"
            " with all clicks on them.",
        )
        by_items = profiles is Profiles.ITEMS
        titles = (part.item_ids if by_items else part.user_ids) or ()
        watched = st.selectbox(
            "Show the profile of",
            list(range(min(_ITEMS, len(titles)))),
            format_func=titles.__getitem__,
            key=f"federated watched {profiles.value}",
            help="A message holds all profiles; one of them is shown.",
        )
        parties = st.slider("Parties", 1, _PARTIES, 4, key="federated parties")
        rounds = st.slider(
            "Rounds", 1, _ROUNDS, 3, key="federated rounds", help="Exchanges with the server."
        )
        local = st.slider(
            "Local solves in a round",
            1,
            _LOCAL,
            2,
            key="federated local",
            help="How often a party solves the profiles before it sends them. Every solve spends"
            " epsilon, also those whose profiles stay at home.",
        )
    chosen = {
        "variant": variant,
        "profiles": profiles,
        "parties": parties,
        "rounds": rounds,
        "local": local,
    }
    return chosen, watched


def _played(data: str, flow: Federation, part: Ratings, watched: int) -> federated.FederatedPlay:
    """The play; kept in the session while nothing has changed."""
    marks = (data, part.fingerprint, flow, watched)
    kept: tuple[object, federated.FederatedPlay] | None = st.session_state.get("federated play")
    if kept is None or kept[0] != marks:
        with st.spinner("Playing the rounds"):
            kept = (marks, federated.demonstrate(flow, part, watched=watched))
        st.session_state["federated play"] = kept
    return kept[1]


def _budget(flow: Federation, public: PublicFacts) -> None:
    st.subheader("What the budget adds up to")
    left, right = st.columns([3, 2], gap="large")
    with left:
        st.dataframe(
            federated.budget_table(flow, public),
            hide_index=True,
            alt="Epsilon claimed for each solve, and composed over rounds, solves and clicks",
        )
        st.caption(
            f"On all of the data, {public.users:,} users and {public.items:,} items. One user: the"
            " row becomes empty."
        )
    with right:
        st.markdown("**Why the claim is not per user**")
        for sentence in federated.why_not_per_user(flow, public):
            st.markdown(f"- {blocks.escape(sentence)}")


def _promise(flow: Federation, public: PublicFacts) -> None:
    st.subheader("What is promised")
    with st.container(border=True):
        blocks.guarantee(flow.mechanism.guarantee(public))


@st.fragment
def _communication(flow: Federation, public: PublicFacts) -> None:
    st.subheader("What it costs to send")
    along = protocol_blocks.along("users", "items", "rounds", "parties")
    lines = federated.communication(along, flow, public)
    protocol_blocks.cost_chart(
        along,
        lines,
        federated.sizes(flow, public)[along],
        "By formula, which the counted messages agree with: 2 x parties x rounds messages of all"
        f" profiles, {flow.mechanism.rank} numbers of 8 bytes each; else as chosen above, on all"
        " of the data. The rule is where you are. Item profiles do not grow with users: nothing"
        " that is sent is about one user alone.",
    )
