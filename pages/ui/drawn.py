"""A picture that this program wrote as SVG: it changes in its place, without a flash.

Streamlit takes SVG out of its own HTML. What is drawn here must be escaped by whoever draws it.
"""

from __future__ import annotations

import streamlit as st

_JS = """
export default function ({ data, parentElement }) {
  parentElement.querySelector("div").innerHTML = data.svg;
}
"""

_component = st.components.v2.component("drawn", html="<div></div>", js=_JS)


def show(svg: str, key: str) -> None:
    """The picture; its label for those who do not see it is in the SVG."""
    _component(data={"svg": svg}, key=key)
