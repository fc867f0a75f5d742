"""Lessons on epsilon: predict first, then move and see; one step at a time."""

import html
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import streamlit as st

from dpmc_core.errors import capitalise
from dpmc_lab import glossary
from dpmc_lab.classroom import pictures
from dpmc_lab.glossary import Term
from dpmc_lab.lessons import LESSONS, Control, Lesson, Predict, Slide, fill_text, say
from dpmc_lab.lessons.worksheets import SHEETS, TURNS, render_lesson, render_lessons_page
from pages.ui import blocks, classroom, shell, state, widgets
from pages.ui.charts import room as charts_room
from pages.ui.session import Session, session
from pages.ui.text import escape

SPREAD_LAYOUT: dict[str, Any] = {  # at both ends of a line
    "horizontal": True,
    "vertical_alignment": "center",
    "horizontal_alignment": "distribute",
}
END = "end"  # the step after the last slide
_js = Path(__file__).with_name("ui") / "learn.js"
_keys = st.components.v2.component(
    "turning steps", html="<span hidden></span>", js=TURNS + _js.read_text(encoding="utf-8")
)


@st.fragment
def page() -> None:
    lesson, position = read_requested_step()
    if lesson is None:
        show_lesson_list()
        show_glossary()
        announcement = {"place": "", "focus": "h1"}
        projector = False
    else:
        with st.container(**SPREAD_LAYOUT):
            show_lesson_progress(lesson, position)
            projector = widgets.choose_toggle(
                say("projector"),
                "projector mode",
                "projector",
                help=say("projector_help"),
                width="content",
            )
        slides = lesson.slides
        if position == len(slides):
            show_end(lesson)
            announcement = {"place": f"{lesson.id} {END}", "focus": ".st-key-slide h2"}
        else:
            slide = slides[position]
            revealed = slide.predict is None or (lesson.id, slide.key) in session.guesses
            show_step(lesson, slide, revealed, projector)
            just_guessed, session.guessed = session.guessed, False  # and not back
            announcement = {
                "place": f"{lesson.id} {slide.key} {revealed}",
                "focus": ".st-key-verdict p" if just_guessed else ".st-key-slide h2",
            }
    progress = {"steps": session.lessons, "done": sorted(session.lessons_done)}
    _keys(
        key=Session.lesson_keys.key,
        data=announcement | {"projector": projector, "progress": progress},
        on_remembered_change=restore_progress,
    )


def restore_progress() -> None:
    """Take over what this browser remembers of earlier visits, where that is possible."""
    remembered = session.lesson_keys.remembered
    session.lessons_done.update(id for id in LESSONS if id in remembered["done"])
    for id, step in remembered["steps"].items():
        if id in LESSONS and step in list_step_keys(LESSONS[id]):
            session.lessons.setdefault(id, step)


# --- the address ------------------------------------------------------------------------------


def read_requested_step() -> tuple[Lesson | None, int]:
    """Return the lesson and the position of the step that the address asks for.

    The address names a step by its key. Without a lesson, all lessons are shown.
    """
    id = st.query_params.get("lesson")
    if id is None:
        return None, 0
    if id not in LESSONS:
        state.add_note(
            f"The link asks for the lesson “{id[:40]}”, which does not exist. Here are all lessons."
        )
        go_to_lesson_list()
        return None, 0
    lesson = LESSONS[id]
    keys = list_step_keys(lesson)
    name = st.query_params.get("step", keys[0])
    if name not in keys:
        state.add_note(
            f"The link asks for the step “{name[:40]}”, which this lesson does not have. Here is"
            " the first step."
        )
        name = keys[0]
        st.query_params["step"] = name
    position = keys.index(name)
    session.lessons[id] = name
    if name == END:
        session.lessons_done.add(id)
    return lesson, position


def list_step_keys(lesson: Lesson) -> list[str]:
    """Return the keys of a lesson's steps; the last one is the end."""
    return [*(slide.key for slide in lesson.slides), END]


