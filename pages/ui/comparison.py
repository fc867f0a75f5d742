"""What the Compare page shows of its rows: the curves, and what follows from them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import plotly.graph_objects as go
import streamlit as st

from dpmc_core import registry
from dpmc_core.views import budget, cards, compare, crossover, twins
from dpmc_core.views.compare import Count, Placed
from dpmc_core.views.curves import HEADLINE, amount, interval, is_share, spoken, title
from pages.ui import blocks, grid, report_compare, rows, sources, state
from pages.ui.charts import LIGHT, Theme
from pages.ui.charts import compare as charts_compare
from pages.ui.grid import Choice, Place
from pages.ui.rows import Rows

_SEED = 0  # of the bootstrap: the same rows say the same
_COUNTS = {count: count.value for count in Count}


def show(choice: Choice, where: Place, there: Rows, *, running: bool) -> None:
    """Everything there is to see, from the rows so far; an empty chart before the first."""
    count = _count()
    placed = [compare.place(line, count) for line in there.lines]
    left, right = st.columns([3, 2], gap="large")
    with left:
        blocks.chart(
            _figure(choice, there, placed, count),
            alt=words(choice, there, placed),
            caption=f"{caption(placed)} {blocks.escape(there.shipped)}",
            table=long_table(placed),
            key="comparison",
        )
    with right:
        if placed:
            means = wide_table(placed)
            wide = 16 + 7 * max(map(len, means["mechanism"]))  # none is cut off
            st.dataframe(
                means,
                hide_index=True,
                alt="Means over seeds: one row per mechanism, one column per epsilon",
                column_config={
                    "mechanism": st.column_config.TextColumn(pinned=True, width=min(240, wide))
                },
            )
        for one in placed:
            if not one.solid:
                st.markdown(
                    f":material/radio_button_unchecked: **{one.line.label}** is hollow:"
                    f" {blocks.escape(one.reason)}."
                )
    for sentence in above(choice, there, placed):
        st.caption(blocks.escape(sentence))
    if running:
        st.caption("What follows from the curves is said here once the runs are through.")
    elif placed:
        consequences(choice, where, there, placed)


def consequences(choice: Choice, where: Place, there: Rows, placed: list[Placed]) -> None:
    """Who is better where, what a wanted quality costs, and everything to take along."""
    left, right = st.columns(2, gap="large")
    won, rest = verdicts(placed)
    with left:
        st.subheader("Which is better, and where?", anchor=False)
        for sentence in won:
            st.markdown(f"- {blocks.escape(sentence)}")
        if len(placed) > 1:
            st.caption(crossover.HOW)
        if rest:
            with st.expander(f"Pairs the seeds cannot tell apart: {len(rest)}", type="compact"):
                for sentence in rest:
                    st.markdown(f"- {blocks.escape(sentence)}")
    with right:
        st.subheader("What does a wanted quality cost?", anchor=False)
        planner(choice, there, placed)

    def report() -> str:
        title = f"Mechanisms compared on {sources.names()[choice.data]}"
        said = [caption(placed), there.shipped, *won, *rest]
        light = _draw(choice, there, placed, LIGHT)
        command = grid.typed(choice, where)
        return report_compare.html(title, light, said, long_table(placed), command)

    downloads(choice.data, where, there, report)


def above(choice: Choice, there: Rows, placed: list[Placed]) -> list[str]:
    """Why some curves stand above the line without privacy."""
    found: dict[str, list[str]] = {}
    for one in placed:
        twin = registry.get(one.line.mechanism).twin
        for level in there.twins:
            over = compare.band(one.line.values, one.x)
            line = interval(level.values.tolist())
            if level.mechanism == twin and twins.is_above(
                one.line.metric, over.low, over.high, line
            ):
                found.setdefault(twin, []).append(one.line.mechanism)
    data = "" if choice.steps else choice.data  # prepared otherwise, nothing has been measured
    return [twins.why_above(ids, data) for ids in found.values()]


def _count() -> Count:
    state.from_link("count", "the unit", {c.name.lower(): c.value for c in Count}, "paper")
    chosen: Count = st.segmented_control(
        "What an epsilon counts",
        list(Count),
        default=Count.PAPER,
        required=True,
        format_func=_COUNTS.__getitem__,
        key="count",
        bind="query-params",
        help="Papers protect different things: one rating, a cell, everything one person gave."
        " The same unit uses only what is certified.",
    )
    return chosen


def _figure(choice: Choice, there: Rows, placed: list[Placed], count: Count) -> go.Figure:
    """The chart; the same object while nothing has changed."""
    theme = state.theme()
    marks = (choice, there.last, there.present, there.shipped, count, theme.name)
    kept: tuple[object, go.Figure] | None = st.session_state.get("comparison figure")
    if kept is None or kept[0] != marks:
        kept = (marks, _draw(choice, there, placed, theme))
        st.session_state["comparison figure"] = kept
    return kept[1]


def _draw(choice: Choice, there: Rows, placed: list[Placed], theme: Theme) -> go.Figure:
    ends = (min(choice.epsilons), max(choice.epsilons))
    metric = HEADLINE[choice.task]
    drawn = {one.line.mechanism for one in placed}
    waiting = [id for id in choice.mechanisms if id not in drawn]
    return charts_compare.compare(placed, there.floors, there.twins, metric, ends, theme, waiting)


def caption(placed: list[Placed]) -> str:
    """What a mark and a band mean."""
    bands = {compare.band_words(compare.band(one.line.values, one.x)) for one in placed}
    band = "; ".join(sorted(bands))
    return (
        f"{blocks.EVALUATION} {blocks.sentence(band)} Filled markers are certified in the unit"
        " they stand at, hollow ones only claimed."
        if band
        else blocks.EVALUATION
    )


def words(choice: Choice, there: Rows, placed: list[Placed]) -> str:
    """The chart as text."""
    metric = HEADLINE[choice.task]
    parts = [f"{title(metric)} against epsilon"]
    for one in placed:
        mean = compare.band(one.line.values, one.x).mean
        parts.append(
            f"{one.line.label} ({one.counts}{'' if one.solid else ', not certified'}) from"
            f" {amount(metric, mean[0])} at epsilon {one.x[0]:.3g} to {amount(metric, mean[-1])} at"
            f" {one.x[-1]:.3g}"
        )
    for name, levels in (("guessing", there.floors), ("no privacy", there.twins)):
        parts += [f"{name}: {amount(metric, level.values.mean())}" for level in levels]
    return "; ".join(parts) + "."


def long_table(placed: list[Placed]) -> dict[str, list[object]]:
    """Every point of the chart."""
    table: dict[str, list[object]] = {
        name: []
        for name in ("mechanism", "epsilon", "counts", "certified", "mean", "from", "to", "seeds")
    }
    for one in placed:
        for x, *rest, seeds in zip(*compare.band(one.line.values, one.x), strict=True):
            mean, low, high = (round(float(v), 4) for v in rest)
            values = (one.line.label, float(f"{x:.4g}"), one.counts, one.solid, mean, low, high)
            for column, value in zip(table.values(), (*values, int(seeds)), strict=True):
                column.append(value)
    return table


def wide_table(placed: list[Placed]) -> dict[str, list[str]]:
    """Means by the epsilon each mechanism was run at; names are short, settings stay."""
    table = {"mechanism": [_short(one) for one in placed]}
    for epsilon in sorted({float(e) for one in placed for e in one.line.epsilon}):
        table[f"{epsilon:g}"] = [_mean_at(one, epsilon) for one in placed]
    return table


def _short(one: Placed) -> str:
    id = one.line.mechanism
    name = registry.get(id).name
    return one.line.label.replace(name, cards.SHORT.get(id, name), 1)


def _mean_at(one: Placed, epsilon: float) -> str:
    view = compare.band(one.line.values, one.line.epsilon)
    at = dict(zip(view.x.tolist(), view.mean, strict=True))
    return amount(one.line.metric, at[epsilon]) if epsilon in at else ""


def verdicts(placed: list[Placed]) -> tuple[list[str], list[str]]:
    """(pairs with a winner somewhere, pairs without one): units never mix."""
    if len(placed) < 2:
        return ["Choose two mechanisms or more to see which is better where."], []
    found = crossover.duels(placed, np.random.default_rng(_SEED))
    found.sort(key=lambda duel: -len(duel.leads))  # those that change places first
    won = [crossover.sentence(duel) for duel in found if duel.leads]
    rest = [crossover.sentence(duel) for duel in found if not duel.leads]
    if found and not won:
        won = ["No two of these can be told apart: more seeds may do it."]
    if len(found) < len(placed) * (len(placed) - 1) // 2:
        won.append("Pairs whose epsilons count different things are not compared.")
    return won, rest


def planner(choice: Choice, there: Rows, placed: list[Placed]) -> None:
    """The smallest epsilon for a wanted quality, mechanism by mechanism."""
    metric = HEADLINE[choice.task]
    wanted = _wanted(metric, there, placed)
    for one in placed:
        twin = registry.get(one.line.mechanism).twin
        without = next((level for level in there.twins if level.mechanism == twin), None)
        answer = budget.smallest_epsilon(one, wanted, np.random.default_rng(_SEED))
        st.markdown(f"- {blocks.escape(budget.sentence(answer, twin=without))}")
    st.caption(
        "From a monotone fit of the means, never extended beyond the epsilons computed; the"
        " interval comes from resampled seeds."
    )


def _wanted(metric: str, there: Rows, placed: list[Placed]) -> float:
    levels = [float(level.values.mean()) for level in (*there.floors, *there.twins)]
    middle = sum(levels) / len(levels) if levels else 0.5
    key = f"wanted {metric}"
    if is_share(metric):
        low = 50.0 if metric == "accuracy" else 0.0
        state.number_from_link(key, f"the wanted {spoken(metric)}", low, 100.0)
        start = min(100.0, max(low, float(round(100 * middle))))
        percent = st.slider(
            f"Wanted {spoken(metric)}",
            low,
            100.0,
            start,
            0.5,
            "%.1f %%",
            key=key,
            bind="query-params",
        )
        return float(percent) / 100
    means = [float(v) for one in placed for v in compare.band(one.line.values, one.x).mean]
    low, high, step = budget.limits([*levels, *means])
    state.number_from_link(key, f"the wanted {spoken(metric)}", low, high)
    if not low <= st.session_state.get(key, low) <= high:  # chosen for other rows
        del st.session_state[key]
    start = step * round((middle if levels else (low + high) / 2) / step)
    chosen = st.slider(
        f"Wanted {spoken(metric)} at most",
        low,
        high,
        min(high, max(low, start)),
        step,
        "%.4g",
        key=key,
        bind="query-params",
    )
    return float(chosen)


def downloads(data: str, where: Place, there: Rows, report: Callable[[], str]) -> None:
    """The rows and the picture, to take along."""
    with st.container(horizontal=True):
        if there.curves:  # shipped curves have no rows in the store
            st.download_button(
                "Rows (CSV)",
                lambda: rows.csv(where, there),
                f"compare-{data}.csv",
                "text/csv",
                on_click="ignore",
                icon=":material/table:",
            )
        st.download_button(
            "Chart and numbers (HTML)",
            report,
            f"compare-{data}.html",
            "text/html",
            on_click="ignore",
            icon=":material/html:",
        )
