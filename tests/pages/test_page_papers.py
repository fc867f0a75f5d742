"""The page of papers: every figure with its verdicts, one of them in full, made again."""

import json

import pytest

from dpmc_core import registry
from dpmc_lab import papers
from dpmc_lab.papers import engine, views
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
