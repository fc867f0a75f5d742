"""One ledger for a study: what composes with what, what counts once, and what is told."""

import contextlib
import json
import math
import os
import sqlite3
from dataclasses import replace

import pytest

from dpmc_core import registry
from dpmc_core.data import datasets
from dpmc_core.errors import DpmcError, InvalidSetting
from dpmc_core.lab.store import Store, default_path
from dpmc_core.lab.study import ledger
from dpmc_core.lab.study.ledger import Kind, LedgerEntry, Selection, Study
from dpmc_core.lab.views import ledger as words
from dpmc_core.privacy import (
    CELL,
    RATING,
    USER_EMPTIED,
    USER_REPLACED,
    Budget,
    Change,
    Loss,
)
from dpmc_core.privacy.accounting import Pure, gaussian_epsilon, gaussian_mu
from dpmc_core.ratings import PublicFacts
from tests.store_helpers import record

FACTS = PublicFacts(users=300, items=40, low=1, high=5)
MU = gaussian_mu(1.0, 1e-6)
RESTAURANTS = "a61846a5e8d31e29"


@pytest.fixture(autouse=True)
def _own_ledger(monkeypatch, tmp_path):
    monkeypatch.setenv("DPMC_HOME", str(tmp_path / "home"))


def run_of(id="private-effects", epsilon=1.0, kind=Kind.FIT, **more):
    return ledger.entry(kind, registry.create(id, epsilon=epsilon), FACTS, **more)


def composed(change, *entries, delta=1e-6):
    return ledger.compose(entries, change, delta)


def test_gaussian_runs_compose_by_the_accountant_and_are_not_added():
    nine = [run_of()] * 4 + [run_of(count=5)]
    found = composed(USER_EMPTIED, *nine).epsilon
    assert found == pytest.approx(gaussian_epsilon(3 * MU, 1e-6))
    assert found < 9 * 0.5
    mixed = composed(USER_EMPTIED, run_of(), run_of(epsilon=2.0)).epsilon
    mu = math.hypot(MU, gaussian_mu(2.0, 1e-6))
    assert mixed == pytest.approx(gaussian_epsilon(mu, 1e-6))


def test_units_are_never_added():
    """Flips protect values alone: with one of them, no number holds for a user or a cell."""
    both = [run_of(), run_of("input-flip", epsilon=0.5)]
    loss = registry.create("private-effects", epsilon=1.0).guarantee(FACTS).loss(RATING)
    value = (loss + Loss(0.5)).epsilon_at(1e-6)
    assert composed(RATING, *both).epsilon == pytest.approx(value)
    for change in (CELL, USER_EMPTIED, USER_REPLACED):
        found = composed(change, *both)
        assert found.epsilon == math.inf
        assert found.reason.startswith("input-flip at epsilon 0.5: ")
        assert "which ratings exist is public" in found.reason


def test_every_unit_has_a_sum_of_its_own():
    card = registry.create("private-effects", epsilon=1.0).guarantee(FACTS)
    for change in Change:
        assert composed(change, run_of()).epsilon == card.certified(change, 1e-6).epsilon


def test_a_choice_adds_its_price():
    choice = Selection(10.0, 1.0, (Loss(mu=MU),))
    entry = LedgerEntry(
        kind=Kind.CHOICE, mechanism="x", epsilon=1.0, costs=dict.fromkeys(Change, choice)
    )
    assert composed(CELL, entry).epsilon == choice.epsilon_at(1e-6)
    assert composed(CELL, replace(entry, count=2)) == composed(CELL, entry, entry)
    both = composed(USER_EMPTIED, entry, run_of()).epsilon
    assert both == pytest.approx(choice.epsilon_at(5e-7) + gaussian_epsilon(MU, 5e-7))
    assert both > choice.epsilon_at(1e-6)
    # A pure choice leaves all of delta to the others.
    pure = Selection(10.0, 1.0, (Loss(0.1),))
    entry = LedgerEntry(
        kind=Kind.CHOICE, mechanism="x", epsilon=0.1, costs=dict.fromkeys(Change, pure)
    )
    together = composed(USER_EMPTIED, entry, run_of()).epsilon
    assert together <= 0.3 + 1.0 + 1e-9


def test_the_released_part_is_summed_apart():
    study = Study((run_of(count=42), run_of(kind=Kind.RELEASE), run_of(kind=Kind.RELEASE)))
    assert study.released(USER_EMPTIED).epsilon == pytest.approx(
        gaussian_epsilon(math.sqrt(2) * MU, 1e-6)
    )
    assert study.published(USER_EMPTIED).epsilon == pytest.approx(
        gaussian_epsilon(math.sqrt(44) * MU, 1e-6)
    )
    assert (study.count(), study.count(Kind.FIT), study.count(Kind.RELEASE)) == (44, 42, 2)
    assert words.summary(Study((run_of(count=42),))).startswith(
        "42 private fits for your eyes; nothing released"
    )
    none = Study(()).released(USER_EMPTIED)
    assert none.epsilon == 0


