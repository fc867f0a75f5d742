"""Lessons on epsilon: predict first, then move and see; one step at a time."""

import html
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import streamlit as st

from dpmc_core.errors import capitalise
from dpmc_lab import glossary
from dpmc_lab.classroom import pictures
from dpmc_lab.glossary import Term
from dpmc_lab.lessons import LESSONS, Control, Lesson, Predict, Slide
from dpmc_lab.lessons.worksheets import FILES, SHEETS, render_lesson
from pages.ui import blocks, classroom, shell, state, widgets
from pages.ui.charts import room as charts_room
from pages.ui.session import Session, session
from pages.ui.text import escape, format_count

SPREAD_LAYOUT: dict[str, Any] = {  # at both ends of a line
    "horizontal": True,
    "vertical_alignment": "center",
    "horizontal_alignment": "distribute",
}
END = "end"  # the step after the last slide
TICK = 2.0  # seconds between two updates from the room
# Arrows turn the steps but where an arrow moves something; a presenter's clicker sends page keys.
# What is done is kept in this browser, since a reload begins a new session.
# What is new gets the focus, and so is read aloud: a heading, or what became of a prediction. What
# is found is read out again whenever it changes.
_JS = """
const OWN = 'input:not([type="checkbox"]), textarea, select, [contenteditable],'
  + ' [role="slider"], [role="radio"], [role="tab"], [role="menu"], [role="menuitem"],'
  + ' [role="listbox"], [role="dialog"],'
  + ' [data-testid="stButtonGroup"], [data-testid="stDataFrame"]';
const TURNS = { ArrowRight: "next", ArrowLeft: "back" };
const CLICKS = { PageDown: "next", PageUp: "back" };
const STORE = "dpmc-lessons";
export default function ({ data, parentElement, setStateValue }) {
  const { place, focus, projector, progress } = data;
  try {
    const stored = JSON.parse(localStorage.getItem(STORE)) ?? {};
    const all = { steps: { ...stored.steps, ...progress.steps },
      done: [...new Set([...stored.done ?? [], ...progress.done])].sort() };
    const text = JSON.stringify(all);
    localStorage.setItem(STORE, text);
    if (parentElement.place === undefined && all.done.length > progress.done.length
      || Object.keys(all.steps).length > Object.keys(progress.steps).length)
      setStateValue("remembered", all);
  } catch { /* a browser that keeps nothing */ }
  if (parentElement.place !== undefined && parentElement.place !== place) {
    const end = performance.now() + 1500;
    const look = () => {
      const found = document.querySelector(focus);
      if (found && (!found.closest('[data-stale="true"]') || performance.now() > end)) {
        found.tabIndex = -1;
        found.style.outline = "none";
        found.focus({ preventScroll: true });
        found.scrollIntoView({ block: "nearest" });
      } else if (performance.now() < end) requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  }
  parentElement.place = place;
  const finding = document.querySelector(".st-key-finding");
  if (finding) finding.setAttribute("aria-live", "polite");
  const press = event => {
    const way = TURNS[event.key] || (projector && CLICKS[event.key]);
    if (!way || event.defaultPrevented || event.repeat) return;
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (event.composedPath().some(one => one.matches && one.matches(OWN))) return;
    const button = document.querySelector(`.st-key-${way} button:not(:disabled)`);
    if (!button) return;
    event.preventDefault();
    button.click();
  };
  document.removeEventListener("keydown", parentElement.press);
  parentElement.press = press;
  document.addEventListener("keydown", press);
  return () => document.removeEventListener("keydown", press);
}
"""
_keys = st.components.v2.component("turning steps", html="<span hidden></span>", js=_JS)
_STYLE = """<style>
.st-key-finding [data-testid="stMarkdownContainer"] p { font-size: 1.2rem; line-height: 1.4; }
.st-key-question [data-testid="stMarkdownContainer"] p { font-size: 1.2rem; line-height: 1.4; }
.st-key-home [data-testid="stMarkdownContainer"] p { font-size: 1.8rem; line-height: 1.35; }
:has(> .st-key-turns) { position: sticky; bottom: 0; z-index: 10; padding: 0.5rem 0;
  background: var(--paper); }
[data-testid="stMain"] { scroll-padding-bottom: 5rem; }
.st-key-drawing, .st-key-theirs { max-width: 46rem; }
.st-key-told [data-testid="stMarkdownContainer"] p { font-size: 0.875rem; line-height: 1.35; }
.st-key-head { row-gap: .4rem; flex-wrap: wrap; margin-bottom: .6rem; }
.st-key-head h1 { font-size: 1.9rem; padding: 0; }
.st-key-head [data-testid=stMarkdown] p { font-size: 1.06rem; color: var(--note); }
.st-key-lessons { position: relative; min-height: 30.4rem; }
.path { display: grid; grid-template-columns: repeat(4, 1fr); gap: 40px 26px; list-style: none;
  margin: 12px 0 0; padding: 0; font-variant-numeric: tabular-nums; }
.path li { position: relative; display: flex; margin: 0; padding: 0; font-size: 1rem; }
.path a { flex: 1; min-width: 0; box-sizing: border-box; border: 1px solid var(--line);
  border-radius: 12px; background: var(--card); color: var(--text) !important;
  text-decoration: none !important; padding: 12px 16px 14px; }
.path a:hover { border-color: var(--act); }
.path .pic { height: 148px; display: flex; align-items: center; margin: 0 -4px 8px; }
.path .illustration { height: 100%; }
.path h2 { font-size: 1.06rem; line-height: 1.2; margin: 0; padding: 0; display: flex; gap: 8px;
  align-items: baseline; letter-spacing: 0; font-weight: 600; }
.path small { font-size: .94rem; font-weight: 400; color: var(--note); margin-left: auto;
  white-space: nowrap; }
.path p { font-size: .97rem; line-height: 1.35; margin: 4px 0 0; }
.path li::before { content: ""; position: absolute; top: 80px; left: -27px; width: 27px;
  border-top: 3px dotted var(--baseline); }
.path li:is(:first-child, :nth-child(5))::before { display: none; }
.path li:nth-child(4)::after { content: ""; position: absolute; top: 100%; right: 50%; height: 20px;
  width: calc(300% + 78px); border: 0 dotted var(--baseline); border-width: 0 3px 3px 0;
  border-bottom-right-radius: 14px; }
.path li:nth-child(5)::before { display: block; top: -20px; left: 50%; width: 0; height: 19px;
  border-top: 0; border-left: 3px dotted var(--baseline); }
.path li:is(.done, .now)::before { border: 0 solid var(--text); border-top-width: 3px; }
.path li:nth-child(5):is(.done, .now)::before { border-width: 0 0 0 3px; }
.path .node { position: absolute; z-index: 2; top: -11px; left: 14px; width: 30px; height: 30px;
  box-sizing: border-box; border-radius: 50%; display: grid; place-items: center; font-weight: 700;
  font-size: .94rem; background: var(--paper); border: 2px solid var(--baseline);
  color: var(--note); }
.path .done .node { background: var(--text); border-color: var(--text); color: var(--paper); }
.path .now .node { background: var(--act); border-color: var(--act); color: var(--on-act); }
.path .now a { border: 2px solid var(--act); padding: 11px 15px 13px; }
.path .now .node::after { content: ""; position: absolute; inset: -7px; border-radius: 50%;
  border: 2px solid var(--act); animation: pulse 2.4s ease-out 3 both; }
@keyframes pulse { from { opacity: .8; transform: scale(.8); }
  to { opacity: 0; transform: scale(1.35); } }
.st-key-after.st-key-after { border: 1px dashed var(--baseline); border-radius: 12px; padding: 16px;
  box-sizing: border-box; justify-content: center; gap: .5rem; }
@media (min-width: 1081px) {
  .st-key-after.st-key-after { position: absolute; right: 0; bottom: 16px; height: calc(50% - 34px);
    width: calc((100% - 78px) / 4); }
}
@media (max-width: 1080px) and (min-width: 721px) {
  .path { grid-template-columns: repeat(2, 1fr); }
  .path li::before, .path li::after { display: none !important; }
}
@media (max-width: 720px) {
  .st-key-head h1 { font-size: 1.6rem; }
  .st-key-lessons { min-height: 72rem; }
  .path { grid-template-columns: minmax(0, 1fr); gap: 14px; margin: 0; }
  .path li { padding-left: 44px; }
  .path li::before, .path li:is(:first-child, :nth-child(5), .done, .now)::before { display: block;
    top: 34px; bottom: -16px; left: 15px; width: 0; height: auto; border: 0;
    border-left: 3px dotted var(--baseline); }
  .path li.done::before { border-left: 3px solid var(--text); }
  .path li:last-child::before, .path li:nth-child(4)::after { display: none; }
  .path .node { left: 0; top: 6px; width: 34px; height: 34px; }
  .path a { display: grid; grid-template-columns: 140px 1fr; gap: 6px 14px; padding: 12px 14px; }
  .path .now a { padding: 11px 13px; }
  .path .pic { height: 78px; margin: 0; }
  .path h2 { flex-direction: column; gap: 2px; align-self: center; }
  .path small { margin: 0; }
  .path p { grid-column: 1 / 3; margin: 0; }
}
@media (prefers-reduced-motion: reduce) { .path .node::after { animation: none !important;
  display: none; } }
@media (max-width: 640px) { /* what is moved and what comes of it, together */
  :has(> [class*="st-key-ends"]) { display: none; }
  .stMainBlockContainer [data-testid="stVerticalBlock"] { gap: 0.7rem; }
}
</style>"""
_LARGE = """<style>
:root { font-size: 20px; }
.stMainBlockContainer.stMainBlockContainer.stMainBlockContainer { max-width: 60rem;
  padding: 0.5rem 1.5rem 5rem; }
[data-testid="stHeader"], [data-testid="stPageLink"], .st-key-share { display: none; }
[data-testid="stMain"] [data-testid="stVerticalBlock"] { gap: 0.3rem; }
.st-key-drawing { max-width: 41rem; }
.st-key-asks:has(.st-key-question) :is(p, button p) { font-size: 1.35rem; line-height: 1.4; }
@media (min-width: 1000px) {
  :has(> .st-key-turns) { position: fixed; right: 2rem; bottom: 0.5rem; width: auto; }
}
</style>"""


