"""Curves as files to take along: a picture, numbers, a citation, and pages without a network."""

from __future__ import annotations

import csv as csv_files
import io
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from dpmc_core import paths, registry
from dpmc_core.problem import split_words
from dpmc_lab import citation
from dpmc_lab.curves import cards, lines, text
from dpmc_lab.curves.lines import GUESSING, Count, Picture
from dpmc_lab.curves.svg import DASHES, MARKS, NAMESPACE, Extent, element
from dpmc_lab.store import guarded
from pages.ui.charts import GRID, INK, LEVELS, LIGHT, MUTED, PAPER, Figure, spread, style
from pages.ui.charts.lines import level_look, reach
from pages.ui.text import in_chart


class Exhibit(NamedTuple):
    """A chart of a run with its words; fig is None where there is nothing to draw: see caption.

    title: above it in the report; question: above it on the page.
    """

    key: str
    title: str
    question: str
    fig: Figure | None
    caption: str
    alt: str = ""
    table: Mapping[str, Sequence[Any]] | None = None


def comparison(
    title: str,
    drawn: Sequence[tuple[str, Figure]],
    words: Sequence[str],
    table: Mapping[str, Sequence[object]],
    command: str,
) -> str:
    """A comparison as one file: charts by their titles, sentences, numbers and the command."""
    told = text.paragraphs(*words), text.heading("Numbers"), text.table(table)
    return page(title, [*charts(drawn), *told], command)


# --- what a curve is taken along as -----------------------------------------------------------


def svg(picture: Picture) -> str:
    """The curves as a picture without a script. In pixels, which every program of slides knows."""
    metric, first = picture.metric, picture.lines[0]
    ids = [*dict.fromkeys(one.mechanism for one in picture.lines)]
    placed = [lines.place(one, Count.PAPER) for one in picture.lines]
    x = Extent.over((e for one in placed for e in one.x.tolist()), log=True)
    y = Extent(*reach(picture, picture.lines, picture.guesses))
    parts: list[str] = []
    tags: list[tuple[str, float, float, str]] = []  # name, epsilon and value at its end, colour

    def at(epsilon: float, value: float) -> tuple[float, float]:
        return 76 + 634 * x.share(epsilon), 470 - 340 * y.share(value)

    def say(x: float, y: float, words: str, anchor: str = "start", **more: Any) -> None:
        place = {"x": f"{x:.1f}", "y": f"{y:.1f}", "text_anchor": anchor}
        parts.append(element("text", in_chart(words), **place | {"fill": INK} | more))

    def draw(tag: str, x: Iterable[float], y: Iterable[float], **look: Any) -> None:
        corners = (f"{across:.1f},{up:.1f}" for across, up in map(at, x, y))
        parts.append(element(tag, points=" ".join(corners), **{"fill": "none"} | look))

    def stroke(color: str, dash: str, width: float = 2) -> dict[str, Any]:
        found = {"stroke": color, "stroke_dasharray": DASHES.get(dash, "none")}
        return found | {"stroke_width": width}

    for tick in y.ticks:
        draw("polyline", x[:2], [tick] * 2, stroke=GRID)
        say(68, at(1, tick)[1] + 5, f"{100 * tick:.4g} %" if metric.share else f"{tick:.4g}", "end")
    for tick in x.ticks:
        say(at(tick, 0)[0], 490, f"{tick:g}", "middle")
    for name, level in picture.levels:
        color, dash = level_look(name, level.mechanism, ids)
        draw("polyline", x[:2], [level.level.mean] * 2, **stroke(color, dash))
        tags.append((f"{name} {metric.text(level.level.mean)}", x.high, level.level.mean, color))
    for one in picture.guesses:
        color, dash = LEVELS[GUESSING]
        draw("polyline", one.epsilon, one.band.mean, **stroke(color, dash))
        end = float(one.band.mean[-1])
        tags.append(
            (
                f"{lines.guess_name(one.mechanism)} {metric.text(end)}",
                float(one.epsilon[-1]),
                end,
                color,
            )
        )
    for k, one in reversed([*enumerate(placed)]):
        look, band = style(one.line.mechanism), one.band
        twin = one.line.mechanism in [other.mechanism for other in picture.lines[:k]]
        edges = ([*band.x, *band.x[::-1]], [*band.high, *band.low[::-1]])
        draw("polygon", *edges, fill=look.color, fill_opacity=0.1 if twin else 0.2)
        dash, width = ("dot", 1.5) if twin else (look.dash, 2.5)
        draw("polyline", band.x, band.mean, **stroke(look.color, dash, width))
        for place in map(at, band.x, band.mean):
            move = "translate({:.1f} {:.1f}) scale({})".format(*place, 3 if twin else 5)
            mark = {"stroke": look.color, "stroke_width": 0.4, "transform": move}
            mark["fill"] = look.color if one.solid else PAPER
            parts.append(element("path", d=MARKS.get(look.marker, MARKS["circle"]), **mark))
        tags.append((one.line.label, float(band.x[-1]), float(band.mean[-1]), look.color))
    named = [textwrap.wrap(name.replace(" %", "\u00a0%"), 25) for name, *_ in tags]
    wanted = [at(x.high, value)[1] - 90 for _, _, value, _ in tags]
    places = spread(wanted, [17 * len(words) + 4 for words in named], 400)
    for words, (_, epsilon, value, color), middle in zip(named, tags, places, strict=True):
        across, up = at(epsilon, value)
        ends = {"x1": f"{across + 7:.1f}", "y1": f"{up:.1f}", "x2": 738, "y2": f"{middle + 90:.1f}"}
        parts.append(element("line", **ends, stroke=color))
        for k, word in enumerate(words):
            say(744, middle + 95 + 17 * (k - (len(words) - 1) / 2), word)
    id, info = first.mechanism, first.info
    card = registry.create(id, epsilon=1.0).guarantee(info.public)
    told = [f"{registry.get(id).name}: {cards.protects(card)}"] if len(ids) == 1 else []
    measured = f"Tested on {split_words(info.split)}; {lines.band_words(first.band)}."
    told.append(f"{measured} Filled: certified; hollow: only claimed.")
    say(24, 32, f"{info.title}: {metric.title} against epsilon", font_size=20, font_weight=600)
    for k, line in enumerate(part for one in told for part in textwrap.wrap(one, 130)):
        say(24, 52 + 17 * k, line, fill=MUTED, font_size=13)
    say(24, 110, metric.axis, fill=MUTED)
    counts = {one.counts for one in placed}
    unit = counts.pop() if len(counts) == 1 else Count.PAPER.value
    say(393, 518, f"epsilon {unit} (left: more private)", "middle", fill=MUTED)
    ground = element("rect", width=960, height=540, fill=PAPER)
    shape = {"width": 960, "height": 540, "viewBox": "0 0 960 540", "role": "img"}
    look = {"font_family": "sans-serif", "font_size": 14}
    words = {"aria_label": lines.words(picture, placed)}
    return element("svg", ground + "".join(parts), **shape, **look, **words, **NAMESPACE)


