"""Every random choice that privacy rests on is a release or drawn by one.

A secure source refuses plain draws; what is harmless says so by name. The coins of a sampled sum
are a release's own, and what they certify is checked against the exact densities of small cases.
Distribution tests raise a false alarm once in a million runs.
"""

import itertools
import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from scipy.sparse import csr_array

from dpmc_core import privacy, registry
from dpmc_core.errors import CannotRelease, InvalidSetting
from dpmc_core.mechanisms.dpimf import Dpimf
from dpmc_core.model import Estimator, Task
from dpmc_core.privacy import (
    CELL,
    USER_EMPTIED,
    Harmless,
    SampledLaplace,
    Sums,
    exact_noise,
    harmless,
    noise,
    sampled,
)
from dpmc_core.privacy.exact_noise import SecureSource
from dpmc_core.privacy.sampled import amplified_losses, importance_weights
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.settings import parse_setting
from dpmc_core.solvers.factorization import binary_matrix
from dpmc_lab.study.release import (
    ADDITIVE,
    CHANNELS,
    check_releasable,
    export_release,
    secure_guarantee,
)
from tests.ratings_helpers import clicks
from tests.replay import record_fit, replay_run
from tests.statistics_helpers import assert_frequencies
from tests.user_level_helpers import (
    COLLECTED,
    RANKING,
    VARIANTS,
    build_ratings,
    create_mechanism,
    make_rows,
)

DRAWS = {
    name
    for name in dir(np.random.Generator)
    if not name.startswith("_") and callable(getattr(np.random.Generator, name))
}
USERS, ITEMS = 24, 16

needs_opendp = pytest.mark.skipif(
    not __import__("importlib.util").util.find_spec("opendp"), reason="needs the extra 'release'"
)


# Plain draws are refused, harmless ones named


@needs_opendp
@pytest.mark.parametrize("draw", sorted(DRAWS))
def test_a_secure_source_refuses_every_plain_draw(draw):
    with pytest.raises(CannotRelease, match=f"'{draw}' has no exact sampler"):
        getattr(SecureSource(), draw)()


@needs_opendp
def test_a_harmless_choice_is_drawn_apart_and_counted():
    seeded = np.random.default_rng(0)
    assert harmless(seeded, Harmless.START) is seeded
    source = SecureSource()
    plain = harmless(source, Harmless.CAP)
    assert type(plain) is np.random.Generator
    assert 0 <= plain.random() < 1
    assert source.harmless_counts == {Harmless.CAP: 1}
    assert not source.draw_counts


def list_one_bit_cases():
    probit = parse_setting(registry.get_mechanism("objective"), "link", "probit")
    cases = [("objective", {"link": probit, "bound": 1.0, "estimator": Estimator.PUBLISHED})]
    for id, cls in sorted(registry.MECHANISMS.items()):
        if registry.adds_noise(cls) and cls.task is Task.BINARY:
            cases.append((id, {}))
            if "estimator" in cls.__dataclass_fields__:
                cases.append((id, {"estimator": Estimator.PUBLISHED}))
    return cases


def draw_signs(seed=0):
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((USERS, ITEMS)) < 0.6)
    values = np.where(np.random.default_rng(seed).random(len(users)) < 0.5, 1.0, -1.0)
    public = PublicFacts(users=USERS, items=ITEMS, low=-1, high=1)
    return Ratings.build(users, items, values, public)


def draw_clicks(seed=0):
    return clicks(np.random.default_rng(seed).random((USERS, ITEMS)) < 0.5)


EXACT = [  # at epsilon 50 a flip is too rare to be sampled
    (id, settings)
    for id, settings in [*VARIANTS, *RANKING, *COLLECTED, *list_one_bit_cases()]
    if settings.get("epsilon") != 50.0
]


@pytest.mark.slow
@needs_opendp
@pytest.mark.parametrize(("id", "settings"), EXACT, ids=str)
def test_with_a_secure_source_no_fit_draws_plainly_and_only_whole_users_are_capped(id, settings):
    create = (
        create_mechanism if (id, settings) in VARIANTS else partial(registry.create, epsilon=2.0)
    )
    mechanism = create(id, **settings)
    drawn = {Task.BINARY: draw_signs, Task.RANKING: draw_clicks}
    ratings = drawn.get(mechanism.task, lambda: build_ratings(make_rows()))()
    guarantee, source = mechanism.guarantee(ratings.public), SecureSource()
    if any(type(release) not in (*ADDITIVE, *CHANNELS) for _, release in guarantee.releases):
        pytest.skip("has no exact sampler")
    steps = list(mechanism.fit(ratings, source))
    assert steps[-1].model is not None
    assert source.draw_counts
    if source.harmless_counts[Harmless.CAP]:
        assert guarantee.change.per_user


