"""The ratings: where they come from, what they look like, how they are prepared."""

import streamlit as st

from dpmc_core.data.transforms import apply_steps
from dpmc_core.errors import DpmcError
from dpmc_core.model import Task
from dpmc_core.views import data as picture
from pages.ui import (
    blocks,
    charts_data,
    prepare,
    public_sets,
    shell,
    sources,
    state,
    upload,
)

WAYS = {"sample": "Open", "upload": "Upload your own", "public": "Download a public set"}


def page() -> None:
    blocks.heading(
        "The ratings",
        "Choose generated samples or bring your own ratings; every page then works on them.",
    )
    state.from_link("way", "the way in", WAYS, "sample")
    way = st.segmented_control(
        "Where from",
        list(WAYS),
        default="sample",
        required=True,
        format_func=WAYS.__getitem__,
        key="way",
        bind="query-params",
        label_visibility="collapsed",
    )
    if way == "upload":
        upload.panel()
    elif way == "public":
        public_sets.panel()
    id = sources.pick("Open now")
    try:
        dataset = sources.get(id)
    except (DpmcError, OSError) as error:
        blocks.problem(error)
        return
    facts(id, dataset)
    pictures(id)
    preparation(dataset)


def facts(id: str, dataset: sources.Dataset) -> None:
    """Headline numbers and the report in plain words."""
    found = sources.look(id, picture.summary)
    tiles = (
        ("Users", f"{found.users:,}"),
        ("Items", f"{found.items:,}"),
        ("Ratings", f"{found.ratings:,}"),
        ("Cells rated", f"{100 * found.density:.3g} %"),
    )
    for column, (label, value) in zip(st.columns(4), tiles, strict=True):
        column.metric(label, value)
    public = dataset.ratings.public
    st.markdown(
        f"Ratings may lie from **{public.low:g}** to **{public.high:g}**: a public fact, known"
        " before any rating is read."
    )
    with st.expander("What was found in the data", icon=":material/fact_check:", expanded=True):
        st.markdown("\n".join(f"- {blocks.escape(blocks.sentence(s))}" for s in dataset.report))
        st.caption(blocks.escape(f"Source: {dataset.source}. Licence: {dataset.licence}."))


def pictures(id: str) -> None:
    """Where ratings are, which values they have, who gave how many."""
    theme = state.theme()
    where, values = sources.look(id, picture.sparsity), sources.look(id, picture.histogram)
    users, items = sources.look(id, picture.tails)
    left, right = st.columns(2, gap="large")
    with left:
        st.subheader("Which cells are rated")
        blocks.chart(
            charts_data.sparsity(where, theme),
            alt=picture.sparsity_words(where),
            key="sparsity",
            caption="Each block shows the share of its cells that is rated. Raw data: that a rating"
            " exists is not protected by every mechanism.",
            table=picture.sparsity_table(where),
        )
    with right:
        st.subheader("Which ratings are given")
        blocks.chart(
            charts_data.histogram(values, theme),
            alt=picture.histogram_words(values),
            key="histogram",
            table={"rating": values.centers.round(3), "times": values.counts},
        )
    st.subheader("Ratings per user and per item")
    blocks.chart(
        charts_data.tails(users, items, theme),
        alt=picture.tails_words(users, items),
        key="tails",
        caption="The busiest users reveal most: a guarantee per rating grows with the number of"
        " ratings of a person, unless a cap bounds it.",
        table=picture.tails_table(users, items),
    )


def preparation(dataset: sources.Dataset) -> None:
    """The steps, what they leave, and what they cost in privacy."""
    st.subheader("Preparation")
    st.markdown("These steps are learnt on the training ratings; Train uses the same choices.")
    prepared = prepare.controls(dataset.ratings.public, Task.BINARY)
    try:
        after, _ = apply_steps(prepared.steps, dataset.ratings)
    except DpmcError as error:
        blocks.problem(error)
        return
    st.markdown(
        f"After preparation: {after.public.users:,} users, {after.public.items:,} items,"
        f" {len(after):,} of {len(dataset.ratings):,} ratings."
    )
    for step in after.prepared:
        st.caption(f"Caveat on every guarantee card: certified given that {step} is public.")


shell.enter()
page()
