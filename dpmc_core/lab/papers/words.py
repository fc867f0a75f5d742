"""An experiment in words and rows: what a page, a command and the report show of it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from dpmc_core.errors import sentence
from dpmc_core.experiment import EVALUATION_ONLY
from dpmc_core.lab import papers
from dpmc_core.lab.papers import run, verdicts
from dpmc_core.lab.papers.frame import Experiment, Made, Paper, Series
from dpmc_core.lab.papers.verdicts import Accuracy, Judged, Privacy, Upheld
from dpmc_core.lab.views.lines import short

HOLDS = {True: "holds", False: "does not hold", None: "cannot tell"}
TOLD = {"why": "Why they differ", "changed": "We changed", "unknown": "We could not know"}
Columns = dict[str, list[str]]


class Look(NamedTuple):
    """An experiment with what there is of it. own: whether the result is one's own run."""

    paper: Paper
    experiment: Experiment
    made: Made | None
    own: bool
    judged: Judged
    promises: tuple[Upheld, ...]

    @property
    def series(self) -> tuple[Series, ...]:
        """Our curves, none without a result."""
        return () if self.made is None else self.made.series

    @property
    def worst(self) -> Upheld | None:
        """Of its promises, the one that says most against it."""
        return max(self.promises, key=_badness, default=None)


def _badness(found: Upheld) -> int:
    return list(Privacy).index(found.verdict)


def look(paper: Paper, experiment: Experiment, made: Made | None = None) -> Look:
    """An experiment with its result: the given one, one's own, or the shipped one."""
    mine = made or run.own(experiment.id)
    made = mine or run.shipped(experiment.id)
    made = made and experiment.with_guesses(made)
    judged = verdicts.judge(paper, experiment, made)
    kept = verdicts.promises(experiment)
    return Look(paper, experiment, made, mine is not None, judged, kept)


def all_looks(chosen: Iterable[Paper]) -> list[Look]:
    """Every experiment of some papers."""
    return [look(paper, one) for paper in chosen for one in paper.experiments]