# Coins


@pytest.mark.parametrize("seed", range(3))
def test_a_coins_chance_is_never_above_one_over_its_weight(seed):
    rng = np.random.default_rng(seed)
    ends = [1.0, np.nextafter(1.0, 2.0), 2.0, 3.0, 2.0**62, 1e19, 1e300, math.inf]
    drawn = 1 + rng.exponential(size=500), np.exp(rng.uniform(0, 43, 500))
    weights = np.concatenate([ends, *drawn])
    quantised = exact_noise.quantise_inclusions(weights)
    assert int(quantised[0]) == 2**62  # always drawn
    assert int(quantised[7]) == 0  # never
    assert len(quantised) == len(weights)
    for w, k in zip(np.delete(weights, [0, 7]), np.delete(quantised, [0, 7]), strict=True):
        chance, expected = Fraction(int(k), 2**62), 1 / Fraction(float(w))
        assert chance < expected
        assert expected - chance <= expected * Fraction(2) ** -39 + Fraction(1, 2**62)
    with pytest.raises(InvalidSetting, match="weight of a sampled term must be >= 1"):
        exact_noise.quantise_inclusions(np.array([0.5]))


@needs_opendp
def test_coins_are_the_operating_systems_and_counted(monkeypatch):
    weights = np.array([1.0, 2.0, 2.0, 4.0, math.inf])
    limits = exact_noise.quantise_inclusions(weights)
    draws = np.array([2**62 - 1, limits[1] - 1, limits[2], 0, 0], dtype=np.uint64)
    monkeypatch.setattr(exact_noise.os, "urandom", lambda n: (draws << np.uint64(2)).tobytes()[:n])
    source = SecureSource()
    assert noise.flip_coins(weights, source).tolist() == [True, True, False, True, False]
    assert source.draw_counts == {("coin", 0.0, 1): 5}
    assert not source.harmless_counts


@needs_opendp
def test_coins_fall_with_the_chance_of_their_weight():
    for w in (1.25, 3.0, 20.0):
        for rng in (SecureSource(), np.random.default_rng(0)):
            heads = int(noise.flip_coins(np.full(20_000, w), rng).sum())
            assert_frequencies([heads, 20_000 - heads], [1 / w, 1 - 1 / w])


# What a sampled sum certifies


def build_sampled_laplace(*, scale=0.5, longest=0.6, budget=1.2, shape=(1, 1), terms=1, **options):
    return SampledLaplace(
        query="sums",
        shape=shape,
        sensitivity={CELL: terms * longest},
        scale=scale,
        longest=longest,
        budget=budget,
        **options,
    )


def compute_density(release, rows, terms, outputs):
    """Compute the density of the released sums at some outputs by enumeration of all coins."""
    weights = release.weights(np.abs(terms).sum(axis=1))
    cells = np.argwhere(rows)
    chances = np.array([1 / weights[k] for _, k in cells])
    densities = np.zeros(len(outputs))
    for coins in itertools.product([0, 1], repeat=len(cells)):
        chance = np.prod(np.where(coins, chances, 1 - chances))
        if chance == 0:
            continue
        counted = np.zeros(rows.shape)
        for coin, (j, k) in zip(coins, cells, strict=True):
            counted[j, k] = weights[k] if coin else 0.0
        size = np.abs(outputs - counted @ terms).sum(axis=(1, 2)) / release.scale
        densities += chance * np.exp(-size)
    return densities  # times one constant for every data set


def compute_losses(release, first, second, terms, outputs):
    """Compute ln of the likelihood ratio, with outputs in every sign."""
    densities = (compute_density(release, rows, terms, outputs) for rows in (first, second))
    return np.log(next(densities) / next(densities))


def build_output_grid(count, rows, d, reach=60.0):
    """Build a grid of outputs that reaches far out in each coordinate, where ratios are worst."""
    axis = np.concatenate([[-reach], np.linspace(-4, 4, count), [reach]])
    grid = np.array(list(itertools.product(axis, repeat=rows * d)))
    return grid.reshape(-1, rows, d)


