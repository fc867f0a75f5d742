"""The app opened page by page without a browser, and what a page shows."""

import json
import time
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import numpy as np
from streamlit.testing.v1 import AppTest

from dpmc_core import registry
from dpmc_core.metrics import METRICS
from dpmc_core.privacy import RATING
from dpmc_lab.store import CurveInfo
from dpmc_lab.views import lines
from tests.waiting import PATIENCE_SECONDS, wait_for

ROOT = Path(__file__).resolve().parent.parent


def open_page(name="what_if", theme="light", came_from=None, **link):
    """The app at a page, as if its address had been typed in, or after another page."""
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=PATIENCE_SECONDS)
    app.context = {"theme": theme}
    if came_from is not None:
        app.session_state["page"] = came_from
    for key, value in link.items():
        app.query_params[key] = value
    app.switch_page(f"pages/{name}.py").run()
    assert not app.exception
    return app


def unescape_markdown(text):
    """The text as a person reads it, without the escapes that keep Markdown away."""
    return text.replace("\\", "").replace(":color[]", "").replace("\N{NO-BREAK SPACE}", " ")


def list_charts(app):
    return app.get("plotly_chart")


def read_chart_spec(app, number=0):
    return json.loads(list_charts(app)[number].proto.spec)


def read_instrument(app):
    """What the instrument of What if was given to draw."""
    (component,) = (
        element
        for element in app.get("bidi_component")
        if element.proto.component_name == "instrument"
    )
    return json.loads(component.proto.json)


def read_current_stop(app):
    """What the instrument says where it stands."""
    view = read_instrument(app)
    (stop,) = (stop for stop in view["stops"] if stop["epsilon"] == view["epsilon"])
    return stop


def move_slider_to(app, epsilon):
    """As if the slider had been let go there."""
    app.session_state["epsilon"] = epsilon
    app.run()
    assert not app.exception


def read_figure_help(app):
    """Return the caption of the figure: seeds, grid and marks."""
    return unescape_markdown(
        next((f"{c.value} {c.help}" for c in app.caption if " at each of " in c.value), "")
    )


def read_all_text(app):
    texts = [
        e.value
        for kind in (
            "title",
            "header",
            "subheader",
            "markdown",
            "caption",
            "text",
            "error",
            "warning",
            "info",
        )
        for e in app.get(kind)
    ]
    return unescape_markdown("\n".join(str(p) for p in texts))


def read_drawing(app, name="drawing"):
    """The HTML that a component of the page was given to draw; empty without one."""
    components = (element.proto for element in app.get("bidi_component"))
    return "".join(json.loads(c.json) for c in components if c.component_name == name)


def read_html(app):
    """All pictures and counts of the page, as a browser decodes them."""
    return unquote(" ".join(block.proto.body for block in app.get("html")))


def read_markdown(app):
    """What the page says in Markdown, as a person reads it."""
    return unescape_markdown(" ".join(m.value for m in app.markdown))


def find_button(app, label):
    """The button of that name; None where there is none."""
    return next((b for b in app.button if b.label == label), None)


def make_placed_line(id, values, *, epsilons=(1.0, 10.0), solid=True, counts="per rating"):
    """A line of made values (E x S) at the epsilons, as it is placed on an axis."""
    grid = np.array(epsilons)
    values = np.array(values, dtype=float)
    line = lines.Curve(
        info=make_curve_info(id),
        label=registry.get_mechanism(id).name,
        metric=METRICS["accuracy"],
        role=lines.Role.PRIVATE,
        epsilon=grid,
        seeds=np.arange(1, values.shape[1] + 1),
        values=values,
        claimed=grid,
        change=RATING,
        certified={RATING.value: grid},
        reasons={},
    )
    return lines.PlottedLine(line, grid, counts, reason="" if solid else "it is only claimed")


def make_level(id, values, role=lines.Role.BASELINE):
    """A method without epsilon, with a value for each seed."""
    label = registry.get_mechanism(id).name
    seeds = np.arange(1, len(values) + 1)
    grid, values = np.array([np.nan]), np.array([values], dtype=float)
    metric = METRICS["accuracy"]
    return lines.Curve(make_curve_info(id), label, metric, role, grid, seeds, values)


def make_curve_info(id):
    return CurveInfo(0, id, "", "", "", None, (), "", id, 1, {}, "binary")


class HtmlFile(HTMLParser):
    """The elements of a file, the texts of its scripts and all other texts.

    Tags must close in their order.
    """

    VOID = frozenset({"meta", "input", "br", "hr", "link", "img"})

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.open, self.scripts, self.texts = [], [], {}, []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] == ["script"]:
            kind = self.elements[-1][1].get("type", "")
            self.scripts[kind] = self.scripts.get(kind, "") + data
        elif self.open[-1:] != ["style"]:
            self.texts.append(data)

    @property
    def full_text(self):
        return "".join(self.texts)

    @property
    def tags(self):
        return [tag for tag, _ in self.elements]

    def all(self, tag):
        return [attrs for name, attrs in self.elements if name == tag]


def read_film(app):
    """Return what the player was sent, as a dictionary, or None where there is none."""
    players = [component.proto for component in app.get("bidi_component")]
    film_json = [player.json for player in players if player.component_name == "run"]
    return json.loads(film_json[0]) if film_json else None


def press_button(app, label):
    (target_button,) = (b for b in app.button if b.label == label)
    assert not target_button.disabled, label
    target_button.click().run()
    assert not app.exception
    return app


def wait_until(app, is_ready):
    """Rerun as the half-second ticks do, until it is so."""

    def tick():
        time.sleep(0.3)
        app.run()
        assert not app.exception

    wait_for(is_ready, tick)


WORKING = ("round", "run ", "start", "prepar", "stopping", "file", "read", "ids")


def run_until_done(app):
    """Until the job is over, and what is drawn then."""
    wait_until(app, lambda: not any(word in p.text for p in app.progress for word in WORKING))
    app.run()
    assert not app.exception
