"""The noise itself: its shape at two epsilons, one value before and after it, and its size."""

from collections.abc import Mapping, Sequence

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dpmc_core import registry
from dpmc_core.model import Mechanism
from dpmc_core.privacy import Additive, Guarantee
from dpmc_core.ratings import PublicFacts
from dpmc_lab import glossary
from dpmc_lab.views import cards, groups, noise
from pages.ui import blocks, shell, sources, stage, state, widgets
from pages.ui.charts import noise as charts_noise
from pages.ui.session import session
from pages.ui.stage import Stage
from pages.ui.text import escape, keep_units

_SECOND_EPSILON = 4.0  # beside the chosen one, until another is chosen


@st.fragment
def page() -> None:
    frame = stage.lay_out_stage("Compare the noise at two epsilons")
    with frame.choices:
        data = sources.choose_data(label_visibility="collapsed")
        if replaced := widgets.suggest_mechanism(data, find_additive):
            came, shown = replaced
            state.add_note(f"{came} adds no noise to numbers. This page shows {shown} instead.")
        id = widgets.choose_mechanism(data)
        release_place = st.container(width="content")
        with st.popover("Settings", icon=":material/tune:"):
            wide = widgets.choose_wide_range()
            settings = widgets.choose_settings(registry.get_mechanism(id))
    with frame.figure:
        figure_place = stage.reserve_figure()
        with blocks.lay_out_row():
            epsilon = widgets.choose_epsilon(wide)
            second = choose_second_epsilon(widgets.list_epsilons(wide))
    if settings is None:
        return
    with blocks.show_errors_in(figure_place):
        mechanisms = {
            e: registry.create(id, epsilon=e, **settings)
            for e in dict.fromkeys((epsilon, second or epsilon))
        }
        public = sources.get_public_facts(data, mechanisms[epsilon].task)
        guarantees = {e: mechanism.guarantee(public) for e, mechanism in mechanisms.items()}
        blocks_by_epsilon = {
            e: sources.compute_before_after(data, mechanism) for e, mechanism in mechanisms.items()
        }
        with release_place:
            name = choose_release(guarantees[epsilon])
        if name is None:
            figure_place.markdown("This mechanism adds no noise.")
        else:
            show_shape(
                frame, figure_place, mechanisms[epsilon], guarantees, blocks_by_epsilon, name
            )
        with frame.details:
            show_sizes(id, [*mechanisms], settings, public)


def find_additive(ids: Sequence[str]) -> str:
    """Return the first mechanism that adds noise, or else the first one."""
    guarantees, _ = groups.build_guarantees(ids, groups.ANY_PUBLIC_FACTS)
    additive = (id for id in ids if isinstance(noise.find_main_release(guarantees[id]), Additive))
    return next(additive, ids[0])


def choose_second_epsilon(epsilons: list[float]) -> float | None:
    """Show the choice of another epsilon to look at beside the first, kept in the address."""
    names = {e: f"{e:g}" for e in epsilons} | {0.0: "none"}
    chosen = session.second_epsilon
    current = _SECOND_EPSILON if chosen is None else chosen
    if current not in names:  # chosen on the wide range
        session.second_epsilon = widgets.find_nearest_epsilon(current, epsilons)
    return (
        widgets.choose_option("Second epsilon", "the second epsilon", names, "pin", _SECOND_EPSILON)
        or None
    )


def choose_release(guarantee: Guarantee) -> str | None:
    """Show the choice of a release, at first the one with most values."""
    names = {name: f"Release: {name.replace('_', ' ')}" for name, _ in guarantee.releases}
    main = noise.find_main_release(guarantee)
    first = next((name for name, release in guarantee.releases if release is main), None)
    if len(names) < 2:
        return first
    return widgets.choose_option(
        "Release", "the release", names, "release", first, label_visibility="collapsed"
    )


