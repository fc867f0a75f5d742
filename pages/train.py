"""One run, live: train a mechanism, then look at what it learned."""

import secrets
from collections.abc import Callable, Collection, Sequence
from typing import Any

import streamlit as st

from dpmc_core import registry
from dpmc_core.data import Dataset, parse_step
from dpmc_core.data.synthetic import SAMPLES
from dpmc_core.errors import DpmcError
from dpmc_core.lab.study import ledger
from dpmc_core.lab.teach import glossary
from dpmc_core.lab.views import as_published, cards, lines, run_card, training
from dpmc_core.lab.views.run_card import KeptRun, Run
from dpmc_core.lab.views.training import Film, TopItem
from dpmc_core.model import Mechanism, Task
from dpmc_core.problem import (
    SEED,
    Problem,
    build_problem,
    default_split,
    prepared_facts,
    split_words,
)
from pages.ui import (
    blocks,
    classroom,
    film,
    prepare,
    report,
    rows,
    runs,
    shell,
    sources,
    state,
    widgets,
)
from pages.ui.charts import train as charts_train
from pages.ui.jobs import Job, Snapshot, look

JOB = "train"


def page() -> None:
    blocks.heading(
        "Train one mechanism",
        "Choose data, a mechanism and epsilon, then press Train, or Step for one round at a time.",
    )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        data = sources.pick()
        id = widgets.mechanism(data)
        wide = widgets.wide()
    epsilon = widgets.epsilon(wide)
    try:
        dataset = sources.get(data)
    except (DpmcError, OSError) as error:
        blocks.problem(error)
        return
    cls = registry.get(id)
    left, right = st.columns(2)
    with left:
        chosen = widgets.settings(cls)
        if widgets.as_published() and chosen is not None:
            chosen = paper_s(id, chosen, dataset, epsilon)
    with right, st.expander("Preparation, hold-out and randomness", icon=":material/shuffle:"):
        timed = dataset.ratings.times is not None
        steps, split = prepare.controls(dataset.ratings.public, cls.task, timed=timed)
        steps += [parse_step(step) for step in widgets.facts(data, [id])]
        seed = randomness()
    mechanism = widgets.build(id, epsilon, chosen)
    job = state.jobs().get(JOB)
    now = look(job)
    possible = may_train(data) and mechanism is not None
    pressed = buttons(job, now, possible=possible)
    if pressed and possible and mechanism is not None:
        fresh = seed is None
        number = secrets.randbits(128) if fresh else seed
        usual = not steps and split == default_split(cls.task)
        work = runs.train(
            mechanism,
            lambda: build_problem(dataset, cls.task, steps=steps, split=split, seed=number),
            number,
            spend=spending(data, dataset, number),
            reference=expected(data, id, seed) if usual else (),
            number=state.shelf().number(),
            data=dataset.opened,
            reading=dataset.reading,
            title=dataset.title,
            split=split,
            fresh=fresh,
        )
        held = pressed == "Step"
        job = state.jobs().start(JOB, work, data, classroom.places(), held)
        if held:
            job.halt()
        st.rerun()
    if data == sources.UPLOAD:
        rows.ledger()
    if job is None:
        example(data, mechanism)
        strip()
        return
    blocks.ticking(job, now, stage)
    run: Run | None = now.result
    if run is not None:
        state.shelf().put(run_card.keep(run, job.about))
    strip()
    if run is not None:
        if now.state == "stopped" and not run.result.stopped:
            st.warning("Stopped before everything was trained that it is compared with.")
        result(run)
    if drawable(now) and (run is not None or not now.active):
        with st.expander("How it trained, round by round", icon=":material/show_chart:"):
            rounds(now)
    if run is not None:
        downloads(run)


def may_train(data: str) -> bool:
    """Whether this session may train on these data; a sentence says why not."""
    if data not in SAMPLES:
        return not blocks.reserved("train on this", "The samples are for everybody.")
    why = "Runs of visitors are switched off at the moment."
    return classroom.visitors_train() or not blocks.reserved("train", why)


def paper_s(
    id: str, chosen: dict[str, Any], dataset: Dataset, epsilon: float
) -> dict[str, Any] | None:
    """The settings of the mechanism's paper, but for those that are chosen; what that changes."""
    try:
        public = prepared_facts(dataset.ratings.public, registry.get(id).task)
        switched = as_published.switched(id, chosen, public, epsilon=epsilon)
    except DpmcError as error:
        blocks.problem(error)
        return None
    st.caption(blocks.escape(" ".join(as_published.words(switched))))
    return as_published.with_published(id, chosen)


