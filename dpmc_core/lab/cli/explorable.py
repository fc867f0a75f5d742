"""`dpmc explorable`: What if as one HTML file that works without a network.

The file is made by the app, which the library does not know: as a page starts `dpmc`, this starts
the app's own module as a child.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any

from dpmc_core import paths, registry
from dpmc_core.data.samples import SAMPLES
from dpmc_core.errors import DpmcError, InvalidSetting, unknown_name
from dpmc_core.lab.store import shipped

EPILOG = """examples:
  dpmc explorable movie-night --out what-if.html
  dpmc explorable jokes --mechanism dpals private-effects --out jokes.html

The curves are those that came with the sample; the file shows by which version, settings and seeds
they were computed. It opens from a disk in any browser, and asks nobody for anything."""

_APP = (
    Path(__file__).resolve().parents[3]
)  # where it is a checkout: the app lies beside the library
_MODULE = "pages.ui.explorable"


def add_to(commands: Any) -> None:
    # Listed where it works; elsewhere it says what is missing.
    listed = {"help": "What if as one HTML file to take away"} if _has_app() else {}
    parser = commands.add_parser(
        "explorable",
        **listed,
        description="Write a sample's What if as one HTML file of about 5 MB: the slider, its"
        " curve, people and lists, the attacker. It needs neither a server nor a network.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("data", metavar="DATA", help="a sample's id")
    add("--out", metavar="FILE", type=Path, required=True, help="the HTML file to write")
    ids = "methods (default: the recommended one of each promise)"
    add("--mechanism", metavar="ID", nargs="+", default=[], help=ids)
    add("--force", action="store_true", help="overwrite a file that is there")
    parser.set_defaults(command=run)


def run(args: argparse.Namespace) -> None:
    if args.data not in SAMPLES:
        raise unknown_name("data", args.data, SAMPLES)
    ids = list(dict.fromkeys(args.mechanism))
    for id in ids:
        _check_curve(args.data, id)
    check = paths.check_folder if args.force else paths.check_new
    check(args.out)
    if args.out.is_dir():
        raise InvalidSetting("--out", "a file", str(args.out), "this is a folder")
    if not _has_app():
        raise DpmcError(
            "the app makes this file, and only the library is installed here: run the command in a"
            " checkout of DPMC Lab, where app.py and pages/ lie beside dpmc_core/"
        )
    page = _made(args.data, ids)
    with paths.whole_file(args.out) as part:
        part.write_bytes(page)
    print(f"Wrote {args.out} ({len(page) / 1e6:.1f} MB): open it in a browser.")


def _has_app() -> bool:
    return (_APP / "app.py").is_file() and (_APP / "pages").is_dir()


def _check_curve(data: str, id: str) -> None:
    """Raise InvalidSetting where no curve of a method came with a sample."""
    ready = shipped.ready(data, registry.get(id).task)
    if id not in ready or not registry.adds_noise(registry.get(id)):
        offered = registry.offered(clicks=SAMPLES[data].clicks)
        there = [one for one in offered if one in shipped.ready(data, registry.get(one).task)]
        raise InvalidSetting(
            "--mechanism", f"one whose curve came with {data}", id, f"one of {', '.join(there)}"
        )


def _made(data: str, ids: list[str]) -> bytes:
    """What the app writes. Raises DpmcError with its sentence."""
    done = subprocess.run(
        [sys.executable, "-m", _MODULE, data, *ids],
        cwd=_APP,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise DpmcError(said[-1] if said else f"the app ended with status {done.returncode}")
    return done.stdout
