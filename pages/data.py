"""Your data: from ratings, a sample or a file, to the verdict whether privacy is affordable."""

import shlex
from collections.abc import Mapping
from datetime import date
from functools import partial
from typing import Any, NamedTuple

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dpmc_core import registry
from dpmc_core.errors import DpmcError, format_sentence
from dpmc_core.metrics import Metric
from dpmc_core.model import Mechanism, Task
from dpmc_core.privacy import DEFAULT_DELTA
from dpmc_data import LoadedDataset, paths, public_sets
from dpmc_data.reading import size_words
from dpmc_data.synthetic import GENERATORS, list_sample_options
from dpmc_lab import glossary, sweep
from dpmc_lab.store import digest_values
from dpmc_lab.study import answer as study
from dpmc_lab.study import release_command
from dpmc_lab.study.advice import Advice, PrivacyUnit
from dpmc_lab.study.answer import Finding, Inquiry, UserScoreCache
from dpmc_lab.sweep import Grid, PlanKeys, Unit
from dpmc_lab.sweep.presets import EPSILONS
from dpmc_lab.views import answer as answer_text
from dpmc_lab.views import data as charts_of_data
from dpmc_lab.views import groups, lines, text
from dpmc_lab.views.lines import CurveChart
from dpmc_lab.views.what_if import build_stop
from pages.ui import (
    blocks,
    instrument,
    report,
    rows,
    runs,
    scene,
    sentences,
    shell,
    sources,
    state,
    sweeps,
    upload,
    widgets,
)
from pages.ui.charts import answer as charts_answer
from pages.ui.charts import data as charts_data
from pages.ui.jobs import get_snapshot
from pages.ui.report import Exhibit
from pages.ui.rows import RunLocation
from pages.ui.session import session
from pages.ui.sweeps import Sweep
from pages.ui.text import escape, format_count

SOURCES = {"upload": "Upload your own", "public": "Get a public set", "sample": "Generate a set"}
CURVE_SEEDS = study.SEEDS[: study.N_CURVE_SEEDS]


class AnswerPlan(NamedTuple):
    """An inquiry about ratings with the runs that answer it.

    Attributes:
        question: the inquiry.
        location: where the runs are computed and stored.
        dataset: the ratings.
        advice: the recommended mechanism.
        units: the runs at the epsilon that the budget leaves each time.
        curve: the mechanism at each budget of the curve.
        grid: the runs of the curve.
        keys: of these.
    """

    question: Inquiry
    location: RunLocation
    dataset: LoadedDataset
    advice: Advice
    units: tuple[Unit, ...]
    curve: Mapping[float, Mechanism]
    grid: Grid
    keys: PlanKeys

    @property
    def name(self) -> str:
        """Return the name of its runs in the background."""
        return digest_values("answer", sorted(unit.key for unit in self.units), self.keys.name)[:16]

    @property
    def method(self) -> Mechanism:
        """Return the recommended mechanism."""
        return self.advice.mechanism

    @property
    def title(self) -> str:
        """Return the title of the answer."""
        return f"The answer on {self.dataset.title}"

    def read_rows(self) -> CurveChart:
        """Read the runs of the curve in the answer's metric, on the seeds of the other pages."""
        question = self.question
        location = self.location._replace(steps=("features",) * question.with_item_features)
        seeds = range(1, 1 + rows.count_default_seeds(location.name, question.task))
        return rows.read_grid_rows(
            location, self.keys, [self.method.id], [question.metric], self.grid.epsilons, seeds
        ).charts[0]

    def read_curve(self) -> CurveChart:
        """Read the curve over budgets."""
        return answer_text.place_on_budgets(self.read_rows(), self.curve)

    def name_gain_ends(self, finding: Finding) -> tuple[str, str]:
        """Return the names of what the gain is counted from and up to."""
        best = "your model" if self.question.reference else lines.NO_PRIVACY
        return lines.format_baseline_name(finding.baseline_id), best


