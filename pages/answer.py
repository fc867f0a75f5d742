"""What would privacy cost on these ratings, and is that affordable?"""

import shlex
from datetime import date
from typing import NamedTuple

import streamlit as st

from dpmc_core import paths, registry
from dpmc_core.data import Dataset
from dpmc_core.errors import DpmcError
from dpmc_core.model import Mechanism, Task
from dpmc_core.privacy import DELTA
from dpmc_lab import glossary, sweep
from dpmc_lab.curves import answer as words
from dpmc_lab.curves import groups, lines, text
from dpmc_lab.curves.lines import Picture
from dpmc_lab.store import digest
from dpmc_lab.study import answer as core
from dpmc_lab.study.advice import Advice, Protect
from dpmc_lab.study.answer import Finding, Inquiry, Kept
from dpmc_lab.sweep import Grid, Keys, Unit
from dpmc_lab.sweep.presets import EPSILONS
from pages.ui import blocks, report, rows, shell, sources, state, sweeps, widgets
from pages.ui.charts import answer as charts_answer
from pages.ui.rows import Place
from pages.ui.sweeps import Sweep
from pages.ui.text import many

SEEDS = core.SEEDS[: core.CURVE]  # of the curve


class Planned(NamedTuple):
    """A question on some data with what it needs: the method, its runs at the epsilon asked about,
    and its curve."""

    question: Inquiry
    where: Place
    dataset: Dataset
    advice: Advice
    units: tuple[Unit, ...]
    keys: Keys

    @property
    def name(self) -> str:
        """Of its runs in the background."""
        return digest("answer", sorted(unit.key for unit in self.units), self.keys.name)[:16]

    @property
    def method(self) -> Mechanism:
        return self.advice.mechanism

    @property
    def title(self) -> str:
        return f"The answer on {sources.names()[self.where.name]}"

    def curve(self) -> Picture:
        """Its curve in the metric of the answer, on the seeds of the other pages. Raises
        StoreError."""
        question = self.question
        where = self.where._replace(steps=("features",) * question.facts)
        seeds = range(1, 1 + rows.usual_seeds(where.name, question.task))
        metrics = [question.metric]
        return rows.read(where, self.keys, [self.method.id], metrics, EPSILONS, seeds).pictures[0]

    def ends(self, guess: str) -> tuple[str, str]:
        """What the gain is counted from and up to, as charts name them. guess: id of the former."""
        best = lines.WITHOUT if self.question.reference is None else "your model"
        return lines.guess_name(guess), best


def page() -> None:
    blocks.heading(
        "The answer",
        "Say whom to protect and what you can afford to lose: the runs say whether it is enough.",
    )
    try:
        protect = widgets.switch(
            "Protect", "whom to protect", groups.PROTECT, "answer_protect", Protect.PERSON
        )
        with st.container(horizontal=True):
            data = sources.pick()
            dataset = sources.get(data)  # without it there is no task to choose
            task = predicted(data, protect)
        instrument(planned(asked(data, task, protect), rows.place(data), dataset))
    except (DpmcError, OSError) as error:
        blocks.problem(error)


def predicted(data: str, protect: Protect) -> Task:
    """What is predicted: what the data offer and a method protects, the usual first."""
    offered = [task for task in sources.tasks(data) if protect.possible(task)]
    usual = Task.RATINGS if Task.RATINGS in offered else Task.RANKING
    names = {task: groups.PREDICTS[task] for task in reversed(groups.PREDICTS) if task in offered}
    if st.session_state.get("answer_task", usual) not in names:
        del st.session_state["answer_task"]  # chosen for other data
    return widgets.choose(
        "Predict",
        "what is predicted",
        names,
        "answer_task",
        usual,
        help="Top lists: does the item a user took next stand among ten? Ratings: how far off are"
        " predicted stars? Likes: up or down?",
    )


