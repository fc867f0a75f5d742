"""Item features from a donor, and what `dpmc data features` writes and asks for."""

import csv
import json

import numpy as np
import pytest

from dpmc_core import registry
from dpmc_core.errors import BadRatings
from dpmc_core.metrics import rmse
from dpmc_core.model import Task
from dpmc_core.preparation import UseItemFeatures
from dpmc_core.problem import build_problem
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_data import datasets
from dpmc_data.features import DONOR_ITEM
from dpmc_lab.cli import main
from dpmc_lab.study import donor
from sample_data import generate
from tests.replay import fit_model

TITLES = ["The Matrix (1999)", "Café Noir (2001)", "Solaris (1972)", "Solaris (2002)"]


def build_donor(names=TITLES, users=30, seed=0):
    """Ratings whose items differ by one point from each to the next."""
    rng = np.random.default_rng(seed)
    u, i = np.nonzero(rng.random((users, len(names))) < 0.8)
    values = np.clip(np.round(1.5 + i + 0.3 * rng.normal(size=len(u))), 1, 5)
    public = PublicFacts(users=users, items=len(names), low=1, high=5)
    return Ratings.build(u, i, values, public, item_ids=names)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("Matrix, The (1999)", "the matrix 1999"),
        ("Cafe noir (2001) ", "café NOIR (2001)"),
        ("Ran! (Chaos) (1985)", "ran 1985"),
        ("Солярис (1972)", "солярис 1972"),
    ],
)
def test_titles_that_are_the_same_are_written_alike(text, same):
    assert donor.normalise_title(text) == donor.normalise_title(same)


def test_items_are_joined_by_title_and_year_and_never_by_a_name_of_two():
    columns = {
        "id": ["1", "2", "3", "4", "5"],
        "name": ["Matrix, The (1999)", "Solaris (2002)", "Solaris", "Cafe noir (2001)", "Unknown"],
    }
    assert donor.match_items(columns, build_donor()) == ("name", [0, 3, None, 1, None])
    twice = columns | {"name": ["Solaris (1972)", "solaris (1972)", *columns["name"][2:]]}
    assert donor.match_items(twice, build_donor())[1] == [None, None, None, 1, None]
    doubled = build_donor([*TITLES[:3], "SOLARIS (1972)"])
    assert donor.match_items({"name": TITLES[:3]}, doubled)[1] == [0, 1, None]


def test_equal_numbers_are_no_join_unless_ids_are_asked_for():
    numbered = build_donor(["1", "2", "3", "4"])
    columns = {"id": ["3", "1"], "name": ["Solaris (1972)", "The Matrix (1999)"]}
    with pytest.raises(BadRatings, match="--by id"):
        donor.match_items({"name": columns["name"]}, numbered)
    assert donor.match_items(columns, numbered, by_id=True) == ("id", [2, 0])
    with pytest.raises(BadRatings, match="--by title"):
        donor.match_items({"id": ["x"]}, numbered, by_id=True)


def test_what_a_donor_says_follows_from_its_ratings():
    ratings = build_donor()
    numbers = donor.describe_items(ratings)
    effects, log_counts = numbers["donor effect"], numbers["donor log count"]
    counts = np.bincount(ratings.items)
    np.testing.assert_allclose(np.exp(log_counts), counts)
    dense = np.full((30, 4), np.nan)
    dense[ratings.users, ratings.items] = ratings.values - ratings.values.mean()
    rated = np.isfinite(dense)
    dense -= (np.nansum(dense, axis=1) / (rated.sum(axis=1) + 5))[:, None]
    np.testing.assert_allclose(effects, np.nansum(dense, axis=0) / (counts + 5))
    left = np.where(rated, dense - effects, 0.0) / np.sqrt(rated.sum(axis=1) + 5)[:, None]
    _, _, right = np.linalg.svd(left / np.sqrt(counts + 5))
    for k in range(3):
        cosine = right[k] @ (numbers[f"donor factor {k + 1}"] * np.sqrt(counts + 5))
        assert abs(cosine) == pytest.approx(1)
    rare = build_donor([*TITLES, "Rare (2020)"])
    keep = (rare.items != 4) | (np.cumsum(rare.items == 4) < donor.MIN_RATINGS)
    _, table = donor.build_feature_table({"id": ["Rare (2020)", TITLES[0]]}, rare.select(keep))
    assert table["donor effect"][0] == table[DONOR_ITEM][0] == ""
    assert table[DONOR_ITEM][1] == TITLES[0]


@pytest.fixture(scope="module")
def sets():
    """Ratings of one population of films, split by user into a donor and one's own."""
    drawn = generate.generate_long_tail(3, users=900, items=400, ratings=40_000).ratings
    cells = drawn.users, drawn.items, drawn.values
    ids = [f"film {k}" for k in range(400)]
    halves = []
    for part in (drawn.users < 450, drawn.users >= 450):
        users, items, values = (column[part] for column in cells)
        public = PublicFacts(users=450, items=400, low=1, high=5)
        halves.append(Ratings.build(users % 450, items, values, public, item_ids=ids))
    return halves


def write_ratings(ratings, path):
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["user_id", "item_id", "rating"])
        rows = zip(ratings.users, ratings.items, ratings.values, strict=True)
        writer.writerows((u, ratings.item_ids[i], f"{v:g}") for u, i, v in rows)
    return str(path)


def test_a_donor_helps_changes_no_certificate_and_is_named_beside_it(sets, tmp_path, capsys):
    donor_file, own_file = (
        write_ratings(ratings, tmp_path / f"{name}.csv")
        for ratings, name in zip(sets, ("donor", "own"), strict=True)
    )
    items, out = tmp_path / "items.csv", tmp_path / "features.csv"
    items.write_text("id\n" + "\n".join(sets[0].item_ids) + "\n")
    argv = ["data", "features", "--from", donor_file, "--items", str(items), "--out", str(out)]
    assert main([*argv, "--range", "1:5"]) == 1
    assert "--public-donor" in capsys.readouterr().err
    assert main([*argv, "--range", "1:5", "--public-donor", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    rows = [*csv.DictReader(out.read_text("utf-8").splitlines())]
    assert document["matched"] == sum(bool(row[DONOR_ITEM]) for row in rows) > 300
    assert [row["id"] for row in rows] == [*sets[0].item_ids]
    before = out.read_bytes()
    assert main([*argv, "--range", "1:5", "--public-donor"]) == 1
    assert "is there already" in capsys.readouterr().err
    assert out.read_bytes() == before

    data = datasets.load(own_file, low=1, high=5, items=str(out))
    names = [name for name, _ in data.ratings.public.available_features]
    assert names == [f"donor {text}" for text in ("effect", "log count")] + [
        f"donor factor {k}" for k in range(1, 5)
    ]
    mechanism = registry.create("private-effects", epsilon=0.3)
    errors, certified = {}, {}
    for steps in ((), (UseItemFeatures(),)):
        problem = build_problem(data, Task.RATINGS, steps=steps, seed=1)
        model = fit_model(mechanism, problem.train, 1)
        test = problem.test
        errors[steps] = rmse(model.predict(test.users, test.items), test.values)
        guarantee = mechanism.guarantee(problem.train.public)
        certified[steps] = guarantee.certified()
        caveats = guarantee.with_preparation(problem.train.prepared).caveats
        assert any("the donor shares no people" in text for text in caveats) == bool(steps)
    without, with_donor = errors.values()
    assert with_donor < without - 0.02
    assert len({(c.epsilon, c.delta) for c in certified.values()}) == 1
