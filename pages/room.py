"""The class: its questions, what arrives from phones or hands, and what may be said of it."""

import secrets
import time
from collections.abc import Callable

import streamlit as st

from dpmc_core.errors import DpmcError
from dpmc_lab import glossary
from dpmc_lab.classroom import CLASS_SIZE
from dpmc_lab.classroom import room as core
from dpmc_lab.classroom import room_view as words
from dpmc_lab.classroom.room import EXAMPLE_QUESTIONS, MAX_QUESTION_LENGTH, QUESTIONS, Room, View
from dpmc_lab.classroom.room_view import ShareRow
from dpmc_lab.curves import cards
from dpmc_lab.sweep.presets import EPSILONS
from pages.ui import blocks, classroom, shell, state
from pages.ui.blocks import show_safely
from pages.ui.charts import room as charts_room

TICK = 1.0  # seconds between two looks at what has arrived
PATIENCE = 60.0  # seconds for the first phone
OWN = "Your own"
QUESTIONS_OF, EPSILON = "room list", "room epsilon"
SHOWN, SECRET = "room truth shown", "room secret"
ORDERED, PRIOR, SIZE = "room ordered", "room prior", "room size"
PRIORS = (0.5, 0.6, 0.8, 0.95)  # how sure an attacker was before
UNREACHED = """
- School networks often keep devices apart: use the hotspot of a phone or of this computer.
- The hotspot of a phone often takes about ten devices.
- Or go on without: **Count hands** and **30 simulated phones** need no network.
"""
# What the page is made of, but the reports that arrive: where it changes, all is drawn anew.
Marks = tuple[object, ...]


def page() -> None:
    if not classroom.is_teacher():
        stranger()
        return
    room = classroom.get_room()
    try:
        if room is None:
            set_up()
        elif room.view().open is None:
            lobby(room)
        else:
            projector(room)
    except DpmcError as error:
        blocks.show_error(error)
    if classroom.is_class_mode():
        visitors()


def visitors() -> None:
    """What those may do who have not opened the teacher's link."""
    may = st.toggle(
        "Visitors may train on samples",
        classroom.can_visitors_train(),
        help="Two at a time, the others wait. Switched off, what they have begun ends.",
    )
    if may != classroom.can_visitors_train():
        classroom.allow_visitor_training(may)


def stranger() -> None:
    """Somebody in the network: phones have a page of their own."""
    blocks.show_heading(
        "The class", "Answer on the page for phones; only the teacher sees this one."
    )
    st.link_button("Open the page for phones", classroom.get_phone_link(), type="primary")


def marks_of(view: View | None) -> Marks:
    if view is None:
        return ()
    counts = tuple(
        (one.number, sender, poll.yes, poll.reports)
        for one in view.askings
        for sender, poll in one.counts.items()
    )
    on = (view.id, view.current_number, len(view.askings), view.locked, view.ended, view.hides)
    beside = (view.guess_poll_number, *(one.locked for one in view.guess_polls))
    return (*on, *beside, view.questions, view.epsilon, counts, tuple(view.simulated_yes.items()))


def now_in(room: Room | None) -> View | None:
    return None if room is None else room.view()


def act(what: Callable[[], object]) -> None:
    """Do what a button asks for, and draw the page of it; a sentence where it cannot be done."""
    try:
        what()
    except DpmcError as error:
        blocks.show_error(error)
    else:
        st.rerun()


# --- before -------------------------------------------------------------------------------------


def set_up() -> None:
    blocks.show_heading(
        "Ask the class",
        "Choose yes-or-no questions and open the room. Every phone changes its owner's answer by"
        " chance before it sends it; the class sees what can still be known.",
    )
    left, right = st.columns([3, 2], gap="large")
    with left:
        questions = choose_questions()
    with right:
        epsilon = choose_epsilon(len(questions))
        expected = choose_size() if classroom.is_class_mode() else CLASS_SIZE
        if st.button("Open the room", type="primary", icon=":material/meeting_room:"):
            act(lambda: begin(questions, epsilon, expected))
        if not classroom.is_class_mode():
            st.caption(
                "Phones can take part where the app was started with **make class**. Here you can"
                " count hands, or ask 30 simulated phones."
            )


