"""The noise itself: its shape, its size against epsilon, and ratings before and after it."""

from collections.abc import Mapping

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dpmc_core import registry
from dpmc_core.errors import DpmcError
from dpmc_core.model import Mechanism
from dpmc_core.privacy import Guarantee
from dpmc_core.ratings import PublicFacts
from dpmc_lab import glossary
from dpmc_lab.curves import cards, noise
from pages.ui import blocks, shell, sources, stage, state, widgets
from pages.ui.charts import noise as charts_noise
from pages.ui.stage import Stage


@st.fragment
def page() -> None:
    frame = stage.lay_out_stage("What the noise looks like")
    with frame.choices:
        data = sources.choose_data(label_visibility="collapsed")
        id = widgets.choose_mechanism(data)
        release = st.container(width="content")
        with st.popover("Settings", icon=":material/tune:"):
            wide = widgets.choose_wide_range()
            chosen = widgets.choose_settings(registry.get_mechanism(id))
    with frame.figure:
        drawn = stage.reserve_figure()
        with st.container(horizontal=True, vertical_alignment="center"):
            epsilon = widgets.show_epsilon_slider(wide)
            pinned = pin(widgets.list_epsilons(wide))
    pinned = None if pinned == epsilon else pinned
    try:
        with drawn:
            mechanism = widgets.build_mechanism(id, epsilon, chosen)
            if mechanism is None or chosen is None:
                return
        public = sources.get_public_facts(data, mechanism.task)
        at = dict.fromkeys((epsilon, 1.0, *filter(None, (pinned,))))
        found = {e: registry.create(id, epsilon=e, **chosen).guarantee(public) for e in at}
        views = sources.compute_before_after(data, mechanism)
        usual = sources.compute_before_after(data, registry.create(id, epsilon=1.0, **chosen))
    except (DpmcError, OSError) as error:
        with drawn:
            blocks.show_error(error)
        return
    with release:
        name = of_releases(found[1.0])
    shape(frame, drawn, found, (epsilon, pinned), id, name)
    with frame.details:
        sizes(id, epsilon, pinned, wide, chosen, public)
        if views:
            st.header("What it does to ratings")
            st.caption(
                "The mechanism run on a corner of the data alone: the busiest users and the most"
                " rated items. The values before the noise are raw: for looking at, never to"
                " publish."
            )
        for number, (view, at_one) in enumerate(zip(views, usual, strict=True)):
            key = "row" if number == 0 else f"row_{number}"
            rows(mechanism, view, at_one, found[1.0], key)


def pin(grid: list[float]) -> float | None:
    """Another epsilon to look at beside the chosen one, kept in the address."""
    names = {0.0: "no pin"} | {e: f"{e:g}" for e in grid}
    now = st.session_state.get("pin", 0.0)
    if now not in names:  # chosen on the wide range
        st.session_state["pin"] = min(grid, key=lambda e: abs(e - now))
    st.button(
        "Pin this epsilon",
        icon=":material/keep:",
        on_click=lambda: st.session_state.update(pin=st.session_state["epsilon"]),
    )
    look = {"width": 105, "label_visibility": "collapsed"}
    return widgets.choose_option("Pinned", "the pinned epsilon", names, "pin", 0.0, **look) or None


def of_releases(card: Guarantee) -> str | None:
    """Which release is looked at: that with most values unless another one is chosen."""
    names = {name: name.replace("_", " ") for name, _ in card.releases}
    main = noise.find_main_release(card)
    first = next((name for name, one in card.releases if one is main), None)
    if len(names) < 2:
        return first
    return widgets.choose_option(
        "Release", "the release", names, "release", first, label_visibility="collapsed"
    )


