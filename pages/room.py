"""The class: its questions, what arrives from phones or hands, and what may be said of it."""

import secrets
import time
from collections.abc import Callable
from typing import Any

import streamlit as st

from dpmc_core.errors import DpmcError
from dpmc_lab import glossary
from dpmc_lab.classroom import CLASS_SIZE, pictures, room_view
from dpmc_lab.classroom import room as core
from dpmc_lab.classroom.room import EXAMPLE_QUESTIONS, MAX_QUESTION_LENGTH, QUESTIONS, Room, View
from dpmc_lab.classroom.room_view import ShareRow
from dpmc_lab.sweep.presets import EPSILONS
from dpmc_lab.views import cards
from pages.ui import blocks, classroom, shell
from pages.ui.blocks import render_safely
from pages.ui.charts import room as charts_room
from pages.ui.session import Session, session
from pages.ui.text import escape

TICK = 1.0  # seconds between two updates from the room
MAX_WAIT = 60.0  # seconds for the first phone
CUSTOM_LIST = "Your own"
PRIORS = (0.5, 0.6, 0.8, 0.95)  # how sure an attacker was before
NETWORK_ADVICE = """
- School networks often keep devices apart: use the hotspot of a phone or of this computer.
- The hotspot of a phone often takes about ten devices.
- Or go on without: **Count hands** and **30 simulated phones** need no network.
"""
# What the page depends on, besides reports: when it changes, the whole page is drawn again.
ViewSummary = tuple[object, ...]


def page() -> None:
    if not classroom.is_teacher():
        show_link_for_phones()
        return
    room = classroom.get_room()
    try:
        if room is None:
            show_setup()
        elif room.view().open is None:
            show_lobby(room)
        else:
            show_projector(room)
    except DpmcError as error:
        blocks.show_error(error)
    if classroom.is_class_mode():
        choose_visitor_training()


def choose_visitor_training() -> None:
    """Choose what visitors without the teacher's link may do."""
    allowed = st.toggle(
        "Visitors may train on samples",
        classroom.can_visitors_train(),
        help="Two at a time, the others wait. Switched off, what they have begun ends.",
    )
    if allowed != classroom.can_visitors_train():
        classroom.allow_visitor_training(allowed)


def show_link_for_phones() -> None:
    """Show a visitor without the teacher's link the way to the page for phones."""
    blocks.show_heading(
        "The class", "Answer on the page for phones; only the teacher sees this one."
    )
    st.link_button("Open the page for phones", classroom.get_phone_link(), type="primary")


def summarise_view(view: View) -> ViewSummary:
    """Return what the page depends on."""
    counts = tuple(
        (asking.number, sender, poll.yes, poll.reports)
        for asking in view.askings
        for sender, poll in asking.counts.items()
    )
    return (
        view.id,
        view.current_number,
        len(view.askings),
        view.locked,
        view.ended,
        view.hides,
        view.guess_poll_number,
        *(guess_poll.locked for guess_poll in view.guess_polls),
        view.questions,
        view.epsilon,
        counts,
        tuple(view.simulated_yes.items()),
    )


def poll_view(summary: ViewSummary) -> View:
    """Return the current view of the room, or draw the page again if it is another one."""
    room = classroom.get_room()
    if room is None or summarise_view(view := room.view()) != summary:
        st.rerun()
    return view


def run_action(action: Callable[[], object]) -> None:
    """Run the action of a button and draw the page again, or show why the action failed."""
    try:
        action()
    except DpmcError as error:
        blocks.show_error(error)
    else:
        st.rerun()


# --- before the class opens --------------------------------------------------------------------


def show_setup() -> None:
    """Show the choices before a room is opened."""
    blocks.show_heading(
        "Ask the class",
        "Choose yes-or-no questions and open the room.",
    )
    left, right = st.columns([3, 2], gap="large")
    with left:
        questions = choose_questions()
    with right:
        epsilon = choose_poll_epsilon(len(questions))
        expected = choose_size() if classroom.is_class_mode() else CLASS_SIZE
        if st.button("Open the room", type="primary", icon=":material/meeting_room:"):
            run_action(lambda: begin_class(questions, epsilon, expected))
        if not classroom.is_class_mode():
            st.caption(
                "Phones need an app started with **make class**. Here you count hands, or ask 30"
                " simulated phones."
            )


