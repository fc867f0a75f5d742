"""An experiment in words, rows and pictures: what a page and a command show of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from dpmc_core import registry
from dpmc_core.errors import format_sentence
from dpmc_core.experiment import EVALUATION_ONLY
from dpmc_core.paths import get_version
from dpmc_core.registry import get_style
from dpmc_core.style import BLUE, GREEN, ORANGE, PURPLE, RED, SKY, Style
from dpmc_lab.curves.cards import format_delta
from dpmc_lab.curves.lines import Interval, format_short_number
from dpmc_lab.curves.text import Table, build_table, render_page, render_paragraphs
from dpmc_lab.papers import engine, verdicts
from dpmc_lab.papers.engine import Experiment, Made, Paper, Point, Series
from dpmc_lab.papers.verdicts import HOLDS, SOME, Accuracy, Judged, Privacy, Upheld
from dpmc_lab.sweep import parse_seeds

TOLD = {
    "why": "Why they differ",
    "changed": "We changed",
    "unknown": "We could not know",
    "tried": "Settings tried",
    "draws": "Draws",
}
Columns = dict[str, list[str]]


class Look(NamedTuple):
    """An experiment with what there is of it. own: whether the result is one's own run; tried: its
    curves at settings that are not printed."""

    paper: Paper
    experiment: Experiment
    made: Made | None
    own: bool
    judged: Judged
    promises: tuple[Upheld, ...]
    tried: Made | None = None

    @property
    def series(self) -> tuple[Series, ...]:
        """Our curves, none without a result."""
        return self.made.series if self.made else ()

    @property
    def kept(self) -> list[tuple[str, Privacy]]:
        """How many promises have each verdict, the best first."""
        count = Counter(one.verdict for one in self.promises)
        return [
            (f"{n} {one.value}{'s' * (n > 1 and one is Privacy.COUNTEREXAMPLE)}", one)
            for one in Privacy
            if (n := count[one])
        ]

    @property
    def privacy(self) -> str:
        """The same in a line."""
        return ", ".join(text for text, _ in self.kept)

    @property
    def ranges(self) -> list[Series]:
        """From the lowest mean of a curve to the highest, over all settings tried."""
        if not (self.made and self.tried):
            return []
        at = verdicts.at_settings(self.made, self.tried).values()
        found = []
        for label in dict.fromkeys(one.label.partition(engine.AT)[2] for one in self.tried.series):
            curves = [one for made in at if (one := made.get(label))]
            points = {}
            for x in curves[0].x:
                means = [there.mean for one in curves if (there := one.at(x))]
                if len(means) == len(curves):
                    low, high = min(means), max(means)
                    points[x] = Point((low + high) / 2, (high - low) / 2, len(means))
            found.append(Series.of(label, points))
        return found


def look(paper: Paper, experiment: Experiment, made: Made | None = None) -> Look:
    """An experiment with its result: the given one, one's own, or the shipped one."""
    mine = made or engine.own(experiment.id)
    made = mine or engine.shipped(experiment.id)
    experiment = experiment.of(made)
    made = made and experiment.with_guesses(made)
    id = f"{experiment.id}-settings"
    tried = engine.own(id) or engine.shipped(id)
    judged = verdicts.judge(paper, experiment, made, tried)
    kept = verdicts.promises(experiment)
    return Look(paper, experiment, made, mine is not None, judged, kept, tried)


def all_looks(chosen: Iterable[Paper]) -> list[Look]:
    """Every experiment of some papers."""
    return [look(paper, one) for paper in chosen for one in paper.experiments]


def overview(found: Sequence[Look]) -> Columns:
    """All of them as a table, verdicts first."""
    heads = ("accuracy", "privacy", "paper", "place", "what it shows", "run time", "preset")
    return build_table(
        heads,
        (
            (
                judged.verdict.value,
                one.privacy,
                paper.key,
                experiment.place,
                experiment.title,
                duration(made.stamp.seconds) if made else "",
                experiment.id,
            )
            for one in found
            for paper, experiment, made, _, judged, *_ in (one,)
        ),
    )


