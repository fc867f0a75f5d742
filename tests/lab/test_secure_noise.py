"""Exact samplers follow their laws on their grids, and a release holds no more than its card says.

Their randomness is the operating system's: each distribution test raises a false alarm once in a
million runs.
"""

import dataclasses
import json
import math
import sys

import mpmath
import numpy as np
import pytest
from scipy import stats

pytest.importorskip("opendp", reason="needs the extra 'release'")

from dpmc_core import registry
from dpmc_core.errors import CannotRelease
from dpmc_core.mechanisms.per_user import PrivateItemMean
from dpmc_core.model import ArraySpec, Task
from dpmc_core.preparation import parse_step
from dpmc_core.privacy import (
    CELL,
    RATING,
    Gaussian,
    Harmless,
    Laplace,
    ModifiedLaplace,
    NormLaplace,
    Notion,
    Publishes,
    RandomizedResponse,
    SharedLaplace,
    Shares,
    SymbolChannel,
    Trust,
    exact_noise,
    harmless,
    noise,
)
from dpmc_core.privacy.accounting import gaussian_delta
from dpmc_core.privacy.exact_noise import SecureSource
from dpmc_core.problem import prepare_all_ratings
from dpmc_lab.study import release as exporting
from dpmc_lab.study.release import check_releasable, export_release, secure_guarantee, write_release
from tests.release_helpers import ITEMS, USERS, make_ratings
from tests.release_helpers import create_mechanism as parse_mechanism
from tests.slow_helpers import mark_rest_slow
from tests.statistics_helpers import (
    FALSE_ALARM,
    assert_channel,
    assert_frequencies,
    assert_release_noise,
    assert_scale,
)

PRIVATE = [
    id
    for id, cls in sorted(registry.MECHANISMS.items())
    if registry.adds_noise(cls)
]  # fmt: skip
REFUSED = {
    "modified-laplace": "ModifiedLaplace",
    "dpmf": "user factors, fitted on the same ratings",
    "dpmf-clicks": "user factors, fitted on the same clicks",
    **{
        f"dpimf-{variant}": "no finite certified epsilon"
        for variant in ("strawman", "complementary", "symmetric", "optimal", "sampled")
    },
}
RELEASED = [id for id in PRIVATE if id not in REFUSED]


def build_release(kind, shape, scale, **options):
    return kind(query="test", shape=shape, sensitivity={RATING: 1}, scale=scale, **options)


def create_mechanism(id, **settings):
    return registry.create(id, **{"epsilon": 1.0, "delta": 1e-6} | settings)


# The samplers


@pytest.mark.parametrize("scale", [1e-6, 40.0])
@pytest.mark.parametrize("kind", [Laplace, Gaussian])
def test_noise_has_the_law_its_release_states(kind, scale):
    assert_release_noise(build_release(kind, (2, 4), scale), SecureSource(), runs=400)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Laplace, Gaussian])
def test_the_scale_of_exact_noise_is_exact(kind):
    """Planted bug: 3 % short, ten standard deviations and more of 120,000 numbers."""
    built = build_release(kind, (40_000, 3), 2.5)
    assert_scale(built.publish(np.zeros((40_000, 3)), SecureSource()), built)


@pytest.mark.parametrize("kind", [Laplace, Gaussian])
def test_what_is_published_is_what_opendp_answers_and_nothing_else(kind, monkeypatch):
    """Planted bugs: NumPy's noise rounded to the grid; another scale or grid than the card's."""
    queries, answers = [], np.random.default_rng(0).normal(size=12)

    def measurement(noise_model, scale, count, k):
        def answer(values):
            queries.append((noise_model, scale, count, k, values))
            return answers[:count].tolist()

        return answer

    monkeypatch.setattr(exact_noise, "build_measurement", measurement)
    value = np.arange(12.0).reshape(3, 4)
    published = build_release(kind, (3, 4), 2.5).publish(value, SecureSource())
    assert np.array_equal(published, answers.reshape(3, 4))
    noise_model = "laplace" if kind is Laplace else "gaussian"
    assert queries == [
        (noise_model, 2.5, 12, exact_noise.grid_exponent(2.5, 12), value.ravel().tolist())
    ]


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_a_measurement_is_opendps_own_at_the_scale_asked_for(kind):
    """By its map: in the smallest case the privacy of scale 2.5, and by its type."""
    k = exact_noise.grid_exponent(2.5, 1)
    measurement = exact_noise.build_measurement(kind, 2.5, 1, k)
    assert type(measurement).__module__.startswith("opendp.")
    expected = 1 / 2.5 if kind == "laplace" else 0.5 * (1 / 2.5) ** 2
    assert measurement.map(1.0) == pytest.approx(expected, rel=1e-10, abs=0)


