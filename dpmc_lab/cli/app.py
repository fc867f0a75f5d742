"""Start the app, and write what it makes: `dpmc app`, `dpmc explorable`."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from dpmc_core.errors import (
    DpmcError,
    InvalidSetting,
    check_number,
    format_value,
    unknown_name_error,
)
from dpmc_data import paths
from dpmc_data.synthetic import SAMPLES
from dpmc_lab import plugins
from dpmc_lab.cli.interface import Option, Plugins

_LAB = Path(__file__).resolve().parents[1]
# Where app.py and pages/ are: inside the package if it was installed from a wheel (see setup.py),
# else next to it in the checkout.
APP = _LAB / "_app" if (_LAB / "_app").is_dir() else _LAB.parent
NEEDED = ("pandas", "plotly", "segno", "starlette", "streamlit")


def check_installed() -> None:
    """Check that the packages are installed that the app needs.

    Raises:
        DpmcError: one is missing.
    """
    if not all(find_spec(name) for name in NEEDED):
        raise DpmcError(
            "the app needs more packages: run pip install 'dpmc-lab[app]', or in the folder of its"
            " source pip install '.[app]'"
        )


def check_listen_address(address: str, port: int | None) -> None:
    """Check that a server can listen at an address.

    Raises:
        DpmcError: it cannot.
    """
    if port is not None:
        check_number("--port", port, at_least=1, at_most=65535)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        socket.create_server((address, port or 0), family=family).close()
    except OSError as error:
        location = address if port is None else f"{address}, port {port}"
        reason = str(error.strerror).partition(" (while")[0]
        raise DpmcError(
            f"the app cannot listen at {format_value(location)}: {reason}."
            " Choose another one with --address or --port"
        ) from None


def start_app(
    *,
    class_: bool = False,
    address: str | None = None,
    port: Annotated[int | None, Option("PORT")] = None,
    plugin: Plugins = (),
) -> None:
    """Open the app in a browser.

    Start the app and open it in a browser; Ctrl-C stops it.

    Args:
        class_: class mode: phones in this network can join, and only the teacher can change things
        address (ADDRESS): address to listen on (default 127.0.0.1; in class mode 0.0.0.0)
        port: port to listen on (default 8501, or the next free port)

    examples:
      dpmc app
      dpmc app --class
      dpmc app --plugin my_method.py

    Streamlit's other options are environment variables, such as STREAMLIT_SERVER_BASE_URL_PATH=lab.
    """
    check_installed()
    environment = dict(os.environ)
    try:
        Path.home()
    except RuntimeError:  # Streamlit looks there for its settings
        environment["HOME"] = str(paths.find_home_folder())
    default = "0.0.0.0" if class_ else environment.get("STREAMLIT_SERVER_ADDRESS", "127.0.0.1")
    files = [*plugins.list_environment_files(), *(str(Path(file).resolve()) for file in plugin)]
    environment[plugins.VARIABLE] = os.pathsep.join(files)
    options = {"server.address": address or default, "server.port": port}
    check_listen_address(address or default, port)
    if class_:
        environment["DPMC_CLASS"] = "1"
        options |= {"server.headless": "true", "logger.hideWelcomeMessage": "true"}
    command = [sys.executable, "-m", "streamlit", "run", str(APP / "app.py")]
    for name, value in options.items():
        if value is not None:
            command += [f"--{name}", str(value)]
    if sys.platform == "win32":
        sys.exit(subprocess.call(command, env=environment))
    sys.stdout.flush()
    os.execve(sys.executable, command, environment)  # signals reach the server itself


def write_explorable(
    data: Annotated[str, Option("DATA", "a sample's id")],
    *,
    out: Path,
    force: bool = False,
) -> None:
    """Write the page What if as one HTML file.

    Write the page What if of a sample as one HTML file of about 2 MB. The file shows the
    recommended mechanism for each privacy unit. It needs no server and no network.

    Args:
        out (FILE): the HTML file to write
        force: overwrite an existing file

    examples:
      dpmc explorable movie-night --out what-if.html

    The curves come with the sample. The file states the version, settings and seeds behind them.
    Any browser opens it from disk, and it sends nothing to anyone.
    """
    if data not in SAMPLES:
        raise unknown_name_error("data", data, SAMPLES)
    (paths.check_file_location if force else paths.check_new_file)(out)
    if out.is_dir():
        raise InvalidSetting("--out", "a file", str(out), "this is a folder")
    check_installed()
    # The library does not know the app: as a page starts `dpmc`, this starts a module of the app.
    command = [sys.executable, "-m", "pages.ui.explorable", data]
    process = subprocess.run(
        command, cwd=APP, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if process.returncode:
        error_lines = process.stderr.decode("utf-8", "replace").strip().splitlines()
        raise DpmcError(
            error_lines[-1] if error_lines else f"the app ended with status {process.returncode}"
        )
    with paths.write_atomically(out) as partial_path:
        partial_path.write_bytes(process.stdout)
    print(f"Wrote {out} ({len(process.stdout) / 1e6:.1f} MB): open it in a browser.")