def page() -> None:
    blocks.show_heading(
        "Your data",
        "Choose ratings and say what you can afford to lose.",
    )
    verdict = st.container()
    with st.container(key="ratings"):
        left, summary_place = st.columns([2, 5], vertical_alignment="bottom")
    with left:
        data = sources.choose_data()
    with (
        st.expander("Use other ratings", icon=":material/upload:", expanded=data != sources.UPLOAD),
        st.container(key="ways"),
    ):
        source = widgets.choose_segment(
            "Where from", "the way in", SOURCES, "way", "upload", label_visibility="collapsed"
        )
        file = upload.ask_for_file() if source == "upload" else None
        if source == "public":
            show_public_set()
        elif source == "sample":
            show_generator()
    if file is not None:
        summary_place.markdown(
            f"**{escape(file.name)}** is not read yet. Once it is, it replaces the data named here."
        )
        upload.read_upload(file)
        return
    upload.finish_reading()
    with blocks.show_errors_in(st.container()):
        dataset = sources.get_dataset(data)
        public = dataset.ratings.public
        summary_place.markdown(
            f"**{size_words(dataset.ratings)}.** Possible ratings: **{public.low:g}** to"
            f" **{public.high:g}**."
        )
        blocks.show_expander(
            "What was found",
            lambda: show_report(data, dataset),
            key="report",
            type="compact",
        )
        left, right = st.columns([4, 5], gap="large")
        with left:
            plan = plan_runs(choose_inquiry(data, dataset), rows.locate_runs(data), dataset)
            show_answer(plan, verdict, right)


# --- the ratings ---------------------------------------------------------------------------------


def show_generator() -> None:
    """Generate a sample with chosen options, as the command line takes it."""
    with st.form("draw", border=False):
        sample = st.text_input(
            "Sample and options",
            placeholder="rank-one:users=1000,items=50,per_user=20,seed=2",
            help="  \n".join(
                f"{name}: {', '.join(list_sample_options(name))}" for name in GENERATORS
            ),
        )
        if st.form_submit_button("Generate it") and sample:
            if (error := sources.find_generation_error(sample)) is not None:
                blocks.show_error(error)
            else:
                session.next_data = sample
                st.rerun()


def show_public_set() -> None:
    """Choose a public set, read its terms, and download it once."""
    archives = public_sets.ARCHIVES
    names = {id: f"{archive.title} ({archive.megabytes:g} MB)" for id, archive in archives.items()}
    names |= {
        id: f"{manual_set.title} (your copy)" for id, manual_set in public_sets.BY_HAND.items()
    }
    name = widgets.choose_option(
        "Public set", "the public set", names, "public_set", next(iter(names))
    )
    is_downloaded = public_sets.is_downloaded(name)
    if name not in archives and not is_downloaded:
        st.info(escape(format_sentence(public_sets.format_manual_steps(name))))
        return
    st.caption(escape(format_sentence(public_sets.SETS[name].licence)))
    if is_downloaded:
        st.button(
            "Open it",
            type="primary",
            on_click=lambda: session.update(next_data=name),
        )
        return
    if blocks.is_reserved_for_teacher("download data sets", "The samples are for everybody."):
        return
    job = state.get_jobs().get(name)
    now = get_snapshot(job)
    with st.container(horizontal=True):
        is_accepted = st.button(
            "Accept these terms and download",
            type="primary",
            icon=":material/download:",
            disabled=now.active,
        )
        blocks.show_stop_button(job, now)
    if is_accepted:
        state.get_jobs().start(name, runs.make_download_work(name))
        st.rerun()
    blocks.poll_job(job, now, blocks.show_job_progress)


def show_report(data: str, dataset: LoadedDataset) -> None:
    """Show what was found in the ratings, in sentences and in charts."""
    blocks.show_bullets(map(format_sentence, dataset.report))
    st.caption(escape(f"Source: {dataset.source}. Licence: {dataset.licence}."))
    show_charts(data)


def show_charts(data: str) -> None:
    """Show which values ratings have, and who gave how many."""
    values, (users, items) = (
        sources.compute_once(data, compute)
        for compute in (charts_of_data.compute_histogram, charts_of_data.compute_tails)
    )
    given, counted = (
        charts_of_data.describe_histogram(values),
        charts_of_data.describe_tails(users, items),
    )
    histogram = Exhibit(
        "histogram",
        given.removesuffix("."),
        charts_data.plot_histogram(values),
        "",
        given,
        {"rating": values.centers.round(3), "times": values.counts},
    )
    tails = Exhibit(
        "tails",
        counted.removesuffix("."),
        charts_data.plot_long_tails(users, items),
        "The busiest users reveal most. With a guarantee per rating, their epsilon grows with their"
        " number of ratings, unless a cap bounds it.",
        counted,
        charts_of_data.tabulate_tails(users, items),
    )
    blocks.show_exhibits([histogram, tails])


# --- the question --------------------------------------------------------------------------------


