"""One run, live: train a mechanism, then look at what it learned."""

import secrets
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dpmc_core import registry
from dpmc_core.data import Dataset, parse_step
from dpmc_core.data.synthetic import SAMPLES
from dpmc_core.errors import DpmcError
from dpmc_core.model import Mechanism, Task
from dpmc_core.problem import (
    DEFAULT_SEED,
    build_problem,
    choose_default_split,
    format_split,
    prepare_public_facts,
)
from dpmc_lab import glossary
from dpmc_lab.curves import as_published, cards, lines, run_card, training
from dpmc_lab.curves.run_card import FinishedRun, RememberedRun
from dpmc_lab.curves.training import RunRecording, TopItem
from pages.ui import (
    blocks,
    classroom,
    film,
    learned,
    prepare,
    rows,
    runs,
    shell,
    sources,
    stage,
    state,
    widgets,
)
from pages.ui.charts import train as charts_train
from pages.ui.jobs import Job, Snapshot, get_snapshot
from pages.ui.text import escape, format_count

JOB = "train"


def page() -> None:
    parts = stage.lay_out_stage("Train one mechanism")
    with parts.choices:
        data = sources.choose_data(label_visibility="collapsed")
        id = widgets.choose_mechanism(data)
        steering = st.container(horizontal=True, gap="xsmall", width="content", key="steering")
        settings = st.popover("Settings", icon=":material/tune:")
    place = parts.panel.empty()
    with parts.figure:
        film_place = stage.reserve_figure()
    try:
        dataset = sources.get_dataset(data)
    except (DpmcError, OSError) as error:
        with parts.figure:
            blocks.show_error(error)
        return
    cls = registry.get_mechanism(id)
    with settings:
        wide, published = widgets.choose_wide_range(), widgets.choose_as_published()
        chosen = widgets.choose_settings(cls)
        timed = dataset.ratings.times is not None
        steps, split = prepare.show_preparation_controls(
            dataset.ratings.public, cls.task, timed=timed
        )
        steps += [parse_step(step) for step in widgets.choose_item_features(data, [id])]
        seed = randomness()
        if state.get_run_history().runs:
            st.button(
                "Clear the runs",
                icon=":material/delete:",
                on_click=state.get_run_history().forget_unpinned,
                help="Forget all runs that are not pinned.",
            )
    with parts.figure:
        epsilon = widgets.show_epsilon_slider(wide)
    with parts.panel:
        if published and chosen is not None:
            chosen = paper_s(id, chosen, dataset, epsilon)
        mechanism = widgets.build_mechanism(id, epsilon, chosen)
        possible = may_train(data) and mechanism is not None
    job = state.get_jobs().get(JOB)
    now = get_snapshot(job)
    run: FinishedRun | None = now.result
    if run is not None and job is not None:
        state.get_run_history().add_run(run_card.remember_run(run, job.data_id))
    with steering:
        pressed, held = buttons(job, now, possible=possible)
    if pressed and possible:
        fresh = seed is None
        number = secrets.randbits(128) if fresh else seed
        usual = not steps and split == choose_default_split(cls.task)
        work = runs.make_training_work(
            mechanism,
            lambda: build_problem(dataset, cls.task, steps=steps, split=split, seed=number),
            number,
            reference=expected(data, id, seed) if usual else (),
            number=state.get_run_history().number(),
            data=dataset.loaded_name,
            reading=dataset.reading,
            title=dataset.title,
            split=split,
            fresh=fresh,
        )
        job = state.get_jobs().start(JOB, work, data, classroom.get_worker_slots(), held)
        if held:
            job.wait_for_halt()
        st.rerun()
    with film_place:
        if job is None:
            example(data, mechanism, place)
        else:
            blocks.poll_job(job, now, lambda now: live(now, place))
    if run is not None:
        with parts.panel:
            found(run, trained=now.active or now.state != "stopped" or run.result.stopped)
    with parts.details:
        strip()
        if run is not None:
            result(run)
        if run is not None or not now.active:
            objective(now)


def may_train(data: str) -> bool:
    """Whether this session may train on these data; a sentence says why not."""
    if data not in SAMPLES:
        return not blocks.is_reserved_for_teacher("train on this", "The samples are for everybody.")
    why = "Runs of visitors are switched off at the moment."
    return classroom.can_visitors_train() or not blocks.is_reserved_for_teacher("train", why)


