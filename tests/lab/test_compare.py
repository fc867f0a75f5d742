"""The Compare page's numbers, on curves whose truth is known."""

import itertools
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import t as student
from scipy.stats import ttest_1samp

from dpmc_core.metrics import METRICS
from dpmc_core.privacy import RATING, USER_EMPTIED, USER_REPLACED
from dpmc_core.ratings import PublicFacts
from dpmc_lab.store import Claim, CurveInfo, Store
from dpmc_lab.views import compare, lines, numbers
from dpmc_lab.views.lines import Curve, EpsilonUnit, Role
from tests.store_helpers import load_curve_chart, make_record

GRID = np.array([0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0])


def find_smallest_epsilon(plotted, target):
    return numbers.find_required_epsilons(plotted, [target])[0]


def build_info(key):
    """Build a curve of input perturbation."""
    public_facts = PublicFacts(users=40, items=30, low=-1, high=1)
    data = ("5" * 16, "stars", "Stars", public_facts, (), "a fifth")
    return CurveInfo(1, key, *data, "input-flip", 1, {}, "binary")


def build_line(truth, seeds=6, std=0.004, key="a", metric="accuracy", common=None, **changes):
    """Build a line around a true curve; `common` is noise shared with other lines, by seed."""
    rng = np.random.default_rng(sum(map(ord, key)))
    noise = std * rng.normal(size=(len(GRID), seeds))
    values = truth(GRID)[:, None] + noise + (0 if common is None else common)
    infinite = np.full(len(GRID), math.inf)
    units = dict.fromkeys(("value", "row_values", "entry", "user_empty", "user_replace"), infinite)
    built = Curve(
        info=build_info(key),
        label=key.upper(),
        metric=METRICS[metric],
        role=Role.PRIVATE,
        epsilon=GRID,
        seeds=np.arange(1, seeds + 1),
        values=values,
        claimed=GRID,
        change=RATING,
        certified=units | {"value": GRID},
        reasons={"user_empty": "the pattern is public"},
    )
    return replace(built, **changes)


def rising(x):
    return 0.55 + 0.2 * x / (1 + x)


def steep(x):
    """Return a curve that crosses `rising` at 1 from below."""
    return rising(x) + 0.05 * np.log(x)


def place_line(curve):
    return lines.place_on_axis(curve, EpsilonUnit.PAPER)


# --- bands -----------------------------------------------------------------------------------


def test_the_band_is_the_t_interval_of_each_row():
    curve = build_line(rising, seeds=5)
    values = curve.values.copy()
    values[2, 3:] = np.nan
    values[3, 1:] = np.nan
    view = build_line(rising, values=values).band
    assert view.seeds.tolist() == [5, 5, 3, 1, 5, 5, 5]
    for k, n in enumerate(view.seeds):
        row = values[k, :n]
        assert view.mean[k] == pytest.approx(row.mean())
        if n > 1:
            low, high = student.interval(0.95, n - 1, row.mean(), row.std(ddof=1) / n**0.5)
            assert (view.low[k], view.high[k]) == (pytest.approx(low), pytest.approx(high))
    assert view.low[3] == view.mean[3] == view.high[3]
    assert "1 to 5 seeds" in lines.describe_band(view)
    assert "one seed" in lines.describe_band(build_line(rising, values=values[:, :1]).band)


