"""The house holds together: imports flow down, and the core stays light."""

import ast
import json
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import dpmc_core
import dpmc_data

ROOT = Path(__file__).resolve().parent.parent
CORE = ROOT / "dpmc_core"
DATA = ROOT / "dpmc_data"
LAB = ROOT / "dpmc_lab"
PAGES = ROOT / "pages"

# Each place may import those before it: modules and packages of the core, of the data, of the lab.
ORDER = [
    *("arrays", "display", "errors", "stopping", "style", "settings", "ratings", "privacy"),
    *("model", "links", "dataset", "preparation", "metrics", "solvers", "mechanisms"),
    *("registry", "problem", "experiment"),
    *(
        "data.facts",
        "data.archives",
        "data.paths",
        "data.memory",
        "data.source",
        "data.public_sets",
        "data.text",
    ),
    *(
        "data.readings",
        "data.tables",
        "data.reading",
        "data.features",
        "data.synthetic",
        "data.public_inputs",
        "data.datasets",
    ),
    "data",
    *("lab.plugins", "lab.audit_bounds", "lab.locks", "lab.citation", "lab.measured", "lab.audit"),
    "lab.testing",
    *("lab.store", "lab.shipped", "lab.sweep", "lab.study", "lab.protocol"),
    *("lab.views", "lab.classroom", "lab.glossary", "lab.lessons", "lab.papers", "lab.cli"),
    "lab.__main__",
    "__main__",
]
# The core knows nothing of the data. These two pass on what people import by older names.
PASSED_ON = {"__init__.py": {"dpmc_data.load"}, "data.py": {"dpmc_data"}}
# Modules that open files, which the core leaves to the data.
FILE_MODULES = {"csv", "io", "mmap", "pathlib", "pyarrow", "shutil", "tempfile", "zipfile"}
PREFIXES = {"dpmc_core": "", "dpmc_data": "data/", "dpmc_lab": "lab/"}
NOISE_METHODS = {"laplace", "normal", "standard_normal", "gamma", "standard_gamma", "exponential"}
GENERATOR_METHODS = {name for name in dir(np.random.Generator) if not name.startswith("_")}


@cache
def parse_files():
    """Every file of the house, read once."""
    folders = (CORE, DATA, LAB, PAGES, ROOT / "tests")
    paths = [path for folder in folders for path in sorted(folder.rglob("*.py"))]
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def list_files(*folder):
    """Files and their trees below a folder of the project, by name from that folder."""
    top = ROOT.joinpath(*folder)
    return {
        str(path.relative_to(top)): tree
        for path, tree in parse_files().items()
        if top in path.parents
    }


def list_program_files():
    """Files and trees of the core and, below "data/" and "lab/", of the data and the lab."""
    return {
        f"{prefix}{name}": tree
        for folder, prefix in PREFIXES.items()
        for name, tree in list_files(folder).items()
    }


def get_package(name):
    """The module or package directly under one of the three folders that a file belongs to."""
    names = name.removesuffix(".py").split("/")
    return ".".join(names[: 2 if names[0] in ("data", "lab") else 1])


def locate_import(imported):
    """The module or package that an import of ours names; None if it is somebody else's."""
    package, *submodules = imported.split(".")
    if package not in PREFIXES or not submodules:
        return None
    if package == "dpmc_data" and submodules[0] in dpmc_data.__all__:
        return "data"
    return get_package(PREFIXES[package] + "/".join(submodules))


