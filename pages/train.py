"""One run, live: train a mechanism, then look at what it learned."""

import secrets
import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import streamlit as st

from dpmc_core import registry
from dpmc_core.errors import DpmcError
from dpmc_core.model import Mechanism, Task
from dpmc_core.preparation import Transform, parse_step
from dpmc_core.problem import Split, build_problem, choose_default_split, prepare_public_facts
from dpmc_data import LoadedDataset
from dpmc_data.synthetic import SAMPLES
from dpmc_lab import glossary
from dpmc_lab.sweep.grid import DEFAULT_SEED
from dpmc_lab.views import as_published, cards, lines, people, run_card
from dpmc_lab.views import train as train_views
from dpmc_lab.views.run_card import FinishedRun, RememberedRun
from dpmc_lab.views.text import format_split
from dpmc_lab.views.train import RunRecording, TopItem
from pages.ui import (
    blocks,
    classroom,
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
_RISING = ("dp-sgd", "dpimf-optimal")  # many small steps: one sees the curve rise


def page() -> None:
    choices, history = stage.lay_out_choices("Train one mechanism"), state.get_run_history()
    with choices:
        data = sources.choose_data(label_visibility="collapsed")
        widgets.suggest_mechanism(data, lambda ids: next(filter(_RISING.__contains__, ids), ids[0]))
        id = widgets.choose_mechanism(data)
        settings_place = st.popover("Settings", icon=":material/tune:")
    steering = blocks.lay_out_row(key="steering", border=True)
    notes = st.container()
    stage_place = stage.reserve_figure()
    below = st.container()
    try:
        dataset = sources.get_dataset(data)
    except (DpmcError, OSError) as error:
        with stage_place:
            blocks.show_error(error)
        return
    cls = registry.get_mechanism(id)
    with settings_place:
        wide, published = widgets.choose_wide_range(), widgets.choose_as_published()
        chosen = widgets.choose_settings(cls)
        timed = dataset.ratings.times is not None
        steps, split = prepare.choose_preparation(dataset.ratings.public, cls.task, timed=timed)
        steps += [parse_step(step) for step in widgets.choose_item_features(data, [id])]
        seed = choose_seed()
        if history.runs:
            st.button(
                "Clear the runs",
                icon=":material/delete:",
                on_click=history.forget_unpinned,
                help="Forget all runs that are not pinned.",
            )
    with steering:
        epsilon = widgets.choose_epsilon(wide)
    with notes:
        if published and chosen is not None:
            chosen = apply_paper_settings(id, chosen, dataset, epsilon)
        mechanism: Mechanism | None = None
        with blocks.show_errors_in(notes):
            if chosen is not None:
                mechanism = registry.create(id, epsilon=epsilon, **chosen)
        possible = may_train(data) and mechanism is not None
    job = state.get_jobs().get(JOB)
    now = get_snapshot(job)
    run: FinishedRun | None = now.result
    if run is not None and job is not None:
        history.add_run(run_card.remember_run(run, job.data_id))
    with steering:
        pressed, starts_paused = ask_for_training(job, now, possible=possible)
    if pressed and mechanism is not None and possible:
        start_training(mechanism, data, dataset, steps, split, seed, starts_paused=starts_paused)
        st.rerun()
    if run and (repr(run.result.mechanism), run.title) != (repr(mechanism), dataset.title):
        notes.info(
            "The picture and the numbers are those of the last run, which had other settings."
            " Press Train for a run with the new ones."
        )
    with stage_place:
        if job is None:
            show_example(data, mechanism)
        else:
            blocks.poll_job(job, now, show_run)
    with below:
        if run is not None:
            show_result(run, trained=now.active or now.state != "stopped" or run.result.stopped)
        if history.runs:
            is_pair = history.pair is not None
            with st.expander("Your runs", icon=":material/history:", expanded=is_pair):
                show_run_history()
        if run is not None:
            show_run_details(run)
        if run is not None or not now.active:
            show_objective(now)


def start_training(
    mechanism: Mechanism,
    data: str,
    dataset: LoadedDataset,
    steps: list[Transform],
    split: Split,
    seed: int | None,
    *,
    starts_paused: bool,
) -> None:
    """Start the job of a run.

    Args:
        mechanism: the mechanism.
        data: id of the data set.
        dataset: the data set.
        steps: of preparation.
        split: how ratings are held out.
        seed: of the run; None for one from the operating system.
        starts_paused: whether the run waits after its first round.
    """
    task, number = mechanism.task, state.get_run_history().number()
    run_seed = secrets.randbits(128) if seed is None else seed
    # The app's curves have the default preparation and split.
    is_on_curve = not steps and split == choose_default_split(task)
    work = runs.Training(
        mechanism,
        lambda: build_problem(dataset, task, steps=steps, split=split, seed=run_seed),
        run_seed,
        {
            "number": number,
            "data": dataset.loaded_name,
            "reading": dataset.reading,
            "title": dataset.title,
            "split": split,
            "fresh": seed is None,
        },
        recording_id=f"run {number}",
        reference=find_expected_reference(data, mechanism.id, seed) if is_on_curve else (),
        find_example=lambda: people.find_example_user(dataset),
    )
    job = state.get_jobs().start(JOB, work, data, classroom.get_worker_slots(), starts_paused)
    if starts_paused:
        job.wait_for_halt()


def may_train(data: str) -> bool:
    """Return whether this session may train on these data; if not, say why."""
    if data not in SAMPLES:
        return not blocks.is_reserved_for_teacher("train on this", "The samples are for everybody.")
    return classroom.can_visitors_train() or not blocks.is_reserved_for_teacher(
        "train", "Runs of visitors are switched off at the moment."
    )


def apply_paper_settings(
    id: str, chosen: dict[str, Any], dataset: LoadedDataset, epsilon: float
) -> dict[str, Any] | None:
    """Return the settings of the mechanism's paper where none was chosen; say what that changes."""
    try:
        public = prepare_public_facts(dataset.ratings.public, registry.get_mechanism(id).task)
        switched = as_published.compare_with_published(id, chosen, public, epsilon=epsilon)
    except DpmcError as error:
        blocks.show_error(error)
        return None
    st.caption(escape(" ".join(as_published.describe_published_changes(switched))))
    return as_published.merge_published_settings(id, chosen)


def ask_for_training(job: Job | None, now: Snapshot, *, possible: bool) -> tuple[bool, bool]:
    """Show the buttons of a run, each in its own place.

    Returns:
        Whether a run is to begin, and whether it is to wait after its first round.
    """
    # A new run may begin beside the references of the last one, which then end.
    is_ready = possible and (not now.active or now.result is not None)
    is_training = now.active and not now.stopping and now.result is None
    train = st.button("Train", type="primary", icon=":material/play_arrow:", disabled=not is_ready)
    step = st.button(
        "Step",
        icon=":material/skip_next:",
        disabled=not (is_ready or is_training),
        on_click=job.step if is_training else None,
        help="Train one round and wait.",
    )
    is_held = is_training and now.is_held
    st.button(
        "Resume" if is_held else "Pause",
        icon=":material/resume:" if is_held else ":material/pause:",
        key="pause",
        on_click=(job.resume if is_held else job.pause) if is_training else None,
        disabled=not is_training,
    )
    blocks.show_stop_button(job, now)
    st.button(
        "Reset",
        icon=":material/restart_alt:",
        on_click=state.get_jobs().drop,
        args=(JOB,),
        disabled=job is None,
        help="Go back to the example. Your runs stay below.",
    )
    starts_paused = step and not is_training
    return train or starts_paused, starts_paused


def find_expected_reference(data: str, id: str, seed: int | None) -> tuple[float, str] | tuple[()]:
    """Return the metric without privacy and its name, where the app has curves; it fixes the axis.

    It is that of the seed's split if one of the curves has this seed, else the mean over all seeds.
    """
    charts = rows.load_shipped(data, id, (seed or 0,)) or rows.load_shipped(data, id)
    reference = charts and charts[0].nonprivate_reference
    if not reference:
        return ()
    mean, _, seeds = reference.interval
    return mean, lines.NO_PRIVACY + ", curve's mean" * (seeds > 1)


def show_run(now: Snapshot) -> None:
    """Show a run while it goes on, with an earlier one beside it; later it can be replayed."""
    blocks.show_job_progress(now)
    film, history = now.display, state.get_run_history()
    if film is None:
        return
    run = next((entry for entry in history.runs if entry.recording.id == film.id), None)
    earlier = next(
        (
            entry
            for entry in history.pair or history.runs[-1:]
            if entry.recording.id != film.id and entry.metric == film.metric
        ),
        None,
    )
    live = now.active and now.result is None
    sentence = "Watch the table fill while the curve rises."
    if run is not None:
        sentence = run_card.describe_remembered(run)
        sentence += f"; {run_card.describe_earlier(earlier)}." if earlier else "."
    blocks.show_headline(sentence, key="answer")
    name = earlier and f"earlier{run_card.format_run_epsilon(earlier).replace(' ·', ':')}"
    learned.show_stage(film, live=live, earlier=earlier and (earlier.recording, name))


def show_example(data: str, mechanism: Mechanism | None) -> None:
    """Show what a run looks like, on a part of a sample, before the first one."""
    if mechanism is None:
        return
    clicks = mechanism.task is Task.RANKING
    sample = data if data in SAMPLES else ("bookshop-clicks" if clicks else "movie-night")
    try:
        recording = _make_example(sample, repr(mechanism), mechanism)
    except DpmcError:  # settings for other data
        return
    blocks.show_headline(
        f"An example at epsilon {mechanism.epsilon:g} on a small part of {SAMPLES[sample].title}."
        " Choose epsilon and press Train.",
        key="answer",
    )
    learned.show_stage(recording)


@st.cache_resource(max_entries=100, show_spinner=False)
def _make_example(sample: str, settings: str, _mechanism: Mechanism) -> RunRecording:  # noqa: ARG001
    return runs.make_example_film(_mechanism, sources.get_dataset(sample))


def choose_seed() -> int | None:
    """Show the choice of the seed; None stands for fresh randomness."""
    fresh = widgets.choose_toggle(
        "Fresh randomness",
        "fresh randomness",
        "fresh",
        help="The operating system chooses the seed, and nobody keeps it.",
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


def show_objective(now: Snapshot) -> None:
    """Show the objective by round, where a method has one; the metric is in the film."""
    points = [(p.round, p.objective) for p in now.points if p.objective is not None]
    if not points:
        return
    rounds, values = zip(*points, strict=True)
    id = now.display.mechanism
    with st.expander("The objective in each round", icon=":material/show_chart:"):
        blocks.show_chart(
            charts_train.plot_objective(points),
            alt=f"{registry.get_mechanism(id).name}: objective over"
            f" {format_count(rounds[-1], 'round')}.",
            caption=blocks.EVALUATION
            + " An objective that comes from raw ratings is not private either."
            * any(p.raw for p in now.points),
            table={"round": rounds, "objective": values},
            key="rounds",
        )


def show_run_history() -> None:
    """Show the remembered runs, and compare the two that are ticked."""
    history = state.get_run_history()
    action = "" if history.pair else "Train again to compare two runs. "
    st.caption(f"{action}The app keeps the last {history.LIMIT} runs and those you pin.")
    with st.container(horizontal=True, gap="small"):
        for run in history.runs:
            show_run_card(run)
    if history.pair is not None:
        show_pair(*history.pair)


def show_run_card(run: RememberedRun) -> None:
    """Show what a remembered run was and what it reached."""
    history, number = state.get_run_history(), run.number
    with st.container(border=True, width=200, gap="small", key=f"card {number}"):
        stopped = " · stopped" if run.stopped else ""
        st.markdown(f"**Run {number}** · {escape(run.details['mechanism'])}")
        st.caption(f"{escape(run.title)}{run_card.format_run_epsilon(run)}{stopped}")
        with blocks.lay_out_row(gap="small"):
            show_button = partial(st.button, type="tertiary", args=(number,))
            # A button: late messages of the browser may bring back the state of a checkbox.
            is_ticked = number in history.ticked
            show_button(
                "Compared" if is_ticked else "Compare",
                key=f"tick {number}",
                icon=":material/check_box:" if is_ticked else ":material/check_box_outline_blank:",
                on_click=history.tick,
            )
            is_pinned = number in history.pinned
            show_button(
                "Unpin" if is_pinned else "Pin",
                key=f"pin {number}",
                icon=":material/keep_off:" if is_pinned else ":material/keep:",
                on_click=history.pin,
                disabled=history.full and not is_pinned,
            )


def show_pair(first: RememberedRun, second: RememberedRun) -> None:
    """Show which of two runs is better, what differs in their settings, and their lists."""
    pair = (first, second)
    blocks.show_headline(run_card.compare_runs(*pair))
    differences = run_card.tabulate_differences(*pair)
    if differences["what differs"]:
        blocks.show_table(differences, alt="Settings of the two runs that differ")
    else:
        st.markdown("Both runs have the same settings.")
    if first.metric != second.metric:
        st.markdown("These runs predict different things, so they cannot share a chart.")
    persons = {(run.data_key, run.recording.corner.person) for run in pair}
    if len(persons) > 1:
        return
    show_lists(
        f"Recommendations for {first.recording.corner.person_label}",
        {f"Run {run.number}": run.top for run in pair},
        {"Without privacy": second.nonprivate_list},
    )


def show_lists(
    title: str,
    pair: Mapping[str, Sequence[TopItem]],
    further_lists: Mapping[str, Sequence[TopItem] | None],
) -> None:
    """Show lists side by side; what the first two share is bold in all."""
    first, second = ({item.item for item in top} for top in pair.values())
    lists = {name: top for name, top in {**pair, **further_lists}.items() if top is not None}
    shared = first & second
    title += f": {len(shared)} in both (bold)" * bool(first and second)
    st.markdown(f"**{escape(title)}**")
    for column, (name, top) in zip(st.columns(len(lists)), lists.items(), strict=True):
        with column:
            st.markdown(f"**{name}**")
            titles = [(escape(item.title), item.item in shared) for item in top]
            marked = [f"1. **{text}**" if strong else f"1. {text}" for text, strong in titles]
            st.markdown(
                "\n".join(marked)
                or "This list was not computed: the run was stopped, or it goes on."
            )


def show_result(run: FinishedRun, *, trained: bool) -> None:
    """Show what a run was, and what to do next.

    Args:
        run: the run.
        trained: whether all methods of the comparison are trained, or still may be.
    """
    result = run.result
    if result.stopped:
        st.warning(
            f"Stopped after {format_count(result.rounds, 'round')}: the numbers are those of the"
            " model at that moment."
        )
    elif not trained:
        st.warning(
            "Stopped before all methods of the comparison were trained. A line without privacy in"
            " the picture was computed beforehand and comes with the app."
        )
    with blocks.lay_out_row():
        show_run_downloads(run)
        epsilon = cards.format_epsilon(result.guarantee.claimed.epsilon)
        st.caption(
            f"{result.mechanism.name} on {escape(run.title)}, epsilon {epsilon}"
            f" {result.guarantee.change.label}: one split and one draw of the noise."
            + " Move epsilon and train again to compare."
            * (len(state.get_run_history().runs) < 2)
        )
        st.page_link(
            "pages/compare.py", label="Compare mechanisms", icon=":material/stacked_line_chart:"
        )


def show_run_details(run: FinishedRun) -> None:
    """Show one person's lists, the guarantee, all metrics, and what the model learned, folded."""
    guarantee, id = run.result.guarantee, run.result.mechanism.id
    for label, body in {
        "Recommendations for one person": lambda: show_recommendations(run),
        "Guarantee": lambda: blocks.show_guarantee(guarantee, id),
        "All numbers of this run": lambda: show_numbers(run),
    }.items():
        blocks.show_expander(label, body, key=label)


def show_numbers(run: FinishedRun) -> None:
    """Show all metrics of a run with its baselines, where it lies on its curve, and its errors."""
    result, metric = run.result, run_card.find_run_metric(run.result)
    table = run_card.tabulate_metrics(run_card.collect_metrics(result))
    blocks.show_table(table, alt="All metrics of the run and its baselines")
    with_features = registry.has_features_step(result.problem.steps)
    curve = run_card.describe_on_curve(
        run, rows.load_shipped(run.data, result.mechanism.id, with_item_features=with_features)
    )
    st.caption(
        f"{metric.panel_title} on {format_split(result.problem.split)}"
        + escape(f"; {curve}" * bool(curve)),
        help=f"{metric.explanation} {glossary.explain_terms('held_out', 'guessing')}",
    )
    steps = escape(", ".join(result.problem.steps)) or "nothing"
    st.caption(
        f"{blocks.EVALUATION} {format_count(result.rounds, 'round')} in {result.seconds:.1f} s;"
        f" prepared with {steps}; " + ("seed not kept." if run.fresh else f"seed {result.seed}.")
    )
    blocks.show_exhibits(learned.build_exhibits(run))


@st.fragment
def show_recommendations(run: FinishedRun) -> None:
    """Show the ten recommendations for one person, without and with privacy."""
    train = run.result.problem.train
    user = widgets.choose_number(
        "Person",
        "the person",
        1,
        train.public.users,
        run.recording.corner.person + 1 if run.recording else 1,
        "top_user",
        width=200,
        help="Users are numbered from 1. The first choice is the person of What if, of median"
        " activity.",
    )
    private, nonprivate = (
        train_views.list_top_items(model, train, user - 1) if model else ()
        for model in (run.result.model, run.nonprivate_model)
    )
    show_lists("Recommendations", {"Without privacy": nonprivate, "With privacy": private}, {})
    st.caption(
        "The first choice is the person of the picture above. The lists leave out what a person"
        " rated in training."
    )


def show_run_downloads(run: FinishedRun) -> None:
    """Offer the run as a report, its model, and the command that repeats it."""
    result, note = run.result, ""
    name = f"{result.mechanism.id}-{run.data}"
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
    if result.model.factors is not None:
        make = lambda: run_card.pack_factors(result) or b""  # noqa: E731
        files.append(blocks.File("Factors (NPZ)", f"{name}.npz", "application/octet-stream", make))
        note = (
            "Do not publish the factors: their noise is for simulation."
            f"{'' if run.fresh else f' {run_card.SEED_NOTE}'} Use dpmc release for a copy that may"
            " be published."
        )
    blocks.show_downloads(*files, argv=shlex.split(run_card.format_fit_command(run)), note=note)


shell.enter_through_app()
page()
