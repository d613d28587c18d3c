"""What the walks have in common: how they hold an answer to what is expected, wait, and go from step to step."""

import time

import gitlab


def equal(found, expected):
    assert found == expected, f"found {found!r}, expected {expected!r}"


def holds(thing, **expected):
    """Holds these attributes of a thing to what is expected, all at once."""
    equal({name: getattr(thing, name) for name in expected}, expected)


def refused(status, call, *arguments, **named):
    """The message of a call that must fail with this status."""
    try:
        call(*arguments, **named)
    except gitlab.GitlabError as error:
        equal(error.response_code, status)
        return error.error_message
    raise AssertionError(f"{call} was not refused")


def until(what, holds):
    """Waits for something that happens in the background."""
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, f"{what} does not happen"
        time.sleep(0.1)


def go(walk, steps):
    """Takes the steps of a walk in this order."""
    for step in steps:
        getattr(walk, step)()
        print(f"  {step.replace('_', ' ')}")
