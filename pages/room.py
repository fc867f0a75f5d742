"""The class: its questions, what arrives from phones or hands, and what may be said of it."""

import secrets
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import streamlit as st

from dpmc_core.errors import DpmcError
from dpmc_lab import glossary
from dpmc_lab.classroom import CLASS_SIZE, load_texts, pictures, room_view
from dpmc_lab.classroom import room as core
from dpmc_lab.classroom.room import EXAMPLE_QUESTIONS, MAX_QUESTION_LENGTH, Room, View
from dpmc_lab.classroom.room_view import ShareRow
from dpmc_lab.lessons import (
    CLASSES,
    LABELS,
    PLANS,
    PlanStep,
    get_slide,
    schedule_class,
)
from dpmc_lab.lessons.worksheets import SHEETS
from dpmc_lab.sweep.presets import EPSILONS
from dpmc_lab.views import cards
from pages.ui import blocks, classroom, shell, widgets
from pages.ui.blocks import render_safely
from pages.ui.charts import room as charts_room
from pages.ui.session import Session, session
from pages.ui.text import escape

TICK = 1.0  # seconds between two updates from the room
MAX_WAIT = 60.0  # seconds for the first phone
CUSTOM_LIST = "Your own"
PRIORS = (0.5, 0.6, 0.8, 0.95)  # how sure an attacker was before
LOBBY = PlanStep(id="", minutes=0, wall="lobby")  # without a plan
BUTTONS, CONTROLS, NOTES = load_texts("class.toml").values()


def page() -> None:
    if not classroom.is_teacher():
        blocks.show_heading(*NOTES["stranger"])
        st.link_button(url=classroom.get_phone_link(), **BUTTONS["phones"])
        return
    room = classroom.get_room()
    if "wall" in st.query_params:
        show_wall_window(room)
        return
    has_plan = room is not None and room.view().plan
    try:
        if room is None:
            show_setup()
        elif has_plan and not session.room_free:
            show_plan(room)
        elif room.view().now is None:
            show_lobby(room)
        else:
            show_projector(room)
    except DpmcError as error:
        blocks.show_error(error)
    if has_plan:
        name = "follow" if session.room_free else "free"
        show_action(name, lambda: session.update(room_free=not session.room_free))
    if classroom.is_class_mode():  # choose what visitors without the teacher's link may do
        allowed = st.toggle(value=classroom.can_visitors_train(), **CONTROLS["visitors"])
        if allowed != classroom.can_visitors_train():
            classroom.allow_visitor_training(allowed)


def poll_view(view: View | None) -> Any:
    """Return the current view of the room, or draw the page again if more than reports changed."""
    room = classroom.get_room()
    if (latest := room and room.view()) != view:
        st.rerun()
    return latest


def show_action(name: str, action: Callable[[], object], **options: Any) -> None:
    """Show a button of class.toml that runs an action."""
    if st.button(**BUTTONS[name] | options):
        run_action(action)


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
    blocks.show_heading(*NOTES["heading"])
    plan = widgets.choose_segment(NOTES["plan"], "plan", NOTES["plans"], "class", "")
    left, right = st.columns([3, 2], gap="large")
    with left:
        questions = choose_questions()
    with right:
        epsilon = schedule_class(plan)[0].epsilon if plan else choose_poll_epsilon(len(questions))
        expected = CLASS_SIZE
        if classroom.is_class_mode():
            expected = st.number_input(value=CLASS_SIZE, **CONTROLS["size"])
        show_action("open", lambda: begin_class(questions, epsilon, expected, plan))
        if not classroom.is_class_mode():
            st.caption(NOTES["no_phones"])
        if plan:
            show_plan_head(plan)


def begin_class(questions: list[str], epsilon: float, expected: int, plan: str) -> None:
    """Open a room; without a plan and phones, ask the first question at once."""
    session.room_free = False
    room = classroom.open_room(questions, epsilon, expected, plan)
    if not (plan or classroom.is_class_mode()):  # nothing to wait for
        room.ask(0)


def show_plan_head(minutes: str) -> None:
    """Show what to print and to open, and what a plan teaches and needs, with its lessons."""
    with st.container(horizontal=True):
        show_wall_link()
        title, render = SHEETS[f"class-{minutes}.html"]
        blocks.show_print_button(title, render(), "print class")
    for plan in (PLANS[name] for name in CLASSES[minutes]):
        for name, sentences in (("goals", plan.goals), ("needs", plan.needs)):
            st.markdown(f"**{LABELS[name]}**")
            blocks.show_bullets(sentences)
        st.markdown(plan.links)


