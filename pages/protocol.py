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
from dpmc_lab.protocol.attacks import run_sum_attacks
from dpmc_lab.protocol.federated import FLOW, TITLE, VARIANTS, Federation, build_federation
from dpmc_lab.protocol.scenarios import Scenario
from dpmc_lab.protocol.simulate import SCENARIOS, Gap, measure_gap
from dpmc_lab.views import protocol as views
from dpmc_lab.views.text import Table
from pages.ui import blocks, shell, sources, stage, state, widgets
from pages.ui.charts import protocol as charts_protocol
from pages.ui.session import Session, session
from pages.ui.stage import Stage
from pages.ui.text import escape

# In the session alone: the scenario whose attacks were asked for is one of them.
PLAY_SECONDS = 1.2  # seconds a message stays while playing
NO_LEAVER = -1
LEAVERS = {
    NO_LEAVER: "nobody",
    0: "the first user",
    1: "the second user",
    2: "the third user",
    3: "the fourth user",
}
PICKED_LABELS = {0: "everybody online", 2: "2 picked at random", 3: "3 picked at random"}
SHARE_LABELS = {Shares.GAUSSIAN: "Gaussian (published)", Shares.GAMMA: "Gamma (hardened)"}
PROFILE_LABELS = {
    Profiles.ITEMS: "users; item profiles are sent",
    Profiles.USERS: "items; user profiles are sent",
}


def page() -> None:
    """Show the page, which goes from message to message by itself while the protocol plays."""
    playing = session.playing

    @st.fragment(run_every=PLAY_SECONDS if playing else None)
    def show_frame() -> None:
        if session.playing != playing:
            st.rerun()  # whether it moves by itself is decided around it
        show_protocol()

    show_frame()


def show_protocol() -> None:
    """Show the choice of a scenario, its messages and what follows from them."""
    frame = stage.lay_out_stage("Can a recommender learn without seeing ratings?")
    state.note_removed(  # a choice of an older version
        "against",
        "The link asks for a chart of what is sent, which no longer exists. Its numbers are under"
        " “What it costs to send”.",
    )
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
    with blocks.show_errors_in(frame.figure):
        if scenario == FLOW:
            show_federation(frame, rules, data)
        else:
            show_scenario(frame, rules, data, scenario)


def show_scenario(frame: Stage, rules: DeltaGenerator, data: str, scenario: str) -> None:
    """Show users, a recommender and a third party: messages, attacks, promise and cost.

    Args:
        frame: of the page.
        rules: where the rules are chosen.
        data: id of the data set.
        scenario: number of the scenario.
    """
    ratings = sources.get_dataset(data).ratings
    items = views.find_small_items(ratings)
    with rules:
        chosen_rules = choose_scenario_rules(items, scenario, shared=data != sources.UPLOAD)
        epsilon = widgets.choose_epsilon()
    with frame.panel:
        summary_place, attack_place = st.container(), st.container()
    with attack_place:
        chosen_rules["masks"] = scenario != "2" or widgets.choose_toggle(
            "Masks",
            "the masks",
            "masks",
            True,
            help="A mask is a random number that hides an answer until all answers are added up."
            " Without masks the third party sees each user's noisy answer.",
        )
    play = state.memoize(
        "scenario play",
        (data, ratings.fingerprint, scenario, epsilon, chosen_rules),
        lambda: views.play_scenario(ratings, scenario=scenario, epsilon=epsilon, **chosen_rules),
    )
    show_play(frame, summary_place, play, chosen_rules["masks"])
    run_settings = play.run.settings
    with attack_place:
        show_third_party_attack(play, frame.details)
    is_attacked = session.tried == run_settings.number
    all_online = SCENARIOS[scenario](epsilon=epsilon, shares=chosen_rules["shares"])
    phases, picked = chosen_rules["phases"], chosen_rules["picked"]

    def accuracy() -> None:
        show_accuracy_loss(data, all_online)
        if picked:
            st.markdown(views.describe_picking(ratings, replace(all_online, picked=picked)))
        st.markdown(views.NO_RHO)

    with frame.details:
        if is_attacked:
            show_recommender_attack(play)
            show_attendance_attack(play)
        show_promise(run_settings.guarantee(play.run.public), run_settings.mechanism.id)
        blocks.show_expander("What it costs in accuracy", accuracy, key="accuracy")
        show_traffic(
            lambda: views.tabulate_scenario_traffic(
                ratings, chosen_rules["shares"], phases, picked
            ),
            "A formula gives these numbers; every run confirms them. It assumes that everybody is"
            " online, rank 3, 20 rounds in a phase, and all ratings of the chosen data.",
        )


