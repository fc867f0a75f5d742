"""The panel of a training run while it is under way, and how it went afterwards."""

from __future__ import annotations

import streamlit as st

from dpmc_core import registry
from dpmc_core.views.curves import HEADLINE, LOWER_IS_BETTER, amount, spoken, title
from pages.ui import blocks, charts_train, state
from pages.ui.jobs import Snapshot


def panel(now: Snapshot) -> None:
    """Progress, then objective and metric per round."""
    blocks.progress_or_problem(now)
    if now.points:
        if now.active:
            _chart(now)
        else:
            with st.expander("How it trained, round by round", icon=":material/show_chart:"):
                _chart(now)


def _chart(now: Snapshot) -> None:
    last = now.points[-1]
    cls = registry.get(last.mechanism)
    metric = HEADLINE[cls.task]
    lower = ", lower is better" if metric in LOWER_IS_BETTER else ""
    seen = [p for p in now.points if p.metric is not None]
    alt = f"{cls.name}: objective and {spoken(metric)} over {last.round} rounds."
    if seen:
        latest = amount(metric, seen[-1].metric)
        alt += f" Latest {spoken(metric)}: {latest} in round {seen[-1].round}."
    blocks.chart(
        charts_train.live(
            last.mechanism,
            ("objective", f"{title(metric)}<br>(held out{lower})"),
            (
                ([p.round for p in now.points], [p.objective for p in now.points]),
                ([p.round for p in seen], [p.metric for p in seen]),
            ),
            last.total,
            state.theme(),
        ),
        alt=alt,
        caption=f"{blocks.EVALUATION} An objective computed from raw ratings is not private"
        " either: both lines are for watching only.",
        table=None
        if now.active
        else {
            "round": [p.round for p in now.points],
            "objective": [p.objective for p in now.points],
            spoken(metric): [p.metric for p in now.points],
        },
        key="live",
    )