def list_imports(tree):
    """Dotted names of everything a file imports, at the top or inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def list_calls(tree):
    """Names of functions called by their bare name."""
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return {function.id for function in calls if isinstance(function, ast.Name)}


def test_every_package_says_what_it_is():
    for path, tree in parse_files().items():
        assert path.name != "__init__.py" or path.parent.name == "tests" or ast.get_docstring(tree)


def test_no_import_is_relative():
    for path, tree in parse_files().items():
        nodes = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        assert not any(node.level for node in nodes), path


def test_imports_flow_down_from_the_core_to_the_data_to_the_lab():
    for name, tree in list_program_files().items():
        package_name = get_package(name)
        if package_name.endswith("__init__"):  # lazy: see the tests of the front doors
            continue
        for imported in list_imports(tree):
            package = imported.split(".")[0]
            assert package not in {"streamlit", "plotly", "pages", "app"}, f"{name}: {imported}"
            target = locate_import(imported)
            if target is None:
                continue
            if target == package_name:
                assert "/" in name.removeprefix("lab/"), f"{name} imports itself"
                # A family imports nothing of another, but their bases.
                is_base = imported.split(".")[2] in ("per_user", "plain")
                is_allowed = package_name != "mechanisms" or name.endswith("/references.py")
                assert is_base or is_allowed, f"{name} imports {imported}"
            else:
                assert ORDER.index(target) < ORDER.index(package_name), f"{name} imports {imported}"


def test_the_core_knows_nothing_of_the_data_but_passes_on_two_older_names():
    passed_on = {}
    for name, tree in list_files("dpmc_core").items():
        for imported in list_imports(tree):
            if imported.split(".")[0] == "dpmc_data":
                passed_on.setdefault(name, set()).add(imported)
    assert passed_on == PASSED_ON


def test_the_core_opens_no_file():
    for name, tree in list_files("dpmc_core").items():
        modules = {imported.split(".")[0] for imported in list_imports(tree)}
        methods = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert not modules & FILE_MODULES, name
        assert "open" not in list_calls(tree), name
        assert not methods & {"fromfile", "genfromtxt", "loadtxt", "memmap", "open"}, name


def test_only_releases_reach_the_noise():
    reach = {
        name
        for name, tree in list_program_files().items()
        if any(imported.startswith("dpmc_core.privacy.noise") for imported in list_imports(tree))
    }
    names = ("releases.py", "channels.py", "shares.py", "sampled.py")
    assert reach == {f"privacy/{name}" for name in names}


def test_mechanisms_do_not_know_the_secure_source():
    """The one that runs a mechanism chooses the randomness; the releases make use of it."""
    allowed = {"noise.py", "releases.py", "__init__.py"}  # the last for what is harmless
    allowed = {*(f"privacy/{name}" for name in allowed)}
    allowed |= {"lab/study/release.py", "lab/cli/promises.py"}
    for name, tree in list_program_files().items():
        imports = (f"{imported}." for imported in list_imports(tree))
        if any(imported.startswith("dpmc_core.privacy.exact_noise.") for imported in imports):
            assert name in allowed


def test_mechanisms_draw_no_noise_of_their_own():
    for name, tree in list_files("dpmc_core", "mechanisms").items():
        attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert not attributes & NOISE_METHODS, name


def list_generator_parameters(function):
    """Names of the parameters that are generators."""
    for argument in (*function.args.args, *function.args.kwonlyargs):
        annotation = "" if argument.annotation is None else ast.unparse(argument.annotation)
        if annotation in {"np.random.Generator", "Rng"}:
            yield argument.arg


def test_mechanisms_and_solvers_draw_by_releases_or_by_name():
    """Also on paths that no test takes."""
    files = list_files("dpmc_core", "mechanisms") | list_files("dpmc_core", "solvers")
    del files["plain.py"], files["references.py"]  # without privacy
    for name, tree in files.items():
        for function in ast.walk(tree):
            if not isinstance(function, ast.FunctionDef):
                continue
            generator_names = {f"self.{field}" for field in ("rng", "_rng")} | set(
                list_generator_parameters(function)
            )
            for node in ast.walk(function):
                if isinstance(node, ast.Attribute) and node.attr in GENERATOR_METHODS:
                    assert ast.unparse(node.value) not in generator_names, (
                        f"{name}: {ast.unparse(node)}"
                    )


def test_core_prints_nothing_and_configures_no_logging():
    for name, tree in list_program_files().items():
        if get_package(name) != "lab.cli":
            assert not list_calls(tree) & {"print", "input"}, name
            assert not any(
                imported.split(".")[0] == "logging" for imported in list_imports(tree)
            ), name


def test_a_page_holds_no_maths():
    """Charts place marks with NumPy; what runs and guarantees say is computed elsewhere."""
    for name, tree in list_files("pages").items():
        imports = {*list_imports(tree)}
        roots = {imported.split(".")[0] for imported in imports}
        assert not roots & {"scipy", "statistics", "random"}, name
        assert "numpy" not in roots or name.startswith("ui/charts/"), name
        names = {imported.split(".")[-1] for imported in imports}
        names |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert not names & {"compute_interval", "half_width", "MIN_SEEDS"}, name


def test_what_shows_or_draws_returns_nothing():
    """Neither does a context manager; what a person chooses comes from `choose_*` and the like."""
    for name, tree in [*list_files("pages").items(), *list_files("dpmc_lab").items()]:
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name.lstrip("_").startswith(
                ("show_", "draw_")
            ):
                assert node.returns is not None, f"{name}: {node.name}"
                assert ast.unparse(node.returns) in {"None", "Iterator[None]"}, node.name


def test_pages_and_the_command_line_stand_side_by_side():
    """What both need is in the core: a page starts `dpmc` as a process, it does not import it."""
    for name, tree in list_files("pages").items():
        imports = [f"{imported}." for imported in list_imports(tree)]
        assert not any(imported.startswith("dpmc_lab.cli.") for imported in imports), name


def test_what_tests_share_is_in_no_test_module():
    files = list_files("tests")
    tests = {name.removesuffix(".py") for name in files if name.startswith("test_")}
    for name, tree in files.items():
        for imported in list_imports(tree):
            assert not tests & set(imported.split(".")[:2]), f"{name} imports {imported}"


@pytest.mark.parametrize("door", [dpmc_core, dpmc_data], ids=lambda door: door.__name__)
def test_the_front_door_shows_type_checkers_what_it_loads_later(door):
    tree = parse_files()[Path(door.__file__)]
    at_the_top = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert [node.module for node in at_the_top] == ["__future__", "typing"]
    (guard,) = [node for node in tree.body if isinstance(node, ast.If)]
    assert ast.unparse(guard.test) == "TYPE_CHECKING"
    assert not guard.orelse
    typed_names = {alias.name: node.module for node in guard.body for alias in node.names}
    older_home = {"dpmc_core.data": "dpmc_data"}  # it passes names on, and has no types
    homes = door._MODULES_BY_NAME.items()
    assert typed_names == {name: older_home.get(home, home) for name, home in homes}
    assert set(typed_names) == set(door.__all__) <= set(dir(door))


@pytest.mark.parametrize("door", ["dpmc_core", "dpmc_data"])
def test_importing_the_front_door_loads_nothing(door):
    loaded = run_python(
        f"import sys; before = {{*sys.modules}}; import {door}; print({{*sys.modules}} - before)"
    )
    roots = {name.partition(".")[0] for name in ast.literal_eval(loaded) - {door}}
    assert roots <= sys.stdlib_module_names


@pytest.mark.parametrize("door", [dpmc_core, dpmc_data], ids=lambda door: door.__name__)
def test_the_front_door_loads_a_name_when_it_is_asked_for(door):
    for name in door.__all__:
        assert getattr(door, name).__name__ == name
    with pytest.raises(AttributeError, match="has no attribute 'lode'"):
        door.lode  # noqa: B018


def test_older_names_of_the_core_lead_to_the_data():
    code = "import dpmc_core as dpmc; print(dpmc.load.__module__, dpmc.data.read_pair.__module__)"
    assert run_python(code) == "dpmc_data.datasets dpmc_data.datasets"
    code = "from dpmc_core.data import align_to_catalogue; print(align_to_catalogue.__module__)"
    assert run_python(code) == "dpmc_core.preparation"


def run_python(code):
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return result.stdout.strip()


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


def test_one_method_is_had_without_the_others():
    """Of one file, and without what it takes to compute: a script that makes one starts at once."""
    loaded = run_python(
        "import sys, dpmc_core; dpmc_core.create('output', epsilon=1.0); print(*sys.modules)"
    ).split()
    core_modules = [name for name in loaded if name.startswith("dpmc_core")]
    assert len(core_modules) <= 27
    assert [n for n in core_modules if n.startswith("dpmc_core.mechanisms.")] == [
        "dpmc_core.mechanisms.one_bit"
    ]
    assert not {"scipy.special", "scipy.sparse", "importlib.metadata"} & set(loaded)


def test_what_draws_rows_loads_neither_the_engine_nor_a_class_nor_an_audit():
    loaded = run_python(
        "import sys, pages.ui.rows, pages.ui.scene; from dpmc_core import registry;"
        "[*registry.MECHANISMS]; print(*sys.modules)"
    ).split()
    heavy = "sweep.engine", "sweep.cluster", "classroom.room", "audit", "papers", "protocol"
    assert not {f"dpmc_lab.{name}" for name in heavy} & {*loaded}
    assert not {"dpmc_lab.audit_bounds", "dpmc_core.solvers.noisy_reports"} & {*loaded}


def test_a_class_name_means_one_thing():
    locations = {}
    for path, tree in parse_files().items():
        if {CORE, DATA, LAB, PAGES} & {*path.parents}:
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    locations.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert not {name: paths for name, paths in locations.items() if len(paths) > 1}


# What is taken out, and the pages and commands that it takes along. The entries of HXZ15 count the
# messages of its scenarios and run them, and those of RYHH24 rank what ten parties learn, so that
# the papers need the protocol. Of the cluster only `dpmc fit --cluster` and `dpmc sweep --cluster`
# know.
LEAVES = {
    "papers": ({"papers"}, {"papers"}),
    "audit": ({"guarantees"}, {"audit"}),
    "protocol": ({"papers", "protocol"}, {"papers", "protocol"}),
    "sweep/cluster.py": (set(), set()),
}
IMPORT_ALL = """
import ast, importlib, json, sys
from pathlib import Path

