"""Public facts about items: what becomes of a table, and what methods make of them."""

import dataclasses
import math
from collections import Counter

import numpy as np
import pytest

from dpmc_core import registry
from dpmc_core.errors import BadRatings
from dpmc_core.mechanisms import user_ranking
from dpmc_core.mechanisms.user_ranking import ProtectedUnit
from dpmc_core.metrics import rmse
from dpmc_core.model import Task
from dpmc_core.preparation import UseItemFeatures, parse_step
from dpmc_core.privacy import CELL, USER_EMPTIED, USER_REPLACED, record_publications
from dpmc_core.problem import build_problem
from dpmc_core.ratings import PublicFacts, Ratings, UserData
from dpmc_core.solvers import empirical_bayes, sizes
from dpmc_core.solvers import ranking as ranking_solver
from dpmc_core.solvers.rows import ResidualRows
from dpmc_data import datasets, features
from dpmc_data.source import Source
from tests.ratings_helpers import clicks
from tests.replay import measure_changes
from tests.user_level_helpers import FAMILY as WHOLE_FAMILY
from tests.user_level_helpers import (
    ITEMS,
    RANKING,
    USERS,
    build_ratings,
    create_mechanism,
    list_neighbours,
    make_rows,
)

FAMILY = {id: settings for id, settings in WHOLE_FAMILY.items() if id != "dp-sgd"}  # uses no facts
PER_USER = [
    id
    for id, cls in registry.MECHANISMS.items()
    if cls.task is Task.RATINGS and registry.has_setting(cls, "delta")
]
RANKERS = ["private-popularity", "private-taste"]


@pytest.fixture
def ratings():
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((40, 12)) < 0.5)
    return Ratings.build(
        *(users, items, rng.integers(1, 6, len(users)).astype(float)),
        PublicFacts(users=40, items=12, low=1, high=5),
        item_ids=[f"i{k}" for k in range(12)],
    )


def write_table(tmp_path, text):
    path = tmp_path / "items.csv"
    path.write_text(text)
    return Source.from_file(path)


def use_item_features(ratings, item_features):
    ratings = ratings.with_item_features(item_features)
    return UseItemFeatures().apply(ratings, ratings)


# --- a table becomes columns ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "summary", "columns"),
    [
        (["a|b", "a", "b", "", "a|b"], "2 categories", 2),
        (["a", "a", "b", "b", "rare"], "2 categories; 1 rarer ones left aside", 2),
        (["1", "2.5", "", "4", "1e2"], "a number", 2),
        (["Up (2009)", "It (1990)", "no year", "Elf (2003)", "Heat (1995)"], "the year", 2),
        (["x"] * 5, "left aside: the same for all", None),
        ([""] * 5, "left aside: the same for all", None),
        (list("abcde"), "left aside: 5 texts", None),
    ],
)
def test_a_column_becomes(texts, summary, columns):
    feature = features.encode_column("it", texts)
    assert feature.summary.startswith(summary)
    assert (feature.columns is None) == (columns is None)
    if columns is not None:
        assert feature.columns.shape == (5, columns)
        assert np.isfinite(feature.columns).all()


def test_columns_are_of_mean_square_one_where_an_item_has_them():
    rows = features.encode_column("kind", ["a|b", "a", "b", "", "a|b"]).columns
    assert np.linalg.norm(rows, axis=1) == pytest.approx([1, 1, 1, 0, 1])
    line = features.encode_column("price", [str(k) for k in range(2_000)]).columns
    assert line.mean(axis=0) == pytest.approx([0, 0], abs=1e-3)
    assert (line**2).mean(axis=0) == pytest.approx([0.5, 0.5], rel=1e-2)


def test_a_table_is_matched_by_the_items_ids(tmp_path, ratings):
    rows = "".join(f"{k},i{k},{k % 3}\n" for k in reversed(range(1, 12)))
    text = f"row,film,kind\n{rows}0,unknown,1\n"
    item_features = features.read_items(write_table(tmp_path, text), ratings)
    assert [feature.name for feature in item_features] == ["film", "row", "kind"]
    assert item_features[0].summary == "names the items; 1 of 12 are not in the table"
    kind = item_features[2].columns
    assert not kind[0].any()
    assert np.array_equal(kind[1], kind[4])


