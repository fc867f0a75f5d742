"""The texts of a language: each folder of dpmc_lab/texts says everything, and nothing is unused."""

import re
import tomllib
from pathlib import Path

from dpmc_lab.glossary import TERMS

ROOT = Path(__file__).resolve().parents[2]
TEXTS = ROOT / "dpmc_lab" / "texts"
ENGLISH = TEXTS / "en"
PHONE = tomllib.loads((ENGLISH / "phone.toml").read_text("utf-8"))


def list_texts(value, path=""):
    """Yield the path of every text and number below a table, with the text."""
    if isinstance(value, dict | list):
        for name, element in value.items() if isinstance(value, dict) else enumerate(value):
            yield from list_texts(element, f"{path}.{name}")
    else:
        yield path, value


def read_language(folder):
    """Return every text of a language by its file and its place there."""
    return {
        f"{file.relative_to(folder)}{path}": value
        for file in sorted(folder.rglob("*.toml"))
        for path, value in list_texts(tomllib.loads(file.read_text("utf-8")))
    }


def list_names(text):
    """Return the numbers and values that a text names."""
    return sorted(set(re.findall(r"{(\w+(?:\.\w+)*)", text))) if isinstance(text, str) else text


def find_missing_texts(folder):
    """Return what a language lacks, has too much, leaves empty, or names other values in."""
    texts, translated = read_language(ENGLISH), read_language(folder)
    problems = sorted(texts.keys() ^ translated.keys())
    for place in texts.keys() & translated.keys():
        text, translation = texts[place], translated[place]
        if list_names(text) != list_names(translation) or (text and not translation):
            problems.append(place)
    return problems


def test_every_language_has_every_text():
    folders = [folder for folder in TEXTS.iterdir() if folder.is_dir()]
    assert ENGLISH in folders
    assert {str(folder.name): find_missing_texts(folder) for folder in folders} == {
        folder.name: [] for folder in folders
    }
    names = {path.relative_to(ENGLISH).as_posix() for path in ENGLISH.rglob("*.toml")}
    assert {"phone.toml", "plans.toml", "lessons/coin.toml"} <= names


def test_a_class_meets_the_attacker_under_one_name():
    """For pupils it is "someone with no idea about you", elsewhere "an attacker torn 50:50"."""
    class_sources = [*ENGLISH.rglob("*.toml"), *(ROOT / "dpmc_lab/classroom").glob("*.py")]
    class_sources += [ROOT / "pages" / name for name in ("room.py", "learn.py", "ui/phone.html")]
    named = []
    for path in class_sources:
        text = path.read_text("utf-8")
        assert not re.search(r"torn 50|no prior idea|cards\.ATTACKER", text), path
        named += re.findall(r"(\w+)\s[\"f ]*with\s[\"f ]*no idea\s[\"f ]*about", text)
    assert len(named) >= 8
    assert {name.casefold() for name in named} == {"someone"}
    for path in [*(ROOT / "dpmc_lab/views").glob("*.py"), *(ROOT / "pages/ui").glob("s*.py")]:
        assert "no idea about" not in path.read_text("utf-8"), path
    attacker = TERMS["attacker"]
    assert "torn 50:50" in attacker.words
    assert "someone with no idea about you" in attacker.more


def test_the_phone_uses_every_text_and_no_other():
    """Its page has no words of its own: each is a key, and each key is used."""
    page = (ROOT / "pages" / "ui" / "phone.html").read_text("utf-8")
    used = set(re.findall(r"{{(\w+)}}", page)) | set(re.findall(r"TEXTS\.(\w+)", page))
    used |= set(re.findall(r'"(\w+)"', page)) & PHONE.keys()
    assert used == PHONE.keys() - {"refused"}
    visible = re.sub(r"<(script|style).*?</\1>|<[^>]*>|{{\w+}}", "", page, flags=re.S)
    assert not re.search(r"\w", visible)


def test_the_server_refuses_with_every_reason_and_no_other():
    source = (ROOT / "dpmc_lab" / "classroom" / "room.py").read_text("utf-8")
    calls = r'(?:ReportRejected|MalformedReport|PhoneWaiting)\(\s*"(\w+)"'
    assert set(re.findall(calls, source)) == PHONE["refused"].keys()


# Spellings that the third reading has replaced, on every screen, in every lesson and document.
OLD_SPELLINGS = (
    *("no idea about you guesses the rating", "which is no protection", "such reports; nobody"),
    *("(average ", "(median activity)", "imagined, free", "Send again (spends)", "% for you alone"),
    *("Reports of each answer", "smaller is better, up", "Another promise", "one number for all"),
    *("Asked instead", "in the first ten of 100", "before the noise was in", "has spent nothing"),
    *("are never clearly worse", "Wanted accuracy", "Wanted {", "What an epsilon counts"),
    *("proves nothing.", "What becomes of the promises", "so many say", "by show of hands"),
    *("would resolve", "stays below each"),
)
# The page What if, whose texts have their own tests.
OF_WHAT_IF = {
    *("what_if.py", "instrument.js", "scene.py", "sentences.py", "film.py", "film.js"),
}


def test_replaced_spellings_stay_away():
    kinds = {".py", ".toml", ".js", ".html", ".md"}
    folders = [ROOT / name for name in ("pages", "dpmc_lab", "dpmc_core", "dpmc_data")]
    paths = [path for folder in folders for path in folder.rglob("*") if path.suffix in kinds]
    paths += [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    for path in paths:
        if path.name in OF_WHAT_IF:
            continue
        text = path.read_text("utf-8")
        if path.is_relative_to(ROOT / "dpmc_core"):  # shapes in docstrings are no screen
            text = text.replace("or one number for all", "")
        found = [spelling for spelling in OLD_SPELLINGS if spelling in text]
        assert not found, (path.relative_to(ROOT).as_posix(), found)
