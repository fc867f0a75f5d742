"""Build the frame around every page, and the entry through app.py."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import streamlit as st

from dpmc_lab.views.text import COLORS, CSS_PROPERTIES
from pages.ui import share, state
from pages.ui.session import session

# Drawn here, because Streamlit's own icons for a tab are fetched from elsewhere.
_ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">'
    f'<rect width="32" height="32" rx="7" fill="{COLORS["act"][0]}"/>'
    '<path d="M6 24c8 0 7-16 20-16" fill="none" stroke="white" stroke-width="3"/>'
    '<circle cx="15.5" cy="16.5" r="4" fill="white"/></svg>'
)
# Share stands in the bar with the navigation, where it takes no room from a page. The server sends
# this with the page itself: what Streamlit sends later would move everything that is there.
STYLESHEET = (
    f"<style>{CSS_PROPERTIES}"
    + """
.stMainBlockContainer.stMainBlockContainer { max-width: none; padding-top: 4.1rem; }
.st-key-share.st-key-share { position: fixed; top: .85rem; right: 3.5rem; width: auto;
z-index: 999991; }
:has(> .st-key-share) { position: absolute; }
@media (max-width: 640px) { /* the bar has room for the name of the page instead of the menu */
  [data-testid=stHeader]::after { content: var(--page, ""); position: absolute; left: 3.6rem;
    top: 1.05rem; font: 600 1rem/1.5 var(--font); color: var(--text); }
  body:has([data-testid=stSidebar][data-collapsed=false]) .st-key-share { display: none; }
  /* type and targets of a phone: a finger needs 44 pixels */
  .stHeading h1 { font-size: 1.625rem; }
  .stHeading h2 { font-size: 1.25rem; }
  .stHeading h3 { font-size: 1rem; }
  .stMain :is(button[data-testid^=stBaseButton], .stPopover button, [data-baseweb=select] > div,
    [data-testid=stButtonGroup] button, summary, .stPageLink a, .stCheckbox label,
    [data-baseweb=input]), [data-testid=stSidebarNavLink], [data-testid=stHeader] button {
    min-height: 2.75rem; }
  [data-testid=stHeader] button, [data-testid^=stNumberInputStep] { min-width: 2.75rem; }
  .stMain .stCheckbox label { align-items: center; }
  .st-key-share.st-key-share { top: .5rem; }
  button[aria-label^=Help] { position: relative; }
  button[aria-label^=Help]::after { content: ""; position: absolute; inset: -.875rem; }
}
/* a slider's ends stand each on one line: where there is no room beside it, above it */
.st-key-epsilon-line { container-type: inline-size; }
@container (max-width: 28rem) { .st-key-epsilon-line > .st-key-epsilon { order: 1;
flex-basis: 100%; } .st-key-epsilon-line > :last-child { margin-left: auto; } }
:has(> .st-key-epsilon-line) { min-width: min(24rem, 100%); }
@media (max-width: 800px) { :has(> .st-key-epsilon-line) { flex: 1 1 100%; } }
/* options that do not fit on one line go on below, with nothing to scroll sideways */
[data-testid=stButtonGroup] > [role=radiogroup] { flex-wrap: wrap; }
[data-testid=stButtonGroup] [aria-checked=false] {
border-right-color: color-mix(in srgb, currentColor 20%, transparent); }
[data-testid=stHeaderActionElements] > a { display: none; }
/* the accent is light on a dark surface, and what is written on it is dark */
[data-testid^=stBaseButton-primary]:not(:disabled),
[data-testid^=stBaseButton-primary]:not(:disabled) * { color: var(--on-act); }
[data-testid^=stBaseButton-primary]:not(:disabled):is(:hover, :active, :focus-visible)
{ background-color: var(--act-strong); border-color: var(--act-strong); }
/* the whole name of a paper */
[data-testid=stPageLink] p { white-space: normal; }
/* below a table that goes on at the right, until it is scrolled there */
@keyframes further { from { opacity: 1; } }
.stDataFrame { timeline-scope: --across; }
.stDataFrame .dvn-scroller { scroll-timeline: --across inline; }
.stDataFrame::after { content: 'scroll sideways for more \\2192'; position: absolute;
right: 0; top: 100%; font-size: .875rem; line-height: 1rem; color: var(--note); opacity: 0;
pointer-events: none; animation: further linear; animation-timeline: --across; }
</style>"""
)
# A keyboard reaches a page's main control at once, and a changed answer is read aloud. Where a
# rerun takes away or disables what has the focus, the keyboard goes on at the next control beside
# it; what was disabled for a while has the focus again, unless a key was pressed meanwhile. What
# pops up has the focus until Escape. A verdict on your data, which stands above what one has
# pressed, comes into view and takes the focus of a keyboard.
ACCESS = """<style>
#skip { position: fixed; left: 1rem; top: .6rem; z-index: 999999; padding: .5rem 1rem;
  translate: 0 calc(-100% - 1rem);
  background: var(--text); color: var(--paper); border-radius: .4rem; }
#skip:focus { translate: none; }
:is(a, button, input, select, textarea, summary, [role], [tabindex]):focus-visible,
:has(> * > input[type=range]:focus-visible) {
  outline: 2px solid var(--act) !important; outline-offset: 2px; }
