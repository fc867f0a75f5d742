"""A mechanism of one's own, from a file or an installed package, takes part in everything."""

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dpmc_core as dpmc
from dpmc_core import registry
from dpmc_core.errors import DpmcError
from dpmc_core.mechanisms.plain import MaximumLikelihood
from dpmc_lab import plugins
from dpmc_lab.cli import app, main
from dpmc_lab.store import Store, iterate_records, list_curves
from dpmc_lab.testing import check_mechanism
from pages.ui import server

ROOT = Path(__file__).resolve().parents[2]
GUIDE, FURTHER_PARTS = (
    (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    for name in ("adding-a-mechanism", "mechanisms")
)
(EXAMPLE,) = re.findall(r"```python\n(.*?)```", GUIDE, flags=re.DOTALL)
(PYPROJECT,) = re.findall(r"```toml\n(.*?)```", FURTHER_PARTS, flags=re.DOTALL)
BEFORE = dict(registry.MECHANISMS)
TWIN, BASELINE = "nonprivate_counterpart = ", "baseline = "
SWEEP = [
    *("sweep", "--data", "restaurants", "--mechanisms", "noisy-mean", "--epsilons", "0.1,1"),
    *("--seeds", "1:2"),
]


def edit_example(old, new):
    """Return the example with one thing different."""
    assert old in EXAMPLE
    return EXAMPLE.replace(old, new)


@pytest.fixture(autouse=True)
def own_registry(monkeypatch):
    """What a test registers is gone after it."""
    monkeypatch.setattr(registry.MECHANISMS, "_classes", dict(registry.MECHANISMS))
    before = dict(plugins.list_loaded_plugins())
    yield
    plugins._loaded_sources.clear()
    plugins._loaded_sources.update(before)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "my_method.py"
    path.write_text(EXAMPLE)
    return path


def run_child(*argv, **environment):
    return subprocess.run(
        [sys.executable, *map(str, argv)],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )


def read_metrics(path):
    with Store(path, read_only=True) as store:
        return {row["key"]: row["metrics"] for row in iterate_records(store)}


def test_the_example_of_the_readme_is_fitted(file, capsys):
    argv = ["fit", "restaurants", "noisy-mean", "--epsilon", "1", "--plugin", str(file), "--json"]
    assert main(argv) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["guarantee"]["certified"]["epsilon"] == pytest.approx(1.0)
    assert set(report["baselines"]) == {"global-mean", "reference-ratings"}
    mean = report["baselines"]["global-mean"]
    assert report["metrics"]["rmse"] == pytest.approx(mean["rmse"], 0.1)


@pytest.mark.slow
def test_a_sweep_runs_it_in_its_workers_and_the_store_lives_without_it(file, tmp_path, capsys):
    stores = [tmp_path / f"{jobs}.sqlite" for jobs in (1, 2)]
    for jobs, store in enumerate(stores, start=1):
        argv = [*SWEEP, "--plugin", file, "--jobs", jobs, "--store", store]
        completed = run_child("-m", "dpmc_lab", *argv)
        assert completed.returncode == 0, completed.stderr
        assert "8 rows (8 new)" in completed.stdout
    assert read_metrics(stores[0]) == read_metrics(stores[1])
    repeated = run_child("-m", "dpmc_lab", *argv)
    assert "8 rows (0 new)" in repeated.stdout
    store = ["--store", str(stores[0])]
    assert main(["store", "list", *store]) == 0
    assert "noisy-mean (not loaded)" in capsys.readouterr().out
    assert main(["store", "list", "--mechanism", "noisy-mean", "--json", *store]) == 0
    (info,) = json.loads(capsys.readouterr().out)
    assert (info["rows"], info["current"]) == (4, False)
    assert main(["store", "prune", "--outdated", *store]) == 0  # nobody knows whether it is
    assert "0 rows deleted" in capsys.readouterr().out
    plugins.load_plugin(file)
    with Store(stores[0], read_only=True) as opened:
        (curve,) = list_curves(opened, mechanism="noisy-mean")
    assert curve.revision == registry.get_mechanism("noisy-mean").revision


def test_the_check_of_the_guide_prints_nothing(file):
    (check,) = re.findall(r'^python -c "(.*)"$', GUIDE, flags=re.MULTILINE)
    path = os.pathsep.join([str(file.parent), str(ROOT)])
    completed = run_child("-c", check, PYTHONPATH=path)
    assert (completed.returncode, completed.stdout, completed.stderr) == (0, "", "")


def test_the_guide_is_short():
    text = GUIDE.replace(EXAMPLE, "")
    assert len(text.splitlines()) <= 40
    assert len(EXAMPLE.splitlines()) <= 40


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            "(noisy,) = total.publish([ratings.values.sum()], rng)",
            "noisy = ratings.values.sum() + rng.laplace(scale=total.scale)",
            "no model before the noise",
        ),
        ("releases.total\n", "releases.total\n        total.publish([0.0], rng)\n", "too often"),
        ("public.width / self.epsilon", "public.width * self.epsilon", "grows with epsilon"),
        ("/ self.epsilon", "/ self.epsilon, times=2", "never published"),
        ("index=1", "index=2", "steps count from 1"),
        ("Constant(noisy / len", "Constant(noisy / 2 / len", "differs from global-mean"),
        (
            "total = self.guarantee(ratings.public).releases.total",
            'total = Laplace(query="sum of all ratings", shape=(1,), sensitivity={RATING: 4.0},'
            " scale=4 / self.epsilon)",
            "must come from the releases",
        ),
        ("(noisy / len(", "(0 * np.random.rand() + noisy / len(", "not from global randomness"),
        (".sum()], rng)", ".sum()], np.random.default_rng(0))", "two seeds, one result"),
        ("        (noisy,)", "        ratings.values[:] = 3\n        (noisy,)", "must not change"),
        ('help="privacy budget per rating", ', "", "needs a help"),
        (", above=0", "", "must be refused"),
    ],
)
def test_a_broken_contract_is_a_sentence(file, old, new, sentence):
    file.write_text("import numpy as np\n" + edit_example(old, new))
    (cls,) = plugins.load_plugin(file)
    with pytest.raises((AssertionError, DpmcError), match=sentence):
        check_mechanism(cls)