def _columns(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Columns:
    there = list(rows)
    return {head: [row[k] for row in there] for k, head in enumerate(heads)}


def overview(found: list[Look]) -> Columns:
    """All of them as a table, verdicts first."""
    heads = ("accuracy", "privacy", "paper", "place", "what it shows", "run time", "preset")
    return _columns(
        heads,
        (
            (
                judged.verdict.value,
                one.worst.verdict.value if one.worst else "",
                paper.key,
                experiment.place,
                experiment.title,
                "" if made is None else duration(made.stamp.seconds),
                experiment.id,
            )
            for one in found
            for paper, experiment, made, _, judged, _ in (one,)
        ),
    )


def count(found: list[Look]) -> str:
    """How many there are of each verdict, in a line."""
    there = [one.judged.verdict for one in found]
    parts = [f"{one.value} {there.count(one)}" for one in Accuracy if one in there]
    return sentence(f"{len(found)} figures and tables: {', '.join(parts)}")


def duration(seconds: float) -> str:
    """Of computing, in one process."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def privacy_text(found: Look) -> str:
    """What becomes of its promises, in a line: each verdict with the methods it is on."""
    names = {
        verdict: [one.name for one in found.promises if one.verdict is verdict]
        for verdict in Privacy
    }
    parts = [f"{verdict.value}: {', '.join(some)}" for verdict, some in names.items() if some]
    return sentence("; ".join(parts)) if parts else ""


def facts(found: Look) -> list[tuple[str, str]]:
    """Name and text of what else is known, empty ones left out."""
    one, made = found.experiment, found.made
    whose = "Your own run: " if found.own else ""
    listed = {
        "we see": "" if one.x.names else we_see(found),  # a table says it itself
        "why": "" if made is None else sentence(one.why),
        "changed": " ".join(map(sentence, one.changed)),
        "unknown": " ".join(map(sentence, one.unknown)),
        "command": command(found),
        "made": "" if made is None else f"{whose}{made_text(made)}",
    }
    return [(name, text) for name, text in listed.items() if text]


def command(found: Look) -> str:
    """What makes the result that is shown, or would make one."""
    if found.made is not None:
        return found.made.stamp.command
    return found.experiment.command if found.experiment.recipe is not None else ""


def made_text(made: Made) -> str:
    """Version, seeds and run time of a result, and whether it is still what this program makes."""
    stamp = made.stamp
    text = f"version {stamp.version}, seeds {stamp.seeds}, {duration(stamp.seconds)} of computing"
    later = "" if made.current else " Made by an earlier version: a method has been revised since."
    return sentence(text) + later


def we_see(found: Look) -> str:
    """Each curve's ends in a sentence."""
    parts = []
    for one in found.series:
        first, last, *at = (short(v, 3) for v in (one.mean[0], one.mean[-1], one.x[0], one.x[-1]))
        long = "" if one.level or len(one.x) == 1 else f" to {last} (at {' to '.join(at)})"
        parts.append(f"{one.label} {first}{long}")
    return sentence("; ".join(parts)) if parts else ""


def legend(found: Look) -> str:
    """What the lines and marks of its picture stand for."""
    many = {n for one in found.series for n in one.seeds if n > 1}
    parts = []
    if many:
        seeds = " to ".join(map(str, sorted({min(many), max(many)})))
        parts.append(f"Lines: the mean over {seeds} seeds in its 95 % band.")
    if found.experiment.printed:
        parts.append("Hollow: printed, with the error of reading it.")
    return " ".join([*parts, sentence(EVALUATION_ONLY)] if many else parts)


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
    return {name: texts for name, texts in _columns(heads, rows).items() if any(texts)}


def _with_error(value: float, error: float) -> str:
    return short(value) + (f" ± {short(error, 2)}" if error else "")


def statements(found: Look) -> Columns:
    """What the paper says and, before it with a result, whether it holds here."""
    told = found.judged.statements
    rows = [(HOLDS[held], sentence(one.words), one.place) for one, held in told]
    columns = _columns(("here", "the paper says", "in"), rows)
    if found.made is None:
        del columns["here"]
    return columns


def promises_table(found: Look) -> Columns:
    """What becomes of the methods' promises, the worst first; those that fare alike in one row."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for one in sorted(found.promises, key=_badness, reverse=True):
        alike.setdefault((one.verdict.value, one.words, one.command), []).append(one.name)
    rows = ((", ".join(names), *told) for told, names in alike.items())
    return _columns(("method", "promise", "why", "command"), rows)


def theory_table(paper: Paper) -> Columns:
    """A paper's theorems beside measurements; takes a second or two the first time."""
    heads = "theorem", "bounds", "printed", "ours", "measured", "bound / measured", "printed is"
    rows = []
    for row in papers.theorems(paper):
        theirs = row.printed is None and row.open_constant  # there is none of ours
        numbers = row.bound if theirs else row.printed, None if theirs else row.bound
        told = "" if not row.open_constant else "up to a constant"
        rows.append(
            (
                row.theorem,
                row.quantity,
                *("" if n is None else short(n, 3) for n in (*numbers, row.measured, row.factor)),
                "contradicted" if row.counterexample else told,
                row.setting,
            )
        )
    return _columns((*heads, "instance"), rows)


def theory_notes(paper: Paper) -> list[str]:
    """What is wrong with printed theorems, each with the instance that contradicts it."""
    found = []
    for row in papers.theorems(paper):
        said = [sentence(text) for text in (row.note, row.silence) if text]
        if row.counterexample and row.printed is not None:
            both = f"{short(row.printed, 3)} is printed, {short(row.measured, 3)} is measured"
            said.insert(0, sentence(f"{both} ({row.setting})"))
        if said:
            found.append(f"{row.theorem}: {' '.join(said)}")
    return list(dict.fromkeys(found))


_HEADS = ("experiment", "whose", "curve", "mechanism", "x", "value", "low", "high", "seeds", "in")


def csv_text(found: list[Look]) -> str:
    """Ours and what is printed, a line each; numbers with all their digits."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(_HEADS)
    for look in found:
        id = look.experiment.id
        for one in look.series:
            for row in zip(one.x, one.mean, one.low, one.high, one.seeds, strict=True):
                writer.writerow((id, "ours", one.label, one.mechanism or "", *row, ""))
        for series, x, value, error, place in look.experiment.printed:
            ends = value - error, value + error
            writer.writerow((id, "printed", series, "", x, value, *ends, "", place))
    return stream.getvalue()


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
            {"words": s.words, "place": s.place, "here": HOLDS[held]}
            for s, held in judged.statements
        ],
        "printed": [
            {
                **c.printed._asdict(),
                "ours": None if c.ours is None else c.ours._asdict(),
                "within": c.within,
            }
            for c in judged.compared
        ],
        "result": None if made is None else run.as_dict(made),
        "current": None if made is None else made.current,
        "changed": list(one.changed),
        "unknown": list(one.unknown),
        "why": one.why,
        "not_run": one.not_run,
        "command": command(found),
    }
