"""Starts and controls the process ``holdfast test-server``."""

from __future__ import annotations

import datetime
import json
import os
import selectors
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

BINARY_VARIABLE = "HOLDFAST_BINARY"
"""Environment variable with the path of the binary."""

_STOP_SECONDS = 10.0
_MAX_LINE_BYTES = 1 << 20


class HoldfastError(Exception):
    """The server cannot start, or refuses a control request."""


@dataclass(frozen=True)
class Response:
    """A response of the API."""

    status: int
    headers: dict[str, str]
    """Headers with names in lower case."""
    body: bytes

    def json(self) -> Any:
        """Returns the parsed body."""
        return json.loads(self.body)


@dataclass(frozen=True)
class Fault:
    """A rule for faults."""

    id: int
    rule: str
    injected: int
    """Number of requests that the rule was applied to."""
    remaining: int | None
    """Number of requests that the rule still applies to; None without a limit."""


@dataclass(frozen=True)
class Clock:
    """The clock of the server."""

    time: datetime.datetime
    frozen: bool


def find_binary(binary: str | os.PathLike[str] | None = None) -> str:
    """Returns the path of the binary: the argument, ``HOLDFAST_BINARY``, or ``holdfast`` in ``PATH``."""
    chosen = os.fspath(binary) if binary is not None else os.environ.get(BINARY_VARIABLE) or "holdfast"
    found = shutil.which(chosen)
    if found is None:
        raise HoldfastError(
            f"the program {chosen!r} was not found; install holdfast, or set {BINARY_VARIABLE} to its path"
        )
    return found