def begin_class(questions: list[str], epsilon: float, expected: int) -> None:
    """Open a room, and ask the first question at once where no phone can take part."""
    room = classroom.open_room(questions, epsilon, expected)
    if not classroom.is_class_mode():  # no phone to wait for
        room.ask(0)


def choose_questions() -> list[str]:
    """Show fields for the questions, and return those that are filled in."""
    st.segmented_control(
        "Questions",
        [*EXAMPLE_QUESTIONS, CUSTOM_LIST],
        default=next(iter(EXAMPLE_QUESTIONS)),
        required=True,
        key=Session.room_list.key,
        persist_state="session",
        on_change=fill_questions,
        help="The page Learn prints a plan, a worksheet and an answer key.",
    )
    if 0 not in session.room_question:
        fill_questions()
    texts = [
        st.text_input(
            f"Question {k}",
            key=session.room_question.key_of(k - 1),
            max_chars=MAX_QUESTION_LENGTH,
            placeholder="empty: left out",
            persist_state="session",
            label_visibility="collapsed",
        )
        for k in QUESTIONS
    ]
    st.caption("Ask three to five questions. Ask only what you would ask with raised hands.")
    return [text for text in texts if text.strip()]


def fill_questions() -> None:
    """Fill the fields with the chosen example questions, which the teacher may change."""
    texts = EXAMPLE_QUESTIONS.get(session.room_list or next(iter(EXAMPLE_QUESTIONS)), ())
    for k in range(len(QUESTIONS)):
        session.room_question[k] = texts[k] if k < len(texts) else ""


def choose_poll_epsilon(questions: int) -> float:
    """Choose the privacy budget of an answer, and show what it means."""
    epsilon = st.select_slider(
        "epsilon of an answer",
        EPSILONS,
        value=core.EPSILON,
        format_func=lambda value: f"{value:g}",
        key="room epsilon",
        persist_state="session",
        help=glossary.explain_terms("epsilon"),
    )
    with st.container(horizontal=True, horizontal_alignment="distribute", gap=None):
        st.caption("more private", width="content")
        st.caption("more accurate", width="content")
    style = f"<style>{pictures.STYLE_SHEET} .illustration {{ max-width: 15rem; }}</style>"
    blocks.show_drawing(style + pictures.render_illustration("coin"), "coin picture")
    blocks.show_bullets(
        [*room_view.explain_epsilon(epsilon), room_view.explain_cost(questions, epsilon)]
    )
    with st.expander("Imagine two coins", type="compact"):
        st.caption(escape(room_view.explain_two_coins(epsilon)))
    return float(epsilon)


def choose_size() -> int:
    """Choose how many phones are expected."""
    return st.number_input(
        "Phones expected",
        1,
        core.MAX_PHONES // 2,
        CLASS_SIZE,
        key="room size",
        persist_state="session",
        help="Twice as many find a place by themselves; more ask you to be let in.",
    )


def show_lobby(room: Room) -> None:
    """Show whether a phone reaches the room, before the first question."""
    left, right = st.columns([2, 3], gap="large", vertical_alignment="center")
    with left:
        render_safely("The QR code", show_phone_link, True)
    with right:
        blocks.show_heading(
            "Open this on one phone now",
            "Scan the code or type the address, with the phone in the same network.",
        )
        view = room.view()

        @st.fragment(run_every=TICK)
        def show_first_phone() -> None:
            latest = poll_view(summarise_view(view))
            if latest.tested:
                st.success("A phone has arrived.", icon=":material/check_circle:")
            elif time.monotonic() - latest.opened > MAX_WAIT:
                st.warning(f"No phone has come yet.\n{NETWORK_ADVICE}", icon=":material/wifi_off:")
            else:
                st.info("Waiting for the first phone.", icon=":material/hourglass_empty:")
            if st.button(
                "Ask the first question",
                type="primary" if latest.tested else "secondary",
                icon=":material/arrow_forward:",
                shortcut="N",
            ):
                run_action(lambda: room.ask(0))

        show_first_phone()
        st.caption(escape(room_view.explain_cost(len(view.questions), view.epsilon)))
        if st.button("Change the questions", icon=":material/edit:"):
            run_action(classroom.close_room)


def show_phone_link(large: bool) -> None:
    """Show the address for phones as text and as a QR code."""
    st.html(charts_room.render_phone_link(classroom.get_phone_link(), large=large))


# --- the projector ------------------------------------------------------------------------------


