"""The fixtures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
    for marker in request.node.iter_markers("holdfast"):
        apply_marker(holdfast_server, **marker.kwargs)
    return holdfast_server


def apply_marker(server: HoldfastServer, *, faults: Any = (), time: Any = None) -> None:
    for rule in [faults] if isinstance(faults, str) else faults:
        server.add_fault(rule)
    if time is not None:
        server.freeze(time)
