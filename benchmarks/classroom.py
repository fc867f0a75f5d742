"""Measure a class: lost reports, response times, and the memory of a visit.

    python benchmarks/classroom.py [--phones 200] [--seconds 10] [--pages 20]

The script starts its own server in class mode on this machine and asks one question. Each phone
loads its page, asks for the state of the room every two seconds, as the page does, and reports once
within `--seconds`. At the end all phones send their report again, as after a reload; a report that
was lost the first time is then new. The memory is that of the server alone: before, with all phones
connected, and with visitors of What if instead. The projector is the teacher's page in Chromium,
which is open while the phones report.
"""

import argparse
import asyncio
import json
import os
import random
import secrets
import shutil
import statistics
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlencode, urlsplit

from app_speed import FLAGS, serve
from playwright.async_api import async_playwright
from streamlit.proto.Alert_pb2 import Alert
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.Element_pb2 import Element
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import ClientConnection, connect

SECRET = secrets.token_urlsafe(16)
POLL_SECONDS = 2.0  # between two requests of a phone for the state, see pages/ui/phone.html
# Seconds after which the server looks for ended sessions again, see pages/ui/server.py.
COLLECT_SECONDS = 20.0
PATIENCE = 60.0  # seconds after which an answer counts as lost
FINISHED_EARLY = ForwardMsg.FINISHED_EARLY_FOR_RERUN


class Tab:
    """A visitor's tab: it requests runs of the page and records the elements that matter here."""

    def __init__(self, socket: ClientConnection, page: str, query: Mapping[str, str]) -> None:
        self._socket, self._page, self._query = socket, page, dict(query)
        self._hashes: dict[str, None] = {}  # of large messages, which are not sent twice
        self.elements: dict[tuple[str, str], tuple[Element, str]] = {}  # and their fragments
        self.ticks: dict[str, float] = {}  # seconds between reruns of a fragment
        self.errors: list[str] = []
        self.bytes = self.messages = 0

    async def run(self, fragment: str = "", *, tick: bool = False, **value: object) -> float:
        """Request a run and read it to its end.

        Args:
            fragment: id of the fragment to run; empty for the whole page.
            tick: whether the run is a repetition by the fragment's timer.
            **value: the id of a widget and its new value.

        Returns:
            The seconds that the run took.
        """
        message = BackMsg()
        request = message.rerun_script
        request.query_string, request.page_name = urlencode(self._query), self._page
        request.fragment_id, request.is_auto_rerun = fragment, tick
        request.context_info.timezone, request.context_info.color_scheme = "UTC", "light"
        request.cached_message_hashes.extend(self._hashes)
        if value:
            texts = value.pop("string_array_value", None)
            state = request.widget_states.widgets.add(**value)
            if texts is not None:
                state.string_array_value.data.extend(texts)
        start = time.perf_counter()
        await self._socket.send(message.SerializeToString())
        async with asyncio.timeout(PATIENCE):
            while not self._handle_message(await self._socket.recv()):
                pass
        return time.perf_counter() - start

    def _handle_message(self, data: bytes) -> bool:
        """Handle one message, and return whether the run is over."""
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
            self._record_element(message.delta.new_element, message.delta.fragment_id)
        return kind == "script_finished" and message.script_finished != FINISHED_EARLY

    def _record_element(self, element: Element, fragment: str) -> None:
        """Record an error, a button or the instrument; other elements do not matter here."""
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
async def open_tab(address: str, page: str = "", **query: str) -> AsyncIterator[Tab]:
    """Open a tab of the app with its first page drawn."""
    stream = address.replace("http", "ws", 1) + "_stcore/stream"
    options = {"max_size": None, "open_timeout": PATIENCE}
    async with connect(stream, subprotocols=["streamlit"], **options) as socket:
        tab = Tab(socket, page, query)
        await tab.run()
        yield tab


def measure_memory(process: int) -> float:
    """Return the private memory of a process and its descendants, in MB."""
    kilobytes, process_ids = 0, [process]
    while process_ids:
        folder = Path("/proc") / str(process_ids.pop())
        with suppress(OSError):
            lines = (folder / "smaps_rollup").read_text().splitlines()
            kilobytes += sum(int(line.split()[1]) for line in lines if line.startswith("Pss_Anon:"))
            for thread in (folder / "task").iterdir():
                process_ids += map(int, (thread / "children").read_text().split())
    return kilobytes / 1024


