"""A paper's figure with one thing changed says so, and is what the change makes it."""

import dataclasses
import itertools
import json
import shlex

import pytest

from dpmc_core.errors import DpmcError
from dpmc_lab import papers
from dpmc_lab.papers import engine
from dpmc_lab.papers.engine import GridRecipe


def get_peaks(result):
    return {series.label: max(series.mean) for series in result.series}


def test_a_changed_figure_is_made_and_named(dpmc, tmp_path):
    argv = ["papers", "ryhh24-5c", "--set", "epsilon=2", "--seeds", "3", "--write", tmp_path]
    status, text, _ = dpmc(*argv)
    assert status == 0
    assert text.splitlines()[0].endswith("ryhh24-5c+epsilon=2.json")
    assert "second order, Yahoo! Music, with epsilon=2\n" in text
    assert "We set epsilon=2." in " ".join(text.split())
    assert "no verdict: Its settings are not those of the paper." in text
    result = engine.load_result("ryhh24-5c+epsilon=2", tmp_path)
    assert result.stamp.command == "dpmc papers ryhh24-5c --set epsilon=2 --seeds 3"
    assert result.stamp.settings["epsilon"] == 2
    # The scale of the noise goes as 1 / epsilon, and the figure of the paper is at 0.1.
    printed = get_peaks(engine.load_shipped_result("ryhh24-5c"))
    assert get_peaks(result) == pytest.approx({k: 20 * v for k, v in printed.items()}, rel=1e-5)
    assert papers.find_experiment("ryhh24-5c")[1].recipe.settings["epsilon"] == 0.1


def test_a_changed_grid_reaches_every_mechanism():
    _, experiment = papers.find_experiment("lwhm22-3b")
    changed = experiment.change_settings({"radius": "0.4", "epsilon": "1,2"})
    assert changed.id == "lwhm22-3b+radius=0.4+epsilon=1,2"
    grid = changed.recipe.grid
    assert grid.epsilons == (1.0, 2.0)
    variants = [m for id in grid.mechanisms for m in grid.create_variants(id)]
    assert {m.radius for m in variants} == {0.4}
    assert grid.argv() != experiment.recipe.grid.argv()
    rounds = experiment.change_settings({"gradient.rounds": "3"}).recipe.grid
    assert {m.rounds for m in rounds.create_variants("gradient")} == {3}
    known = changed.printed, changed.statements, changed.promises, changed.verdict
    assert known == ((), (), (), None)


def test_a_change_that_leaves_no_curve_is_a_sentence():
    _, experiment = papers.find_experiment("lwhm22-1b")
    recipe = dataclasses.replace(experiment.recipe, curves={"gradient rounds=10": "GraP"})
    changed = dataclasses.replace(experiment, recipe=recipe).change_settings({"rounds": "2"})
    with pytest.raises(DpmcError, match="no curve has these settings: gradient rounds=10"):
        engine.plan_grid(changed.recipe)


def test_the_equal_sweep_is_printed(dpmc, monkeypatch, tmp_path):
    """The runs are left out: the command is that of the grid that was run, seeds included."""
    from dpmc_lab.cli import papers as command

    result = engine.load_shipped_result("lwhm22-1b")
    monkeypatch.setattr(command.core, "warm_up", lambda: None)
    monkeypatch.setattr(command, "run_plan", lambda *_: None)
    monkeypatch.setattr(command.engine, "build_grid_result", lambda *_: result)
    argv = ["papers", "lwhm22-1b", "--set", "rounds=2", "--seeds", "3", "--json"]
    _, text, _ = dpmc(*argv, "--store", tmp_path / "rows.sqlite", "--write", tmp_path)
    sweep = json.loads(text)["sweep"]
    assert sweep.startswith("dpmc sweep --data one-bit-lab:seed=each")
    assert "--seeds 3 " in sweep
    assert "--set gradient.rounds=2" in sweep


def test_another_data_set_is_read_before_anything_is_run():
    _, experiment = papers.find_experiment("lwhm22-1b")
    changed = experiment.change_settings({"data": "restaurants"})
    assert changed.recipe.sweep_command.startswith("dpmc sweep --data restaurants --mechanisms")
    with pytest.raises(DpmcError, match=r"data must be generated.*got 'restaurants'"):
        engine.plan_grid(changed.recipe)
    _, by_share = papers.find_experiment("lwhm22-4")
    with pytest.raises(DpmcError, match="got 'data'"):  # the axis shows an option of the data
        by_share.change_settings({"data": "restaurants"})


def test_the_command_of_a_change_can_be_pasted():
    _, experiment = papers.find_experiment("z16-generated")
    change = "quantities=allowing for spurious cells,the zero matrix"
    changed = experiment.change_settings(dict([change.split("=")]))
    argv = ["dpmc", "papers", "z16-generated", "--set", change]
    assert shlex.split(changed.command) == argv


@pytest.mark.parametrize(
    ("id", "change", "sentence"),
    [
        ("ryhh24-5c", "epsilom=2", "got 'epsilom'; did you mean epsilon"),
        ("ryhh24-5c", "epsilon=x", "epsilon must be a number, got 'x'"),
        ("ryhh24-5c", "epsilon=nan", "epsilon must be > 0, got nan"),
        ("hxz15-increase", "users=-3", "users must be > 0, got -3"),
        ("ryhh24-5c", "beta1=0.5", r"beta1 \+ beta2 \+ beta3 must be 1"),
        ("ryhh24-7a", "rank=many", "rank must be an integer, got 'many'"),
        ("lwhm22-1b", "radiuss=1", "did you mean radius"),
        ("lwhm22-1b", "radius=1,2", "radius must be a number, got '1,2'"),
        ("ryhh24-1", "epsilon=2", "cannot be made here"),
        ("lwhm22-1b-settings", "epsilon=2", "has other settings already"),
        ("ryhh24-table-3-settings", "rank=8", "has other settings already"),
    ],
)
def test_a_change_that_cannot_be_made_is_a_sentence(id, change, sentence):
    _, experiment = papers.find_experiment(id)

    def make():
        experiment.change_settings(dict([change.split("=")])).recipe.trials[0].make()

    with pytest.raises(DpmcError, match=sentence):
        make()


def test_what_is_changed_is_one_figure(dpmc):
    assert "one experiment" in dpmc("papers", "ryhh24", "--set", "epsilon=2")[2]
    assert "NAME=VALUE" in dpmc("papers", "ryhh24-5c", "--set", "epsilon")[2]


def test_every_figure_that_is_made_takes_what_it_has():
    """Each setting that is listed can be changed to the text that the list gives it: the runs stay.

    A text is empty where methods differ, and so has no run to compare.
    """
    n_settings = 0
    for _, experiment in papers.list_experiments():
        recipe, settings = experiment.recipe, experiment.list_settings()
        for name, text in settings.items():
            if not text:
                continue
            changed = experiment.change_settings({name: text})
            if isinstance(recipe, GridRecipe):
                grids = recipe.grid, changed.recipe.grid
                runs = [
                    [*g.data, *itertools.chain(*map(g.create_variants, g.mechanisms))]
                    for g in grids
                ]
            else:
                runs = [[trial.key for trial in r.trials] for r in (recipe, changed.recipe)]
            assert runs[0] == runs[1], (experiment.id, name)
            assert changed.recipe.n_runs == recipe.n_runs
            assert not {*changed.id} & {*'<>:"/\\|?*'}
            n_settings += 1
        if isinstance(recipe, GridRecipe):
            assert next(iter(settings)) == "epsilon"
            assert ("data" in settings) is (not recipe.x)
    assert n_settings > 200