def go_to_step(lesson: Lesson, position: int) -> None:
    """Go to a step, by the address."""
    st.query_params.update({"lesson": lesson.id, "step": list_step_keys(lesson)[position]})


def go_to_lesson_list() -> None:
    """Go back to the list of lessons."""
    for name in ("lesson", "step"):
        st.query_params.pop(name, None)


def record_guess(lesson: Lesson, slide: Slide, option: int | None) -> None:
    """Record a prediction, or None if the answer is shown without one."""
    session.guesses[lesson.id, slide.key] = option
    session.guessed = True


# --- all lessons -------------------------------------------------------------------------------


def show_lesson_list() -> None:
    """Show the lessons as a path of pictures, and a button that continues on it."""
    finished = session.lessons_done
    next_id = next((id for id in LESSONS if id not in finished), next(iter(LESSONS)))
    with st.container(key="head", **SPREAD_LAYOUT):
        with st.container(width="stretch"):
            blocks.show_heading(say("title"), say("intro"))
        with st.container(horizontal=True, width="content"):
            if classroom.is_teacher():
                icon = ":material/print:"
                menu = st.popover(say("print"), icon=icon, key="print", on_change="rerun")
                if menu.open:  # only then are the sheets made
                    with menu:
                        for name, (title, render) in SHEETS.items():
                            blocks.show_print_button(title, render(), name)
            verb = "continue" if finished or session.lessons else "start"
            st.button(
                say(verb, lesson=LESSONS[next_id]),
                key="continue",
                type="primary",
                icon=":material/arrow_forward:",
                on_click=open_lesson,
                args=(next_id,),
            )
    with st.container(key="lessons"):
        tiles = "".join(render_tile(lesson, next_id) for lesson in LESSONS.values())
        style = f"<style>{pictures.STYLE_SHEET}</style>"
        blocks.show_drawing(f'{style}<ol class="path">{tiles}</ol>', "path", open_lesson)
        with st.container(key="after"):
            minutes = sum(lesson.minutes for lesson in LESSONS.values())
            st.markdown(f"**{say('total', minutes=minutes)}**")
            st.page_link("pages/room.py", label=say("teach"), icon=":material/groups:")
            if classroom.is_teacher():
                st.download_button(
                    say("download"),
                    render_lessons_page,
                    "lessons.html",
                    "text/html",
                    on_click="ignore",
                    icon=":material/download:",
                )


def render_tile(lesson: Lesson, next_id: str) -> str:
    """Render a lesson on the path: its picture, its title, and what it is about or ends with."""
    is_done = lesson.id in session.lessons_done
    title, _, subtitle = lesson.title.partition(": ")
    state_class = "done" if is_done else "now" if lesson.id == next_id else ""
    label = say("tile", lesson=lesson, title=title, done=say("done") * is_done)
    return (
        f'<li class="{state_class}"><span class="node" aria-hidden="true">'
        f'{"✓" if is_done else lesson.number}</span><a href="?lesson={lesson.id}"'
        f' data-open="{lesson.id}" aria-label="{label}"><span class="pic">'
        f"{pictures.render_illustration(lesson.id)}</span><h2>{html.escape(title)}"
        f"<small>{say('minutes', lesson=lesson)}</small></h2><p>"
        f"{html.escape(lesson.take_home if is_done else capitalise(subtitle) + '.')}</p></a></li>"
    )


def open_lesson(id: str) -> None:
    """Go to the step of a lesson where one left off; a finished lesson begins anew."""
    keys = list_step_keys(LESSONS[id])
    position = keys.index(session.lessons.get(id, keys[0]))
    go_to_step(LESSONS[id], position % (len(keys) - 1))


def show_glossary() -> None:
    """Show the glossary: the terms that match a query, or all of them in an expander."""
    st.header(say("words"))
    query = st.text_input(
        say("find"),
        key="word",
        bind="query-params",
        placeholder=say("example"),
    )
    terms = glossary.search_terms(query)
    if not terms:
        st.markdown(say("no_word", query=escape(query)))
    if query:
        show_terms(terms)
    else:
        label = say("all_words", count=len(terms))
        blocks.show_expander(label, lambda: show_terms(terms), key="all words", type="compact")


