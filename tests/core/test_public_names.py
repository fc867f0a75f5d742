"""What a researcher imports: few names with examples, short texts, texts as settings, sentences."""

import doctest
import inspect
import re
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import dpmc_core as dpmc
from dpmc_core import registry
from dpmc_core.errors import DpmcError
from dpmc_core.privacy import Change
from dpmc_core.ratings import PublicFacts
from dpmc_core.settings import format_setting, list_settings

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = {"user": [*"aabbcc"], "item": [*"xyxyxy"], "rating": [5, 3, 4, 2, 5, 1]}
RANGE = {"low": 1, "high": 5}
PUBLIC = PublicFacts(users=3, items=2, low=-1, high=1)


@pytest.fixture(scope="module")
def frame():
    return pytest.importorskip("pandas").DataFrame(COLUMNS)


@pytest.fixture(scope="module")
def result(frame):
    return dpmc.run("private-constant", frame, epsilon=1.0, **RANGE)


@pytest.mark.parametrize("name", dpmc.__all__)
def test_a_public_name_has_an_example_that_runs(name):
    value = getattr(dpmc, name)
    module = vars(sys.modules[value.__module__])
    (example,) = doctest.DocTestFinder(recurse=False).find(value, name, globs=dict(module))
    assert example.examples
    assert doctest.DocTestRunner().run(example).failed == 0
    for section in ("Args:", "Raises:") if inspect.isfunction(value) and module else ():
        takes_nothing_wrong = name == "list_suitable_mechanisms"
        assert takes_nothing_wrong or section in value.__doc__


def test_an_unknown_name_is_answered_with_the_names_that_there_are():
    with pytest.raises(AttributeError, match=r"no attribute 'Rating': it has Dataset, .*Ratings, "):
        dpmc.Rating  # noqa: B018


def test_the_version_stands_in_one_place():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "dpmc_core.__version__"}
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    (date,) = re.findall(r"^date-released: ([\d-]+)$", citation, flags=re.MULTILINE)
    assert f"\nversion: {dpmc.__version__}\n" in citation
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert headings[0] == f"[{dpmc.__version__}] - {date}"


def test_every_package_is_typed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    for pattern in project["tool"]["setuptools"]["packages"]["find"]["include"]:
        assert (ROOT / pattern.strip("*") / "py.typed").is_file()


@pytest.mark.parametrize("id", [*registry.MECHANISMS])
def test_a_setting_takes_its_text(id):
    """Also where a class is called without `create`."""
    cls = registry.get_mechanism(id)
    mechanism = registry.create(id, epsilon=1.0)
    texts = {s.name: format_setting(getattr(mechanism, s.name)) for s in list_settings(cls)}
    assert cls(**texts) == registry.create(id, **texts) == mechanism


def test_a_run_takes_names_frames_and_ratings(frame, result):
    named = dpmc.run("private-constant", "restaurants", epsilon="1")
    assert named.problem.name == "restaurants"
    assert dpmc.run("private-constant", frame, epsilon=1.0, reading=RANGE).metrics == result.metrics
    ratings = dpmc.Ratings.from_frame(frame, **RANGE)
    for data in (ratings, dpmc.Dataset(ratings, "books")):
        again = dpmc.run(dpmc.create("private-constant", epsilon=1.0), data)
        assert again.metrics == result.metrics


def test_objects_are_shown_by_a_line_and_a_small_table(frame, result):
    loaded = dpmc.load("one-bit-lab")
    facts = loaded.ratings.public, dpmc.data.ReadOptions(**RANGE)
    parts = result.model, result.problem, result.mechanism, result.guarantee.certified()
    for value in (*parts, *facts, dpmc.Dataset(loaded.ratings, "x"), DpmcError("x")):
        assert len(repr(value)) < 400
    for value in (result, result.guarantee, result.problem.train, loaded):
        assert len(repr(value)) < 300
        assert repr(value).startswith(f"{type(value).__name__}(")
        assert value._repr_html_().count("<tr>") == len(value.summarise())
    measured = dpmc.run("private-item-mean", "restaurants", epsilon=1)
    metrics = measured.metrics, measured.baselines["private-own-mean"]
    rmse, baseline = (f"{values['rmse']:.4g}" for values in metrics)
    assert f"metrics: rmse {rmse}, mae" in repr(measured)
    assert f"baseline private-own-mean: rmse {baseline}, mae" in repr(measured)
    assert "certified: epsilon 1 per user at delta 1e-06)" in repr(measured)
    nothing = str(dpmc.create("clear").guarantee(PUBLIC).certified(Change.CELL))
    assert nothing.startswith("no epsilon per user-item cell: ")
    hostile = dpmc.Dataset(dpmc.Ratings.from_frame(frame, **RANGE), "<script>")
    assert "<script>" not in hostile._repr_html_()