def choose_inquiry(data: str, dataset: LoadedDataset) -> Inquiry:
    """Choose whom to protect, the budget, how often one publishes and what to keep.

    Raises:
        InvalidSetting: an answer is impossible.
    """
    privacy_unit = widgets.choose_segment(
        "Protect",
        "whom to protect",
        groups.PRIVACY_UNIT_LABELS,
        "answer_protect",
        PrivacyUnit.PERSON,
    )
    epsilon = widgets.choose_epsilon()
    per = widgets.choose_segment(
        "Epsilon is for",
        "what the budget is for",
        answer_text.BUDGET_LABELS,
        "answer_per",
        study.BudgetPeriod.YEAR,
    )
    left, right = st.columns(2)
    with left:
        times = widgets.choose_option(
            "You publish",
            "how often you publish",
            answer_text.FREQUENCY_LABELS,
            "answer_often",
            52,  # weekly
            help=glossary.explain_terms("composition"),
        )
    with right:
        keep = widgets.choose_number(
            "Keep at least (%)",
            "the share to keep",
            1.0,
            100.0,
            80.0,
            "answer_keep",
            step=5.0,
            format="%g",
            help="What you must keep of the benefit of personal predictions over the baseline."
            f" {glossary.explain_terms('guessing')}",
        )
    with st.expander("Delta and more", type="compact"):
        with st.grid(3, min_column_width=170):
            task = choose_predicted_task(data, privacy_unit)
            metric = Inquiry(task=task, privacy_unit=privacy_unit).metric
            delta = widgets.choose_number(
                "delta",
                "delta",
                None,
                None,
                DEFAULT_DELTA,
                "answer_delta",
                format="%e",
                help=glossary.explain_terms("delta"),
            )
            reference = choose_reference_score(metric)
        ids = [
            id
            for id in sources.list_available_mechanisms(data)
            if registry.get_mechanism(id).task is task
        ]
        with_item_features = bool(widgets.choose_item_features(data, ids))
        if data == sources.UPLOAD:
            upload.choose_public_features(dataset)
    return Inquiry(
        task=task,
        privacy_unit=privacy_unit,
        epsilon=epsilon,
        delta=delta,
        times=times,
        per=per,
        keep=keep / 100,
        reference=() if reference is None else (reference / (100 if metric.is_share else 1),),
        with_item_features=with_item_features,
    )


def choose_reference_score(metric: Metric) -> float | None:
    """Choose the score that the benefit is measured against; None: that of our best model."""
    score = widgets.choose_number(
        f"Your model's {metric.label}{' (%)' if metric.is_share else ''}",
        "your model's score",
        None,
        None,
        None,
        "answer_reference",
        format="%g",
        placeholder="none",
        help=f"{metric.explanation} Give the score of your own model on held-out ratings."
        " The benefit is then measured against it, and not against our best model without"
        " privacy.",
    )
    return score / 100 if score is not None and metric.is_share else score


def choose_predicted_task(data: str, privacy_unit: PrivacyUnit) -> Task:
    """Choose what is predicted, among what the data offer and a mechanism protects."""
    possible = [
        task for task in sources.list_available_tasks(data) if privacy_unit.is_possible(task)
    ]
    default = Task.RATINGS if Task.RATINGS in possible else Task.RANKING
    labels = groups.TASK_LABELS
    names = {task: labels[task] for task in reversed(labels) if task in possible}
    return widgets.choose_option(
        "Predict",
        "what is predicted",
        names,
        "answer_task",
        default,
        help="Top lists: is the item that a user took next among ten suggestions? Ratings: how far"
        " off are predicted ratings? Likes: up or down?",
    )


def plan_runs(question: Inquiry, location: RunLocation, dataset: LoadedDataset) -> AnswerPlan:
    """Plan the runs of an inquiry once. Raises DpmcError."""

    def make_plan() -> AnswerPlan:
        advice = question.find_advice(dataset.ratings.public)
        data = [sweep.drop_names(sweep.SplitSource(dataset))]
        build_grid = partial(question.build_grid, advice, location.data)
        units = study.add_later_publications(question, sweep.build_plan(build_grid(), data).units)
        curve = question.calibrate_curve(advice.mechanism.id, dataset.ratings.public)
        grid = build_grid(seeds=CURVE_SEEDS, curve=curve)
        keys = sweep.build_plan(grid, data).keys
        return AnswerPlan(question, location, dataset, advice, units, curve, grid, keys)

    return state.memoize("answer plan", (location, id(dataset), question), make_plan)


# --- the answer ----------------------------------------------------------------------------------