_STANDS = {
    "statements": "statements",
    HOLDS[True]: "hold",
    SOME: "hold at a setting",
    HOLDS[False]: "do not hold",
    HOLDS[None]: "cannot be told",
    Accuracy.NOT_RUN.value: "not run",
}


def standing(found: Sequence[Look]) -> Columns:
    """How many statements of each paper hold, and of all papers, in the last row."""
    told = Counter(
        (key, word)
        for one in found
        for _, held in one.judged.statements
        for key in (one.paper.key, "all")
        for word in ("statements", verdicts.stands(held))
    )
    keys = *dict.fromkeys(one.paper.key for one in found), "all"
    rows = ((key, *(str(told[key, word]) for word in _STANDS)) for key in keys)
    return build_table(("paper", *_STANDS.values()), rows)


def opening(found: Sequence[Look]) -> str:
    """What holds of some papers, in a sentence."""
    (_, (*keys, _)), (_, (*_, total)), *parts = standing(found).items()
    whose = f"{len(keys)} papers" if len(keys) > 1 else keys[0]
    told = ", ".join(f"{n} {words}" for words, (*_, n) in parts if n != "0")
    return format_sentence(f"{whose}, {total} statements: {told or 'none can be compared'}")


def count(found: Sequence[Look]) -> str:
    """How many there are of each verdict, in a line."""
    there = [one.judged.verdict for one in found]
    parts = [f"{one.value} {there.count(one)}" for one in Accuracy if one in there]
    return format_sentence(f"{len(found)} figures and tables: {', '.join(parts)}")


def duration(seconds: float) -> str:
    """Of computing, in one process."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def facts(found: Look) -> list[tuple[str, str]]:
    """Name and text of what else is known, empty ones left out."""
    one, made = found.experiment, found.made
    whose = "Your own run: " if found.own else ""
    listed = {
        "we see": "" if one.x.names else we_see(found),  # a table says it itself
        "why": " ".join(why(one)) if made else "",
        "changed": " ".join(map(format_sentence, one.changed)),
        "unknown": " ".join(map(format_sentence, one.unknown)),
        "tried": _tried(found),
        "command": command(found),
        "made": f"{whose}{made_text(made)}" if made else "",
        "draws": draws(found),
    }
    return [(name, text) for name, text in listed.items() if text]


def why(one: Experiment) -> list[str]:
    """Why ours differs: what was found, with what shows it, and what is supposed."""
    told = [f"Found: {words} (shown by {shown})." for words, shown in one.found]
    return [*told, f"Supposed: {format_sentence(one.why)}"] if one.why else told


def draws(found: Look) -> str:
    """Over how many the paper averages and how many ours has; what all of them would take."""
    one, made = found.experiment, found.made
    if not (one.recipe and one.recipe.drawn):
        return ""
    text = f"the paper averages over {one.draws or 'a number that it does not print'}"
    if made:
        ours = len(parse_seeds([made.stamp.seeds]))
        text += f", ours over {ours}"
        if ours < one.draws:
            seconds = made.stamp.seconds * one.draws / ours
            text += f"; all of them would take {duration(seconds)} of computing"
    return format_sentence(text)


def _tried(found: Look) -> str:
    """Each with its reason, and what makes them."""
    one = found.experiment
    if not one.tried:
        return ""
    how = made_text(found.tried) if found.tried else "Nobody has run them here yet."
    reasons = (format_sentence(f"{name}: {why}") for name, why in one.tried.items())
    return " ".join([*reasons, how, f"Again: {one.at_settings.command}"])


def command(found: Look) -> str:
    """What makes the result that is shown, or would make one."""
    one, made = found.experiment, found.made
    return made.stamp.command if made else one.command if one.recipe else ""


def made_text(made: Made) -> str:
    """Version, seeds and run time of a result, and whether it is still what this program makes."""
    stamp = made.stamp
    text = f"version {stamp.version}, seeds {stamp.seeds}, {duration(stamp.seconds)} of computing"
    later = "" if made.current else " Made by an earlier version: a method has been revised since."
    return format_sentence(text) + later


def we_see(found: Look) -> str:
    """Each curve's ends in a sentence."""
    parts = []
    for one in found.series:
        first, last, *at = (
            format_short_number(v, 3) for v in (one.mean[0], one.mean[-1], one.x[0], one.x[-1])
        )
        long = "" if one.level or len(one.x) == 1 else f" to {last} (at {' to '.join(at)})"
        parts.append(f"{one.label} {first}{long}")
    return format_sentence("; ".join(parts)) if parts else ""


