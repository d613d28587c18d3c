"""Shared helpers of the walks: assertions, waiting and steps."""

import time

import gitlab


def equal(found, expected):
    assert found == expected, f"found {found!r}, expected {expected!r}"


def holds(thing, **expected):
    """Asserts the values of these attributes, all at once."""
    equal({name: getattr(thing, name) for name in expected}, expected)


def refused(status, call, *arguments, **named):
    """Returns the error message of a call that must fail with this status."""
    try:
        call(*arguments, **named)
    except gitlab.GitlabError as error:
        equal(error.response_code, status)
        return error.error_message
    raise AssertionError(f"{call} did not fail")


def until(what, holds):
    """Waits for a change in the background."""
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, f"timed out waiting for {what}"
        time.sleep(0.1)


def go(walk, steps):
    """Runs the steps of a walk in this order."""
    for step in steps:
        getattr(walk, step)()
        print(f"  {step.replace('_', ' ')}")