def spending(data: str, dataset: Dataset, seed: int) -> Callable[[Mechanism, Problem], None]:
    """Puts the runs on an upload in its ledger; samples and public sets have none here."""
    if data != sources.UPLOAD:
        return lambda *_: None
    tally, source = state.tally(), ledger.source_of(dataset)

    def spend(method: Mechanism, problem: Problem) -> None:
        tally.add(ledger.fits([method], problem, source, seed))

    return spend


def buttons(job: Job | None, now: Snapshot, *, possible: bool) -> str:
    """What runs the training; which of the two that begin one was pressed, if any."""
    pressed = ""
    with st.container(horizontal=True):
        ready = possible and not now.active
        if st.button("Train", type="primary", icon=":material/play_arrow:", disabled=not ready):
            pressed = "Train"
        going = job is not None and now.active and not now.stopping and now.result is None
        if st.button(
            "Step",
            icon=":material/skip_next:",
            disabled=not (ready or going),
            on_click=job.step if job is not None and going else None,
            help="One round at a time.",
        ):
            pressed = "" if going else "Step"
        if now.held and job is not None:
            st.button("Go on", icon=":material/resume:", on_click=job.resume, disabled=not going)
        else:
            st.button(
                "Pause",
                icon=":material/pause:",
                on_click=job.pause if job is not None and going else None,
                disabled=not going,
            )
        blocks.stop(job, now)
        st.button(
            "Reset",
            icon=":material/restart_alt:",
            on_click=lambda: state.jobs().drop(JOB),
            disabled=job is None,
            help="Back to the start. The runs that are remembered stay.",
        )
    return pressed


def expected(data: str, id: str, seed: int | None) -> tuple[float, str] | tuple[()]:
    """What is reached without privacy and what that is, where curves came with the app: to fix the
    axis. On the split of the seed where one of them has it, else over all of theirs."""
    found = rows.shipped(data, id, (seed or 0,)) or rows.shipped(data, id)
    without = found and found[0].without
    if not without:
        return ()
    mean, _, seeds = without.level
    return mean, lines.WITHOUT + ", curve's mean" * (seeds > 1)


def stage(now: Snapshot) -> None:
    """Progress, and the run as it goes; afterwards its rounds can be replayed."""
    blocks.progress_or_problem(now)
    if now.shown is not None:
        film.show(now.shown, live=now.active and now.result is None)


def example(data: str, mechanism: Mechanism | None) -> None:
    """Before the first run: what one looks like, on a part of a sample."""
    if mechanism is None:
        return
    clicks = mechanism.task is Task.RANKING
    sample = data if data in SAMPLES else ("bookshop-clicks" if clicks else "movie-night")
    try:
        shown = _example(sample, repr(mechanism), mechanism)
    except DpmcError:  # settings for other data
        return
    st.caption(
        f"An example: {mechanism.name} on {SAMPLES[sample].title}, the busiest people and titles"
        " only. Press Train for a run of your own."
    )
    film.show(shown)


@st.cache_resource(max_entries=100, show_spinner=False)
def _example(sample: str, settings: str, _mechanism: Mechanism) -> Film:  # noqa: ARG001
    return runs.example(_mechanism, sources.get(sample).ratings)


def randomness() -> int | None:
    """The seed, or None for fresh randomness from the operating system."""
    left, right = st.columns(2, vertical_alignment="bottom")
    fresh = widgets.toggle(
        "Fresh randomness",
        "fresh randomness",
        "fresh",
        place=left,
        help="Take the seed from the operating system and forget it.",
    )
    seed = widgets.number(
        "Seed",
        "the seed",
        0,
        2**31,
        SEED,
        "seed",
        place=right,
        disabled=fresh,
        help=run_card.SEED_NOTE,
    )
    return None if fresh else int(seed)


def drawable(now: Snapshot) -> bool:
    return any(p.objective is not None or p.metric is not None for p in now.points)


def rounds(now: Snapshot) -> None:
    """Objective and metric round by round."""
    last = now.points[-1]
    cls = registry.get(last.mechanism)
    metric = now.shown.metric
    known = [p for p in now.points if p.objective is not None]
    seen = [p for p in now.points if p.metric is not None]
    names = ["objective"] * bool(known) + [metric.title] * bool(seen)
    alt = f"{cls.name}: {' and '.join(names)} over {last.round} rounds."
    if seen:
        latest = metric.text(seen[-1].metric)
        alt += f" Latest {metric.spoken}: {latest} in round {seen[-1].round}."
    blocks.chart(
        state.kept(
            "live figure",
            now.points,
            lambda: charts_train.rounds(
                last.mechanism,
                [(p.round, p.objective) for p in known],
                [(p.round, p.metric) for p in seen],
                metric,
                now.shown.axis,
            ),
        ),
        alt=alt,
        caption=blocks.EVALUATION
        + " An objective computed from raw ratings is not private either: for watching only."
        * any(p.raw for p in known),
        table={
            "round": [p.round for p in now.points],
            "objective": [p.objective for p in now.points],
            metric.spoken: ["" if p.metric is None else metric.text(p.metric) for p in now.points],
        },
        key="rounds",
    )


