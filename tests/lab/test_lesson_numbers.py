"""All numbers of the lessons and of their answer key, computed here a second time.

By formulas in plain Python and many-digit arithmetic, from the shipped curves' files and from two
fitted matrices; nothing of what writes or draws them is used. A number in a text must be right to
its last digit, and the numbers of a picture as far as floats go.
"""

import csv
import html
import json
import math
import re
from collections import defaultdict
from functools import cache
from itertools import accumulate
from pathlib import Path
from statistics import mean, stdev

import mpmath
import numpy as np
import pytest
from scipy.stats import binom, t

from dpmc_core.mechanisms.one_bit import Output
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_lab import lessons
from dpmc_lab.audit.probe import record_history
from dpmc_lab.classroom.pictures import CurvePlot, IntervalPlot, OutcomeBars, PeopleDots
from dpmc_lab.classroom.room import Poll, build_phone_channel
from dpmc_lab.lessons import LESSONS, worksheets
from tests.lesson_helpers import list_settings

ROOT = Path(__file__).resolve().parents[2]
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?")
STOPS = (0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0)
PEOPLE = (30, 100, 300, 1000, 3000, 10_000)
PRIORS = tuple(k / 20 for k in range(1, 20))
CELLS, FILM_CELLS, BOUND = 40 * 400, 943 * 1682, 0.1
# A lie's chance is rounded up to a multiple of 2^-32, and digits are cut where it says so.
FLOATS = {"rel": 1e-6, "abs": 1e-8}


# --- the coin ------------------------------------------------------------------------------------


def lie(epsilon):
    return float(1 / (1 + mpmath.exp(epsilon)))


def compute_report_pmfs(epsilon, times):
    """Return the chances of k yes among the reports of one who would say yes, and no."""
    f = lie(epsilon)
    yes = [math.comb(times, k) * (1 - f) ** k * f ** (times - k) for k in range(times + 1)]
    return yes, yes[::-1]


def compute_success(epsilon, times=1, before=0.5):
    pairs = zip(*compute_report_pmfs(epsilon, times), strict=True)
    return sum(max(before * y, (1 - before) * n) for y, n in pairs)


def compute_certainty(before, epsilon, answer="yes"):
    odds = before / (1 - before) * math.exp(epsilon if answer == "yes" else -epsilon)
    return odds / (1 + odds)


def format_odds(share):
    ratio = share / (1 - share)
    return [ratio, 1] if ratio >= 1 - 1e-12 else [1, 1 / ratio]


# --- intervals -----------------------------------------------------------------------------------


def tail(yes, reports, share):
    """Return the chance of so many yes and more."""
    if not 0 < share < 1:
        return float(share == 1 or yes == 0)
    terms = []
    for k in range(yes, reports + 1):
        ways = math.lgamma(reports + 1) - math.lgamma(k + 1) - math.lgamma(reports - k + 1)
        terms.append(math.exp(ways + k * math.log(share) + (reports - k) * math.log1p(-share)))
    return math.fsum(terms)


@cache
def clopper_pearson(yes, reports):
    ends = []
    for count, chance in ((yes, 0.025), (yes + 1, 0.975)):
        low, high = 0.0, 1.0
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if tail(count, reports, middle) < chance else (low, middle)
        ends.append(low)
    return 0.0 if yes == 0 else ends[0], 1.0 if yes == reports else ends[1]


def unflip_share(share, f):
    return (share - f) / (1 - 2 * f)


def estimate_population(yes, reports, f):
    """Return the interval of the share among people like these."""
    ends = (unflip_share(end, f) for end in clopper_pearson(yes, reports))
    return tuple(min(max(end, 0.0), 1.0) for end in ends)


@cache
def estimate_class(yes, reports, f):
    """Return the numbers of true yes under which neither so many nor so few are unlikely."""
    fit = []
    for true in range(reports + 1):
        pmf = [1.0]
        for k in range(reports):
            chance = 1 - f if k < true else f
            stay, rise = ([p * c for p in pmf] for c in (1 - chance, chance))
            pmf = [a + b for a, b in zip([*stay, 0.0], [0.0, *rise], strict=True)]
        if sum(pmf[yes:]) > 0.025 and sum(pmf[: yes + 1]) > 0.025:
            fit.append(true / reports)
    return min(fit), max(fit)


