"""Controls and blocks of the Protocol page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import streamlit as st

from dpmc_core.privacy import Shares
from dpmc_core.protocol.federated import FLOW, TITLE
from dpmc_core.protocol.simulate import SCENARIOS
from dpmc_core.views import messages, scenarios
from pages.ui import blocks, charts_protocol, state

AT, PLAYING = "protocol at", "protocol playing"
_BEAT = 1.2  # seconds a message stays while playing


class Rules(NamedTuple):
    """What the person chose."""

    item: int
    shares: Shares
    masks: bool
    leaver: int | None


def scenario() -> str:
    """Which scenario; in the address too."""
    names = {id: f"{id}: {cls.title}" for id, cls in SCENARIOS.items()}
    names[FLOW] = f"{FLOW}: {TITLE}"
    state.from_link("scenario", "the scenario", names, "2")
    chosen: str = st.selectbox(
        "Scenario",
        list(names),
        format_func=names.__getitem__,
        key="scenario",
        bind="query-params",
        help="2: the same users answer in every round. 3: whoever is online answers, and somebody"
        " may leave in the middle of a round. Federated: shops that each hold their"
        " own users learn top lists together.",
    )
    return chosen


def rules(items: Mapping[int, str], scenario: str) -> Rules:
    """The item, how noise is shared, masks, and who leaves."""
    kinds = {Shares.GAUSSIAN: "Gaussian (published)", Shares.GAMMA: "Gamma (hardened)"}
    with st.grid(3, min_column_width=240):
        item = st.selectbox(
            "Item",
            list(items),
            format_func=items.__getitem__,
            key="protocol item",
            help=f"Items with few raters; the first {scenarios.USERS_SHOWN} of them play.",
        )
        shares = st.selectbox(
            "Shares of the noise",
            list(kinds),
            format_func=kinds.__getitem__,
            key="protocol shares",
            help="Gaussian: the recommender draws H, so it knows the variance of the noise. Gamma:"
            " each user knows the own share only, and the sum is Laplace noise to everyone.",
        )
        who = [None, *range(scenarios.USERS_SHOWN)]
        leaver = st.selectbox(
            "Leaves in round 2",
            who,
            format_func=lambda k: "nobody" if k is None else f"the {_ORDINALS[k]} user",
            key="protocol leaver",
            help="After being asked and before answering.",
        )
        masks = True
        if scenario == "2":
            masks = st.toggle(
                "Masks",
                True,
                key="protocol masks",
                help="Without them the third party sees each user's noisy gradient.",
            )
    return Rules(item, shares, masks, leaver)


_ORDINALS = ("first", "second", "third", "fourth")


def theatre(play: messages.MessagePlay) -> None:
    """The stage with its controls; while playing it moves by itself."""

    @st.fragment(run_every=_BEAT if st.session_state.get(PLAYING) else None)
    def act() -> None:
        last = len(play.messages)
        if st.session_state.get(PLAYING):
            if st.session_state.get(AT, 0) >= last:
                st.session_state[PLAYING] = False
                st.rerun()
            st.session_state[AT] = st.session_state.get(AT, 0) + 1
        at = _controls(last)
        _show(play, at)

    act()


def _controls(last: int) -> int:
    st.session_state[AT] = min(st.session_state.get(AT, 1), last)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.button(
            "Back",
            icon=":material/skip_previous:",
            on_click=_move,
            args=(-1, last),
            disabled=st.session_state[AT] == 0,
        )
        st.button(
            "Next",
            icon=":material/skip_next:",
            on_click=_move,
            args=(1, last),
            disabled=st.session_state[AT] == last,
        )
        playing = st.session_state.get(PLAYING)
        if st.button(
            "Stop" if playing else "Play",
            icon=":material/stop:" if playing else ":material/play_arrow:",
        ):
            st.session_state[PLAYING] = not playing
            if not playing and st.session_state[AT] == last:
                st.session_state[AT] = 0
            st.rerun()
    at: int = st.slider("Message", 0, last, key=AT, help="0: before the first one.")
    return at


def _move(by: int, last: int) -> None:
    st.session_state[PLAYING] = False
    st.session_state[AT] = min(max(st.session_state.get(AT, 0) + by, 0), last)


def _show(play: messages.MessagePlay, at: int) -> None:
    now = play.messages[at - 1] if at else None
    words = messages.words(play, at)
    left, right = st.columns([3, 2], gap="large")
    with left:
        st.plotly_chart(
            charts_protocol.stage(
                play.parties, play.messages[: max(at - 1, 0)], now, state.theme()
            ),
            theme=None,
            alt=words,
            config={"displayModeBar": False},
        )
    with right:
        st.markdown(f"**{blocks.escape(words)}**")
        if now is not None:
            st.markdown(blocks.escape(play.meanings[at - 1]))
            st.code(now.summary or "(nothing)", language=None, wrap_lines=True)
            st.caption(f"{messages.bytes_text(now.bytes)}. {play.units}")
        if play.ending and at == len(play.messages):
            st.warning(blocks.escape(blocks.sentence(play.ending)))
    st.markdown("**What each party has seen so far**")
    tabs = st.tabs([blocks.escape(name) for name in play.parties])
    for tab, name in zip(tabs, play.parties, strict=True):
        with tab:
            table = messages.seen(play, name, at)
            if table["round"]:
                st.dataframe(table, hide_index=True, alt=f"Messages {name} has received")
            else:
                st.markdown("Nothing yet.")


def attendance(play: scenarios.ScenarioPlay) -> None:
    """The attack on scenario 3: the same noise in every sum, but not the same people."""
    table = scenarios.attendance_table(play)
    if not table["user"]:
        return
    hit = table["recovered"].count("yes")
    st.markdown("**The recommender compares rounds with and without one user**")
    st.markdown(
        f"Here the same users play {scenarios.ATTENDED_ROUNDS} rounds, and each of them misses one."
        f" The recommender only listens. It recovers {hit} of {len(table['user'])} gradients,"
        f" although the noise in each number is about {play.run.release.scale:.3g}. The noise is"
        " the same in every round, the people are not: subtract, and one person is left. **A"
        " gradient 2 (u'v - r) u depends on the rating, so ratings are not hidden.** The only"
        " repair is fresh noise for each group of people, paid for with epsilon each time."
    )
    st.dataframe(table, hide_index=True, alt="Attendance attack on each user")


def along(*choices: str) -> str:
    """Against what communication is drawn."""
    chosen = st.segmented_control(
        "Against",
        choices,
        default=choices[0],
        key=f"protocol along {len(choices)}",
        required=True,
    )
    return str(chosen)


def cost_chart(along: str, lines: Sequence[messages.BytesCurve], now: int, caption: str) -> None:
    """Bytes of a run by formula; now: where the data stands."""
    blocks.chart(
        charts_protocol.communication(along, lines, now, state.theme()),
        alt=messages.communication_words(along, lines, now),
        caption=caption,
        table=messages.communication_table(along, lines),
    )