def show_projector(room: Room) -> None:
    """Show the current question with its reports, and everything that a teacher controls."""
    view = room.view()
    guess_poll, question = view.guess_poll, view.now.question if view.now else -1
    if classroom.is_class_mode() and not view.ended:
        render_safely("The QR code", show_phone_link, False)
    st.html(charts_room.LARGE)
    st.title(escape(guess_poll.title if guess_poll else view.questions[question]))
    summary = summarise_view(view)

    @st.fragment(run_every=TICK if classroom.is_class_mode() and not view.ended else None)
    def show_live() -> None:
        latest = poll_view(summary)
        render_safely("The number of reports", show_report_count, latest)
        rows = render_safely("The chart", plot_question, latest, question) or []
        show_teacher_buttons(room, latest, question)
        render_safely("The list of phones that wait", show_waiting_phones, room, latest)
        if not guess_poll:
            rows = rows + (
                render_safely("The effect of asking again", plot_repetition, latest, question) or []
            )
            rows = rows + (
                render_safely("The comparison of questions", plot_all_questions, latest) or []
            )
        render_safely("The table", show_share_table, rows)

    if guess_poll:
        show_live()
    else:
        show_reports(room, view, question, show_live)
    if view.ended:
        render_safely("The guesses", show_guess_poll_buttons, room, view)
    else:
        show_changes(room, view)
    render_safely("The promise", show_class_promise, view, question)


def show_guess_poll_buttons(room: Room, view: View) -> None:
    """Show a button for every other guess poll, which shows it again."""
    for guess_poll in view.guess_polls:
        if guess_poll is not view.guess_poll and st.button(
            f"Show again: {escape(guess_poll.title)} ({-guess_poll.number})",
            key=f"room ballot {guess_poll.number}",
            type="tertiary",
        ):
            run_action(lambda number=guess_poll.number: room.show(number))


def show_reports(room: Room, view: View, question: int, show_live: Callable[[], None]) -> None:
    """Show the reports, with what takes the place of phones beside them if there can be none.

    Args:
        room: the room.
        view: its view.
        question: index of the current question.
        show_live: shows the reports and updates them.
    """
    if view.ended:
        show_live()
    elif classroom.is_class_mode():
        show_live()
        with st.expander(
            "Without phones: count hands, or simulate 30", icon=":material/back_hand:"
        ):
            left, right = st.columns(2, gap="large")
            with left:
                render_safely("The count of hands", show_hand_count, room, view)
            with right:
                render_safely("The simulation", show_simulation, room, view, question)
    else:
        left, right = st.columns([5, 3], gap="large")
        with left:
            show_live()
        with right:
            render_safely("The simulation", show_simulation, room, view, question)
            render_safely("The count of hands", show_hand_count, room, view)


def show_report_count(view: View) -> None:
    """Show how many reports have arrived."""
    st.html(charts_room.render_counter(*room_view.count_answers(view)))
    if waits := room_view.explain_waiting(view):
        st.markdown(f":material/visibility_off: {waits}")
    if warning := room_view.warn_of_lost_phones(view):
        st.warning(warning, icon=":material/wifi_off:")


def show_share_table(rows: list[ShareRow]) -> None:
    """Show shares in words and as a table."""
    blocks.show_chart_numbers(
        room_view.describe_rows(rows, "Shares"), room_view.tabulate_rows(rows), key="room numbers"
    )


def draw_rows(rows: list[ShareRow], title: str, **style: Any) -> None:
    """Draw shares on one axis, with a text alternative."""
    alt = room_view.describe_rows(rows, title)
    st.html(charts_room.render_shares(rows, alt, **style))


def plot_question(view: View, question: int) -> list[ShareRow]:
    """Draw what the reports say about a question or a guess poll, and return its shares."""
    guess_poll = view.guess_poll
    if guess_poll:
        rows, legend = room_view.build_guess_rows(view, guess_poll), room_view.GUESSED_NOTE
    else:
        rows = room_view.build_question_rows(view, question, reveal_truth=session.room_truth)
        legend = room_view.describe_marks(rows)
    draw_rows(rows, "Shares of yes, each with its 95 % interval", equal_rows=bool(guess_poll))
    st.caption(legend)
    return rows


def show_waiting_phones(room: Room, view: View) -> None:
    """Show buttons that let in one or all of the phones that wait for approval."""
    for count in sorted({min(view.waiting, 1), view.waiting} - {0}):
        st.button(
            f"Let in {count} of {view.waiting} waiting",
            icon=":material/group_add:",
            key=f"room let in {count}",
            disabled=view.ended,
            on_click=room.let_in,
            args=(count,),
        )


