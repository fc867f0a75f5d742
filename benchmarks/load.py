"""Many visitors at once: how soon the slider of What if answers, and what each of them costs.

    python benchmarks/load.py [--sessions 30] [--seconds 60] [--every 5] [--trainings 2]
    python benchmarks/load.py --rerun

Starts its own server on this machine. Each visitor is a websocket that speaks Streamlit's messages
as a browser does: it opens What if and then moves the slider; a rerun is answered when the server
says that it is over. Visitors of Train press its button again and again, and follow the run.
Memory is what the server and its children hold themselves (libraries are shared with whatever else
runs), beside their threads, open files and how many children there are: before, at its peak and
after all have left and been forgotten, which Streamlit does a while later: `--forget` seconds here;
and how fast memory grows in the second half, which leaks do however long it takes. --rerun: only
the processor time of one rerun, without a server.
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from urllib.parse import urlencode

from app_speed import ROOT, serve
from streamlit.proto.Alert_pb2 import Alert
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.Element_pb2 import Element
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.testing.v1 import AppTest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from dpmc_core.lab.sweep.presets import EPSILONS

TIDY = 20.0  # seconds between two looks of the server at what has ended, see pages/ui/server.py
PATIENCE = 60.0  # seconds after which an answer counts as lost
LOST = (OSError, TimeoutError, WebSocketException, KeyError, asyncio.BrokenBarrierError)
EARLY = ForwardMsg.FINISHED_EARLY_FOR_RERUN


class Tab:
    """One visitor's tab: what the page shows that matters here, and what is sent back."""

    def __init__(self, socket: ClientConnection, page: str, query: Mapping[str, str]) -> None:
        self._socket, self._page, self._query = socket, page, dict(query)
        self._hashes: dict[str, None] = {}  # of large messages, which are not sent twice
        self.elements: dict[tuple[str, str], tuple[Element, str]] = {}  # and their fragments
        self.ticks: dict[str, float] = {}  # seconds between reruns of a fragment
        self.errors: list[str] = []
        self.bytes = self.messages = 0

    async def run(self, fragment: str = "", *, tick: bool = False, **value: object) -> float:
        """Ask for a run and read it to its end; in seconds. value: of one widget, with its id."""
        message = BackMsg()
        ask = message.rerun_script
        ask.query_string, ask.page_name = urlencode(self._query), self._page
        ask.fragment_id, ask.is_auto_rerun = fragment, tick
        ask.context_info.timezone, ask.context_info.color_scheme = "UTC", "light"
        ask.cached_message_hashes.extend(self._hashes)
        if value:
            texts = value.pop("string_array_value", None)
            state = ask.widget_states.widgets.add(**value)
            if texts is not None:
                state.string_array_value.data.extend(texts)
        start = time.perf_counter()
        await self._socket.send(message.SerializeToString())
        async with asyncio.timeout(PATIENCE):
            while not self._read(await self._socket.recv()):
                pass
        return time.perf_counter() - start

    async def slide(self, stop: int) -> float:
        """Let the slider go at a stop, which only its fragment answers."""
        element, fragment = self.elements["instrument", ""]
        told = json.dumps({"stop": stop})
        return await self.run(fragment, id=element.bidi_component.id, json_value=told)

    async def press(self, label: str) -> float:
        element, fragment = self.elements["button", label]
        return await self.run(fragment, id=element.button.id, trigger_value=True)

    def _read(self, data: bytes) -> bool:
        """Take one message in; whether the run is over."""
        message = ForwardMsg.FromString(data)
        self.bytes, self.messages = self.bytes + len(data), self.messages + 1
        kind = message.WhichOneof("type")
        if message.metadata.cacheable:
            self._hashes[message.hash] = None
            for old in list(self._hashes)[:-30]:
                del self._hashes[old]
        if kind == "new_session" and not message.metadata.run.fragment_ids:
            self.ticks = {}
        elif kind == "auto_rerun":
            self.ticks[message.auto_rerun.fragment_id] = message.auto_rerun.interval
        elif kind == "delta" and message.delta.WhichOneof("type") == "new_element":
            self._see(message.delta.new_element, message.delta.fragment_id)
        return kind == "script_finished" and message.script_finished != EARLY

    def _see(self, element: Element, fragment: str) -> None:
        kind = element.WhichOneof("type")
        if kind == "exception":
            self.errors.append(element.exception.message)
        elif kind == "alert" and element.alert.format == Alert.ERROR:
            self.errors.append(element.alert.body)
        elif kind == "button":
            self.elements[kind, element.button.label] = element, fragment
        elif kind == "bidi_component" and element.bidi_component.component_name == "instrument":
            self.elements["instrument", ""] = element, fragment