def choose_questions() -> list[str]:
    """Show a field with a question on each line, and return the questions."""
    st.segmented_control(
        options=[*EXAMPLE_QUESTIONS, CUSTOM_LIST],
        default=next(iter(EXAMPLE_QUESTIONS)),
        key=Session.room_list.key,
        on_change=fill_questions,
        **CONTROLS["lists"],
    )
    if session.room_questions is None:
        fill_questions()
    text = st.text_area(key=Session.room_questions.key, **CONTROLS["questions"])
    st.caption(NOTES["questions"])
    return [line for line in text.splitlines() if line.strip()]


def fill_questions() -> None:
    """Fill the field with the chosen example questions, which the teacher may change."""
    name = session.room_list or next(iter(EXAMPLE_QUESTIONS))
    session.room_questions = "\n".join(EXAMPLE_QUESTIONS.get(name, ()))


def choose_poll_epsilon(questions: int) -> float:
    """Choose the privacy budget of an answer, and show what it means."""
    epsilon = st.select_slider(
        options=EPSILONS,
        value=core.EPSILON,
        format_func="{:g}".format,
        help=glossary.explain_terms("epsilon"),
        **CONTROLS["epsilon"],
    )
    style = f"<style>{pictures.STYLE_SHEET} .illustration {{ max-width: 15rem; }}</style>"
    blocks.show_drawing(style + pictures.render_illustration("coin"), "coin picture")
    blocks.show_bullets(
        [*room_view.explain_epsilon(epsilon), room_view.explain_cost(questions, epsilon)]
    )
    with st.expander("Imagine two coins", type="compact"):
        st.caption(escape(room_view.explain_two_coins(epsilon)))
    return float(epsilon)


def show_lobby(room: Room) -> None:
    """Show whether phones reach the room, before the first question."""
    view = room.view()

    @st.fragment(run_every=TICK)
    def show_arrivals() -> None:
        latest = poll_view(view)
        show_room_state(latest, LOBBY)
        if not latest.tested and time.monotonic() - latest.opened > MAX_WAIT:
            st.warning(NOTES["advice"], icon=":material/wifi_off:")
        with st.container(horizontal=True, vertical_alignment="center"):
            show_action("first", lambda: room.ask(0))
            show_action("change", classroom.close_room)
            st.caption(escape(room_view.explain_cost(len(view.questions), view.epsilon)))

    show_arrivals()


def show_phone_link(large: bool) -> None:
    """Show the address for phones as text and as a QR code; without a class there is none."""
    if classroom.is_class_mode():
        st.html(charts_room.render_phone_link(classroom.get_phone_link(), large=large))


# --- a class by a plan --------------------------------------------------------------------------


def show_plan(room: Room) -> None:
    """Show the current step of the plan to the teacher, beside what is on the wall."""
    view = room.view()
    steps = schedule_class(view.plan)
    left, right = st.columns([2, 3], gap="large")
    with left:
        st.html(charts_room.render_step(steps, view.step))
        show_plan_buttons(room, view)
        with st.container(horizontal=True):
            show_wall_link()
            render_safely("The door", show_door, room, view)
    with right, st.container(border=True):
        show_wall(view)
    if view.ended:
        show_end_buttons(room)
    elif view.now:
        show_without_phones(room, view)


def show_plan_buttons(room: Room, view: View) -> None:
    """Show the button that names what comes next, and the way back."""
    steps = schedule_class(view.plan)
    with st.container(horizontal=True, key="turns"):
        for name, index in (("previous", view.step - 1), ("step", view.step + 1)):
            if 0 <= index < len(steps):
                step = steps[index]
                state = "" if step.stage else step.wall
                follow = partial(room.follow, index, state, step.question - 1, step.epsilon)
                label = {"label": step.button} if name == "step" else {}
                show_action(name, follow, **label)


def show_wall_link() -> None:
    """Show the link that opens the wall in a second window."""
    room = st.query_params.get("room", "")
    st.link_button(url=f"room?wall=on&room={room}", **BUTTONS["wall"])


def show_wall_window(room: Room | None) -> None:
    """Show the wall alone, for a projector; the keys of the plan work here too."""
    st.html(charts_room.WALL)
    view = room and room.view()
    show_wall(view)
    if room and view and view.plan:
        show_plan_buttons(room, view)