def show_terms(terms: Sequence[Term]) -> None:
    """Show terms with their explanations and the pages that use them."""
    for term in terms:
        also = say("also", names=", ".join(term.also)) if term.also else ""
        with st.container(**SPREAD_LAYOUT):
            with st.container(width="stretch"):
                st.markdown(
                    f"**{escape(term.name)}**: {escape(term.words)}",
                    help=escape(f"{term.more} {also}".strip()) or None,
                )
            st.page_link(f"pages/{term.page}.py", width="content")


# --- one step ----------------------------------------------------------------------------------


def show_lesson_progress(lesson: Lesson, position: int) -> None:
    """Show the lesson's title, how far it is, and the way back to the list."""
    st.button(
        say("all"),
        icon=":material/arrow_back:",
        type="tertiary",
        on_click=go_to_lesson_list,
        key="all",
    )
    last = len(lesson.slides)
    dots = f"{'●' * (position + 1)}{'○' * (last - position)}"
    progress = say("step", lesson=lesson, dots=dots, step=position + 1, steps=last + 1)
    st.caption(escape(progress), width="content")


def show_step(lesson: Lesson, slide: Slide, revealed: bool, projector: bool) -> None:
    """Show one step: the question on the left, and the answer once it is revealed.

    Args:
        lesson: the lesson.
        slide: the step.
        revealed: whether the answer is visible.
        projector: whether the page is projected.
    """
    with st.container(key="slide"):
        blocks.show_headline(slide.title)
    if projector and revealed:
        question_place, answer_place = st.container(key="asks"), st.container()
    else:
        question_place, answer_place = st.columns([2, 3], gap="large")
    with question_place:
        with st.container(key="told" if revealed and slide.predict else None):
            st.markdown(escape(slide.said))
        if slide.predict is not None:
            if revealed:
                verdict_place = st.container(key="verdict")
            else:
                show_prediction_buttons(lesson, slide, slide.predict)
        values = {}
        if revealed:  # beside each other where room is short
            with st.container(horizontal=projector, vertical_alignment="bottom"):
                values = {
                    entry.key: choose_control_value(slide, entry, ends=not projector)
                    for entry in slide.move
                }
            if slide.predict is not None:
                moved = any(
                    values[entry.key] != entry.start
                    for entry in slide.move
                    if entry.values or entry.options  # and is no button
                )
                with verdict_place:
                    show_prediction_result(
                        slide.predict, session.guesses[lesson.id, slide.key], moved
                    )
        if not projector and classroom.is_teacher():
            with st.expander(say("teacher"), icon=":material/school:", type="compact"):
                st.markdown(escape(slide.teacher))
    with answer_place:
        if not revealed:
            picture = slide.reveal(slide.start_values).picture
            if picture is not None:
                charts_room.draw_picture(picture, charts_room.VEILED)
            st.caption(say("veiled"))
        else:
            charts_room.show_reveal(slide.reveal(values), projector)
            if (link := slide.after) and not projector:
                current_values = slide.compute_values(values)
                query = {
                    name: fill_text(text, current_values) for name, text in link["query"].items()
                }
                st.page_link(
                    f"pages/{link['page']}.py",
                    label=link["words"],
                    icon=":material/arrow_forward:",
                    query_params=query,
                )
    position = lesson.slides.index(slide)
    if revealed:
        show_turn_buttons(lesson, position, say("next"), go_to_step, lesson, position + 1)
    else:
        show_turn_buttons(
            lesson,
            position,
            say("answer"),
            record_guess,
            lesson,
            slide,
            None,
            icon=":material/visibility:",
            type="secondary",
        )