LENGTHS = {
    "some are sampled": [0.6, 0.25, 0.02],
    "all are counted once": [0.6, 0.6, 0.6],
    "one is nothing": [0.6, 0.3, 0.0],
    "one is never drawn": [0.6, 1e-310, 0.1],
}


@pytest.mark.parametrize("kind", LENGTHS)
def test_no_cell_that_comes_or_goes_spends_more_than_the_record_says(kind):
    """The exact likelihood ratios of 'draw, weigh, add Laplace', for every data set of one item and
    three users, every cell of it, in both directions; and the most is reached."""
    release = build_sampled_laplace()
    terms = np.array(LENGTHS[kind])[:, None] * np.array([1.0, -1.0, 1.0])[:, None]
    allowed, max_loss = release.loss(release.sensitivity[CELL]).epsilon, 0.0
    assert allowed == pytest.approx(1.2)
    outputs = build_output_grid(161, 1, 1)
    for before in itertools.product([0, 1], repeat=3):
        for cell in range(3):
            after = np.array(before)
            after[cell] = 1 - after[cell]
            loss = compute_losses(release, np.array([before]), after[None], terms, outputs)
            max_loss = max(max_loss, np.abs(loss).max())
            assert np.abs(loss).max() <= allowed * (1 + 1e-9)
    assert max_loss >= 0.999 * allowed


def test_a_row_of_several_cells_adds_up():
    """Two items, one user who has both or neither: the record's loss of two terms, reached."""
    release = build_sampled_laplace(shape=(2, 1))
    outputs = build_output_grid(21, 2, 1)
    terms = np.array([[0.3], [0.6]])
    neither = np.array([[0, 1], [0, 0]])
    rows = np.array([[1, 1], [1, 0]])
    loss = np.abs(compute_losses(release, rows, neither, terms, outputs)).max()
    two = release.loss(2 * release.longest).epsilon
    assert 0.999 * two <= loss <= two * (1 + 1e-9)


def test_two_terms_of_one_row_tell_more_than_two_answers():
    """Always counted, they move one number by twice their length: its exact law is known."""
    release = build_sampled_laplace(scale=0.5, longest=0.6, budget=1.2, terms=2)
    spent = release.loss(2 * release.longest)
    for epsilon in np.linspace(0, 2.4, 13)[:-1]:
        exact = -math.expm1((epsilon - 2 * release.longest / release.scale) / 2)
        assert spent.delta_at(float(epsilon)) >= exact


@pytest.mark.parametrize("budget", [0.3, 1.2, 5.0])
@pytest.mark.parametrize("scale", [0.05, 0.5, 40.0])
def test_the_record_computes_its_loss_from_scale_length_and_budget(scale, budget):
    """The most over lengths; never a number that the mechanism hands over."""
    release = build_sampled_laplace(scale=scale, budget=budget, times=3)
    lengths = np.linspace(0, release.longest, 400)
    a, w = lengths / scale, release.weights(lengths)
    worst = float(amplified_losses(a, w).max())
    assert release.term_epsilon == pytest.approx(worst, rel=1e-12)
    assert release.term_epsilon == pytest.approx(max(release.longest / scale, budget), rel=1e-12)
    assert release.loss(release.longest).epsilon == pytest.approx(3 * worst)
    assert release.loss(4 * release.longest).epsilon == pytest.approx(12 * worst)


def test_losses_at_the_ends_of_weights_and_lengths():
    losses, weights = [0.7, 0.0, 1e-310, 0.0, 800.0, 1e-9], [1, 1, math.inf, 9, 2, 1e9]
    with np.errstate(all="raise", under="ignore"):
        computed = amplified_losses(losses, weights)
    assert computed[:4].tolist() == pytest.approx([0.7, 0.0, 0.0, 0.0])
    assert computed[4] == pytest.approx(1600 - math.log(2))
    assert computed[5] == pytest.approx(math.expm1(1.0) * 1e-9, rel=1e-12)  # no digits are lost


def test_a_bound_that_is_no_whole_number_of_terms_is_refused():
    """Half the length is no half of the loss: a shorter term is counted more often."""
    for terms in (0.5, 1.5, 1e-6):
        with pytest.raises(InvalidSetting, match=r"must be a multiple of 0\.6"):
            build_sampled_laplace(terms=terms)
    for terms in (0, 1, 7):
        build_sampled_laplace(terms=terms)


def halve_losses(losses, epsilon):
    """Compute weights with the planted fault: losses without their factor 2."""
    return importance_weights(np.asarray(losses) / 2, epsilon)