@cache
def compute_half_width(people, f):
    low, high = estimate_population(people // 2, people, f)
    return (high - low) / 2


# --- film ratings --------------------------------------------------------------------------------


@cache
def read_scores(file, metric):
    """Return each seed's score by mechanism and epsilon."""
    by_mechanism = defaultdict(list)
    with (ROOT / "sample_data" / "curves" / file).open(encoding="utf-8") as stream:
        for row in csv.DictReader(line for line in stream if not line.startswith("#")):
            if row["metric"] == metric:
                epsilon = float(row["epsilon"]) if row["epsilon"] else None
                by_mechanism[row["mechanism"], epsilon].append(float(row["value"]))
    return by_mechanism


def read_range_scores(mechanism, epsilon):
    """Return a mechanism's scores, those of its baseline, and those without privacy."""
    if mechanism == "private-effects":
        scores = read_scores("movie-night-ratings.csv", "rmse")
        baseline, nonprivate = (
            scores["private-own-mean", epsilon],
            scores["reference-ratings", None],
        )
    else:
        scores = read_scores("movie-night.csv", "accuracy")
        baseline = max(scores["majority", None], scores["private-majority", epsilon], key=mean)
        nonprivate = scores["reference-binary", None]
    return scores[mechanism, epsilon], baseline, nonprivate


def compute_gain_share(mechanism, epsilon):
    value, baseline, nonprivate = map(mean, read_range_scores(mechanism, epsilon))
    return (value - baseline) / (nonprivate - baseline)


def compute_significant_share(mechanism, epsilon):
    """Return the gain share in percent if 95 % intervals over seeds tell it from the baseline."""
    value, baseline, _ = read_range_scores(mechanism, epsilon)
    reach = sum(t.ppf(0.975, len(v) - 1) * stdev(v) / len(v) ** 0.5 for v in (value, baseline))
    share = compute_gain_share(mechanism, epsilon)
    return [100 * share] if share > 0 and abs(mean(value) - mean(baseline)) > reach else []


@cache
def gaussian_success(epsilon, delta=1e-6):
    """Return how often the best attacker is right against Gaussian noise of this promise."""

    def exceed(mu):
        spent = mpmath.ncdf(mu / 2 - epsilon / mu)
        return spent - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu) > delta

    low, high = mpmath.mpf("1e-6"), mpmath.mpf(10)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if exceed(middle) else (middle, high)
    return float(mpmath.ncdf(low / 2))


@cache
def compute_score_changes():
    """Return how far 40 x 400 scores move, the largest first, and the worst output's epsilon."""
    rng = np.random.default_rng(0)
    observed = rng.random((40, 400)) < 0.1
    observed[0] = False
    observed[0, 0] = True
    preferences = np.where(rng.random(400) < 0.5, 1.0, -1.0)
    users, items = np.nonzero(observed)
    method = Output(epsilon=1.0, bound=1.0, radius=1.2, tolerance=1e-7, iterations=500)
    fitted = []
    for sign in (1, -1):
        values = preferences[items]
        values[0] *= sign
        public_facts = PublicFacts(users=40, items=400, low=-1, high=1)
        ratings = Ratings.build(users, items, values, public_facts)
        fitted.append(record_history(method, ratings, 0)[0].private)
    changes = sorted(np.abs(fitted[0] - fitted[1]).ravel().tolist(), reverse=True)
    return changes, sum(changes) / 2


def read_audit():
    entries = json.loads((ROOT / "dpmc_lab" / "measured.json").read_text("utf-8"))
    return next(entry["measured"] for entry in entries if entry["mechanism"] == "output")


# --- what must stand there -----------------------------------------------------------------------
#
# For each slide: before anything is shown (text, question, options), what is revealed, the
# teacher's line, and the picture. `dots` are the throws drawn, which the texts must count.


def to_percent(*shares):
    return [100 * share for share in shares]


def check_two_coins(epsilon, displayed):
    """Check the numbers to the last digits that were not cut, and return those expected."""
    two, flip = map(float, displayed)
    last = 10.0 ** -len(displayed[1].partition(".")[2])
    assert two == pytest.approx(100 - 2 * flip)
    assert abs(two - 100 * (1 - 2 * lie(epsilon))) < last
    return [two, 100 * lie(epsilon)]


