"""What if as one HTML file: what is in it, and what the command says."""

import json
import re

import pytest

from dpmc_core import registry
from dpmc_data.synthetic import SAMPLES
from dpmc_lab.cli import app as command
from dpmc_lab.sweep.presets import EPSILONS
from pages.ui import explorable, instrument, scene
from pages.ui.sentences import UNIT_LABELS
from tests.page_helpers import HtmlFile, open_page
from tests.page_helpers import read_instrument as shown_on_the_page

MIB = 2**20


@pytest.fixture(scope="module")
def html_text():
    return explorable.render_sample("movie-night")


@pytest.fixture(scope="module")
def file(html_text):
    return HtmlFile(html_text)


@pytest.fixture(scope="module")
def content(file):
    return json.loads(file.scripts["application/json"])


def test_it_is_small_enough_and_well_formed(html_text, file):
    assert len(html_text.encode()) < MIB
    assert file.tags.count("script") == 2


def test_nothing_in_it_is_fetched(html_text, file):
    for tag, attrs in file.elements:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base", "a")
        assert not {"src", "href", "srcset", "action", "data"} & set(attrs), (tag, attrs)
    styles = re.findall(r"<style>(.*?)</style>", html_text, flags=re.DOTALL)
    assert not any("@import" in style for style in styles)
    addresses = [a for style in styles for a in re.findall(r"url\((.{5})", style)]
    assert all(address in ("data:", "#dpmc") for address in addresses)
    assert "fetch(" not in file.scripts["module"]
    (policy,) = (m["content"] for m in file.all("meta") if "http-equiv" in m)
    assert policy.startswith("default-src 'none';")
    assert "connect-src" not in policy


def test_both_promises_are_there_and_can_be_chosen(file, content):
    assert [view["mechanism"] for view in content["views"]] == ["input-flip", "private-effects"]
    radios = [element for element in file.all("input") if element.get("type") == "radio"]
    assert len(radios) == 2
    for phrase in UNIT_LABELS.values():
        assert phrase in file.full_text


@pytest.mark.slow
@pytest.mark.parametrize("k", [0, 1])
def test_it_shows_what_the_page_shows(content, k):
    view = content["views"][k]
    app = open_page(data="movie-night", mechanism=view["mechanism"])
    page = shown_on_the_page(app)
    for name in instrument.STATES:
        page.pop(name)
    assert view["shown"] == page


def test_the_card_of_each_stop_is_there(content):
    for view in content["views"]:
        assert len(view["cards"]) == len(EPSILONS)
        for epsilon, guarantee_text in zip(EPSILONS, view["cards"], strict=True):
            assert dict(map(tuple, guarantee_text))["Proved"].startswith(f"Epsilon {epsilon:g}")


def test_titles_that_look_like_code_stay_text():
    text = explorable.render_explorable(
        "x", "</title><script>alert(1)</script>", [load_scene()], explorable.INITIAL_STATE
    )
    assert HtmlFile(text).tags.count("script") == 2
    assert "<" not in text.partition('id="content">')[2].partition("</script>")[0]


def load_scene(data="one-bit-lab", id="input-flip"):
    shipped_scene = scene.load_shipped_scene(data, id)
    assert shipped_scene is not None
    return shipped_scene


@pytest.mark.slow
@pytest.mark.parametrize("data", SAMPLES)
def test_every_sample_has_its_file(data):
    ids = [view["mechanism"] for view in read_json(explorable.render_sample(data))["views"]]
    assert ids
    assert all(id in registry.list_suitable_mechanisms(clicks=SAMPLES[data].clicks) for id in ids)


def read_json(text):
    return json.loads(HtmlFile(text).scripts["application/json"])


# --- the button --------------------------------------------------------------------------------


@pytest.mark.slow
def test_beside_the_method_shown_stands_the_other_promise():
    shipped_scene = load_scene("movie-night", "dpals")  # a person's, and not the recommended one
    assert [
        other_scene.id for other_scene in explorable.load_other_scenes("movie-night", shipped_scene)
    ] == ["input-flip"]
    shipped_scene = load_scene("movie-night", "input-flip")
    assert [
        other_scene.id for other_scene in explorable.load_other_scenes("movie-night", shipped_scene)
    ] == ["private-effects"]
    assert explorable.load_other_scenes("upload", shipped_scene) == []


def test_an_upload_shows_no_person_and_no_place_on_the_server():
    shown = load_scene()
    anonymous_scene = scene.build_scene(shown.id, shown.chart, shown.public)
    text = explorable.render_explorable(
        "/tmp/secret/data.npz",
        "Your upload",
        [anonymous_scene],
        explorable.INITIAL_STATE,
        private=True,
    )
    file = HtmlFile(text)
    assert read_json(text)["views"][0]["shown"]["people"] is None  # those of a sample are there
    assert read_json(explorable.render_sample("one-bit-lab"))["views"][0]["shown"]["people"]
    assert "secret" not in file.full_text
    assert "YOUR_FILE" in file.full_text
    assert "publish none of it" in file.full_text


# --- the command -------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_command_writes_the_file(dpmc, tmp_path, html_text):
    path = tmp_path / "what-if.html"
    status, out, err = dpmc("explorable", "movie-night", "--out", path)
    assert (status, err) == (0, "")
    assert str(path) in out
    assert path.read_text(encoding="utf-8") == html_text
    before = path.stat().st_mtime_ns
    status, _, err = dpmc("explorable", "movie-night", "--out", path)
    assert status == 1
    assert "is there already" in err
    assert path.stat().st_mtime_ns == before
    status, _, _ = dpmc("explorable", "movie-night", "--out", path, "--force")
    assert status == 0
    assert path.stat().st_mtime_ns > before


@pytest.mark.parametrize("argv", [("app",), ("explorable", "jokes", "--out", "a.html")])
def test_without_the_app_s_packages_the_command_says_what_to_install(
    dpmc, tmp_path, monkeypatch, argv
):
    monkeypatch.setattr(command, "NEEDED", ("a_package_that_is_not_there",))
    monkeypatch.chdir(tmp_path)
    status, out, err = dpmc(*argv)
    assert (status, out) == (1, "")
    assert "pip install '.[app]'" in err
    assert err.count("\n") == 1
