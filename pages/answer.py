"""What would privacy cost on these ratings, and is that affordable?"""

import shlex
from datetime import date
from typing import NamedTuple

import streamlit as st

from dpmc_core import paths, registry
from dpmc_core.data import Dataset
from dpmc_core.errors import DpmcError
from dpmc_core.model import Mechanism, Task
from dpmc_core.privacy import DEFAULT_DELTA
from dpmc_lab import glossary, sweep
from dpmc_lab.curves import answer as words
from dpmc_lab.curves import groups, lines, text
from dpmc_lab.curves.lines import CurveChart
from dpmc_lab.store import digest_values
from dpmc_lab.study import answer as core
from dpmc_lab.study.advice import Advice, PrivacyUnit
from dpmc_lab.study.answer import Finding, Inquiry, UserScoreCache
from dpmc_lab.sweep import Grid, PlanKeys, Unit
from dpmc_lab.sweep.presets import EPSILONS
from pages.ui import blocks, report, rows, shell, sources, state, sweeps, widgets
from pages.ui.charts import answer as charts_answer
from pages.ui.rows import RunLocation
from pages.ui.sweeps import Sweep
from pages.ui.text import format_count

SEEDS = core.SEEDS[: core.N_CURVE_SEEDS]  # of the curve


class Planned(NamedTuple):
    """A question on some data with what it needs: the method, its runs at the epsilon asked about,
    and its curve."""

    question: Inquiry
    where: RunLocation
    dataset: Dataset
    advice: Advice
    units: tuple[Unit, ...]
    keys: PlanKeys

    @property
    def name(self) -> str:
        """Of its runs in the background."""
        return digest_values("answer", sorted(unit.key for unit in self.units), self.keys.name)[:16]

    @property
    def method(self) -> Mechanism:
        return self.advice.mechanism

    @property
    def title(self) -> str:
        return f"The answer on {sources.list_names()[self.where.name]}"

    def curve(self) -> CurveChart:
        """Its curve in the metric of the answer, on the seeds of the other pages. Raises
        StoreError."""
        question = self.question
        where = self.where._replace(steps=("features",) * question.with_item_features)
        seeds = range(1, 1 + rows.count_default_seeds(where.name, question.task))
        metrics = [question.metric]
        return rows.read_grid_rows(
            where, self.keys, [self.method.id], metrics, EPSILONS, seeds
        ).pictures[0]

    def ends(self, guess: str) -> tuple[str, str]:
        """What the gain is counted from and up to, as charts name them. guess: id of the former."""
        best = lines.NO_PRIVACY if self.question.reference is None else "your model"
        return lines.format_baseline_name(guess), best


def page() -> None:
    blocks.show_heading(
        "The answer",
        "Say whom to protect and what you can afford to lose: the runs say whether it is enough.",
    )
    try:
        protect = widgets.choose_segment(
            "Protect",
            "whom to protect",
            groups.PRIVACY_UNIT_LABELS,
            "answer_protect",
            PrivacyUnit.PERSON,
        )
        with st.container(horizontal=True):
            data = sources.choose_data()
            dataset = sources.get_dataset(data)  # without it there is no task to choose
            task = predicted(data, protect)
        instrument(planned(asked(data, task, protect), rows.locate_runs(data), dataset))
    except (DpmcError, OSError) as error:
        blocks.show_error(error)


def predicted(data: str, protect: PrivacyUnit) -> Task:
    """What is predicted: what the data offer and a method protects, the usual first."""
    offered = [task for task in sources.list_available_tasks(data) if protect.is_possible(task)]
    usual = Task.RATINGS if Task.RATINGS in offered else Task.RANKING
    names = {
        task: groups.TASK_LABELS[task] for task in reversed(groups.TASK_LABELS) if task in offered
    }
    if st.session_state.get("answer_task", usual) not in names:
        del st.session_state["answer_task"]  # chosen for other data
    return widgets.choose_option(
        "Predict",
        "what is predicted",
        names,
        "answer_task",
        usual,
        help="Top lists: does the item a user took next stand among ten? Ratings: how far off are"
        " predicted stars? Likes: up or down?",
    )