def coin(key, m, dots, displayed):
    e = m["epsilon"]
    f = lie(e)
    if key == "throw":
        assert len(dots.reports) == 30
        assert dots.flipped == ()  # what arrives
        return [30, 2, 0, 30 * lie(2), 15], [30 * f, 30, sum(dots.reports), 30]
    if key == "flipped":
        assert dots.reports == tuple(map(int, dots.flipped))  # all tapped no
        return [30], [sum(dots.flipped), 30, 30]
    if key == "deny":
        expected = [100 * (1 - f), 100, 100 * f, 100, *check_two_coins(e, displayed[4:6]), 100]
        return [], expected, [], {"You tapped yes": (1 - f, f), "You tapped no": (f, 1 - f)}
    if key == "evidence":
        other = {"yes": "no", "no": "yes"}[m["sent"]]
        world = {f"Tapped {m['sent']}": (1 - f,), f"Tapped {other}": (f,)}
        expected = [math.exp(e), 100 * (1 - f), 100, 100 * f, 100, e, 100]
        return [2, 2, 4, math.exp(2)], expected, [], world
    flip_chances = tuple(map(lie, STOPS))
    expected = [e, 100 * f, 100, 0.1, 100 * flip_chances[0], 10, 100 * flip_chances[-1]]
    return [], expected, [], {"send the opposite": flip_chances}


def crowd(key, m, dots, displayed):
    e = m["epsilon"]
    f = lie(e)
    if key in ("count", "undo"):
        true = round(30 * m["share"])
        yes = sum(dots.reports) if key == "count" else round(30 * displayed[0])
    if key == "count":
        assert sum(bit ^ turned for bit, turned in zip(*dots[:2], strict=True)) == true
        pulled = true / 30 * (1 - f) + (1 - true / 30) * f
        return [30, 10, 1], [yes, 30, *to_percent(yes / 30, true / 30, pulled), 30]
    if key == "undo":
        share = min(max(unflip_share(yes / 30, f), 0), 1)
        interval = estimate_class(yes, 30, f)
        expected = to_percent(yes / 30, share, *interval, true / 30, yes / 30, f)
        rows = [clopper_pearson(yes, 30), estimate_population(yes, 30, f), interval]
        expected += [1 - 2 * f, *(round(100 * (high - low)) for low, high in rows[:2]), 30, 95]
        rows = [(mid, *ends) for mid, ends in zip((yes / 30, share, share), rows, strict=True)]
        return [95], expected, [5, 100], rows
    n_people = int(m["people"])
    if key == "more":
        widths = to_percent(*(compute_half_width(n, lie(1)) for n in (30, 3000)))
        before = [1, 30, *widths, 3000, 10_000, 100_000]
        lines = {
            f"epsilon {e:g}": tuple(min(compute_half_width(n, f), 0.5) for n in PEOPLE),
            "without privacy": tuple(compute_half_width(n, 0) for n in PEOPLE),
        }
        return (
            before,
            [
                n_people,
                e,
                *to_percent(compute_half_width(n_people, f), compute_half_width(n_people, 0)),
                95,
            ],
            [],
            lines,
        )
    expected = [n_people, 100 * compute_half_width(n_people, f), 100 * (1 - f)]
    lines = {
        "share of the crowd, plus or minus": tuple(compute_half_width(n, f) for n in PEOPLE),
        "best guess from my report is right": (1 - f,) * len(PEOPLE),
    }
    return [10_000, 30], expected, [], lines