@pytest.mark.parametrize("kind", [Laplace, Gaussian])
def test_outputs_lie_on_the_grid_and_textbook_noise_does_not(kind):
    """With five coordinates the grid is coarser than a float's last bits: those of the value, pi,
    would show in at least one of them but for a chance of 2^-30."""
    built = build_release(kind, (5,), 2.0)
    step = 2.0 ** exact_noise.grid_exponent(2.0, 5)
    assert step <= 2.0**-40 * 2.0 / 5
    exact = built.publish(np.full(5, math.pi), SecureSource()) / step
    textbook = built.publish(np.full(5, math.pi), np.random.default_rng(0)) / step
    assert np.array_equal(exact, np.rint(exact))
    assert not np.array_equal(textbook, np.rint(textbook))


def test_long_answers_are_sampled_in_blocks_and_counted_once(monkeypatch):
    monkeypatch.setattr(exact_noise, "_COORDINATES_PER_BLOCK", 7)
    source = SecureSource()
    value = np.linspace(-1e4, 1e4, 30).reshape(5, 6)
    published = build_release(Laplace, (5, 6), 1.0).publish(value, source)
    assert np.abs(published - value).max() < 50  # by chance: 30 e^-50
    assert np.abs(published - value).min() > 0
    assert source.draw_counts == {("laplace", 1.0, 30): 1}


@pytest.mark.parametrize(
    "channel",
    [((0.7, 0.3), (0.3, 0.7)), ((0.9, 0.1), (0.5, 0.5)), ((0.6, 0.3, 0.1), (0.2, 0.2, 0.6))],
)
def test_a_channel_has_the_chances_its_release_states(channel):
    response = RandomizedResponse(
        query="signs", shape=(None,), sensitivity={RATING: 1}, channel=channel
    )
    assert_channel(response, SecureSource())
    wrong = dataclasses.replace(response, channel=((0.5, 0.5), (0.5, 0.5)))
    if len(channel[0]) == 2:
        published = wrong.publish(np.zeros(20_000, dtype=int), SecureSource())
        with pytest.raises(AssertionError):
            assert_frequencies(np.bincount(published, minlength=2), channel[0], FALSE_ALARM)


def build_symbol_channel(epsilon=1.0, d=3, shape=(100, 200)):
    levels = tuple(np.linspace(-1, 1, d).tolist())
    return SymbolChannel.symmetric(
        epsilon, levels, query="rows", shape=shape, sensitivity={CELL: 1}
    )


@pytest.mark.slow
@pytest.mark.parametrize("truth", [0, 1, 3])
def test_missing_and_rated_cells_meet_their_row_of_the_channel(truth):
    from scipy.sparse import csr_array

    channel = build_symbol_channel()
    source = SecureSource()
    out = channel.publish(csr_array(np.full(channel.shape, float(truth))), source)
    counts = np.bincount(out.data.astype(int), minlength=4)
    counts[0] = 20_000 - out.nnz
    assert_frequencies(counts, channel.matrix[truth], FALSE_ALARM)
    by_half = [out[:50].nnz, out[50:].nnz, 20_000 - out.nnz]
    silent = channel.matrix[truth, 0]
    assert_frequencies(by_half, [(1 - silent) / 2, (1 - silent) / 2, silent], FALSE_ALARM)
    assert source.draw_counts == {("channel", 0.0, 1): 20_000}


