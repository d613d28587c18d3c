"""Steps through the shared features of issues, merge requests and epics: time tracking, notes, emoji and subscriptions."""

from checks import equal, holds, refused


def times(thing):
    """Time tracking of an issue or a merge request. The object is reloaded, because the client keeps old attributes."""
    equal(thing.time_estimate("3h30m")["human_time_estimate"], "3h 30m")
    equal(thing.add_spent_time("1h")["total_time_spent"], 3600)
    equal(thing.add_spent_time("-30m")["human_total_time_spent"], "30m")
    anew = thing.manager.get(thing.get_id(), lazy=True)
    equal(anew.time_stats(), {
        "time_estimate": 12600, "total_time_spent": 1800, "human_time_estimate": "3h 30m", "human_total_time_spent": "30m",
    })
    equal(thing.manager.get(thing.get_id()).time_stats()["total_time_spent"], 1800)
    equal(thing.reset_spent_time()["total_time_spent"], 0)
    equal(thing.reset_time_estimate()["time_estimate"], 0)
    refused(400, thing.add_spent_time, "a while")


def notes(notes, kind, author):
    """Notes on one noteable of this kind; returns a note that remains."""
    first, second = [notes.create({"body": body}) for body in ["First", "Second"]]
    holds(first, body="First", noteable_type=kind, system=False, resolvable=False, confidential=False, attachment=None)
    equal(first.author["username"], author)
    for sort, expected in [("asc", ["First", "Second"]), ("desc", ["Second", "First"])]:
        listed = notes.list(order_by="created_at", sort=sort, per_page=1, get_all=True)
        equal([note.body for note in listed if not note.system], expected)
    first.body = "The first"
    first.save()
    equal((first.body, notes.get(first.id).body), ("The first", "The first"))
    refused(400, notes.create, {"body": " "})
    first.delete()
    refused(404, notes.get, first.id)
    return second


def awards(awards, kind, user):
    """Award emoji on one noteable of this kind."""
    award = awards.create({"name": "tada"})
    holds(award, name="tada", awardable_type=kind)
    equal((award.user["username"], awards.get(award.id).name), (user, "tada"))
    equal([each.id for each in awards.list()], [award.id])
    refused(404, awards.create, {"name": "tada"})
    refused(404, awards.create, {"name": "no such emoji"})
    award.delete()
    equal(awards.list(), [])


def subscriptions(thing):
    """Actions of a user who is not the author; `thing` belongs to the client of that user."""
    thing.subscribe()
    equal(thing.subscribed, True)
    # The client raises an error on 304.
    refused(304, thing.subscribe)
    thing.unsubscribe()
    equal(thing.manager.get(thing.get_id()).subscribed, False)