</style>
<nav aria-label="Shortcut"><a id="skip" href="#">Skip to the main control</a></nav>
<script>{
  const list = selector => [...document.querySelectorAll(`[data-testid="stMain"] ${selector}`)];
  document.getElementById("skip").onclick = event => {
    event.preventDefault();
    const [heading] = list("h1");
    if (heading) heading.tabIndex = -1;
    const sliders = list(":is([role=slider], input[type=range]):not(:disabled)");
    (sliders.find(slider => slider.checkVisibility()) ?? heading)?.focus();
  };
  const find = part => {
    const parts = [...part.querySelectorAll(
      ":is(button, input, select, textarea, summary, a[href], [tabindex='0']):not(:disabled)")];
    const chosen = parts.find(one => one.type === "radio" && one.checked);
    return chosen ?? parts.find(one => one.checkVisibility());
  };
  const pop = "[data-testid=stPopoverBody]";
  let trail = [], keys = false, paused = null, later = 0, shown = null, opener;
  addEventListener("keydown", event => {
    keys = true;  // a table has a cell for each arrow, and Tab leaves it
    if (trail[0] !== paused) paused = null;
    if (event.key === "Tab" && event.target.closest?.("[data-testid=stDataFrame]"))
      event.stopPropagation();
  }, true);
  addEventListener("pointerdown", () => { keys = false; }, true);
  addEventListener("focusin", ({ target }) => {
    trail = [];
    for (let node = target; node && node !== document.body; node = node.parentElement) {
      trail.push(node);
      if (node.matches(pop)) node = { parentElement: opener };
    }
  });
  const recover = () => {
    const [last] = trail, active = document.activeElement, now = document.querySelector(pop);
    if (now?.querySelector("[data-testid=stSkeleton]")) return;
    if (now && now !== shown && keys && !now.contains(active)) {
      opener = active;
      (find(now) ?? now).focus({ preventScroll: true });
    }
    shown = now;
    if (keys && paused?.isConnected && !paused.disabled) {
      if (active !== paused) paused.focus({ preventScroll: true });
      paused = null;
      return;
    }
    if (!keys || !last || (active && active !== document.body)) return;
    if (last.isConnected && !last.disabled) return;
    const near = trail.find(node => node.isConnected && find(node)) ?? document.body;
    const heading = near.querySelector("h1");  // of a page that is another one now
    if (heading) heading.tabIndex = -1;
    (heading ?? find(near))?.focus();
  };
  new MutationObserver(() => {
    // what pops up lies outside the app, and has its light or dark colours too
    const app = document.querySelector(".stApp");
    if (app) document.documentElement.style.colorScheme = getComputedStyle(app).colorScheme;
    document.body.dataset.page = location.pathname.split("/").pop() || "what_if";
    if (trail[0]?.disabled) paused = trail[0];
    const [heading] = list("h1"), main = heading?.closest("main");  // which Tab reaches, to scroll
    if (main) main.ariaLabel = heading.textContent;
    // Streamlit nests the sections of its menu so that they are no list
    const menu = "[data-testid=stSidebarNav] :is(ul, li):not([role])";
    for (const item of document.querySelectorAll(menu)) item.role = "none";
    for (const scroller of list(".dvn-scroller:not([tabindex])")) scroller.tabIndex = -1;
    clearTimeout(later);
    later = setTimeout(recover, 300);
    for (const answer of list(".st-key-answer:not([aria-live])")) {
      answer.ariaLive = "polite";
      if (!list(".st-key-ratings").length) continue;
      answer.scrollIntoView({ block: "center" });
      Object.assign(answer, { role: "group", ariaLabel: "The answer", tabIndex: -1 });
      if (keys) answer.focus({ preventScroll: true });
    }
  }).observe(document.body, { subtree: true, childList: true, attributeFilter: ["disabled"] });
}</script>"""


class Entry(NamedTuple):
    """A page in the navigation.

    Attributes:
        file: its name in pages/.
        title: its title.
        icon: its icon.
        help: what one finds there.
        next_page: the file name of the page that naturally follows, and the text of the link to it;
            None where the page has links of its own.
    """

    file: str
    title: str
    icon: str
    help: str
    next_page: tuple[str, str] | None = None


def run(sections: Mapping[str, Sequence[Entry]]) -> None:
    """Run the app: the frame, then the page of the address, by default the first one."""
    st.set_page_config(page_title="DPMC Lab", page_icon=_ICON, layout="wide")
    entries = [entry for section in sections.values() for entry in section]
    pages = {
        e.file: st.Page(
            f"pages/{e.file}.py", title=e.title, icon=e.icon, help=e.help, default=e is entries[0]
        )
        for e in entries
    }
    navigation = {
        name: [pages[entry.file] for entry in section] for name, section in sections.items()
    }
    page = st.navigation(navigation, position="top")
    st.html(f'<style>:root {{ --page: "{page.title}"; }}</style>')  # the bar shows it on a phone
    share.show_share_button()
    notes = st.container()
    session.inside = True
    state.record_page_change(page.url_path)
    try:
        page.run()
        if following := next(e.next_page for e in entries if pages[e.file] is page):
            next_file, label = following
            st.page_link(pages[next_file], label=label, icon=":material/arrow_forward:")
    finally:
        state.save_bound_choices()
    with notes:
        state.show_notes()


def enter_through_app() -> None:
    """Begin a run of a page, after entering through app.py; call this first in every page.

    Until st.navigation has run once in the server, Streamlit takes pages/ for its older kind of app
    and opens a linked page without app.py. In this case the visit restarts at app.py.
    """
    if not session.inside:
        root = Path(__file__).parents[2]
        st.navigation([root / "app.py", *sorted((root / "pages").glob("*.py"))])
        st.rerun()
    state.begin_run()
