"""Files of ratings as people write them, each mutated from one invented truth, by a seed.

A mutation chooses the names of columns (in six languages, or words that no list holds), the order
and the number of columns, the layout, the scale, what stands for "not rated", what stands above and
below the table, and the ids. More items than people occur as often as they do outside.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

NAMES = {  # of users, items, ratings and times, in six languages, and words that say nothing
    "en": ("user_id userId User customer_id reviewerID email Username student",
           "movie_id item title product_id asin book track_id", "rating stars score Rating grade",
           "timestamp date created_at"),
    "de": ("Nutzer Benutzer Kunde Teilnehmer Benutzername", "Film Titel Artikel Produkt",
           "Bewertung Wertung Sterne", "Datum Zeitstempel"),
    "fr": ("utilisateur client lecteur participant", "livre titre film produit",
           "note évaluation", "date horodateur"),
    "es": ("usuario cliente alumno participante", "película libro producto título",
           "calificación puntuación valoración", "fecha"),
    "it": ("utente cliente studente partecipante", "libro titolo prodotto",
           "voto valutazione punteggio", "data"),
    "nl": ("gebruiker klant deelnemer leerling", "boek titel artikel", "beoordeling cijfer score",
           "datum"),
    "none": ("who Person_X A p k1", "what thing B obj k2", "pts C how_much k3", "when D k4"),
}  # fmt: skip
SCALES = {
    "agree": ["Strongly disagree", "Disagree", "Neutral", "Agree", "Strongly agree"],
    "excellent": ["Poor", "Fair", "Good", "Very good", "Excellent"],
    "stars": ["★", "★★", "★★★", "★★★★", "★★★★★"],
    "of": ["1/5", "2/5", "3/5", "4/5", "5/5"],
}
FIRST = [
    "Ann",
    "Bob",
    "Cem",
    "Dee",
    "Eva",
    "Finn",
    "Gus",
    "Hal",
    "Ida",
    "Jon",
    "Kim",
    "Lea",
    "Max",
    "Nia",
    "Oli",
    "Pia",
]
LAST = ["Stone", "Miller", "Garcia", "Rossi", "Weber", "Martin", "Jansen", "Novak", "Olsen", "Kaya"]
WORDS = [
    "Amber",
    "Brave",
    "Copper",
    "Distant",
    "Electric",
    "Frozen",
    "Golden",
    "Hidden",
    "Jealous",
    "Lonely",
    "Modest",
]
THINGS = [
    "Journey",
    "Badger",
    "Cactus",
    "Diner",
    "Envelope",
    "Ferry",
    "Giraffe",
    "Harbour",
    "Janitor",
    "Lantern",
]


@dataclass
class Mutation:
    """A file with the values that a right reading gives.

    Attributes:
        content: its bytes.
        name: its name.
        truth: users, items, number and mean of the ratings.
        ends: the public range that a person gives; empty for clicks.
        has_named_user: whether a word of a language names the person.
        what: the choices that made it.
    """

    content: bytes
    name: str
    truth: dict[str, float]
    ends: dict[str, float]
    has_named_user: bool
    what: dict[str, Any] = field(default_factory=dict)


def mutate(seed: int) -> Mutation:
    """Return the file of a seed."""
    r = Random(seed)
    n_users, n_items = r.randint(18, 70), r.randint(8, 24)
    if r.random() < 0.25:
        n_users, n_items = r.randint(15, 30), r.randint(35, 80)
    people, things = _name_people(r, n_users), _name_things(r, n_items)
    layout = r.choice(["rows"] * 8 + ["wide"] * 3 + ["transposed", "survey", "json", "array"])
    cells = _rate(r, n_users, n_items)
    scale = r.choice(["1:5"] * 6 + ["half", "ten", "words", "thumbs", "clicks"])
    if layout in ("wide", "transposed", "survey") and scale in ("clicks", "thumbs"):
        scale = "1:5"
    ends = {"low": 1.0, "high": 5.0}
    values: dict[Any, float] = {pair: float(value) for pair, value in cells.items()}
    texts = {pair: str(value) for pair, value in cells.items()}
    comma = False
    if scale == "half":
        ends = {"low": 0.5, "high": 5.0}
        values = {pair: value - r.choice([0, 0.5]) for pair, value in values.items()}
        comma = r.random() < 0.4
        texts = {pair: f"{value:.1f}".replace(".", "," if comma else ".")
                 for pair, value in values.items()}  # fmt: skip
    elif scale == "ten":
        ends = {"low": 1.0, "high": 10.0}
        values = {pair: 2 * value - r.choice([0, 1]) for pair, value in values.items()}
        texts = {pair: f"{value:g}" for pair, value in values.items()}
    elif scale == "words":
        words = SCALES[r.choice([*SCALES])]
        texts = {pair: words[int(value) - 1] for pair, value in values.items()}
    elif scale == "thumbs":
        ends = {"low": 0.0, "high": 1.0}
        values = {pair: float(value > 3) for pair, value in values.items()}
        yes, no = r.choice([("True", "False"), ("like", "dislike"), ("1", "0"), ("yes", "no")])
        texts = {pair: yes if value else no for pair, value in values.items()}
    elif scale == "clicks":
        ends, values = {}, dict.fromkeys(values, 1.0)
    mark = None
    if scale in ("1:5", "ten") and layout not in ("json", "array") and r.random() < 0.15:
        mark = r.choice(["NA", "0", "-1", "n/a", "99"])
        if layout == "rows":
            for pair in r.sample(sorted(values), len(values) // 8):
                texts[pair] = mark
                del values[pair]
    language = r.choice([*NAMES, "en", "en"])
    names = [r.choice(words.split()) for words in NAMES[language]]
    separator = ";" if comma else r.choice([",", ",", ",", ";", "\t", "|"])
    what = {"layout": layout, "scale": scale, "mark": mark, "language": language}
    extension = "csv"
    if layout in ("rows", "json", "array"):
        table, has_header = _write_rows(r, people, things, texts, names, scale, layout, what)
        if layout != "rows":
            head, *rows = table
            objects = [dict(zip(head, map(_to_json, row), strict=True)) for row in rows]
            lines = [json.dumps(o, ensure_ascii=False) for o in objects]
            text = "\n".join(lines) if layout == "json" else f"[{', '.join(lines)}]"
            extension = "jsonl" if layout == "json" else "json"
    else:
        table = _write_matrix(r, people, things, texts, names, layout, mark, what)
        has_header = True
    if layout not in ("json", "array"):
        titles: list[list[str]] = []
        if has_header and r.random() < 0.25:
            titles = [[t] for t in r.sample(["My ratings", "Export of 2024", "Class 9b"],
                                            r.randint(1, 2))]  # fmt: skip
            titles += [[""]] * (r.random() < 0.5)
            if r.random() < 0.4:
                titles = [row + [""] * (len(table[0]) - 1) for row in titles]
        what["titles"] = len(titles)
        tail = []
        if r.random() < 0.1 and layout in ("rows", "wide"):
            tail = [["Source: our shop"]]
            what["tail"] = True
        text = _join(r, [*titles, *table, *tail], separator)
        what["separator"] = separator
    users = {user for user, _ in values}
    items = {item for _, item in values}
    truth = {
        "users": len(users),
        "items": len(items),
        "n": len(values),
        "mean": sum(values.values()) / len(values),
    }
    encoding = "utf-8-sig" if r.random() < 0.1 else "utf-8"
    is_named = language != "none" and has_header and layout != "transposed"
    is_named &= what.get("corner") is not False
    return Mutation(text.encode(encoding), f"m{seed}.{extension}", truth, ends, is_named, what)


def _name_people(r: Random, count: int) -> list[str]:
    kind = r.choice(["number", "number", "big", "login", "email", "name", "uuid"])
    if kind == "number":
        return [str(k) for k in r.sample(range(1, 10 * count), count)]
    if kind == "big":
        return [str(k) for k in r.sample(range(76561197960000000, 76561197970000000), count)]
    if kind == "name":
        pairs = [f"{a} {b}" for a in FIRST for b in LAST]
        return r.sample(pairs, count)
    if kind == "uuid":
        return [f"{r.getrandbits(64):016x}" for _ in range(count)]
    return [f"{r.choice(FIRST).lower()}{k}" + "@example.org" * (kind == "email")
            for k in range(count)]  # fmt: skip


def _name_things(r: Random, count: int) -> list[str]:
    kind = r.choice(["number", "title", "title", "code"])
    if kind == "number":
        return [str(k) for k in r.sample(range(100, 100 + 20 * count), count)]
    if kind == "code":
        return [f"B{r.getrandbits(32):08X}{k:02}" for k in range(count)]
    titles = [f"{a} {b}" for a in WORDS for b in THINGS]
    chosen = r.sample(titles, count)
    if r.random() < 0.3:
        chosen[0] = "Kettle, The"
    return chosen


def _rate(r: Random, n_users: int, n_items: int) -> dict[tuple[int, int], int]:
    """Return ratings 1 to 5 with effects of users and items; everybody has some."""
    of_user = [r.gauss(0, 0.6) for _ in range(n_users)]
    of_item = [r.gauss(0, 0.7) for _ in range(n_items)]
    cells = {}
    for u in range(n_users):
        share = r.uniform(0.2, 0.8)
        chosen = [i for i in range(n_items) if r.random() < share]
        while len(chosen) < 3:
            chosen = r.sample(range(n_items), 3)
        for i in chosen:
            cells[u, i] = min(5, max(1, round(3.3 + of_user[u] + of_item[i] + r.gauss(0, 0.8))))
    return cells


def _to_json(text: str) -> Any:
    try:
        return json.loads(text) if not text.isdecimal() or text[0] != "0" else text
    except ValueError:
        return text


def _write_rows(
    r: Random,
    people: Sequence[str],
    things: Sequence[str],
    texts: dict[tuple[int, int], str],
    names: Sequence[str],
    scale: str,
    layout: str,
    what: dict[str, Any],
) -> tuple[list[list[str]], bool]:
    pairs = list(texts)
    if r.random() < 0.6:
        r.shuffle(pairs)
    user, item, rating, time = names
    columns: dict[str, list[str]] = {
        user: [people[u] for u, _ in pairs],
        item: [things[i] for _, i in pairs],
    }
    if scale != "clicks":
        columns[rating] = [texts[pair] for pair in pairs]
    start = r.randint(1_000_000_000, 1_700_000_000)
    stamps = sorted(start + r.randint(0, 30_000_000) for _ in pairs)
    kind = r.choice(["none", "none", "unix", "iso", "us"])
    if kind != "none" and (scale != "clicks" or kind == "unix"):
        form = {
            "unix": str,
            "iso": lambda s: f"2024-{1 + s % 12:02}-{1 + s % 28:02} {s % 24:02}:00:00",
            "us": lambda s: f"{1 + s % 12:02}/{1 + s % 28:02}/2023",
        }[kind]
        columns[time] = [form(s) for s in stamps]
    has_header = layout != "rows" or r.random() < 0.8
    extras: dict[str, list[str]] = {}
    ages = [str(r.randint(14, 60)) for _ in people]
    years = [str(r.randint(1960, 2023)) for _ in things]
    possible = {
        "helpful": [str(r.choice([0, 0, 0, 1, 2, 5])) for _ in pairs],
        "age": [ages[u] for u, _ in pairs],
        "year": [years[i] for _, i in pairs],
        "comment": [r.choice(["good fun", "so, so", "I liked it a lot", "", "meh"]) for _ in pairs],
        "country": [r.choice(["DE", "US", "FR"]) for _ in pairs],
        "verified": [r.choice(["Y", "N"]) for _ in pairs],
        "price": [f"{5 + int(years[i]) % 17}.99" for _, i in pairs],
    }
    if has_header and scale != "clicks":
        for name in r.sample([*possible], r.choice([0, 0, 1, 2, 3])):
            extras[name] = possible[name]
        if r.random() < 0.2:
            extras[r.choice(["id", "", "No", "index"])] = [str(k + 1) for k in range(len(pairs))]
    everything = columns | extras
    order = list(everything)
    if has_header and r.random() < 0.6:
        r.shuffle(order)
    if "" in order and layout != "rows":
        order.remove("")
    elif "" in order:
        order.remove("")
        order.insert(0, "")
    what |= {"order": order, "header": has_header, "time": kind}
    rows = [list(row) for row in zip(*(everything[name] for name in order), strict=True)]
    if has_header and layout == "rows" and scale in ("1:5", "ten") and r.random() < 0.08:
        total = ["" for _ in order]
        total[order.index(user)] = r.choice(["Total", "Summe", "Average"])
        total[order.index(rating)] = str(len(pairs))
        rows.append(total)
        what["total"] = True
    return ([order, *rows] if has_header else rows), has_header


def _write_matrix(
    r: Random,
    people: Sequence[str],
    things: Sequence[str],
    texts: dict[tuple[int, int], str],
    names: Sequence[str],
    layout: str,
    mark: str | None,
    what: dict[str, Any],
) -> list[list[str]]:
    empty = mark or ""
    is_named = r.random() < 0.75
    what["corner"] = is_named
    if layout == "transposed":
        rows = [
            [thing, *(texts.get((u, i), empty) for u in range(len(people)))]
            for i, thing in enumerate(things)
        ]
        return [[names[1] if is_named else "", *people], *rows]
    titles = [f"Rate [{thing}]" for thing in things] if layout == "survey" else [*things]
    head = [names[0] if is_named else "", *titles]
    rows = [
        [person, *(texts.get((u, i), empty) for i in range(len(things)))]
        for u, person in enumerate(people)
    ]
    if layout == "survey":
        head.insert(0, "Timestamp")
        for k, row in enumerate(rows):
            row.insert(0, f"2024/03/{1 + k % 28:02} 10:{k % 60:02}:00 AM GMT+1")
        if r.random() < 0.3:
            head.insert(2, "Age")
            for row in rows:
                row.insert(2, str(r.randint(18, 60)))
            what["age"] = True
    elif mark is None and texts[next(iter(texts))].isdecimal() and r.random() < 0.2:
        numbers = [[int(cell) for cell in row[1:] if cell] for row in rows]
        if r.random() < 0.5:
            head.append(r.choice(["Total", "Summe", "Points"]))
            for row, cells in zip(rows, numbers, strict=True):
                row.append(str(sum(cells)))
        else:
            columns = list(zip(*(row[1:] for row in rows), strict=True))
            sums = [str(sum(int(cell) for cell in column if cell)) for column in columns]
            rows.append([r.choice(["Total", "Summe", "All"]), *sums])
        what["total"] = True
    return [head, *rows]


def _join(r: Random, rows: Sequence[Sequence[str]], separator: str) -> str:
    quoted = r.random() < 0.2
    out = io.StringIO()
    end = r.choice(["\n", "\n", "\r\n"])
    for row in rows:
        cells = [
            '"' + cell.replace('"', '""') + '"'
            if quoted or separator in cell or '"' in cell
            else cell
            for cell in row
        ]
        out.write(separator.join(cells) + end)
    return out.getvalue()
