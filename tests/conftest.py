"""Fixtures that several test files share."""

from __future__ import annotations

import functools
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

# Before NumPy comes: threads of several test processes would wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from dpmc_lab.cli import main
from tests.browser_helpers import CHROMIUM, open_chromium, serve_app
from tests.cluster_helpers import cluster  # noqa: F401 - a fixture
from tests.faults import MUTANTS

ROOT = Path(__file__).resolve().parent.parent
SLOW_TIMEOUT = 1800  # seconds of a slow test, on a machine that does other things besides


def pytest_configure() -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # begun beside a shell
        signal.signal(signal.SIGINT, signal.default_int_handler)  # reaches what tests start


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    planted = {test for mutant in MUTANTS for test in mutant.tests}
    for item in items:
        named = planted & {item.nodeid, item.nodeid.partition("[")[0]}
        if item.get_closest_marker("slow_unless_planted") and not named:
            item.add_marker(pytest.mark.slow)
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW_TIMEOUT))


@pytest.fixture(autouse=True)
def _own_main() -> Iterator[None]:
    """Streamlit leaves its last script as `__main__`, which worker processes would run again."""
    before = sys.modules["__main__"]
    yield
    sys.modules["__main__"] = before


@pytest.fixture(autouse=True, scope="session")
def _own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing of a test lands in the store of whoever runs it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPMC_HOME", str(tmp_path_factory.mktemp("dpmc-home")))
        yield


@pytest.fixture(autouse=True, scope="session")
def _packages_are_read_once() -> Iterator[None]:
    """Every page under test would look for components in all packages that are installed."""
    from streamlit.components.v2 import manifest_scanner

    with pytest.MonkeyPatch.context() as patch:
        cached_scan = functools.cache(manifest_scanner.scan_component_manifests)
        patch.setattr(manifest_scanner, "scan_component_manifests", cached_scan)
        yield


@pytest.fixture(autouse=True)
def _own_session() -> Iterator[None]:
    """All of Streamlit's test sessions carry one id: what one keeps would greet the next."""
    yield
    if "streamlit.testing.v1" in sys.modules:
        from streamlit.runtime import caching

        caching.clear_session_resource_cache("test session id")


@pytest.fixture(scope="module")
def temporary() -> Iterator[Path]:
    """Where a server's temporary files lie, apart from those of other servers.

    A short name: what worker processes connect to has to fit into a hundred letters.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        yield Path(name)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, temporary: Path) -> Iterator[str]:
    """A fresh server on a free port; yields its address."""
    home = tmp_path_factory.mktemp("home")
    with serve_app(home, TMPDIR=str(temporary)) as (address, process):
        yield address
        process.terminate()
        process.wait(60)
    assert "Traceback" not in (home / "server.log").read_text()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("chromium is not installed (Debian: apt install chromium)")
    with open_chromium() as started_browser:
        yield started_browser


@pytest.fixture
def page(browser: Any, server: str) -> Iterator[Any]:
    """A tab of its own that must see no error and ask nobody but our server."""
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    tab = context.new_page()
    wrong: list[str] = []
    tab.on("pageerror", lambda error: wrong.append(f"error on the page: {error}"))
    tab.on("request", lambda request: wrong.extend(_find_foreign_request(request.url, server)))
    yield tab
    context.close()
    assert not wrong


def _find_foreign_request(url: str, server: str) -> list[str]:
    parsed_url = urlsplit(url)
    at_home = parsed_url.scheme in ("data", "blob") or parsed_url.netloc == urlsplit(server).netloc
    return [] if at_home else [f"asked {url}"]


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of the real rating sets, whose terms forbid keeping them here."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"real rating data is not at {folder}")
    return folder


@pytest.fixture
def dpmc(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run a command in this process: (exit status, standard output, standard error)."""

    def run(*argv: object) -> tuple[int, str, str]:
        status = main([str(word) for word in argv])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return status, captured.out, captured.err

    return run