def show_answer(plan: AnswerPlan, verdict: DeltaGenerator, curve: DeltaGenerator) -> None:
    """Show the button, what raw counts say before any run, the curve, and the verdict on top."""
    question, location, ratings = plan.question, plan.location, plan.dataset.ratings
    cache = state.memoize(
        "answer runs", location.store, lambda: UserScoreCache.from_store_path(location.store)
    )
    distinguishable = state.memoize(
        "distinguishable items",
        (location.name, id(plan.dataset), plan.method),
        lambda: study.count_distinguishable_items(plan.method, ratings),
    )
    current = sweeps.load_sweep(location.folder, plan.name)
    running = current is not None and current.running
    show_buttons(plan, cache, current)
    if distinguishable is not None:
        st.markdown(
            answer_text.format_distinguishable_items(distinguishable, plan.method, location.private)
            + ".",
            help=answer_text.explain_distinguishable_items(question.task),
        )

    find_verdict = partial(study.compute_finding, question, plan.advice, plan.units, cache, ratings)

    def show_progress_and_verdict() -> None:
        latest = sweeps.load_sweep(location.folder, plan.name)
        if running and latest is not None:
            rows.show_sweep_progress(latest, latest.n_done, latest.counts.get("total", 0))
        finding = find_verdict()
        if finding is not None:
            show_verdict(finding, plan)
            show_files(finding, plan, cache)

    with verdict:
        rows.poll_runs(location, plan.name, show_progress_and_verdict, running=running)
    with curve:
        rows.poll_runs(
            location,
            plan.name,
            lambda: show_curve(plan, running, find_verdict()),
            running=running,
        )


def show_buttons(plan: AnswerPlan, cache: UserScoreCache, current: Sweep | None) -> None:
    """Show the button that starts, stops or continues the runs."""
    question, location, method = plan.question, plan.location, plan.method
    if current is not None and current.running:
        if st.button("Stop", icon=":material/stop:"):
            rows.cancel_runs(location, plan.name)
            st.rerun()
        return
    missing = {unit.key for unit in plan.units if cache.get(unit.key) is None}
    curve_lines = plan.read_curve().lines
    has_curve = bool(curve_lines) and curve_lines[0].has_values(EPSILONS, CURVE_SEEDS)
    if not missing and has_curve:
        return
    if current is not None and current.message:
        blocks.show_error(DpmcError(current.message))
    if blocks.is_reserved_for_teacher("compute an answer", "What if shows curves that are there."):
        return
    started = {unit.key for unit in plan.units if unit.mechanism == method} - missing
    label = "Compute the curve"
    if missing:
        label = "Go on" if started else "Get the answer"
    with blocks.lay_out_row():
        is_pressed = st.button(label, type="primary", icon=":material/play_arrow:")
        n_runs = len(missing | (set() if has_curve else {*plan.keys.units}))
        disk_notice = f" No other visitor sees any of it. {rows.DISK_NOTICE}" * location.private
        st.caption(
            f"{format_count(n_runs, 'short training run')} ({len(missing):,} for the verdict,"
            f" {n_runs - len(missing):,} for the curve): {method.name}, its baselines and the best"
            f" method without privacy. The first points appear within seconds.{disk_notice}"
        )
    if is_pressed:
        session.mechanism = method.id  # other pages open with this mechanism
        command = study.build_child_command(
            question, location.data, location.store, curve=not has_curve
        )
        link = rows.build_link(plan.grid, location)
        rows.start_command(location, plan.name, command, {"title": plan.title, "link": link})
        st.rerun()


def show_verdict(finding: Finding, plan: AnswerPlan) -> None:
    """Show the verdict with its picture and its sentences."""
    answer = answer_text.format_answer(finding)
    with st.container(border=True):
        with st.container(key="answer"):
            blocks.show_headline(answer_text.strip_bold(answer.verdict))
        if (share := finding.decision[1]) is not None:
            blocks.show_figure(
                charts_answer.plot_gain_share(
                    share,
                    plan.question.keep,
                    *plan.name_gain_ends(finding),
                ),
                alt=answer_text.strip_bold(f"{answer.found} {answer.year}"),
                key="answer kept",
                config={"displayModeBar": False},
            )
        st.markdown("\n\n".join(filter(None, answer[1:-2])))
        st.caption(f"{answer.caution} {escape(answer.tested)}")