def show_teacher_buttons(room: Room, view: View, question: int) -> None:
    """Show the buttons of the teacher. A key does the same whatever is on the screen."""
    previous, following = question - 1, question + 1
    reachable = room_view.list_asked_questions(view) if view.ended else range(len(view.questions))
    locks = "Unlock" if view.locked else "Lock"
    with st.container(horizontal=True):
        if not view.ended and st.button(
            locks,
            type="secondary" if view.locked else "primary",
            icon=":material/lock_open:" if view.locked else ":material/lock:",
            shortcut="L",
            key="room lock",
            help="Whether reports to this question are taken.",
        ):
            run_action(lambda: room.lock(not view.locked))
        if view.guess_poll and view.now and st.button("To the questions", icon=":material/undo:"):
            run_action(lambda: room.press(question))
        if st.button(
            "Back",
            icon=":material/arrow_back:",
            shortcut="B",
            disabled=previous not in reachable,
            help="The question before, as it was left.",
        ):
            run_action(lambda: room.press(previous))
        if st.button(
            "Next question",
            type="primary" if view.locked else "secondary",
            icon=":material/arrow_forward:",
            shortcut="N",
            disabled=following not in reachable,
            help=f"Question {following + 1} of {len(view.questions)}"
            if following in reachable
            else "It is the last",
        ):
            run_action(lambda: room.press(following))
        if view.ended:
            show_export_button(room)
            with st.popover("Begin a new room", icon=":material/edit:"):
                st.markdown("This room and all its reports are forgotten.")
                if st.button("Forget this room", type="primary"):
                    run_action(classroom.close_room)
            return
        if st.button(
            "Ask again",
            icon=":material/replay:",
            shortcut="A",
            disabled=bool(view.guess_poll),
            help="The same question once more, as a round: costs each person"
            f" {view.question_epsilon(question):g} more.",
        ):
            run_action(lambda: room.press(question, again=True))
        with st.popover("End", icon=":material/stop_circle:"):
            st.markdown("No more reports are taken. Every question stays on the screen.")
            if st.button("End the class", type="primary"):
                run_action(room.end)


def show_export_button(room: Room) -> None:
    """Show the button that downloads reports and estimates."""
    st.download_button(
        "Results as CSV",
        lambda: room_view.export_results(room.view(), blocks.log_once),
        "class.csv",
        "text/csv",
        on_click="ignore",
        icon=":material/download:",
        help="Reports as sent, without what ties those of one phone together, and every estimate.",
    )


def show_changes(room: Room, view: View) -> None:
    """Show what can change while the room stays open."""
    with st.expander("Change or take away", icon=":material/tune:"):
        render_safely("The settings", show_room_settings, room, view)
        render_safely("The guesses", show_guess_poll_buttons, room, view)
        show_export_button(room)


def show_room_settings(room: Room, view: View) -> None:
    """Show the settings of an open room."""
    hides = st.toggle(
        "Hide results until a question is locked", view.hides, key=f"room hides {view.hides}"
    )
    if hides != view.hides:
        run_action(lambda: room.hide(hides))
    epsilon = st.select_slider(
        "epsilon of an answer, from the next question on",
        sorted({*EPSILONS, view.epsilon}),
        value=view.epsilon,
        format_func=lambda value: f"{value:g}",
        key=f"room next epsilon {view.epsilon:g}",
    )
    if epsilon != view.epsilon:
        run_action(lambda: room.set_epsilon(float(epsilon)))
    with st.form("one more", border=False, clear_on_submit=True):
        text = st.text_input("One question more", max_chars=MAX_QUESTION_LENGTH)
        if st.form_submit_button("Add it"):
            run_action(lambda: room.add(text))


