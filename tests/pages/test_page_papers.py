"""The page of papers: every figure with its verdicts, one of them in full, made again."""

import json

import pytest

from dpmc_core import registry
from dpmc_lab import papers
from dpmc_lab.papers import engine, views
from dpmc_lab.papers.engine import Point, Series
from pages.ui import sweeps
from tests.page_helpers import find_button, list_charts, open_page, read_all_text, read_chart_spec
from tests.slow_helpers import mark_rest_slow

FIRST = "lwhm22-1b"


def test_the_page_opens_with_a_card_for_each_paper_and_every_figure():
    app = open_page("papers")
    assert not app.error
    text = read_all_text(app)
    for paper in papers.PAPERS.values():
        assert paper.title in text
        assert paper.authors[0] in text
        assert paper.summary in text
    table = app.dataframe[0].value
    assert list(table["preset"]) == [entry.id for _, entry in papers.list_experiments()]
    assert not list_charts(app)
    find_button(app, "Show its figures").click().run()  # of the first card
    assert app.header[0].value.startswith("Li et al. 2022")


def test_one_figure_shows_our_curves_on_the_papers_axes():
    app = open_page("papers", experiment=FIRST)
    figure_view = views.load_view(*papers.find_experiment(FIRST))
    spec = read_chart_spec(app)
    labels = [trace["name"] for trace in spec["data"] if "name" in trace]
    assert labels == [curve.label for curve in figure_view.result.series]
    assert spec["layout"]["xaxis"]["title"]["text"] == "epsilon per rating"
    named = [note["text"].replace("<br>", " ") for note in spec["layout"]["annotations"]]
    assert named == labels  # at the frame, not in a legend
    assert "counterexample" in read_all_text(app)
    assert "the paper says" in read_all_text(app).lower()
    # A changed grid shows its commands, and how long its runs take.
    app.selectbox(key=f"papers change {FIRST}").set_value("radius").run()
    app.text_input(key=f"papers change {FIRST} radius").set_value("0.4").run()
    codes = [code.value for code in app.code]
    assert f"dpmc papers {FIRST} --set radius=0.4 --seeds 1:3" in codes
    (sweep,) = [code for code in codes if code.startswith("dpmc sweep")]
    assert "--seeds 1:3" in sweep
    assert "radius=0.4" in sweep
    # 3 of the 40 seeds that are stored with their time.
    seconds = engine.load_shipped_result(FIRST).stamp.seconds * 3 / 40
    assert f"about {views.format_duration(seconds)} of computing" in read_all_text(app)


def test_a_title_says_which_curve_is_lowest_and_highest_where_they_differ_most():
    """Recomputed from the stored curves; what the intervals do not tell apart is named together."""
    figure_view = views.load_view(*papers.find_experiment(FIRST))
    at_one = {s.label: s.mean[0] for s in figure_view.series if not s.level}
    low, high = (pick(at_one, key=at_one.get) for pick in (min, max))
    title = views.conclude_curves(figure_view, figure_view.series)
    assert title.startswith(f"At epsilon 1, where curves differ most, the lowest is {low} (")
    assert f" and the highest is {high} ({at_one[high]:.3g})" in title

    def conclude(*half_widths):
        widths = zip("abc", (1.0, 2.0, 5.0), half_widths, strict=True)
        curves = [Series.from_points(n, {0.0: Point(y, w, 3)}, n) for n, y, w in widths]
        return views.conclude_curves(figure_view, curves)

    assert "the lowest is a (1) and the highest is c (5)" in conclude(0.1, 0.1, 0.1)
    assert "the lowest is a or b (1) and the highest is c (5)" in conclude(0.6, 0.6, 0.1)
    assert conclude(3.0, 3.0, 3.0) == "The intervals of all curves overlap."
    assert views.conclude_curves(figure_view, ()) == ""