def test_a_plugin_says_how_it_meets_its_counterpart(file):
    file.write_text(edit_example("Constant(noisy / len", "Constant(noisy / 2 / len"))
    (cls,) = plugins.load_plugin(file)
    check_mechanism(cls, limit=None)


def test_the_app_and_its_commands_have_the_plugin(file, monkeypatch, dpmc):
    def forget():  # as another process does
        monkeypatch.setattr(registry.MECHANISMS, "_classes", dict(BEFORE))
        plugins._loaded_sources.clear()

    environments = []
    monkeypatch.setattr(app.os, "execve", lambda *call: environments.append(call[2]))
    monkeypatch.chdir(file.parent)
    assert dpmc("app", "--plugin", file.name)[0] == 0
    forget()
    assert dpmc("list", "noisy-mean")[0] == 1
    monkeypatch.setenv("DPMC_PLUGINS", environments[0]["DPMC_PLUGINS"])
    monkeypatch.chdir("/")
    assert dpmc("list", "noisy-mean")[0] == 0
    forget()
    monkeypatch.setattr(server, "treat_hangup_as_terminate", lambda: None)

    async def serve():
        async with server.manage_lifespan(None):
            return registry.get_mechanism("noisy-mean").name

    assert asyncio.run(serve()) == "Noisy mean"
    assert dpmc("app", "--plugin", "absent.py")[0] == 1


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "it defines no mechanism"),
        ("from dpmc_core.mechanisms.plain import MaximumLikelihood", "it defines no mechanism"),
        ("def fit(:", r"SyntaxError: .* \(my_method.py, line 1\)"),
        ("\nraise ValueError('two\\nlines')", r"ValueError: two lines \(my_method.py, line 2\)"),
        ("import sys\nsys.exit()", "SystemExit"),
        (edit_example('    id = "noisy-mean"\n', ""), "needs the class variable id"),
        (edit_example("Task.RATINGS", "'ratings'"), r"class variable task \(.*\), got 'ratings'"),
        (edit_example("revision = 1", "revision = 0"), "class variable revision .*, got 0"),
        (
            edit_example("noisy-mean", "Noisy Mean"),
            "must be words like my-method, got 'Noisy Mean'",
        ),
        (edit_example("noisy-mean", "clear"), "the id 'clear' of NoisyMean is taken by Maximum"),
        (
            edit_example("@mechanism", "@dataclass(kw_only=True)"),
            r"must be a @mechanism: a @dataclass\(frozen=True, kw_only=True\)",
        ),
        (edit_example("@mechanism\n", ""), "must be a @mechanism"),
        (edit_example("NoisyMean(Mechanism)", "NoisyMean"), "must be a subclass of .*Mechanism"),
        (edit_example("def guarantee", "def card"), "needs the method guarantee"),
        (edit_example('"global-mean"', '"nothing"'), "counterpart of .* must be .*, got 'nothing'"),
        (edit_example(f'{BASELINE}"global-mean"', f"{BASELINE}'majority'"), "the baseline of"),
        (edit_example(f'{TWIN}"global-mean"', f"{TWIN}'noisy-mean'"), "without noise"),
        (edit_example("float = setting(", "float = 1.0  # ("), "declared with setting"),
        (edit_example("epsilon: float", 'epsilon: "Unknown"'), "settings of .* cannot be read"),
        (edit_example("epsilon: float", "epsilon: list[float]"), "epsilon .* must be an int"),
        (edit_example("epsilon: float", "rank: int"), "setting rank of NoisyMean needs a default"),
    ],
)
def test_what_is_wrong_with_a_file_is_a_sentence(file, source, message, capsys):
    file.write_text(source)
    before = dict(registry.MECHANISMS)
    assert main(["list", "--plugin", str(file)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"dpmc: the plugin '{file}' cannot be used: ")
    assert err.count("\n") == 1
    assert re.search(message, err)
    assert dict(registry.MECHANISMS) == before


@pytest.mark.parametrize("name", ["absent.py", "."])
def test_a_file_that_cannot_be_read_is_a_sentence(tmp_path, name, capsys):
    assert main(["fit", "jokes", "clear", "--plugin", str(tmp_path / name)]) == 1
    assert re.fullmatch(r"dpmc: the plugin '.*' cannot be read: .*\n", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("yield Step", "raise KeyError; yield Step", r"KeyError: *\(my_method.py, line \d+\)"),
        ("return self.pure", "return; self.pure", r"'releases' \(my_method.py, line \d+\)"),
        ("yield Step", "return Step", "object is not iterable"),
        ("build=Constant(noisy / len(ratings))", "build=None", "noisy-mean yielded none"),
    ],
)
def test_a_fault_of_its_code_is_a_sentence_with_the_line(file, old, new, message, capsys):
    file.write_text(edit_example(old, new))
    assert main(["fit", "restaurants", "noisy-mean", "--epsilon", "1", "--plugin", str(file)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert re.search(message, err)
    assert "Traceback" not in err


def test_a_cluster_knows_no_file(file, tmp_path, capsys):
    store = tmp_path / "s.sqlite"
    argv = [*SWEEP, "--cluster", "tcp://127.0.0.1:1", "--plugin", str(file), "--store", str(store)]
    assert main(argv) == 1
    assert "whose workers know installed packages alone" in capsys.readouterr().err


def test_a_file_may_be_named_twice_and_loaded_again_when_it_has_changed(file):
    (first,) = plugins.load_plugin(file)
    assert plugins.load_plugin(file) == (first,)
    assert plugins.list_loaded_plugins() == {str(file): EXAMPLE.encode()}
    file.write_text(edit_example("revision = 1", "revision = 2"))
    (second,) = plugins.load_plugin(file)
    assert registry.get_mechanism("noisy-mean") is second
    assert second.revision == 2
    file.write_text("broken(")
    with pytest.raises(DpmcError, match="SyntaxError"):
        plugins.load_plugin(file)
    assert registry.get_mechanism("noisy-mean") is second


# --- installed packages ---------------------------------------------------------------------------


@pytest.fixture
def site(tmp_path):
    """A folder with an installed package that has the example, and one that is broken."""
    folder = tmp_path / "site"
    (folder / "my_package").mkdir(parents=True)
    (folder / "my_package" / "__init__.py").touch()
    (folder / "my_package" / "my_method.py").write_text(EXAMPLE)
    points = PYPROJECT.replace('[project.entry-points."dpmc_lab.mechanisms"]', "").replace('"', "")
    for name, lines in (("my_package", points), ("broken", "lost = no_such_package:Lost")):
        info = folder / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{registry.ENTRY_POINTS}]\n{lines.strip()}\n")
    return folder


@pytest.mark.slow
def test_an_installed_package_takes_part_without_an_option(site, tmp_path):
    def run(*argv):
        return run_child("-m", "dpmc_lab", *argv, PYTHONPATH=str(site))

    listed = run("list")
    assert "noisy-mean" in listed.stdout
    assert "the package broken cannot be loaded: ModuleNotFoundError" in listed.stderr
    fitted = run("fit", "restaurants", "noisy-mean", "--epsilon", "1", "--json")
    assert fitted.stderr == ""
    assert json.loads(fitted.stdout)["mechanism"] == "noisy-mean"
    swept = run(*SWEEP, "--jobs", 2, "--store", tmp_path / "s.sqlite")
    assert swept.returncode == 0, swept.stderr
    assert "8 rows (8 new)" in swept.stdout
    assert "noisy-mean" in run("guarantees").stdout
    lost = run("fit", "restaurants", "lost")
    assert lost.returncode == 1
    assert "the package broken cannot be loaded" in lost.stderr


def test_the_same_text_gives_the_same_run_in_every_process(file):
    """Workers are given the text: the file may have changed on disk meanwhile."""
    (cls,) = plugins.load_plugin(file)
    file.write_text("")
    assert plugins.run_plugin(str(file), plugins.list_loaded_plugins()[str(file)]) == (cls,)
    ratings = dpmc.load("restaurants").ratings
    first, second = (list(cls(epsilon=1.0).fit(ratings, np.random.default_rng(0))) for _ in "ab")
    assert first[-1].model == second[-1].model


def test_a_class_can_be_added_in_python(file):
    (cls,) = plugins.load_plugin(file)
    with pytest.raises(DpmcError, match="is taken by NoisyMean"):
        registry.add_mechanisms(cls)
    with pytest.raises(DpmcError, match="must be a class, got 3"):
        registry.add_mechanisms(3)
    with pytest.raises(DpmcError, match="must be a class, got 3"):
        check_mechanism(3)
    assert registry.MECHANISMS["clear"] is MaximumLikelihood