def test_a_column_of_years_that_are_also_ids_does_not_name_the_items(tmp_path, ratings):
    rows = "".join(f"i{k},i{1 + k % 2}\n" for k in range(1, 9))  # eight ids; texts of two items
    table = write_table(tmp_path, f"film,year\n{rows}x,i1\ny,i2\n")
    assert features.read_items(table, ratings)[0].name == "film"


NO_TABLES = ["", "a,b\n1,2\n", "\0\0", "a,b\n1\n", "id,kind,kind\ni1,a,b\n", "id,kind\ni1,a,b\n"]


@pytest.mark.parametrize("content", NO_TABLES)
def test_what_is_no_table_of_these_items_is_a_sentence(tmp_path, ratings, content):
    with pytest.raises(BadRatings, match=r"items\.csv"):
        features.read_items(write_table(tmp_path, content), ratings)


def test_what_goes_along_with_what_users_did_is_marked(tmp_path, ratings):
    counts = np.bincount(ratings.items, minlength=12)
    rows = "".join(f"i{k},{counts[k]},{(7 * k) % 12}\n" for k in range(12))
    _, sold, number = features.read_items(write_table(tmp_path, "id,sold,number\n" + rows), ratings)
    assert "how often" in sold.mark
    assert number.mark == ""


def test_a_step_uses_them_and_names_them(ratings):
    item_features = {"genre": np.eye(12)[:, :3], "year": np.ones((12, 2))}
    step = parse_step("features=year")
    with_features = ratings.with_item_features(item_features)
    used = step.apply(with_features, with_features)
    assert used.public.features == (("year", 2),)
    assert str(step) == "features=year"
    assert used.features.shape == (12, 2)
    assert used.fingerprint != with_features.fingerprint == ratings.fingerprint
    guarantee = registry.create("private-effects", epsilon=1.0).guarantee(used.public)
    (caveat,) = guarantee.with_preparation(used.prepared).caveats[-1:]
    assert caveat == "certified given that what is known of the items (year) is public"
    with pytest.raises(BadRatings, match="by the name 'price'; known: genre, year"):
        parse_step("features=price").apply(with_features, with_features)
    with pytest.raises(BadRatings, match="give a table of them with --items"):
        parse_step("features").apply(ratings, ratings)


def test_results_name_a_table_that_somebody_gave(tmp_path, ratings):
    """Another table under the same names is another preparation: stored rows are not mixed up."""
    prepared = []
    for shift in (0, 1):
        rows = "".join(f"i{k},{(k + shift) % 3}\n" for k in range(12))
        item_features = features.read_items(write_table(tmp_path, "id,kind\n" + rows), ratings)
        with_features = features.attach_features(ratings, item_features, with_digest=True)
        assert with_features.fingerprint == ratings.fingerprint
        prepared.append(
            (
                with_features,
                build_problem(
                    (with_features, with_features), Task.RATINGS, steps=[UseItemFeatures()]
                ),
            )
        )
    (first, first_problem), (second, second_problem) = prepared
    assert first_problem.steps != second_problem.steps
    assert parse_step(first_problem.steps[0]).apply(first, first).public.features == (("kind", 2),)
    with pytest.raises(BadRatings, match="another table"):
        parse_step(first_problem.steps[0]).apply(second, second)


# --- what methods make of them --------------------------------------------------------------------


@pytest.mark.parametrize("id", [*PER_USER, *RANKERS])
def test_no_certificate_moves_by_a_digit(id, ratings):
    public = use_item_features(
        ratings, {"genre": np.eye(12)[:, :3], "year": np.ones((12, 2))}
    ).public
    for epsilon in (0.1, 1.0, 10.0):
        mechanism = registry.create(id, epsilon=epsilon)
        guarantees = (mechanism.guarantee(variant) for variant in (ratings.public, public))
        before, after = (guarantee.certified(USER_EMPTIED).epsilon for guarantee in guarantees)
        assert after == pytest.approx(before, rel=1e-12)
        assert after <= epsilon


