"""The house holds together: imports flow down, and the core stays light."""

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dpmc_core

ROOT = Path(__file__).resolve().parent.parent
CORE = ROOT / "dpmc_core"
PAGES = ROOT / "pages"

# Each module may import those before it; a package counts as one place.
ORDER = [
    "errors",
    "archives",
    "stopping",
    "version",
    "paths",
    "locks",
    "settings",
    "ratings",
    "privacy",
    "model",
    "links",
    "data",
    "metrics",
    "glossary",
    "toplists",
    "bounds",
    "solvers",
    "mechanisms",
    "registry",
    "plugins",
    "problem",
    "split_files",
    "recommend",
    "experiment",
    "faults",
    "release",
    "refute",
    "deployment",
    "verify",
    "store",
    "sweep",
    "ledger",
    "choice",
    "paired",
    "answer",
    "protocol",
    "room",
    "views",
    "papers",
    "lessons",
    "cli",
    "__main__",
]
DRAWS = {"laplace", "normal", "standard_normal", "gamma", "standard_gamma", "exponential"}
PLAIN = {name for name in dir(np.random.Generator) if not name.startswith("_")}
CORE_FILES = sorted(CORE.rglob("*.py"))
PAGE_FILES = sorted(PAGES.rglob("*.py"))
TEST_FILES = sorted((ROOT / "tests").glob("*.py"))


def name_of(path):
    return str(path.relative_to(ROOT))


def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def place_of(path):
    """The module or package directly under dpmc_core that a file belongs to."""
    return path.relative_to(CORE).parts[0].removesuffix(".py")


def test_every_place_has_its_rank():
    places = {place_of(path) for path in CORE_FILES} - {"__init__"}
    assert places <= set(ORDER)


def test_every_package_says_what_it_is():
    for path in (*CORE.rglob("__init__.py"), *PAGES.rglob("__init__.py")):
        assert ast.get_docstring(tree_of(path)), name_of(path)


