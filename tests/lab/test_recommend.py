"""The recommendation: certified for what was asked, by sizes alone, and typed as printed."""

import itertools
import json
import shlex

import numpy as np
import pytest

from dpmc_core import registry
from dpmc_core.errors import InvalidSetting
from dpmc_core.model import Task
from dpmc_core.privacy import CELL, RATING, USER_EMPTIED, USER_REPLACED, Change, Trust
from dpmc_core.ratings import PublicFacts
from dpmc_data import datasets
from dpmc_lab.cli import build_parser, main
from dpmc_lab.cli.methods import TRUST
from dpmc_lab.cli.options import UNITS
from dpmc_lab.study.advice import find_recommended_id, recommend_method, run_at_guarantee
from dpmc_lab.study.verify import verify_release

RANGES = {Task.BINARY: (-1, 1), Task.RATINGS: (1, 5), Task.RANKING: (0, 1)}
SIZES = ((40, 30, None), (300, 1_000, 20), (2_000, 100, None))
SMALL, MANY_ITEMS, MANY_USERS = SIZES
ROUNDING = 1 + 1e-9


def build_public_facts(task, size=SMALL):
    users, items, cap = size
    low, high = RANGES[task]
    return PublicFacts(users=users, items=items, low=low, high=high, cap=cap)


def is_refused(task, change, trust):
    """Whether no method certifies it: only ratings themselves hide among likes, and whoever trusts
    nobody has no promise for a whole row."""
    likes = task is Task.BINARY and change is not RATING
    return likes or (trust is Trust.LOCAL and change.per_user)


# --- the rule --------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.013, 1.0, 17.3])
@pytest.mark.parametrize("trust", TRUST.values(), ids=TRUST)
@pytest.mark.parametrize("change", Change)
@pytest.mark.parametrize("task", Task)
def test_a_method_certified_for_what_was_asked_or_a_sentence(task, change, trust, epsilon):
    for size in SIZES:
        public = build_public_facts(task, size)
        if is_refused(task, change, trust):
            with pytest.raises(InvalidSetting, match=r"^unit must be .*(take|trust)"):
                recommend_method(task, change, public, epsilon=epsilon, trust=trust)
            continue
        advice = recommend_method(task, change, public, epsilon=epsilon, trust=trust)
        guarantee = advice.mechanism.guarantee(public)
        assert advice.mechanism.task is task
        delta = 1e-6 if registry.has_setting(type(advice.mechanism), "delta") else 0.0
        assert advice.certified == guarantee.certified(change, delta)
        assert 0.99 * epsilon <= advice.certified.epsilon <= epsilon * ROUNDING
        assert guarantee.trust is Trust.LOCAL or trust is Trust.CURATOR
        assert advice.reason


@pytest.mark.parametrize(
    ("task", "trust", "epsilon", "size", "id"),
    [
        (Task.BINARY, Trust.CURATOR, 1.0, SMALL, "input-flip"),
        (Task.RATINGS, Trust.LOCAL, 1.99, SMALL, "modified-laplace"),
        (Task.RATINGS, Trust.LOCAL, 2.0, SMALL, "randomised-response"),
        (Task.RATINGS, Trust.CURATOR, 2.99, MANY_ITEMS, "private-effects"),
        (Task.RATINGS, Trust.CURATOR, 3.0, MANY_ITEMS, "randomised-response"),
        (Task.RATINGS, Trust.CURATOR, 3.0, MANY_USERS, "private-effects"),
        (Task.RANKING, Trust.LOCAL, 1.0, SMALL, "dplcf"),
    ],
)
def test_the_rule(task, trust, epsilon, size, id):
    change = RATING if task is Task.BINARY else CELL
    advice = recommend_method(
        task, change, build_public_facts(task, size), epsilon=epsilon, trust=trust
    )
    assert advice.mechanism.id == id


