"""A catalogue: which users and items there are is known before any rating, or the card says not."""

import dataclasses
import json
import random
from itertools import pairwise

import numpy as np
import pytest

from dpmc_core import registry
from dpmc_core.errors import BadRatings, CannotRelease, InvalidSetting
from dpmc_core.model import Task
from dpmc_core.preparation import (
    OutsideRatings,
    align_to_catalogue,
    parse_step,
    preserves_neighbours,
)
from dpmc_core.privacy import CELL, RATING, ROW_VALUES, USER_EMPTIED, Change
from dpmc_core.problem import prepare_all_ratings
from dpmc_core.ratings import Catalogue, Origin, PublicFacts, Ratings
from dpmc_core.settings import parse_setting
from dpmc_data import load
from dpmc_data.public_inputs import read_ids
from dpmc_lab.study.release import check_releasable
from tests.ratings_helpers import random_stars

ITEMS = [f"film-{k}" for k in (7, 2, 9, 4, 30, 1)]
USERS = [f"u{k}" for k in range(12)]


def draw_rows(seed=1):
    """Draw (user, item, rating) of eight users and four items of the lists."""
    rng = np.random.default_rng(seed)
    return [(u, i, int(rng.integers(1, 6))) for u in USERS[2:10] for i in ITEMS[1:5]]


def write_csv(path, table_rows):
    path.write_text("user,item,rating\n" + "".join(f"{u},{i},{v}\n" for u, i, v in table_rows))
    return path


@pytest.fixture
def file(tmp_path):
    return write_csv(tmp_path / "stars.csv", draw_rows())


@pytest.fixture
def lists(tmp_path):
    (tmp_path / "items.txt").write_text("\n".join(ITEMS) + "\n")
    (tmp_path / "users.txt").write_text("\ufeff" + "\r\n".join(USERS))
    return tmp_path / "items.txt", tmp_path / "users.txt"


def read_ratings(path):
    return load(path, low=1, high=5).ratings


def list_triples(ratings):
    return {
        (ratings.user_ids[u], ratings.item_ids[i], int(v))
        for u, i, v in zip(ratings.users, ratings.items, ratings.values, strict=True)
    }


def test_ids_of_a_file_are_its_lines(lists, tmp_path):
    items, users = map(read_ids, lists)
    assert (list(items), list(users)) == (ITEMS, USERS)
    with pytest.raises(BadRatings, match="there is no file"):
        read_ids(tmp_path / "none.txt")
    (tmp_path / "blank.txt").write_text(" \n\n")
    with pytest.raises(BadRatings, match="no ids"):
        read_ids(tmp_path / "blank.txt")
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe\x80")
    with pytest.raises(BadRatings, match="UTF-8"):
        read_ids(tmp_path / "bytes.txt")


def test_every_listed_user_and_item_has_a_row_in_the_order_of_the_lists(file):
    ratings = read_ratings(file)
    aligned, outside_message = align_to_catalogue(ratings, ITEMS, USERS)
    assert outside_message == ""
    assert aligned.shape == (12, 6)
    assert list(aligned.item_ids) == ITEMS
    assert list(aligned.user_ids) == USERS
    assert list_triples(aligned) == set(draw_rows())
    assert aligned.catalogue == Catalogue(Origin.LISTED)
    assert np.diff(aligned.indptr).tolist() == [0, 0, *[4] * 8, 0, 0]
    assert not np.isin(aligned.items, [0, 5]).any()  # nobody rated these two


def test_without_names_of_users_places_are_drawn_and_rows_stay_whole(file):
    """20 draws give the same places with chance (12!/4!)^-19."""
    ratings = read_ratings(file)
    alignments = [
        align_to_catalogue(ratings, ITEMS, 12, shuffle=random.Random(k))[0] for k in range(20)
    ]
    assert len({tuple(np.diff(r.indptr)) for r in alignments}) > 1
    user_rows = {tuple(row) for row in ratings.matrix.toarray().tolist()}
    columns = [ITEMS.index(id) for id in ratings.item_ids]
    for aligned in alignments:
        assert aligned.user_ids is None
        assert not aligned.catalogue.users_listed
        matrix = aligned.matrix.toarray()
        assert len(matrix) == 12
        assert {tuple(row) for row in matrix[:, columns].tolist() if any(row)} == user_rows
    by_id, _ = align_to_catalogue(ratings, ITEMS, 12)
    assert np.diff(by_id.indptr).tolist() == [*[4] * 8, *[0] * 4]


