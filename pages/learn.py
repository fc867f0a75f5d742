"""Lessons on epsilon: predict first, then move and see; one step at a time."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import streamlit as st

from dpmc_core.errors import DpmcError
from dpmc_lab import glossary
from dpmc_lab.classroom import pictures, room_view
from dpmc_lab.classroom.room import Room
from dpmc_lab.glossary import Term
from dpmc_lab.lessons import LESSONS, Control, Lesson, Predict, Reveal, Slide
from dpmc_lab.lessons.worksheets import FILES
from pages.ui import blocks, classroom, shell, state, widgets
from pages.ui.charts import VALUE_COLORS, apply_theme
from pages.ui.charts import room as charts_room
from pages.ui.text import escape, format_count

APART: dict[str, Any] = {  # at both ends of a line
    "horizontal": True,
    "vertical_alignment": "center",
    "horizontal_alignment": "distribute",
}
END = "end"  # the step after the last slide
TICK = 2.0  # seconds between two looks at the room
VEILED = "veiled"  # key of a picture before the answer
# Arrows turn the steps but where an arrow moves something; a presenter's clicker sends page keys.
# What is new gets the focus, and so is read aloud: a heading, or what became of a prediction. What
# is found is read out again whenever it changes.
_JS = """
const OWN = 'input:not([type="checkbox"]), textarea, select, [contenteditable],'
  + ' [role="slider"], [role="radio"], [role="tab"], [role="menu"], [role="menuitem"],'
  + ' [role="listbox"], [role="dialog"],'
  + ' [data-testid="stButtonGroup"], [data-testid="stDataFrame"]';