@asynccontextmanager
async def visit(address: str, page: str = "", **query: str) -> AsyncIterator[Tab]:
    """A tab of the app, its first page drawn."""
    stream = address.replace("http", "ws", 1) + "_stcore/stream"
    options = {"max_size": None, "open_timeout": PATIENCE}
    async with connect(stream, subprotocols=["streamlit"], **options) as socket:
        tab = Tab(socket, page, query)
        await tab.run()
        yield tab


class Seen:
    """What all visitors have seen: seconds of each answer, errors, messages and their size."""

    def __init__(self) -> None:
        self.opened: list[float] = []
        self.answers: list[float] = []
        self.errors: list[str] = []
        self.bytes = self.messages = self.trained = 0


async def student(
    address: str,
    seen: Seen,
    wait: float,
    every: float,
    all_here: asyncio.Barrier,
    end: asyncio.Event,
) -> None:
    """Opens What if and, once all have, moves the slider every so many seconds."""
    await asyncio.sleep(wait)
    try:
        start = time.perf_counter()
        async with visit(address) as tab:
            seen.opened.append(time.perf_counter() - start)
            await all_here.wait()
            tab.bytes = tab.messages = 0
            due = time.monotonic() + wait
            while not await over(end, due - time.monotonic()):
                seen.answers.append(await tab.slide(random.randrange(len(EPSILONS))))
                due = max(due + every, time.monotonic())
            seen.bytes, seen.messages = seen.bytes + tab.bytes, seen.messages + tab.messages
            seen.errors += tab.errors
    except LOST as error:
        seen.errors.append(repr(error))
        await all_here.abort()


async def over(end: asyncio.Event, seconds: float) -> bool:
    """Whether the end comes within so many seconds, which are waited for."""
    with suppress(TimeoutError):
        await asyncio.wait_for(end.wait(), max(seconds, 0))
    return end.is_set()


async def train(tab: Tab) -> None:
    """One training, followed as the page does."""
    await tab.press("Train")
    while tab.ticks:
        fragment, seconds = next(iter(tab.ticks.items()))
        await asyncio.sleep(seconds)
        await tab.run(fragment, tick=True)


async def trainer(address: str, mechanism: str, seen: Seen, end: asyncio.Event) -> None:
    """Trains again and again, once before the end at least."""
    try:
        async with visit(address, "train", mechanism=mechanism) as tab:
            while not seen.trained or not end.is_set():
                seen.trained += 1
                await train(tab)
            seen.errors += tab.errors
    except LOST as error:
        seen.errors.append(repr(error))


class Held(NamedTuple):
    """What a process and its children hold at one moment. memory: in MB, beside the files of their
    programs; children: how many there are."""

    memory: float
    threads: int
    files: int
    children: int


def held(process: int) -> Held:
    kilobytes, threads, files, children, waiting = 0, 0, 0, -1, [process]
    while waiting:
        folder = Path("/proc") / str(waiting.pop())
        with suppress(OSError):
            lines = (folder / "smaps_rollup").read_text().splitlines()
            kilobytes += sum(int(line.split()[1]) for line in lines if line.startswith("Pss_Anon:"))
            files, children = files + len(list((folder / "fd").iterdir())), children + 1
            for thread in (folder / "task").iterdir():
                threads += 1
                waiting += map(int, (thread / "children").read_text().split())
    return Held(kilobytes / 1024, threads, files, children)


def memory(process: int) -> float:
    """MB that a process and its children hold themselves."""
    return held(process).memory


async def measure(address: str, process: int, options: argparse.Namespace) -> None:
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    # what all sessions share is there before they come
    for _ in range(2):
        await asyncio.gather(*(first(address, options.mechanism) for _ in range(4)))
    before = await settled(address, process, options.forget)
    seen, end = Seen(), asyncio.Event()
    all_here = asyncio.Barrier(options.sessions + 1)

    spread = options.every / options.sessions
    visitors = [
        asyncio.create_task(trainer(address, options.mechanism, seen, end))
        for _ in range(options.trainings)
    ] + [
        asyncio.create_task(student(address, seen, spread * k, options.every, all_here, end))
        for k in range(options.sessions)
    ]
    with suppress(asyncio.BrokenBarrierError):  # told among the errors
        await all_here.wait()
    used, looks, start = processor(process), [(0.0, before)], time.monotonic()
    while time.monotonic() - start < options.seconds:
        await asyncio.sleep(1)
        looks.append((time.monotonic() - start, held(process)))
    used = processor(process) - used
    end.set()
    await asyncio.gather(*visitors)
    show(options, seen, used, looks, await settled(address, process, options.forget))


