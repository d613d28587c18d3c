"""Fixtures for the functional tests of python-gitlab that use a running server instead of a container."""

import os
import time

import pytest

import tests.functional.conftest as functional

# The tests wait up to 30 seconds for background jobs of the reference service.
_sleep = time.sleep
time.sleep = lambda seconds: _sleep(min(seconds, 0.3))

# The server is empty. Resetting it would read resources that it does not have.
functional.reset_gitlab = lambda client: None


@pytest.fixture(scope="session")
def gitlab_url():
    return os.environ["HOLDFAST_URL"]


@pytest.fixture(scope="session")
def gitlab_token():
    return os.environ["HOLDFAST_TOKEN"]