def begin(questions: list[str], epsilon: float, expected: int) -> None:
    room = classroom.open_room(questions, epsilon, expected)
    if not classroom.is_class_mode():  # no phone to wait for
        room.ask(0)


def choose_questions() -> list[str]:
    st.segmented_control(
        "Questions",
        [*EXAMPLE_QUESTIONS, OWN],
        default=next(iter(EXAMPLE_QUESTIONS)),
        required=True,
        key=QUESTIONS_OF,
        persist_state="session",
        on_change=fill,
    )
    if "room question 0" not in st.session_state:
        fill()
    texts = [
        st.text_input(
            f"Question {k}",
            key=f"room question {k - 1}",
            max_chars=MAX_QUESTION_LENGTH,
            placeholder="empty: left out",
            persist_state="session",
        )
        for k in QUESTIONS
    ]
    st.caption("Ask three to five questions, and none that you would not ask by show of hands.")
    return [text for text in texts if text.strip()]


def fill() -> None:
    """Put a ready list in the fields, to be changed there."""
    ready = EXAMPLE_QUESTIONS.get(
        st.session_state.get(QUESTIONS_OF, next(iter(EXAMPLE_QUESTIONS))), ()
    )
    for k in range(len(QUESTIONS)):
        st.session_state[f"room question {k}"] = ready[k] if k < len(ready) else ""


def choose_epsilon(questions: int) -> float:
    """The budget of an answer, and what it means; every number is computed."""
    epsilon = st.select_slider(
        "epsilon of an answer",
        EPSILONS,
        value=core.EPSILON,
        format_func=lambda value: f"{value:g}",
        key=EPSILON,
        persist_state="session",
        help=glossary.explain_terms("epsilon"),
    )
    with st.container(horizontal=True, horizontal_alignment="distribute", gap=None):
        st.caption("more private", width="content")
        st.caption("more accurate", width="content")
    told = (*words.explain_epsilon(epsilon), words.explain_cost(questions, epsilon))
    st.markdown("\n".join(f"- {blocks.escape(one)}" for one in told))
    st.caption(blocks.escape(words.explain_two_coins(epsilon)))
    return float(epsilon)


def choose_size() -> int:
    return st.number_input(
        "Phones expected",
        1,
        core.MAX_PHONES // 2,
        CLASS_SIZE,
        key=SIZE,
        persist_state="session",
        help="Twice as many find a place by themselves; more ask you to be let in.",
    )


def lobby(room: Room) -> None:
    """The room is open and nothing is asked: does a phone reach it?"""
    left, right = st.columns([2, 3], gap="large", vertical_alignment="center")
    with left:
        show_safely("The QR code", phones_link, True)
    with right:
        blocks.show_heading(
            "Open this on one phone now",
            "Scan the code or type the address, with the phone in the same network.",
        )
        view = room.view()

        @st.fragment(run_every=TICK)
        def waiting() -> None:
            now = now_in(classroom.get_room())
            if now is None or marks_of(now) != marks_of(view):
                st.rerun()
            if now.tested:
                st.success("A phone has arrived.", icon=":material/check_circle:")
            elif time.monotonic() - now.opened > PATIENCE:
                st.warning(f"No phone has come yet.\n{UNREACHED}", icon=":material/wifi_off:")
            else:
                st.info("Waiting for the first phone.", icon=":material/hourglass_empty:")
            if st.button(
                "Ask the first question",
                type="primary" if now.tested else "secondary",
                icon=":material/arrow_forward:",
                shortcut="N",
            ):
                act(lambda: room.ask(0))

        waiting()
        st.caption(blocks.escape(words.explain_cost(len(view.questions), view.epsilon)))
        if st.button("Change the questions", icon=":material/edit:"):
            act(classroom.close_room)