def test_lines_come_from_the_store_with_what_they_certify(tmp_path):
    with Store(tmp_path / "results.sqlite") as opened:
        keys = [(2.0, 1), (2.0, 2), (1.0, 1), (1.0, 2), (4.0, 2)]
        opened.add([make_record(epsilon=e, seed=s, accuracy=e + s) for e, s in keys])
        keys = itertools.product((1.0, 4.0), (1, 2))
        opened.add([make_record("private-majority", e, s, 0.5 + s) for e, s in keys])
        for id, level in (("clear", 0.7), ("reference-binary", 0.8)):
            opened.add([make_record(id, None, seed=s, accuracy=level + s) for s in (1, 2)])
        opened.add([make_record("majority", None, seed=1)])  # beside methods without noise alone
        ids, accuracy = ["input-flip"], METRICS["accuracy"]
        chart = load_curve_chart(opened, ids, accuracy)
        less = load_curve_chart(opened, ids, accuracy, epsilons=[2.0], seeds=[2])
        assert not any(load_curve_chart(opened, ids, METRICS["rmse"])[1:])
        assert not any(load_curve_chart(opened, ["output"], accuracy).lines)
        assert not any(load_curve_chart(opened, ids, accuracy, keys=["x"])[1:])
        plain = load_curve_chart(opened, ["clear"], accuracy)
    (curve,), (baseline,), (fewer,) = chart.lines, chart.private_baselines, less.lines
    assert chart.baselines == chart.private_baselines
    assert baseline.role is Role.BASELINE
    assert [level.role for level in chart.levels] == [Role.NO_PRIVACY, Role.COUNTERPART]
    levels = {level.mechanism: level.interval.mean for level in chart.nonprivate_counterparts}
    assert list(levels) == ["reference-binary", "clear"]
    assert list(levels.values()) == pytest.approx([2.3, 2.2])
    assert [level.mechanism for level in plain.baselines] == ["majority"]
    assert not any(plain.private_baselines)
    assert curve.epsilon.tolist() == [1.0, 2.0, 4.0]
    assert (curve.seeds.tolist(), fewer.seeds.tolist()) == ([1, 2], [2])
    assert np.array_equal(curve.values, [[2, 3], [3, 4], [np.nan, 6]], equal_nan=True)
    assert curve.label == "Input perturbation"
    assert curve.certified["row_values"].tolist() == [30.0, 60.0, 120.0]
    assert np.isinf(curve.certified["entry"]).all()
    assert curve.reasons == {"entry": "the pattern is public"}
    assert baseline.mechanism == "private-majority"
    assert baseline.epsilon.tolist() == [1.0, 4.0]
    assert baseline.values.tolist() == [[1.5, 2.5], [1.5, 2.5]]
    assert fewer.values.tolist() == [[4.0]]


# --- units -----------------------------------------------------------------------------------


def test_a_claim_that_is_not_upheld_is_hollow_and_stays_at_its_claim():
    loose = build_line(rising, certified={"value": 3 * GRID, "user_empty": GRID})
    view = place_line(loose)
    assert not view.is_certified
    assert view.x.tolist() == GRID.tolist()
    assert "3 times its claim" in view.reason
    refuted = build_line(
        rising, certified={"value": np.full(7, math.inf)}, reasons={"value": "no noise on it"}
    )
    assert place_line(refuted).reason == "its claim is not certified: no noise on it"


@pytest.mark.parametrize("relation", [USER_EMPTIED, USER_REPLACED])
def test_a_claim_per_user_is_held_against_its_own_relation(relation):
    """Certified where a row becomes empty, twice the claim where it becomes any other row."""
    proved = {"user_empty": GRID, "user_replace": 2 * GRID}
    view = place_line(build_line(rising, change=relation, certified=proved))
    assert view.is_certified == (relation is USER_EMPTIED)
    assert ("2 times its claim" in view.reason) == (relation is USER_REPLACED)


def test_the_same_unit_moves_each_line_to_its_certified_value():
    loose = build_line(rising, certified={"value": 3 * GRID, "user_empty": 30 * GRID})
    for unit, label, factor in (
        (EpsilonUnit.RATING, "per rating", 3),
        (EpsilonUnit.USER, "per user", 30),
    ):
        view = lines.place_on_axis(loose, unit)
        assert (view.is_certified, view.unit) == (True, label)
        assert view.x.tolist() == (factor * GRID).tolist()
    assert lines.format_curve_ends(loose, view.x).endswith(f"at epsilon {30 * GRID[-1]:.3g}")