def test_ratings_outside_are_refused_or_left_out_and_told(file):
    ratings = read_ratings(file)
    with pytest.raises(BadRatings, match=r"8 ratings are outside .* lacks 1 item \('film-2'\)"):
        align_to_catalogue(ratings, ITEMS[2:], USERS)
    aligned, outside_message = align_to_catalogue(
        ratings, ITEMS[2:], USERS[3:], OutsideRatings.LEAVE_OUT
    )
    assert list_triples(aligned) == {r for r in draw_rows() if r[1] != "film-2" and r[0] != "u2"}
    assert "11 ratings" in outside_message
    assert "'film-2'" in outside_message
    assert "'u2'" in outside_message
    with pytest.raises(BadRatings, match="twice, first 'a'"):
        align_to_catalogue(ratings, ["a", "a"], USERS)
    with pytest.raises(InvalidSetting, match="number of users must be >= 8"):
        align_to_catalogue(ratings, ITEMS, 7)
    with pytest.raises(InvalidSetting, match="number of users must be >= 1 and <= 2"):
        align_to_catalogue(ratings, ITEMS, 10**12)
    with pytest.raises(BadRatings, match="no names"):
        align_to_catalogue(dataclasses.replace(ratings, item_ids=None), ITEMS, USERS)


# The command

MEAN = ("private-item-mean", "--epsilon", 1, "--range", "1:5")


def run_release(dpmc, file, *argv):
    pytest.importorskip("opendp", reason="needs the extra 'release'")
    out = file.parent / f"{len(list(file.parent.iterdir()))}.npz"
    status, _, err = dpmc("release", file, *argv, "--out", out)
    assert status == 0, err
    with np.load(out, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    return json.loads(str(arrays.pop("card"))), arrays, err


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        ([], "--catalogue from-data"),
        (["--catalogue", "items.txt"], "--users must be given with --catalogue"),
        (["--users", "12"], "--users must be given with --catalogue items.txt"),
        (["--catalogue", "from-data", "--users", "12"], "--users must be given with --catalogue"),
        (["--outside", "leave-out"], "--outside must be given with --catalogue"),
        (["--catalogue", "none.txt", "--users", "12"], "there is no file none.txt"),
        (["--catalogue", "items.txt", "--users", "7"], "number of users must be >= 8"),
        (["--catalogue", "items.txt", "--users", "0"], "users must be >= 1"),
        (["--catalogue", "items.txt", "--users", "-3"], "there is no file -3"),
        (["--catalogue", "items.txt", "--users", "9" * 30], "delta must be < 1/users"),
        (["--catalogue", "items.txt", "--users", "9" * 5000], "--users must be an integer"),
        (["--catalogue", "few.txt", "--users", "12"], "--outside leave-out"),
    ],
)
@pytest.mark.usefixtures("lists")
def test_a_file_needs_a_catalogue(dpmc, file, argv, sentence, monkeypatch):
    monkeypatch.chdir(file.parent)
    (file.parent / "few.txt").write_text("\n".join(ITEMS[2:]))
    out = file.parent / "found.npz"
    status, text, err = dpmc("release", file, *MEAN, *argv, "--out", out)
    assert (status, text) == (1, "")
    assert sentence in err
    assert not out.exists()


def test_two_files_that_differ_by_one_item_give_releases_of_one_shape(dpmc, tmp_path, lists):
    extended_rows = [*draw_rows(), (USERS[3], ITEMS[5], 4)]
    files = [
        write_csv(tmp_path / f"{k}.csv", table_rows)
        for k, table_rows in enumerate((draw_rows(), extended_rows))
    ]
    items, users = lists
    for users_option in (users, 12):
        releases = [
            run_release(dpmc, f, *MEAN, "--catalogue", items, "--users", users_option)
            for f in files
        ]
        (first, arrays, _), (second, other_arrays, _) = releases
        assert {n: (a.shape, a.dtype) for n, a in arrays.items()} == {
            n: (a.shape, a.dtype) for n, a in other_arrays.items()
        }
        assert arrays["items"].shape[0] == len(ITEMS)
        assert arrays["item_ids"].tolist() == ITEMS
        for release_card in (first, second):
            for name in ("arrays", "sha256"):  # where the noisy numbers show
                release_card.pop(name)
        assert first == second
        assert first["rows"] == {"items": "in the order of item_ids"}
        assert any("list of items" in caveat for caveat in first["guarantee"]["caveats"])
    read_off = [run_release(dpmc, f, *MEAN, "--catalogue", "from-data") for f in files]
    assert [arrays["items"].shape[0] for _, arrays, _ in read_off] == [4, 5]
    for release_card, arrays, _ in read_off:
        assert "item_ids" not in arrays
        assert any("which items somebody rated" in c for c in release_card["guarantee"]["caveats"])
        assert release_card["catalogue"]["origin"] == "from-data"


