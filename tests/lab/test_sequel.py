"""Releases that follow each other: their sum, its limit, and what the later one reads."""

import hashlib
import json
import math
import shlex

import numpy as np
import pytest

pytest.importorskip("opendp", reason="needs the extra 'release'")

from dpmc_core.errors import CannotRelease
from dpmc_core.model import Task
from dpmc_core.privacy.accounting import gaussian_epsilon
from dpmc_core.ratings import Catalogue, Origin
from dpmc_core.solvers.streams import StatisticStream
from dpmc_lab.study import release
from dpmc_lab.study.answer import LaterPublication
from dpmc_lab.study.release import Sequel, export_release, write_release
from dpmc_lab.study.verify import NotVerified, list_unverifiable, read_earlier, verify_release
from tests.forgeries import replace_at_path
from tests.release_helpers import (
    ITEMS,
    create_mechanism,
    load_release,
    make_ratings,
    save_release,
)

IDS = [f"i{k}" for k in range(ITEMS)]


def make_listed(task, ids=IDS, **options):
    return make_ratings(task, item_ids=ids, catalogue=Catalogue(Origin.LISTED), **options)


@pytest.fixture
def publish(tmp_path):
    """Write a release that follows others: (its path, its card)."""

    def publish(name, *earlier, id="private-effects", ratings=None, half_life=26.0, **settings):
        mechanism = create_mechanism(id, {"epsilon": "0.5", **settings})
        sequel = Sequel(read_earlier(earlier), half_life)
        ratings = ratings or make_listed(mechanism.task)
        write_release(export_release(mechanism, ratings, sequel=sequel), tmp_path / name)
        return tmp_path / name, load_release(tmp_path / name)[0]

    return publish


def compute_mu(release_card):
    return math.hypot(*(line["mu"] for line in release_card["releases"]))


def test_the_sum_is_composed_from_the_noise_of_every_release(publish):
    """Of Gaussian releases by their mu, whoever named them; epsilons would add up to more."""
    first, card_1 = publish("1.npz")
    second, card_2 = publish("2.npz", first, epsilon="0.8")
    other, card_3 = publish("3.npz", id="private-item-mean", epsilon="0.2")
    last, card_4 = publish("4.npz", second, other, second, first)
    cards = card_1, card_2, card_3, card_4
    mu = math.hypot(*map(compute_mu, cards))
    assert card_4["after"]["total"]["epsilon"] == pytest.approx(gaussian_epsilon(mu, 1e-6))
    assert len(card_4["after"]["releases"]) == 3  # each once
    through_card = publish("5.npz", second, other)[1]["after"]  # 1.npz is named by 2.npz
    assert through_card["total"] == card_4["after"]["total"]
    named = {entry["sha256"] for entry in through_card["releases"]}
    assert named == {card["sha256"] for card in cards[:3]}
    averaged = [entry["averaged"] for entry in through_card["releases"]]
    assert averaged == [False, True, False]  # no file of the first, another method
    assert verify_release(last).release_card == card_4


def test_pure_and_gaussian_releases_are_composed_apart(publish):
    first, card = publish("1.npz", id="private-popularity", per="cell", delta="0", epsilon="0.25")
    _, card = publish("2.npz", first, id="private-popularity", per="cell", delta="0", epsilon="0.5")
    total = card["after"]["total"]
    assert total == pytest.approx({"epsilon": 0.75, "delta": 0.0})


def test_releases_of_another_unit_have_no_sum(publish):
    first, _ = publish("1.npz", id="private-popularity", per="cell", delta="0")
    with pytest.raises(CannotRelease, match=r"1\.npz protects another privacy unit .*no sum per"):
        publish("2.npz", first, id="private-popularity")


def test_a_budget_is_never_passed(publish, monkeypatch):
    first, card = publish("1.npz")
    mechanism = create_mechanism("private-effects", {"epsilon": "0.5"})
    ratings = make_listed(mechanism.task)
    earlier = read_earlier([first])
    total = gaussian_epsilon(math.sqrt(2) * compute_mu(card), 1e-6)
    export_release(mechanism, ratings, sequel=Sequel(earlier, budget=total * (1 + 1e-9)))
    drawn = []
    monkeypatch.setattr(release.exact_noise.SecureSource, "add_noise", drawn.append)
    for limit in (total * (1 - 1e-9), 0.6):
        with pytest.raises(CannotRelease, match=r"with 1 earlier .*--budget.*--epsilon"):
            export_release(mechanism, ratings, sequel=Sequel(earlier, budget=limit))
    with pytest.raises(CannotRelease, match=r"--budget"):
        export_release(mechanism, ratings, sequel=Sequel(budget=0.49))
    assert not drawn