def attacker(key, m, *_):
    b, e = m["before"], m["epsilon"]
    if key == "even":
        expected = to_percent(compute_success(e, 1, b), max(b, 1 - b), b)
        line = {"with the report": tuple(compute_success(stop, 1, b) for stop in STOPS)}
        return [1, 100 * compute_success(1), 90, 100], expected, [], line
    if key == "without":
        up, down = compute_certainty(b, e), compute_certainty(b, e, "no")
        before = [80, 80, 100 * compute_certainty(0.8, 1), 100]
        world = {"Your phone sent no": (down,), "You did not take part": (b,)}
        world["Your phone sent yes"] = (up,)
        return before, to_percent(b, up, down), [], world
    answer = m.get("sent", "yes")
    now, step = compute_certainty(b, e, answer), math.exp(e)
    lines = {
        "after the report": tuple(compute_certainty(p, e, answer) for p in PRIORS),
        "before": PRIORS,
    }
    if key == "suspicion":
        before = [90, 1, *to_percent(compute_success(1), 0.9, compute_certainty(0.9, 1))]
        return before, [*to_percent(b, now), *format_odds(b), *format_odds(now), step], [], lines
    before = [90, 1, 10, *to_percent(lie(1), compute_certainty(0.9, 1, "no"))]
    return before, [*to_percent(b, now), *format_odds(b), step, *format_odds(now)], [], lines


def again(key, m, *_):
    e = m["epsilon"]
    f = lie(e)
    if key == "person":
        rated = int(m["rated"])
        line = tuple(compute_success(e, n) for n in range(1, 21))
        expected = [rated * e, rated, e, 100 * (1 - f), rated, 100 * line[rated - 1]]
        lines = {"one of two opposite tastes": line, "one rating": (1 - f,) * 20}
        return [1, 20, 1 / 20, 1, 20], expected, [], lines
    times, ten = int(m["times"]), range(1, 11)
    if key == "add":
        lines = {"all together": tuple(e * n for n in ten), "the last one": (e,) * 10}
        return [2, 3, 2, 6, 8], [e * times, times, e, e * times], [], lines
    if key == "keep":
        lines = {"new throw each time": tuple(compute_success(e, n, 0.8) for n in ten)}
        lines["same report each time"] = (compute_success(e, 1, 0.8),) * 10
        success = (compute_success(e, n, 0.8) for n in (1, times))
        return [80, 5, 5], to_percent(*success), [], lines
    b = m["before"]
    agree, agreed_right = compute_agreement(e, times, b)
    right = [max(b, 1 - b), compute_success(e, 1, b), compute_success(e, times, b), agreed_right]
    expected = to_percent(right[2], right[1], right[0], agree)
    expected += [100 * agreed_right, e * times, times, e]
    before = [80, 2, 2, 2, *to_percent(*(compute_success(2, n, 0.8) for n in (1, 2)))]
    return [*before, 100 * compute_agreement(2, 2, 0.8)[1]], expected, [50, 50], right


def compute_agreement(epsilon, times, before):
    """Return how often all reports of a phone agree, and how often a guess is then right."""
    yes, no = compute_report_pmfs(epsilon, times)
    agree = yes[0] + yes[-1]
    right = sum(max(before * yes[k], (1 - before) * no[k]) for k in (0, -1))
    return agree, right / agree


def claim(key, m, *_):
    if key == "three":
        e, times = m["epsilon"], int(m["times"])
        total = math.fsum([1 - -1] * times)
        expected = [total, times, 2, 2, e, times, times * e]
        expected += [100 * (1 - lie(e)), times, 100 * (1 - lie(times * e))]
        line = {"all numbers together change by": tuple(2 * n for n in range(1, 11))}
        return [1, -1, 1, 2, 1, 2, 6], expected, [], line | {"the noise is made for": 2}
    changes, min_epsilon = compute_score_changes()
    if key == "cells":
        noticed = sum(step >= 1e-3 for step in changes)
        return [40, 400, CELLS, 1, noticed, CELLS], [noticed, CELLS, 10]
    if key == "sum":
        sums = list(accumulate(changes))
        counts, n_cells = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000), int(m["cells"])
        line = {"total change": tuple(sums[n - 1] for n in counts), "the proof assumes": 2}
        expected = [sums[-1], 2, changes[0], n_cells, sums[n_cells - 1], 4]
        return [2, changes[0], 2, sum(changes)], expected, [], line
    e = m["epsilon"]
    if key == "promise":
        lines = {"measured, at least": min_epsilon, "claimed, at most": 1}
        lines = {name: tuple(1 - lie(n * s) for s in STOPS) for name, n in lines.items()}
        sure = to_percent(1 - lie(min_epsilon * e), 1 - lie(e))
        expected = [*sure, min_epsilon * e, e, read_audit(), 1, CELLS * e, CELLS]
        return (
            [1, *to_percent(1 - lie(1), 0.5, 1 - lie(1), 1 - lie(min_epsilon))],
            expected,
            [],
            lines,
        )
    scale = FILM_CELLS * 2 * BOUND / e
    shares = (compute_significant_share(mechanism, e) for mechanism in ("output", "input-flip"))
    gains = [e, *(share for found in shares for share in found), e]
    lines = {
        "flipped ratings, proved": tuple(compute_gain_share("input-flip", s) for s in STOPS),
        "this method, claimed only": tuple(compute_gain_share("output", s) for s in STOPS),
    }
    expected = [CELLS, FILM_CELLS, scale, -BOUND, BOUND, *gains]
    return [CELLS, 2, min_epsilon, CELLS], expected, [], lines