def paper_s(
    id: str, chosen: dict[str, Any], dataset: Dataset, epsilon: float
) -> dict[str, Any] | None:
    """The settings of the mechanism's paper, but for those that are chosen; what that changes."""
    try:
        public = prepare_public_facts(dataset.ratings.public, registry.get_mechanism(id).task)
        switched = as_published.compare_with_published(id, chosen, public, epsilon=epsilon)
    except DpmcError as error:
        blocks.show_error(error)
        return None
    st.caption(escape(" ".join(as_published.describe_published_changes(switched))))
    return as_published.merge_published_settings(id, chosen)


def buttons(job: Job | None, now: Snapshot, *, possible: bool) -> tuple[bool, bool]:
    """What runs the training; whether one is to begin, and to wait after its first round."""
    # A new run may begin beside what the last one is compared with, which then ends.
    ready = possible and (not now.active or now.result is not None)
    going = now.active and not now.stopping and now.result is None
    whole = st.button("Train", type="primary", icon=":material/play_arrow:", disabled=not ready)
    step = st.button(
        "Step",
        icon=":material/skip_next:",
        disabled=not (ready or going),
        on_click=job.step if going else None,
        help="One round at a time.",
    )
    if going:
        label, icon, turn = (
            ("Go on", "resume", job.resume) if now.is_held else ("Pause", "pause", job.pause)
        )
        st.button(label, icon=f":material/{icon}:", on_click=turn)
    blocks.show_stop_button(job, now)
    st.button(
        "Reset",
        icon=":material/restart_alt:",
        on_click=state.get_jobs().drop,
        args=(JOB,),
        disabled=job is None,
        help="Back to the start. The runs that are remembered stay.",
    )
    held = step and not going
    return whole or held, held


def expected(data: str, id: str, seed: int | None) -> tuple[float, str] | tuple[()]:
    """What is reached without privacy and what that is, where curves came with the app: to fix the
    axis. On the split of the seed where one of them has it, else over all of theirs."""
    found = rows.load_shipped(data, id, (seed or 0,)) or rows.load_shipped(data, id)
    without = found and found[0].nonprivate_reference
    if not without:
        return ()
    mean, _, seeds = without.interval
    return mean, lines.NO_PRIVACY + ", curve's mean" * (seeds > 1)


def live(now: Snapshot, place: DeltaGenerator) -> None:
    """The run as it goes, its progress in the panel; afterwards its rounds can be replayed."""
    with place.container():
        blocks.show_job_progress(now)
        if now.message and now.display is not None and now.display.frames:
            st.caption("Its last round stands in the picture: evaluation only, not private.")
    if now.display is not None:
        film.show_film(now.display, live=now.active and now.result is None)


def example(data: str, mechanism: Mechanism | None, place: DeltaGenerator) -> None:
    """Before the first run: what one looks like, on a part of a sample."""
    if mechanism is None:
        return
    clicks = mechanism.task is Task.RANKING
    sample = data if data in SAMPLES else ("bookshop-clicks" if clicks else "movie-night")
    try:
        film_of = _example(sample, repr(mechanism), mechanism)
    except DpmcError:  # settings for other data
        return
    with place.container():
        st.header("Press Train for a run of your own", anchor=False)
        st.markdown("Or Step, for one round at a time.")
        st.caption(
            f"An example: {mechanism.name} on {SAMPLES[sample].title}, the busiest people and"
            " titles only."
        )
    film.show_film(film_of)


@st.cache_resource(max_entries=100, show_spinner=False)
def _example(sample: str, settings: str, _mechanism: Mechanism) -> RunRecording:  # noqa: ARG001
    return runs.make_example_film(_mechanism, sources.get_dataset(sample).ratings, sample)


def randomness() -> int | None:
    """The seed, or None for fresh randomness from the operating system."""
    fresh = widgets.choose_toggle(
        "Fresh randomness",
        "fresh randomness",
        "fresh",
        help="Take the seed from the operating system and forget it.",
    )
    seed = widgets.choose_number(
        "Seed",
        "the seed",
        0,
        2**31,
        DEFAULT_SEED,
        "seed",
        disabled=fresh,
        help=run_card.SEED_NOTE,
    )
    return None if fresh else int(seed)


def objective(now: Snapshot) -> None:
    """The objective round by round, where a method has one; the metric is in the film."""
    known = [(p.round, p.objective) for p in now.points if p.objective is not None]
    if not known:
        return
    rounds, values = zip(*known, strict=True)
    id = now.display.mechanism
    with st.expander("How it trained, round by round", icon=":material/show_chart:"):
        blocks.show_chart(
            charts_train.plot_objective(id, known),
            alt=f"{registry.get_mechanism(id).name}: objective over"
            f" {format_count(rounds[-1], 'round')}.",
            caption=blocks.EVALUATION
            + " An objective computed from raw ratings is not private either: for watching only."
            * any(p.raw for p in now.points),
            table={"round": rounds, "objective": values},
            key="rounds",
        )