def test_cells_next_to_rated_ones_keep_their_places():
    """At epsilon 20 nothing changes but for a chance of 2e-7."""
    from scipy.sparse import csr_array

    rows = np.random.default_rng(0).integers(0, 4, (20, 30))
    out = build_symbol_channel(20.0, shape=(20, 30)).publish(
        csr_array(rows.astype(float)), SecureSource()
    )
    assert np.array_equal(out.toarray(), rows)


def test_a_channel_is_sampled_with_exactly_its_integer_chances(monkeypatch):
    """Random words at the ends of the intervals fall on the right side of each."""
    chances = exact_noise.quantise_probabilities(np.array([0.3, 0.6, 0.1]))
    ends = np.cumsum(chances)
    assert int(ends[-1]) == 2**62
    draws = np.array([0, ends[0] - 1, ends[0], ends[1] - 1, ends[1], 2**62 - 1], dtype=np.uint64)
    monkeypatch.setattr(exact_noise.os, "urandom", lambda n: (draws << np.uint64(2)).tobytes()[:n])
    assert exact_noise._sample_categorical(chances, 6).tolist() == [0, 0, 1, 1, 2, 2]


def test_two_sources_never_draw_the_same():
    value = np.zeros(3)
    first, second = (
        build_release(Laplace, (3,), 1.0).publish(value, SecureSource()) for _ in range(2)
    )
    assert not np.intersect1d(first, second).size
    starts = [harmless(SecureSource(), Harmless.START).standard_normal(3) for _ in range(2)]
    assert not np.intersect1d(*starts).size


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: build_release(Laplace, (3,), 1.0)._draw_noise((3,), rng),
        lambda rng: build_release(Gaussian, (3,), 1.0)._draw_noise((3,), rng),
        lambda rng: build_release(NormLaplace, (2, 3), 1.0).publish(np.zeros((2, 3)), rng),
        lambda rng: noise.draw_hits(np.arange(2), 10, 0.5, rng),
        lambda rng: build_release(SharedLaplace, (2, 3), 1.0).draw_mixing(rng),
        lambda rng: noise.draw_gaussian_shares(1.0, np.ones((2, 3)), np.ones(2), rng),
        lambda rng: build_release(SharedLaplace, (1, 3), 1.0, shares=Shares.GAMMA).publish_shares(
            np.zeros((2, 3)), np.zeros(2, dtype=int), None, rng
        ),
        lambda rng: ModifiedLaplace.from_epsilon(
            1.0, query="rows", shape=(4, 5), sensitivity={CELL: 1}
        ).publish(np.ones((4, 5)), rng),
    ],
)
def test_simulated_noise_refuses_a_secure_source(draw):
    with pytest.raises(CannotRelease, match="exact sampler"):
        draw(SecureSource())


# What they certify


@pytest.mark.parametrize("sensitivity", [1e-3, 1.0, 2_000.0])
@pytest.mark.parametrize("count", [1, 7, 3_000_000])
@pytest.mark.parametrize("scale", [0.3, 40.0])
def test_the_rounding_is_counted_and_costs_nearly_nothing(scale, count, sensitivity):
    """Against the formulas: rounding adds N steps to the l1 and sqrt(N) to the l2 sensitivity."""
    step = 2.0 ** exact_noise.grid_exponent(scale, count)
    epsilon = exact_noise.discrete_laplace_epsilon(scale, count, sensitivity)
    expected = (sensitivity + count * step) / scale
    assert epsilon == pytest.approx(expected, rel=4e-16, abs=0)
    mu = exact_noise.discrete_gaussian_mu(scale, count, sensitivity)
    expected = (sensitivity + math.sqrt(count) * step) / scale
    assert mu == pytest.approx(expected, rel=1e-14, abs=0)
    if sensitivity <= 1:  # or a float hardly holds so small a part
        assert epsilon - sensitivity / scale == pytest.approx(count * step / scale, rel=1e-2, abs=0)
    for certified in (epsilon, mu):
        assert sensitivity / scale <= certified <= sensitivity / scale * (1 + 1e-6)
    assert exact_noise.discrete_laplace_epsilon(scale, count, 0.0) == 0