const TURNS = { ArrowRight: "next", ArrowLeft: "back" };
const CLICKS = { PageDown: "next", PageUp: "back" };
export default function ({ data, parentElement }) {
  const { place, focus, projector } = data;
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
_LOOK = """<style>
.st-key-finding [data-testid="stMarkdownContainer"] p { font-size: 1.2rem; line-height: 1.4; }
.st-key-question [data-testid="stMarkdownContainer"] p { font-size: 1.2rem; line-height: 1.4; }
.st-key-home [data-testid="stMarkdownContainer"] p { font-size: 1.8rem; line-height: 1.35; }
:has(> .st-key-turns) { position: sticky; bottom: 0; z-index: 10; padding: 0.5rem 0;
  background: PAPER; }
[data-testid="stMain"] { scroll-padding-bottom: 5rem; }
[data-testid="stPageLink"] p { white-space: normal; }
.st-key-drawing, .st-key-theirs { max-width: 46rem; }
.st-key-told [data-testid="stMarkdownContainer"] p { font-size: 0.875rem; line-height: 1.35; }
/* before the answer: the picture without anything that gives it away */
.st-key-veiled { filter: grayscale(1); }
.st-key-veiled .drawing { color: transparent; }
.st-key-veiled .drawing .world { color: var(--muted); }
.st-key-veiled .drawing :is(.bar span, .key, .plot .point, .rule, .dashed, .range, .scale .point,
  .scale ~ .note, .turned::after) { visibility: hidden; }
.st-key-veiled .drawing .fill { width: 50% !important; border: 0; background: var(--grid); }
.st-key-veiled .drawing .dots i { --mark: var(--grid); background: none; }
.st-key-veiled .drawing .cells i { background: var(--grid); outline: 0; }
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
    lesson, at = asked()
    guesses: dict[tuple[str, str], int | None] = st.session_state.setdefault("guesses", {})
    if lesson is None:
        overview()
        to_print()
        words()
        told = {"place": "", "focus": "h1"}
        projector = False
    else:
        projector = top(lesson, at)
        look = _LOOK.replace("PAPER", state.get_theme().paper)
        st.html(look + _LARGE if projector else look)
        slides = lesson.slides
        if at == len(slides):
            end(lesson)
            told = {"place": f"{lesson.id} {END}", "focus": ".st-key-slide h2"}
        else:
            slide = slides[at]
            open_now = slide.predict is None or (lesson.id, slide.key) in guesses
            step(lesson, slide, guesses, open_now, projector)
            new = open_now and slide.predict is not None
            came = st.session_state.pop("guessed", False)  # and not back
            told = {
                "place": f"{lesson.id} {slide.key} {open_now}",
                "focus": ".st-key-verdict p" if new and came else ".st-key-slide h2",
            }
    _keys(key="keys", data=told | {"projector": projector})


# --- where one is ------------------------------------------------------------------------------


def asked() -> tuple[Lesson | None, int]:
    """What the address asks for: a lesson, and the number of a step, by its key or counted."""
    id = st.query_params.get("lesson")
    if id is None:
        return None, 0
    if id not in LESSONS:
        state.add_note(
            f"The link asks for the lesson “{id[:40]}”, which does not exist. Here are all lessons."
        )
        leave()
        return None, 0
    lesson = LESSONS[id]
    keys = steps(lesson)
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
    at = keys.index(name)
    been = st.session_state.setdefault("lessons", {})
    been[id] = name
    if name == END:
        st.session_state.setdefault("lessons done", set()).add(id)
    return lesson, at


def steps(lesson: Lesson) -> list[str]:
    """The keys of its steps; the last one is the end."""
    return [*(slide.key for slide in lesson.slides), END]


def go(lesson: Lesson, at: int) -> None:
    """To a step."""
    st.query_params.update({"lesson": lesson.id, "step": steps(lesson)[at]})


def leave() -> None:
    """To all lessons."""
    for name in ("lesson", "step"):
        st.query_params.pop(name, None)


def guess(lesson: Lesson, slide: Slide, option: int | None) -> None:
    """Predict, or have it shown without."""
    st.session_state["guesses"][lesson.id, slide.key] = option
    st.session_state["guessed"] = True


# --- all lessons -------------------------------------------------------------------------------


def overview() -> None:
    blocks.show_heading(
        "Learn what epsilon means",
        "Start with lesson 1. In each lesson you predict, see the answer, and change something. It"
        " ends with one sentence to take home.",
    )
    been: Mapping[str, str] = st.session_state.get("lessons", {})
    done: set[str] = st.session_state.get("lessons done", set())
    fresh = next((id for id in LESSONS if id not in done), None)
    for number, lesson in enumerate(LESSONS.values(), 1):
        keys = steps(lesson)
        at = keys.index(been.get(lesson.id, keys[0]))
        begun = lesson.id in been and at < len(keys) - 1
        label = f"Continue lesson {number}" if begun else f"Start lesson {number}"
        if lesson.id in done and not begun:
            label, at = f"Repeat lesson {number}", 0
        with st.container(border=True, **APART):
            with st.container(width="stretch", gap=None):
                where = f" · step {at + 1} of {len(keys)}" if begun else ""
                badge = " :green-badge[:material/check: done]" * (lesson.id in done)
                named = f"**{number}. {escape(lesson.title)}**{badge}"
                st.markdown(f"{named} :small[:gray[{lesson.minutes} minutes{where}]]")
                st.markdown(escape(lesson.take_home))
            st.button(
                label,
                key=f"open {lesson.id}",
                type="primary" if lesson.id == fresh else "secondary",
                on_click=go,
                args=(lesson, at),
            )


def to_print() -> None:
    """What is made of the lessons as files; in class mode for the teacher alone."""
    if not classroom.is_teacher():
        return
    st.header("Print or download", anchor=False)
    with st.container(horizontal=True):
        for name, sheet in FILES.items():
            st.download_button(
                sheet.title,
                sheet.render,
                name,
                "text/html",
                key=f"print {name}",
                on_click="ignore",
                icon=":material/download:",
            )


def words() -> None:
    """The glossary: what is searched for, or unfolded."""
    st.header("Words", anchor=False)
    wanted = st.text_input(
        "Find a word",
        key="word",
        bind="query-params",
        placeholder="epsilon, clip or audit",
    )
    if wanted:
        found = glossary.search_terms(wanted)
        if not found:
            st.markdown(f"The list has no word like “{escape(wanted)}”.")
        explained(found)
        return
    label = f"All {len(glossary.TERMS)} words"
    blocks.show_expander(
        label, lambda: explained(glossary.search_terms()), key="all words", type="compact"
    )


def explained(found: Sequence[Term]) -> None:
    """Terms with their sentences, and where one meets them."""
    for term in found:
        also = f"Also: {', '.join(term.also)}." if term.also else ""
        with st.container(**APART):
            with st.container(width="stretch"):
                st.markdown(
                    f"**{escape(term.name)}**: {escape(term.words)}",
                    help=escape(f"{term.more} {also}".strip()) or None,
                )
            st.page_link(f"pages/{term.page}.py", width="content")


# --- one step ----------------------------------------------------------------------------------


def top(lesson: Lesson, at: int) -> bool:
    """Which lesson this is, the way back, and whether it is projected."""
    with st.container(**APART):
        st.button(
            "All lessons", icon=":material/arrow_back:", type="tertiary", on_click=leave, key="all"
        )
        last = len(lesson.slides)
        marks = f"{'●' * (at + 1)}{'○' * (last - at)} step {at + 1} of {last + 1}"
        st.caption(f"{escape(lesson.title)} · {marks}", width="content")
        return widgets.choose_toggle(
            "Projector",
            "projector mode",
            "projector",
            help="Large letters, without the notes for the teacher. Arrow keys and a presenter's"
            " clicker change the step.",
            width="content",
        )


def step(
    lesson: Lesson,
    slide: Slide,
    guesses: Mapping[tuple[str, str], int | None],
    revealed: bool,
    projector: bool,
) -> None:
    with st.container(key="slide"):
        st.header(escape(slide.title), anchor=False)
    if projector and revealed:
        asks, shows = st.container(key="asks"), st.container()
    else:
        asks, shows = st.columns([2, 3], gap="large")
    with asks:
        with st.container(key="told" if revealed and slide.predict else None):
            st.markdown(escape(slide.said))
        if slide.predict is not None:
            if revealed:
                verdict(slide.predict, guesses[lesson.id, slide.key])
            else:
                predict(lesson, slide, slide.predict)
            title = f"{lesson.title}: {slide.predict.question}"
            blocks.show_safely("The phones' guess", phones, title, slide.predict, revealed)
        moved = {}
        if revealed:  # beside each other where room is short
            with st.container(horizontal=projector, vertical_alignment="bottom"):
                moved = {one.key: control(slide, one, ends=not projector) for one in slide.move}
        if not projector and classroom.is_teacher():
            with st.expander("For the teacher", icon=":material/school:", type="compact"):
                st.markdown(escape(slide.teacher))
    with shows:
        if not revealed:
            picture = slide.reveal(slide.start).picture
            if picture is not None:
                draw(picture, VEILED)
            st.caption("The picture fills in after your prediction.")
        else:
            show(slide.reveal(moved), projector)
            if slide.in_class is not None and classroom.get_room() is not None:
                in_class(slide)
            if slide.after is not None and not projector:
                st.page_link(
                    f"pages/{slide.after.page}.py",
                    label=slide.after.words,
                    icon=":material/arrow_forward:",
                    query_params=dict(slide.after.query),
                )
    at = lesson.slides.index(slide)
    if revealed:
        turns(lesson, at, "Next", go, lesson, at + 1)
    else:
        look = {"icon": ":material/visibility:", "type": "secondary"}
        turns(lesson, at, "Show the answer", guess, lesson, slide, None, **look)


def predict(lesson: Lesson, slide: Slide, asked: Predict) -> None:
    with st.container(key="question"):
        st.markdown(f"**{escape(asked.question)}**")
    with st.container(horizontal=True):
        for k, option in enumerate(asked.options):
            st.button(
                escape(option),
                key=f"option {lesson.id} {slide.key} {k}",
                on_click=guess,
                args=(lesson, slide, k),
            )


def phones(title: str, asked: Predict, revealed: bool) -> None:
    """The class guesses too, where it is there: one tap a phone, and shown once all is revealed."""
    room = classroom.get_room()
    if room is None or not (classroom.is_class_mode() and classroom.is_teacher()):
        return
    view = room.view()
    ballot = next((one for one in reversed(view.guess_polls) if one.title == title), None)
    if ballot is None:
        offered = not (revealed or view.ended)
        if offered and st.button("Ask the phones", icon=":material/smartphone:"):
            try:
                room.ask_guess(title, asked.options, right=asked.right)
            except DpmcError as error:
                blocks.show_error(error)
            else:
                st.rerun()
    elif revealed:
        if not ballot.locked and not view.ended:  # what is said from here on is no guess
            room.lock(guess_poll=ballot.number)
            view = room.view()
            ballot = view.guess_polls[-1 - ballot.number]
        rows = room_view.build_guess_rows(view, ballot)
        said = f"{format_count(len(ballot.reports), 'phone')} guessed"
        st.html(
            charts_room.render_shares(
                rows, room_view.describe_rows(rows, said), state.get_theme(), equal_rows=True
            )
        )
    else:

        @st.fragment(run_every=TICK)
        def guessing() -> None:
            blocks.show_safely("The number of guesses", count_guesses, room, ballot.number)

        guessing()


def count_guesses(room: Room, number: int) -> None:
    reports = room.view().guess_polls[-1 - number].reports
    st.html(charts_room.render_counter([(str(len(reports)), "answered")], ""))


def verdict(asked: Predict, guessed: int | None) -> None:
    """What was predicted, beside what is so."""
    right = None if asked.right is None else asked.options[asked.right]
    mine = None if guessed is None else asked.options[guessed]
    said = [f"**{escape(asked.question)}**"]
    if right is not None:
        said.append(f"{escape(right)}.")
    if mine is not None:
        verb = "You chose" if right is None else "You predicted"
        said.append("As you predicted." if mine == right else f"{verb}: {escape(mine)}.")
    with st.container(key="verdict"):
        st.markdown(" ".join(said))


def control(slide: Slide, asked: Control, *, ends: bool) -> Any:
    """What one moves, kept in the address; a button counts instead, from this visitor's chance."""
    key = f"{slide.key}.{asked.key}"
    if asked.values:
        names = {value: asked.format_value(value) for value in asked.values}
        term = glossary.find_term(asked.label)
        state.apply_link_choice(key, asked.label, names)
        state.reset_unavailable_choice(key, names, asked.start)
        chosen = st.select_slider(
            asked.label,
            asked.values,
            value=asked.start,
            format_func=names.__getitem__,
            key=key,
            bind="query-params",
            help=term and term.words,
        )
        if ends and any(asked.ends):
            with st.container(
                key=f"ends {key}", horizontal=True, horizontal_alignment="distribute", gap=None
            ):
                for words in asked.ends:
                    st.caption(words, width="content")
        return chosen
    if asked.options:
        return widgets.choose_segment(asked.label, asked.label, asked.options, key, asked.start)
    thrown: int = st.session_state.setdefault(f"{key} count", 0)
    more = {f"{key} count": thrown + 1}
    st.button(
        asked.label,
        icon=":material/casino:",
        key=key,
        on_click=st.session_state.update,
        args=(more,),
    )
    own: int = st.session_state.setdefault("chance", secrets.randbelow(2**32))
    return own + thrown


def show(found: Reveal, projector: bool) -> None:
    """The finding with its picture, which a whole class must see without scrolling."""
    first, *rest = found.sentences
    with st.container(key="finding"):
        st.markdown(f"**{escape(first)}**")
    if projector and found.picture is not None:
        drawing, sentences = st.columns([5, 3], gap="medium")
    else:
        drawing, sentences = st.container(), st.container()
    with sentences:
        for sentence in rest:
            st.markdown(escape(sentence))
    with drawing:
        if found.picture is not None:
            draw(found.picture, "drawing")
    with sentences if projector else drawing:
        if found.note:
            st.caption(escape(found.note))
        if found.picture is not None and not projector:
            blocks.show_chart_numbers(found.picture.description, found.picture.table(), "picture")


def draw(picture: pictures.Picture, key: str) -> None:
    """Draw a picture in the colours of the surface."""
    theme = state.get_theme()
    other, one = apply_theme(VALUE_COLORS, theme)
    colors = (
        f"--ink: {theme.ink}; --muted: {theme.muted}; --grid: {theme.grid};"
        f" --paper: {theme.paper}; --one: {one}; --other: {other}"
    )
    drawing = pictures.render_picture(picture)
    if key == VEILED:  # no text alternative says what is hidden
        drawing = f'<div class="drawing" aria-hidden="true">{picture.to_html()}</div>'
    with st.container(key=key):
        st.html(f'<style>{pictures.STYLE_SHEET}</style><div style="{colors}">{drawing}</div>')


@st.fragment(run_every=TICK)
def in_class(slide: Slide) -> None:
    """The same by the reports of the room that is open."""
    with st.container(border=True):
        st.subheader("In your class", anchor=False)
        blocks.show_safely("The result of your class", show_in_class, slide)


def show_in_class(slide: Slide) -> None:
    room = classroom.get_room()
    found = None if room is None or slide.in_class is None else slide.in_class(room.view().visible)
    if found is None:
        st.markdown("There are no reports yet. Ask and lock questions on the page Class.")
        return
    for sentence in found.sentences:
        st.markdown(escape(sentence))
    if found.picture is not None:
        draw(found.picture, "theirs")
    if found.note:
        st.caption(escape(found.note))


def turns(
    lesson: Lesson, at: int, label: str, act: Callable[..., None], *args: object, **look: Any
) -> None:
    """Back, and on, which does `act` with `args`."""
    look = {"icon": ":material/arrow_forward:", "type": "primary"} | look
    with st.container(horizontal=True, key="turns"):
        st.button(
            "Back",
            key="back",
            icon=":material/arrow_back:",
            disabled=at == 0,
            on_click=go,
            args=(lesson, at - 1),
            help="Arrow left",
        )
        st.button(label, key="next", on_click=act, args=args, help="Arrow right", **look)


def end(lesson: Lesson) -> None:
    """The sentence to take home, and where to go from here."""
    with st.container(key="slide"):
        st.header("To take home", anchor=False)
    with st.container(key="home"):
        st.markdown(escape(lesson.take_home))
    last, lessons = len(lesson.slides), list(LESSONS.values())
    if lesson is lessons[-1]:
        turns(lesson, last, "All lessons", leave)
    else:
        after = lessons[lessons.index(lesson) + 1]
        turns(lesson, last, f"Next lesson: {escape(after.title)}", go, after, 0)


shell.enter_through_app()
page()