def choose(key, m, *_):
    e, mechanism = m["epsilon"], "private-effects"
    chance = compute_success(e)
    numbers = [*compute_significant_share("input-flip", e), 100 * chance]
    baseline_numbers = [20, 100 * compute_success(e, 20)]
    if key == "price":
        before = [1, *to_percent(*(compute_gain_share("input-flip", s) for s in (0.3, 1, 3)))]
        lines = {"benefit kept": tuple(compute_gain_share("input-flip", s) for s in STOPS)}
        lines["attacker right"] = tuple(map(compute_success, STOPS))
        return before, numbers + baseline_numbers, [], lines
    if key == "decide":
        world = [max(0, compute_gain_share("input-flip", e)), chance, compute_success(e, 20)]
        return [], [e, *numbers], [], world
    effects_numbers = [*compute_significant_share(mechanism, e), 100 * gaussian_success(e)]
    if key == "unit":
        flips, effects = (
            tuple(compute_gain_share(id, s) for s in STOPS) for id in ("input-flip", mechanism)
        )
        expected = [*effects_numbers, *compute_significant_share("input-flip", e), e, e, 1e6]
        lines = {
            "Each rating, even from the server": flips,
            "A whole person, server trusted": effects,
        }
        first, last = effects[STOPS.index(1.0)], flips[STOPS.index(1.0)]
        before = [1, *to_percent(first, (first + last) / 2, last)]
        return before, expected, [], lines
    if m["promise"] == mechanism:
        return [], [e, *effects_numbers]
    return [], [e, *numbers, *baseline_numbers]


@cache
def read_feature_scores(mechanism, epsilon, data="movie-night"):
    """Return the errors of fits that use public item features."""
    return read_scores(f"{data}-ratings-facts.csv", "rmse")[mechanism, epsilon]


def compute_scaled_gain(errors, epsilon=0.1):
    """Scale mean errors between a user's own mean (0) and no privacy (1), both without features."""
    _, baseline, nonprivate = map(mean, read_range_scores("private-effects", epsilon))
    return (mean(errors) - baseline) / (nonprivate - baseline)


def compute_ci_half_width(values):
    return t.ppf(0.975, len(values) - 1) * stdev(values) / len(values) ** 0.5


def is_clearly_lower(values, others):
    reach = compute_ci_half_width(values) + compute_ci_half_width(others)
    return mean(others) - mean(values) > reach


def count_helped_epsilons(data):
    without = read_scores(f"{data}-ratings.csv", "rmse")
    return sum(
        is_clearly_lower(
            read_feature_scores("private-effects", e, data), without["private-effects", e]
        )
        for e in STOPS
    )


def find_equal_epsilon(epsilon):
    """Return where the pooled means without features reach the mean with them."""
    pools = []
    for stop in STOPS:
        pools.append((mean(read_range_scores("private-effects", stop)[0]), 1))
        while len(pools) > 1 and pools[-2][0] <= pools[-1][0]:
            (a, n), (b, k) = pools[-2:]
            pools[-2:] = [((a * n + b * k) / (n + k), n + k)]
    fallen = [height for height, count in pools for _ in range(count)]
    target = mean(read_feature_scores("private-effects", epsilon))
    k = next((k for k, error in enumerate(fallen) if error <= target), None)
    if k is None:
        return None
    share = (fallen[k - 1] - target) / (fallen[k - 1] - fallen[k])
    return STOPS[k - 1] * (STOPS[k] / STOPS[k - 1]) ** share