def asked(data: str, task: Task, protect: Protect) -> Inquiry:
    """The question in full. Raises InvalidSetting."""
    epsilon = widgets.epsilon()
    metric = core.Inquiry(task=task, protect=protect).metric
    with st.grid(4, min_column_width=170):
        often = widgets.choose(
            "You publish",
            "how often you publish",
            words.OFTEN,
            "answer_often",
            52,
            help=glossary.help("composition"),
        )
        keep = widgets.number(
            "Keep at least (%)",
            "the share to keep",
            1.0,
            100.0,
            80.0,
            "answer_keep",
            step=5.0,
            format="%g",
            help="What must be left of what a method adds to guessing."
            f" {glossary.help('guessing')}",
        )
        delta = widgets.number(
            "delta",
            "delta",
            None,
            None,
            DELTA,
            "answer_delta",
            step=None,
            format="%e",
            help=glossary.help("delta"),
        )
        own = widgets.number(
            f"Your model's {metric.spoken}{' (%)' if metric.share else ''}",
            "your model's score",
            None,
            None,
            None,
            "answer_reference",
            step=None,
            format="%g",
            placeholder="none",
            help=f"{metric.means} Give the score of your own model on held-out ratings. The gain is"
            " then measured against it, and not against our best model without privacy.",
        )
    if own is not None and metric.share:
        own /= 100
    ids = [id for id in sources.mechanisms(data) if registry.get(id).task is task]
    facts = bool(widgets.facts(data, ids))
    return Inquiry(
        task=task,
        protect=protect,
        epsilon=epsilon,
        delta=delta,
        times=often,
        keep=keep / 100,
        reference=own,
        facts=facts,
    )


def over(question: Inquiry, advice: Advice, data: str) -> Grid:
    """The grid of its curve."""
    return question.grid(advice, data, seeds=SEEDS, epsilons=EPSILONS)


def planned(question: Inquiry, where: Place, dataset: Dataset) -> Planned:
    """The runs of a question, planned once. Raises DpmcError."""

    def made() -> Planned:
        advice = question.advice(dataset.ratings.public)
        data = [sweep.lean(sweep.Whole(dataset))]
        units = sweep.plan(question.grid(advice, where.data), data).units
        keys = sweep.plan(over(question, advice, where.data), data).keys
        return Planned(question, where, dataset, advice, units, keys)

    return state.kept("answer plan", (where, id(dataset), question), made)


def instrument(plan: Planned) -> None:
    """What is told before any run, the button, and the answer as it grows."""
    question, where, ratings = plan.question, plan.where, plan.dataset.ratings
    told = state.kept(
        "told from noise",
        (where.name, id(plan.dataset), plan.method),
        lambda: core.told_apart(plan.method, ratings),
    )
    if told is not None:
        st.markdown(f"{words.told_words(told, question, where.private)}.")
        st.caption(words.told_rule(question.task, question.protect))
    now = sweeps.look(where.folder, plan.name)
    running = now is not None and now.running
    kept = state.kept("answer runs", where.store, lambda: Kept.beside(where.store))
    buttons(plan, kept, now)

    def draw() -> None:
        again = sweeps.look(where.folder, plan.name)
        if running and again is not None:
            total = again.counts.get("total") or len(plan.units)
            rows.progress(again, min(again.counts.get("done", 0), total), total)
        finding = core.answer(question, plan.advice, plan.units, kept, ratings)
        if finding is not None:
            if where.private:
                said = words.said(finding)
                st.session_state["answer found"] = (
                    f"At epsilon {question.epsilon:g}: {said.verdict} {said.found}"
                )
            card(finding, plan)
            take_away(finding, plan, kept)
        curve(plan)

    rows.watch(where, plan.name, draw, running=running)