def test_methods_without_privacy_are_told_and_in_no_number():
    clear = ledger.entry(Kind.FIT, registry.create("user-mean"), FACTS)
    study = Study((run_of(), clear))
    assert (study.count(), study.without_privacy) == (1, 1)
    assert study.published(USER_EMPTIED).epsilon == pytest.approx(1.0)


def test_rows_of_a_store_are_composed_run_by_run(tmp_path):
    with Store(tmp_path / "rows.sqlite") as store:
        store.add([record(epsilon=e, seed=s) for e in (0.5, 1.0) for s in (1, 2, 3)])
        store.add([record("majority", epsilon=None)])
        study = ledger.study("5" * 16, store)
        assert (study.count(), study.without_privacy) == (6, 1)
        found = study.published(RATING)
        assert found.epsilon == pytest.approx(3 * 0.5 + 3 * 1.0)
        (part,) = study.parts()
        assert (part.mechanism, part.runs, part.epsilons) == ("input-flip", 6, (0.5, 1.0))
        assert ledger.study("6" * 16, store).entries == ()


def test_the_same_run_counts_once_wherever_it_was_made(tmp_path):
    made = record()
    again = run_of("input-flip", key=made["key"])
    with Store(tmp_path / "rows.sqlite") as store:
        store.add([made])
        assert ledger.study("5" * 16, store, [again, again]).count() == 1
        other = run_of("input-flip", key="another seed")
        assert ledger.study("5" * 16, store, [again, other]).count() == 2
    assert ledger.study("5" * 16, None, [again, again]).count() == 1
    release = run_of(kind=Kind.RELEASE)  # with noise of its own each time
    assert ledger.study("5" * 16, None, [release, release]).count() == 2


def test_a_row_of_another_revision_has_no_card_to_compose(tmp_path):
    with Store(tmp_path / "rows.sqlite") as store:
        store.add([record(revision=1000)])
        found = ledger.study("5" * 16, store).published(RATING)
    assert found.epsilon == math.inf
    assert "revision 1000" in found.reason


def test_what_is_noted_is_read_again_and_kept_from_others(monkeypatch, tmp_path):
    monkeypatch.setenv("DPMC_HOME", str(tmp_path))
    choice = LedgerEntry(
        kind=Kind.CHOICE,
        mechanism="x",
        epsilon=1.0,
        costs={
            RATING: Selection(3.0, 0.0, (Loss(mu=0.2), Loss(0.3))),
            CELL: "why not",
            USER_EMPTIED: Loss(0.3, 0.1),
            USER_REPLACED: Loss.of(Pure(0.1, 80), Pure(0.2, 3, laplace=True)),
        },
    )
    ledger.note("a", "one", [choice, run_of(key="k"), run_of(kind=Kind.RELEASE)])
    ledger.note("a", "one", [run_of(key="k"), run_of(kind=Kind.RELEASE)])  # of other noise
    ledger.note("b", "two", [run_of()])
    read = ledger.noted("a")
    assert read == [choice, run_of(key="k"), *[run_of(kind=Kind.RELEASE)] * 2]
    # losses are equal whatever they are the sum of, and that decides what they come to at delta
    assert composed(USER_REPLACED, *read) == composed(USER_REPLACED, choice, run_of(count=3))
    assert ledger.noted("b") == [run_of()]
    assert ledger.noted("c") == []
    if os.name == "posix":
        assert ledger.path().stat().st_mode & 0o777 == 0o600


def test_a_damaged_or_unwritable_ledger_is_told(dpmc, monkeypatch, tmp_path):
    ledger.note("a", "one", [run_of()])
    with ledger.path().open("a") as file:
        file.write("{half a line\n")
    with pytest.raises(DpmcError, match="line 2 of the ledger"):
        ledger.noted("a")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DPMC_HOME", str(tmp_path / "file" / "home"))
    with pytest.raises(DpmcError, match=r"the ledger .* cannot be"):
        ledger.note("a", "one", [run_of()])
    # A run is for its owner's eyes: it is shown all the same.
    status, out, err = dpmc("fit", "restaurants", "private-item-mean", "--epsilon", "1")
    assert (status, "rmse" in out.lower()) == (0, True)
    assert "not noted" in err