def csv(table: Mapping[str, Sequence[object]]) -> str:
    """A table as a file that no spreadsheet runs."""
    stream = io.StringIO()
    rows = (tuple(table), *zip(*table.values(), strict=True))
    csv_files.writer(stream, lineterminator="\n").writerows(map(guarded, row) for row in rows)
    return stream.getvalue()


def cited(picture: Picture, command: str) -> str:
    """How to cite a curve: the program with what makes it, and the papers that have its methods."""
    methods = {line.mechanism for line in picture.lines}
    names = ", ".join(line.label for line in picture.lines)
    fields = {
        "title": f"DPMC Lab: {names}, {picture.metric.spoken} against epsilon",
        "author": "{DPMC Lab contributors}",
        "version": paths.version(),
        "note": command,
    }
    own = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items())
    papers = (one.bibtex for one in citation.citing(methods))
    entries = [f"@software{{dpmc-lab,\n{own}\n}}", *papers]
    return "\n\n".join(entries)


def page(title: str, parts: Sequence[str], command: str, note: str = "") -> str:
    """A page that opens anywhere, without a network. parts: HTML; the rest plain text."""
    repeat = f"{text.heading('Repeat it')}<pre>{escape(command)}</pre>"
    return text.page(title, [*parts, repeat, text.paragraphs(note) if note else ""])


def charts(drawn: Sequence[tuple[str, Figure]]) -> list[str]:
    """Headed charts; the first brings the library along."""
    import plotly.io as pio  # no first page need wait for it

    return [
        text.heading(title)
        + pio.to_html(
            fig.on(LIGHT),
            include_plotlyjs=number == 0,
            full_html=False,
            config={"displaylogo": False},
            validate=False,
        )
        for number, (title, fig) in enumerate(drawn)
    ]
