"""The fixtures."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from .server import HoldfastServer


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "holdfast(faults=(), time=None): rules for faults and the time of the frozen clock of the fixture holdfast",
    )


@pytest.fixture(scope="session")
def holdfast_options() -> dict[str, Any]:
    """Arguments of ``HoldfastServer.start``. Override this fixture to change them."""
    return {}


@pytest.fixture(scope="session")
def holdfast_setup() -> Callable[[HoldfastServer], None] | None:
    """A function that creates the data of all tests. Override this fixture to set it."""
    return None


@pytest.fixture(scope="session")
def holdfast_server(
    holdfast_options: dict[str, Any],
    holdfast_setup: Callable[[HoldfastServer], None] | None,
) -> Iterator[HoldfastServer]:
    """A server for the session. Its state is that of the tests before; most tests use ``holdfast`` instead."""
    with HoldfastServer.start(**holdfast_options) as server:
        if holdfast_setup is not None:
            holdfast_setup(server)
            server.snapshot()
        yield server


@pytest.fixture
def holdfast(holdfast_server: HoldfastServer, request: pytest.FixtureRequest) -> HoldfastServer:
    """The server with the state of the start: the data of ``holdfast_setup``, or none."""
    holdfast_server.reset()
    chosen_time = None
    # The marker of the test is before those of its class and module. The first time, and the first rule that applies,
    # are used.
    for marker in request.node.iter_markers("holdfast"):
        faults, time = _arguments(*marker.args, **marker.kwargs)
        for rule in faults:
            holdfast_server.add_fault(rule)
        chosen_time = time if chosen_time is None else chosen_time
    if chosen_time is not None:
        holdfast_server.freeze(chosen_time)
    return holdfast_server


def _arguments(
    faults: str | Iterable[str] = (), time: datetime.datetime | str | None = None
) -> tuple[list[str], datetime.datetime | str | None]:
    """Returns the arguments of a marker."""
    return [faults] if isinstance(faults, str) else list(faults), time
