"""An experiment in words and rows: what a page, a command and the report show of it."""

from __future__ import annotations

import csv
import io
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
_EARLIER = "Made by an earlier version: a method has been revised since."


class Look(NamedTuple):
    """An experiment with what there is of it. own: whether the result is one's own run."""

    paper: Paper
    experiment: Experiment
    made: Made | None
    own: bool
    judged: Judged
    promises: tuple[Upheld, ...]

    @property
    def worst(self) -> Upheld | None:
        """Of its promises, the one that fares worst."""
        return verdicts.worst(self.promises)


def look(paper: Paper, experiment: Experiment, made: Made | None = None) -> Look:
    """An experiment with its result: the given one, one's own, or the shipped one."""
    mine = made or run.own(experiment.id)
    made = mine or run.shipped(experiment.id)
    made = made and experiment.with_guesses(made)
    judged = verdicts.judge(paper, experiment, made)
    kept = verdicts.promises(experiment)
    return Look(paper, experiment, made, mine is not None, judged, kept)


def all_looks(chosen: Any) -> list[Look]:
    """Every experiment of some papers."""
    return [look(paper, one) for paper in chosen for one in paper.experiments]


def overview(found: list[Look]) -> dict[str, list[str]]:
    """All of them as a table, verdicts first."""
    return {
        "accuracy": [one.judged.verdict.value for one in found],
        "privacy": [one.worst.verdict.value if one.worst else "" for one in found],
        "paper": [one.paper.key for one in found],
        "place": [one.experiment.place for one in found],
        "what it shows": [one.experiment.title for one in found],
        "run time": [run_time(one) for one in found],
        "preset": [one.experiment.id for one in found],
    }


def count(found: list[Look]) -> str:
    """How many there are of each verdict, in a line."""
    parts = []
    for verdict in Accuracy:
        n = sum(one.judged.verdict is verdict for one in found)
        if n:
            parts.append(f"{verdict.value} {n}")
    return sentence(f"{len(found)} figures and tables: {', '.join(parts)}")


def run_time(found: Look) -> str:
    """How long its result took to compute."""
    return "" if found.made is None else duration(found.made.stamp.seconds)


def duration(seconds: float) -> str:
    """Of computing, in one process."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def privacy_text(found: Look) -> str:
    """What becomes of its promises, in a line."""
    if not found.promises:
        return ""
    return verdicts.summary(found.promises)


def facts(found: Look) -> list[tuple[str, str]]:
    """Name and text of what else is known, empty ones left out."""
    one, made = found.experiment, found.made
    listed = [
        ("we see", "" if one.x.names else we_see(made)),  # a table says it itself
        ("why", "" if made is None else sentence(one.why)),
        ("changed", " ".join(map(sentence, one.changed))),
        ("unknown", " ".join(map(sentence, one.unknown))),
        ("command", command(found)),
    ]
    if made is not None:
        listed += [("made", f"{'Your own run: ' if found.own else ''}{made_text(made)}")]
    return [(name, text) for name, text in listed if text]


def command(found: Look) -> str:
    """What makes the result that is shown, or would make one."""
    if found.made is not None:
        return found.made.stamp.command
    return found.experiment.command if found.experiment.recipe is not None else ""


def made_text(made: Made) -> str:
    """Version, seeds and run time of a result, and whether it is still what this program makes."""
    stamp = made.stamp
    text = f"version {stamp.version}, seeds {stamp.seeds}, {duration(stamp.seconds)} of computing"
    return sentence(text) + ("" if made.current else f" {_EARLIER}")


def we_see(made: Made | None) -> str:
    """Each curve's ends in a sentence."""
    if made is None:
        return ""
    return sentence("; ".join(_curve_words(one) for one in made.series))


def _curve_words(one: Series) -> str:
    first, last = one.mean[0], one.mean[-1]
    if one.level or len(one.x) == 1:
        return f"{one.label} {short(first, 3)}"
    at = f"{short(one.x[0], 3)} to {short(one.x[-1], 3)}"
    return f"{one.label} {short(first, 3)} to {short(last, 3)} (at {at})"


def legend(found: Look) -> str:
    """What the lines and marks of its picture stand for."""
    many = [n for one in (found.made.series if found.made else ()) for n in one.seeds]
    parts = []
    if max(many, default=0) > 1:
        least, most = min(n for n in many if n > 1), max(many)
        seeds = f"{most}" if least == most else f"{least} to {most}"
        parts.append(f"Lines: the mean over {seeds} seeds in its 95 % band.")
    if found.experiment.printed:
        parts.append("Hollow: printed, with the error of reading it.")
    if max(many, default=0) > 1:
        parts.append(sentence(EVALUATION_ONLY))
    return " ".join(parts)