@pytest.mark.parametrize("steps", [8.0, 30.0, 300.0])
@pytest.mark.parametrize("shift", [1, 3, 40])
def test_discrete_gaussian_noise_is_no_worse_than_the_continuous_mechanism_named(steps, shift):
    """delta of the discrete Gaussian, summed over the grid, against the exact Gaussian curve."""
    x = np.arange(-math.ceil(40 * steps), math.ceil(40 * steps) + shift + 1)
    log = -0.5 * (x / steps) ** 2
    log -= np.log(np.exp(log).sum())
    shifted = -0.5 * ((x - shift) / steps) ** 2
    shifted -= np.log(np.exp(shifted).sum())
    mu = exact_noise._continuous_mu(0.5 * (shift / steps) ** 2, steps)
    for epsilon in (0.01, 0.3, 1.0, 3.0):
        delta = np.maximum(np.exp(log) - np.exp(epsilon + shifted), 0.0).sum()
        assert delta <= gaussian_delta(epsilon, mu) + 1e-15
    if steps == 300:
        assert mu <= shift / steps * (1 + 1e-3)


@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 4.0, 19.6, 20.0])
def test_a_channel_certifies_what_is_sampled(epsilon):
    """Rare chances are rounded most, up or down: neither is free."""
    plain = build_symbol_channel(epsilon)
    matrix = plain.matrix
    rows = np.array([exact_noise.quantise_probabilities(row) for row in matrix])
    assert (rows.astype(object).sum(axis=1) == 2**62).all()
    assert np.abs(rows / 2.0**62 - matrix).max() < 1e-15
    assert exact_noise.discrete_channel_epsilon(matrix) == pytest.approx(epsilon, rel=1e-6)
    with mpmath.workdps(40):
        exact = max(mpmath.log(mpmath.mpf(max(c)) / min(c)) for c in rows.T.tolist())
    assert exact <= exact_noise.discrete_channel_epsilon(matrix) <= exact * (1 + 1e-12)
    count = exporting.count_coordinates(plain, 1)
    raised = {
        c: exporting._raise_sensitivity(plain, count, s) for c, s in plain.sensitivity.items()
    }
    after = dataclasses.replace(plain, sensitivity=raised)
    assert after.loss(after.sensitivity[CELL]).epsilon >= exact


def test_a_chance_too_small_to_sample_is_refused():
    with pytest.raises(CannotRelease, match="smaller epsilon"):
        exact_noise.quantise_probabilities(build_symbol_channel(40.0).matrix[0])


@pytest.mark.parametrize("scale", [1e-250, 1e250])
def test_a_scale_at_the_end_of_the_floats_is_a_sentence(scale):
    with pytest.raises(ValueError, match="noise scale that is to be sampled must be"):
        build_release(Laplace, (3,), scale).publish(np.zeros(3), SecureSource())


@pytest.mark.parametrize("id", RELEASED)
def test_every_sensitivity_of_the_secured_card_holds_the_rounding(id):
    """Laplace and Gaussian answers are rounded to their grid, which moves them: by the formulas
    N and sqrt(N) steps. Planted bug: tables as they were."""
    ratings = make_ratings(registry.get_mechanism(id).task)
    plain = create_mechanism(id).guarantee(ratings.public)
    exact = secure_guarantee(plain, len(ratings))
    for (_, before), (_, after) in zip(plain.releases, exact.releases, strict=True):
        for change, s in before.sensitivity.items():
            if isinstance(before, Laplace | Gaussian):
                count = exporting.count_coordinates(before, len(ratings))
                step = 2.0 ** exact_noise.grid_exponent(before.scale, count)
                rounding = count * step if isinstance(before, Laplace) else math.sqrt(count) * step
                assert after.sensitivity[change] - s >= 0.5 * rounding > 0
            else:
                assert after.sensitivity[change] >= s


# What is released