def legend(found: Look) -> str:
    """What the lines and marks of its picture stand for."""
    many = {n for one in found.series for n in one.seeds if n > 1}
    parts = []
    if many:
        seeds = " to ".join(map(str, sorted({min(many), max(many)})))
        parts.append(f"Lines: the mean over {seeds} seeds in its 95 % band.")
    if found.ranges:
        parts.append("Wide bands: from the lowest to the highest mean of the settings tried.")
    if found.experiment.printed:
        parts.append("Hollow: printed, with the error of reading it.")
    return " ".join([*parts, format_sentence(EVALUATION_ONLY)] if many else parts)


def numbers(found: Look) -> Columns:
    """Ours and what is printed, a row for each curve and place; empty where there is neither.

    Without columns that would have nothing in them.
    """
    axis, made = found.experiment.x, found.made
    printed = {(c.printed.series, c.printed.x): c for c in found.judged.compared}
    ours = {(one.label, x) for one in found.series for x in one.x[: 1 if one.level else None]}
    levels = {one.label for one in found.series if one.level}
    rows = []
    for label, x in sorted({*printed, *ours}):
        compared = printed.get((label, x))
        number, within = (compared.printed, compared.within) if compared else (None, None)
        here = made.at(label, x) if made else None
        at = axis.names[int(x)] if axis.names else f"{x:g}"
        rows.append(
            (
                label,
                "every" if label in levels else at,
                "none" if here is None else _with_error(here.mean, here.half_width),
                "" if number is None else _with_error(number.value, number.error),
                {None: "", True: "yes", False: "no"}[within],
                "" if number is None else number.place,
            )
        )
    heads = ("curve", axis.title or "quantity", "ours", "printed", "within", "printed in")
    return {name: texts for name, texts in build_table(heads, rows).items() if any(texts)}


def _with_error(value: float, error: float) -> str:
    return format_short_number(value) + (f" ± {format_short_number(error, 2)}" if error else "")


def statements(found: Look) -> Columns:
    """What the paper says and, before it with a result, whether it holds here."""
    told = found.judged.statements
    rows = [(verdicts.told_text(held), format_sentence(one.words), one.place) for one, held in told]
    told_here = build_table(("here", "the paper says", "in"), rows)
    if not found.made:
        del told_here["here"]
    return told_here


def promises_table(found: Look) -> Columns:
    """What becomes of the methods' promises, the worst first; those that fare alike in one row."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    order = list(Privacy)
    for one in sorted(found.promises, key=lambda one: order.index(one.verdict), reverse=True):
        alike.setdefault((one.verdict.value, one.words, one.command), []).append(one.name)
    rows = ((", ".join(names), *told) for told, names in alike.items())
    return build_table(("method", "promise", "why", "command"), rows)


def theory_table(paper: Paper) -> Columns:
    """A paper's theorems beside measurements."""
    heads = "theorem", "bounds", "printed", "ours", "measured", "bound / measured", "printed is"
    rows = []
    for row in paper.theorems:
        theirs = row.printed is None and row.open_constant  # there is none of ours
        numbers = row.bound if theirs else row.printed, None if theirs else row.bound
        told = "" if not row.open_constant else "up to a constant"
        rows.append(
            (
                row.theorem,
                row.quantity,
                *(
                    "" if n is None else format_short_number(n, 3)
                    for n in (*numbers, row.measured, row.factor)
                ),
                "contradicted" if row.counterexample else told,
                row.setting,
            )
        )
    return build_table((*heads, "instance"), rows)