def test_a_line_that_was_never_finished_counts_nothing_and_goes():
    """A full disk, or a power cut: what would have been noted did not happen."""
    ledger.note("a", "one", [run_of()])
    whole = ledger.path().read_bytes()
    for cut in (1, 40, len(whole) - 2):
        ledger.path().write_bytes(whole + whole[:cut])
        assert len(ledger.noted("a")) == 1
        ledger.note("b", "two", [run_of()])
        assert len(ledger.noted("a")) == len(ledger.noted("b")) == 1
        assert ledger.path().read_bytes().startswith(whole)
    ledger.path().write_bytes(whole[:-1])  # as an editor may leave it
    ledger.note("b", "two", [run_of()])
    assert len(ledger.noted("a")) == len(ledger.noted("b")) == 1


def test_what_cannot_be_noted_is_not_released(dpmc, monkeypatch, tmp_path):
    pytest.importorskip("opendp", reason="needs the extra 'release'")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DPMC_HOME", str(tmp_path / "file" / "home"))
    out = tmp_path / "one.npz"
    words_of = ["release", "restaurants", "private-item-mean", "--epsilon", "1", "--out", out]
    status, _, err = dpmc(*words_of, "--delta", "1e-6")
    assert status == 1
    assert "the ledger" in err
    assert not out.exists()


def test_repeated_releases_add_up_and_each_may_take_so_much(dpmc):
    words_of = ["ledger", "restaurants", "--repeat", "weekly", "--mechanism", "private-effects"]
    status, out, _ = dpmc(*words_of)
    assert status == 0
    assert "use 0.12 each" in out
    found = json.loads(dpmc(*words_of, "--json")[1])["repeated"]
    assert round(found["epsilon_of_all"], 1) == 9.1
    assert found["epsilon_of_all"] == pytest.approx(gaussian_epsilon(math.sqrt(52) * MU, 1e-6))
    assert (found["times"], round(found["epsilon_each"], 2)) == (52, 0.12)

    def card(epsilon):
        return registry.create("private-effects", epsilon=epsilon).guarantee(FACTS)

    each = found["epsilon_each"]
    assert card(each).repeated(52).certified(USER_EMPTIED, 1e-6).epsilon == pytest.approx(1.0)
    again = ledger.repeats(card, 1.0, 12, Budget(1.0, 1e-6), USER_EMPTIED)
    assert 1.0 > again.each > each

    def flips(epsilon):
        return registry.create("input-flip", epsilon=epsilon).guarantee(FACTS)

    with pytest.raises(InvalidSetting, match="which ratings exist is public"):
        ledger.repeats(flips, 1.0, 12, Budget(1.0), USER_EMPTIED)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--repeat", "weekly"], "--mechanism must be given where --repeat is"),
        (["--mechanism", "dpals"], "--repeat must be given where --mechanism is"),
        (["--repeat", "hourly", "--mechanism", "dpals"], "--repeat must be one of once"),
        (["--repeat", "0", "--mechanism", "dpals"], "times a year must be >= 1"),
        (["--repeat", "12", "--mechanism", "user-mean"], "a method with an epsilon"),
        (["--delta", "1"], "--delta must be >= 0 and < 1"),
        (["--store", "nowhere.sqlite"], "no result store"),
    ],
)
def test_a_mistake_gets_one_sentence(dpmc, options, sentence):
    status, out, err = dpmc("ledger", "restaurants", *options)
    assert (status, out) == (1, "")
    assert sentence in err


def test_a_fit_is_noted_once_with_what_it_is_compared_with(dpmc):
    fit = ["fit", "restaurants", "private-effects", "--epsilon", "1"]
    for options in ([], [], ["--seed", "2"]):
        assert dpmc(*fit, *options)[0] == 0
    found = json.loads(dpmc("ledger", "restaurants", "--json")[1])
    assert found["source"] == RESTAURANTS
    assert found["private"]["fit"] == 2
    assert found["without_privacy"] == 4
    sweep = ["sweep", "--data", "restaurants", "--mechanisms", "private-effects"]
    assert dpmc(*sweep, "--epsilons", "1", "--seeds", "1:3", "--jobs", "1")[0] == 0
    again = json.loads(dpmc("ledger", "restaurants", "--json")[1])
    assert again["private"]["fit"] == 3  # seeds 1 and 2 were there already
    assert json.loads(dpmc("ledger", "jokes", "--json")[1])["private"]["fit"] == 0


def test_the_runs_of_an_answer_without_a_store_are_noted(dpmc):
    assert dpmc("answer", "restaurants", "--no-curve", "--seeds", "1", "2", "--json")[0] == 0
    found = json.loads(dpmc("ledger", "restaurants", "--json")[1])
    assert found["private"]["fit"] == 2
    assert found["parts"][0]["mechanism"] == "private-effects"