@pytest.mark.parametrize(
    ("users", "items", "epsilon", "id"),
    [
        (30, 100, 0.5, "private-own-mean"),
        (138, 130, 0.05, "private-own-mean"),
        (300, 1_000, 0.2, "private-own-mean"),
        (300, 1_000, 0.5, "private-effects"),
        (943, 1_682, 1.0, "private-effects"),
        (1_000, 200, 0.06, "private-effects"),
    ],
)
def test_what_loses_to_own_averages_is_not_recommended(users, items, epsilon, id):
    """Differences as benchmarks/recommend.py prints them: worse, the first three; then better."""
    public = build_public_facts(Task.RATINGS, (users, items, None))
    advice = recommend_method(Task.RATINGS, USER_EMPTIED, public, epsilon=epsilon)
    assert advice.mechanism.id == id
    for options in ({"trust": Trust.CURATOR}, {"trust": Trust.CURATOR, "personal": True}):
        other = find_recommended_id(Task.RATINGS, USER_EMPTIED, public, epsilon, **options)
        assert other == ("private-effects" if "personal" in options else id)


def test_what_is_named_instead_is_certified():
    """The unit that a sentence names gets a method, whoever is trusted."""
    cases = [
        (Task.BINARY, *case, RATING) for case in itertools.product((CELL, USER_EMPTIED), Trust)
    ]
    cases += [(t, USER_EMPTIED, Trust.LOCAL, CELL) for t in (Task.RATINGS, Task.RANKING)]
    for task, change, trust, named in cases:
        public, options = build_public_facts(task), {"epsilon": 1.0, "trust": trust}
        with pytest.raises(
            InvalidSetting, match="take unit " + {RATING: "rating", CELL: "cell"}[named]
        ):
            recommend_method(task, change, public, **options)
        assert recommend_method(task, named, public, **options)


@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-3])
def test_the_budget_holds_at_the_delta_asked_for(delta):
    for change in (USER_EMPTIED, USER_REPLACED):
        public = build_public_facts(Task.RATINGS)
        advice = recommend_method(Task.RATINGS, change, public, epsilon=1.0, delta=delta)
        assert advice.mechanism.delta == delta
        guarantee = advice.mechanism.guarantee(public)
        assert 0.99 <= guarantee.certified(change, delta).epsilon <= ROUNDING
        assert guarantee.certified(change, delta / 10).epsilon > 1.0


# --- the command -----------------------------------------------------------------------------


def write_ratings(path, seed):
    """Write ratings of 40 users and 30 items; cells and values depend on the seed."""
    rng = np.random.default_rng(seed)
    mask = rng.random((40, 30)) < (0.3 + 0.1 * seed)
    np.fill_diagonal(mask, True)
    mask[30:, 0] = True
    users, items = np.nonzero(mask)
    values = rng.integers(1, 6, len(users))
    rows = zip(users, items, values, strict=True)
    path.write_text("user,item,rating\n" + "".join(f"u{u},i{i},{v}\n" for u, i, v in rows))
    return path


@pytest.fixture
def stars(tmp_path):
    return write_ratings(tmp_path / "stars of mine.csv", 1)