def theory_notes(paper: Paper) -> list[str]:
    """What is wrong with printed theorems, each with the instance that contradicts it."""
    found = []
    for row in paper.theorems:
        said = [format_sentence(text) for text in (row.note, row.silence) if text]
        if row.counterexample and row.printed is not None:
            both = (
                f"{format_short_number(row.printed, 3)} is printed,"
                f" {format_short_number(row.measured, 3)} is measured"
            )
            said.insert(0, format_sentence(f"{both} ({row.setting})"))
        if said:
            found.append(f"{row.theorem}: {' '.join(said)}")
    return list(dict.fromkeys(found))


_HEADS = ("experiment", "whose", "curve", "mechanism", "x", "value", "low", "high", "seeds", "in")


def exact_numbers(found: Look) -> Table:
    """Ours and what is printed, a row each; numbers with all their digits."""
    id = found.experiment.id
    rows: list[tuple[object, ...]] = []
    for one in found.series:
        for row in zip(one.x, one.mean, one.low, one.high, one.seeds, strict=True):
            rows.append((id, "ours", one.label, one.mechanism or "", *row, ""))
    for series, x, value, error, place in found.experiment.printed:
        ends = value - error, value + error
        rows.append((id, "printed", series, "", x, value, *ends, "", place))
    return build_table(_HEADS, rows)


def as_dict(found: Look) -> dict[str, Any]:
    """As plain JSON values."""
    paper, one, judged, made = found.paper, found.experiment, found.judged, found.made
    return {
        "id": one.id,
        "paper": paper.key,
        "place": one.place,
        "title": one.title,
        "x": one.x.title,
        "y": one.y.title,
        "accuracy": {"verdict": judged.verdict.value, "reason": judged.reason},
        "privacy": [
            {
                "mechanism": p.mechanism,
                "verdict": p.verdict.value,
                "why": p.words,
                "shown_by": p.command,
            }
            for p in found.promises
        ],
        "statements": [
            {"words": s.words, "place": s.place, "here": verdicts.told_text(held), "at": held}
            for s, held in judged.statements
        ],
        "printed": [
            {
                **c.printed._asdict(),
                "ours": c.ours and dict(zip(Interval._fields, c.ours, strict=False)),
                "within": c.within,
            }
            for c in judged.compared
        ],
        "result": made and engine.as_dict(made),
        "current": made and made.current,
        "changed": list(one.changed),
        "unknown": list(one.unknown),
        "found": one.found,
        "why": one.why,
        "draws": one.draws,
        "not_run": one.not_run,
        "command": command(found),
    }


# --- pictures ------------------------------------------------------------------------------------

# A chart has its own colours for "ink" and "muted", which follow its surface.
OPEN = Style("ink", "circle", "dash")  # of what keeps nothing private
GUESS = Style("muted", "circle", "dot")  # of what looks at no person's taste
# Of further curves of one method, whose colour stays.
_MARKS = ("square", "diamond", "triangle-up", "cross", "triangle-down", "pentagon")
_MORE_DASHES = ("dashdot", "solid", "longdash", "dash", "longdashdot", "dot")
_UNNAMED = (PURPLE, GREEN, ORANGE, BLUE, RED, SKY)  # curves of no method, in their order
EPSILON = "epsilon"
_MANY = 40  # points, beyond which a curve has no marks


def drawn(found: Look) -> bool:
    """Whether there is something to draw: a table has no chart."""
    one = found.experiment
    return bool(found.made or one.printed) and not one.x.names