def test_a_store_whose_tables_are_still_being_made_holds_no_rows(dpmc):
    """Another program has made the file and not yet its tables."""
    assert dpmc("fit", "restaurants", "private-item-mean", "--epsilon", "1")[0] == 0
    with contextlib.closing(sqlite3.connect(default_path())) as opened:
        opened.execute("PRAGMA journal_mode = WAL")
    found = json.loads(dpmc("ledger", "restaurants", "--json")[1])
    assert found["private"]["fit"] == 1


def test_an_edited_file_is_another_data_set(dpmc, tmp_path):
    ratings = datasets.load("restaurants").ratings
    rows = list(zip(ratings.users, ratings.items, ratings.values, strict=True))
    for name, kept in (("all.csv", rows), ("less.csv", rows[1:])):
        lines = [f"{user},{item},{value:g}" for user, item, value in kept]
        (tmp_path / name).write_text("\n".join(["user,item,rating", *lines]))
    fit = ["private-item-mean", "--epsilon", "1", "--range", "0:2"]
    assert dpmc("fit", tmp_path / "all.csv", *fit)[0] == 0
    reading = ["--range", "0:2", "--json"]
    counts = [
        json.loads(dpmc("ledger", tmp_path / name, *reading)[1])["private"]["fit"]
        for name in ("all.csv", "less.csv")
    ]
    assert counts == [1, 0]


def test_a_study_has_one_epsilon_for_each_unit_and_shows_its_parts(dpmc, tmp_path):
    """A sweep, a choice that a former version noted, and a release, composed again."""
    pytest.importorskip("opendp", reason="needs the extra 'release'")
    sweep = ["sweep", "--data", "restaurants", "--mechanisms", "private-effects", "--jobs", "1"]
    assert dpmc(*sweep, "--epsilons", "0.5,1", "--seeds", "1:3")[0] == 0
    price = {"runs": {"mean": 10, "eta": 1.0}, "losses": [{"epsilon": 0.0, "mu": MU, "pure": []}]}
    chosen = {"time": "2026-01-01T00:00:00+00:00", "source": RESTAURANTS, "name": "restaurants"}
    chosen |= {"kind": "choice", "mechanism": "private-effects or private-item-mean"}
    chosen |= {"epsilon": 1.0, "costs": {change.value: price for change in Change}}
    ledger.path().parent.mkdir(parents=True, exist_ok=True)
    ledger.path().write_text(json.dumps(chosen | {"count": 1, "key": ""}) + "\n")
    release = ["release", "restaurants", "private-item-mean", "--epsilon", "1", "--delta", "1e-6"]
    status, out, _ = dpmc(*release, "--out", tmp_path / "one.npz")
    assert status == 0
    assert "The first release of these ratings" in out
    found = json.loads(dpmc("ledger", "restaurants", "--json")[1])
    assert found["private"] == {"fit": 6, "audit": 0, "choice": 1, "release": 1}

    fits = [registry.create("private-effects", epsilon=e).guarantee(FACTS) for e in (0.5, 1.0)]
    mu = math.sqrt(sum(3 * card.loss(USER_EMPTIED).mu ** 2 for card in fits) + MU**2)
    rest = gaussian_epsilon(mu, 5e-7)
    units = {(u["unit"], u["neighbours"]): u for u in found["units"]}
    user = units["user", "empty"]
    assert user["released"] == pytest.approx(1.0, rel=1e-6)
    # Half of delta is the choice's.
    price = Selection(10.0, 1.0, (Loss(mu=MU),)).epsilon_at(5e-7)
    assert user["published"] == pytest.approx(rest + price)
    for unit in units.values():
        assert unit["published"] > unit["released"] > 0
    parts = {(part["kind"], part["mechanism"]): part for part in found["parts"]}
    assert len(parts) == 3
    assert parts["fit", "private-effects"]["epsilon_each"] == [0.5, 1.0]
    assert parts["fit", "private-effects"]["runs"] == 6
    alone = parts["release", "private-item-mean"]["composed"]["user_empty"]
    assert alone == user["released"]

    status, out, _ = dpmc("ledger", "restaurants")
    assert status == 0
    assert "6 private fits and 1 private choice for your eyes; 1 release" in out
    assert words.epsilon_text(user["published"]) in out
    # The second release shows what both cost.
    second = dpmc(*release, "--out", tmp_path / "two.npz", "--json")
    assert "2 releases of these ratings" in second[2]
    assert f"epsilon {words.epsilon_text(gaussian_epsilon(MU * math.sqrt(2), 1e-6))}" in second[2]