@st.fragment
def show_accuracy_loss(data: str, settings: Scenario) -> None:
    """Measure on request how much accuracy is lost against a trusted server, and show why."""
    dependencies = (data, sources.get_dataset(data).ratings.fingerprint, settings)
    if session.measured != dependencies:
        st.button(
            "Measure on all the data",
            icon=":material/speed:",
            on_click=lambda: session.update(measured=dependencies),
        )
        return
    work = st.empty()
    with work.container():
        bar = st.progress(0.0, "Scenario 1 first")
        st.button("Stop", icon=":material/stop:", on_click=Session.measured.forget)

    def report_progress(n_done: int, n_draws: int) -> None:
        bar.progress(n_done / n_draws, f"Draw {n_done} of {n_draws}")

    def measure() -> Gap:
        return measure_gap(
            settings, build_problem(sources.get_dataset(data), Task.RATINGS), 0, report_progress
        )

    try:
        gap = state.memoize("scenario gap", dependencies, measure)
    except DpmcError as error:
        blocks.show_error(error)
        return
    finally:
        work.empty()
    st.markdown(views.describe_gap(gap))
    st.caption(
        "Measured on held-out raw ratings, for evaluation only. A rule sets the number of phases"
        " from epsilon and the number of users."
    )


def choose_scenario_rules(
    items: Mapping[int, str], scenario: str, *, shared: bool
) -> dict[str, Any]:
    """Choose the item, the phases, how noise is shared, who leaves and who is asked.

    Args:
        items: titles by item.
        scenario: number of the scenario.
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
            SHARE_LABELS,
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
            NO_LEAVER,
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
            PICKED_LABELS,
            "picked",
            0,
            help="In the paper, the recommender picks k of the online users at random. Here it asks"
            " all of them unless you choose otherwise.",
        )
    if chosen["leaver"] == NO_LEAVER:
        chosen["leaver"] = None
    return chosen


def show_play(
    frame: Stage, summary_place: DeltaGenerator, play: views.MessagePlay, masks: bool
) -> None:
    """Show the parties with the current message, its controls, and who has received what.

    Args:
        frame: of the page.
        summary_place: where the current message is explained.
        play: the messages.
        masks: whether random masks hide the answers.
    """
    last = len(play.messages)
    if session.playing:
        if session.message >= last:
            session.playing = False
            st.rerun()
        session.message += 1
    with frame.figure:
        figure_place = stage.reserve_figure()
        position = choose_message(last)
    message = play.messages[position - 1] if position else None
    summary = views.format_position(play, position)
    with figure_place:
        if message is None:
            is_federated = isinstance(play, views.FederatedPlay)
            story = charts_protocol.render_story(federated=is_federated, masks=masks)
            blocks.show_drawing(story, "story")
        else:
            fig = charts_protocol.plot_protocol(
                play.parties, play.messages[: position - 1], message
            )
            blocks.show_headline(summary, key="title")
            blocks.show_figure(fig, alt=summary)
    with summary_place:
        text = f"**{escape(summary)}**" if message is None else escape(play.meanings[position - 1])
        st.container(key="answer").markdown(text)
        if message is not None:
            st.code(message.summary or "(nothing)", language=None, wrap_lines=True)
            st.caption(f"{views.format_bytes(message.bytes)}. {play.units}")
        if play.ending and position == last:
            st.warning(escape(format_sentence(play.ending)))
    with frame.details:
        blocks.show_expander(
            "What each party has seen so far",
            lambda: show_received_messages(play, position),
            key="all seen",
            opened_by="seen",
        )


def choose_message(last: int) -> int:
    """Show the controls that go from message to message; return the number of messages sent."""
    with blocks.lay_out_row():
        buttons = st.container(horizontal=True, width="content")
        position = widgets.choose_on_slider(
            "Message", "the message", 0, last, 0, Session.message.key, label_visibility="collapsed"
        )
    playing = session.playing
    acts = (
        ("Back", ":material/skip_previous:", position - 1, False),
        ("Next", ":material/skip_next:", position + 1, False),
        ("Stop", ":material/stop:", position, False)
        if playing
        else ("Play", ":material/play_arrow:", position % last, True),
    )
    with buttons:
        for k, (name, icon, target, plays) in enumerate(acts):
            st.button(
                name,
                f"protocol act {k}",  # by which Stop keeps the focus of Play
                icon=icon,
                on_click=move_to,
                args=(target, plays),
                disabled=not 0 <= target <= last,
            )
    return position


def move_to(target: int, plays: bool) -> None:
    """Go to a message, and start or stop playing."""
    session.update(message=target, playing=plays)


def show_received_messages(play: views.MessagePlay, position: int) -> None:
    """Show what each party has received so far."""
    tabs = widgets.lay_out_tabs("the party", play.parties, "seen")
    for tab, name in zip(tabs, play.parties, strict=True):
        if tab.open:
            table = views.tabulate_received(play, name, position)
            with tab:
                if table["round"]:
                    blocks.show_table(table, alt=f"Messages {name} has received")
                else:
                    st.markdown("Nothing yet.")


def show_third_party_attack(play: views.ScenarioPlay, table_place: DeltaGenerator) -> None:
    """Show the third party's attack on request.

    Args:
        play: the messages.
        table_place: where its result for each user stands.
    """
    settings = play.run.settings
    if session.tried != settings.number:
        st.button(
            "Attack as the third party",
            icon=":material/policy:",
            on_click=lambda: session.update(tried=settings.number),
            help="The third party compares what one user sent in two rounds.",
        )
        return
    table = views.tabulate_difference_attack(play)
    if not table["user"]:
        st.markdown("Nobody answered in both rounds, so the third party cannot compare them.")
        return
    n_recovered = table["recovered"].count("yes")
    st.markdown(
        f"The third party compares two rounds of one user. It recovers {n_recovered} of"
        f" {len(table['user'])} differences of answers. Each user's noise is the same in every"
        " round, so it cancels."
        + (
            " **Without masks, the difference is visible.** The rating cancels in it, too. But the"
            " difference points along the user's own factors, and these describe the user's taste."
            if n_recovered
            else " **Fresh masks do not cancel, so only a random number remains.**"
        )
        + f" Switch the masks {'on' if n_recovered else 'off'} and compare."
        * (settings.number == "2")
        + " The recommender learns more than it should from sums, masks or not: see below."
    )
    with table_place:
        st.header("The third party compares two rounds")
        blocks.show_table(table, alt="Difference attack on each user")


def show_recommender_attack(play: views.ScenarioPlay) -> None:
    """Show what the recommender can compute from the sums it sees."""
    st.header("The recommender compares sums")
    passive, active, size = run_sum_attacks(play.run)
    first, second, text_place = st.columns([1, 1, 3], gap="large")
    first.metric(
        "Error in A, by listening",
        "-" if passive is None else f"{passive:.5f}",
        help=f"Measured on this run. The largest entry of A is {size:.2g}. Longer"
        " factors and later rounds make listening harder.",
    )
    second.metric(
        "Error in A, by choosing (0: exact)",
        f"{active:.5f}",
        help=f"Up to rounding: {active:.1g}. The recommender sends 0 and long unit vectors instead"
        " of item factors.",
    )
    rating_note = " Noise still hides the ratings, except for what these factors reveal."
    text_place.markdown(
        "The noise also cancels in differences of sums. What remains is a small table A. It says"
        " how the factors of the item's raters vary together. A is the sum of u u', where u are the"
        " factors of one rater. The paper does not consider this attack. A"
        " recommender that chooses what it sends computes A exactly. A shows how the raters' tastes"
        " vary. Two groups that differ by one user reveal that user's factors."
        f"{rating_note * (play.run.settings.number == '2')} As a defence, users would have to"
        " refuse item factors that jump. They would also pay epsilon for fresh noise in every"
        " round."
    )


def show_attendance_attack(play: views.ScenarioPlay) -> None:
    """Show the attack on scenario 3, where sums over different people share their noise."""
    table = views.tabulate_attendance_attack(play)
    if not table["user"]:
        return
    n_recovered, picked = table["recovered"].count("yes"), play.run.settings.picked
    st.header("The recommender compares rounds with and without one user")
    st.markdown(
        (
            f"Here the same users take part in {views.PICKED_ROUNDS} rounds of one phase. The"
            f" recommender picks {picked} of them in each round."
            if picked
            else f"Here the same users take part in {views.ATTENDED_ROUNDS} rounds of one phase,"
            " and each of them misses one."
        )
        + f" The recommender only listens. It recovers {n_recovered} of {len(table['user'])}"
        " gradients,"
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


def show_federation(frame: Stage, rules: DeltaGenerator, data: str) -> None:
    """Show shops that learn together: messages, budget, promise and cost.

    Args:
        frame: of the page.
        rules: where the rules are chosen.
        data: id of the data set.
    """

    def corner(ratings: Ratings) -> Ratings:
        return views.select_busiest_corner(build_problem((ratings, ratings), Task.RANKING).train)

    corner_ratings: Ratings = sources.compute_once(data, corner)
    public = sources.get_public_facts(data, Task.RANKING)
    with rules:
        chosen, watched = choose_federation_rules(corner_ratings, shared=data != sources.UPLOAD)
        epsilon = widgets.choose_epsilon()
    flow = build_federation(epsilon=epsilon, **chosen)
    with frame.figure, st.spinner("Running the rounds"):
        play = state.memoize(
            "federated play",
            (data, corner_ratings.fingerprint, flow, watched),
            lambda: views.play_federation(flow, corner_ratings, watched=watched),
        )
    show_play(frame, frame.panel, play, masks=True)
    with frame.details:
        st.caption(
            f"The play uses the {play.run.public.users:,} busiest users and the"
            f" {play.run.public.items:,} most clicked items. {views.describe_traffic(play.run)}"
        )
        blocks.show_expander(
            "What the budget adds up to", lambda: show_budget(flow, public), key="budget"
        )
        show_promise(flow.mechanism.guarantee(public), flow.mechanism.id)
        show_traffic(
            lambda: views.tabulate_federation_traffic(flow, public),
            "A formula gives these numbers; every run confirms them. There are 2 x parties x rounds"
            f" messages. Each holds {flow.mechanism.rank} numbers of 8 bytes for every profile of"
            " the whole data set.",
        )


def choose_federation_rules(corner_ratings: Ratings, *, shared: bool) -> tuple[dict[str, Any], int]:
    """Choose what the federation is built from, and whose profile is shown.

    Args:
        corner_ratings: the ratings of the play.
        shared: whether names are public.
    """
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
            PROFILE_LABELS,
            "shared",
            Profiles.ITEMS,
            help="Each party holds some users with all their clicks, or some items with all clicks"
            " on them.",
        ),
    }
    by_items = chosen["profiles"] is Profiles.ITEMS
    n_profiles = corner_ratings.public.items if by_items else corner_ratings.public.users
    titles = (corner_ratings.item_ids if by_items else corner_ratings.user_ids) or [
        str(k + 1) for k in range(n_profiles)
    ]
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
    for key, (label, maximum, default, help_text) in sliders.items():
        description = f"the number of {label.lower()}"
        chosen[key] = widgets.choose_on_slider(
            label, description, 1, maximum, default, key, help=help_text or None
        )
    return chosen, watched


def show_budget(flow: Federation, public: PublicFacts) -> None:
    """Show epsilon over rounds, solves and clicks, and why it is not per user."""
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
        blocks.show_bullets(views.explain_missing_user_bound(flow, public))


def show_promise(guarantee: Guarantee, id: str) -> None:
    """Show the guarantee of the mechanism in an expander."""
    blocks.show_expander(
        "What is promised", lambda: blocks.show_guarantee(guarantee, id), key="promised"
    )


def show_traffic(traffic: Callable[[], Table], caption: str) -> None:
    """Show the messages and bytes of a full run, by formula, in an expander.

    Args:
        traffic: computes the table.
        caption: what the formula assumes.
    """

    def show_table() -> None:
        counts = {
            name: st.column_config.NumberColumn(format="localized")
            for name in ("messages", "bytes")
        }
        blocks.show_table(traffic(), alt="Messages and bytes of a whole run", column_config=counts)
        st.caption(caption)

    blocks.show_expander("What it costs to send", show_table, key="sent")


shell.enter_through_app()
page()