def test_a_bound_is_rounded_up_and_never_stated_too_low():
    from dpmc_core.display import format_bound

    assert format_bound(1 + 2e-16) == "1"
    assert format_bound(1.23401) == "1.235"
    for epsilon in np.random.default_rng(0).exponential(10, 100):
        assert epsilon * (1 - 1e-9) <= float(format_bound(epsilon)) <= epsilon * 1.001


def test_a_result_becomes_a_frame_with_a_row_per_method(result):
    table = result.to_frame()
    assert table.columns[:5].to_list() == ["data", "mechanism", "epsilon", "seed", "method"]
    rows = table.set_index("method")["rmse"].to_dict()
    expected = {id: values["rmse"] for id, values in result.baselines.items()}
    assert rows == {"private-constant": result.metrics["rmse"], **expected}


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda _: dpmc.create("input-flop"), "got 'input-flop'; did you mean input-flip"),
        (lambda _: dpmc.create(3), "mechanism must be a known id, got 3"),
        (
            lambda _: dpmc.create("input-flip", epsilon=1, link="logit"),
            "link must be one of logistic, .*, got 'logit'; did you mean logistic",
        ),
        (lambda _: dpmc.create("input-flip", epsilon="x"), "epsilon must be a number, got 'x'"),
        (lambda _: dpmc.create("input-flip", epsilom=1), "got 'epsilom'; did you mean epsilon"),
        (lambda _: dpmc.run("input-flip", "jokez", epsilon=1), "did you mean jokes"),
        (lambda _: dpmc.run(3, "jokes"), "mechanism must be an id, or a mechanism"),
        (lambda _: dpmc.run("majority", 3), "ratings must be a data frame .*, got 3"),
        (lambda f: dpmc.run("majority", f), "low and high must be given: .* such as low=1, high=5"),
        (lambda f: dpmc.Ratings.from_frame(f, low=1), "low and high must be given"),
        (lambda f: dpmc.run("majority", f, lo=1), "setting of majority must be .*, got 'lo'"),
        (
            lambda f: dpmc.run("majority", f, reading={"lo": 1}),
            "reading of a data frame must be one of user, item, rating, low, high, got 'lo'",
        ),
        (lambda _: dpmc.run("majority", [1, 2]), r"must be a data frame .*, got \[1, 2\]"),
        (lambda f: dpmc.run("majority", f["rating"], **RANGE), "must be a data frame"),
        (lambda f: dpmc.run("majority", f[[]], **RANGE), r"one of \(there are none\), got 'user'"),
        (
            lambda _: dpmc.build_problem(dpmc.load("jokes"), "rating"),
            "task must be one of binary, ratings, ranking, got 'rating'; did you mean ratings",
        ),
        (lambda f: dpmc.run("majority", (f, f)), "must be Ratings, got .* type DataFrame"),
        (lambda f: dpmc.run("majority", (f,)), "must be Ratings, got .* type tuple"),
        (
            lambda f: dpmc.run("majority", dpmc.Ratings.from_frame(f, **RANGE), reading=RANGE),
            "reading must be left out for data that was read",
        ),
        (lambda _: dpmc.build_problem(3, "ratings"), "must be Ratings, got .* type int"),
        (
            lambda _: dpmc.create("output", epsilon=1).guarantee(PUBLIC).certified("user"),
            "change must be a Change: RATING, .*, got 'user'",
        ),
        (lambda f: dpmc.load(f), "must be the name .* type DataFrame; Ratings.from_frame"),
        (lambda f: dpmc.data.read(f), "must be the name .* type DataFrame"),
        (lambda f: dpmc.data.read_pair(f, f), "must be the name .* type DataFrame"),
        (lambda f: dpmc.Dataset(f, "books"), "must be Ratings, got .* type DataFrame"),
        (lambda _: dpmc.Ratings.from_frame("a.csv", **RANGE), "got 'a.csv'; dpmc_core.load takes"),
        (lambda f: dpmc.Ratings.from_frame(f, user="users", **RANGE), "did you mean user"),
        (
            lambda f: dpmc.create("output", epsilon=1).guarantee(f),
            r"must be PublicFacts, got .* type DataFrame; .*from_frame\(frame, low=1, high=5\)\.p",
        ),
        (
            lambda f: dpmc.run("majority", f, reading=f, **RANGE),
            "reading must be a mapping such as .*, got an object of the type DataFrame",
        ),
        (lambda _: dpmc.load("jokes", low=[1]), r"low of jokes must be a number, got \[1\]"),
        (
            lambda f: dpmc.build_problem(dpmc.load("jokes"), "ratings", steps=f),
            "preparation step must be one of .*, got 'user'",
        ),
        (
            lambda _: dpmc.build_problem(dpmc.load("jokes"), "ratings", split=0.2),
            "split must be a RandomShare, .*, got 0.2",
        ),
    ],
)
def test_what_is_wrong_is_a_sentence(frame, call, sentence):
    with pytest.raises(DpmcError, match=sentence):
        call(frame)