def test_without_a_finite_value_in_the_unit_a_line_is_hollow_and_not_dropped():
    view = lines.place_on_axis(build_line(rising), EpsilonUnit.USER)
    assert not view.is_certified
    assert view.x.tolist() == GRID.tolist()
    assert view.unit == "per rating, as claimed"
    assert view.reason == "nothing finite is certified per user: the pattern is public"


# --- who is better ------------------------------------------------------------------------------


def compare_signs(first, second):
    return compare.compare_pair(place_line(first), place_line(second)).signs


def test_equal_lines_cannot_be_told_apart():
    """The chance of a false lead is at most 5 % per pair, whatever the number of epsilons."""
    false = sum(
        any(compare_signs(build_line(rising, key=f"a{k}"), build_line(rising, key=f"b{k}")))
        for k in range(200)
    )
    assert false <= 20  # binomial(200, 0.05) exceeds 20 with probability 0.1 %


def test_noise_that_both_share_is_taken_out():
    """Seeds share their splits: what a split does to all mechanisms decides nothing."""
    common = 0.1 * np.random.default_rng(0).normal(size=6)
    curve = build_line(lambda x: rising(x) + 0.02, common=common)
    assert compare_signs(curve, build_line(rising, key="b", common=common)) == (1,) * len(GRID)


@pytest.mark.parametrize("seeds", [1, 2])
def test_fewer_than_three_seeds_decide_nothing(seeds):
    distant = build_line(lambda x: rising(x) + 10, seeds=seeds)
    assert compare_signs(distant, build_line(rising, seeds=seeds, key="b")) == ()


def test_only_seeds_that_both_have_everywhere_are_compared():
    partial_values = build_line(steep).values.copy()
    partial_values[:, 4:] = np.nan
    partial_values[3, 3] = np.nan
    first, second = build_line(steep, values=partial_values), build_line(rising, key="b")
    assert compare.compare_pair(place_line(first), place_line(second)).seeds == 3


def test_lines_in_different_units_are_never_compared():
    per_user = build_line(rising, key="b", change=USER_REPLACED, certified={"user_replace": GRID})
    assert compare.compare_pairs([place_line(build_line(steep)), place_line(per_user)]) == []


def test_in_the_same_unit_the_crossover_moves_with_the_certified_values():
    """B pays three times its setting: it needs a larger certified epsilon for the same value."""
    expensive = build_line(rising, key="b", certified={"value": 3 * GRID})
    cheap = build_line(rising)
    views = [lines.place_on_axis(curve, EpsilonUnit.RATING) for curve in (cheap, expensive)]
    (pair,) = compare.compare_pairs(views)
    assert pair.x.min() == pytest.approx(0.3)
    assert pair.x.max() == pytest.approx(10.0)
    assert {*pair.signs} == {1}


# --- budget planner --------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_isotonic_is_the_nearest_increasing_sequence(seed):
    rng = np.random.default_rng(seed)
    values, weights = rng.normal(size=8), rng.uniform(0.5, 2.0, 8)
    fitted = numbers.fit_isotonic(values, weights)
    assert (np.diff(fitted) >= 0).all()
    # Optimality of a projection onto a cone: the residual is orthogonal to the fit, and no
    # increasing direction (a step at any place) improves it.
    residual = weights * (values - fitted)
    assert residual @ fitted == pytest.approx(0, abs=1e-9)
    steps = np.cumsum(residual[::-1])[::-1]
    assert steps[0] == pytest.approx(0, abs=1e-9)
    assert (steps[1:] <= 1e-9).all()
    samples = rng.normal(size=(5, 8))
    each = [numbers.fit_isotonic(row, weights) for row in samples]
    np.testing.assert_array_equal(numbers.fit_isotonic(samples, weights), each)