def looks(found: Look) -> dict[str, Style]:
    """How each curve is drawn, by its label: never two alike, and one colour for each method."""
    one, ours = found.experiment, curves(found)
    known = {p.series: one.methods.get(p.series) for p in one.printed}
    known |= {label: curve.mechanism for label, curve in ours.items()}
    levels = {label for label, curve in ours.items() if curve.level}
    bases = {
        label: GUESS if label in one.guesses else _base(id, label in levels, place)
        for place, (label, id) in enumerate(known.items())
    }
    taken = {*bases.values(), GUESS}
    marks = [mark for mark in _MARKS if mark not in {look.marker for look in taken}] or _MARKS
    dashes = [dash for dash in _MORE_DASHES if dash not in {look.dash for look in taken}]
    dashes = dashes or list(_MORE_DASHES)
    drawn: dict[str, Style] = {}
    further: Counter[str] = Counter()
    for label, base in bases.items():
        look = base
        if base in drawn.values():
            k = further[base.color]  # what is alike of two methods looks alike
            look = Style(base.color, marks[k % len(marks)], dashes[k % len(dashes)])
            further[base.color] += 1
        drawn[label] = look
    return drawn


def _base(mechanism: str | None, level: bool, place: int) -> Style:
    """level: whether it is the same whatever epsilon is, hence without noise."""
    if mechanism is None:
        color, mark = _UNNAMED[place % len(_UNNAMED)], _MARKS[place % len(_MARKS)]
        return Style(color, mark, _MORE_DASHES[(place + 1) % len(_MORE_DASHES)])
    if mechanism not in registry.MECHANISMS or registry.adds_noise(
        registry.get_mechanism(mechanism)
    ):
        base = get_style(mechanism)
        return base._replace(dash="dash") if level else base
    return GUESS if mechanism in verdicts.FLOORS else OPEN


def curves(found: Look) -> dict[str, Series]:
    """Ours, by label."""
    return {one.label: one for one in found.series}


def titles(found: Look) -> tuple[str, str]:
    """What stands at both axes; an epsilon with the unit that it is promised for."""
    one = found.experiment
    across, units = one.x.title, {promise.change.label for promise in one.promises}
    if across == EPSILON and len(units) == 1:
        deltas = {promise.delta for promise in one.promises if promise.delta}
        also = f", delta {format_delta(deltas.pop())}" if len(deltas) == 1 else ""
        across = f"{across} {units.pop()}{also}"
    return across, one.y.title


def marked(curve: Series) -> bool:
    """Whether its points have marks: neither a level nor a density has."""
    return not curve.level and len(curve.x) <= _MANY


# --- the report ----------------------------------------------------------------------------------

_COLORS = {
    Accuracy.AGREES: "good",
    Accuracy.TREND: "fair",
    Accuracy.DEPENDS: "fair",
    Accuracy.DIFFERS: "off",
    Privacy.PROVED: "good",
    Privacy.NARROWER: "fair",
    Privacy.UNPROVED: "off",
    Privacy.COUNTEREXAMPLE: "bad",
}
_LONG = 24  # letters, from which on a cell is of words that are wrapped
_SHORT = 12  # rows, up to which a table is unfolded
_STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --muted: #5d646d; --grid: #dcdcd6;
  --paper: #fdfdfc; --accent: #4c5fd5; --good: #1a7f37; --fair: #0b63c5; --off: #96500a;
  --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e9ec; --muted: #9aa0a8; --grid: #2c3138;
  --paper: #14161a; --accent: #9aa6f2; --good: #4ac26b; --fair: #6cb0ff; --off: #e3a04a;
  --bad: #ff8a80; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2, h3 { line-height: 1.25; } h2 { margin-top: 3rem; } h3 { margin: 2.5rem 0 .3rem; }
a { color: var(--accent); } .small { color: var(--muted); font-size: .9rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: .875rem; }
td, th { padding: .25rem .8rem .25rem 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--grid); }
.badge { display: inline-block; border: 1px solid currentColor; border-radius: 1rem;
  padding: 0 .6rem; margin-right: .4rem; font-size: .875rem; }
.good { color: var(--good); } .fair { color: var(--fair); } .off { color: var(--off); }
.bad { color: var(--bad); } .badge { margin-bottom: .3rem; }
td.words { min-width: 10rem; } td.short { white-space: nowrap; }
pre { background: color-mix(in srgb, var(--ink) 7%, transparent); padding: .6rem .8rem;
  white-space: pre-wrap; overflow-wrap: anywhere; font-size: .875rem; }