@pytest.mark.parametrize(("listed", "named"), [("users.txt", True), (12, False)])
def test_rows_of_users_have_names_where_these_are_listed(dpmc, file, lists, listed, named):
    """Per rating rows stay in order; per cell, with a number alone, nobody knows whose one is."""
    users_option = file.parent / listed if named else listed
    argv = ("--epsilon", 1, "--range", "1:5", "--catalogue", lists[0], "--users", users_option)
    release_card, arrays, _ = run_release(
        dpmc, file, "input-flip", *argv, "--prepare", "binarise=3.5"
    )
    assert ("user_ids" in arrays) == named
    cells = list(zip(arrays["users"].tolist(), arrays["items"].tolist(), strict=True))
    positions = {u: k for k, u in enumerate(USERS if named else USERS[2:10])}
    assert set(cells) == {(positions[u], ITEMS.index(i)) for u, i, _ in draw_rows()}
    assert "none" in release_card["catalogue"]["condition"]
    release_card, arrays, _ = run_release(dpmc, file, "randomised-response", *argv)
    assert ("user_ids" in arrays) == named
    shuffled = "places drawn at random" in release_card["rows"]["users"]
    assert shuffled is not named


def test_the_command_draws_the_places_of_users_whose_number_alone_is_known(dpmc, file, lists):
    """At epsilon 25 reports are the ratings but for a chance of 1e-6; three draws that put all who
    rated first have chance (8! 4! / 12!)^3 = 8e-9."""
    argv = ("--epsilon", 25, "--range", "1:5", "--catalogue", lists[0], "--users", 12)
    releases = [run_release(dpmc, file, "randomised-response", *argv)[1] for _ in range(3)]
    assert all(len(set(arrays["users"].tolist())) == 8 for arrays in releases)
    assert {tuple(sorted(set(a["users"].tolist()))) for a in releases} != {tuple(range(8))}


# Preparation that is free


def draw_neighbour(ratings, change, rng):
    """Return the same ratings but for one change at random."""
    cells = ratings.matrix.toarray()
    user = int(rng.integers(6))
    rated = np.flatnonzero(cells[user])
    if change is RATING:
        cells[user, rng.choice(rated)] = rng.integers(1, 6)
    elif change is ROW_VALUES:
        cells[user, rated] = rng.integers(1, 6, len(rated))
    elif change is CELL:
        cells[user, rng.integers(9)] = rng.integers(0, 6)
    elif change is USER_EMPTIED:
        cells[user] = 0
    else:
        cells[user] = rng.integers(0, 6, 9)
    users, items = np.nonzero(cells)
    return Ratings.build(users, items, cells[users, items], ratings.public)


STEPS = ["implicit=4", "implicit=all", "cap=3", "top-items=4", "binarise=mean", "binarise=3"]


@pytest.mark.slow
@pytest.mark.parametrize("change", list(Change), ids=lambda c: c.value)
@pytest.mark.parametrize("text", STEPS)
def test_a_step_is_free_just_where_neighbours_stay_neighbours(text, change):
    """Against 400 random pairs: a free step moves what the change may move, and no more; one that
    is not free moves more for some pair."""
    rng = np.random.default_rng(5)
    step, broken = parse_step(text), 0
    for _ in range(400):
        before = random_stars(6, 9, 0.7, rng)
        after = draw_neighbour(before, change, rng)
        try:
            prepared = [step.apply(r, r) for r in (before, after)]
        except BadRatings:  # nothing left, or one class
            continue
        first, second = (r.matrix.toarray() for r in prepared)
        positions = [getattr(step, "places", lambda _: np.arange(9))(r) for r in (before, after)]
        same_items = np.array_equal(*positions)
        n_changes = (first != second).sum(axis=1)
        patterns = [set(zip(r.users.tolist(), r.items.tolist(), strict=True)) for r in prepared]
        allowed = (n_changes > 0).sum() <= 1 and same_items
        if change in (RATING, CELL):
            allowed &= n_changes.sum() <= 1
        if not change.covers_existence:
            allowed &= patterns[0] == patterns[1]
        broken += not allowed
    free = not step.dependency or preserves_neighbours(step.dependency, change)
    assert free == (broken == 0)


