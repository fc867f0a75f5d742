"""Share a page: the address with every choice in it, to copy."""

import streamlit as st

_HTML = """
<button type="button" id="share" aria-haspopup="dialog" aria-expanded="false">Share</button>
<div id="panel" role="dialog" aria-label="Share this view" hidden>
  <label for="address"></label>
  <input id="address" type="text" readonly>
  <div><button type="button" id="copy">Copy link</button><span id="said" role="status"></span></div>
</div>
"""

_CSS = """
button { font: inherit; font-size: .875rem; color: var(--st-text-color);
  background: var(--st-background-color);
  border: 1px solid var(--st-border-color); border-radius: var(--st-base-radius);
  padding: .2rem .7rem; cursor: pointer; white-space: nowrap; }
button:hover { border-color: var(--st-primary-color); color: var(--st-link-color); }
:focus-visible { outline: 2px solid var(--st-primary-color); outline-offset: 1px; }
#panel { position: fixed; right: 1rem; top: 3.2rem; box-sizing: border-box; padding: .8rem;
  width: min(26rem, calc(100vw - 2rem)); background: var(--st-background-color);
  border: 1px solid var(--st-border-color); border-radius: var(--st-base-radius);
  box-shadow: 0 .3rem 1rem rgb(0 0 0 / .2); }
#panel label, #said { color: var(--st-text-color); font-size: .875rem; line-height: 1.4; }
#panel input { display: block; width: 100%; box-sizing: border-box; margin: .5rem 0; padding: .4rem;
  font: .875rem monospace; color: var(--st-text-color); border: 1px solid var(--st-border-color);
  background: var(--st-secondary-background-color); border-radius: var(--st-base-radius); }
#said { margin-left: .7rem; }
@media (max-width: 640px) { button { min-height: 2.75rem; } }
"""

# The clipboard of browsers is there on HTTPS and on the own machine only; elsewhere the older
# command copies what is selected. Where that fails too, the text stands there, selected.
_JS = """
export default function ({ parentElement }) {
  const [share, panel, address, copy, said] = ["share", "panel", "address", "copy", "said"].map(
    id => parentElement.querySelector("#" + id));
  const show = open => {
    panel.hidden = !open;
    share.setAttribute("aria-expanded", String(open));
    if (!open) return;
    said.textContent = "";
    const isUpload = new URLSearchParams(location.search).get("data") === "Your upload";
    panel.querySelector("label").textContent = isUpload
      ? "This address opens the page with these choices, but not the ratings that you uploaded:"
        + " whoever opens it sees a sample instead, until they upload the file themselves."
      : "This address opens the page with every choice on it:";
    address.value = location.href.split("#")[0];
    address.focus();
    address.select();
  };
  share.onclick = () => show(panel.hidden);
  copy.onclick = async () => {
    address.value = location.href.split("#")[0];
    let done = false;
    try {
      await navigator.clipboard.writeText(address.value);
      done = true;
    } catch {
      address.focus();
      address.select();
      done = document.execCommand("copy");
    }
    said.textContent = done ? "Copied." : "Press Ctrl+C or \\u2318C to copy.";
  };
  panel.onkeydown = event => {
    if (event.key === "Escape") { show(false); share.focus(); }
  };
  const elsewhere = event => {
    if (!event.composedPath().includes(panel) && !event.composedPath().includes(share)) show(false);
  };
  document.addEventListener("pointerdown", elsewhere);
  return () => document.removeEventListener("pointerdown", elsewhere);
}
"""

_component = st.components.v2.component("share", html=_HTML, css=_CSS, js=_JS)


def show_share_button() -> None:
    """Show the button Share, which offers the page's address to copy; it needs no server."""
    with st.container(key="share", width="content"):
        _component(key="the share control")