def asked(data: str, task: Task, protect: PrivacyUnit) -> Inquiry:
    """The question in full. Raises InvalidSetting."""
    epsilon = widgets.show_epsilon_slider()
    metric = core.Inquiry(task=task, privacy_unit=protect).metric
    with st.grid(4, min_column_width=170):
        often = widgets.choose_option(
            "You publish",
            "how often you publish",
            words.FREQUENCY_LABELS,
            "answer_often",
            52,
            help=glossary.explain_terms("composition"),
        )
        keep = widgets.choose_number(
            "Keep at least (%)",
            "the share to keep",
            1.0,
            100.0,
            80.0,
            "answer_keep",
            step=5.0,
            format="%g",
            help="What must be left of what a method adds to the baseline."
            f" {glossary.explain_terms('guessing')}",
        )
        delta = widgets.choose_number(
            "delta",
            "delta",
            None,
            None,
            DEFAULT_DELTA,
            "answer_delta",
            step=None,
            format="%e",
            help=glossary.explain_terms("delta"),
        )
        own = widgets.choose_number(
            f"Your model's {metric.label}{' (%)' if metric.is_share else ''}",
            "your model's score",
            None,
            None,
            None,
            "answer_reference",
            step=None,
            format="%g",
            placeholder="none",
            help=f"{metric.explanation} Give the score of your own model on held-out ratings. The"
            " gain is"
            " then measured against it, and not against our best model without privacy.",
        )
    if own is not None and metric.is_share:
        own /= 100
    ids = [
        id
        for id in sources.list_available_mechanisms(data)
        if registry.get_mechanism(id).task is task
    ]
    facts = bool(widgets.choose_item_features(data, ids))
    return Inquiry(
        task=task,
        privacy_unit=protect,
        epsilon=epsilon,
        delta=delta,
        times=often,
        keep=keep / 100,
        reference=own,
        with_item_features=facts,
    )


def over(question: Inquiry, advice: Advice, data: str) -> Grid:
    """The grid of its curve."""
    return question.build_grid(advice, data, seeds=SEEDS, epsilons=EPSILONS)


def planned(question: Inquiry, where: RunLocation, dataset: Dataset) -> Planned:
    """The runs of a question, planned once. Raises DpmcError."""

    def made() -> Planned:
        advice = question.find_advice(dataset.ratings.public)
        data = [sweep.drop_names(sweep.SplitSource(dataset))]
        units = sweep.build_plan(question.build_grid(advice, where.data), data).units
        keys = sweep.build_plan(over(question, advice, where.data), data).keys
        return Planned(question, where, dataset, advice, units, keys)

    return state.memoize("answer plan", (where, id(dataset), question), made)


def instrument(plan: Planned) -> None:
    """What is told before any run, the button, and the answer as it grows."""
    question, where, ratings = plan.question, plan.where, plan.dataset.ratings
    told = state.memoize(
        "told from noise",
        (where.name, id(plan.dataset), plan.method),
        lambda: core.count_distinguishable_items(plan.method, ratings),
    )
    if told is not None:
        st.markdown(f"{words.format_distinguishable_items(told, question, where.private)}.")
        st.caption(words.explain_distinguishable_items(question.task, question.privacy_unit))
    now = sweeps.load_sweep(where.folder, plan.name)
    running = now is not None and now.running
    kept = state.memoize(
        "answer runs", where.store, lambda: UserScoreCache.from_store_path(where.store)
    )
    buttons(plan, kept, now)

    def draw() -> None:
        again = sweeps.load_sweep(where.folder, plan.name)
        if running and again is not None:
            total = again.counts.get("total") or len(plan.units)
            rows.show_sweep_progress(again, min(again.counts.get("done", 0), total), total)
        finding = core.compute_finding(question, plan.advice, plan.units, kept, ratings)
        if finding is not None:
            if where.private:
                said = words.format_answer(finding)
                st.session_state["answer found"] = (
                    f"At epsilon {question.epsilon:g}: {said.verdict} {said.found}"
                )
            card(finding, plan)
            take_away(finding, plan, kept)
        curve(plan)

    rows.poll_runs(where, plan.name, draw, running=running)


def buttons(plan: Planned, kept: UserScoreCache, now: Sweep | None) -> None:
    """Begin, stop, go on: one button at a time."""
    question, where, method = plan.question, plan.where, plan.method
    if now is not None and now.running:
        if st.button("Stop", icon=":material/stop:"):
            rows.cancel_runs(where, plan.name)
            st.rerun()
        return
    own = {unit.key for unit in plan.units}
    missing = {key for key in own if kept.get(key) is None}
    there = plan.curve().lines
    whole = bool(there) and there[0].has_values(EPSILONS, SEEDS)
    if not missing and whole:
        return
    if now is not None and now.message:
        blocks.show_error(DpmcError(now.message))
    if blocks.is_reserved_for_teacher("compute an answer", "What if shows curves that are there."):
        return
    begun = {unit.key for unit in plan.units if unit.mechanism == method} - missing
    label = "Go on" if begun and missing else "Get the answer" if missing else "Compute the curve"
    with st.container(horizontal=True, vertical_alignment="center"):
        pressed = st.button(
            label, type="primary" if missing else "secondary", icon=":material/play_arrow:"
        )
        if missing:
            runs = missing if whole else missing.union(plan.keys.units) - (own - missing)
            st.caption(
                f"{format_count(len(runs), 'short training run')}: {blocks.escape(method.name)}"
                " at epsilon"
                f" {question.epsilon:g}, the reference and the floor"
                f"{'' if whole else ', then the curve'}."
            )
    if where.private and missing:
        st.caption(f"Nothing of it leaves this session. {rows.DISK_NOTICE}")
    if pressed:
        st.session_state["mechanism"] = method.id  # what was asked about is at hand elsewhere too
        command = core.build_child_command(question, where.data, where.store, curve=not whole)
        link = rows.build_link(over(question, plan.advice, where.data), where)
        rows.start_command(where, plan.name, command, {"title": plan.title, "link": link})
        st.rerun()