@pytest.mark.parametrize("id", mark_rest_slow(RELEASED, 4))
def test_a_release_holds_what_its_card_publishes_and_no_more(id, tmp_path):
    mechanism = create_mechanism(id)
    ratings = make_ratings(mechanism.task)
    releases = [export_release(mechanism, ratings) for _ in range(2)]
    arrays = [e.arrays for e in releases]
    assert any(not np.array_equal(arrays[0][n], arrays[1][n]) for n in arrays[0])
    guarantee = mechanism.guarantee(ratings.public)
    if guarantee.trust is Trust.LOCAL:
        assert set(arrays[0]) == {"users", "items", "symbols"}
    elif guarantee.publishes is Publishes.MATRIX:
        assert set(arrays[0]) in ({"left", "right"}, {"matrix"})
    elif guarantee.publishes is Publishes.ONE_NUMBER:
        assert set(arrays[0]) == {"number"}
        assert arrays[0]["number"].shape == (1,)
    else:
        assert len(arrays[0]["items"]) == ITEMS
        assert not {"left", "right", "matrix", "users", "user_ids"} & set(arrays[0])
    write_release(releases[0], tmp_path / "found.npz")
    with np.load(tmp_path / "found.npz", allow_pickle=False) as file:
        assert set(file) == {"card", *arrays[0]}
        release_card = json.loads(str(file["card"]))
        assert all(np.array_equal(file[n], arrays[0][n]) for n in arrays[0])
    assert set(release_card) == {
        "mechanism", "revision", "task", "data", "settings", "guarantee", "releases",
        "randomness", "arrays", "date", "versions", "catalogue", "rows", "predictions", "sha256",
    }  # fmt: skip
    assert set(release_card["data"]) == {"users", "items", "low", "high", "cap", "prepare"}
    assert not {"seed", "metrics", "fingerprint", "trace"} & set(list_keys(release_card))
    certified = release_card["guarantee"]["certified"]["epsilon"]
    assert certified >= guarantee.certified().epsilon
    assert certified == pytest.approx(guarantee.certified().epsilon, rel=1e-3)
    pure = sum(line.get("epsilon", 0.0) for line in release_card["releases"])
    if guarantee.notion is Notion.PURE:
        assert pure == pytest.approx(certified)


def list_keys(value):
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, child in items:
        yield key
        if isinstance(child, dict | list):
            yield from list_keys(child)


class Deaf(SecureSource):
    """Answers every question with the same numbers, whatever the value is."""

    def __init__(self):
        super().__init__()
        self._plain = np.random.default_rng(0)

    def add_noise(self, kind, value, scale):
        self.draw_counts[kind, scale, value.size] += 1
        rng = np.random.default_rng([value.size, sum(self.draw_counts.values())])
        return scale * rng.normal(size=value.shape)

    def pass_channel(self, matrix, symbols):  # noqa: ARG002
        self.draw_counts["channel", 0.0, 1] += symbols.size
        return np.ones_like(symbols)


def capture_release(id, monkeypatch, ratings):
    monkeypatch.setattr(exact_noise, "SecureSource", Deaf)
    exported = export_release(create_mechanism(id), ratings)
    return exported.arrays


@pytest.mark.parametrize("id", mark_rest_slow(RELEASED, 4))
def test_nothing_written_depends_on_ratings_but_through_the_noise(id, monkeypatch):
    """With deaf noise, other ratings give the same file: their values change where only those are
    protected, the whole matrix changes elsewhere."""
    mechanism = create_mechanism(id)
    change = mechanism.guarantee(make_ratings(mechanism.task).public).change
    second = {"seed": 8, "pattern": 7 if change is RATING else 8}
    first = capture_release(id, monkeypatch, make_ratings(mechanism.task))
    two = capture_release(id, monkeypatch, make_ratings(mechanism.task, **second))
    assert set(first) == set(two)
    for name, array in first.items():
        np.testing.assert_allclose(array, two[name], rtol=1e-9, atol=1e-9, err_msg=name)


