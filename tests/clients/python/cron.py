"""Compares the table of times for the tests of cron expressions with croniter.

Usage: cron.py [--new] [TABLE]. Without --new it recomputes the times of each line; with it, it prints a new table.

A line of the table has a zone, an expression, a period (start exclusive, end inclusive), the number of times in the
period and a checksum of the times. The period is a whole year for rare times, and otherwise the days on which the clocks
change. The zones change their clocks by an hour or half an hour, at night or at midnight, or not at all.

Expressions for which croniter deviates from the rules are in OTHERWISE, with the correct times, and not in the table.
"""

import datetime
import functools
import pathlib
import random
import sys
import zoneinfo

from croniter import croniter

# Use the zones of the package, not those of the system.
zoneinfo.reset_tzpath(to=[])

TABLE = pathlib.Path(__file__).parents[3] / "crates/domain/src/kernel/cron/compared.tsv"
ZONES = ["America/New_York", "Europe/Berlin", "America/Santiago", "Australia/Lord_Howe", "Asia/Kathmandu"]
YEAR = [int(datetime.datetime(year, 1, 1, tzinfo=datetime.timezone.utc).timestamp()) for year in (2026, 2027)]
DAY = 86_400
OFTEN = 600

EXPRESSIONS = """
30 2 * * *; 0 2 * * *; 59 1 * * *; 30 1 * * *; 0 1 * * *; 0 3 * * *; 0 0 * * *; 30 0 * * *; 15 23 * * *; 45 1 * * *; */30 2 * * *
0 0 13 * fri; 59 23 * * sun; 0 12 29 2 *; 0 0 31 */2 *; 15 1-3 */2 * *; 30 */6 1,15 * *; 0 0 1 jan *; 0 8-18/2 * * mon-fri
17 * * * *; 17 0-23 * * *; 30 0-11,12-23 * * *; */20 * * * *; 7/15 1,2,3 * * *; 30 1-23 * * *; 40 0/2 * * *; 0 2 * * 0,7
0 5 * * 1/3; 0 5 * * 7/2; 0 5 * * fri-sun; 0 5 * * 6-7; 30 2 29,8 3,4,10,11 *; 30 2 * 3-11/8 sun; 0 5 */10 * 6; 1 1 1-31 * 0
"""

# Expression, zone, start, next time of croniter, and correct next time; also in crates/domain/src/kernel/cron/compared.rs.
OTHERWISE = [
    # A range of one value is not a whole field.
    ("5-5 * * * *", "UTC", "2026-01-01T00:30:00+00:00", "2026-01-01T00:31:00+00:00", "2026-01-01T01:05:00+00:00"),
    # Days in steps of one are all days, like `*`, and are not combined with the other field.
    ("0 0 */1 * 1", "UTC", "2026-01-01T00:00:00+00:00", "2026-01-02T00:00:00+00:00", "2026-01-05T00:00:00+00:00"),
    # Either field may match if neither is `*`, even if one starts with `*` and the other names all days.
    ("0 0 */13 * 1-7", "UTC", "2026-01-01T00:00:00+00:00", "2026-01-14T00:00:00+00:00", "2026-01-02T00:00:00+00:00"),
    # croniter does not always notice a repeated half hour.
    ("*/20 * * * *", "Australia/Lord_Howe", "2026-04-05T01:40:00+11:00", "2026-04-05T02:00:00+10:30",
     "2026-04-05T01:40:00+10:30"),
]


def runs(expression, zone, since, until):
    """Returns the times of an expression after one instant and up to another."""
    start = datetime.datetime.fromtimestamp(since, zoneinfo.ZoneInfo(zone))
    for time in croniter(expression, start).all_next(datetime.datetime):
        time = int(time.timestamp())
        if time > until:
            return
        yield time


def told(zone, expression, since, until):
    """Returns a line of the table."""
    times = list(runs(expression, zone, since, until))
    total = functools.reduce(lambda total, time: (total * 31 + time) % 2**32, times, 0)
    return f"{zone}\t{expression}\t{since}\t{until}\t{len(times)}\t{total}"


def changes(zone):
    """Returns when the clocks of a zone change in the year, and by how much."""
    def offset(instant):
        return datetime.datetime.fromtimestamp(instant, zoneinfo.ZoneInfo(zone)).utcoffset()

    found = [(hour, offset(hour) - offset(hour - 1)) for hour in range(*YEAR, 1_800)]
    return [(hour, int(ahead.total_seconds())) for hour, ahead in found if ahead]


def field(chance, low, high, most):
    """Returns a field of one to three values, ranges and steps, with `*` and its steps only beside other values."""
    items = []
    for _ in range(chance.choice([1, 1, 2, 3])):
        first, last = sorted(chance.sample(range(low, high + 1), 2))
        items.append(chance.choice([
            f"{first}", f"{last}", f"{first}-{last}", f"{first}-{last}/{chance.randint(1, most)}",
            f"{last}/{chance.randint(1, most)}", f"*/{chance.randint(2, most)}",
        ]))
    return ",".join(items)


def random_expressions(chance, count):
    for _ in range(count):
        star = lambda share, text: "*" if chance.random() < share else text
        day, week = star(0.5, field(chance, 1, 31, 15)), star(0.5, field(chance, 0, 7, 3))
        # See OTHERWISE: a field that names all days, combined with steps in the other.
        named = ((f"0 0 {day} * 1", 2), (f"0 0 1 * {week}", 4))
        days, weekdays = [len(croniter.expand(expression)[0][index]) for expression, index in named]
        if days == 31 or weekdays == 7:
            week = "*"
        yield " ".join([
            field(chance, 0, 59, 30), star(0.2, field(chance, 0, 23, 12)), day, star(0.6, field(chance, 1, 12, 6)), week])


def table():
    chance = random.Random(20_260_101)
    expressions = [each.strip() for line in EXPRESSIONS.split("\n") for each in line.split(";") if each.strip()]
    for expression in [*expressions, *random_expressions(chance, 40)]:
        for zone in ZONES:
            seldom = sum(1 for _, _ in zip(range(OFTEN), runs(expression, "UTC", *YEAR))) < OFTEN
            moves = changes(zone)
            spans = [YEAR] if seldom else [(moved - DAY, moved + DAY) for moved, _ in moves] or [(YEAR[0], YEAR[0] + 2 * DAY)]
            for since, until in spans:
                half = [(moved, -ahead) for moved, ahead in moves if -3_600 < ahead < 0 and since < moved < until]
                if half:
                    # See OTHERWISE: repeated times.
                    [(moved, back)] = half
                    yield told(zone, expression, since, moved - 1)
                    yield told(zone, expression, moved + back - 1, until)
                else:
                    yield told(zone, expression, since, until)


def check(path):
    lines = path.read_text().splitlines()
    for line in lines:
        zone, expression, since, until, _, _ = line.split("\t")
        found = told(zone, expression, int(since), int(until))
        assert found == line, f"croniter returns {found!r}, the table has {line!r}"
    for expression, zone, since, wrong, right in OTHERWISE:
        start = datetime.datetime.fromisoformat(since).astimezone(zoneinfo.ZoneInfo(zone))
        found = croniter(expression, start).get_next(datetime.datetime)
        assert found == datetime.datetime.fromisoformat(wrong) != datetime.datetime.fromisoformat(right), (
            f"{expression} in {zone} after {since}: croniter now returns {found}")
    print(f"{len(lines)} lines equal the results of croniter")


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if "--new" in arguments:
        print(*table(), sep="\n")
    else:
        check(pathlib.Path(arguments[0]) if arguments else TABLE)