# An editable install would find in the checkout what is taken out here.
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in str(finder).lower()]
ours, found = ("dpmc_core", "dpmc_data", "dpmc_lab", "pages"), {}
for leaf in sys.argv[1:]:
    place, away = Path("dpmc_lab", leaf), Path("away")
    place.rename(away)
    importlib.invalidate_caches()
    broken = []
    for page in sorted(Path("pages").glob("*.py")):
        imports = [n for n in ast.parse(page.read_text("utf-8")).body if "Import" in str(type(n))]
        try:
            exec(compile(ast.Module(imports, []), str(page), "exec"), {})
        except ImportError:
            broken.append(page.stem)
    from dpmc_lab.cli import COMMANDS, build_parser

    build_parser()
    found[leaf] = broken, [*COMMANDS]
    away.rename(place)
    for name in [name for name in sys.modules if name.partition(".")[0] in ours]:
        del sys.modules[name]
print(json.dumps(found))
"""


def test_a_branch_that_is_taken_out_breaks_its_own_page_and_command_alone(tmp_path):
    for folder in (CORE, DATA, LAB, PAGES):
        shutil.copytree(
            folder, tmp_path / folder.name, ignore=shutil.ignore_patterns("__pycache__")
        )
    (tmp_path / "run.py").write_text(IMPORT_ALL, encoding="utf-8")
    process = subprocess.run(
        [sys.executable, "-B", "run.py", *LEAVES],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    results = json.loads(process.stdout.splitlines()[-1])
    all_pages = {path.stem for path in PAGES.glob("*.py")}
    _, commands = results["sweep/cluster.py"]
    assert {"train", "papers", "guarantees"} < all_pages
    assert {"fit", "papers", "audit"} < {*commands}
    for leaf, (pages, missing_commands) in LEAVES.items():
        assert ({*results[leaf][0]}, {*commands} - {*results[leaf][1]}) == (
            pages,
            missing_commands,
        ), leaf
