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

SECRET = "a-secret-for-tests"
QUESTIONS = ("Tea?", "Coffee?", "Neither?")


@contextmanager
def in_class(base="", host="127.0.0.1", **environment):
    """Class mode in this process, with limits as at the start: the address of its server."""
    with pytest.MonkeyPatch.context() as patch, socket.socket() as own:
        for name, value in ({"DPMC_CLASS": "1", "DPMC_CLASS_SECRET": SECRET} | environment).items():
            patch.setenv(name, value)
        classroom.secret.cache_clear()
        forget_visits()
        own.bind((host, 0))
        own.listen(256)
        middleware = [Middleware(door.Door), Middleware(classroom.Guard)]
        app = Starlette(routes=classroom.routes(base), middleware=middleware)
        config = uvicorn.Config(app, lifespan="off", ws="none", log_config=None, access_log=False)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([own],))
        thread.start()
        try:
            while not server.started:
                assert thread.is_alive()
                time.sleep(0.01)
            yield f"http://{host}:{own.getsockname()[1]}{base}/"
        finally:
            server.should_exit = True
            thread.join(60)
            classroom._server.put(None)
            classroom.secret.cache_clear()


def forget_visits():
    for limit in (classroom._phones, classroom._guesses):
        limit._left.clear()


def opened(epsilon=2.0, questions=QUESTIONS, **options):
    """A room of this process's server, its first question asked."""
    room = Room(questions, epsilon, **options)
    classroom._server.put(room)
    room.ask(0)
    return room


def ask(server, path, body=None, **headers):
    """Status and JSON of one request; body: bytes or what becomes JSON."""
    host, _, base = server.removeprefix("http://").partition("/")
    connection = HTTPConnection(host, timeout=120)
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

    def ask(self):
        return ask(self._server, "asking", Phone=self._token)[1]

    def send(self, bit, **change):
        question = self.ask()
        report = {
            "room": question["room"],
            "asking": question["asking"],
            "token": self._token,
            "bit": bit,
        }
        return ask(self._server, "report", report | change)


def together(*calls):
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