HALF = np.where(np.arange(ITEMS) < ITEMS // 2, 1.0, -1.0)[:, None]


@pytest.mark.slow_unless_planted
@pytest.mark.parametrize("relation", [USER_EMPTIED, USER_REPLACED])
@pytest.mark.parametrize("id", FAMILY)
def test_no_row_moves_what_facts_are_worth_further_than_the_card_says(id, relation):
    """Each release of the family where facts are used: nothing is released about the facts."""
    mechanism, used = create_mechanism(id), {}
    for pair in list_neighbours(relation):
        first, second = (use_item_features(ratings, {"half": HALF}) for ratings in pair)
        for a, b in ((first, second), (second, first)):
            for value_change in measure_changes(mechanism, a, b, relation):
                used[value_change.query] = max(
                    used.get(value_change.query, 0.0), value_change.change / value_change.allowed
                )
    assert used
    assert max(used.values()) <= 1 + 1e-9


@pytest.mark.parametrize("id", [*FAMILY, *RANKERS])
def test_where_facts_are_used_what_is_published_is_on_the_card(id):
    """Every release of the card as often as it says, and nothing else."""
    mechanism = create_mechanism(id) if id in FAMILY else registry.create(id, epsilon=2.0)
    cells = np.random.default_rng(3).random((USERS, ITEMS)) < 0.4
    train = use_item_features(
        build_ratings(make_rows()) if id in FAMILY else clicks(cells), {"half": HALF}
    )
    with record_publications() as published:
        list(mechanism.fit(train, np.random.default_rng(0)))
    guarantee = mechanism.guarantee(train.public)
    expected = Counter({release.query: release.times for _, release in guarantee.releases})
    assert Counter(publication.release.query for publication in published) == expected
    assert any("public fact" in query for query in expected) == (id in RANKERS)


@pytest.mark.slow
@pytest.mark.parametrize("change", [CELL, USER_EMPTIED, USER_REPLACED])
@pytest.mark.parametrize("id", RANKERS)
def test_no_click_and_no_user_moves_what_facts_are_worth_to_rankings_further(id, change):
    mechanism, used = registry.create(id, epsilon=2.0), {}
    cells = np.random.default_rng(3).random((USERS, ITEMS)) < 0.4
    cells[4] = HALF[:, 0] > 0
    for kind in range(3):
        other = cells.copy()
        other[4] = [np.zeros(ITEMS, bool), HALF[:, 0] < 0, cells[4]][kind]
        other[4, 0] ^= kind == 2
        if (kind == 2) != (change is CELL) or (kind == 0) != (change is USER_EMPTIED):
            continue
        pair = (use_item_features(clicks(matrix), {"half": HALF}) for matrix in (cells, other))
        for value_change in measure_changes(mechanism, *pair, change):
            used[value_change.query] = max(
                used.get(value_change.query, 0.0), value_change.change / value_change.allowed
            )
    assert used
    assert max(used.values()) <= 1 + 1e-9


@pytest.fixture(scope="module")
def films():
    return build_problem(datasets.load("movie-night"), Task.RATINGS)


def measure_error(id, train, test, epsilon, seeds=3):
    errors = []
    for seed in range(seeds):
        *_, last = registry.create(id, epsilon=epsilon).fit(train, np.random.default_rng(seed))
        predicted = np.clip(last.model.predict(test.users, test.items), 1, 5)
        errors.append(rmse(predicted, test.values))
    return np.mean(errors)


@pytest.mark.slow
def test_alone_learns_nothing_from_anybody_else(films):
    """Whatever others rate, a user's own predictions stay."""
    train = use_item_features(films.train, films.train.item_features)
    method = registry.create("alone")
    (step,) = method.fit(train, np.random.default_rng(0))
    mask = train.users < 5
    (step_without_others,) = method.fit(train.select(mask), np.random.default_rng(0))
    items = np.arange(train.public.items)
    for user in range(5):
        assert np.array_equal(
            step.model.predict(user, items), step_without_others.model.predict(user, items)
        )


@pytest.mark.parametrize("id", PER_USER)
def test_what_is_known_and_not_used_changes_nothing(id, ratings):
    unused = ratings.with_item_features({"genre": np.eye(12)[:, :3]})
    predictions = []
    for variant in (ratings, unused):
        *_, last = registry.create(id, epsilon=1.0).fit(variant, np.random.default_rng(0))
        predictions.append(last.model.predict(0, np.arange(12)))
    assert np.array_equal(*predictions)
    assert unused.fingerprint == ratings.fingerprint


# --- the worst rows, and what is chosen by what was published ------------------------------------


def make_extreme_clicks(change):
    """Clicks that differ in user 4, whose rare items a fact speaks for, or against.

    A fact of one column that is +1 on two rare items, -1 on two others and 0 elsewhere has
    x = +-6 there. For the user of the first two it is worth 36/21, for the user of one of either
    kind -36/21, and for the user of three of them -36/33: the bounds +-1 are all reached.
    """
    items, users = 40, 300
    rare = np.array(RARE)
    fact = np.zeros((items, 1))
    fact[rare, 0] = 1.0, 1.0, -1.0, -1.0
    common = np.setdiff1d(np.arange(items), rare)
    rng = np.random.default_rng(3)
    cells = np.zeros((users, items), bool)
    cells[:, common] = rng.random((users, len(common))) < 0.3
    cells[:4, rare] = np.eye(4)
    for row in {
        CELL: (rare[:2], rare[:3]),
        USER_EMPTIED: (rare[:2], []),
        USER_REPLACED: (rare[:2], rare[1:3]),
    }[change]:
        cells[4] = np.isin(np.arange(items), row)
        yield use_item_features(clicks(cells), {"rare": fact})


RARE = (3, 8, 15, 22)
DIRECTED = [
    ("private-popularity", {"delta": 1e-6}, USER_EMPTIED),
    ("private-popularity", {"delta": 1e-6}, USER_REPLACED),
    ("private-popularity", {"delta": 0.0}, USER_EMPTIED),
    ("private-popularity", {"per": ProtectedUnit.CELL}, CELL),
    ("private-popularity", {"per": ProtectedUnit.CELL, "delta": 0.0}, CELL),
    ("private-taste", {}, USER_EMPTIED),
    ("private-taste", {}, USER_REPLACED),
]


@pytest.mark.parametrize(("id", "settings", "change"), DIRECTED)
def test_the_worst_rows_move_what_facts_are_worth_as_far_as_the_card_says(id, settings, change):
    mechanism = registry.create(id, epsilon=1e3, **settings)
    for pair in (tuple(make_extreme_clicks(change)), tuple(make_extreme_clicks(change))[::-1]):
        (value_change,) = (
            m for m in measure_changes(mechanism, *pair, change) if "public fact" in m.query
        )
        assert 0.95 <= value_change.change / value_change.allowed <= 1 + 1e-9


def test_what_facts_are_worth_is_what_its_definition_says():
    """User by user and pair by pair: x_j'x_k over the other own items, less that of the same facts
    dealt to other items; x is white over ratings, and no longer than 6."""
    rng = np.random.default_rng(5)
    cells, counts = rng.random((20, ITEMS)) < 0.5, 1 + 9 * rng.random(ITEMS)
    item_features = [rng.normal(size=(ITEMS, 2)) ** 3, HALF]
    order = np.random.default_rng(0).permutation(ITEMS)
    expected = np.zeros(2)
    for k, feature in enumerate(item_features):
        user_gains = []
        for assigned in (feature, feature[order]):
            x = assigned - np.average(assigned, axis=0, weights=counts)
            covariance = np.cov(assigned.T, aweights=counts, bias=True).reshape(x.shape[1], -1)
            gram = x @ np.linalg.inv(covariance) @ x.T
            length = np.maximum(np.sqrt(np.diag(gram)), 6.0) / 6
            gram = gram / length[:, None] / length
            user_grams = [gram[np.ix_(row, row)] for row in cells]
            sums = [np.sum(g) - np.trace(g) for g in user_grams]
            user_gains.append(
                [s / max(len(g) * (len(g) + 19), 1) for s, g in zip(sums, user_grams, strict=True)]
            )
        expected[k] = np.clip(np.subtract(*user_gains), -1, 1).sum()
    named_features = {str(k): feature for k, feature in enumerate(item_features)}
    ratings = clicks(cells).with_item_features(named_features).use_features(list(named_features))
    gains = ranking_solver.sum_feature_gains(ratings, counts)
    assert gains == pytest.approx(expected, rel=1e-9)


def list_leaves(value):
    """The arrays, numbers and texts that something consists of."""
    if dataclasses.is_dataclass(value):
        value = [getattr(value, field.name) for field in dataclasses.fields(value)]
    elif isinstance(value, dict):
        value = [*value, *value.values()]
    if not isinstance(value, list | tuple):
        return [value]
    return [leaf for element in value for leaf in list_leaves(element)]


@pytest.mark.parametrize(
    ("id", "settings"),
    [*FAMILY.items(), ("private-effects", {"epsilon": 40.0, "rank": 3}), *RANKING[:4]],
)
def test_what_users_are_asked_follows_from_what_was_published(id, settings, monkeypatch):
    """Two data sets without a row in common meet the same answers: everybody is asked the same,
    the same items are kept, and features are taken over the same counts."""
    monkeypatch.setattr(sizes, "GRAM_LIMIT", 8)
    mechanism = (
        create_mechanism(id, **settings) if id in FAMILY else registry.create(id, **settings)
    )
    queries = []

    def spy(owner, name, first):
        original = getattr(owner, name)

        def spying(*arguments):
            queries.append((name, list_leaves(arguments[first:])))
            return original(*arguments)

        monkeypatch.setattr(owner, name, spying)

    for name in ("sum_over_users", "map_users", "build_model"):
        spy(UserData, name, 2)
    spy(ResidualRows, "select_columns", 1)
    spy(ranking_solver, "decorrelate_columns", 1)
    histories, published = [], None
    for seed in (1, 9):
        if id in FAMILY:
            data = build_ratings(make_rows(seed))
        else:
            data = clicks(np.random.default_rng(seed).random((USERS, ITEMS)) < 0.4)
        with record_publications(replayed=published) as publications:
            list(mechanism.fit(use_item_features(data, {"half": HALF}), np.random.default_rng(0)))
        published = published or publications
        histories.append(list(queries))
        queries.clear()
    first_history, second_history = histories
    assert [name for name, _ in first_history] == [name for name, _ in second_history]
    for (name, first_arguments), (_, second_arguments) in zip(
        first_history, second_history, strict=True
    ):
        assert len(first_arguments) == len(second_arguments), name
        for a, b in zip(first_arguments, second_arguments, strict=True):
            assert np.array_equal(a, b), name
    holds_gram = getattr(registry.get_mechanism(id), "holds_gram", id == "svd-after-cleansing")
    assert any(name == "select_columns" for name, _ in first_history) == holds_gram


@pytest.mark.parametrize(("delta", "factor"), [(0.0, math.sqrt(2)), (1e-6, 1.0)])
def test_noise_is_judged_by_its_standard_deviation(delta, factor, monkeypatch):
    """Laplace noise of scale b has the standard deviation sqrt(2) b; Gaussian noise has b."""
    judged = {}

    def judge_counts(noisy, noise_std, **_):
        judged["counts"] = noise_std
        return np.maximum(noisy, 1.0)

    def judge_gains(gains, noise_std):
        judged["facts"] = noise_std * USERS
        return np.zeros(len(gains))

    monkeypatch.setattr(empirical_bayes, "estimate_counts", judge_counts)
    monkeypatch.setattr(user_ranking, "feature_gain_probability", judge_gains)
    interactions = clicks(np.random.default_rng(1).random((USERS, ITEMS)) < 0.4)
    ratings = use_item_features(interactions, {"genre": np.eye(ITEMS)[:, :3]})
    mechanism = registry.create("private-popularity", epsilon=2.0, delta=delta)
    list(mechanism.fit(ratings, np.random.default_rng(0)))
    scales = {name: r.scale for name, r in mechanism.guarantee(ratings.public).releases}
    assert judged == pytest.approx({name: factor * scale for name, scale in scales.items()})