@st.fragment
def page() -> None:
    lesson, position = read_requested_step()
    guesses = session.guesses
    if lesson is None:
        show_lesson_list()
        show_glossary()
        announcement = {"place": "", "focus": "h1"}
        projector = False
        st.html(_STYLE)  # in place of the projector's, which would stay
    else:
        with st.container(**SPREAD_LAYOUT):
            show_lesson_progress(lesson, position)
            projector = choose_projector_mode()
        st.html(_STYLE + _LARGE * projector)
        slides = lesson.slides
        if position == len(slides):
            show_end(lesson)
            announcement = {"place": f"{lesson.id} {END}", "focus": ".st-key-slide h2"}
        else:
            slide = slides[position]
            revealed = slide.predict is None or (lesson.id, slide.key) in guesses
            show_step(lesson, slide, guesses, revealed, projector)
            new = revealed and slide.predict is not None
            just_guessed, session.guessed = session.guessed, False  # and not back
            announcement = {
                "place": f"{lesson.id} {slide.key} {revealed}",
                "focus": ".st-key-verdict p" if new and just_guessed else ".st-key-slide h2",
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
    steps, done = (remembered.get(name) or () for name in ("steps", "done"))
    session.lessons_done.update(id for id in done if id in LESSONS)
    for id, step in dict(steps).items():
        if id in LESSONS and step in list_step_keys(LESSONS[id]):
            session.lessons.setdefault(id, step)


# --- the address ------------------------------------------------------------------------------


def read_requested_step() -> tuple[Lesson | None, int]:
    """Return the lesson and the position of the step that the address asks for.

    The address names a step by its key or counts it. Without a lesson, all lessons are shown.
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
    if name.isascii() and name.isdecimal() and 1 <= int(name[:9]) <= len(keys):
        name = keys[int(name[:9]) - 1]
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
            blocks.show_heading(
                "Learn what epsilon means",
                "You predict, you see the answer, you take one sentence home.",
            )
        with st.container(horizontal=True, width="content"):
            show_print_menu()
            verb = "Continue" if finished or session.lessons else "Start"
            st.button(
                f"{verb} with lesson {LESSONS[next_id].number}",
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
            st.markdown(f"**All seven: {minutes} minutes**")
            st.page_link("pages/room.py", label="Teach a class", icon=":material/groups:")
            if classroom.is_teacher():
                st.download_button(
                    FILES["lessons.html"].title,
                    FILES["lessons.html"].render,
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
    label = f"Lesson {lesson.number}: {title}, {lesson.minutes} minutes{', done' * is_done}"
    return (
        f'<li class="{state_class}"><span class="node" aria-hidden="true">'
        f'{"✓" if is_done else lesson.number}</span><a href="?lesson={lesson.id}"'
        f' data-open="{lesson.id}" aria-label="{label}"><span class="pic">'
        f"{pictures.render_illustration(lesson.id)}</span><h2>{html.escape(title)}"
        f"<small>{lesson.minutes} min</small></h2><p>"
        f"{html.escape(lesson.take_home if is_done else capitalise(subtitle) + '.')}</p></a></li>"
    )


def open_lesson(id: str) -> None:
    """Go to the step of a lesson where one left off; a finished lesson begins anew."""
    keys = list_step_keys(LESSONS[id])
    position = keys.index(session.lessons.get(id, keys[0]))
    go_to_step(LESSONS[id], position % (len(keys) - 1))


def show_print_menu() -> None:
    """Offer sheets to print, which are made when the menu opens; in a class only to the teacher."""
    if not classroom.is_teacher():
        return
    menu = st.popover("Print worksheets", icon=":material/print:", key="print", on_change="rerun")
    if menu.open:
        with menu:
            for name, sheet in SHEETS.items():
                blocks.show_print_button(sheet.title, sheet.render(), name)


def show_glossary() -> None:
    """Show the glossary: the terms that match a query, or all of them in an expander."""
    st.header("Words")
    query = st.text_input(
        "Find a word",
        key="word",
        bind="query-params",
        placeholder="epsilon, clip or audit",
    )
    if query:
        terms = glossary.search_terms(query)
        if not terms:
            st.markdown(f"The list has no word like “{escape(query)}”.")
        show_terms(terms)
        return
    blocks.show_expander(
        f"All {len(glossary.TERMS)} words",
        lambda: show_terms(glossary.search_terms()),
        key="all words",
        type="compact",
    )


def show_terms(terms: Sequence[Term]) -> None:
    """Show terms with their explanations and the pages that use them."""
    for term in terms:
        also = f"Also: {', '.join(term.also)}." if term.also else ""
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
        "All lessons",
        icon=":material/arrow_back:",
        type="tertiary",
        on_click=go_to_lesson_list,
        key="all",
    )
    last = len(lesson.slides)
    progress = f"{'●' * (position + 1)}{'○' * (last - position)} step {position + 1} of {last + 1}"
    st.caption(f"{escape(lesson.title)} · {progress}", width="content")


def choose_projector_mode() -> bool:
    """Show the switch for a projector."""
    return widgets.choose_toggle(
        "Projector",
        "projector mode",
        "projector",
        help="Large letters, without the notes for the teacher. Arrow keys and a presenter's"
        " clicker change the step.",
        width="content",
    )


def show_step(
    lesson: Lesson,
    slide: Slide,
    guesses: Mapping[tuple[str, str], int | None],
    revealed: bool,
    projector: bool,
) -> None:
    """Show one step: the question on the left, and the answer once it is revealed.

    Args:
        lesson: the lesson.
        slide: the step.
        guesses: predictions by lesson and step.
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
                    show_prediction_result(slide.predict, guesses[lesson.id, slide.key], moved)
        if not projector and classroom.is_teacher():
            with st.expander("For the teacher", icon=":material/school:", type="compact"):
                st.markdown(escape(slide.teacher))
    with answer_place:
        if not revealed:
            picture = slide.reveal(slide.start_values).picture
            if picture is not None:
                charts_room.draw_picture(picture, charts_room.VEILED)
            st.caption("The picture fills in after your prediction.")
        else:
            charts_room.show_reveal(slide.reveal(values), projector)
            if slide.in_class is not None and classroom.get_room() is not None:
                poll_class_result(slide)
            if slide.after is not None and not projector:
                st.page_link(
                    f"pages/{slide.after.page}.py",
                    label=slide.after.words,
                    icon=":material/arrow_forward:",
                    query_params=dict(slide.after.query),
                )
    position = lesson.slides.index(slide)
    if revealed:
        show_turn_buttons(lesson, position, "Next", go_to_step, lesson, position + 1)
    else:
        icon = ":material/visibility:"
        show_turn_buttons(
            lesson,
            position,
            "Show the answer",
            record_guess,
            lesson,
            slide,
            None,
            icon=icon,
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
    right_option = None if prediction.right is None else prediction.options[prediction.right]
    guessed_option = None if guessed is None else prediction.options[guessed]
    sentences = ["Before you moved a control:"] * moved + [f"**{escape(prediction.question)}**"]
    if right_option is not None:
        sentences.append(f"{escape(right_option)}.")
    if guessed_option is not None:
        verb = "You chose" if right_option is None else "You predicted"
        sentences.append(
            "As you predicted."
            if guessed_option == right_option
            else f"{verb}: {escape(guessed_option)}."
        )
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


@st.fragment(run_every=TICK)
def poll_class_result(slide: Slide) -> None:
    """Show what the step reveals by the reports of the open room, and update it."""
    with st.container(border=True):
        st.subheader("In your class")
        blocks.render_safely("The result of your class", show_class_result, slide)


def show_class_result(slide: Slide) -> None:
    """Show what the reports of the open room reveal."""
    room = classroom.get_room()
    if room is None or slide.in_class is None:
        return
    view = room.view()
    reveal = slide.in_class(view.visible)
    if reveal is None:
        people = 0 if view.now is None else view.poll(view.now.question).people
        answered = f"{format_count(people, 'phone')} answered"
        st.markdown(f"No result yet: {answered}. Ask and lock questions on the page Class.")
        return
    for sentence in reveal.sentences:
        st.markdown(escape(sentence))
    if reveal.picture is not None:
        charts_room.draw_picture(reveal.picture, "theirs")
    if reveal.note:
        st.caption(escape(reveal.note))


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
            "Back",
            key="back",
            icon=":material/arrow_back:",
            disabled=position == 0,
            on_click=go_to_step,
            args=(lesson, position - 1),
            help="Arrow left",
        )
        st.button(label, key="next", on_click=act, args=args, help="Arrow right", **style)


def show_end(lesson: Lesson) -> None:
    """Show the sentence to take home, and the next lesson."""
    with st.container(key="slide"):
        st.header("To take home")
    with st.container(key="home"):
        st.markdown(escape(lesson.take_home))
    with blocks.lay_out_row():
        st.markdown(f":material/check: You have finished lesson {lesson.number}.", width="content")
        blocks.show_print_button("Print this lesson", render_lesson(lesson), "print lesson")
    last, lessons = len(lesson.slides), list(LESSONS.values())
    if lesson is lessons[-1]:
        show_turn_buttons(lesson, last, "All lessons", go_to_lesson_list)
    else:
        next_lesson = lessons[lesson.number]
        show_turn_buttons(
            lesson, last, f"Next lesson: {escape(next_lesson.title)}", go_to_step, next_lesson, 0
        )


shell.enter_through_app()
page()