def phones_link(large: bool) -> None:
    st.html(charts_room.render_phone_link(classroom.get_phone_link(), large=large))


# --- the projector ------------------------------------------------------------------------------


def projector(room: Room) -> None:
    view = room.view()
    ballot, question = view.guess_poll, view.now.question if view.now else -1
    if classroom.is_class_mode() and not view.ended:
        show_safely("The QR code", phones_link, False)
    st.html(charts_room.LARGE)
    st.title(blocks.escape(ballot.title if ballot else view.questions[question]), anchor=False)
    marks = marks_of(view)

    @st.fragment(run_every=TICK if classroom.is_class_mode() and not view.ended else None)
    def live() -> None:
        now = now_in(classroom.get_room())
        if now is None or marks_of(now) != marks:
            st.rerun()
        show_safely("The number of reports", arrived, now)
        rows = show_safely("The chart", chart, now, question) or []
        show_safely("The list of phones that wait", at_the_door, room, now)
        buttons(room, now, question)
        if not ballot:
            rows = rows + (show_safely("The effect of asking again", again, now, question) or [])
            rows = rows + (show_safely("The comparison of questions", overview, now) or [])
        show_safely("The table", table, rows)

    if ballot:
        live()
    else:
        beside(room, view, question, live)
    if view.ended:
        show_safely("The guesses", guesses, room, view)
    else:
        change(room, view)
    show_safely("The promise", promise, view, question)


def guesses(room: Room, view: View) -> None:
    """The way back to every guess."""
    for ballot in view.guess_polls:
        if ballot is not view.guess_poll and st.button(
            f"Show again: {blocks.escape(ballot.title)} ({-ballot.number})",
            key=f"room ballot {ballot.number}",
            type="tertiary",
        ):
            act(lambda number=ballot.number: room.show(number))


def beside(room: Room, view: View, question: int, live: Callable[[], None]) -> None:
    """The picture; and what stands in for phones, in sight where there can be none."""
    if view.ended:
        live()
    elif classroom.is_class_mode():
        live()
        with st.expander(
            "Without phones: count hands, or simulate 30", icon=":material/back_hand:"
        ):
            left, right = st.columns(2, gap="large")
            with left:
                show_safely("The count of hands", hands, room, view)
            with right:
                show_safely("The simulation", simulated, room, view, question)
    else:
        left, right = st.columns([5, 3], gap="large")
        with left:
            live()
        with right:
            show_safely("The simulation", simulated, room, view, question)
            show_safely("The count of hands", hands, room, view)


def arrived(view: View) -> None:
    """How many reports there are."""
    st.html(charts_room.render_counter(*words.count_answers(view)))
    if waits := words.explain_waiting(view):
        st.markdown(f":material/visibility_off: {waits}")


def table(rows: list[ShareRow]) -> None:
    blocks.show_chart_numbers(
        words.describe_rows(rows, "Shares"), words.tabulate_rows(rows), key="room numbers"
    )


def chart(view: View, question: int) -> list[ShareRow]:
    """What the reports say."""
    ballot = view.guess_poll
    if ballot:
        rows, legend = words.build_guess_rows(view, ballot), words.GUESSED_NOTE
    else:
        rows = words.build_question_rows(
            view, question, reveal_truth=bool(st.session_state.get(SHOWN))
        )
        legend = words.describe_marks(rows)
    alt = words.describe_rows(rows, "Shares of yes, each with its 95 % interval")
    st.html(charts_room.render_shares(rows, alt, state.get_theme(), equal_rows=bool(ballot)))
    st.caption(legend)
    return rows


def at_the_door(room: Room, view: View) -> None:
    """Phones beyond what was expected; as many are let in as the button says."""
    if view.waiting and not view.ended:
        more = "1 more phone asks" if view.waiting == 1 else f"{view.waiting:,} more phones ask"
        st.button(
            f"{more} to join: let them in",
            icon=":material/group_add:",
            key="room let in",
            on_click=room.let_in,
            args=(view.waiting,),
        )