def show_prediction_buttons(lesson: Lesson, slide: Slide, prediction: Predict) -> None:
    """Show the question of a step and a button for each possible prediction."""
    with st.container(key="question"):
        st.markdown(f"**{escape(prediction.question)}**")
    with st.container(horizontal=True):
        for k, option in enumerate(prediction.options):
            st.button(
                escape(option),
                key=f"option {lesson.id} {slide.key} {k}",
                on_click=record_guess,
                args=(lesson, slide, k),
            )


def show_prediction_result(prediction: Predict, guessed: int | None, moved: bool) -> None:
    """Show the right answer beside what the visitor predicted.

    Args:
        prediction: the question, as it was asked.
        guessed: index of the predicted option, if any.
        moved: whether a control has been moved since, which may change the answer.
    """
    sentences = [say("moved")] * moved + [f"**{escape(prediction.question)}**"]
    right, options = prediction.right, [escape(option) for option in prediction.options]
    if right is not None:
        sentences.append(f"{options[right]}.")
    if guessed is not None:
        name = "chose" if right is None else "as_predicted" if guessed == right else "predicted"
        sentences.append(say(name, option=options[guessed]))
    st.markdown(" ".join(sentences))


def choose_control_value(slide: Slide, entry: Control, *, ends: bool) -> Any:
    """Show a control of a step and return its value, which is kept in the address.

    A button returns how often it was pressed, added to a random number of this visitor.
    """
    key = f"{slide.key}.{entry.key}"
    if entry.values:
        names = {value: entry.format_value(value) for value in entry.values}
        term = glossary.find_term(entry.label)
        state.apply_link_choice(key, entry.label, names)
        state.reset_unavailable_choice(key, names, entry.start)
        chosen = st.select_slider(
            entry.label,
            entry.values,
            value=entry.start,
            format_func=names.__getitem__,
            key=key,
            bind="query-params",
            help=term and term.words,
        )
        if ends and any(entry.ends):
            with st.container(
                key=f"ends {key}", horizontal=True, horizontal_alignment="distribute", gap=None
            ):
                for end_label in entry.ends:
                    st.caption(end_label, width="content")
        return chosen
    if entry.options:
        return widgets.choose_segment(entry.label, entry.label, entry.options, key, entry.start)
    n_presses = session.presses[key]
    st.button(
        entry.label,
        icon=":material/casino:",
        key=key,
        on_click=session.presses.__setitem__,
        args=(key, n_presses + 1),
    )
    return session.seed + n_presses


def show_turn_buttons(
    lesson: Lesson, position: int, label: str, act: Callable[..., None], *args: object, **style: Any
) -> None:
    """Show the button back, and a button that calls `act(*args)`.

    Args:
        lesson: the lesson.
        position: of the step.
        label: of the second button.
        act: what it does.
        *args: arguments of `act`.
        **style: icon and type of the button.
    """
    style = {"icon": ":material/arrow_forward:", "type": "primary"} | style
    with st.container(horizontal=True, key="turns"):
        st.button(
            say("back"),
            key="back",
            icon=":material/arrow_back:",
            disabled=position == 0,
            on_click=go_to_step,
            args=(lesson, position - 1),
        )
        st.button(label, key="next", on_click=act, args=args, **style)


def show_end(lesson: Lesson) -> None:
    """Show the sentence to take home, and the next lesson."""
    with st.container(key="slide"):
        st.header(say("home"))
    with st.container(key="home"):
        st.markdown(escape(lesson.take_home))
    with blocks.lay_out_row():
        st.markdown(f":material/check: {say('finished', lesson=lesson)}", width="content")
        blocks.show_print_button(say("print_lesson"), render_lesson(lesson), "print lesson")
    last, lessons = len(lesson.slides), list(LESSONS.values())
    if lesson is lessons[-1]:
        show_turn_buttons(lesson, last, say("all"), go_to_lesson_list)
    else:
        next_lesson = lessons[lesson.number]
        show_turn_buttons(
            lesson,
            last,
            escape(say("next_lesson", lesson=next_lesson)),
            go_to_step,
            next_lesson,
            0,
        )


shell.enter_through_app()
page()