def strip() -> None:
    """The runs that are remembered; two that are ticked are compared."""
    shelf = state.get_run_history()
    if not shelf.runs:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.header("Your runs", anchor=False, width="content")
        words = "Two that are ticked are compared." if shelf.pair else "Train again to compare."
        st.caption(f"{words} The last {shelf.LIMIT} stay, and what is pinned.")
    with st.container(horizontal=True, gap="small"):
        for run in shelf.runs:
            card(run)
    if shelf.pair is not None:
        compare(*shelf.pair)


def card(run: RememberedRun) -> None:
    """A remembered run: what it was, what it reached."""
    shelf, number = state.get_run_history(), run.number
    with st.container(border=True, width=200, gap="small", key=f"card {number}"):
        more = " · stopped" if run.stopped else ""
        st.markdown(f"**Run {number}** · {escape(run.details['mechanism'])}")
        epsilon = run.details.get("epsilon")
        at = "" if epsilon is None else f" · epsilon {epsilon}"
        st.caption(f"{escape(run.title)}{at}{more}")
        st.markdown(f"{run.metric.title} **{run.metric.format_with_unit(run.value)}**")
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            key = f"tick {number}"
            st.session_state[key] = number in shelf.ticked
            st.checkbox("Compare", key=key, on_change=shelf.tick, args=(number,))
            pinned = number in shelf.pinned
            st.button(
                "Unpin" if pinned else "Pin",
                key=f"pin {number}",
                type="tertiary",
                icon=":material/keep_off:" if pinned else ":material/keep:",
                on_click=shelf.pin,
                args=(number,),
                disabled=shelf.full and not pinned,
            )


def compare(one: RememberedRun, other: RememberedRun) -> None:
    """Two remembered runs: curves overlaid, lists side by side, settings where they differ."""
    st.header(run_card.compare_runs(one, other), anchor=False)
    left, right = st.columns([3, 2], gap="large")
    with left:
        if one.metric == other.metric:
            chart = state.memoize(
                "two runs",
                (one.number, other.number, one.recording, other.recording),
                lambda: charts_train.plot_two_runs(one, other),
            )
            words = [
                f"Run {r.number}. {training.describe_recording(r.recording)}" for r in (one, other)
            ]
            blocks.show_chart(
                chart,
                alt=" ".join(words),
                caption="One draw of the noise each: another seed may turn a small difference"
                " around.",
                table=run_card.tabulate_rounds(one, other),
                key="two runs",
            )
        else:
            st.markdown("They predict different things, so their numbers share no axis.")
    with right:
        differing = run_card.tabulate_differences(one, other)
        if differing["what differs"]:
            blocks.show_table(differing, alt="Settings of the two runs that differ")
        else:
            st.markdown("Their settings are the same.")
    person, theirs = (run.recording.corner.person for run in (one, other))
    if one.data_key != other.data_key or person != theirs:
        return
    runs = {f"Run {run.number}": run.top for run in (one, other)}
    shown(
        f"What {one.recording.corner.person_label} would be shown",
        runs,
        {"Without privacy": other.nonprivate_list},
    )


def shown(
    whose: str, two: Mapping[str, Sequence[TopItem]], more: Mapping[str, Sequence[TopItem] | None]
) -> None:
    """Lists side by side: what two of them share is bold in all."""
    one, other = ({item.item for item in top} for top in two.values())
    lists = {name: top for name, top in {**two, **more}.items() if top is not None}
    same = f": {len(one & other)} in both (bold)" * bool(one and other)
    st.markdown(f"**{escape(whose)}{same}**")
    for column, (name, top) in zip(st.columns(len(lists)), lists.items(), strict=True):
        with column:
            st.markdown(f"**{name}**")
            text = [(escape(item.title), item.item in one & other) for item in top]
            marked = [f"1. **{words}**" if strong else f"1. {words}" for words, strong in text]
            st.markdown("\n".join(marked) or "Not there yet, or stopped before.")