def _time_text(value: datetime.datetime | str) -> str:
    if isinstance(value, str):
        return value
    if value.tzinfo is None:
        raise ValueError(f"{value!r} has no time zone; use datetime.datetime(..., tzinfo=datetime.timezone.utc)")
    return value.isoformat()


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Returns redirects as responses. Following them would send the token to other hosts."""

    def redirect_request(self, *arguments: Any, **keywords: Any) -> None:
        return None


class HoldfastServer:
    """A running test server. It ends when this process ends, for any reason."""

    def __init__(self, process: subprocess.Popen[bytes], info: dict[str, Any]) -> None:
        self._process = process
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirects)
        self.info: dict[str, Any] = info
        """The line that the server printed."""
        self.url: str = info["url"]
        """Base URL, also of Git over HTTP."""
        self.api_url: str = info["api_url"]
        """Base URL of the API."""
        self.username: str = info["username"]
        """Username of the administrator."""
        self.token: str = info["token"]
        """Token of the administrator."""
        self.password: str = info["password"]
        """Password of the administrator."""

    @classmethod
    def start(
        cls,
        binary: str | os.PathLike[str] | None = None,
        *,
        snapshot: str | os.PathLike[str] | None = None,
        freeze_time: datetime.datetime | str | None = None,
        faults: Iterable[str] = (),
        arguments: Sequence[str] = (),
        timeout: float = 30.0,
    ) -> HoldfastServer:
        """Starts a server and waits until it accepts requests, at most ``timeout`` seconds."""
        command = [find_binary(binary), "test-server"]
        if snapshot is not None:
            command += ["--snapshot", os.fspath(snapshot)]
        if freeze_time is not None:
            command += ["--freeze-time", _time_text(freeze_time)]
        for rule in faults:
            command += ["--fail", rule]
        command += arguments
        with tempfile.TemporaryFile() as log:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
            try:
                line = _read_line(process, timeout)
                if not line:
                    process.wait(_STOP_SECONDS)
                    log.seek(0)
                    text = log.read().decode(errors="replace").strip()
                    raise HoldfastError(f"holdfast exited with {process.returncode}: {text}")
                return cls(process, json.loads(line))
            except BaseException:
                _end(process)
                raise

    def stop(self) -> None:
        """Stops the server, which removes its data."""
        _end(self._process)

    def __enter__(self) -> HoldfastServer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> Response:
        """Sends a request below ``/api/v4``, as the administrator or with another token. The body is sent as JSON.

        Redirects are returned, not followed.
        """
        sent = {"Private-Token": self.token if token is None else token, **(headers or {})}
        return self._send(method, f"{self.api_url}{path}", body, sent)

    def reset(self, snapshot: str | os.PathLike[str] | None = None) -> None:
        """Restores the data, clock and faults of the start or of the last snapshot, or of another snapshot."""
        self._control("POST", "/reset", None if snapshot is None else {"snapshot": os.path.abspath(snapshot)})

    def snapshot(self, directory: str | os.PathLike[str] | None = None) -> Path:
        """Saves the state, which later resets restore. Without a directory, it is removed with the server."""
        body = None if directory is None else {"directory": os.path.abspath(directory)}
        return Path(self._control("POST", "/snapshot", body)["directory"])

    def clock(self) -> Clock:
        """Returns the clock of the server."""
        return _clock(self._control("GET", "/clock"))

    def freeze(self, time: datetime.datetime | str) -> Clock:
        """Freezes the clock at a time."""
        return _clock(self._control("PUT", "/clock", {"time": _time_text(time)}))

    def unfreeze(self) -> Clock:
        """Lets the clock run."""
        return _clock(self._control("PUT", "/clock", {"time": None}))

    def advance(self, duration: datetime.timedelta | int) -> Clock:
        """Advances the frozen clock by a duration, or by a number of seconds."""
        seconds = duration // datetime.timedelta(seconds=1) if isinstance(duration, datetime.timedelta) else duration
        return _clock(self._control("POST", "/clock/advance", {"seconds": seconds}))

    def add_fault(self, rule: str) -> Fault:
        """Adds a rule for faults, such as ``GET /projects 503 x3``."""
        return Fault(**self._control("POST", "/faults", {"rule": rule}))

    def faults(self) -> list[Fault]:
        """Returns the rules for faults."""
        return [Fault(**fault) for fault in self._control("GET", "/faults")]

    def remove_fault(self, fault: Fault | int) -> None:
        """Removes a rule for faults."""
        self._control("DELETE", f"/faults/{fault if isinstance(fault, int) else fault.id}")

    def clear_faults(self) -> None:
        """Removes all rules for faults."""
        self._control("DELETE", "/faults")

    @contextmanager
    def fail(self, rule: str) -> Iterator[Fault]:
        """Applies a rule for faults within a block."""
        fault = self.add_fault(rule)
        try:
            yield fault
        finally:
            self.remove_fault(fault)

    def _control(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {self.info['control_token']}"}
        response = self._send(method, f"{self.info['control_url']}{path}", body, headers)
        if response.status >= 400:
            raise HoldfastError(f"{method} {path}: {response.json()['message']}")
        return response.json() if response.body else None

    def _send(self, method: str, url: str, body: Any, headers: dict[str, str]) -> Response:
        data = None if body is None else json.dumps(body).encode()
        if data is not None:
            headers = {"Content-Type": "application/json", **headers}
        request = urllib.request.Request(url, data=data, headers=headers, method=method)
        try:
            with self._opener.open(request) as answer:
                return _response(answer.status, answer.headers.items(), answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return _response(error.code, error.headers.items(), error.read())


def _response(status: int, headers: Iterable[tuple[str, str]], body: bytes) -> Response:
    return Response(status, {name.lower(): value for name, value in headers}, body)


def _clock(found: dict[str, Any]) -> Clock:
    time_text = found["time"].replace("Z", "+00:00")
    return Clock(datetime.datetime.fromisoformat(time_text), found["frozen"])


def _read_line(process: subprocess.Popen[bytes], timeout: float) -> bytes:
    """Returns the first line of the output; empty if the process ended before."""
    output = process.stdout
    assert output is not None
    line = b""
    deadline = time.monotonic() + timeout
    with selectors.DefaultSelector() as selector:
        selector.register(output, selectors.EVENT_READ)
        while not line.endswith(b"\n"):
            if not selector.select(max(0.0, deadline - time.monotonic())):
                raise HoldfastError(f"holdfast was not ready after {timeout:g} seconds")
            # Not buffered: a buffer could contain the line while the selector waits for more.
            part = os.read(output.fileno(), 65536)
            line += part
            if not part or len(line) > _MAX_LINE_BYTES:
                return b""
    return line


def _end(process: subprocess.Popen[bytes]) -> None:
    """Closes the input of the server, which ends it; kills it if it does not end in time."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