def test_one_thing_is_changed_and_stands_beside_the_figure_of_the_paper(tmp_path, monkeypatch):
    """The whole way: choose, see how long it takes, run the command here, see it, forget it."""
    command = "dpmc papers ryhh24-5c --set epsilon=0.2"
    monkeypatch.setenv("DPMC_HOME", str(tmp_path))

    def run_here(_folder, key, argv, **_):
        """Do what the child process does, which tests/lab/test_papers_change.py starts."""
        assert argv[2:] == ("dpmc_lab", *command.split()[1:], "--json")
        experiment = papers.find_experiment("ryhh24-5c")[1].change_settings(
            {"epsilon": argv[-2][8:]}
        )
        assert key == experiment.id
        result = engine.run_trials(experiment, experiment.recipe)
        engine.write_result(result, engine.get_own_folder())

    monkeypatch.setattr(sweeps, "start_sweep", run_here)
    app = open_page("papers", experiment="ryhh24-5c")
    app.selectbox(key="papers change ryhh24-5c").set_value("epsilon").run()
    value = app.text_input(key="papers change ryhh24-5c epsilon")
    assert value.value == "0.1"
    value.set_value("-1").run()
    assert "must be" in app.error[0].value
    assert "got -1" in app.error[0].value
    app.text_input(key=value.key).set_value("0.2").run()
    assert command in [code.value for code in app.code]
    assert "about 1 s of computing" in read_all_text(app)
    find_button(app, "Run it").click().run()
    changed = engine.get_own_folder() / "ryhh24-5c+epsilon=0.2.json"
    assert not app.exception
    assert len(list_charts(app)) == 2
    printed, result = (read_chart_spec(app, number) for number in range(2))
    assert printed["layout"]["yaxis"]["range"] == result["layout"]["yaxis"]["range"]
    ends = [note["y"] for note in result["layout"]["annotations"]]
    assert len({round(y, 2) for y in ends}) == 3  # names stand at the peaks, as all ends are 0
    assert engine.read_result(changed).stamp.command == command
    assert "With epsilon=0.2" in read_all_text(app)
    find_button(app, "Forget my run").click().run()
    assert not changed.exists()
    assert len(list_charts(app)) == 1


def test_our_curves_stand_beside_the_printed_ones_on_the_same_axes():
    app = open_page("papers", experiment="ryhh24-table-3")
    figure_view = views.load_view(*papers.find_experiment("ryhh24-table-3"))
    ours, printed = (read_chart_spec(app, number) for number in range(2))
    assert printed["layout"]["yaxis"]["range"] == ours["layout"]["yaxis"]["range"]
    label = figure_view.experiment.printed[0].series
    points = [(p.x, p.value) for p in figure_view.experiment.printed if p.series == label]
    trace = next(trace for trace in printed["data"] if trace.get("name") == label)
    assert [*zip(trace["x"], trace["y"], strict=True)] == points


def test_no_two_curves_look_alike_and_a_method_keeps_its_colour():
    for figure_view in views.load_views(papers.PAPERS.values()):
        styles = views.choose_styles(figure_view)
        assert len(set(styles.values())) == len(styles), figure_view.experiment.id
        for series in figure_view.result.series if figure_view.result else ():
            if series.mechanism and registry.get_mechanism(series.mechanism).style:
                assert styles[series.label].color == registry.get_style(series.mechanism).color


@pytest.mark.slow
@pytest.mark.parametrize("paper", papers.PAPERS)
def test_every_figure_opens(paper):
    app = open_page("papers", paper=paper.lower(), experiment=FIRST)  # another gives way
    assert set(app.dataframe[0].value["paper"]) == {papers.PAPERS[paper].short_label}
    for experiment in papers.PAPERS[paper].experiments:
        app.session_state["experiment"] = experiment.id
        app.run()
        assert not app.exception, experiment.id
        assert not app.error, experiment.id
        assert any(experiment.place in header.value for header in app.header)


@pytest.mark.parametrize("id", mark_rest_slow(["lwhm22-3b", "jtt18-3a"]))
def test_run_it_again_starts_the_command_that_is_shown(id, monkeypatch):
    started = []
    monkeypatch.setattr(sweeps, "start_sweep", lambda *argv, **_: started.append(argv[2]))
    app = open_page("papers", experiment=id)
    find_button(app, "Run it again").click().run()
    (command,) = started
    assert command[1:3] == ("-m", "dpmc_lab")
    shipped_command = engine.load_shipped_result(id).stamp.command
    assert " ".join(command[3:]) == f"{shipped_command.removeprefix('dpmc ')} --json"
    assert shipped_command in [code.value for code in app.code]


@pytest.mark.slow
def test_ones_own_run_is_shown_and_can_be_forgotten(tmp_path, monkeypatch):
    monkeypatch.setenv("DPMC_HOME", str(tmp_path))
    shipped = engine.load_shipped_result(FIRST)
    path = engine.write_result(shipped, engine.get_own_folder())
    app = open_page("papers", experiment=FIRST)
    assert "Your own run" in read_all_text(app)
    find_button(app, "Forget my run").click().run()
    assert not path.exists()
    assert "Came with the app" in read_all_text(app)
    path.write_text(json.dumps({"id": FIRST}))
    assert "no result" in open_page("papers", experiment=FIRST).error[0].value