def show_wall(view: View | None) -> None:
    """Show what the current step of the plan has on the wall, and follow the room."""
    step = schedule_class(view.plan)[view.step] if view and view.plan else None

    @st.fragment(run_every=TICK)
    def show_live() -> None:
        latest = poll_view(view)
        if step and not step.stage:
            render_safely("The room", show_room_state, latest, step)

    if step is None:
        st.title(NOTES["begins"])
    elif step.stage:
        st.title(escape(get_slide(step.wall)[1].title))
        key = charts_room.VEILED if step.stage == "question" else "drawing"
        render_safely("The slide", charts_room.show_reveal, step.reveal(), True, key)
    show_live()


def show_room_state(view: View, step: PlanStep) -> None:
    """Show the room as a step wants it: who is here, who has answered, or the result."""
    wall = step.describe_room(view)
    st.title(escape(wall["title"]))
    figures = [(wall["figure"], wall["label"])] if "figure" in wall else []
    st.html(charts_room.render_counter(figures, wall.get("note", "")))
    if "note" in wall:
        show_warnings(view)
    for place, part in zip(st.columns(2, gap="medium"), wall["parts"], strict=False):
        with place:
            if part == "code":
                render_safely("The QR code", show_phone_link, True)
            elif part == "dots":
                st.html(charts_room.render_dots(wall["arrived"], wall["here"]))
            elif part == "reports":
                charts_room.draw_picture(wall["phones"], "drawing")
    if step.wall == "result" and view.now:
        rows = room_view.build_result_rows(view, view.now.question)
        draw_rows(rows, "Shares of yes, each with its 95 % interval")


# --- the projector ------------------------------------------------------------------------------


def show_projector(room: Room) -> None:
    """Show the current question with its reports, and everything that a teacher controls."""
    view = room.view()
    question = view.now.question if view.now else -1
    if not view.ended:
        render_safely("The QR code", show_phone_link, False)
    st.html(charts_room.LARGE)
    st.title(escape(view.questions[question]))

    @st.fragment(run_every=TICK if classroom.is_class_mode() and not view.ended else None)
    def show_live() -> None:
        latest = poll_view(view)
        render_safely("The number of reports", show_report_count, latest)
        rows = render_safely("The chart", plot_question, latest, question) or []
        show_teacher_buttons(room, latest, question)
        render_safely("The list of phones that wait", show_door, room, latest)
        for section, plot in (
            ("The effect of asking again", plot_repetition),
            ("The comparison of questions", plot_all_questions),
        ):
            rows = rows + (render_safely(section, plot, latest, question) or [])
        render_safely("The table", show_share_table, rows)

    show_live()
    if not view.ended:
        show_without_phones(room, view)
        with st.expander(**CONTROLS["settings"]):
            render_safely("The settings", show_room_settings, room, view)
            show_export_button(room)
    render_safely("The promise", show_class_promise, view, question)


def show_without_phones(room: Room, view: View) -> None:
    """Show what takes the place of phones."""
    with st.expander(expanded=not classroom.is_class_mode(), **CONTROLS["without_phones"]):
        left, right = st.columns(2, gap="large")
        with left:
            render_safely("The count of hands", show_hand_count, room, view)
        with right:
            render_safely("The simulation", show_simulation, room, view)


def show_report_count(view: View) -> None:
    """Show how many reports have arrived."""
    st.html(charts_room.render_counter(*room_view.count_answers(view)))
    if waits := room_view.explain_waiting(view):
        st.markdown(f":material/visibility_off: {waits}")
    show_warnings(view)


def show_warnings(view: View) -> None:
    """Warn if phones are lost, or if answers come faster than people tap."""
    for warning in (room_view.warn_of_lost_phones(view), room_view.warn_of_burst(view)):
        if warning:
            st.warning(warning, icon=":material/warning:")


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
    """Draw what the reports say about a question, and return its shares."""
    rows = room_view.build_question_rows(view, question, reveal_truth=session.room_truth)
    draw_rows(rows, "Shares of yes, each with its 95 % interval")
    st.caption(room_view.describe_marks(rows))
    return rows