def test_weights_that_let_a_term_spend_more_are_refused_or_stand_on_the_card(monkeypatch):
    release, rng = build_sampled_laplace(), np.random.default_rng(0)
    rows, terms = csr_array(np.ones((1, 2))), np.array([[0.3], [0.6]])
    release.publish(Sums(rows, terms), rng)
    with pytest.raises(InvalidSetting, match="length of a term of 'sums'"):
        release.publish(Sums(rows, 2 * terms), rng)
    with monkeypatch.context() as fault:
        wrong = lambda self, s: halve_losses(s / self.scale, self.budget)  # noqa: E731
        fault.setattr(SampledLaplace, "weights", wrong)
        with pytest.raises(InvalidSetting, match="length of a term of 'sums'"):
            release.publish(Sums(rows, terms), rng)
    monkeypatch.setattr(sampled, "importance_weights", halve_losses)
    sampled._largest_loss.cache_clear()
    try:
        assert release.term_epsilon > 1.5 > 1.2
    finally:
        sampled._largest_loss.cache_clear()


def record_weights(mechanism, ratings, monkeypatch):
    """Return the weights with which a mechanism tosses coins first, and its fixed factors."""
    inclusion_weights = []

    def coins(weights, rng):
        inclusion_weights.append(weights)
        return honest(weights, rng)

    honest = noise.flip_coins
    monkeypatch.setattr(noise, "flip_coins", coins)
    publications = record_fit(mechanism, ratings, 5)
    return inclusion_weights[0], publications[0]


def test_the_mechanism_weighs_each_cell_by_twice_its_factor(monkeypatch):
    """The loss of a cell at weight 1 is 2 ||p||_1 / scale; without the 2 weights are too large,
    and a cell then spends more than epsilon."""
    mechanism = registry.create("dpimf-sampled", epsilon=0.9, rounds=1, rank=3, clip=0.1)
    assert isinstance(mechanism, Dpimf)
    ratings = draw_clicks()
    weights, publications = record_weights(mechanism, ratings, monkeypatch)
    start = np.random.default_rng(5).random((USERS, 3))
    factors = mechanism.clip_factors(start)
    columns = binary_matrix(ratings).T.tocsr()
    assert np.allclose(publications.private, 2 * (columns @ factors), rtol=1e-12)
    a = (2 * np.abs(factors).sum(axis=1) / publications.release.scale)[columns.indices]
    assert (weights > 1).any()
    assert (weights == 1).any()
    spent = amplified_losses(a, weights)
    assert spent == pytest.approx(np.full(len(spent), 0.9), rel=1e-9)
    guarantee = mechanism.guarantee(ratings.public)
    assert guarantee.certified(CELL).epsilon == pytest.approx(0.9)
    assert guarantee.certified(USER_EMPTIED).epsilon == pytest.approx(0.9 * ITEMS)


# A release of it


@needs_opendp
def test_an_exact_release_tosses_the_coins_it_counts():
    mechanism = registry.create("dpimf-sampled", epsilon=1.0, rounds=1)
    ratings = draw_clicks()
    check_releasable(mechanism, ratings)
    source = SecureSource()
    list(mechanism.fit(ratings, source))
    scale = mechanism.guarantee(ratings.public).releases.first.scale
    assert source.draw_counts == {("coin", 0.0, 1): len(ratings), ("laplace", scale, ITEMS * 8): 1}
    assert source.harmless_counts == {Harmless.START: 1}
    exported = export_release(mechanism, ratings)
    (line,) = exported.release_card["releases"]
    assert line["coins"] == "chances 1/weight, rounded down to multiples of 2^-62"
    assert line["budget"] == 1.0
    assert 16.0 < line["epsilon"] < 16.0 * (1 + 1e-9)


@needs_opendp
@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 8.0])
def test_the_rounding_of_a_sampled_sum_is_counted(epsilon):
    """N coordinates are rounded by a step at most: e^{aw} grows by e^{N step / scale}."""
    mechanism = registry.create("dpimf-sampled", epsilon=epsilon, rounds=1)
    public = draw_clicks().public
    plain = mechanism.guarantee(public)
    exact = secure_guarantee(plain, 100)
    scale, count = plain.releases.first.scale, ITEMS * 8
    rounding = count * 2.0 ** exact_noise.grid_exponent(scale, count) / scale
    before, after = (guarantee.certified(CELL).epsilon for guarantee in (plain, exact))
    assert before + rounding <= after <= before + 1.1 * rounding
    cells = exact.certified(USER_EMPTIED).epsilon
    assert cells == pytest.approx(ITEMS * after, rel=1e-12)