def test_what_a_card_says_of_earlier_releases_is_computed_again(publish, tmp_path):
    first, _ = publish("1.npz")
    second, card = publish("2.npz", first)
    arrays = load_release(second)[1]
    entry = ("after", "releases", 0)
    for path, value in (
        (("after", "total", "epsilon"), 0.6),
        (("after", "total", "delta"), 1e-9),
        ((*entry, "mu"), 0.0),
        ((*entry, "mu"), -1.0),
        ((*entry, "epsilon"), 1),
        ((*entry, "sha256"), "ab"),
        ((*entry, "date"), "yesterday"),
        ((*entry, "averaged"), "yes"),
        ((*entry, "raw"), 3),
        (("after", "half_life_weeks"), 0.0),
        (("after", "releases"), []),
        (("after", "raw"), 3),
        (("date",), "2026-1-1"),
        (("date",), "a name"),
    ):
        save_release(tmp_path / "a.npz", replace_at_path(card, path, value), arrays)
        with pytest.raises(NotVerified, match=r"after|date"):
            verify_release(tmp_path / "a.npz")
    assert "same digests" in " ".join(list_unverifiable(verify_release(second)))
    assert "same digests" not in " ".join(list_unverifiable(verify_release(first)))


def test_a_file_that_does_not_verify_is_not_followed(publish, tmp_path):
    first, card = publish("1.npz")
    arrays = load_release(first)[1]
    save_release(tmp_path / "a.npz", replace_at_path(card, ("settings", "epsilon"), 0.1), arrays)
    with pytest.raises(NotVerified):
        read_earlier([tmp_path / "a.npz"])
    # Of another revision only the budget counts, if its own digest holds.
    old = replace_at_path(card, ("revision",), 1)
    save_release(tmp_path / "old.npz", old, arrays)
    _, later = publish("2.npz", tmp_path / "old.npz")
    expected = gaussian_epsilon(math.sqrt(2) * compute_mu(card), 1e-6)
    assert later["after"]["total"]["epsilon"] == pytest.approx(expected)
    assert not later["after"]["releases"][0]["averaged"]
    save_release(tmp_path / "old.npz", old | {"sha256": "0" * 64}, arrays, sealed=False)
    with pytest.raises(NotVerified):
        read_earlier([tmp_path / "old.npz"])


def test_a_release_reads_of_an_earlier_one_what_its_file_holds(publish, monkeypatch):
    """Its arrays by item id, whatever their order, and the noise that its card states."""
    first, card = publish("1.npz")
    arrays = load_release(first)[1]
    ids = ["new", *reversed(IDS[3:]), "newer", "newest"]
    mechanism = create_mechanism("private-effects", {"epsilon": "0.3"})
    ratings = make_listed(mechanism.task, ids)
    monkeypatch.setattr(
        release, "date", type("Later", (release.date,), {"today": lambda: _add_weeks(card["date"])})
    )
    (earlier,) = Sequel(read_earlier([first]), half_life=13.0).align(mechanism, ratings).values()
    assert earlier.decay == pytest.approx(0.5)
    assert earlier.is_present.tolist() == [False] + [True] * (ITEMS - 3) + [False] * 2
    rows = [IDS.index(id) for id in ids[1:-2]]
    for name in ("noisy_counts", "noisy_sums", "noisy_residuals", "sum_units", "sum_centres"):
        np.testing.assert_array_equal(earlier.arrays[name][:, 1:-2], arrays[name][:, rows])
    assert earlier.scales["noisy_counts"] == card["releases"][1]["scale"]
    assert {name: arrays[name].shape for name in earlier.arrays if name not in arrays} == {}


def _add_weeks(day):
    return release.date.fromordinal(release.date.fromisoformat(day).toordinal() + 7 * 13)