summary { cursor: pointer; } details { margin: .4rem 0; } p { margin: .5rem 0; }
"""


def html(found: Sequence[Look]) -> str:
    """The page of these experiments."""
    meant = render_paragraphs(*verdicts.meanings(one.judged.verdict for one in found))
    parts = [
        _paragraph(opening(found)),
        _table(standing(found)),
        _paragraph(count(found)),
        _paragraph(
            f"Made by dpmc papers --report, version {get_version()}, from stored results. Ours:"
            " mean"
            " over seeds, and half of its 95 % interval. Printed: with the error of reading it. The"
            f" page Papers of the app draws the same numbers. {format_sentence(EVALUATION_ONLY)}",
            "small",
        ),
        f"<details><summary>What the verdicts on accuracy mean</summary>{meant}</details>",
        _table(overview(found), links=[one.experiment.id for one in found]),
    ]
    for key, paper in {one.paper.key: one.paper for one in found}.items():
        parts.append(f"<h2>{escape(key)}: {escape(paper.title)}</h2>")
        parts.append(_paragraph(f"{', '.join(paper.authors)}. {paper.venue}, {paper.year}."))
        parts.append(_paragraph(paper.unjudged and format_sentence(paper.unjudged)))
        parts += [_experiment(one) for one in found if one.paper.key == key]
        if paper.theorems:
            parts.append(f"<h3>{escape(key)}: theorems beside measurements</h3>")
            parts.append(_table(theory_table(paper)))
            parts += [_paragraph(text, "small") for text in theory_notes(paper)]
        parts.append(f"<pre>{escape(paper.bibtex)}</pre>")
    return render_page("Five papers: what is printed beside what is measured", parts, _STYLE) + "\n"


def _experiment(found: Look) -> str:
    one = found.experiment
    badges = _badge("accuracy", found.judged.verdict)
    badges += "".join(_badge("privacy", verdict, text) for text, verdict in found.kept)
    name = f"{found.paper.key}, {one.place}: {one.title}"
    columns = numbers(found)
    table = _table(columns) if columns else ""
    parts = [
        f"<h3 id='{escape(one.id)}'>{escape(name)}</h3>",
        f"<p>{badges}</p>",
        _paragraph(found.judged.reason),
    ]
    if table:
        opened = "" if len(columns["curve"]) > _SHORT else " open"
        parts.append(f"<details{opened}><summary>Numbers</summary>{table}</details>")
    said = statements(found)
    if said["the paper says"]:
        parts.append(_table(said))
    for name, text in facts(found):
        if name != "command":
            label = TOLD.get(name, name.capitalize())
            parts.append(f"<p class='small'><b>{escape(label)}</b>: {escape(text)}</p>")
    if text := command(found):
        parts.append(f"<pre>{escape(text)}</pre>")
    kept = promises_table(found)
    if kept["method"]:
        parts.append(f"<details><summary>Promises</summary>{_table(kept)}</details>")
    return "\n".join(part for part in parts if part)


def _badge(what: str, verdict: Accuracy | Privacy, text: str = "") -> str:
    color = _COLORS.get(verdict, "small")
    return f"<span class='badge {color}'>{what}: {escape(text or verdict.value)}</span>"


def _paragraph(text: str, kind: str = "") -> str:
    return f"<p{f' class={kind!r}' if kind else ''}>{escape(text)}</p>" if text else ""


def _table(columns: Mapping[str, Sequence[str]], links: Sequence[str] = ()) -> str:
    """links: the id of the place that `place` of each row leads to."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    wide = [max(map(len, texts), default=0) > _LONG for texts in columns.values()]
    rows = []
    for k, row in enumerate(zip(*columns.values(), strict=True)):
        cells = []
        for name, text, long in zip(columns, row, wide, strict=True):
            shown = escape(text)
            if links and name == "place":
                shown = f"<a href='#{escape(links[k])}'>{shown}</a>"
            cells.append(f"<td class='{'words' if long else 'short'}'>{shown}</td>")
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return f"<div class='scroll'><table><tr>{head}</tr>{''.join(rows)}</table></div>"