def card(finding: Finding, plan: Planned) -> None:
    """The answer, its verdict large."""
    said = words.format_answer(finding)
    with st.container(border=True):
        st.header(words.strip_bold(said.verdict), anchor=False)
        if finding.gain_share is not None:
            keep = plan.question.keep
            blocks.show_figure(
                charts_answer.plot_gain_share(
                    plan.method.id, finding.gain_share, keep, *plan.ends(finding.baseline_id)
                ),
                alt=words.strip_bold(said.found),
                key="answer kept",
                config={"displayModeBar": False},
            )
        for text in filter(None, (said.found, said.unit, said.attacker, said.against, said.pays)):
            st.markdown(text)
        st.caption(f"{said.caution} {blocks.escape(said.tested)}")


def take_away(finding: Finding, plan: Planned, kept: UserScoreCache) -> None:
    """The answer on one page, its numbers, and its curve."""
    question, where, dataset = plan.question, plan.where, plan.dataset
    data = f"./{dataset.loaded_name}" if where.private else where.name
    reading = dataset.reading if where.private else {}
    seeds = sorted({unit.seed for unit in plan.units})
    missing = {unit.seed for unit in plan.units if kept.get(unit.key) is None}
    measured = [seed for seed in seeds if seed not in missing] or seeds
    told = ["dpmc", *core.build_arguments(question, data, measured, reading)]
    # What needs the session is taken here: files are made without it.
    title = f"The answer on {dataset.loaded_name}" if where.private else plan.title
    picture, ends = plan.curve(), plan.ends(finding.baseline_id)
    files = (
        blocks.File(
            "One page to print (HTML)",
            f"answer-{where.name}.html",
            "text/html",
            lambda: printed(title, finding, ends, shlex.join(told)),
        ),
        blocks.File(
            "Numbers (CSV)",
            f"answer-{where.name}.csv",
            "text/csv",
            lambda: report.format_csv(words.tabulate_answer(finding, picture, *ends)),
        ),
    )
    grid = rows.to_terminal_grid(over(question, plan.advice, where.data), where)
    blocks.show_downloads(
        *files, picture=picture, argv=["dpmc", "sweep", *grid.argv()], displayed_argv=told
    )


def curve(plan: Planned) -> None:
    """What other epsilons keep."""
    question, id, picture = plan.question, plan.method.id, plan.curve()
    found = words.list_gains_by_epsilon(picture, id, question.reference)
    if not found:
        return
    told = words.describe_gains(found, question.keep)
    st.header(told.rstrip(".") or "At other epsilons", anchor=False)
    if not any(one.clear for one in found):
        return
    keep, epsilon, unit = question.keep, question.epsilon, question.change.label
    ends = plan.ends(picture.baseline_id(picture.lines[0]))
    blocks.show_chart(
        charts_answer.plot_gain_by_epsilon(id, found, keep, epsilon, *ends, counted=unit),
        alt=told or "The share of the gain at each epsilon.",
        key="answer curve",
        caption=f"{blocks.EVALUATION} Means over {len(picture.lines[0].seeds)} seeds; the answer is"
        f" over {len(core.SEEDS)}.",
        table=words.tabulate_gains(found, picture),
    )


def printed(title: str, finding: Finding, ends: tuple[str, str], command: str) -> str:
    """An answer on one page to print, for those who decide, with its date and its picture.

    ends: what the gain is counted from, and up to.
    """
    said, today = words.format_answer(finding), date.today()
    first, *rest = (words.strip_bold(one) for one in said if one)
    chart = []
    if finding.gain_share is not None:
        id, keep = finding.mechanism.id, finding.question.keep
        chart = report.render_charts(
            [("", charts_answer.plot_gain_share(id, finding.gain_share, keep, *ends))]
        )
    made = f"{today.day} {today:%B %Y}, DPMC Lab {paths.get_version()}"
    parts = [
        text.render_paragraphs(made),
        text.render_heading(first),
        *chart,
        text.render_paragraphs(*rest),
    ]
    return report.render_report_page(title, parts, command)


shell.enter_through_app()
page()