# Traces, and choices between releases


def replay_answers(mechanism, ratings, other_ratings, seed=0):
    """Return the steps on two data sets, the second answered as the first was, and the releases."""
    runs, releases, answers = [], [], None
    for data in (ratings, other_ratings):
        with privacy.record_publications(replayed=answers) as publications:
            runs.append(list(mechanism.fit(data, np.random.default_rng(seed))))
        answers = answers or publications
        releases.append([p.release for p in publications])
    return *runs, *releases


SIGN_SETTINGS = {
    "gradient": {"rounds": 6, "epsilon": 60.0, "estimator": Estimator.PUBLISHED},
    "output": {"radius": 3.0, "tolerance": 1e-6},
}


@pytest.mark.parametrize(("id", "settings"), list_one_bit_cases(), ids=str)
def test_what_a_trace_of_signs_does_not_mark_as_raw_follows_from_the_answers(id, settings):
    mechanism = registry.create(id, **{"epsilon": 2.0} | SIGN_SETTINGS.get(id, {}) | settings)
    first, second, _, _ = replay_answers(mechanism, draw_signs(1), draw_signs(2))
    raw = set()
    pairs = zip(first, second, strict=False)  # how many rounds output takes tells of raw signs, too
    for publication, other in pairs:
        assert publication.raw == other.raw
        for name, value in publication.trace.items():
            if name in publication.raw:
                raw |= {name} if value != other.trace[name] else set()
            else:
                assert value == other.trace[name], name
    assert raw or not first[-1].raw  # the data sets do differ, where a trace may show it


CROWD = (300, 12)
FULL, FAINT = np.ones(CROWD), np.zeros(CROWD)
FAINT[0, 0] = FAINT[1, 1] = 1


@pytest.mark.parametrize("id", ["private-taste", "private-popularity", "dplcf", "ldpicf"])
@pytest.mark.parametrize(
    ("first_clicks", "second_clicks"), [(FULL, FAINT), (FAINT, FULL)], ids=["full", "faint"]
)
@pytest.mark.parametrize("epsilon", [1.0, 200.0])
def test_what_is_asked_next_follows_from_answers_and_not_from_raw_counts(
    id, first_clicks, second_clicks, epsilon
):
    """Everybody has everything, or nobody has anything: given the same answers, the same questions
    are asked in the same order, and items learn the same."""
    mechanism = registry.create(id, epsilon=epsilon)
    first, second, queries, repeated_queries = replay_answers(
        mechanism, clicks(first_clicks), clicks(second_clicks)
    )
    assert len(first) == len(second)
    assert queries == repeated_queries
    traces = [
        [{k: v for k, v in step.trace.items() if k not in step.raw} for step in steps]
        for steps in (first, second)
    ]
    assert traces[0] == traces[1]
    if id in {"private-taste", "private-popularity"}:
        right = [step.model.factors.right for step in (first[-1], second[-1])]
        assert np.array_equal(*right)


def test_features_of_the_first_round_hold_no_raw_count():
    """Two crowds with a taste each, so that even random features tell of it: one user's row turns,
    the answers stay, and nobody else's predictions move in any round."""
    likes = np.arange(100)[:, None] % 2 == np.arange(12) % 2
    clicks_matrix = np.random.default_rng(0).random(likes.shape) < np.where(likes, 0.8, 0.05)
    changed_clicks = clicks_matrix.copy()
    changed_clicks[4] = ~changed_clicks[4]
    mechanism = registry.create("private-taste", epsilon=1e4, rank=3)
    first, second = replay_run(mechanism, clicks(clicks_matrix), clicks(changed_clicks), 4)
    assert first.public_traces[0]["taste that is heard"] > 0.5
    for a, b in zip(first.other_predictions, second.other_predictions, strict=True):
        assert np.array_equal(a, b)


def test_two_coordinates_count_by_their_sum():
    release = build_sampled_laplace(shape=(1, 2))
    terms = np.array([[0.2, -0.1], [0.35, 0.25]])
    first, second = np.array([[1, 1]]), np.array([[0, 1]])
    loss = np.abs(compute_losses(release, first, second, terms, build_output_grid(31, 1, 2))).max()
    assert 0.999 * release.term_epsilon <= loss <= release.term_epsilon * (1 + 1e-9)
