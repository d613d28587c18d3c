"""Checks the types of the client of openapi-python-client with mypy.

`mypy_errors.txt` lists the expected errors. Other errors fail, and so do entries that no longer occur.

Usage: mypy_errors.py DIRECTORY, which contains the package `holdfast_client`
"""

import collections
import pathlib
import re
import subprocess
import sys

EXPECTED = pathlib.Path(__file__).with_suffix(".txt")
ERROR = re.compile(r"(\S+?):\d+: error: .*\[([\w-]+)\]$")


def expected():
    """Returns the numbers of expected errors by file and code."""
    lines = [line for line in EXPECTED.read_text().splitlines() if line and not line.startswith("#")]
    return collections.Counter({tuple(line.split()[:2]): int(line.split()[2]) for line in lines})


def main():
    directory = sys.argv[1]
    # The cache would be larger than the client.
    command = [sys.executable, "-m", "mypy", "--no-pretty", "--cache-dir", "/dev/null", "holdfast_client"]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    errors = [(line, match.groups()) for line in lines if (match := ERROR.match(line))]
    # The last line is the summary. A line of another kind is a crash, or an error without a code.
    if done.returncode not in (0, 1) or len(errors) != sum("error:" in line for line in lines):
        sys.exit(done.stdout + done.stderr)
    found = collections.Counter(key for _, key in errors)
    wrong = [key for key in found.keys() | expected().keys() if found[key] != expected()[key]]
    for file, code in sorted(wrong):
        print(f"{file} {code}: {found[file, code]} errors, expected: {expected()[file, code]}")
        for line in (line for line, key in errors if key == (file, code)):
            print(f"  {line}")
    if wrong:
        sys.exit(f"describe new errors in {EXPECTED.name}, or correct openapi/; remove entries that no longer occur")
    print(lines[-1], "as expected")


main()