async def first(address: str, mechanism: str) -> None:
    async with visit(address) as tab, visit(address, "train", mechanism=mechanism) as other:
        for stop in range(len(EPSILONS)):
            await tab.slide(stop)
        await train(other)


async def settled(address: str, process: int, forget: float) -> Held:
    """What a server holds once it has forgotten those who left."""
    await asyncio.sleep(forget + 1)
    for _ in range(
        2
    ):  # Streamlit forgets when somebody comes or goes; who left late, the next time
        async with visit(address):
            await asyncio.sleep(TIDY + 3)
            found = held(process)
    return found


def processor(process: int) -> float:
    """Seconds of processor time that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def show(
    options: argparse.Namespace,
    seen: Seen,
    used: float,
    looks: Sequence[tuple[float, Held]],
    after: Held,
) -> None:
    times = sorted(seen.answers)
    if len(times) > 1:
        p95 = statistics.quantiles(times, n=20)[-1]
        print(
            f"{options.sessions} sessions, a move every {options.every:g} s,"
            f" {options.trainings} trainings ({seen.trained} begun): {len(times)} answers,"
            f" p50 {statistics.median(times):.2f} s, p95 {p95:.2f} s, max {times[-1]:.2f} s"
        )
        print(
            f"first page: median {statistics.median(seen.opened):.2f} s,"
            f" max {max(seen.opened):.2f} s; an answer: {seen.messages / len(times):.0f} messages,"
            f" {seen.bytes / len(times) / 1e3:.0f} kB"
        )
    print(f"errors: {len(seen.errors)} {sorted(set(seen.errors))[:3] if seen.errors else ''}")
    print(f"processor time of the server: {used / options.seconds:.2f} cores")
    before = looks[0][1]
    peak = Held(*map(max, zip(*(look for _, look in looks), strict=True)))
    each = (peak.memory - before.memory) / (options.sessions + options.trainings)
    late = [(seconds / 60, look.memory) for seconds, look in looks if seconds > options.seconds / 2]
    slope = statistics.linear_regression(*zip(*late, strict=True)).slope
    print(
        f"memory: {before.memory:.0f} MB before, {peak.memory:.0f} MB at its peak ({each:.1f} MB a"
        f" session), {after.memory:.0f} MB after ({after.memory / before.memory - 1:+.0%});"
        f" {slope:+.1f} MB a minute in the second half"
    )
    for name in ("threads", "files", "children"):
        there = [getattr(one, name) for one in (before, peak, after)]
        print(f"{name}: {there[0]} before, {there[1]} at most, {there[2]} after")
    print(f"load average {os.getloadavg()[0]:.1f} at the end")


def rerun(mechanism: str) -> None:
    """Move the slider of What if through all its stops, twice; the second time counts."""
    os.chdir(ROOT)  # where Streamlit looks for its settings
    sys.path.insert(0, str(ROOT))
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    app.query_params["mechanism"] = mechanism
    app.run()
    times = []
    for epsilon in 2 * EPSILONS:
        start = time.process_time()
        app.session_state["epsilon"] = epsilon
        app.run()
        times.append(1e3 * (time.process_time() - start))
    again = times[len(times) // 2 :]
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"a rerun: {statistics.median(again):.1f} ms of processor time, at most {max(again):.1f}")
    print(f"the first time: {statistics.median(times[: len(again)]):.1f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sessions", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--every", type=float, default=5, help="seconds between two moves")
    parser.add_argument("--trainings", type=int, default=2)
    parser.add_argument("--mechanism", default="gradient", help="what is trained, or moved")
    parser.add_argument("--forget", type=int, default=10, help="seconds a left session is kept")
    parser.add_argument("--rerun", action="store_true", help="the processor time of one rerun")
    options = parser.parse_args()
    if options.rerun:
        rerun(options.mechanism)
        return
    with TemporaryDirectory() as home:
        environment = os.environ | {
            "DPMC_HOME": home,
            "STREAMLIT_SERVER_DISCONNECTED_SESSION_TTL": str(options.forget),
        }
        with serve(environment) as (address, process):
            asyncio.run(measure(address, process, options))


if __name__ == "__main__":
    main()
