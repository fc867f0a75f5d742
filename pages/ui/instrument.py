"""Show the instrument of What if: one slider, and everything that moves with it, in the browser.

It is a component in plain HTML, CSS and JavaScript. It receives a whole curve with everything that
belongs to each stop (see scene.py) and moves among the stops by itself. When the slider is
released, it tells the page its state.
"""

from collections.abc import Callable, Mapping
from typing import Any

import streamlit as st

from pages.ui import scene

STATES = ("epsilon", "person", "target", "limit", "pinned")

_component = st.components.v2.component(
    "instrument",
    html='<div class="dpmc-what"></div>',
    css=scene.STYLESHEET.read_text("utf-8"),
    js=scene.read_javascript(),
    isolate_styles=False,  # the sentence on top has the same colours
)


def show_instrument(view: Mapping[str, Any], *, key: str, on_change: Callable[[], None]) -> None:
    """Show the instrument; its state is in the session under the key, with the names in STATES.

    Args:
        view: what `scene.build_view` returns, and the state.
        key: of the component.
        on_change: called when the visitor changes the state.
    """
    _component(data=dict(view), key=key, **{f"on_{name}_change": on_change for name in STATES})


def show_still(view: Mapping[str, Any], epsilon: float, *, key: str) -> None:
    """Show the instrument's picture alone, with its rule at an epsilon.

    Args:
        view: what `scene.build_view` returns.
        epsilon: where the rule stands.
        key: of the component.
    """
    still = dict.fromkeys(STATES) | {"epsilon": epsilon, "person": 0, "still": True}
    _component(data=dict(view) | still, key=key)
