"""Tests of the server without the fixtures."""

import datetime
import os
import urllib.error
from pathlib import Path

import pytest

from pytest_holdfast import Fault, HoldfastError, HoldfastServer

TIME = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.timezone.utc)


def test_server_has_administrator_and_removes_its_data():
    with HoldfastServer.start() as server:
        assert server.request("GET", "/user").json()["username"] == server.username
        assert server.request("GET", "/user", token="unknown").status == 401
        directory = Path(server.info["directory"])
        assert directory.exists()
    assert not directory.exists()
    server.stop()


def test_redirects_are_returned():
    with HoldfastServer.start() as server:
        assert server.request("POST", "/projects", {"name": "p", "initialize_with_readme": True}).status == 201
        link = {"name": "a", "url": "https://example.com/a", "direct_asset_path": "/a"}
        release = {"tag_name": "v1", "ref": "main", "assets": {"links": [link]}}
        assert server.request("POST", "/projects/1/releases", release).status == 201
        found = server.request("GET", "/projects/1/releases/v1/downloads/a")
        assert (found.status, found.headers["location"]) == (302, "https://example.com/a")


def test_snapshot_is_restored_by_reset_and_start(tmp_path):
    with HoldfastServer.start() as server:
        assert server.request("POST", "/projects", {"name": "kept"}).status == 201
        saved = server.snapshot(tmp_path / "saved")
        assert saved == tmp_path / "saved"
        server.request("DELETE", "/projects/1")
        server.reset()
        assert server.request("GET", "/projects/1").json()["name"] == "kept"
    with HoldfastServer.start(snapshot=saved) as server:
        assert server.request("GET", "/projects/1").json()["name"] == "kept"
        with pytest.raises(HoldfastError, match="exists"):
            server.snapshot(saved)


def test_clock_is_frozen_advanced_and_released():
    with HoldfastServer.start(freeze_time=TIME) as server:
        assert server.clock().time == TIME
        assert server.advance(datetime.timedelta(hours=1)).time == TIME + datetime.timedelta(hours=1)
        assert server.advance(60).frozen
        assert server.freeze("2027-01-01T00:00:00Z").time.year == 2027
        assert not server.unfreeze().frozen
        with pytest.raises(HoldfastError, match="not frozen"):
            server.advance(1)
        with pytest.raises(ValueError, match="time zone"):
            server.freeze(datetime.datetime(2026, 1, 1))


def test_faults_are_injected_and_removed():
    with HoldfastServer.start(faults=["GET /user 503 x1"]) as server:
        failed = server.request("GET", "/user")
        assert (failed.status, failed.headers["retry-after"]) == (503, "1")
        assert server.request("GET", "/user").status == 200
        with server.fail("GET /projects close") as fault:
            with pytest.raises((urllib.error.URLError, ConnectionError)):
                server.request("GET", "/projects")
            assert server.faults()[1] == Fault(fault.id, "GET /projects close", 1, None)
        assert server.request("GET", "/projects").status == 200
        server.clear_faults()
        assert server.faults() == []
        with pytest.raises(HoldfastError, match="path is missing"):
            server.add_fault("GET")


def test_errors_of_the_start_contain_the_message_of_the_server(tmp_path, monkeypatch):
    with pytest.raises(HoldfastError, match="is not a snapshot"):
        HoldfastServer.start(snapshot=tmp_path)
    monkeypatch.delenv("HOLDFAST_BINARY", raising=False)
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    with pytest.raises(HoldfastError, match="HOLDFAST_BINARY"):
        HoldfastServer.start()