def test_the_smallest_epsilon_is_near_the_true_one():
    target = rising(np.array([1.5]))[0]
    answer = find_smallest_epsilon(place_line(build_line(rising)), target)
    assert answer.epsilon.value == pytest.approx(1.5, rel=0.25)
    assert answer.epsilon.low < answer.epsilon.value < answer.epsilon.high
    text = numbers.describe_required_epsilon(answer)
    assert text.startswith(
        f"{answer.plotted.line.label}: accuracy {100 * target:.1f} % needs epsilon 1."
    )
    assert "95 % bootstrap interval over 6 seeds, widened as a t interval" in text
    assert text.endswith("per rating.")


def test_stretched_means_of_five_seeds_cover_the_truth():
    """95 % on paper, 93.5 % measured. A percentile bootstrap of five seeds covers 84 %, one at
    level 80 % covers 80 %. False alarm: binomial(1000, 0.93) is below 890 once in 10^6."""
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(1000):
        values = rng.normal(size=(1, 5))
        resampled = numbers.resample_means(values, numbers.sample_resamples(5))[:, 0]
        estimate = numbers.compute_estimate(float(values.mean()), resampled, 5)
        covered += estimate.low <= 0 <= estimate.high
    assert covered >= 890


def test_a_percentile_interval_holds_95_percent_of_what_is_drawn():
    draws = np.random.default_rng(0).permutation(np.arange(1001.0))
    estimate = numbers.compute_estimate(500.0, draws, 5)
    assert (estimate.low, estimate.high) == (25.0, 975.0)


@pytest.mark.parametrize(("metric", "better"), [("hr@10", 0.6), ("rmse", 0.4)])
def test_above_no_privacy_is_said_only_beyond_both_bands(metric, better):
    flat = SimpleNamespace(interval_at=lambda _: lines.Interval(0.5, 0.02, 3))
    for value, is_above in ((better, True), (0.51, False), (0.49, False)):
        line = build_line(lambda x, value=value: value + 0 * x, seeds=1, std=0, metric=metric)
        assert lines.is_somewhere_better(line, flat) == is_above


def test_errors_shrink_as_epsilon_grows():
    falling = build_line(lambda x: 2 - rising(x), metric="rmse")
    answer = find_smallest_epsilon(place_line(falling), 2 - rising(np.array([1.5]))[0])
    assert answer.epsilon.value == pytest.approx(1.5, rel=0.25)
    assert "RMSE 1.330 rating points needs epsilon" in numbers.describe_required_epsilon(answer)


# --- who is better where ---------------------------------------------------------------------


def compare_lines(*plotted):
    return compare.compare_lines(plotted, compare.compare_pairs(plotted))


def build_shifted_line(key, shifts, **changes):
    """Build a line at `rising` plus an amount at each epsilon, with hardly any spread."""
    values = (rising(GRID) + np.array(shifts))[:, None] + np.tile([-1e-4, 1e-4], 3)
    return place_line(build_line(rising, key=key, values=values, **changes))


def test_each_line_stands_at_each_epsilon_as_the_duels_say():
    a = build_shifted_line("a", [0, 0, 0, 0.1, 0.1, 0.1, 0.1])
    b = build_shifted_line("b", [0, 0, 0, 0, 0, 0.1, 0.1])
    c = build_shifted_line("c", [-0.1, -0.1, -0.1, -0.1, -0.1, -0.1, 0.2])
    first, second, third = results = compare_lines(a, b, c)
    assert [list(result.plotted.line.label) for result in results] == [["A"], ["B"], ["C"]]
    assert first.best == (False, False, False, True, True, False, False)
    assert first.ahead[:4] == (("C",), ("C",), ("C",), ("B", "C"))
    assert first.behind[-1] == second.behind[-1] == ("C",)
    assert second.behind[3] == ("A",)
    assert third.best == (*[False] * 6, True)
    assert third.behind[0] == ("A", "B")
    assert {rivals for result in results for rivals in result.rivals} == {2}
    assert compare.describe_leader(results) == "A and C are each clearly best somewhere"