def buttons(plan: Planned, kept: Kept, now: Sweep | None) -> None:
    """Begin, stop, go on: one button at a time."""
    question, where, method = plan.question, plan.where, plan.method
    if now is not None and now.running:
        if st.button("Stop", icon=":material/stop:"):
            rows.cancel(where, plan.name)
            st.rerun()
        return
    own = {unit.key for unit in plan.units}
    missing = {key for key in own if kept.get(key) is None}
    there = plan.curve().lines
    whole = bool(there) and there[0].has(EPSILONS, SEEDS)
    if not missing and whole:
        return
    if now is not None and now.message:
        blocks.problem(DpmcError(now.message))
    if blocks.reserved("compute an answer", "What if shows curves that are there."):
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
                f"{many(len(runs), 'short training run')}: {blocks.escape(method.name)} at epsilon"
                f" {question.epsilon:g}, the reference and the floor"
                f"{'' if whole else ', then the curve'}."
            )
    if where.private and missing:
        st.caption(f"Nothing of it leaves this session. {rows.ON_DISK}")
    if pressed:
        st.session_state["mechanism"] = method.id  # what was asked about is at hand elsewhere too
        command = core.command(question, where.data, where.store, curve=not whole)
        link = rows.link(over(question, plan.advice, where.data), where)
        rows.begin(where, plan.name, command, {"title": plan.title, "link": link})
        st.rerun()


def card(finding: Finding, plan: Planned) -> None:
    """The answer, its verdict large."""
    said = words.said(finding)
    with st.container(border=True):
        st.header(words.plain(said.verdict), anchor=False)
        if finding.keeps is not None:
            keep = plan.question.keep
            blocks.picture(
                charts_answer.kept(plan.method.id, finding.keeps, keep, *plan.ends(finding.guess)),
                alt=words.plain(said.found),
                key="answer kept",
                config={"displayModeBar": False},
            )
        for text in filter(None, (said.found, said.unit, said.attacker, said.against, said.pays)):
            st.markdown(text)
        st.caption(f"{said.caution} {blocks.escape(said.tested)}")


def take_away(finding: Finding, plan: Planned, kept: Kept) -> None:
    """The answer on one page, its numbers, and its curve."""
    question, where, dataset = plan.question, plan.where, plan.dataset
    data = f"./{dataset.opened}" if where.private else where.name
    reading = dataset.reading if where.private else {}
    seeds = sorted({unit.seed for unit in plan.units})
    missing = {unit.seed for unit in plan.units if kept.get(unit.key) is None}
    measured = [seed for seed in seeds if seed not in missing] or seeds
    told = ["dpmc", *core.argv(question, data, measured, reading)]
    # What needs the session is taken here: files are made without it.
    title = f"The answer on {dataset.opened}" if where.private else plan.title
    picture, ends = plan.curve(), plan.ends(finding.guess)
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
            lambda: report.csv(words.table(finding, picture, *ends)),
        ),
    )
    grid = rows.typed(over(question, plan.advice, where.data), where)
    blocks.take(*files, picture=picture, argv=["dpmc", "sweep", *grid.argv()], shown=told)


def curve(plan: Planned) -> None:
    """What other epsilons keep."""
    question, id, picture = plan.question, plan.method.id, plan.curve()
    found = words.curve(picture, id, question.reference)
    if not found:
        return
    told = words.curve_words(found, question.keep)
    st.header(told.rstrip(".") or "At other epsilons", anchor=False)
    if not any(one.clear for one in found):
        return
    keep, epsilon, unit = question.keep, question.epsilon, question.change.label
    ends = plan.ends(picture.baseline(picture.lines[0]))
    blocks.chart(
        charts_answer.shares(id, found, keep, epsilon, *ends, counted=unit),
        alt=told or "The share of the gain at each epsilon.",
        key="answer curve",
        caption=f"{blocks.EVALUATION} Means over {len(picture.lines[0].seeds)} seeds; the answer is"
        f" over {len(core.SEEDS)}.",
        table=words.curve_table(found, picture),
    )


def printed(title: str, finding: Finding, ends: tuple[str, str], command: str) -> str:
    """An answer on one page to print, for those who decide, with its date and its picture.

    ends: what the gain is counted from, and up to.
    """
    said, today = words.said(finding), date.today()
    first, *rest = (words.plain(one) for one in said if one)
    chart = []
    if finding.keeps is not None:
        id, keep = finding.mechanism.id, finding.question.keep
        chart = report.charts([("", charts_answer.kept(id, finding.keeps, keep, *ends))])
    made = f"{today.day} {today:%B %Y}, DPMC Lab {paths.version()}"
    parts = [text.paragraphs(made), text.heading(first), *chart, text.paragraphs(*rest)]
    return report.page(title, parts, command)


shell.enter()
page()
