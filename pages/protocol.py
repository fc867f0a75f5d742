"""Show protocols without a trusted server: first their story, then one message at a time."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dpmc_core import registry
from dpmc_core.errors import DpmcError, format_sentence
from dpmc_core.mechanisms.dpimf import Profiles
from dpmc_core.model import Task
from dpmc_core.privacy import Guarantee, Shares
from dpmc_core.problem import build_problem
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_lab import glossary
from dpmc_lab.curves import protocol as views
from dpmc_lab.curves.text import Table
from dpmc_lab.protocol.attacks import run_sum_attacks
from dpmc_lab.protocol.federated import FLOW, TITLE, VARIANTS, Federation, build_federation
from dpmc_lab.protocol.scenarios import Scenario
from dpmc_lab.protocol.simulate import SCENARIOS, Gap, measure_gap
from pages.ui import blocks, shell, sources, stage, state, widgets
from pages.ui.charts import protocol as charts_protocol
from pages.ui.stage import Stage

AT = "message"  # in the address
# In the session alone: the scenario whose attacks were asked for is one of them.
PLAYING, MEASURED, TRIED = "protocol playing", "protocol measured", "protocol tried"
BEAT = 1.2  # seconds a message stays while playing
CHARTED = (  # a choice of an older version
    "The link asks for a chart of what is sent, which no longer exists. Its numbers are under"
    " “What it costs to send”."
)
NOBODY = -1
LEAVERS = {NOBODY: "nobody"} | {
    user: f"the {place} user" for user, place in enumerate(("first", "second", "third", "fourth"))
}
PICKED = {0: "everybody online"} | {k: f"{k} picked at random" for k in (2, 3)}
KINDS = {Shares.GAUSSIAN: "Gaussian (published)", Shares.GAMMA: "Gamma (hardened)"}
SHARED = {
    Profiles.ITEMS: "users; item profiles are sent",
    Profiles.USERS: "items; user profiles are sent",
}


def page() -> None:
    """While it plays, it moves by itself."""
    playing = st.session_state.get(PLAYING, False)

    @st.fragment(run_every=BEAT if playing else None)
    def act() -> None:
        if st.session_state.get(PLAYING, False) != playing:
            st.rerun()  # whether it moves by itself is decided around it
        whole()

    act()


def whole() -> None:
    frame = stage.lay_out_stage("Can a recommender learn without seeing ratings?")
    state.note_removed("against", CHARTED)
    with frame.choices:
        data = sources.choose_data(label_visibility="collapsed")
        names = {FLOW: f"{FLOW}: {TITLE}"}
        if Task.RATINGS in sources.list_available_tasks(data):  # clicks have no ratings to hide
            names = {id: f"{id}: {cls.title}" for id, cls in SCENARIOS.items()} | names
        scenario = widgets.choose_option(
            "Scenario",
            "the scenario",
            names,
            "scenario",
            next(iter(names)),
            label_visibility="collapsed",
        )
        rules = st.popover("Rules", icon=":material/tune:", width="content")
    try:
        if scenario == FLOW:
            shops(frame, rules, data)
        else:
            users(frame, rules, data, scenario)
    except (DpmcError, OSError) as error:
        with frame.figure:
            blocks.show_error(error)


def users(frame: Stage, rules: DeltaGenerator, data: str, scenario: str) -> None:
    """Users, a recommender and a third party: the messages, attacks on them, promise and cost."""
    ratings = sources.get_dataset(data).ratings
    items = views.find_small_items(ratings)
    with rules:
        chosen = rules_of_users(items, scenario, shared=data != sources.UPLOAD)
        epsilon = widgets.show_epsilon_slider()
    with frame.panel:
        told, tried = st.container(), st.container()
    with tried:
        chosen["masks"] = scenario != "2" or widgets.choose_toggle(
            "Masks",
            "the masks",
            "masks",
            True,
            help="A mask is a random number that hides an answer until all answers are added up."
            " Without masks the third party sees each user's noisy answer.",
        )
    play = state.memoize(
        "scenario play",
        (data, ratings.fingerprint, scenario, epsilon, chosen),
        lambda: views.play_scenario(ratings, scenario=scenario, epsilon=epsilon, **chosen),
    )
    theatre(frame, told, play)
    settings = play.run.settings
    with tried:
        asked = third_party(play)
    everybody = SCENARIOS[scenario](epsilon=epsilon, shares=chosen["shares"])
    phases, picked = chosen["phases"], chosen["picked"]

    def accuracy() -> None:
        result(data, everybody)
        if picked:
            st.markdown(views.describe_picking(ratings, replace(everybody, picked=picked)))
        st.markdown(views.NO_RHO)

    with frame.details:
        if asked:
            recommender(play)
            attendance(play)
        promise(settings.guarantee(play.run.public), settings.mechanism.id)
        blocks.show_expander("What it costs in accuracy", accuracy, key="accuracy")
        cost(
            lambda: views.tabulate_scenario_traffic(ratings, chosen["shares"], phases, picked),
            "A formula gives these numbers; every run confirms them. It assumes that everybody is"
            " online, rank 3, 20 rounds in a phase, and all ratings of the chosen data.",
        )


@st.fragment
def result(data: str, settings: Scenario) -> None:
    """What is lost against a trusted server, measured on all of the data, and why."""
    marks = (data, sources.get_dataset(data).ratings.fingerprint, settings)
    if st.session_state.get(MEASURED) != marks:
        st.button(
            "Measure on all the data",
            icon=":material/speed:",
            on_click=lambda: st.session_state.update({MEASURED: marks}),
        )
        return
    work = st.empty()
    with work.container():
        bar = st.progress(0.0, "Scenario 1 first")
        st.button(
            "Stop", icon=":material/stop:", on_click=lambda: st.session_state.pop(MEASURED, None)
        )

    def tell(done: int, draws: int) -> None:
        bar.progress(done / draws, f"Draw {done} of {draws}")

    def measure() -> Gap:
        return measure_gap(
            settings, build_problem(sources.get_dataset(data), Task.RATINGS), 0, tell
        )

    try:
        found = state.memoize("scenario gap", marks, measure)
    except DpmcError as error:
        blocks.show_error(error)
        return
    finally:
        work.empty()
    st.markdown(views.describe_gap(found))
    st.caption(
        "Measured on held-out raw ratings, for evaluation only. A rule sets the number of phases"
        " from epsilon and the number of users."
    )


def rules_of_users(items: Mapping[int, str], scenario: str, *, shared: bool) -> dict[str, Any]:
    """The item, phases, how noise is shared, who leaves, who is asked.

    shared: whether the title of the item is public.
    """
    chosen: dict[str, Any] = {
        "item": widgets.choose_option(
            "Item (ratings)",
            "the item",
            items,
            "item",
            next(iter(items)),
            shared=shared,
            help=f"These items have few raters. The first {views.USERS_SHOWN} raters take part.",
        ),
        "shares": widgets.choose_option(
            "Shares of the noise",
            "the shares of the noise",
            KINDS,
            "shares",
            Shares.GAUSSIAN,
            help="Gaussian: the recommender draws H, so it knows the size of the noise. Gamma: each"
            " user knows only their own share, and the sum is Laplace noise for everyone.",
        ),
        "leaver": widgets.choose_option(
            "Leaves in round 2",
            "who leaves",
            LEAVERS,
            "leaves",
            NOBODY,
            help="This user leaves after being asked and before answering.",
        ),
        "phases": widgets.choose_on_slider(
            "Phases",
            "the number of phases",
            1,
            3,
            2,
            "phases",
            help="Each phase spends a share of epsilon and publishes item factors with fresh noise."
            " Between two phases, users fit their own factors at home.",
        ),
        "picked": 0,
    }
    if scenario == "3":
        chosen["picked"] = widgets.choose_option(
            "Asked in each round",
            "who is asked",
            PICKED,
            "picked",
            0,
            help="In the paper, the recommender picks k of the online users at random. Here it asks"
            " all of them unless you choose otherwise.",
        )
    if chosen["leaver"] == NOBODY:
        chosen["leaver"] = None
    return chosen


def theatre(frame: Stage, told: DeltaGenerator, play: views.MessagePlay) -> None:
    """The parties, the controls under them, what is said beside them, and who has seen what."""
    last = len(play.messages)
    if st.session_state.get(PLAYING):
        if st.session_state.get(AT, 0) >= last:
            st.session_state[PLAYING] = False
            st.rerun()
        st.session_state[AT] = st.session_state.get(AT, 0) + 1
    with frame.figure:
        drawn = stage.reserve_figure()
        at = controls(last)
    now = play.messages[at - 1] if at else None
    words = views.format_position(play, at)
    with drawn:
        if now is None:
            federated = isinstance(play, views.FederatedPlay)
            st.html(charts_protocol.render_story(federated=federated, ink=state.get_theme().ink))
        else:
            fig = charts_protocol.plot_protocol(play.parties, play.messages[: at - 1], now)
            blocks.show_figure(fig, alt=words, config={"displayModeBar": False})
    with told:
        st.container(key="answer").markdown(f"**{blocks.escape(words)}**")
        if now is not None:
            st.markdown(blocks.escape(play.meanings[at - 1]))
            st.code(now.summary or "(nothing)", language=None, wrap_lines=True)
            st.caption(f"{views.format_bytes(now.bytes)}. {play.units}")
        if play.ending and at == last:
            st.warning(blocks.escape(format_sentence(play.ending)))
    with frame.details:
        blocks.show_expander(
            "What each party has seen so far",
            lambda: seen(play, at),
            key="all seen",
            opened_by="seen",
        )


def controls(last: int) -> int:
    """Where the play stands: one line."""
    with st.container(horizontal=True, vertical_alignment="center"):
        buttons = st.container(horizontal=True, width="content")
        at = widgets.choose_on_slider(
            "Message", "the message", 0, last, 0, AT, label_visibility="collapsed"
        )
    playing = bool(st.session_state.get(PLAYING))
    acts = (
        ("Back", ":material/skip_previous:", at - 1, False),
        ("Next", ":material/skip_next:", at + 1, False),
        ("Stop", ":material/stop:", at, False)
        if playing
        else ("Play", ":material/play_arrow:", at % last, True),
    )
    with buttons:
        for name, icon, to, plays in acts:
            ended = not 0 <= to <= last
            st.button(name, icon=icon, on_click=move, args=(to, plays), disabled=ended)
    return at


def move(to: int, plays: bool) -> None:
    st.session_state.update({AT: to, PLAYING: plays})


def seen(play: views.MessagePlay, at: int) -> None:
    """What has come to one party."""
    tabs = widgets.show_tabs("the party", play.parties, "seen")
    for tab, name in zip(tabs, play.parties, strict=True):
        if tab.open:
            table = views.tabulate_received(play, name, at)
            with tab:
                if table["round"]:
                    blocks.show_table(table, alt=f"Messages {name} has received")
                else:
                    st.markdown("Nothing yet.")


def third_party(play: views.ScenarioPlay) -> bool:
    """Its attack, once it is asked for; whether it is."""
    settings = play.run.settings
    if st.session_state.get(TRIED) != settings.number:
        st.button(
            "Attack as the third party",
            icon=":material/policy:",
            on_click=lambda: st.session_state.update({TRIED: settings.number}),
            help="The third party compares what one user sent in two rounds.",
        )
        return False
    table = views.tabulate_difference_attack(play)
    if not table["user"]:
        st.markdown("Nobody answered in both rounds, so the third party cannot compare them.")
        return True
    hit = table["recovered"].count("yes")
    st.markdown(
        f"The third party compares two rounds of one user. It recovers {hit} of"
        f" {len(table['user'])} differences of gradients. Each user's noise is the same in every"
        " round, so it cancels."
        + (
            " **Without masks, the difference is visible.**"
            if hit
            else " **Fresh masks do not cancel, so only a random number remains.**"
        )
        + f" Switch the masks {'on' if hit else 'off'} and compare." * (settings.number == "2")
    )
    blocks.show_table(
        table,
        alt="Difference attack on each user",
        column_order=("user", "recovered", *list(table)[1:3]),
    )
    st.caption("Further down: what the recommender can compute.")
    return True


def recommender(play: views.ScenarioPlay) -> None:
    """What the recommender can compute from the sums it sees."""
    st.header("The recommender compares sums")
    passive, active, size = run_sum_attacks(play.run)
    first, second, words = st.columns([1, 1, 3], gap="large")
    first.metric(
        "Error if it only listens",
        "-" if passive is None else f"{passive:.2g}",
        help=f"The error in A, whose largest entry is {size:.2g}, measured on this run. Longer"
        " factors and later rounds make listening harder.",
    )
    second.metric(
        "Error if it chooses",
        f"{active:.1g}",
        help="The recommender sends 0 and long unit vectors instead of item factors.",
    )
    told = " Noise still hides the ratings, except for what these factors reveal."
    words.markdown(
        "The noise also cancels in differences of sums. What remains is a matrix A: the sum of u u'"
        " over the factors u of the item's raters. The paper does not consider this attack. A"
        " recommender that chooses what it sends computes A exactly. A shows how the raters' tastes"
        " vary, and two groups that differ by one user reveal that user's factors."
        f"{told * (play.run.settings.number == '2')} As a defence, users would have to refuse item"
        " factors that jump, and pay epsilon for fresh noise in every round."
    )


def attendance(play: views.ScenarioPlay) -> None:
    """The attack on scenario 3: the same noise in every sum, but not the same people."""
    table = views.tabulate_attendance_attack(play)
    if not table["user"]:
        return
    hit, picked = table["recovered"].count("yes"), play.run.settings.picked
    st.header("The recommender compares rounds with and without one user")
    st.markdown(
        (
            f"Here the same users take part in {views.PICKED_ROUNDS} rounds of one phase. The"
            f" recommender picks {picked} of them in each round."
            if picked
            else f"Here the same users take part in {views.ATTENDED_ROUNDS} rounds of one phase,"
            " and each of them misses one."
        )
        + f" The recommender only listens. It recovers {hit} of {len(table['user'])} gradients,"
        + (
            " up to one vector common to all (every sum has equally many users),"
            if picked and picked < len(table["user"])
            else ""
        )
        + f" although the noise in each number is about {play.run.phase.release.scale:.3g}. The"
        " noise stays the same while the people change, so a subtraction leaves one person."
        " **A gradient 2 (u'v - r) u depends on the rating r, so ratings are not hidden.** The only"
        " repair is fresh noise for each group of people, which costs epsilon each time."
    )
    blocks.show_table(table, alt="Attendance attack on each user")


def shops(frame: Stage, rules: DeltaGenerator, data: str) -> None:
    """Shops that learn together: the messages, the budget, promise and cost."""

    def corner(ratings: Ratings) -> Ratings:
        return views.select_busiest_corner(build_problem((ratings, ratings), Task.RANKING).train)

    part: Ratings = sources.compute_once(data, corner)
    public = sources.get_public_facts(data, Task.RANKING)
    with rules:
        chosen, watched = rules_of_shops(part, shared=data != sources.UPLOAD)
        epsilon = widgets.show_epsilon_slider()
    flow = build_federation(epsilon=epsilon, **chosen)
    with frame.figure, st.spinner("Running the rounds"):
        play = state.memoize(
            "federated play",
            (data, part.fingerprint, flow, watched),
            lambda: views.play_federation(flow, part, watched=watched),
        )
    theatre(frame, frame.panel, play)
    with frame.details:
        st.caption(
            f"The play uses the {play.run.public.users:,} busiest users and the"
            f" {play.run.public.items:,} most clicked items. {views.describe_traffic(play.run)}"
        )
        blocks.show_expander(
            "What the budget adds up to", lambda: budget(flow, public), key="budget"
        )
        promise(flow.mechanism.guarantee(public), flow.mechanism.id)
        cost(
            lambda: views.tabulate_federation_traffic(flow, public),
            "A formula gives these numbers; every run confirms them. There are 2 x parties x rounds"
            f" messages; each holds {flow.mechanism.rank} numbers of 8 bytes for every profile of"
            " the whole data set.",
        )


def rules_of_shops(part: Ratings, *, shared: bool) -> tuple[dict[str, Any], int]:
    """What the flow is built from, and whose profile is shown. shared: whether names are public."""
    names = {id: registry.get_mechanism(id).name for id in VARIANTS}
    chosen: dict[str, Any] = {
        "variant": widgets.choose_option(
            "Variant",
            "the variant",
            names,
            "variant",
            "dpimf-optimal",
            help="The variants add noise to the loss of a profile in different ways (see Noise)."
            " “Strawman” is the paper's word for the simplest one.",
        ),
        "profiles": widgets.choose_option(
            "The parties share out the",
            "what is shared out",
            SHARED,
            "shared",
            Profiles.ITEMS,
            help="Each party holds some users with all their clicks, or some items with all clicks"
            " on them.",
        ),
    }
    by_items = chosen["profiles"] is Profiles.ITEMS
    there = part.public.items if by_items else part.public.users
    titles = (part.item_ids if by_items else part.user_ids) or [str(k + 1) for k in range(there)]
    watched = widgets.choose_option(
        "Show the profile of",
        "the profile",
        dict(enumerate(titles[:12])),
        "profile",
        0,
        shared=shared,
        help="A message holds all profiles. The page shows one of them.",
    )
    sliders = {
        "parties": ("Parties", 6, 4, ""),
        "rounds": (
            "Rounds",
            5,
            3,
            f"Exchanges with the server. {glossary.explain_terms('rounds')}",
        ),
        "local": (
            "Local solves in a round",
            20,
            2,
            "How often a party computes the profiles before it sends them. Each time spends"
            " epsilon, even if these profiles are not sent.",
        ),
    }
    for key, (label, most, usual, words) in sliders.items():
        what = f"the number of {label.lower()}"
        chosen[key] = widgets.choose_on_slider(label, what, 1, most, usual, key, help=words or None)
    return chosen, watched


def budget(flow: Federation, public: PublicFacts) -> None:
    """Epsilon over rounds, solves and clicks, and why it is not per user."""
    left, right = st.columns([3, 2], gap="large")
    with left:
        blocks.show_table(
            views.tabulate_budget(flow, public),
            alt="The claimed epsilon of each solve, and its sum over rounds, solves and clicks",
        )
        st.caption(
            f"On all of the data, {public.users:,} users and {public.items:,} items. One user:"
            f" {flow.account_budget(public).change.relation}."
        )
    with right:
        st.markdown("**Why the claim is not per user**")
        for reason in views.explain_missing_user_bound(flow, public):
            st.markdown(f"- {blocks.escape(reason)}")


def promise(card: Guarantee, id: str) -> None:
    """The card of what is played, folded."""
    blocks.show_expander(
        "What is promised", lambda: blocks.show_guarantee(card, id), key="promised"
    )


def cost(traffic: Callable[[], Table], caption: str) -> None:
    """Messages and bytes of a whole run by formula; folded."""

    def sent() -> None:
        counts = {
            name: st.column_config.NumberColumn(format="localized")
            for name in ("messages", "bytes")
        }
        alt = "Messages and bytes of a whole run"
        blocks.show_table(traffic(), alt=alt, column_config=counts)
        st.caption(caption)

    blocks.show_expander("What it costs to send", sent, key="sent")


shell.enter_through_app()
page()