def buttons(room: Room, view: View, question: int) -> None:
    """What a teacher does. A key does the same whatever is on the wall."""
    before, after = question - 1, question + 1
    places = words.list_asked_questions(view) if view.ended else range(len(view.questions))
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
            act(lambda: room.lock(not view.locked))
        if view.guess_poll and view.now and st.button("To the questions", icon=":material/undo:"):
            act(lambda: room.press(question))
        if st.button(
            "Back",
            icon=":material/arrow_back:",
            shortcut="B",
            disabled=before not in places,
            help="The question before, as it was left.",
        ):
            act(lambda: room.press(before))
        if st.button(
            "Next question",
            type="primary" if view.locked else "secondary",
            icon=":material/arrow_forward:",
            shortcut="N",
            disabled=after not in places,
            help=f"Question {after + 1} of {len(view.questions)}"
            if after in places
            else "It is the last",
        ):
            act(lambda: room.press(after))
        if view.ended:
            export(room)
            with st.popover("Begin a new room", icon=":material/edit:"):
                st.markdown("This room and all its reports are forgotten.")
                if st.button("Forget this room", type="primary"):
                    act(classroom.close_room)
            return
        if st.button(
            "Ask again",
            icon=":material/replay:",
            shortcut="A",
            disabled=bool(view.guess_poll),
            help="The same question once more, as a round: costs each person"
            f" {view.question_epsilon(question):g} more.",
        ):
            act(lambda: room.press(question, again=True))
        with st.popover("End", icon=":material/stop_circle:"):
            st.markdown("No more reports are taken. Every question stays on the screen.")
            if st.button("End the class", type="primary"):
                act(room.end)


def export(room: Room) -> None:
    st.download_button(
        "Results as CSV",
        lambda: words.export_results(room.view(), blocks.log_once),
        "class.csv",
        "text/csv",
        on_click="ignore",
        icon=":material/download:",
        help="Reports as sent, without what ties those of one phone together, and every estimate.",
    )


def change(room: Room, view: View) -> None:
    """What may be changed without losing the room."""
    with st.expander("Change or take away", icon=":material/tune:"):
        show_safely("The settings", settings, room, view)
        show_safely("The guesses", guesses, room, view)
        export(room)


def settings(room: Room, view: View) -> None:
    hides = st.toggle(
        "Hide results until a question is locked", view.hides, key=f"room hides {view.hides}"
    )
    if hides != view.hides:
        act(lambda: room.hide(hides))
    epsilon = st.select_slider(
        "epsilon of an answer, from the next question on",
        sorted({*EPSILONS, view.epsilon}),
        value=view.epsilon,
        format_func=lambda value: f"{value:g}",
        key=f"room next epsilon {view.epsilon:g}",
    )
    if epsilon != view.epsilon:
        act(lambda: room.set_epsilon(float(epsilon)))
    with st.form("one more", border=False, clear_on_submit=True):
        text = st.text_input("One question more", max_chars=MAX_QUESTION_LENGTH)
        if st.form_submit_button("Add it"):
            act(lambda: room.add(text))