def shape(
    frame: Stage,
    drawn: DeltaGenerator,
    found: Mapping[float, Guarantee],
    epsilons: tuple[float, float | None],
    id: str,
    name: str | None,
) -> None:
    """The noise of a release at the chosen epsilon and the pinned one, on axes that stay."""
    epsilon, pinned = epsilons
    card = found[epsilon]
    if name is None:
        drawn.markdown("This mechanism adds no noise.")
        return
    release, usual = (dict(one.releases)[name] for one in (card, found[1.0]))
    of = usual, card.public
    views = {e: noise.compute_noise_view(dict(found[e].releases)[name], *of) for e in epsilons if e}
    words = noise.describe_noise_shape(views)
    fig = charts_noise.plot_noise(
        id,
        views[epsilon],
        names=(f"epsilon {epsilon:g}", f"epsilon {pinned:g}, pinned" if pinned else ""),
        pinned=views.get(pinned) if pinned else None,
        ruler=noise.measure_sensitivity(release, card.public),
    )
    with drawn:
        blocks.show_figure(fig, alt=words, key="noise of it")
    with frame.panel:
        st.markdown(f"**{words}**")
        st.markdown(
            blocks.escape(noise.describe_noise(release)),
            help=glossary.explain_terms("laplace", "flips", "scale", "sensitivity", "composition"),
        )
        st.caption(
            blocks.escape(f"All it publishes together: {cards.format_certified(card.certified())}.")
        )
        st.page_link("pages/what_if.py", label="What does it cost?", icon=":material/tune:")
    with frame.details:
        blocks.show_chart_numbers(words, noise.tabulate_noise_shape(views), key="noise")


def sizes(
    id: str,
    epsilon: float,
    pinned: float | None,
    wide: bool,
    chosen: dict,
    public: PublicFacts,
) -> None:
    """Noise against epsilon: the mechanisms that share the chosen one's kind of noise."""
    st.header("Its size")
    views = state.memoize(
        "sizes", (id, wide, chosen, public), lambda: found_sizes(id, wide, chosen, public)
    )
    unit = next((v.unit for other, _, v in views if other == id), None)
    alike = [view for view in views if view[2].unit == unit]
    if unit is None:
        st.markdown("This mechanism adds no noise.")
        return
    others = sorted({name for _, name, v in views if v.unit != unit})
    label = registry.create(id, epsilon=epsilon, **chosen).guarantee(public).change.label
    blocks.show_chart(
        charts_noise.plot_noise_scales(alike, id, unit, epsilon, pinned),
        alt=noise.describe_noise_scales(alike, epsilon),
        key="scales",
        caption=noise.describe_scale_chart({other for other, _, _ in alike}, others, label)
        + (" Dotted: the pinned one." if pinned else ""),
        table=noise.tabulate_noise_scales(alike),
    )


def found_sizes(
    id: str, wide: bool, chosen: dict, public: PublicFacts
) -> list[tuple[str, str, noise.NoiseScale]]:
    """(id, name, noise against epsilon) of the chosen mechanism and those beside it."""
    views = []
    for other in registry.list_private_mechanisms(registry.get_mechanism(id).task):
        settings = chosen if other == id else {}
        found = noise.compute_noise_scales(
            other, widgets.list_epsilons(wide), public, settings, main=other != id
        )
        views += [(other, registry.get_mechanism(other).name, view) for view in found]
    return views


def rows(
    mechanism: Mechanism,
    view: noise.BeforeAfter,
    usual: noise.BeforeAfter,
    card: Guarantee,
    key: str,
) -> None:
    """One row and a block of the ratings, before and after one release.

    usual, card: the same at epsilon 1, which sets the scales.
    """
    id = mechanism.id
    release = next(r for _, r in card.releases if r.query == usual.query)
    st.markdown(f"**Released: {blocks.escape(view.query)}**")
    left, right = st.columns(2, gap="large") if len(view.users) > 1 else (st.container(), None)
    with left:
        row, last = 1, len(view.users)
        if last > 1:
            words = f"1 is the first of the {view.rows}, the busiest."
            row = widgets.choose_on_slider("Row", "the row", 1, last, 1, key, help=words)
        st.markdown(blocks.escape(noise.format_row_title(view, row - 1)))
        blocks.show_chart(
            charts_noise.plot_user_values(
                id, view, row - 1, noise.find_value_range(usual, release)
            ),
            alt=noise.describe_row(view, row - 1),
            key=f"row of {view.query}",
            table=noise.tabulate_row(view, row - 1),
        )
    if right is None:  # one number per item, all users together: the row says it all
        return
    with right:
        blocks.show_chart(
            charts_noise.plot_heatmaps(id, view, usual),
            alt=noise.describe_block(view),
            key=f"block of {view.query}",
            caption=noise.describe_block_colours(view),
            table=noise.tabulate_block(view),
        )


shell.enter_through_app()
page()