def test_the_leader_is_told_with_its_epsilons_and_only_where_something_was_decided():
    def leader(*plotted):
        return compare.describe_leader(compare_lines(*plotted))

    a, b = build_shifted_line("a", [0, 0, 0, 0.1, 0.1, 0, 0]), build_shifted_line("b", [0] * 7)
    assert leader(a, b) == "A is clearly best from epsilon 1 to 2"
    hollow = leader(a._replace(reason="no proof"), b)
    assert hollow == "A is clearly best from epsilon 1 to 2, as claimed"
    gap = build_shifted_line("a", [0, 0.1, 0, 0.1, 0.1, 0, 0])
    assert "best in places from epsilon 0.2 to 2" in leader(gap, b)
    better_once = build_shifted_line("a", [0, 0, 0, 0.1, 0, 0, 0])
    assert leader(better_once, b) == "A is clearly best at epsilon 1"
    equal = build_shifted_line("c", [0] * 7)
    assert leader(b, equal) == "B and C tie for best"
    worse = build_shifted_line("d", [-0.1, 0, 0, 0, 0, 0, 0])
    assert leader(b, worse, equal) == "B and C tie for best"
    worse_once = build_shifted_line("e", [0, -0.1, 0, 0, 0, 0, 0])
    hollow = leader(b._replace(reason="no proof"), worse_once, worse)
    assert hollow.endswith(" clearly better at any epsilon than B, as claimed")
    turns = [
        build_shifted_line(key, [0.1 if (k + j) % 3 else 0 for k in range(7)])
        for j, key in enumerate("abc")
    ]
    assert leader(*turns) == "Each mechanism is clearly worse than another somewhere"
    assert leader(a) == ""
    few = [place_line(build_line(rising, 2, key=key)) for key in "ab"]
    assert leader(*few) == ""  # two seeds decide nothing


@pytest.mark.parametrize("seed", range(6))
def test_a_title_names_at_each_epsilon_the_lines_that_no_other_clearly_beats(seed):
    """Computed a second way: SciPy's t test of the differences, by a level for all epsilons."""
    rng = np.random.default_rng(seed)
    plotted = [
        place_line(
            build_line(
                rising,
                key=key,
                values=rising(GRID)[:, None]
                + rng.normal(0, 0.03, (7, 1))
                + rng.normal(0, s, (7, 6)),
            )
        )
        for key, s in zip("abc", (0.004, 0.01, 0.02), strict=True)
    ]
    comparisons = compare_lines(*plotted)
    for k, epsilon in enumerate(GRID.tolist()):
        beats = {}
        for first, second in itertools.permutations(plotted, 2):
            test = ttest_1samp(first.line.values[k] - second.line.values[k], 0)
            is_clear = test.pvalue < 0.05 / len(GRID) and test.statistic > 0
            beats[first.line.label, second.line.label] = is_clear
        unbeaten = [name for name in "ABC" if not any(beats.get((o, name)) for o in "ABC")]
        best = [n for n in unbeaten if all(beats.get((n, o), True) for o in "ABC")]
        title = compare.conclude_comparison(plotted, comparisons, epsilon)
        assert title.endswith(f" at epsilon {epsilon:g}") or len(unbeaten) == 1
        if best:
            assert title == f"{best[0]} is clearly best at epsilon {epsilon:g}"
        elif len(unbeaten) > 1:
            assert title.partition(" tie for best")[0] == " and ".join(
                filter(None, (", ".join(unbeaten[:-1]), unbeaten[-1]))
            )
        else:
            assert (
                title == f"No mechanism is clearly better at epsilon {epsilon:g} than {unbeaten[0]}"
            )


def test_a_title_of_curves_that_are_not_compared_says_so_or_reads_the_only_one():
    one = build_shifted_line("a", [0.1] * 7)
    value = one.line.metric.format_value(float(one.band.mean[3]))
    conclude = compare.conclude_comparison
    assert conclude([one], compare_lines(one), GRID[3]) == f"A has accuracy {value} at epsilon 1"
    assert conclude([one], compare_lines(one), 77) == "Nothing is computed at epsilon 77"
    assert conclude([], [], 1.0) == "Nothing is computed at epsilon 1"
    few = [place_line(build_line(rising, 2, key=key)) for key in "ab"]
    assert conclude(few, compare_lines(*few), GRID[3]) == "These curves cannot be compared"