def test_that_check_sees_user_factors(monkeypatch):
    monkeypatch.setattr(
        exporting, "_extract_model_arrays", lambda _m, _g, model: {"left": model.factors.left}
    )
    with pytest.raises(CannotRelease, match=r"arrays\.left .*does not belong"):
        capture_release("private-svd", monkeypatch, make_ratings(Task.RATINGS))
    specs = {"left": ArraySpec((USERS, "r"))}
    monkeypatch.setattr(exporting, "specify_arrays", lambda *_: (specs, ""))
    first, second = (
        capture_release("private-svd", monkeypatch, make_ratings(Task.RATINGS, pattern=p))
        for p in (7, 8)
    )
    assert not np.allclose(first["left"], second["left"])


@pytest.mark.parametrize("id", REFUSED)
def test_what_cannot_be_released_says_why(id):
    mechanism = create_mechanism(id)
    with pytest.raises(CannotRelease, match=REFUSED[id]):
        export_release(mechanism, make_ratings(mechanism.task))


@pytest.mark.parametrize("id", sorted(set(registry.MECHANISMS) - set(PRIVATE)))
def test_a_method_without_privacy_is_never_released(id):
    mechanism = registry.create(id)
    with pytest.raises(CannotRelease, match="no finite certified epsilon"):
        export_release(mechanism, make_ratings(mechanism.task))


def test_settings_decide_whether_it_can_be_released():
    signs, stars = make_ratings(Task.BINARY), make_ratings(Task.RATINGS)
    public_factors = {"user_factors": "random:1"}
    probit = {"link": "probit", "bound": "1.0", "estimator": "published"}
    for id, settings, ratings, reason in (
        ("objective", probit, signs, "probit loss"),
        ("input-flip", {"p_plus": "1.0", "p_minus": "0.5"}, signs, "reveal their input"),
        ("dpmf", public_factors, stars, "NormLaplace"),
        ("svd-after-cleansing", {"predictor": "neighbours"}, stars, "no factors"),
    ):
        with pytest.raises(CannotRelease, match=reason):
            export_release(parse_mechanism(id, settings), ratings)
    by_coordinate = parse_mechanism("dpmf", {"noise": "coordinate"} | public_factors)
    assert set(export_release(by_coordinate, stars).arrays) == {"items"}


def test_too_many_draws_are_refused_before_any(monkeypatch):
    monkeypatch.setattr(exporting, "MAX_DRAWS", 100)
    with pytest.raises(CannotRelease, match="at most 100 are drawn"):
        export_release(create_mechanism("output"), make_ratings(Task.BINARY))
    monkeypatch.setattr(exporting, "_MAX_CHANNEL_CELLS", 100)
    with pytest.raises(CannotRelease, match="at most 100 are drawn"):
        export_release(create_mechanism("randomised-response"), make_ratings(Task.RATINGS))


class AsksTwice(PrivateItemMean):
    def fit(self, ratings, rng):
        list(super().fit(ratings, rng))
        yield from super().fit(ratings, rng)


def test_more_answers_than_the_card_counts_are_never_written(monkeypatch):
    mechanisms = {**registry.MECHANISMS, AsksTwice.id: AsksTwice}
    monkeypatch.setattr(registry.MECHANISMS, "_classes", mechanisms)
    with pytest.raises(CannotRelease, match="other noise than its card counts"):
        export_release(AsksTwice(epsilon=1.0), make_ratings(Task.RATINGS))


@pytest.mark.parametrize(
    ("id", "step", "refused"),
    [
        ("input-flip", "binarise=mean", True),
        ("input-flip", "binarise=middle", False),
        ("input-flip", "binarise=3.5", False),
        ("private-item-mean", "top-items=10", True),
        ("private-item-mean", "cap=5", False),  # a cap keeps a row one row
        ("randomised-response", "cap=5", True),
        ("dplcf", "implicit=all", False),
    ],
)
def test_preparation_that_reads_the_ratings_is_refused(id, step, refused):
    mechanism = create_mechanism(id)
    ratings, steps = prepare_all_ratings(
        make_ratings(Task.RATINGS), mechanism.task, [parse_step(step)]
    )
    assert steps == (step,)
    if refused:
        with pytest.raises(CannotRelease, match="no noise covers"):
            check_releasable(mechanism, ratings, steps)
    else:
        check_releasable(mechanism, ratings, steps)