def show_files(finding: Finding, plan: AnswerPlan, cache: UserScoreCache) -> None:
    """Offer the answer on one page, its numbers, its command, and the command of a release."""
    question, location, dataset = plan.question, plan.location, plan.dataset
    data = f"./{dataset.loaded_name}" if location.private else location.name
    reading = dataset.reading if location.private else {}
    seeds = sorted({unit.seed for unit in plan.units})
    missing = {unit.seed for unit in plan.units if cache.get(unit.key) is None}
    measured = sorted({*seeds} - missing) or seeds
    command = ["dpmc", *study.build_arguments(question, data, measured, reading)]
    # What needs the session is read here: files are made without it.
    title, chart, ends = plan.title, plan.read_curve(), plan.name_gain_ends(finding)
    files = (
        blocks.File(
            "One page to print (HTML)",
            f"answer-{location.name}.html",
            "text/html",
            lambda: render_printed_page(title, finding, ends, shlex.join(command)),
        ),
        blocks.File(
            "Numbers (CSV)",
            f"answer-{location.name}.csv",
            "text/csv",
            lambda: report.format_csv(answer_text.tabulate_answer(finding, chart, *ends)),
        ),
    )
    argv = ["dpmc", "sweep", *rows.to_terminal_grid(plan.grid, location).argv()]
    blocks.show_downloads(*files, chart=plan.read_rows(), argv=argv, displayed_argv=command)
    with st.expander(
        "Publish a model with this privacy",
        icon=":material/publish:",
        expanded=finding.decision[0] is study.Verdict.AFFORDABLE,
    ):
        show_release(finding, plan, data, reading)


def show_release(finding: Finding, plan: AnswerPlan, data: str, reading: Mapping[str, Any]) -> None:
    """Show the commands that release the recommended mechanism, or why it cannot be released."""
    catalogue = release_command.CATALOGUE_FILE
    if plan.location.private and st.toggle("Everybody knows which items have ratings"):
        catalogue = release_command.FROM_DATA
    release = release_command.build_release_command(
        plan.method,
        plan.dataset.ratings,
        data,
        reading,
        question=plan.question,
        catalogue=catalogue,
    )
    st.markdown(escape(answer_text.introduce_release(finding, release)))
    for command in filter(None, (release.command, release.next)):
        st.code(command, language="bash", wrap_lines=True)


def show_curve(plan: AnswerPlan, running: bool, finding: Finding | None) -> None:
    """Show risk and usefulness over all epsilons; runs that go on add points.

    The text beside it compares nothing once there is a verdict, which compares user by user.

    Args:
        plan: the inquiry with its runs.
        running: whether they are running now.
        finding: the verdict, if there is one.
    """
    question, chart = plan.question, plan.read_curve()
    public = question.prepare_public_facts(plan.dataset.ratings.public)
    view = state.memoize(
        "answer picture",
        (plan.location.name, question, chart),
        lambda: scene.build_view(
            scene.build_scene(
                plan.method.id, chart, public, methods=plan.curve, times=question.n_composed
            )
        ),
    )
    gains = answer_text.list_gains_by_epsilon(chart, question, plan.curve)
    summary = answer_text.SEEDS_NOTE
    if finding is None:
        alone = chart._replace(baselines=())  # without baselines nothing is compared
        stop = build_stop(plan.method, question.epsilon, alone, public, times=question.n_composed)
        answer = sentences.write_answer(alone, stop)
        st.markdown("".join(text for text, _ in answer))
        average = answer_text.describe_gains(gains, question.keep, chart)
        summary = average and f"{average}. The verdict will say how sure this is."
    if chart.lines:
        line = chart.lines[0]
        coarse = ": a coarse curve, which the next runs refine" * running
        st.markdown(
            f"{summary} {len(line.epsilon)} of {len(EPSILONS)} epsilons,"
            f" {format_count(len(line.seeds), 'seed')}{coarse}"
            f"{f'; the verdict has {finding.seeds}' if finding else ''}.",
            help=blocks.EVALUATION,
        )
    instrument.show_still(view, question.epsilon, key="answer picture still")
    st.caption(answer_text.caption_curve(question, plan.method))
    if chart.lines:
        table = answer_text.tabulate_gains(gains, chart) if gains else lines.tabulate_line(line)
        blocks.show_chart_numbers(view["name"], table, "answer curve")


def render_printed_page(title: str, finding: Finding, ends: tuple[str, str], command: str) -> str:
    """Render an answer on one page to print, with its date and its picture.

    Args:
        title: of the page.
        finding: the answer.
        ends: names of what the gain is counted from and up to.
        command: repeats the answer.
    """
    answer, today = answer_text.format_answer(finding), date.today()
    verdict, *paragraphs = (answer_text.strip_bold(sentence) for sentence in answer if sentence)
    charts = []
    if (share := finding.decision[1]) is not None:
        figure = charts_answer.plot_gain_share(share, finding.question.keep, *ends)
        charts = report.render_charts([("", figure)])
    sections = [
        text.render_paragraphs(f"{today.day} {today:%B %Y}, DPMC Lab {paths.get_version()}"),
        text.render_heading(verdict),
        *charts,
        text.render_paragraphs(*paragraphs),
    ]
    return report.render_report_page(title, sections, command)


shell.enter_through_app()
page()