def test_differences_to_the_best_are_taken_seed_by_seed_and_the_best_is_at_zero():
    values = rising(GRID)[:, None] + np.array([0.0, 0.1, 0.2])  # seeds differ more than lines
    first = place_line(build_line(rising, 3, key="a", values=values))
    second = place_line(build_line(rising, 3, key="b", values=values - 0.02))
    differences, best = compare.subtract_best([first, second])
    assert np.allclose(differences[0].line.values, 0)
    factor = 100 if first.line.metric.is_share else 1
    assert np.allclose(np.abs(differences[1].line.values), 0.02 * factor)
    assert [*best] == GRID.tolist()
    spread = differences[1].band.high - differences[1].band.low
    assert np.allclose(spread, 0, atol=1e-9)


def test_bands_of_differences_go_by_the_rule_of_the_sentence():
    """A band excludes zero exactly where the best line is clearly better than its line."""
    one_level = 0
    for k in range(200):
        plotted_lines = [
            place_line(build_line(rising, std=0.01, key=chr(1000 + 2 * k + j))) for j in range(2)
        ]
        first, second = (entry.line for entry in plotted_lines)
        signs = compare.compare_pair(*plotted_lines).signs
        differences, _ = compare.subtract_best(plotted_lines)
        for index, sign in enumerate(signs):
            below = [entry.band.high[index] < 0 for entry in differences]
            assert below == [sign < 0, sign > 0]
        difference = replace(first, values=first.values - second.values)
        one_level += sum(abs(i.mean) > i.half_width for i in difference.intervals)
    assert one_level > 0  # with a level for each epsilon alone, some would exclude zero


def test_mechanisms_cost_the_same_only_while_their_intervals_overlap():
    same = [
        place_line(build_line(rising, 3, key=key, values=rising(GRID)[:, None] + shift))
        for key, shift in (
            ("a", np.array([-0.01, 0.0, 0.01])),
            ("b", np.array([-0.011, 0.001, 0.01])),
            ("c", np.array([-0.201, -0.2, -0.199])),
        )
    ]
    answers = [numbers.find_required_epsilons(entry, [float(rising(GRID)[3])])[0] for entry in same]
    equal = numbers.find_equal_costs(answers)
    assert [answer.plotted.line.label for answer in equal] == ["A", "B"]
    assert numbers.describe_cost(answers).startswith("These two cost the same at 65.0 %: epsilon ")
    claimed = [answers[0], answers[1]._replace(plotted=same[1]._replace(reason="no proof"))]
    assert not numbers.find_equal_costs(claimed)
    assert not numbers.find_equal_costs(answers[1:])


def test_lines_stand_only_among_those_whose_epsilons_count_the_same():
    units = {"change": USER_REPLACED, "certified": {"user_replace": GRID}}
    rating, user = build_shifted_line("a", [0] * 7), build_shifted_line("b", [0.1] * 7, **units)
    results = compare_lines(rating, user, build_shifted_line("c", [0.1] * 7))
    assert [result.plotted.line.label for result in results] == ["A", "C", "B"]  # side by side
    assert results[2].rivals == (0,) * 7
    assert not any(results[2].best)
    assert compare.describe_leader(results) == (
        "C is clearly best from epsilon 0.1 to 10, among those counted alike"
    )


# --- findings in a title ---------------------------------------------------------------------


def describe_cost(target, *plotted, without=None):
    answers = [find_smallest_epsilon(curve, target) for curve in plotted]
    return numbers.describe_cost(answers, without)