def imports_of(path):
    """Dotted names of everything a file imports, at the top or inside functions."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", CORE_FILES, ids=name_of)
def test_core_imports_flow_down(path):
    place = place_of(path)
    if place == "__init__":  # lazy: see the tests of the front door
        return
    for imported in imports_of(path):
        package, *rest = imported.split(".")
        assert package not in {"streamlit", "plotly", "pages", "app"}, imported
        if package != "dpmc_core" or not rest:
            continue
        target = rest[0]
        if target == place:
            assert path.parent != CORE, f"{name_of(path)} imports itself"
            if place == "mechanisms":  # a family imports nothing of another, but their common base
                assert imported.startswith("dpmc_core.mechanisms.per_user."), imported
        else:
            assert ORDER.index(target) < ORDER.index(place), f"{name_of(path)} imports {imported}"


@pytest.mark.parametrize("path", CORE_FILES, ids=name_of)
def test_only_releases_reach_the_noise(path):
    names = ("releases.py", "channels.py", "shares.py", "sampled.py")
    reaches = any(name.startswith("dpmc_core.privacy.noise") for name in imports_of(path))
    assert reaches == (path in {CORE / "privacy" / name for name in names})


@pytest.mark.parametrize("path", CORE_FILES, ids=name_of)
def test_mechanisms_do_not_know_the_secure_source(path):
    """The one that runs a mechanism chooses the randomness; the releases make use of it."""
    knows = {"noise.py", "releases.py", "__init__.py"}  # the last for what is harmless
    knows = {*(f"privacy/{name}" for name in knows), "release.py", "cli/release.py"}
    if any(f"{name}.".startswith("dpmc_core.privacy.exact_noise.") for name in imports_of(path)):
        assert str(path.relative_to(CORE)) in knows


@pytest.mark.parametrize("path", sorted((CORE / "mechanisms").glob("*.py")), ids=name_of)
def test_mechanisms_draw_no_noise_of_their_own(path):
    drawn = {node.attr for node in ast.walk(tree_of(path)) if isinstance(node, ast.Attribute)}
    assert not drawn & DRAWS


def generators(function):
    """Names of the parameters that are generators."""
    for argument in (*function.args.args, *function.args.kwonlyargs):
        words = "" if argument.annotation is None else ast.unparse(argument.annotation)
        if words in {"np.random.Generator", "Rng"}:
            yield argument.arg


@pytest.mark.parametrize(
    "path",
    [
        path
        for folder in ("mechanisms", "solvers")
        for path in sorted((CORE / folder).glob("*.py"))
        if path.name != "plain.py"  # without privacy
    ],
    ids=name_of,
)
def test_mechanisms_and_solvers_draw_by_releases_or_by_name(path):
    """Also on paths that no test takes."""
    for function in ast.walk(tree_of(path)):
        if not isinstance(function, ast.FunctionDef):
            continue
        given = {f"self.{name}" for name in ("rng", "_rng")} | set(generators(function))
        for node in ast.walk(function):
            if isinstance(node, ast.Attribute) and node.attr in PLAIN:
                assert ast.unparse(node.value) not in given, ast.unparse(node)


@pytest.mark.parametrize("path", CORE_FILES, ids=name_of)
def test_core_prints_nothing_and_configures_no_logging(path):
    if place_of(path) == "cli":
        return
    calls = {n.func.id for n in ast.walk(tree_of(path)) if _calls_a_name(n)}
    assert not calls & {"print", "input"}
    assert not any(name.split(".")[0] == "logging" for name in imports_of(path))


def _calls_a_name(node):
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name)


@pytest.mark.parametrize("path", sorted(PAGES.glob("*.py")), ids=name_of)
def test_a_page_holds_no_maths(path):
    assert not {name.split(".")[0] for name in imports_of(path)} & {"numpy", "scipy"}


@pytest.mark.parametrize("path", PAGE_FILES, ids=name_of)
def test_pages_and_the_command_line_stand_side_by_side(path):
    """What both need is in the core: a page starts `dpmc` as a process, it does not import it."""
    assert not [name for name in imports_of(path) if f"{name}.".startswith("dpmc_core.cli.")]


@pytest.mark.parametrize("path", TEST_FILES, ids=name_of)
def test_what_tests_share_is_in_no_test_module(path):
    tests = {file.stem for file in TEST_FILES if file.name.startswith("test_")}
    for imported in imports_of(path):
        assert not tests & set(imported.split(".")[:2]), f"{name_of(path)} imports {imported}"


def test_the_front_door_shows_type_checkers_what_it_loads_later():
    tree = tree_of(CORE / "__init__.py")
    at_the_top = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert [node.module for node in at_the_top] == ["__future__", "typing"]
    (guard,) = [node for node in tree.body if isinstance(node, ast.If)]
    assert ast.unparse(guard.test) == "TYPE_CHECKING"
    assert not guard.orelse
    shown = {alias.name: node.module for node in guard.body for alias in node.names}
    assert shown == {name: f"dpmc_core.{home}" for name, home in dpmc_core._HOMES.items()}
    assert set(shown) == set(dpmc_core.__all__) <= set(dir(dpmc_core))


def test_importing_the_front_door_loads_nothing():
    loaded = run_python(
        "import sys; before = {*sys.modules}; import dpmc_core; print({*sys.modules} - before)"
    )
    roots = {name.partition(".")[0] for name in ast.literal_eval(loaded) - {"dpmc_core"}}
    assert roots <= sys.stdlib_module_names


def test_the_front_door_loads_a_name_when_it_is_asked_for():
    for name in dpmc_core.__all__:
        assert getattr(dpmc_core, name).__name__ == name
    with pytest.raises(AttributeError, match="has no attribute 'lode'"):
        dpmc_core.lode  # noqa: B018


def run_python(code):
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.mark.parametrize("module", ["dpmc_core", "dpmc_core.registry", "dpmc_core.experiment"])
def test_importing_the_core_loads_nothing_heavy(module):
    heavy = "('streamlit', 'plotly', 'pandas', 'pyarrow', 'scipy.stats', 'matplotlib', 'opendp')"
    loaded = run_python(
        f"import sys, {module}; print([name for name in {heavy} if name in sys.modules])"
    )
    assert loaded == "[]"


def test_importing_the_registry_is_quick():
    """Next to what it rests on, in processor time: machines differ, and other programs disturb."""
    code = (
        "import time; clock = time.process_time; start = clock(); import scipy.special;"
        "rest = clock(); import dpmc_core.registry; print((clock() - rest) / (rest - start))"
    )
    assert any(float(run_python(code)) < 2 for _ in range(5))


def test_a_class_name_means_one_thing():
    places = {}
    for path in (*CORE_FILES, *PAGE_FILES):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(name_of(path))
    assert not {name: where for name, where in places.items() if len(where) > 1}
