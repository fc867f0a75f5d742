"""Read the papers as works to cite, without importing any of their experiments."""

import dataclasses
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from dpmc_data import facts, paths


@dataclass(frozen=True, kw_only=True)
class CitedPaper:
    """A paper as a work to cite.

    The names of the fields are those in the files of papers.

    Attributes:
        key: such as LWHM22.
        title, authors, year, venue: of the paper.
        entry: the kind of BibTeX entry.
        more: further fields of the entry.
        methods: ids of the mechanisms that its experiments run.
    """

    key: str
    title: str
    authors: tuple[str, ...]
    year: int
    venue: str
    entry: str = "misc"
    more: Mapping[str, str] = field(default_factory=dict)
    methods: tuple[str, ...]

    @property
    def label(self) -> str:
        """Return its authors, title and year."""
        return f"{', '.join(self.authors)}: {self.title} ({self.year})"

    @property
    def short_label(self) -> str:
        """Return its first author and year."""
        suffix = " et al." if len(self.authors) > 1 else ""
        return f"{self.authors[0].split()[-1]}{suffix} {self.year}"

    @property
    def bibtex(self) -> str:
        """Return the BibTeX entry of the paper."""
        fields = {
            "title": f"{{{self.title}}}",
            "author": " and ".join(self.authors),
            **self.more,
            "year": str(self.year),
        }
        return _format_entry(self.entry, self.key.lower(), fields)


def format_software_entry(title: str = "DPMC Lab", **more: str) -> str:
    """Return the BibTeX entry of this program; CITATION.cff says the same.

    Args:
        title: of what is cited.
        **more: further fields.
    """
    fields = {"author": "{DPMC Lab contributors}", "version": paths.get_version(), **more}
    return _format_entry("software", "dpmc-lab", {"title": title, **fields})


def _format_entry(kind: str, key: str, fields: Mapping[str, str]) -> str:
    """Return an entry of BibTeX."""
    lines = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items())
    return f"@{kind}{{{key},\n{lines}\n}}"


@cache
def load_cited_papers() -> tuple[CitedPaper, ...]:
    """Return all papers by year, without their experiments; none where `papers` is missing."""
    folder = files("dpmc_lab").joinpath("papers")
    names = {field.name for field in dataclasses.fields(CitedPaper)}
    papers = []
    for file in folder.iterdir() if folder.is_dir() else ():
        if file.name.endswith(".toml"):
            table = tomllib.loads(file.read_text(encoding="utf-8"))
            cited_fields = {name: value for name, value in table.items() if name in names}
            papers.append(facts.build_from_table(CitedPaper, cited_fields, file.name))
    return tuple(sorted(papers, key=lambda paper: (paper.year, paper.key)))


def find_papers_running(methods: Collection[str]) -> list[CitedPaper]:
    """Return the papers whose experiments run one of these methods, by year."""
    return [paper for paper in load_cited_papers() if not {*methods}.isdisjoint(paper.methods)]