def public(key, m, *_):
    e, mechanism = m["epsilon"], "private-effects"
    feature_gains = tuple(compute_scaled_gain(read_feature_scores(mechanism, s), s) for s in STOPS)
    gains = tuple(compute_gain_share(mechanism, s) for s in STOPS)
    gain = feature_gains[STOPS.index(e)]
    items_only_gain = compute_scaled_gain(read_feature_scores("alone", None))
    if key == "poster":
        baseline = read_range_scores(mechanism, e)[1]
        is_distinct = is_clearly_lower(read_feature_scores(mechanism, e), baseline)
        shares = [100 * gain] * int(is_distinct) + compute_significant_share(mechanism, e)
        lines = {"with genres": feature_gains, "without": gains}
        return [], [e, e, *shares], [], lines
    if key == "worth":
        lines = {"without genres": gains, f"with genres at {e:g}": gain}
        min_epsilon = find_equal_epsilon(e)
        before = [1, 100 * feature_gains[STOPS.index(1)], 1, find_equal_epsilon(1), 10]
        return before, [10 if min_epsilon is None else min_epsilon, e, 3], [], lines
    if key == "alone":
        lines = {"genres and others' ratings": feature_gains, "alone": items_only_gain}
        before = to_percent(0, items_only_gain, feature_gains[STOPS.index(1)])
        return before, [100 * items_only_gain, e, 100 * gain], [], lines
    raw = compute_scaled_gain(read_feature_scores("reference-ratings", None)) - 1
    lines = {"genres add": tuple(a - b for a, b in zip(feature_gains, gains, strict=True))}
    adds = 100 * (gain - compute_gain_share(mechanism, e))
    helped = [count_helped_epsilons(data) for data in ("movie-night", "restaurants")]
    expected = [100 * raw, e, adds, helped[0], 14, helped[1], e]
    return [1], expected, [], lines | {"without privacy": raw}


EXPECTED_NUMBERS = {
    function.__name__: function
    for function in (coin, crowd, attacker, again, claim, choose, public)
}


def compare(text, expected):
    """Check every number of a text, in its order, to the last digit that is written."""
    displayed = NUMBER.findall(text)
    assert len(displayed) == len(expected), (text, displayed, expected)
    for shown_number, value in zip(displayed, expected, strict=True):
        number, _, power = shown_number.replace(",", "").partition("e")
        last = 10.0 ** (int(power or 0) - len(number.partition(".")[2]))
        tolerance = last if 100 - value < 1e-6 else last / 2  # what is not sure is not said to be
        # an epsilon is rounded against whoever promises it: by up to a whole unit
        off = abs(float(shown_number.replace(",", "")) - value)
        assert off <= 2 * tolerance * (1 + 1e-3), (text, shown_number, value)


def compare_picture(picture, expected):
    if isinstance(picture, OutcomeBars):
        plotted = dict(picture.shares)
        if isinstance(expected, list):
            expected = dict(zip(plotted, ((share,) for share in expected), strict=True))
    elif isinstance(picture, IntervalPlot):
        plotted = {name: tuple(row) for name, row in picture.rows.items()}
        expected = dict(zip(plotted, expected, strict=True))
    else:
        plotted = dict(picture.lines)
        for name, level in picture.levels.items():
            if name in expected:
                assert level == pytest.approx(expected.pop(name), **FLOATS)
    assert plotted.keys() == expected.keys()
    for name, values in plotted.items():
        assert values == pytest.approx(expected[name], **FLOATS), name


