"""A class without the app around it: the routes that phones reach, served from this process."""

import json
import socket
import threading
import time
from contextlib import contextmanager
from http.client import HTTPConnection

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware

from dpmc_lab.classroom.room import Room
from pages.ui import classroom, door
from tests.waiting import PATIENCE_SECONDS

SECRET = "a-secret-for-tests"
QUESTIONS = ("Tea?", "Coffee?", "Neither?")


@contextmanager
def serve_class(base="", host="127.0.0.1", **environment):
    """Class mode in this process, with limits as at the start: the address of its server."""
    with pytest.MonkeyPatch.context() as patch, socket.socket() as listening_socket:
        for name, value in ({"DPMC_CLASS": "1", "DPMC_CLASS_SECRET": SECRET} | environment).items():
            patch.setenv(name, value)
        classroom.get_teacher_secret.cache_clear()
        reset_rate_limits()
        listening_socket.bind((host, 0))
        listening_socket.listen(256)
        middleware = [Middleware(door.HostGuard), Middleware(classroom.UploadGuard)]
        app = Starlette(routes=classroom.build_routes(base), middleware=middleware)
        config = uvicorn.Config(app, lifespan="off", ws="none", log_config=None, access_log=False)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listening_socket],))
        thread.start()
        try:
            while not server.started:
                assert thread.is_alive()
                time.sleep(0.01)
            yield f"http://{host}:{listening_socket.getsockname()[1]}{base}/"
        finally:
            server.should_exit = True
            thread.join(60)
            classroom._server.replace_room(None)
            classroom.get_teacher_secret.cache_clear()


def reset_rate_limits():
    for limit in (classroom._phone_limit, classroom._secret_limit):
        limit._left.clear()


def open_asked_room(epsilon=2.0, questions=QUESTIONS, **options):
    """A room of this process's server, its first question asked."""
    room = Room(questions, epsilon, **options)
    classroom._server.replace_room(room)
    room.ask(0)
    return room


def send_request(server, path, body=None, **headers):
    """Status and JSON of one request; body: bytes or what becomes JSON."""
    host, _, base = server.removeprefix("http://").partition("/")
    connection = HTTPConnection(host, timeout=PATIENCE_SECONDS)
    if body is not None and not isinstance(body, bytes):
        body, headers = json.dumps(body).encode(), {"Content-Type": "application/json"} | headers
    try:
        connection.request("POST" if body is not None else "GET", f"/{base}{path}", body, headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


class Phone:
    """A phone as the server sees it: it knows a token, and what it has sent."""

    def __init__(self, server, number):
        self._server, self._token = server, f"{number:032x}"

    def fetch_question(self):
        return send_request(self._server, "asking", Phone=self._token)[1]

    def send_report(self, bit, **change):
        question = self.fetch_question()
        report = {
            "room": question["room"],
            "asking": question["asking"],
            "token": self._token,
            "bit": bit,
        }
        return send_request(self._server, "report", report | change)


def run_concurrently(*calls):
    """The results of calls that are made at the same time."""
    results = [None] * len(calls)

    def run(k):
        results[k] = calls[k]()

    threads = [threading.Thread(target=run, args=(k,)) for k in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