def show_door(room: Room, view: View) -> None:
    """Show buttons that let phones in, close the room to new ones, and ask the question anew."""
    for count in sorted({min(view.waiting, 1), view.waiting} - {0}):
        st.button(
            f"Let in {count} of {view.waiting} waiting",
            key=f"room let in {count}",
            disabled=view.ended,
            on_click=room.let_in,
            args=(count,),
        )
    if view.now and not view.ended and classroom.is_class_mode():
        question, epsilon = view.now.question, view.now.epsilon
        door = "reopen" if view.closed else "close"
        with st.popover(**CONTROLS["door"]):
            show_action(door, lambda: room.close_to_new_phones(not view.closed))
            label = NOTES["anew"].format(epsilon)
            show_action("anew", lambda: room.ask(question, anew=True), label=label)


def show_teacher_buttons(room: Room, view: View, question: int) -> None:
    """Show the buttons of the teacher. A key does the same whatever is on the screen."""
    previous, following = question - 1, question + 1
    reachable = room_view.list_asked_questions(view) if view.ended else range(len(view.questions))
    with st.container(horizontal=True):
        if not view.ended:
            locks = "unlock" if view.locked else "lock"
            show_action(locks, lambda: room.lock(not view.locked), key="room lock")
        show_action("back", lambda: room.press(previous), disabled=previous not in reachable)
        show_action(
            "next",
            lambda: room.press(following),
            type="primary" if view.locked else "secondary",
            disabled=following not in reachable,
            help=f"Question {following + 1} of {len(view.questions)}"
            if following in reachable
            else "It is the last",
        )
        if view.ended:
            show_end_buttons(room)
            return
        show_action(
            "again",
            lambda: room.press(question, again=True),
            help="The same question once more, as a round: costs each person"
            f" {view.question_epsilon(question):g} more.",
        )
        with st.popover(**CONTROLS["ending"]):
            st.markdown(NOTES["ending"])
            show_action("end", room.end)


def show_end_buttons(room: Room) -> None:
    """Show what is left to do after the end."""
    show_export_button(room)
    with st.popover(**CONTROLS["new_room"]):
        st.markdown(NOTES["forget"])
        show_action("forget", classroom.close_room)


def show_export_button(room: Room) -> None:
    """Show the button that downloads reports and estimates."""
    st.download_button(
        data=lambda: room_view.export_results(room.view(), blocks.log_once), **BUTTONS["csv"]
    )


def show_room_settings(room: Room, view: View) -> None:
    """Show the settings of an open room."""
    hides = st.toggle(value=view.hides, key=f"room hides {view.hides}", **CONTROLS["hides"])
    if hides != view.hides:
        run_action(lambda: room.hide(hides))
    epsilon = st.select_slider(
        options=sorted({*EPSILONS, view.epsilon}),
        value=view.epsilon,
        format_func="{:g}".format,
        key=f"room next epsilon {view.epsilon:g}",
        **CONTROLS["next_epsilon"],
    )
    if epsilon != view.epsilon:
        run_action(lambda: room.set_epsilon(float(epsilon)))
    with st.form("one more", border=False, clear_on_submit=True):
        text = st.text_input(max_chars=MAX_QUESTION_LENGTH, **CONTROLS["one_more"])
        if st.form_submit_button(**BUTTONS["add"]):
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


def plot_all_questions(view: View, _: int) -> list[ShareRow]:
    """Show every question so far, and offer an order only where the shares clearly have one."""
    rows = room_view.summarise_questions(view)
    if len(rows) < 2:
        return []
    st.header("All questions so far")
    comparison = room_view.compare_questions(view)
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
    st.caption(room_view.explain_coin_rule(rule))
    with st.form("hands", border=False), st.container(horizontal=True, vertical_alignment="bottom"):
        total, yes = (st.number_input(**CONTROLS[name]) for name in ("hands", "yes"))
        pressed = st.form_submit_button(**BUTTONS["count"])
    if pressed:
        run_action(lambda: room.count(int(yes), int(total)))


def show_simulation(room: Room, view: View) -> None:
    """Show simulated phones, with a true share that is chosen or secret."""
    st.markdown(f"**{CLASS_SIZE} simulated phones**: you know the truth")
    hidden = st.toggle(**CONTROLS["secret"])
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
    if view.now and view.now.question in view.simulated_yes:
        st.toggle(key=Session.room_truth.key, **CONTROLS["truth"])


def show_class_promise(view: View, question: int) -> None:
    """Show what is promised to a person who answers, and what is not."""
    st.header("What is promised")
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