def show_shape(
    frame: Stage,
    figure_place: DeltaGenerator,
    mechanism: Mechanism,
    guarantees: Mapping[float, Guarantee],
    blocks_by_epsilon: Mapping[float, tuple[noise.BeforeAfter, ...]],
    name: str,
) -> None:
    """Show the noise of a release by epsilon, and one value before and after it."""
    releases = {e: dict(guarantee.releases)[name] for e, guarantee in guarantees.items()}
    release, guarantee = (next(iter(values.values())) for values in (releases, guarantees))
    views = noise.compute_noise_views(releases, guarantee.public)
    examples = {
        e: block
        for e, same_epsilon in blocks_by_epsilon.items()
        for block in same_epsilon
        if block.query == release.query
    }
    summary, title = noise.describe_noise_shape(views), noise.conclude_noise(views)
    fig = charts_noise.plot_noise(
        views,
        label="a 0 or 1" if "1{" in release.query else f"the {name.replace('_', ' ')}",
        sampled={e: noise.get_first_noise(block) for e, block in examples.items()},
        ruler=noise.measure_sensitivity(release, guarantee.public),
    )
    with figure_place:
        blocks.show_headline(title, key="title")
        blocks.show_figure(fig, alt=summary, key="noise of it")
    with frame.panel:
        if title not in summary:
            st.markdown(keep_units(summary))
        if examples:
            st.markdown(
                f"{escape(noise.describe_first_value(next(iter(examples.values()))))},"
                " before and after the noise:",
                help="It is the first value of its row that changes at the first epsilon, if one"
                " does.",
            )
            st.table(noise.tabulate_first_value(examples, mechanism.task))
        st.markdown(
            escape(noise.describe_noise(release).replace("1{Y = +1}", "like (1) or dislike (0)")),
            help=glossary.explain_terms("laplace", "flips", "scale", "sensitivity", "composition"),
        )
        certified = cards.format_certified(guarantee.certified())
        st.caption(escape(f"Everything it publishes together: {certified}."))
        blocks.show_downloads(figure=(title, fig))
    with frame.details:
        blocks.show_chart_numbers(summary, noise.tabulate_noise_shape(views), key="noise")
        if examples:
            show_row(mechanism, next(iter(examples.values())))


def show_sizes(id: str, epsilons: list[float], settings: dict, public: PublicFacts) -> None:
    """Show the size of the noise of each release against epsilon."""
    grid = widgets.list_epsilons(session.wide)
    scales = state.memoize(
        "sizes",
        (id, grid, settings, public),
        lambda: noise.compute_noise_scales(id, grid, public, settings),
    )
    # One axis measures one thing: scales and chances of a change have no axis in common.
    scales = [release for release in scales if release.unit == scales[0].unit]
    if not scales:
        return
    title = noise.conclude_noise_scales(scales)
    blocks.show_headline(title)
    blocks.show_chart(
        charts_noise.plot_noise_scales(scales, epsilons),
        alt=f"{title}.",
        key="scales",
        caption="Each line is the noise on one answer that the mechanism publishes. Vertical lines:"
        " the two epsilons.",
        table=noise.tabulate_noise_scales(scales),
    )


def show_row(mechanism: Mechanism, view: noise.BeforeAfter) -> None:
    """Show one row of values before and after the noise."""
    title, row, last = st.container(), 1, len(view.users)
    if last > 1:
        help_text = f"1 is the first of the {view.rows}, the busiest."
        row = widgets.choose_on_slider("Row", "the row", 1, last, 1, "row", help=help_text)
    summary = noise.describe_row(view, row - 1)
    with title:
        blocks.show_headline(
            summary.removesuffix("."),
            help="The mechanism runs on the busiest users and the most rated items alone. The"
            " values before the noise are raw: never publish them.",
        )
    st.markdown(escape(noise.format_row_title(view, row - 1)))
    blocks.show_chart(
        charts_noise.plot_user_values(mechanism.id, view, row - 1),
        alt=summary,
        key="values",
        table=noise.tabulate_row(view, row - 1),
    )


shell.enter_through_app()
page()