def again(view: View, question: int) -> list[ShareRow]:
    """What asking again gives to the class, and to an attacker."""
    estimates, certainty = words.compare_rounds(
        view, question, st.session_state.get(PRIOR, PRIORS[0])
    )
    if len(estimates) < 2:
        return []
    st.header(words.describe_repetition(estimates, certainty), anchor=False)
    theme = state.get_theme()
    left, right = st.columns(2, gap="large")
    with left:
        st.markdown("**This class**: the reports of all rounds, those of a phone together")
        alt = words.describe_rows(estimates, "The estimate after each round")
        st.html(charts_room.render_shares(estimates, alt, theme, equal_rows=True))
    with right:
        st.markdown("**One answer**: guessed by an attacker who saw every report of it")
        alt = words.describe_rows(certainty, "How often an attacker is right after each round")
        axis = charts_room.CERTAINTY
        st.html(charts_room.render_shares(certainty, alt, theme, axis=axis, equal_rows=True))
        before = st.select_slider(
            "Sure of the answer before any report",
            PRIORS,
            format_func=lambda value: f"{cards.format_share_percent(value)} %",
            key=PRIOR,
        )
    st.caption(
        "Computed, not measured: right on average. Who was"
        f" {cards.format_share_percent(before)} % sure before is right as often without any"
        " report. The odds of"
        f" yes are those before, times e^({view.question_epsilon(question):g} s) for s more"
        " reports of yes"
        " than of no."
    )
    return [*estimates, *certainty]


def overview(view: View) -> list[ShareRow]:
    """Every question so far; in an order only where the shares surely have one."""
    rows = words.summarise_questions(view)
    if len(rows) < 2:
        return []
    st.header("All questions so far", anchor=False)
    found = words.compare_questions(view)
    ordered = words.rank_rows(rows, found)
    if ordered is not None and st.toggle("From the largest share down", key=ORDERED):
        rows = ordered
    alt = words.describe_rows(rows, "Shares of yes in this class, each with its 95 % interval")
    st.html(charts_room.render_shares(rows, alt, state.get_theme(), equal_rows=True))
    for said in words.describe_differences(view, found):
        st.caption(blocks.escape(said))
    return rows


def hands(room: Room, view: View) -> None:
    """Real coins in place of phones."""
    st.markdown("**Count hands**")
    try:
        rule = core.choose_coin_rule(view.now.epsilon if view.now else view.epsilon)
    except DpmcError as error:
        blocks.show_error(error)
        return
    st.html(charts_room.render_coins(rule, words.describe_coin_rule(rule), state.get_theme()))
    st.markdown(f"**{blocks.escape(words.describe_coin_rule(rule))}**")
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
        act(lambda: room.count(int(yes), int(total)))


def simulated(room: Room, view: View, question: int) -> None:
    """Phones that are not there, with a share that is known, or to be guessed."""
    st.markdown(f"**{CLASS_SIZE} simulated phones**, of which you know the truth")
    hidden = st.toggle(
        "Keep the true share secret", key=SECRET, help="Drawn at random; let the class guess it."
    )
    yes = (
        st.slider(
            f"Of {CLASS_SIZE}, so many say yes", 0, CLASS_SIZE, CLASS_SIZE // 3, key="room true"
        )
        if not hidden
        else None
    )
    if st.button(f"Ask {CLASS_SIZE} simulated phones", icon=":material/smartphone:"):
        st.session_state[SHOWN] = yes is not None
        act(lambda: room.simulate(secrets.randbelow(CLASS_SIZE + 1) if yes is None else yes))
    if question in view.simulated_yes:
        st.toggle("Show the true share", key=SHOWN)


def promise(view: View, question: int) -> None:
    """What is promised to whoever answers, and what is not."""
    st.header("What is promised", anchor=False)
    if view.guess_poll:
        st.markdown("Nothing. A guess is sent as it is, without a name: it is not private.")
        return
    epsilon = view.question_epsilon(question)
    left, right = st.columns(2, gap="large")
    with left:
        st.markdown("**Each answer, even from this server**")
        own = cards.format_epsilon(core.build_phone_channel(epsilon).loss(1).epsilon)
        st.badge(
            f"claimed {epsilon:g}, certified: epsilon {own} per answer",
            icon=":material/verified:",
            color="green",
        )
        told = words.explain_promise(view, question)
        st.markdown("\n".join(f"- {blocks.escape(one)}" for one in told))
    with right:
        st.markdown("**In plain words**")
        st.markdown(blocks.escape(classroom.PRIVACY_NOTICE))
        st.markdown(blocks.escape(words.explain_cheating(epsilon)))


shell.enter_through_app()
page()