def test_the_noise_of_a_simulated_publication_is_that_of_the_chain(publish, monkeypatch):
    """Five weekly releases with exact noise, whose last has the noise of the average of all."""
    noise = []

    def record_noise(name, average):
        def record(*arguments):
            result = average(*arguments)
            noise.append((name, np.mean(result[1])))
            return result

        monkeypatch.setattr(StatisticStream, name, record)

    for name in ("average_over_users", "average_counts", "average_sums"):
        record_noise(name, getattr(StatisticStream, name))

    def date_of(week):
        first = release.date.fromordinal(740_000)
        later = release.date.fromordinal(740_000 + 7 * week)
        return type("Week", (type(first),), {"today": classmethod(lambda _: later)})

    paths = []
    for week in range(5):
        noise.clear()
        monkeypatch.setattr(release, "date", date_of(week))
        # Exact noise has no seed: at this epsilon it hardly moves what the weights depend on.
        paths.append(publish(f"{week}.npz", *paths, epsilon="64")[0])
    chain = [*noise]
    noise.clear()
    later = LaterPublication(epsilon=64.0, delta=1e-6, publication=5, weeks=1.0)
    *_, _ = later.fit(make_listed(Task.RATINGS), np.random.default_rng(0))
    simulated = noise[len(noise) // 2 :]  # the first half is of the average of the earlier ones
    assert [name for name, _ in simulated] == [name for name, _ in chain]
    for (name, expected), (_, value) in zip(chain, simulated, strict=True):
        # Means are exact. Contents of counts and units of sums depend on the noise of each release.
        tolerance = {"average_over_users": 1e-9, "average_counts": 0.1, "average_sums": 0.25}[name]
        assert value == pytest.approx(expected, rel=tolerance)
    weights = 0.5 ** (np.arange(5) / 26)
    scale = load_release(paths[0])[0]["releases"][0]["scale"]
    assert simulated[0][1] == pytest.approx(scale * np.linalg.norm(weights) / weights.sum())


@pytest.mark.parametrize(
    ("id", "settings", "options"),
    [
        ("private-effects", {"rounds": "2"}, {}),
        ("private-item-mean", {}, {}),
        ("private-effects", {}, {"item_ids": None, "catalogue": Catalogue()}),
    ],
    ids=["other settings", "other method", "no ids"],
)
def test_what_cannot_be_averaged_is_only_added(publish, id, settings, options):
    first, _ = publish("1.npz")
    ratings = make_ratings(Task.RATINGS, **options) if options else None
    _, card = publish("2.npz", first, id=id, ratings=ratings, **settings)
    assert [entry["averaged"] for entry in card["after"]["releases"]] == [False]


def test_the_noise_of_released_statistics_has_the_stated_variance():
    """The counts of 40 releases about the exact ones."""
    mechanism = create_mechanism("private-effects", {"epsilon": "5"})
    ratings = make_listed(mechanism.task)
    lengths = np.diff(ratings.indptr)[ratings.users]
    exact = np.bincount(ratings.items, 1 / np.sqrt(lengths), ITEMS)
    exports = [export_release(mechanism, ratings) for _ in range(40)]
    errors = np.array([e.arrays["noisy_counts"][0] - exact for e in exports])
    scale = exports[0].release_card["releases"][1]["scale"]
    # 640 draws: a deviation of 20 % is 7 standard deviations.
    assert np.std(errors) == pytest.approx(scale, rel=0.2)


def test_nothing_on_a_card_depends_on_the_ratings(publish):
    """A digest of them would confirm any guess; so a release of the same file cannot be known."""
    first, second = (
        publish(f"{seed}.npz", ratings=make_listed(Task.RATINGS, seed=seed))[1] for seed in (1, 2)
    )
    for card in (first, second):
        del card["sha256"]
        for entry in card["arrays"].values():
            del entry["sha256"]
        # The shape of the factors follows from the noise.
        for name in ("items", "ridge"):
            del card["arrays"][name]["shape"]
    assert first == second


def test_ctrl_c_while_a_release_is_written_leaves_nothing(publish, tmp_path, monkeypatch):
    def write_half(stream, **_):
        stream.write(b"PK half of a file")
        raise KeyboardInterrupt

    monkeypatch.setattr(release.np, "savez_compressed", write_half)
    with pytest.raises(KeyboardInterrupt):
        publish("1.npz")
    assert not list(tmp_path.iterdir())


# The commands


def test_the_commands_state_the_sum_and_print_what_comes_next(dpmc, tmp_path):
    argv = ["release", "restaurants", "private-effects", "--epsilon", 0.3, "--delta", 1e-6]
    paths = [tmp_path / f"{k}.npz" for k in range(4)]
    status, out, err = dpmc(*argv, "--out", paths[0])
    assert (status, err) == (0, "")
    assert f"dpmc verify {paths[0]}\n" in out
    (line,) = (line for line in out.splitlines() if line.endswith("NEXT.npz"))
    _, *words = shlex.split(line)
    words[-1] = str(paths[1])
    status, out, err = dpmc(*words)
    assert (status, err) == (0, "")
    mu = [compute_mu(load_release(path)[0]) for path in paths[:2]]
    total = load_release(paths[1])[0]["after"]["total"]["epsilon"]
    assert total == pytest.approx(gaussian_epsilon(math.hypot(*mu), 1e-6))
    for text in (out, dpmc("verify", paths[1])[1]):
        flat = " ".join(text.split())
        assert "epsilon 0.435, delta 1e-6 per user, for a person who is in all of them" in flat
        assert "cannot know of releases that are not on the card" in flat
    assert f"--after {paths[0]} {paths[1]} --out NEXT.npz" in out
    status, out, err = dpmc(*argv, "--after", paths[1], "--budget", 0.5, "--out", paths[2])
    assert (status, out, paths[2].exists()) == (1, "", False)
    for part in (
        "with 2 earlier ones",
        "epsilon 0.5399 per user at delta 1e-06",
        "the limit of 0.5 (--budget)",
    ):
        assert part in err
    status, out, err = dpmc(*argv, "--after", paths[0], "--out", paths[3])  # 1.npz is not named
    assert status == 0
    assert err.count("is a release that --after does not name") == 1
    assert str(paths[1]) in err


def test_verify_prints_the_digest_of_the_file(dpmc, publish):
    path, _ = publish("1.npz")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert f"SHA-256 of the file: {digest}" in dpmc("verify", path)[1]
    assert json.loads(dpmc("verify", path, "--json")[1])["sha256"] == digest
