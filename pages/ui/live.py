"""The panel of a training run while it is under way, and how it went afterwards."""

from __future__ import annotations

import plotly.graph_objects as go
import streamlit as st

from dpmc_core import registry
from dpmc_core.metrics import headline
from pages.ui import blocks, charts_train, state
from pages.ui.jobs import Snapshot


def panel(now: Snapshot) -> None:
    """Progress, and until there is a result objective and metric per round."""
    blocks.progress_or_problem(now)
    if _drawable(now) and now.active and now.result is None:
        _chart(now, "live")


def rounds(now: Snapshot) -> None:
    """How it trained, once there is a result: not drawn again while the rest is computed."""
    if _drawable(now) and (now.result is not None or not now.active):
        with st.expander("How it trained, round by round", icon=":material/show_chart:"):
            _chart(now, "rounds")


def _drawable(now: Snapshot) -> bool:
    return any(p.objective is not None or p.metric is not None for p in now.points)


def _chart(now: Snapshot, key: str) -> None:
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
    blocks.chart(
        _figure(now, shown),
        alt=alt,
        caption=blocks.EVALUATION
        + " An objective computed from raw ratings is not private either: for watching only."
        * bool(known),
        table=None
        if key == "live"
        else {
            "round": [p.round for p in now.points],
            "objective": [p.objective for p in now.points],
            metric.spoken: [p.metric for p in now.points],
        },
        key=key,
    )


def _figure(now: Snapshot, shown: charts_train.Lines) -> go.Figure:
    """The figure of these points, kept until there are new ones: a tick may come without any."""
    theme, last = state.theme(), now.points[-1]
    kept = st.session_state.get("live figure")
    if kept is None or kept[0] is not now.points or kept[1] is not theme:
        fig = charts_train.live(last.mechanism, shown, last.total, theme)
        kept = st.session_state["live figure"] = (now.points, theme, fig)
    figure: go.Figure = kept[2]
    return figure