def found(run: FinishedRun, *, trained: bool) -> None:
    """The number of a run beside what it is compared with, one sentence, what to do next.

    trained: whether all that it is compared with is there, or may still come.
    """
    result = run.result
    answer(run)
    st.header(run_card.describe_run(result), anchor=False)
    epsilon = cards.format_epsilon(result.guarantee.claimed.epsilon)
    st.caption(
        f"{result.mechanism.name} on {escape(run.title)}, epsilon {epsilon}"
        f" {result.guarantee.change.label}"
    )
    if result.stopped:
        st.warning(
            f"Stopped after {format_count(result.rounds, 'round')}: the numbers are those of the"
            " model"
            " so far."
        )
    elif not trained:
        st.warning("Stopped before everything was trained that it is compared with.")
    if (pair := state.get_run_history().pair) is not None:
        st.markdown(escape(run_card.compare_runs(*pair)) + ".")
    else:
        st.markdown("Move epsilon and train again: the two runs will stand side by side.")
    st.page_link(
        "pages/compare.py", label="Compare it with others", icon=":material/stacked_line_chart:"
    )
    downloads(run)


def answer(run: FinishedRun) -> None:
    """The metrics, with and without privacy, and of guessing."""
    found, metric = run.result, run_card.find_run_metric(run.result)
    methods = run_card.collect_metrics(found)
    (own, value), *others = (
        (name, metric.format_with_unit(values[metric.name])) for name, values in methods.items()
    )
    facts = registry.has_features_step(found.problem.steps)
    curve = run_card.describe_on_curve(
        run, rows.load_shipped(run.data, found.mechanism.id, with_item_features=facts)
    )
    st.metric(own, value)
    with st.container(horizontal=True, key="beside"):
        for name, value in others:
            st.metric(name, value, width="content")
    st.caption(
        f"{metric.panel_title} on {format_split(found.problem.split)}: one split and one draw of"
        " noise" + escape(f"; {curve}" * bool(curve)),
        help=f"{metric.explanation} {glossary.explain_terms('held_out', 'guessing')}",
    )


def result(run: FinishedRun) -> None:
    """People and titles, what is promised, and what it learned."""
    found = run.result
    left, right = st.columns([3, 2], gap="large")
    with left:
        recommendations(run)
    with right, st.container(border=True):
        blocks.show_guarantee(found.guarantee, found.mechanism.id)
    if len(found.metrics) > 1:
        table = run_card.tabulate_metrics(run_card.collect_metrics(found))
        blocks.show_table(table, alt="All metrics of the run and its baselines")
    rounds = "round" if found.rounds == 1 else "rounds"
    steps = escape(", ".join(found.problem.steps)) or "nothing"
    st.caption(
        f"{blocks.EVALUATION} {found.rounds} {rounds} in {found.seconds:.1f} s; prepared with"
        f" {steps}; " + ("seed not kept." if run.fresh else f"seed {found.seed}.")
    )
    blocks.show_exhibits(learned.build_exhibits(run))


@st.fragment
def recommendations(run: FinishedRun) -> None:
    """The top 10 of one person, without and with privacy."""
    train = run.result.problem.train
    user = widgets.choose_number(
        "Person",
        "the person",
        1,
        train.public.users,
        run.recording.corner.person + 1 if run.recording else 1,
        "top_user",
        width=200,
        help="Counted from 1. At first the one with the median number of ratings.",
    )
    private, clear = (
        training.list_top_items(model, train, user - 1) if model else ()
        for model in (run.result.model, run.nonprivate_model)
    )
    shown("With and without privacy", {"Without privacy": clear, "With privacy": private}, {})
    st.caption("Left out: what the person rated in training. Without privacy: to compare only.")


def downloads(run: FinishedRun) -> None:
    """The run on paper, the model, and how to repeat it."""
    found, note = run.result, ""
    name = f"{found.mechanism.id}-{run.data}"
    files = [
        blocks.File(
            "Report (HTML)", f"{name}.html", "text/html", lambda: learned.render_run_report(run)
        ),
        blocks.File(
            "Run card (JSON)",
            f"{name}.json",
            "application/json",
            lambda: run_card.format_run_json(run),
        ),
    ]
    if found.model.factors is not None:
        make = lambda: run_card.pack_factors(found) or b""  # noqa: E731
        files.append(blocks.File("Factors (NPZ)", f"{name}.npz", "application/octet-stream", make))
        note = (
            "Do not publish the factors: their noise is for simulation."
            f"{'' if run.fresh else f' {run_card.SEED_NOTE}'} A copy that may be published, where"
            " that can be proved, is made by dpmc release."
        )
    blocks.show_downloads(*files, argv=shlex.split(run_card.format_fit_command(run)), note=note)


shell.enter_through_app()
page()
