"""The wheel holds the library, the command, the sample data and the app, and works anywhere."""

import json
import os
import re
import runpy
import shutil
import socket
import subprocess
import sys
import urllib.request
import zipfile
from pathlib import Path

import pytest
import setuptools

import dpmc_core
from tests.waiting import wait_for

ROOT = Path(__file__).resolve().parent.parent

PACKAGES = ("dpmc_core", "dpmc_data", "dpmc_lab", "sample_data")
APP = ("pages", ".streamlit", "app.py")  # in the wheel they are in dpmc_lab/_app


def list_tracked():
    """The files of the wheel that git knows, by their names in it."""
    listing = ["git", "ls-files", "-z", *PACKAGES, *APP]
    try:
        result = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"git cannot list the files here: {error}")
    names = {name for name in result.stdout.split("\0") if name and (ROOT / name).exists()}
    return {name if name.startswith(PACKAGES) else f"dpmc_lab/_app/{name}" for name in names}


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The wheel built from a copy of the sources, unpacked: (folder, names inside)."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    ignore = shutil.ignore_patterns("__pycache__")
    for name in (*PACKAGES, *APP[:2]):
        shutil.copytree(ROOT / name, source / name, ignore=ignore)
    for name in ("app.py", "setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "--wheel-dir", folder, source], check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    site = folder / "site"
    with zipfile.ZipFile(wheel) as stored:
        stored.extractall(site)
        return site, stored.namelist()


def run_dpmc(site, elsewhere, *argv, check=True):
    code = (
        "import sys, dpmc_core; from dpmc_lab.cli import main;"
        f"assert dpmc_core.__file__.startswith({str(site)!r}); sys.exit(main(sys.argv[1:]))"
    )
    return subprocess.run(
        [sys.executable, "-c", code, *argv],
        cwd=elsewhere,
        env=os.environ | {"PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=check,
    )


def test_the_wheel_holds_every_file_that_git_knows(installed):
    """A data file of a new kind is in the wheel at once, or this fails."""
    _, names = installed
    assert list_tracked() <= set(names)


@pytest.mark.parametrize("repository", ["", "https://code.example/lab/"])
def test_links_of_the_readme_work_in_an_index_of_packages(repository, monkeypatch):
    """They lead to the repository if its address is given, and are no links otherwise."""
    options = {}
    monkeypatch.setenv("DPMC_REPOSITORY", repository)
    monkeypatch.setattr(setuptools, "setup", lambda **given: options.update(given))
    runpy.run_path(str(ROOT / "setup.py"))
    text = options["long_description"]
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert all(link.startswith("https://") for link in (*links, *options["project_urls"].values()))
    expected = f"{repository}blob/v{dpmc_core.__version__}/docs/index.md"
    assert expected in links if repository else "Documentation (`docs/index.md`)" in text


@pytest.mark.slow
def test_the_wheel_holds_what_it_should_and_no_more(installed):
    _, names = installed
    assert "dpmc_core/py.typed" in names
    assert "sample_data/movie-night.npz" in names
    assert "dpmc_lab/lessons/lessons.html" in names
    folders = {name.split("/")[0] for name in names}
    packages = {folder for folder in folders if not folder.endswith(".dist-info")}
    assert packages == {*PACKAGES}
    assert not any("__pycache__" in name or name.startswith("tests") for name in names)


@pytest.mark.slow
def test_the_command_is_declared(installed):
    site, names = installed
    (entry_points,) = [name for name in names if name.endswith("entry_points.txt")]
    assert "dpmc = dpmc_lab.__main__:entry" in (site / entry_points).read_text()


@pytest.mark.slow
def test_the_library_finds_its_samples_from_anywhere(installed, tmp_path):
    site, _ = installed
    assert "input-flip" in run_dpmc(site, tmp_path, "list").stdout
    out = run_dpmc(site, tmp_path, "fit", "one-bit-lab", "input-flip", "--epsilon", "2", "--json")
    assert json.loads(out.stdout)["data"]["name"] == "one-bit-lab"


@pytest.mark.slow
def test_what_only_the_app_makes_is_made_anywhere(installed, tmp_path):
    site, _ = installed
    run_dpmc(site, tmp_path, "explorable", "jokes", "--out", "a.html")
    assert (tmp_path / "a.html").read_text().startswith("<!doctype html>")


def test_the_app_opens_in_a_folder_elsewhere(installed, tmp_path):
    """The server is healthy, the start page is ours, and nobody else in the network is served."""
    site, _ = installed
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "dpmc_lab", "app", "--port", str(port)]
    environment = {"PYTHONPATH": str(site), "DPMC_HOME": str(tmp_path)}
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=os.environ | environment | {"STREAMLIT_SERVER_HEADLESS": "true"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        wait_for(lambda: fetch(port, "_stcore/health") or process.poll() is not None)
        assert process.poll() is None, process.stdout.read()
        assert fetch(port, "_stcore/health") == "ok"
        assert "BACKEND_BASE_URL" in fetch(port, "")  # app.py of the wheel, with its own routes
        assert "BACKEND_BASE_URL" in fetch(port, "train")
    finally:
        process.terminate()
        output, _ = process.communicate(timeout=60)
    assert f"http://127.0.0.1:{port}" in output  # its own configuration was read


def fetch(port, path):
    """What the server at a port answers; None while it does not."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=10) as response:
            return response.read().decode()
    except OSError:
        return None
