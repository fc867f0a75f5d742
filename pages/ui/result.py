"""A finished run: the answer, pictures of the model, what it recommends, and downloads."""

from __future__ import annotations

import streamlit as st

from dpmc_core.metrics import METRICS, headline
from dpmc_core.model import Task
from dpmc_core.problem import split_words
from dpmc_core.views import cards, ranking, run_card, training
from pages.ui import blocks, charts_ranking, charts_train, report, state
from pages.ui.runs import Run

COPY = "A copy that may be published, where that can be proved, is made by `dpmc release`."


def show(run: Run) -> None:
    """Everything about one run."""
    found = run.result
    epsilon = cards.epsilon_text(found.guarantee.claimed.epsilon)
    st.subheader(
        f"{found.mechanism.name} on {blocks.escape(run.title)}, epsilon {epsilon}", anchor=False
    )
    if found.stopped:
        st.warning(
            f"Stopped after {found.rounds} rounds: the numbers are those of the model so far.",
            icon=":material/stop_circle:",
        )
    left, right = st.columns([3, 2], gap="large")
    with left:
        _answer(run)
    with right, st.container(border=True):
        blocks.guarantee(found.guarantee)
    with st.container(horizontal=False):
        _pictures(run)
    recommendations(run)
    downloads(run)


def _answer(run: Run) -> None:
    found, metric = run.result, headline(run.result.mechanism.task)
    roles = {found.mechanism.twin: "No privacy", found.mechanism.floor: "Guessing"}
    tiles = [(found.mechanism.name, found.metrics)]
    tiles += [(roles.get(id, id), values) for id, values in found.baselines.items()]
    st.caption(f"{metric.title} on {split_words(found.problem.split)}")
    for column, (name, values) in zip(st.columns(len(tiles)), tiles, strict=True):
        column.metric(name, metric.text(values[metric.name]))
    table = {"method": [name for name, _ in tiles]} | {
        m: [METRICS[m].text(values[m]) for _, values in tiles] for m in found.metrics
    }
    if len(found.metrics) > 1:
        st.dataframe(table, hide_index=True, alt="All metrics of the run and its baselines")
    rounds = "round" if found.rounds == 1 else "rounds"
    steps = ", ".join(found.problem.steps) or "nothing"
    st.caption(
        f"{blocks.EVALUATION} {found.rounds} {rounds} in {found.seconds:.1f} s; prepared with"
        f" {steps}; " + ("seed not kept." if run.fresh else f"seed {found.seed}.")
    )
    if not run.fresh:
        st.caption(run_card.SEED_NOTE)


def _pictures(run: Run) -> None:
    found, theme = run.result, state.theme()
    if found.mechanism.task is Task.RANKING:
        _ranking(run)
        return
    id, name, task = found.mechanism.id, found.mechanism.name, found.mechanism.task
    test, binary = found.problem.test, task is Task.BINARY
    link = training.link_of(found.mechanism)
    first, second, third = st.columns(3, gap="medium")
    with first:
        st.markdown("**How large are its errors?**")
        mine = training.cdf(task, found.model, test, link)
        theirs = training.cdf(task, run.clear, test, link) if run.clear else None
        axis = "error of the chance of +1" if binary else "error (rating points)"
        blocks.chart(
            charts_train.errors(id, mine, theirs, name, axis, theme),
            alt=training.cdf_words(mine, theirs),
            key="errors",
            caption="Further up and left is better. Held-out ratings, not private.",
            table={"error up to": mine.error.round(3), "share": mine.share.round(4)},
        )
    with second:
        st.markdown("**Does it mean what it says?**")
        honest = training.calibration(task, found.model, test, link)
        other = training.calibration(task, run.clear, test, link) if run.clear else None
        blocks.chart(
            charts_train.calibration(id, honest, other, name, binary, theme),
            alt=training.calibration_words(honest),
            key="calibration",
            caption="On the dotted line it is honest. Held-out ratings, not private.",
            table={
                "predicted": honest.predicted.round(3),
                "true": honest.observed.round(3),
                "ratings": honest.size,
            },
        )
    with third:
        st.markdown("**How much structure is left?**")
        values = training.spectrum(found.model)
        if values is None:
            st.caption(
                "This model is a whole noisy matrix without factors: its singular values would be"
                " those of the noise."
            )
        else:
            clear = training.spectrum(run.clear) if run.clear else None
            blocks.chart(
                charts_train.spectrum(id, values, clear, name, theme),
                alt=training.spectrum_words(values),
                key="spectrum",
                caption="Large values stand for strong patterns, small ones for detail or noise.",
                table={"number": range(1, len(values) + 1), "singular value": values.round(3)},
            )


def _ranking(run: Run) -> None:
    found, theme = run.result, state.theme()
    roles = {found.mechanism.twin: "No privacy", found.mechanism.floor: "Guessing"}
    methods = {found.mechanism.name: found.metrics}
    methods |= {roles.get(id, id): values for id, values in found.baselines.items()}
    bars = next(iter(ranking.bars(methods).values()))
    st.markdown("**How often is the next item among the first ten?**")
    blocks.chart(
        charts_ranking.run_bars(found.mechanism.id, methods, theme),
        alt=ranking.bars_words(methods),
        key="ranking",
        caption="HR@10: the held-out item is among the first ten; NDCG@10 counts how far up. Among"
        " 99 items drawn at random it is a far easier race than among all unseen items.",
        table={"method": list(methods)}
        | {m.panel: [values[m.name] for values in methods.values()] for m in bars},
    )


@st.fragment
def recommendations(run: Run) -> None:
    """The top 10 of one user, with and without privacy."""
    train = run.result.problem.train
    st.subheader("What one person would be shown")
    user = st.number_input(
        "User",
        1,
        train.public.users,
        1,
        key="top_user",
        persist_state="session",
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
        column.dataframe(
            ({"in both lists": both} if run.clear else {})
            | {
                "item": [item.title for item in items],
                "score": [round(item.score, 3) for item in items],
            },
            hide_index=True,
            alt=f"Top 10 items of user {user}, {label.lower()}",
        )
    count = f"{len(same)} of {len(lists[0])} items are in both lists. " if run.clear else ""
    st.caption(
        f"{count}Items the user rated in training are left out; the list without privacy is for"
        " comparison only."
    )


def downloads(run: Run) -> None:
    """The run on paper, the model, and how to repeat it."""
    found, fresh = run.result, run.fresh
    st.subheader("Take it with you")
    name = f"{found.mechanism.id}-{run.data}"
    files = [
        ("Run card (JSON)", "json", "application/json", lambda: run_card.as_json(found, fresh)),
        (
            "Run card (Markdown)",
            "md",
            "text/markdown",
            lambda: run_card.markdown(found, run.title, fresh),
        ),
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
        why = "" if fresh else f" {run_card.SEED_NOTE}"
        st.caption(f"Do not publish these factors: their noise is for simulation.{why} {COPY}")
    repeat = run_card.Repeat(found, run.data, run.split, fresh, run.reading)
    st.markdown("The same run on the command line:")
    st.code(run_card.command(repeat), language="bash", wrap_lines=True)
    with st.expander("The same run in Python"):
        st.code(run_card.code(repeat))