def numbers(found: Look) -> dict[str, list[str]]:
    """Ours and what is printed, a row for each curve and place; empty where there is neither.

    Without columns that would have nothing in them.
    """
    one, made = found.experiment, found.made
    columns: dict[str, list[str]] = {"curve": [], one.x.title or "quantity": []}
    columns |= {"ours": [], "printed": [], "within": [], "printed in": []}
    printed = {(c.printed.series, c.printed.x): c for c in found.judged.compared}
    rows: list[tuple[str, float]] = list(printed)
    for curve in made.series if made else ():
        places = curve.x[:1] if curve.level else curve.x
        rows += [(curve.label, x) for x in places if (curve.label, x) not in printed]
    for label, x in sorted(rows, key=lambda row: (row[0], row[1])):
        compared = printed.get((label, x))
        curve_made = made.get(label) if made else None
        ours = made.at(label, x) if made else None
        where = one.x.names[int(x)] if one.x.names else f"{x:g}"
        if curve_made is not None and curve_made.level:
            where = "every"
        within = None if compared is None else compared.within
        cells = (
            label,
            where,
            verdicts.number(ours),
            "" if compared is None else _printed_text(compared.printed),
            "" if within is None else ("yes" if within else "no"),
            "" if compared is None else compared.printed.place,
        )
        for column, text in zip(columns.values(), cells, strict=True):
            column.append(text)
    return {name: texts for name, texts in columns.items() if any(texts)}


def _printed_text(printed: Any) -> str:
    error = f" ± {short(printed.error, 2)}" if printed.error else ""
    return f"{short(printed.value)}{error}"


def statements(found: Look) -> dict[str, list[str]]:
    """What the paper says and, before it with a result, whether it holds here."""
    told = found.judged.statements
    here = {} if found.made is None else {"here": [HOLDS[held] for _, held in told]}
    return {
        **here,
        "the paper says": [sentence(one.words) for one, _ in told],
        "in": [one.place for one, _ in told],
    }


def promises_table(found: Look) -> dict[str, list[str]]:
    """What becomes of the methods' promises, the worst first; those that fare alike in one row."""
    order = list(verdicts.Privacy)
    alike: dict[tuple[Privacy, str, str], list[str]] = {}
    for one in sorted(found.promises, key=lambda one: -order.index(one.verdict)):
        name = verdicts.name_of(one.mechanism)
        alike.setdefault((one.verdict, one.words, one.command), []).append(name)
    return {
        "method": [", ".join(names) for names in alike.values()],
        "promise": [verdict.value for verdict, _, _ in alike],
        "why": [words for _, words, _ in alike],
        "command": [command for _, _, command in alike],
    }


def theory_table(paper: Paper) -> dict[str, list[str]]:
    """A paper's theorems beside measurements; takes a second or two the first time."""
    rows = papers.THEOREMS[paper.key]() if paper.theory else ()
    paper_s = [row.printed is None and row.open_constant for row in rows]  # there is none of ours
    return {
        "theorem": [row.theorem for row in rows],
        "bounds": [row.quantity for row in rows],
        "printed": [
            short(row.bound, 3) if only else "" if row.printed is None else short(row.printed, 3)
            for row, only in zip(rows, paper_s, strict=True)
        ],
        "ours": [
            "" if only else short(row.bound, 3) for row, only in zip(rows, paper_s, strict=True)
        ],
        "measured": [short(row.measured, 3) for row in rows],
        "bound / measured": [short(row.factor, 3) for row in rows],
        "printed is": [
            "contradicted"
            if row.counterexample
            else "up to a constant"
            if row.open_constant
            else ""
            for row in rows
        ],
        "instance": [row.setting for row in rows],
    }


def theory_notes(paper: Paper) -> list[str]:
    """What is wrong with printed theorems, each with the instance that contradicts it."""
    rows = papers.THEOREMS[paper.key]() if paper.theory else ()
    found = []
    for row in rows:
        said = [sentence(text) for text in (row.note, row.silence) if text]
        if row.counterexample and row.printed is not None:
            numbers = f"{short(row.printed, 3)} is printed, {short(row.measured, 3)} is measured"
            said.insert(0, sentence(f"{numbers} ({row.setting})"))
        if said:
            found.append(f"{row.theorem}: {' '.join(said)}")
    return list(dict.fromkeys(found))


def csv_text(found: list[Look]) -> str:
    """Ours and what is printed, a line each; numbers with all their digits."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for look in found:
        for one in look.made.series if look.made else ():
            for k, x in enumerate(one.x):
                ours = (one.mean[k], one.low[k], one.high[k], one.seeds[k])
                id = one.mechanism or ""
                writer.writerow((look.experiment.id, "ours", one.label, id, x, *ours, ""))
        for printed in look.experiment.printed:
            ends = printed.value - printed.error, printed.value + printed.error
            row = (printed.series, "", printed.x, printed.value, *ends, "", printed.place)
            writer.writerow((look.experiment.id, "printed", *row))
    return stream.getvalue()


_COLUMNS = ("experiment", "whose", "curve", "mechanism", "x", "value", "low", "high", "seeds", "in")


def as_dict(found: Look) -> dict[str, Any]:
    """As plain JSON values."""
    paper, one, judged = found.paper, found.experiment, found.judged
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
        "result": None if found.made is None else run.as_dict(found.made),
        "current": None if found.made is None else found.made.current,
        "changed": list(one.changed),
        "unknown": list(one.unknown),
        "why": one.why,
        "not_run": one.not_run,
        "command": command(found),
    }
