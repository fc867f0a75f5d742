"""Factorization with an untrusted recommender, one message at a time."""

import streamlit as st

from dpmc_core.errors import DpmcError
from dpmc_core.privacy import Shares
from dpmc_core.protocol.attacks import sum_attacks
from dpmc_core.protocol.federated import FLOW
from dpmc_core.views import scenarios
from pages.ui import blocks, federated_blocks, protocol_blocks, shell, sources, widgets


def page() -> None:
    blocks.heading(
        "Can a recommender learn without seeing?",
        "Step through the messages and see what each party gets to know. Then see what is left to"
        " attack, and what the promise covers.",
    )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        data = sources.pick()
        scenario = protocol_blocks.scenario()
    if scenario == FLOW:
        federated_blocks.page(data)
        return
    try:
        ratings = sources.get(data).ratings
        items = scenarios.small_items(ratings)
    except (DpmcError, OSError) as error:
        blocks.problem(error)
        return
    with st.expander("Who plays, and by which rules", icon=":material/tune:"):
        rules = protocol_blocks.rules(items, scenario)
    epsilon = widgets.epsilon(link={"data": data, "scenario": scenario})
    try:
        play = scenarios.demonstrate(
            ratings,
            rules.item,
            scenario=scenario,
            epsilon=epsilon,
            shares=rules.shares,
            masks=rules.masks,
            leaver=rules.leaver,
        )
    except DpmcError as error:
        blocks.problem(error)
        return
    protocol_blocks.theatre(play)
    attacks(play)
    claim(play)
    communication(ratings, rules.shares)


def attacks(play: scenarios.ScenarioPlay) -> None:
    """What the third party and the recommender can compute from what they saw."""
    st.subheader("Attacks")
    left, right = st.columns(2, gap="large")
    with left:
        st.markdown("**The third party compares two rounds of one user**")
        table = scenarios.difference_table(play)
        if not table["user"]:
            st.markdown("Nobody answered in both rounds, so there is nothing to compare.")
        else:
            hit = table["recovered"].count("yes")
            st.markdown(
                f"It recovers {hit} of {len(table['user'])} differences of gradients. Each user's"
                " noise is the same in every round, so it cancels"
                + (
                    ": **without masks the difference lies open.** Switch the masks on above."
                    if hit
                    else "; the fresh masks do not: **what is left is a uniform number.**"
                )
            )
            st.dataframe(table, hide_index=True, alt="Difference attack on each user")
    with right:
        st.markdown("**The recommender compares sums**")
        passive, active, size = sum_attacks(play.run)
        static = play.run.settings.number == "2"
        hidden = " Ratings themselves stay behind the noise." if static else ""
        st.markdown(
            "The noise cancels in differences of sums too, and what is left is"
            " A = sum of u u' over the item's raters: an attack the paper does not consider."
        )
        first, second = st.columns(2)
        first.metric(
            "Only listening: A is off by",
            "-" if passive is None else f"{passive:.2g}",
            help=f"Its largest entry is {size:.2g}. Measured on this run: the more numbers a factor"
            " has and the closer the run is to its end, the worse a listener does.",
        )
        second.metric(
            "Choosing what it sends: A is off by",
            f"{active:.1g}",
            help="It sends 0 and long unit vectors instead of item factors.",
        )
        st.markdown(
            "So an active recommender reads A off exactly. A says how the raters' tastes are"
            " spread; two groups of raters that differ by one user give that user's factors away."
            f"{hidden} Against it, users would have to refuse item"
            " factors that jump, and draw fresh noise, paid for with epsilon, in every round."
        )
    protocol_blocks.attendance(play)


def claim(play: scenarios.ScenarioPlay) -> None:
    """The card of the scenario."""
    st.subheader("What is promised")
    with st.container(border=True):
        blocks.guarantee(play.run.settings.guarantee(play.run.public))


@st.fragment
def communication(ratings: sources.Ratings, shares: Shares) -> None:
    """Bytes by formula against users, items or rounds."""
    st.subheader("What it costs to send")
    along = protocol_blocks.along("users", "items", "rounds")
    lines = scenarios.communication(along, ratings, shares)
    now = {"users": ratings.public.users, "items": ratings.public.items, "rounds": 20}[along]
    protocol_blocks.cost_chart(
        along,
        lines,
        now,
        "By formula, which the counted messages of every run agree with: everybody online, rank 3,"
        " 20 rounds, and as many ratings per cell as in the chosen data. The rule is the chosen"
        " data.",
    )


shell.enter()
page()