@pytest.mark.parametrize(
    ("id", "settings", "steps", "refused"),
    [
        ("private-popularity", {"per": "cell"}, ["implicit=4"], False),
        ("private-popularity", {}, ["implicit=4"], False),
        ("private-taste", {}, ["implicit=4", "cap=5"], False),
        ("dplcf", {}, ["implicit=4"], False),
        ("private-popularity", {"per": "cell"}, ["implicit=4", "cap=5"], True),
        ("input-flip", {}, ["implicit=4", "rescale=-1:1"], True),
        ("input-flip", {}, ["binarise=3", "top-items=3", "cap=2"], False),
        ("input-flip", {}, ["binarise=mean"], True),
        ("private-item-mean", {}, ["top-items=3"], True),
        ("private-item-mean", {}, ["top-items=100"], True),  # it would keep all, and say so
    ],
)
def test_preparation_is_refused_just_where_it_costs_something(id, settings, steps, refused):
    cls = registry.get_mechanism(id)
    values = {name: parse_setting(cls, name, text) for name, text in settings.items()}
    mechanism = registry.create(id, epsilon=1.0, delta=1e-6, **values)
    ratings = random_stars(6, 9, 0.7, np.random.default_rng(0))
    prepared, texts = prepare_all_ratings(ratings, mechanism.task, [parse_step(s) for s in steps])
    if refused:
        with pytest.raises(CannotRelease, match="no noise covers"):
            check_releasable(mechanism, prepared, texts)
    else:
        check_releasable(mechanism, prepared, texts)


def test_the_facts_of_a_release_do_not_tell_whether_all_ratings_are_alike():
    public = PublicFacts(users=2, items=2, low=0, high=5)
    equal_ratings, mixed_ratings = (
        Ratings.build([0, 1], [0, 1], v, public) for v in ([1, 1], [1, 3])
    )
    prepared = [prepare_all_ratings(r, Task.RANKING) for r in (equal_ratings, mixed_ratings)]
    assert prepared[0][0].public == prepared[1][0].public
    assert prepared[0][1] == prepared[1][1] == ("implicit=all",)
    signed = dataclasses.replace(public, low=-1, high=1)
    prepared = [
        prepare_all_ratings(Ratings.build([0, 1], [0, 1], v, signed), Task.BINARY)
        for v in ([1, -1], [1, 0])
    ]
    for first, second in pairwise(prepared):
        assert first[0].public == second[0].public
        assert first[1] == second[1] == ("binarise=middle",)


def test_a_public_set_has_a_public_catalogue_and_says_whether_the_file_is_its_own(tmp_path):
    (tmp_path / "u.data").write_text("1\t1\t3\t880000000\n2\t5\t4\t880000001\n")
    assert load(tmp_path / "u.data", low=1, high=5).ratings.catalogue.origin is Origin.READ
    (tmp_path / "README").write_text("MovieLens: 100,000 ratings")
    for name in ("u.item", "u.user"):
        (tmp_path / name).touch()
    catalogue = load(tmp_path / "u.data").ratings.catalogue
    assert catalogue.origin is Origin.PUBLIC
    assert "MovieLens 100K" in catalogue.condition
    assert "may have been changed" in catalogue.condition


def test_what_is_left_out_is_told_at_the_terminal_alone(dpmc, file, lists):
    few = file.parent / "few.txt"
    few.write_text("\n".join(ITEMS[2:]))
    argv = ("--catalogue", few, "--users", lists[1], "--outside", "leave-out")
    release_card, arrays, err = run_release(dpmc, file, *MEAN, *argv)
    assert "8 ratings are outside" in err
    assert "film-2" in err
    assert "film-2" not in json.dumps(release_card)
    assert arrays["item_ids"].tolist() == ITEMS[2:]
    assert "outside" not in json.dumps(release_card)