class Phone:
    """A phone with one persistent connection, which records the time of each request.

    Args:
        address: of the server.
        times: receives the seconds of each request, by path.
        report_times: receives the times at which reports were accepted, if given.
    """

    def __init__(
        self, address: str, times: dict[str, list[float]], report_times: list[float] | None = None
    ) -> None:
        self._host = urlsplit(address).netloc
        self._times = times
        self._report_times = report_times
        self._token = secrets.token_hex(16)
        self._bit = random.randrange(2)

    async def fetch(self, path: str, body: bytes = b"") -> bytes:
        """Send a request and return the content of the response."""
        head = f"{'POST' if body else 'GET'} {path} HTTP/1.1\r\nHost: {self._host}\r\n"
        if body:
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        start = time.perf_counter()
        self._writer.write(head.encode() + b"\r\n" + body)
        head_text = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()
        content = await self._reader.readexactly(
            int(head_text.split("content-length: ")[1].split()[0])
        )
        self._times.setdefault(path, []).append(time.perf_counter() - start)
        assert " 200 " in head_text.splitlines()[0], content
        return content

    async def send_report(self) -> str:
        """Answer the current question and return the receipt."""
        poll_view = json.loads(await self.fetch("/asking"))
        report = {"room": poll_view["room"], "asking": poll_view["asking"], "token": self._token}
        report["bit"] = self._bit
        receipt = json.loads(await self.fetch("/report", json.dumps(report).encode()))["receipt"]
        if receipt == "new" and self._report_times is not None:
            self._report_times.append(time.monotonic())
        return receipt

    async def run(self, seconds: float, arrived: asyncio.Barrier, end: asyncio.Event) -> list[str]:
        """Poll until the end; return the receipts of the report and of its repetition.

        Args:
            seconds: time in which the phone reports, at a random moment.
            arrived: is passed when all phones are connected.
            end: is set when the phones repeat their reports and leave.
        """
        host, _, port = self._host.partition(":")
        await asyncio.sleep(random.uniform(0, POLL_SECONDS))
        self._reader, self._writer = await asyncio.open_connection(host, int(port))
        await self.fetch("/phone")
        await arrived.wait()
        await asyncio.sleep(random.uniform(0, POLL_SECONDS))  # so that phones do not ask together
        report_time, receipts = time.monotonic() + random.uniform(0, seconds), []
        while not end.is_set():
            if not receipts and time.monotonic() >= report_time:
                receipts.append(await self.send_report())
            await self.fetch("/asking")
            await asyncio.sleep(POLL_SECONDS * random.uniform(0.8, 1.2))
        receipts.append(await self.send_report())
        self._writer.close()
        return receipts


async def print_measurements(address: str, process: int, options: argparse.Namespace) -> None:
    """Measure phones, projector and memory, and print the results."""
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    async with open_tab(address):  # load what all visitors share before the first measurement
        await run_phones(address, process, 5, 1.0, {})
    prior_memory, times, report_times = await measure_settled_memory(process), {}, []
    watching = asyncio.create_task(time_projector(address, 5, options.phones, report_times))
    receipts, full_memory = await run_phones(
        address, process, options.phones, options.seconds, times, report_times
    )
    delays = await watching
    print(
        f"projector: a report is on it after {statistics.median(delays):.2f} s (median), at most"
        f" {max(delays):.2f} s"
    )
    lost = sum(entry != ["new", "again"] for entry in receipts)
    print(f"{options.phones} phones within {options.seconds:g} s: {lost} reports lost")
    for path, name in (("/report", "POST"), ("/asking", "GET"), ("/phone", "page")):
        durations = sorted(1e3 * entry for entry in times[path])
        p95 = statistics.quantiles(durations, n=20)[-1]
        print(
            f"{name}: {len(durations)} answers, median {statistics.median(durations):.1f} ms,"
            f" p95 {p95:.1f} ms, max {durations[-1]:.1f} ms"
        )
    each = 1024 * (full_memory - prior_memory) / options.phones
    print(f"memory of a phone that is there: {each:.0f} kB")
    prior_memory = await measure_settled_memory(process)
    async with AsyncExitStack() as stack:
        for _ in range(options.pages):
            await stack.enter_async_context(open_tab(address))
        each = (await measure_settled_memory(process) - prior_memory) / options.pages
    print(f"memory of a visitor of the app: {each:.1f} MB ({prior_memory:.0f} MB before)")


async def time_projector(
    address: str, n_prior: int, number: int, report_times: list[float]
) -> list[float]:
    """Return the seconds from each report until the teacher's page counts it.

    Args:
        address: of the server.
        n_prior: number of reports that the page counts before the first of these.
        number: number of reports to wait for.
        report_times: times at which reports were accepted; it grows meanwhile.
    """
    delays: list[float] = []
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=FLAGS
        )
        page = await chromium.new_page(viewport={"width": 1366, "height": 650})
        await page.goto(f"{address}teacher/{SECRET}")
        counter = page.locator(".counted b").first
        await counter.wait_for()
        while len(delays) < number:
            n_displayed, now = int(await counter.inner_text()) - n_prior, time.monotonic()
            delays += [now - sent for sent in report_times[len(delays) : n_displayed]]
            await asyncio.sleep(0.02)
        await chromium.close()
    return delays


async def measure_settled_memory(process: int) -> float:
    """Return the MB of the server after it has freed what it can."""
    await asyncio.sleep(COLLECT_SECONDS + 3)
    return measure_memory(process)


async def run_phones(
    address: str,
    process: int,
    number: int,
    seconds: float,
    times: dict[str, list[float]],
    report_times: list[float] | None = None,
) -> tuple[list[list[str]], float]:
    """Return the receipts of all reports, and the server's memory with all phones connected."""
    arrived, end = asyncio.Barrier(number), asyncio.Event()
    phone_tasks = [
        asyncio.create_task(Phone(address, times, report_times).run(seconds, arrived, end))
        for _ in range(number)
    ]
    await asyncio.sleep(seconds + 3 * POLL_SECONDS)
    memory_in_use = await measure_settled_memory(process)
    end.set()
    return await asyncio.gather(*phone_tasks), memory_in_use


def main() -> None:
    """Start the server, measure it and print the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--phones", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--pages", type=int, default=20)
    options = parser.parse_args()
    with TemporaryDirectory() as home:
        questions = Path(home) / "questions.txt"
        questions.write_text("Tea?\n")
        environment = os.environ | {
            "DPMC_HOME": home,
            "DPMC_CLASS": "1",
            "DPMC_CLASS_SECRET": SECRET,
            "DPMC_CLASS_QUESTIONS": str(questions),
            "DPMC_CLASS_SIZE": "500",
        }
        with serve(environment) as (address, process):
            asyncio.run(print_measurements(address, process, options))


if __name__ == "__main__":
    main()