def plot_repetition(view: View, question: int) -> list[ShareRow]:
    """Show what a repeated question reveals to the class and to an attacker."""
    estimates, certainty = room_view.compare_rounds(
        view, question, session.room_prior or room_view.PRIOR
    )
    if len(estimates) < 2:
        return []
    blocks.show_headline(room_view.describe_repetition(estimates, certainty))
    left, right = st.columns(2, gap="large")
    with left:
        st.markdown("**This class**: the share of yes, from the reports of all rounds")
        draw_rows(estimates, "The estimate after each round", equal_rows=True)
    with right:
        st.markdown("**One person**: how often an attacker guesses the answer")
        title = "How often an attacker is right after each round"
        draw_rows(certainty, title, axis=charts_room.CERTAINTY, equal_rows=True)
        prior = st.select_slider(
            "Sure of the answer before any report",
            PRIORS,
            room_view.PRIOR,
            format_func=lambda value: f"{cards.format_share_percent(value)} %",
            key=Session.room_prior.key,
        )
    st.caption(
        f"Somebody is {cards.format_share_percent(prior)} % sure of an answer before any report."
        " The bars show how often this attacker then guesses right. They are computed, not"
        " measured. A yes and a no from the same phone cancel."
    )
    return [*estimates, *certainty]


def plot_all_questions(view: View) -> list[ShareRow]:
    """Show every question so far, and offer an order only where the shares clearly have one."""
    rows = room_view.summarise_questions(view)
    if len(rows) < 2:
        return []
    st.header("All questions so far")
    comparison = room_view.compare_questions(view)
    ordered = room_view.rank_rows(rows, comparison)
    if ordered is not None and st.toggle("From the largest share down", key="room ordered"):
        rows = ordered
    draw_rows(rows, "Shares of yes in this class, each with its 95 % interval", equal_rows=True)
    for sentence in room_view.describe_differences(view, comparison):
        st.caption(escape(sentence))
    return rows


def show_hand_count(room: Room, view: View) -> None:
    """Show how real coins take the place of phones, and fields for the count."""
    st.markdown("**Count hands**")
    try:
        rule = core.choose_coin_rule(view.now.epsilon if view.now else view.epsilon)
    except DpmcError as error:
        blocks.show_error(error)
        return
    st.html(charts_room.render_coins(rule, room_view.describe_coin_rule(rule)))
    st.markdown(f"**{escape(room_view.describe_coin_rule(rule))}**")
    spent = cards.format_epsilon(rule.channel.cell_epsilon)
    st.caption(
        f"This coin sends the opposite {100 * rule.chance:g} % of the time, which is epsilon"
        f" {spent}. No rule with one coin is closer to the phones and reveals no more."
    )
    with st.form("hands", border=False), st.container(horizontal=True, vertical_alignment="bottom"):
        total = st.number_input("Hands in all", 0, value=0, step=1, key="room hands")
        yes = st.number_input("of them yes", 0, value=0, step=1, key="room yes")
        pressed = st.form_submit_button("Count them")
    if pressed:
        run_action(lambda: room.count(int(yes), int(total)))


def show_simulation(room: Room, view: View, question: int) -> None:
    """Show simulated phones, with a true share that is chosen or secret."""
    st.markdown(f"**{CLASS_SIZE} simulated phones**: you know the truth")
    hidden = st.toggle(
        "Keep the true share secret",
        key="room secret",
        help="The app draws it at random. Let the class guess it.",
    )
    yes = (
        st.slider(
            f"How many of {CLASS_SIZE} say yes?", 0, CLASS_SIZE, CLASS_SIZE // 3, key="room true"
        )
        if not hidden
        else None
    )
    if st.button(f"Ask {CLASS_SIZE} simulated phones", icon=":material/smartphone:"):
        session.room_truth = yes is not None
        run_action(lambda: room.simulate(secrets.randbelow(CLASS_SIZE + 1) if yes is None else yes))
    if question in view.simulated_yes:
        st.toggle("Show the true share", key=Session.room_truth.key)


def show_class_promise(view: View, question: int) -> None:
    """Show what is promised to a person who answers, and what is not."""
    st.header("What is promised")
    if view.guess_poll:
        st.markdown("Nothing. A guess is sent as it is, without a name: it is not private.")
        return
    epsilon = view.question_epsilon(question)
    left, right = st.columns(2, gap="large")
    with left:
        st.markdown("**Each answer, even from this server**")
        certified = cards.format_epsilon(core.build_phone_channel(epsilon).loss(1).epsilon)
        st.badge(
            f"claimed {epsilon:g}, certified: epsilon {certified} per answer",
            icon=":material/verified:",
            color="green",
        )
        blocks.show_bullets(room_view.explain_promise(view, question))
    with right:
        st.markdown("**In plain words**")
        st.markdown(escape(classroom.PHONE_TEXTS["honest"]))
        st.markdown(escape(room_view.explain_cheating(epsilon)))


shell.enter_through_app()
page()