def test_the_title_names_what_a_wanted_quality_costs():
    a, low = build_shifted_line("a", [0] * 7), build_shifted_line("b", 0.55 - rising(GRID))
    assert describe_cost(0.65, a) == "A needs epsilon 1 for accuracy 65.0 %"
    assert describe_cost(0.65, a, low).endswith("for accuracy 65.0 %; nothing else gets there")
    claimed = place_line(build_line(rising, key="c"))._replace(reason="no proof")
    assert describe_cost(0.65, a, claimed).endswith("; others only claim to get there")
    finding = describe_cost(0.65, claimed, low)
    assert finding == "Only claims that are not proved reach accuracy 65.0 %"
    elsewhere = claimed._replace(role=Role.AS_CLAIMED)
    finding = describe_cost(0.65, elsewhere, low)
    assert finding == "Nothing certified in this unit reaches accuracy 65.0 %"
    start = "Accuracy 40.0 % takes epsilon 0.1 or less with 2 "
    assert describe_cost(0.4, a, low, claimed) == start + "certified mechanisms of 3"
    assert describe_cost(0.4, a, low) == start + "certified mechanisms of 2"
    assert numbers.describe_cost([]) == ""
    # One seed finds nothing.
    assert describe_cost(0.65, place_line(build_line(rising, seeds=1))) == ""


# --- rows from two places --------------------------------------------------------------------


def build_rows(id, values, epsilons, seeds, claims):
    """Build stored rows of a curve: values by epsilon and seed."""
    keys = itertools.product(epsilons, seeds)
    points = {
        ("accuracy", *key): v for key, v in zip(keys, np.ravel(values), strict=True) if v == v
    }
    return lines.CurveRows(
        build_info(id)._replace(mechanism=id), points, dict.fromkeys(epsilons, claims)
    )


def test_rows_of_ones_own_and_rows_that_came_are_one_line():
    metric, ids, claim = METRICS["accuracy"], ["input-flip"], Claim(1.0, RATING, {}, {}, (), "1")
    grid = GRID.tolist()
    values = build_line(rising, seeds=5).values
    rows = build_rows("input-flip", values, grid, range(1, 6), claim)
    some_rows = build_rows("input-flip", [[0.7, 0.8], [np.nan, 0.9]], [0.2, 1.0], [2, 9], claim)
    baseline_rows = build_rows("private-majority", values, grid, range(1, 6), claim)
    shipped = {"input-flip": rows, "private-majority": baseline_rows}
    joined = lines.build_curve_chart({"input-flip": some_rows}, ids, metric, shipped)
    (joined_line,) = joined.lines
    assert joined_line.epsilon.tolist() == grid
    assert joined_line.seeds.tolist() == [1, 2, 3, 4, 5, 9]
    assert joined_line.values[1].tolist()[1::4] == [0.7, 0.8]  # one's own before what came
    assert joined_line.values[3, 1] == values[3, 1]
    assert joined_line.values[3, 5] == 0.9
    assert np.isnan(joined_line.values[0, 5])
    assert np.array_equal(joined_line.values[:, [0, 2, 3, 4]], values[:, [0, 2, 3, 4]])
    assert joined_line.claimed.tolist() == [1.0] * len(grid)
    assert [baseline.mechanism for baseline in joined.private_baselines] == ["private-majority"]
    assert np.array_equal(lines.build_curve_chart({}, ids, metric, shipped).lines[0].values, values)
    many_rows, few = (build_rows("clear", [[0.7] * n], [None], range(n), claim) for n in (5, 1))
    for local, came in ((many_rows, few), (few, many_rows)):
        chart = lines.build_curve_chart({"clear": local}, ids, metric, {"clear": came})
        (level,) = chart.nonprivate_counterparts
        assert len(level.seeds) == level.values.size == 5


def test_an_interval_that_leaves_the_grid_is_open():
    estimate = numbers.compute_estimate(3.0, np.array([0.0] * 30 + [3.0] * 40 + [math.inf] * 30), 5)
    assert numbers.format_estimate(estimate, 0.1, 10.0).endswith("below 0.1 to beyond 10)")
