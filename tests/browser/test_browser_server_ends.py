"""How a server ends: with all its sweeps where it can, and else the next one clears up."""

import json
import shutil
import signal
import tempfile
from pathlib import Path

import pytest

from tests.browser_helpers import navigate_to, open_and_settle, serve_app, settle, upload_ratings
from tests.processes import count_members, needs_proc, wait_until

pytestmark = [pytest.mark.browser, needs_proc]

SHARED = "compare?data=restaurants&grid=medium&seeds=100&mechanisms=output&cap=400"


@pytest.fixture
def folder():
    """A short name: what worker processes connect to has to fit into a hundred letters."""
    path = Path(tempfile.mkdtemp())
    (path / "temporary").mkdir()
    yield path
    shutil.rmtree(path)


def find_button(page, name):
    main = page.get_by_test_id("stMainBlockContainer")  # the header has a Stop too
    return main.get_by_role("button", name=name, exact=True)


def serve(folder):
    return serve_app(folder, TMPDIR=str(folder / "temporary"))


def start(page):
    find_button(page, "Start").click()
    page.get_by_text("runs ·").wait_for()


def start_both(browser, server, folder):
    """Start a shared sweep and one on an upload, and return their process groups."""
    private_page, shared = (browser.new_context().new_page() for _ in range(2))
    upload_ratings(private_page, server, folder)
    navigate_to(private_page, "Compare")
    private_page.get_by_role("button", name="Settings").click()
    private_page.get_by_role("spinbutton", name="Seeds").fill("100")
    private_page.keyboard.press("Enter")
    private_page.wait_for_url("**seeds=100**")
    settle(private_page)
    private_page.keyboard.press("Escape")
    assert not list((folder / "temporary").iterdir())  # looking writes nothing
    start(private_page)
    open_and_settle(shared, server + SHARED)
    start(shared)
    traces = [*folder.glob("temporary/dpmc-private-*/sweeps/*.json"), *folder.glob("sweeps/*.json")]
    groups = [json.loads(path.read_text())["process"] for path in traces]
    assert len(groups) == 2
    assert all(map(count_members, groups))
    return groups


@pytest.fixture
def as_in_a_terminal():
    """Under nohup all that is started ignores that its terminal is closed."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
@pytest.mark.usefixtures("as_in_a_terminal")
def test_a_server_that_is_told_to_end_ends_its_sweeps_and_removes_uploads(browser, folder, name):
    with serve(folder) as (server, process):
        groups = start_both(browser, server, folder)
        process.send_signal(getattr(signal, name))
        process.wait(60)
        assert wait_until(lambda: not any(map(count_members, groups)), 2)
        assert not list(folder.glob("temporary/dpmc-private-*"))


@pytest.mark.slow
def test_after_a_killed_server_nothing_of_an_upload_is_left_and_a_sweep_can_be_cancelled(
    browser, folder
):
    with serve(folder) as (server, process):
        private, shared = start_both(browser, server, folder)
        process.kill()
        process.wait(60)
    assert wait_until(lambda: not count_members(private), 3)  # by itself: no server is there
    assert wait_until(lambda: not list((folder / "temporary").iterdir()), 10)
    assert count_members(shared)
    with serve(folder) as (server, _):
        page = browser.new_context().new_page()
        page.goto(server + SHARED)
        page.get_by_text("runs ·").wait_for()
        assert not find_button(page, "Start").count()  # while it goes on there is Stop in its place
        find_button(page, "Stop").click()
        find_button(page, "Go on").wait_for()
        assert wait_until(lambda: not count_members(shared), 2)