@pytest.fixture(scope="module")
def restaurants():
    return dpmc.load("restaurants")


ABSURD = [5, None, "nonsense", [1, 2], float("nan"), {"a": 1}, object(), np.arange(3), b"x", int]
CALLS = {
    "run mechanism": lambda value, data: dpmc.run(value, data),
    "run data": lambda value, _: dpmc.run("majority", value),
    "run seed": lambda value, data: dpmc.run("majority", data, value),
    "run reading": lambda value, data: dpmc.run("majority", data.name, reading=value),
    "create": lambda value, _: dpmc.create(value),
    "create epsilon": lambda value, _: dpmc.create("dpals", epsilon=value),
    "load": lambda value, _: dpmc.load(value),
    "load seed": lambda value, _: dpmc.load("one-bit-lab", seed=value),
    "load low": lambda value, _: dpmc.load("restaurants", low=value),
    "build_problem data": lambda value, _: dpmc.build_problem(value, "ratings"),
    "build_problem task": lambda value, data: dpmc.build_problem(data, value),
    "build_problem steps": lambda value, data: dpmc.build_problem(data, "ratings", steps=value),
    "build_problem split": lambda value, data: dpmc.build_problem(data, "ratings", split=value),
    "build_problem seed": lambda value, data: dpmc.build_problem(data, "ratings", seed=value),
    "build_problem name": lambda value, data: dpmc.build_problem(data, "ratings", name=value),
    "Dataset": lambda value, _: dpmc.Dataset(value, "x"),
    "Dataset name": lambda value, data: dpmc.Dataset(data.ratings, value),
    "Dataset truth": lambda value, data: dpmc.Dataset(data.ratings, "x", "", value),
    "Ratings": lambda value, _: dpmc.Ratings(value, value, value, value),
    "Ratings arrays": lambda value, _: repr(dpmc.Ratings(value, value, value, PUBLIC)),
    "from_frame": lambda value, _: dpmc.Ratings.from_frame(value, **RANGE),
    "from_frame low": lambda value, _: dpmc.Ratings.from_frame(COLUMNS, low=value, high=5),
    "build public": lambda value, _: dpmc.Ratings.build([0, 1], [0, 1], [1, 1], value),
    "build users": lambda value, _: dpmc.Ratings.build(value, [0, 1], [1, 1], PUBLIC),
    "build values": lambda value, _: dpmc.Ratings.build([0, 1], [0, 1], value, PUBLIC),
    "build times": lambda value, _: dpmc.Ratings.build([0, 1], [0, 1], [1, 1], PUBLIC, times=value),
    "guarantee": lambda value, _: dpmc.create("output", epsilon=1).guarantee(value),
    "guarantee public": lambda value, _: dpmc.create("output", epsilon=1).guarantee(public=value),
    "certified": lambda value, _: dpmc.create("clear").guarantee(PUBLIC).certified(value),
    "loss": lambda value, _: dpmc.create("clear").guarantee(PUBLIC).loss(value),
    "read": lambda value, _: dpmc.data.read(value),
    "read_pair": lambda value, _: dpmc.data.read_pair(value, value),
}
# Values that a call takes.
FITTING = {
    *("run seed 5", "run seed b'x'", "load seed 5", "load seed None", "build_problem seed 5"),
    *("create epsilon 5", "load low None", "build_problem split None", "Dataset name 'nonsense'"),
    *("build_problem name 'nonsense'", "Dataset truth None", "Ratings arrays array([0, 1, 2])"),
    *("build times None", "build times [1, 2]", "certified None", "loss None"),
    *("from_frame frame", "build users [1, 2]"),
}


@pytest.mark.parametrize("name", CALLS)
def test_an_absurd_argument_is_answered_with_a_sentence(name, frame, restaurants):
    for value in (*ABSURD, frame):
        text = "frame" if value is frame else repr(value)
        if f"{name} {text}" not in FITTING:
            with pytest.raises(DpmcError):
                CALLS[name](value, restaurants)


def test_a_problem_takes_the_texts_of_steps(restaurants):
    texts = ["cap=2", "binarise=mean"]
    problem = dpmc.build_problem(restaurants, "binary", steps=texts)
    assert list(problem.steps) == texts
    assert dpmc.build_problem(restaurants, "ratings", steps="cap=2").steps == ("cap=2",)
