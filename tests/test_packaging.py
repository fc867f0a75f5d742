"""The wheel holds the library, the command and the sample data, and works anywhere."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

PACKAGES = ("dpmc_core", "sample_data")


def tracked():
    """The files of both packages that git knows."""
    listing = ["git", "ls-files", "-z", *PACKAGES]
    try:
        done = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"git cannot list the files here: {error}")
    return {name for name in done.stdout.split("\0") if name and (ROOT / name).exists()}


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The wheel built from a copy of the sources, unpacked: (folder, names inside)."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    ignore = shutil.ignore_patterns("__pycache__")
    for name in PACKAGES:
        shutil.copytree(ROOT / name, source / name, ignore=ignore)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "--wheel-dir", folder, source], check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    site = folder / "site"
    with zipfile.ZipFile(wheel) as stored:
        stored.extractall(site)
        return site, stored.namelist()


def dpmc(site, elsewhere, *argv, check=True):
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
    assert tracked() <= set(names)


@pytest.mark.slow
def test_the_wheel_holds_what_it_should_and_no_more(installed):
    _, names = installed
    assert "dpmc_core/py.typed" in names
    assert "sample_data/movie-night.npz" in names
    assert "dpmc_lab/lessons.html" in names
    places = {name.split("/")[0] for name in names}
    packages = {place for place in places if not place.endswith(".dist-info")}
    assert packages == {"dpmc_core", "dpmc_lab", "sample_data"}
    assert not any("__pycache__" in name or name.startswith("tests") for name in names)


@pytest.mark.slow
def test_the_command_is_declared(installed):
    site, names = installed
    (entry_points,) = [name for name in names if name.endswith("entry_points.txt")]
    assert "dpmc = dpmc_lab.__main__:entry" in (site / entry_points).read_text()


@pytest.mark.slow
def test_the_library_finds_its_samples_from_anywhere(installed, tmp_path):
    site, _ = installed
    assert "input-flip" in dpmc(site, tmp_path, "list").stdout
    out = dpmc(site, tmp_path, "fit", "one-bit-lab", "input-flip", "--epsilon", "2", "--json")
    assert json.loads(out.stdout)["data"]["name"] == "one-bit-lab"


@pytest.mark.slow
def test_what_only_the_app_makes_is_not_listed_and_says_so(installed, tmp_path):
    site, _ = installed
    assert "explorable" not in dpmc(site, tmp_path, "--help").stdout
    done = dpmc(site, tmp_path, "explorable", "jokes", "--out", "a.html", check=False)
    assert done.returncode == 1
    assert "checkout" in done.stderr