def strip() -> None:
    """The runs that are remembered; two that are ticked are compared."""
    shelf = state.shelf()
    if not shelf.runs:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.header("Your runs", anchor=False, width="content")
        words = "Tick two to compare them." if len(shelf.runs) > 1 else "Train again to compare."
        st.caption(f"{words} The last {shelf.LIMIT} stay, and what is pinned.", width="stretch")
        st.button(
            "Clear",
            type="tertiary",
            icon=":material/delete:",
            on_click=shelf.clear,
            help="Forget all runs that are not pinned.",
        )
    with st.container(horizontal=True, gap="small"):
        for run in shelf.runs:
            card(run)
    if shelf.pair is not None:
        compare(*shelf.pair)


def card(run: KeptRun) -> None:
    """A remembered run: what it was, what it reached."""
    shelf, number = state.shelf(), run.number
    with st.container(border=True, width=200, gap="small", key=f"card {number}"):
        more = " · stopped" if run.stopped else ""
        st.markdown(f"**Run {number}** · {blocks.escape(run.facts['mechanism'])}")
        epsilon = run.facts.get("epsilon")
        at = "" if epsilon is None else f" · epsilon {epsilon}"
        st.caption(f"{blocks.escape(run.title)}{at}{more}")
        st.markdown(f"{run.metric.title} **{run.metric.full(run.value)}**")
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


def compare(one: KeptRun, other: KeptRun) -> None:
    """Two remembered runs: curves overlaid, lists side by side, settings where they differ."""
    st.header(run_card.compared(one, other), anchor=False)
    left, right = st.columns([3, 2], gap="large")
    with left:
        if one.metric == other.metric:
            chart = state.kept(
                "two runs",
                (one.number, other.number, one.film, other.film),
                lambda: charts_train.both(one, other),
            )
            words = [f"Run {r.number}. {training.film_words(r.film)}" for r in (one, other)]
            blocks.chart(
                chart,
                alt=" ".join(words),
                caption="One draw of the noise each: another seed may turn a small difference"
                " around.",
                table=run_card.rounds_table(one, other),
                key="two runs",
            )
        else:
            st.markdown("They predict different things, so their numbers share no axis.")
    with right:
        differing = run_card.differing(one, other)
        if differing["what differs"]:
            blocks.show_table(differing, alt="Settings of the two runs that differ")
        else:
            st.markdown("Their settings are the same.")
    person, theirs = (run.film.corner.person for run in (one, other))
    if one.about != other.about or person != theirs:
        return
    same = {item.item for item in one.top} & {item.item for item in other.top}
    who = blocks.escape(one.film.corner.names[one.film.corner.middle])
    many = "title" if len(same) == 1 else "titles"
    st.markdown(f"**What person {who} would be shown: {len(same)} {many} in both (bold)**")
    lists = [(f"Run {run.number}", run.top) for run in (one, other)]
    if other.clear is not None:
        lists.append(("Without privacy", other.clear))
    for column, (name, top) in zip(st.columns(len(lists)), lists, strict=True):
        with column:
            titles(name, top, same)


def titles(name: str, top: Sequence[TopItem], bold: Collection[int]) -> None:
    """A list of titles in order, some of them bold."""
    st.markdown(f"**{name}**")
    text = [(blocks.escape(item.title), item.item in bold) for item in top]
    marked = [f"**{words}**" if strong else words for words, strong in text]
    st.markdown("\n".join(f"{k}. {words}" for k, words in enumerate(marked, 1)) or "Nothing yet.")