def list_extreme_settings(slide):
    """Yield a few of all combinations, and both ends and the middle of every control."""
    yield from list_settings(slide)
    for control in slide.move:
        values = control.values
        ends = {0, len(values) // 2, len(values) - 1} if values else ()
        for value in control.options or [values[k] for k in sorted(ends)]:
            yield slide.start_values | {control.key: value}


def limit_of_one(setting):
    return 1 - lie(setting["epsilon"])


def limit_of_twenty(setting):
    return compute_success(setting["epsilon"], 20)


# Slides that say how often an attacker is right at most, and the limits that a picture shows, too.
LIMITS = {
    "crowd/me": ([limit_of_one], [limit_of_one]),
    "again/person": ([limit_of_one, limit_of_twenty], [limit_of_one, limit_of_twenty]),
    "choose/price": ([limit_of_one, limit_of_twenty], [limit_of_one]),
    "choose/decide": ([limit_of_one], [limit_of_one, limit_of_twenty]),
    "choose/unit": ([lambda setting: gaussian_success(setting["epsilon"])], []),
    "claim/promise": ([limit_of_one], [limit_of_one]),
    "claim/three": ([limit_of_one, lambda setting: 1 - lie(3 * setting["epsilon"])], []),
}


@pytest.mark.parametrize("path", LIMITS)
def test_limits_in_lessons_are_rounded_up(path):
    """Above 99.9 % no number is given."""
    lesson, key = path.split("/")
    slide = LESSONS[lesson].get_slide(key)
    for epsilon in STOPS:
        setting = slide.start_values | {"epsilon": epsilon}
        finding = slide.reveal(setting)
        picture_text = html.unescape(re.sub("<[^>]*>", " ", finding.picture.to_html()))
        shown_texts = (" ".join(finding.sentences), picture_text)
        for shown_text, rates in zip(shown_texts, LIMITS[path], strict=True):
            for rate in (compute_rate(setting) for compute_rate in rates):
                limit = f"{math.ceil(1000 * rate - 1e-6) / 10:.1f}"
                number = f"{limit} %" if rate <= 0.999 else "> 99.9 %"
                assert number in shown_text, (epsilon, shown_text)


@pytest.mark.parametrize("lesson", LESSONS)
def test_every_number_of_a_lesson_is_so(lesson):
    for slide in LESSONS[lesson].slides:
        check_numbers(lesson, slide.key, slide)


def check_numbers(lesson, key, slide):
    options = (slide.predict.question, *slide.predict.options) if slide.predict else ()
    for setting in list_extreme_settings(slide):
        finding = slide.reveal(setting)
        shown_text = " | ".join([*finding.sentences, finding.note])
        numbers = NUMBER.findall(shown_text)
        if (lesson, key) == ("crowd", "undo"):
            numbers = [finding.picture.rows["Counted: people like this class"].share]
        dots = finding.picture if isinstance(finding.picture, PeopleDots) else None
        before, after, *remaining = EXPECTED_NUMBERS[lesson](key, setting, dots, numbers)
        teacher, picture = (*remaining, *([], None)[len(remaining) :])
        compare(" | ".join([slide.said, *options]), before)
        compare(shown_text, after)
        compare(slide.teacher, teacher)
        if picture is not None:
            compare_picture(finding.picture, picture)
        else:
            assert not isinstance(finding.picture, OutcomeBars | IntervalPlot | CurvePlot)


def test_a_throw_says_of_itself_whether_the_interval_becomes_longer():
    """Both intervals are for people; it is longer in most throws, and in some it is not."""
    (slide,) = (slide for slide in LESSONS["crowd"].slides if slide.key == "undo")
    f, words = lie(1), set()
    for throw in range(40):
        setting = slide.start_values | {"throw": throw}
        reveal = slide.reveal(setting)
        rows = reveal.picture.rows
        counted, people = (
            round(100 * (rows[name].high - rows[name].low))
            for name in ("Counted: people like this class", "Debiased: people like this class")
        )
        word = "longer" if people > counted else "shorter" if people < counted else "neither"
        assert f"becomes {word}" in reveal.sentences[2]
        held = [row.low <= 0.1 <= row.high for row in (*rows.values(),)]
        counted_word, class_word = ("contains" if held[k] else "misses" for k in (0, 2))
        assert f"counted interval {counted_word} the truth" in reveal.sentences[3]
        assert f"of this class {class_word} it" in reveal.sentences[3]
        assert f"{counted} points counted, {people} points debiased" in reveal.sentences[2]
        words.add(word)
    assert {"longer", "shorter"} <= words
    reports = convolve_reports(3, f)
    longer = sum(
        chance
        for yes, chance in enumerate(reports)
        if -np.subtract(*estimate_population(yes, 30, f)) > -np.subtract(*clopper_pearson(yes, 30))
    )
    assert longer == pytest.approx(1 - 0.108, abs=5e-4)


def convolve_reports(truly_yes, f):
    """Chances of each number of reported yes, of 30 phones of which some are truly yes."""
    return np.convolve(
        binom.pmf(range(truly_yes + 1), truly_yes, 1 - f),
        binom.pmf(range(31 - truly_yes), 30 - truly_yes, f),
    )


# --- on paper ------------------------------------------------------------------------------------


def plan_numbers(name):
    """Return the numbers in a plan's own texts, by step; those of slides are checked above."""
    if name == "short":
        return {"tap": [2, 100 * lie(2)]}
    if name == "first":
        guesses = to_percent(compute_success(2, 2, 0.8), compute_agreement(2, 2, 0.8)[1])
        return {
            "tap": [2, 100 * lie(2)],
            "result": [95],
            "round": [4],
            "round-result": [80, *guesses],
        }
    return {
        "new-room": [1],
        "new-tap": [100 * lie(1)],
        "new-count": [1],
        "new-result": [30, 100 * compute_half_width(30, lie(1))],
    }


@pytest.mark.parametrize("name", lessons.PLANS)
def test_every_number_of_a_plan_is_so(name):
    plan, expected = lessons.PLANS[name], plan_numbers(name)
    for step, written in zip(lessons.schedule_steps(plan), plan.steps, strict=True):
        texts = [(key, getattr(step, key)) for key in ("button", "ask", "say", "expect")]
        typed = " | ".join(text for key, text in texts if getattr(written, key))
        compare(typed, expected.pop(step.id, []))
        if step.stage:
            lesson, slide = lessons.get_slide(step.wall)
            compare(step.screen.removesuffix(slide.title), [lesson.number])
            if step.stage == "question":
                assert slide.predict.question in step.ask
    assert not expected


@pytest.mark.parametrize("slide", lessons.EXITS.slides, ids=lambda slide: slide.key)
def test_every_number_of_an_exit_question_is_so(slide):
    texts = (slide.said, slide.predict.question, *slide.predict.options)
    if slide.key == "rooms":  # all three reports agree, at even odds before
        agreed = (1 - lie(1)) ** 3 / ((1 - lie(1)) ** 3 + lie(1) ** 3)
        before, after = [2, 3, 1, 3, 1, 3, 3, 1, 3], [3, 100 * agreed, 100 * (1 - lie(2))]
    else:
        before, after = [20, 1, 20, 3, 20, 1, 20, 20, 1, 20], [20, 20, 3]
    compare(" | ".join(texts), before)
    compare(" | ".join(slide.reveal(slide.start_values).sentences), after)
    assert not NUMBER.findall(slide.teacher)


@pytest.mark.parametrize("name", lessons.PLANS)
def test_every_number_of_a_box_is_so(name):
    plan = lessons.PLANS[name]
    e = plan.given["epsilon"]
    f, stretch = lie(e), 1 - 2 * lie(e)
    left = 14 - 30 * f
    expected = {
        "class/coin": ([], [100 / 8]),  # tails three times
        "class/tally": (
            [e, f, f, 1, 2, stretch],
            [14, 30, 14, f, 30, left, stretch, left / stretch, 100 * left / stretch / 30],
        ),
    }
    for sheet in (step.sheet for step in plan.steps if step.sheet in lessons.BOXES):
        sides = zip(
            (worksheets._render_task, worksheets._render_answer),
            expected.get(sheet, ([], [])),
            strict=True,
        )
        for render, numbers in sides:
            compare(html.unescape(re.sub("<[^>]*>", " | ", render(sheet, plan.given))), numbers)


@pytest.mark.parametrize("epsilon", [1.0, 2.0])
def test_what_pupils_calculate_is_what_the_wall_shows(epsilon):
    """The printed digits are enough: less than half a point is lost."""
    sheet = worksheets._render_task("class/tally", {"epsilon": epsilon})
    flips, stretch = (
        float(re.search(pattern, sheet)[1]) for pattern in (r"k - ([\d.]+)", r"2f = ([\d.]+)")
    )
    channel = build_phone_channel(epsilon)
    for yes in range(31):
        share = min(max((yes - flips * 30) / stretch / 30, 0), 1)
        assert share == pytest.approx(Poll(yes, 30, channel).of_class.share, abs=0.005)
