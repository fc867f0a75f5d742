"""One run, live: train a mechanism, then look at what it learned."""

import secrets

import streamlit as st

from dpmc_core import registry
from dpmc_core.errors import DpmcError
from dpmc_core.metrics import headline
from dpmc_core.problem import SEED, build_problem, split_words
from dpmc_core.views import cards, run_card, training
from dpmc_core.views.run_card import Run
from pages.ui import (
    blocks,
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
from pages.ui.jobs import Snapshot

JOB = "train"


def page() -> None:
    blocks.heading(
        "Train one mechanism",
        "Choose data, a mechanism and epsilon, then press Train and watch it learn.",
    )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        data = sources.pick()
        id = widgets.mechanism(sources.mechanisms(data))
        wide = widgets.wide()
    epsilon = widgets.epsilon(wide)
    try:
        dataset = sources.get(data)
    except (DpmcError, OSError) as error:
        blocks.problem(error)
        return
    cls = registry.get(id)
    chosen = widgets.settings(cls)
    with st.expander("Preparation, hold-out and randomness", icon=":material/shuffle:"):
        timed = dataset.ratings.times is not None
        steps, split = prepare.controls(dataset.ratings.public, cls.task, timed=timed)
        seed = randomness()
    mechanism = widgets.build(id, epsilon, chosen)
    job = state.jobs().get(JOB)
    if blocks.start_and_stop(job, "Train", ":material/play_arrow:", possible=mechanism is not None):
        fresh = seed is None
        number = secrets.randbits(128) if fresh else seed
        work = runs.train(
            mechanism,
            lambda: build_problem(dataset, cls.task, steps=steps, split=split, seed=number),
            number,
            data=dataset.opened,
            reading=dataset.reading,
            title=dataset.title,
            split=split,
            fresh=fresh,
            spend=state.tally().spend if data == sources.UPLOAD else None,
        )
        state.jobs().start(JOB, work, about=data)
        st.rerun()
    if data == sources.UPLOAD:
        rows.tally()
    if job is None:
        st.caption("Nothing has been trained yet in this session.")
        return
    blocks.ticking(JOB, live)
    now = job.snapshot()
    if drawable(now) and (now.result is not None or not now.active):
        with st.expander("How it trained, round by round", icon=":material/show_chart:"):
            rounds(now, "rounds")
    if now.result is not None:
        if now.state == "stopped" and not now.result.result.stopped:
            st.warning("Stopped before everything was trained that it is compared with.")
        result(now.result)


def randomness() -> int | None:
    """The seed, or None for fresh randomness from the operating system."""
    left, right = st.columns([1, 3], vertical_alignment="bottom")
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


def live(now: Snapshot) -> None:
    """Progress, and until there is a result objective and metric per round."""
    blocks.progress_or_problem(now)
    if drawable(now) and now.active and now.result is None:
        rounds(now, "live")


def drawable(now: Snapshot) -> bool:
    return any(p.objective is not None or p.metric is not None for p in now.points)


def rounds(now: Snapshot, key: str) -> None:
    """Objective and metric round by round."""
    last = now.points[-1]
    cls = registry.get(last.mechanism)
    metric = headline(cls.task)
    lower = ", lower is better" if metric.lower else ""
    quality = f"{metric.title}<br>(held out{lower})"
    known = [p for p in now.points if p.objective is not None]
    seen = [p for p in now.points if p.metric is not None]
    lines = {
        "objective": ([p.round for p in known], [p.objective for p in known]),
        quality: ([p.round for p in seen], [p.metric for p in seen]),
    }
    shown = {name: line for name, line in lines.items() if line[0]}
    names = [name.split("<br>")[0] for name in shown]
    alt = f"{cls.name}: {' and '.join(names)} over {last.round} rounds."
    if seen:
        latest = metric.text(seen[-1].metric)
        alt += f" Latest {metric.spoken}: {latest} in round {seen[-1].round}."
    theme = state.theme()
    blocks.chart(
        state.kept(  # until there are new points: a tick may come without any
            "live figure",
            (now.points, theme),
            lambda: charts_train.live(last.mechanism, shown, last.total, theme),
        ),
        alt=alt,
        caption=blocks.EVALUATION
        + " An objective computed from raw ratings is not private either: for watching only."
        * any(p.raw for p in known),
        table=None
        if key == "live"
        else {
            "round": [p.round for p in now.points],
            "objective": [p.objective for p in now.points],
            metric.spoken: [p.metric for p in now.points],
        },
        key=key,
    )


def result(run: Run) -> None:
    """Everything about a finished run: the answer, pictures of the model, what it recommends."""
    found = run.result
    epsilon = cards.epsilon_text(found.guarantee.claimed.epsilon)
    st.header(
        f"{found.mechanism.name} on {blocks.escape(run.title)}, epsilon {epsilon}", anchor=False
    )
    if found.stopped:
        st.warning(
            f"Stopped after {found.rounds} rounds: the numbers are those of the model so far.",
            icon=":material/stop_circle:",
        )
    left, right = st.columns([3, 2], gap="large")
    with left:
        answer(run)
    with right, st.container(border=True):
        blocks.guarantee(found.guarantee)
    pictures = report.pictures(run, state.theme())
    for column, one in zip(st.columns(len(pictures), gap="medium"), pictures, strict=True):
        with column:
            st.markdown(f"**{one.question}**")
            if one.fig is None:
                st.caption(one.caption)
            else:
                blocks.chart(
                    one.fig, alt=one.alt, key=one.key, caption=one.caption, table=one.table
                )
    recommendations(run)
    downloads(run)


def answer(run: Run) -> None:
    """The metrics, with and without privacy, and of guessing."""
    found, metric = run.result, headline(run.result.mechanism.task)
    st.caption(f"{metric.title} on {split_words(found.problem.split)}")
    table = run_card.metrics_table(run_card.methods(found))
    tiles = zip(table["method"], table[metric.name], strict=True)
    for column, (name, value) in zip(st.columns(len(table["method"])), tiles, strict=True):
        column.metric(name, value)
    if len(found.metrics) > 1:
        blocks.show_table(table, alt="All metrics of the run and its baselines")
    rounds = "round" if found.rounds == 1 else "rounds"
    steps = blocks.escape(", ".join(found.problem.steps)) or "nothing"
    st.caption(
        f"{blocks.EVALUATION} {found.rounds} {rounds} in {found.seconds:.1f} s; prepared with"
        f" {steps}; " + ("seed not kept." if run.fresh else f"seed {found.seed}.")
    )
    if not run.fresh:
        st.caption(run_card.SEED_NOTE)


@st.fragment
def recommendations(run: Run) -> None:
    """The top 10 of one user, with and without privacy."""
    train = run.result.problem.train
    st.header("What one person would be shown")
    user = widgets.number(
        "User",
        "the user",
        1,
        train.public.users,
        1,
        "top_user",
        help="Users are counted from 1.",
        width=160,
    )
    columns = st.columns(2, gap="large")
    models = (("With privacy", run.result.model), ("Without privacy", run.clear))
    lists = [training.top_items(m, train, user - 1) if m else () for _, m in models]
    same = {item.item for item in lists[0]} & {item.item for item in lists[1]}
    for column, (label, model), items in zip(columns, models, lists, strict=True):
        column.markdown(f"**{label}**")
        if model is None:
            column.caption("It is trained last: not there yet, or stopped before.")
            continue
        both = ["yes" if item.item in same else "" for item in items]
        blocks.show_table(
            ({"in both lists": both} if run.clear else {})
            | {
                "item": [item.title for item in items],
                "score": [round(item.score, 3) for item in items],
            },
            place=column,
            alt=f"Top 10 items of user {user}, {label.lower()}",
        )
    count = f"{len(same)} of {len(lists[0])} items are in both lists. " if run.clear else ""
    st.caption(
        f"{count}Items the user rated in training are left out; the list without privacy is for"
        " comparison only."
    )


def downloads(run: Run) -> None:
    """The run on paper, the model, and how to repeat it."""
    found = run.result
    st.header("Take it with you")
    name = f"{found.mechanism.id}-{run.data}"
    files = [
        ("Run card (JSON)", "json", "application/json", lambda: run_card.as_json(run)),
        ("Run card (Markdown)", "md", "text/markdown", lambda: run_card.markdown(run)),
        ("Report (HTML)", "html", "text/html", lambda: report.html(run)),
    ]
    if found.model.factors is not None:
        kind = "application/octet-stream"
        files.append(("Factors (NPZ)", "npz", kind, lambda: run_card.factors(found)))
    with st.container(horizontal=True):
        for label, ending, mime, make in files:
            st.download_button(
                label,
                make,  # called when the button is pressed
                f"{name}.{ending}",
                mime,
                on_click="ignore",
                icon=":material/download:",
            )
    if found.model.factors is not None:
        why = "" if run.fresh else f" {run_card.SEED_NOTE}"
        st.caption(
            f"Do not publish these factors: their noise is for simulation.{why} A copy that may be"
            " published, where that can be proved, is made by `dpmc release`."
        )
    st.markdown("The same run on the command line:")
    st.code(run_card.command(run), language="bash", wrap_lines=True)
    with st.expander("The same run in Python"):
        st.code(run_card.code(run))


shell.enter()
page()