def result(run: Run) -> None:
    """Everything about a finished run: people and titles, then numbers, then what it learned."""
    found = run.result
    epsilon = cards.epsilon_text(found.guarantee.claimed.epsilon)
    st.header(run_card.finding(found), anchor=False)
    st.caption(
        f"{found.mechanism.name} on {blocks.escape(run.title)}, epsilon {epsilon}"
        f" {found.guarantee.change.label}"
    )
    if found.stopped:
        st.warning(
            f"Stopped after {found.rounds} rounds: the numbers are those of the model so far.",
            icon=":material/stop_circle:",
        )
    left, right = st.columns([3, 2], gap="large")
    with left:
        recommendations(run)
    with right, st.container(border=True):
        blocks.guarantee(found.guarantee, found.mechanism.id)
    answer(run)
    pictures = report.pictures(run)
    for column, one in zip(st.columns(len(pictures), gap="medium"), pictures, strict=True):
        with column:
            st.markdown(f"**{one.question}**")
            if one.fig is None:
                st.caption(one.caption)
            else:
                blocks.chart(
                    one.fig, alt=one.alt, key=one.key, caption=one.caption, table=one.table
                )


def answer(run: Run) -> None:
    """The metrics, with and without privacy, and of guessing."""
    found, metric = run.result, run_card.metric_of(run.result)
    methods = run_card.methods(found)
    facts = registry.uses_facts(found.problem.steps)
    curve = run_card.beside(run, rows.shipped(run.data, found.mechanism.id, facts=facts))
    st.caption(
        f"{metric.panel} on {split_words(found.problem.split)}: one split and one draw of noise"
        + blocks.escape(f"; {curve}" * bool(curve)),
        help=f"{metric.means} {glossary.help('held_out')}",
    )
    for column, (name, values) in zip(st.columns(len(methods)), methods.items(), strict=True):
        term = glossary.named(name.lower())
        column.metric(name, metric.full(values[metric.name]), help=term and term.words)
    if len(found.metrics) > 1:
        table = run_card.metrics_table(methods)
        blocks.show_table(table, alt="All metrics of the run and its baselines")
    st.caption(
        f"{blocks.EVALUATION} {found.rounds} round{'s' * (found.rounds > 1)} in"
        f" {found.seconds:.1f} s; prepared with"
        f" {blocks.escape(', '.join(found.problem.steps)) or 'nothing'}; seed"
        f" {'not kept' if run.fresh else found.seed}."
    )


@st.fragment
def recommendations(run: Run) -> None:
    """The top 10 of one person, without and with privacy."""
    train = run.result.problem.train
    left, right = st.columns([1, 3], vertical_alignment="bottom")
    user = widgets.number(
        "Person",
        "the person",
        1,
        train.public.users,
        run.film.corner.person + 1 if run.film else 1,
        "top_user",
        place=left,
        help="Counted from 1. At first the one with the median number of ratings.",
    )
    found = training.top_items(run.result.model, train, user - 1)
    clear = training.top_items(run.clear, train, user - 1) if run.clear else ()
    same = {item.item for item in found} & {item.item for item in clear}
    if run.clear:
        right.markdown(
            f"**{len(same)} of {len(found)}** titles for person {user} are in both lists (bold)."
        )
    left, right = st.columns(2)
    with left:
        if run.clear:
            titles("Without privacy", clear, same)
        else:
            st.markdown("**Without privacy**")
            st.caption("Trained last: not there yet, or stopped before.")
    with right:
        titles("With privacy", found, same)
    st.caption("Left out: what the person rated in training. Without privacy: to compare only.")


def downloads(run: Run) -> None:
    """The run on paper, the model, and how to repeat it."""
    st.header("Take it with you")
    if classroom.allowed():
        files(run)
    st.markdown("The same run on the command line:")
    st.code(run_card.command(run), language="bash", wrap_lines=True)
    with st.expander("The same run in Python"):
        st.code(run_card.code(run))


def files(run: Run) -> None:
    found = run.result
    name = f"{found.mechanism.id}-{run.data}"
    offered = [
        ("Run card (JSON)", "json", "application/json", lambda: run_card.as_json(run)),
        ("Run card (Markdown)", "md", "text/markdown", lambda: run_card.markdown(run)),
        ("Report (HTML)", "html", "text/html", lambda: report.html(run)),
    ]
    if found.model.factors is not None:
        kind = "application/octet-stream"
        offered.append(("Factors (NPZ)", "npz", kind, lambda: run_card.factors(found)))
    with st.container(horizontal=True):
        for label, ending, mime, make in offered:
            st.download_button(
                label,
                make,  # called when the button is pressed
                f"{name}.{ending}",
                mime,
                on_click="ignore",
                icon=":material/download:",
            )
    st.caption("A picture: point at a chart and press its camera.")
    if found.model.factors is not None:
        why = "" if run.fresh else f" {run_card.SEED_NOTE}"
        st.caption(
            f"Do not publish these factors: their noise is for simulation.{why} A copy that may be"
            " published, where that can be proved, is made by `dpmc release`."
        )


shell.enter()
page()