def capture_output(capsys, *argv):
    assert main(["recommend", *map(str, argv)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


@pytest.mark.parametrize("trust", TRUST)
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("task", [task.value for task in Task])
def test_the_command_as_printed_certifies_no_more_than_asked(capsys, stars, task, unit, trust):
    argv = ["--range", "1:5", "--task", task, "--unit", unit, "--trust", trust]
    argv += ["--epsilon", "0.7", "--delta", "1e-5"]
    if is_refused(Task(task), UNITS[unit], TRUST[trust]):
        assert main(["recommend", str(stars), *argv]) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("dpmc: unit must be ")
        return
    report = json.loads(capture_output(capsys, stars, *argv, "--json"))
    text = capture_output(capsys, stars, *argv)
    printed = [line for line in text.splitlines() if line.startswith("dpmc ")]
    assert printed == [
        c for c in (report["command"], report["answer"], report["release"]["command"]) if c
    ]
    for line in printed:
        build_parser().parse_args(shlex.split(line)[1:])
    assert f"({report['mechanism']})" in text
    assert (", delta 1e-5 per" in " ".join(text.split())) is ("delta" in report["settings"])
    program, *command_argv = shlex.split(report["command"])
    assert program == "dpmc"
    args = build_parser().parse_args(command_argv)
    delta = vars(args).get("delta")
    typed = registry.create(args.mechanism, epsilon=args.epsilon, delta=delta)
    low, high = RANGES[Task(task)]
    public = PublicFacts(users=40, items=30, low=low, high=high)
    guarantee = typed.guarantee(public)
    assert delta in (None, 1e-5)
    delta = 1e-5 if registry.has_setting(type(typed), "delta") else 0.0
    proved = guarantee.certified(UNITS[unit], delta).epsilon
    assert 0.99 * 0.7 <= proved <= 0.7 * ROUNDING
    assert report["certified"] == {"epsilon": pytest.approx(proved), "delta": delta}


@pytest.mark.parametrize(
    ("task", "unit"), [("ratings", "user"), ("ranking", "user"), ("binary", "rating")]
)
def test_the_release_as_printed_runs_and_promises_what_was_asked(
    capsys, stars, monkeypatch, task, unit
):
    pytest.importorskip("opendp")
    monkeypatch.chdir(stars.parent)
    argv = ["--range", "1:5", "--task", task, "--unit", unit, "--json"]
    report = json.loads(capture_output(capsys, stars.name, *argv))
    (stars.parent / "items.txt").write_text("".join(f"i{k}\n" for k in range(35)))  # five unrated
    assert main(shlex.split(report["release"]["command"])[1:]) == 0
    capsys.readouterr()
    verified = verify_release(stars.parent / "model.npz")
    delta = report["certified"]["delta"]
    assert verified.guarantee.public.shape == (40, 35)
    assert verified.guarantee.certified(UNITS[unit], delta).epsilon <= ROUNDING
    assert "weakens" not in report["release"]["note"]


@pytest.mark.slow
def test_the_command_is_one_that_runs(capsys, stars):
    """Options of reading go with it: a range that is not given is an error, or another range."""
    report = json.loads(capture_output(capsys, stars, "--range", "0:5", "--unit", "cell", "--json"))
    _, *command_argv = shlex.split(report["command"])
    assert main([*command_argv, "--json"]) == 0
    fit_report = json.loads(capsys.readouterr().out)
    assert fit_report["mechanism"] == report["mechanism"]
    assert fit_report["settings"] == report["settings"]
    assert (fit_report["data"]["users"], fit_report["data"]["items"]) == (40, 30)


def test_no_rating_is_read(capsys, tmp_path):
    """Two sets of one size, with other cells and other values, get the same advice."""
    first_path, second_path = (write_ratings(tmp_path / f"{seed}.csv", seed) for seed in (1, 4))
    read = [datasets.load(path, low=1, high=5).ratings for path in (first_path, second_path)]
    assert read[0].public == read[1].public
    assert len(read[0]) != len(read[1])
    for task, unit in (("ratings", "user"), ("ratings", "cell"), ("ranking", "user")):
        argv = ["--range", "1:5", "--task", task, "--unit", unit, "--json"]
        first, second = (
            json.loads(capture_output(capsys, path, *argv)) for path in (first_path, second_path)
        )
        assert json.loads(json.dumps(first).replace("1.csv", "4.csv")) == second


@pytest.fixture(scope="module")
def restaurants():
    return datasets.load("restaurants")


@pytest.mark.parametrize("change", [USER_EMPTIED, CELL])
@pytest.mark.parametrize("id", ["private-effects", "private-item-mean", "randomised-response"])
def test_mechanisms_are_compared_at_one_certified_epsilon(restaurants, id, change):
    result = run_at_guarantee(id, restaurants, 2.0, change, seed=3)
    assert 2.0 * (1 - 1e-3) <= result.guarantee.certified(change).epsilon <= 2.0
    assert result.seed == 3
    assert {"rmse", "mae"} <= {*result.metrics}
    assert result.baseline_id in result.baselines


def test_a_mechanism_that_cannot_be_set_so_says_why(restaurants):
    with pytest.raises(InvalidSetting, match=r"finite to calibrate, got inf; .*user factors"):
        run_at_guarantee("dpmf", restaurants, 2.0)
    with pytest.raises(InvalidSetting, match="no bound per user"):
        run_at_guarantee("input-flip", restaurants, 2.0)