# The command


@pytest.fixture
def stars(tmp_path):
    ratings = make_ratings(Task.RATINGS)
    rows = zip(ratings.users, ratings.items, ratings.values, strict=True)
    path = tmp_path / "stars.tsv"
    lines = (f"{u + 1}\t{i + 1}\t{v:g}\t{880000000 + u}\n" for u, i, v in rows)
    path.write_text("".join(["user\titem\trating\ttime\n", *lines]))
    return path


def test_the_command_writes_a_file_and_says_what_it_holds(dpmc, stars, tmp_path):
    out = tmp_path / "found.npz"
    argv = ("release", stars, "private-item-mean", "--epsilon", 1, "--range", "1:5")
    argv += ("--catalogue", "from-data")
    status, text, err = dpmc(*argv, "--out", out)
    assert (status, err) == (0, "")
    flat = " ".join(text.split())
    for expected in (f"Wrote {out}", "items 16 x 4", "proved epsilon 1", "not covered"):
        assert expected in flat
    assert "rmse" not in text
    assert sorted(p.name for p in tmp_path.iterdir()) == ["found.npz", "stars.tsv"]
    status, text, _ = dpmc(*argv, "--json", "--out", tmp_path / "again.npz")
    printed = json.loads(text)
    with np.load(tmp_path / "again.npz") as file:
        assert json.loads(str(file["card"])) == printed


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("private-item-mean --epsilon 1 --out found.pkl", "a file named .npz"),
        ("private-item-mean --epsilon 1 --out no/found.npz", "there is no folder"),
        ("private-item-mean --epsilon 1 --out stars.npz", "is there already"),
    ],
)
def test_a_mistake_gets_one_sentence_and_no_file(dpmc, stars, options, sentence, monkeypatch):
    monkeypatch.chdir(stars.parent)
    (stars.parent / "stars.npz").touch()
    before = sorted(stars.parent.iterdir())
    out = [] if "--out" in options else ["--out", "found.npz"]
    status, text, err = dpmc("release", stars, *options.split(), "--range", "1:5", *out)
    assert (status, text) == (1, "")
    assert err.startswith("dpmc: ")
    assert sentence in err
    assert sorted(stars.parent.iterdir()) == before


@pytest.mark.parametrize("argv", [[], ["--seed", "1", "--out", "a.npz"]])
def test_there_is_no_release_without_a_file_or_with_a_seed(dpmc, argv):
    status, out, err = dpmc("release", "jokes", "private-item-mean", "--epsilon", "1", *argv)
    assert (status, out) == (2, "")
    assert "usage: dpmc" in err


def test_without_the_package_a_sentence_says_how_to_get_it(dpmc, stars, monkeypatch):
    exact_noise.load_opendp.cache_clear()
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    out = stars.parent / "found.npz"
    argv = ("release", stars, "private-item-mean", "--epsilon", 1, "--range", "1:5", "--out", out)
    status, text, err = dpmc(*argv, "--catalogue", "from-data")
    assert (status, text) == (1, "")
    assert "pip install" in err
    assert "dpmc-lab[release]" in err
    assert not out.exists()


@pytest.mark.slow
def test_the_samplers_agree_with_the_laws_far_out():
    """The tails, where a sampler that is cut off would not show in a Kolmogorov-Smirnov test."""
    draws = build_release(Laplace, (20_000,), 1.0).publish(np.zeros(20_000), SecureSource())
    n_far = int((np.abs(draws) > 5).sum())
    assert_frequencies([n_far, 20_000 - n_far], [math.exp(-5), 1 - math.exp(-5)])
    draws = build_release(Gaussian, (20_000,), 1.0).publish(np.zeros(20_000), SecureSource())
    chance = 2 * stats.norm.sf(3)
    n_far = int((np.abs(draws) > 3).sum())
    assert_frequencies([n_far, 20_000 - n_far], [chance, 1 - chance])
