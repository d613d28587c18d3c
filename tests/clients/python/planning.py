"""Walks through labels, milestones, boards, badges, issues, notes, emoji, snippets and epics."""

import gitlab

from checks import equal, go, holds, refused
from merging import Merging
from things import awards, notes, subscriptions, times


def snippets(snippets):
    """Steps through snippets of a project or a user, which differ only in their paths. Returns a snippet that remains."""
    made = snippets.create({
        "title": "Start", "file_name": "start.sh", "content": "run now\n", "description": "How", "visibility": "public",
    })
    holds(made, title="Start", file_name="start.sh", description="How", visibility="public", expires_at=None)
    equal((made.author["username"], made.raw_url), ("ada", f"{made.web_url}/raw"))
    equal((made.content(), b"".join(made.content(iterator=True))), (b"run now\n", b"run now\n"))
    made.title, made.content, made.visibility = "Stop", "stop\n", "private"
    made.save()
    read = snippets.get(made.id)
    holds(read, title="Stop", file_name="start.sh", visibility="private")
    equal(read.content(), b"stop\n")
    other = snippets.create({"title": "Other", "file_name": "other", "content": "x", "visibility": "internal"})
    equal([each.title for each in snippets.list()], ["Other", "Stop"])
    refused(400, snippets.create, {"title": " ", "file_name": "a", "content": "b", "visibility": "private"})
    other.delete()
    refused(404, snippets.get, other.id)
    return read


class Planning:
    """Takes from `walk`: ada, who owns the group of engines, bob, who is not a member, and their clients."""

    def __init__(self, walk):
        self.walk, self.group = walk, walk.engines
        self.project = walk.her.projects.create({
            "name": "Analytical Engine", "path": "analytical", "namespace_id": walk.engines.id, "visibility": "public",
            "initialize_with_readme": True, "default_branch": "main",
        })
        self.group.members.create({"user_id": walk.bob.id, "access_level": gitlab.const.AccessLevel.DEVELOPER})
        self.his = walk.him.projects.get(self.project.id)

    def labels(self):
        group, project = self.group, self.project
        group.labels.create({"name": "security", "color": "red"})
        bug = project.labels.create({"name": "a/bug", "color": "#D9534F", "description": "Broken", "priority": 1})
        equal((bug.id > 0, bug.text_color, bug.priority, bug.is_project_label), (True, "#FFFFFF", 1, True))
        equal([each.name for each in project.labels.list()], ["a/bug", "security"])
        equal([each.name for each in project.labels.list(search="SEC")], ["security"])
        equal(project.labels.list(with_counts=True)[0].open_issues_count, 0)
        equal(project.labels.get("a/bug").description, "Broken")
        bug.new_name, bug.color = "bug", "#000000"
        bug.save()
        equal((bug.name, bug.color), ("bug", "#000000"))
        equal(refused(409, project.labels.create, {"name": "bug", "color": "red"}), "Label already exists")
        refused(400, project.labels.create, {"name": "x", "color": "colourful"})
        for label in [bug, group.labels.get("security")]:
            label.subscribe()
            equal(label.manager.get(label.name).subscribed, True)
            label.unsubscribe()
            equal(label.manager.get(label.name).subscribed, False)
        bug.promote()
        equal(sorted(each.name for each in group.labels.list()), ["bug", "security"])
        promoted = group.labels.get("bug")
        promoted.description = "Out of order"
        promoted.save()
        equal(project.labels.get("bug").description, "Out of order")
        group.labels.delete("bug")
        refused(404, project.labels.get, "bug")

    def milestones(self):
        milestone = self.project.milestones.create({"title": "v1", "start_date": "2030-01-01", "due_date": "2030-01-31"})
        equal((milestone.iid, milestone.state, milestone.expired), (1, "active", False))
        milestone.state_event = "close"
        milestone.save()
        equal([each.title for each in self.project.milestones.list(state="closed")], ["v1"])
        equal(self.project.milestones.list(iids=[2]), [])
        refused(400, self.project.milestones.create, {"title": "v1"})
        milestone.promote()
        equal([each.title for each in self.project.milestones.list(include_parent_milestones=True)], ["v1"])
        promoted = self.group.milestones.list(search="V1")[0]
        equal(self.group.milestones.get(promoted.id).due_date, "2030-01-31")
        promoted.title, promoted.description = "v2", "The next"
        promoted.save()
        holds(self.group.milestones.get(promoted.id), title="v2", description="The next", group_id=self.group.id)
        promoted.delete()
        equal(self.group.milestones.list(), [])

    def boards(self):
        for place in [self.project, self.group]:
            board = place.boards.create({"name": "Work"})
            first, second = [place.labels.create({"name": f"{name} {place.id}", "color": "blue"}).id for name in "ab"]
            lists = [board.lists.create({"label_id": label}) for label in [first, second]]
            lists[1].position = 0
            lists[1].save()
            equal([each.label["id"] for each in board.lists.list()], [second, first])
            board.name = "Play"
            board.save()
            equal([each["position"] for each in place.boards.get(board.id).attributes["lists"]], [0, 1])
            lists[0].delete()
            equal(board.lists.get(lists[1].id).position, 0)
            milestone = place.milestones.create({"title": f"m {place.id}"})
            for kind, id in [("assignee", self.walk.ada.id), ("milestone", milestone.id)]:
                equal(getattr(board.lists.create({f"{kind}_id": id}), kind)["id"], id)
            equal([each.position for each in board.lists.list(per_page=2, get_all=True)], [0, 1, 2])
            board.assignee_id, board.milestone_id, board.weight = self.walk.ada.id, milestone.id, 3
            board.save()
            read = place.boards.get(board.id)
            equal((read.assignee["username"], read.milestone["id"], read.weight), ("ada", milestone.id, 3))
            board.delete()
            equal(place.boards.list(), [])
            milestone.delete()

    def badges(self):
        for place in [self.group, self.project]:
            badge = place.badges.create({"link_url": "https://h/%{project_id}", "image_url": "https://h/x.svg"})
            badge.image_url = "https://h/y.svg"
            badge.save()
            equal(place.badges.get(badge.id).rendered_image_url, "https://h/y.svg")
            seen = place.badges.render("https://h/%{project_id}", "https://h/x.svg")
            equal(seen["rendered_image_url"], "https://h/x.svg")
        equal(seen["rendered_link_url"], f"https://h/{self.project.id}")
        equal([each.kind for each in self.project.badges.list()], ["group", "project"])
        badge.delete()
        self.group.badges.list()[0].delete()
        equal(self.project.badges.list(), [])

    def issues(self):
        walk, issues = self.walk, self.project.issues
        self.milestone = self.project.milestones.create({"title": "v3"})
        jam = issues.create({
            "title": "Cards jam", "description": "- [x] see\n- [ ] mend", "labels": ["bug", "urgent"], "weight": 3,
            "milestone_id": self.milestone.id, "assignee_ids": [walk.bob.id], "due_date": "2030-01-15",
        })
        holds(
            jam, iid=1, project_id=self.project.id, state="opened", labels=["bug", "urgent"], due_date="2030-01-15", weight=3,
            confidential=False, subscribed=True, closed_at=None, user_notes_count=0, upvotes=0, moved_to_id=None,
            task_completion_status={"count": 2, "completed_count": 1},
            references={"short": "#1", "relative": "#1", "full": "engines/analytical#1"},
        )
        equal((jam.author["username"], jam.assignee["username"], jam.milestone["title"]), ("ada", "bob", "v3"))
        equal(jam.web_url, f"{self.project.web_url}/-/issues/1")
        secret = issues.create({"title": "Plans were lost", "confidential": True})
        his = self.his.issues.create({"title": "Oil", "description": "The cards need some", "labels": ["bug"]})
        equal([each.iid for each in (jam, secret, his)], [1, 2, 3])
        secret.state_event = "close"
        secret.save()
        equal((secret.state, secret.attributes["closed_by"]["username"], secret.closed_at is None), ("closed", "ada", False))
        refused(400, issues.create, {"title": " "})
        refused(400, issues.update, 1, {})
        jam.labels, jam.discussion_locked, jam.description = ["bug"], True, "Every day"
        jam.save()
        holds(issues.get(1), labels=["bug"], discussion_locked=True, description="Every day", title="Cards jam", weight=3)
        equal(issues.update(1, {"add_labels": "loud,urgent"})["labels"], ["bug", "loud", "urgent"])
        equal(issues.update(1, {"remove_labels": "loud", "discussion_locked": False})["labels"], ["bug", "urgent"])
        refused(404, issues.get, 4)
        self.jam = issues.get(1)

    def lists_of_issues(self):
        walk, project = self.walk, self.project

        def iids(manager=project.issues, **filters):
            return [each.iid for each in manager.list(order_by="created_at", sort="asc", get_all=True, **filters)]

        for filters, expected in [
            ({}, [1, 2, 3]), ({"state": "opened"}, [1, 3]), ({"state": "closed"}, [2]), ({"labels": ["bug"]}, [1, 3]),
            ({"labels": ["bug", "urgent"]}, [1]), ({"labels": "None"}, [2]), ({"labels": "Any"}, [1, 3]),
            ({"milestone": "v3"}, [1]), ({"milestone": "None"}, [2, 3]), ({"assignee_id": walk.bob.id}, [1]),
            ({"assignee_id": "None"}, [2, 3]), ({"assignee_username": "bob"}, [1]), ({"author_id": walk.bob.id}, [3]),
            ({"author_username": "ada"}, [1, 2]), ({"scope": "created_by_me"}, [1, 2]), ({"scope": "assigned_to_me"}, []),
            ({"iids": [2, 3]}, [2, 3]), ({"search": "CARDS"}, [1, 3]), ({"search": "cards", "in": "title"}, [1]),
            ({"confidential": True}, [2]), ({"weight": 3}, [1]), ({"created_after": "2020-01-01T00:00:00Z"}, [1, 2, 3]),
            ({"updated_before": "2020-01-01T00:00:00Z"}, []), ({"not": {"labels": "urgent"}}, [2, 3]),
            ({"not": {"author_id": walk.ada.id}}, [3]), ({"my_reaction_emoji": "Any"}, []),
        ]:
            equal((filters, iids(**filters)), (filters, expected))
        equal(iids(self.his.issues, scope="assigned_to_me"), [1])
        equal(iids(self.group.issues), [1, 2, 3])
        equal(iids(walk.her.issues), [1, 2])
        equal(iids(walk.her.issues, scope="all", search="oil"), [3])
        pages = project.issues.list(iterator=True, per_page=2, order_by="created_at", sort="asc")
        equal((pages.total, pages.total_pages, [each.iid for each in pages]), (3, 2, [1, 2, 3]))
        detailed = project.issues.list(labels=["urgent"], with_labels_details=True)[0].labels
        equal([(each["name"], each["text_color"]) for each in detailed], [("bug", "#FFFFFF"), ("urgent", "#FFFFFF")])
        equal([each.iid for each in self.milestone.issues()], [1])
        equal(project.labels.list(with_counts=True, search="bug")[0].open_issues_count, 2)

    def things_of_issues(self):
        jam, his = self.jam, self.his.issues.get(1)
        times(jam)
        subscriptions(self.his.issues.get(2))
        note = notes(his.notes, "Issue", "bob")
        awards(his.awardemojis, "Issue", "bob")
        awards(note.awardemojis, "Note", "bob")
        # A note that consists only of an emoji becomes an award emoji.
        equal(his.notes.create({"body": ":+1:"}).name, "thumbsup")
        holds(self.project.issues.get(1), upvotes=1, user_notes_count=1)
        equal([each.iid for each in self.his.issues.list(my_reaction_emoji="thumbsup")], [1])
        equal(sorted(each["username"] for each in jam.participants()), ["ada", "bob"])

    def moves_of_issues(self):
        other = self.walk.her.projects.create({"name": "Loom", "namespace_id": self.group.id})
        moved = self.project.issues.create({"title": "Thread breaks", "labels": ["bug"]})
        number = moved.iid
        moved.move(other.id)
        holds(moved, project_id=other.id, iid=1, title="Thread breaks", state="opened")
        holds(self.project.issues.get(number), state="closed", moved_to_id=moved.id)
        refused(403, self.his.issues.delete, number)
        self.project.issues.delete(number)
        refused(404, self.project.issues.get, number)
        other.delete()

    def todos(self):
        """To-do items of bob, created by ada and by himself."""
        errands = self.walk.her.projects.create({"name": "Errands", "namespace_id": self.group.id})
        him, bob = self.walk.him, self.walk.bob
        him.todos.mark_all_as_done()
        oil = errands.issues.create({"title": "Buy oil", "assignee_ids": [bob.id]})
        rags = errands.issues.create({"title": "Buy rags", "description": "@bob knows where"})
        soap = errands.issues.create({"title": "Buy soap"})
        his = him.projects.get(errands.id).issues.get(soap.iid)
        his.todo()
        # The client raises an error on 304.
        refused(304, his.todo)

        def waiting(**filters):
            return [(each.action_name, each.target["title"]) for each in him.todos.list(**filters)]
        equal(waiting(), [("marked", "Buy soap"), ("directly_addressed", "Buy rags"), ("assigned", "Buy oil")])
        equal(waiting(action="assigned", type="Issue", project_id=errands.id), [("assigned", "Buy oil")])
        first = him.todos.list()[0]
        holds(first, state="pending", target_type="Issue", target_url=soap.web_url, body="Buy soap")
        first.mark_as_done()
        # A note on the target completes the item.
        him.projects.get(errands.id).issues.get(rags.iid).notes.create({"body": "Done"})
        equal(waiting(), [("assigned", "Buy oil")])
        him.todos.mark_all_as_done()
        equal((waiting(), len(waiting(state="done", project_id=errands.id))), ([], 3))
        oil.notes.create({"body": f"As #{soap.iid} says"})
        equal([each.body for each in soap.notes.list()], [f"mentioned in issue #{oil.iid}"])
        errands.delete()

    def snippets(self):
        walk, personal = self.walk, self.walk.her.snippets
        mine = snippets(personal)
        holds(mine, project_id=None)
        refused(404, walk.him.snippets.get, mine.id)
        mine.visibility = "public"
        mine.save()
        equal([each.id for each in walk.anonymous.snippets.list_public()], [mine.id])
        equal(walk.him.snippets.get(mine.id).content(), b"stop\n")
        mine.delete()
        equal(personal.list(), [])

    def project_snippets(self):
        snippet = snippets(self.project.snippets)
        holds(snippet, project_id=self.project.id)
        equal(snippet.web_url, f"{self.project.web_url}/-/snippets/{snippet.id}")
        note = notes(snippet.notes, "Snippet", "ada")
        holds(snippet.notes.get(note.id), title="Stop", file_name="start.sh", noteable_id=snippet.id, noteable_iid=None)
        awards(snippet.awardemojis, "Snippet", "ada")
        awards(note.awardemojis, "Note", "ada")
        snippet.delete()
        equal(self.project.snippets.list(), [])

    def epics(self):
        epics = self.group.epics
        made = epics.create({
            "title": "Less noise", "description": "At night", "labels": ["security"], "start_date": "2030-01-01",
            "due_date": "2030-06-30",
        })
        holds(
            made, iid=1, group_id=self.group.id, state="opened", labels=["security"], start_date="2030-01-01",
            due_date="2030-06-30", end_date="2030-06-30", parent_id=None, closed_at=None, user_notes_count=0,
            references={"short": "&1", "relative": "&1", "full": "engines&1"},
        )
        equal(made.author["username"], "ada")
        part = epics.create({"title": "Felt", "parent_id": made.id})
        equal((part.iid, part.parent_id), (2, made.id))
        made.title, made.labels = "No noise", ["security", "urgent"]
        made.save()
        holds(epics.get(1), title="No noise", labels=["security", "urgent"], description="At night")
        part.state_event = "close"
        part.save()
        for filters, expected in [
            ({}, [1, 2]), ({"state": "closed"}, [2]), ({"labels": ["urgent"]}, [1]), ({"search": "NOISE"}, [1]),
            ({"author_id": self.walk.bob.id}, []), ({"author_id": self.walk.ada.id}, [1, 2]),
        ]:
            found = [each.iid for each in epics.list(order_by="created_at", sort="asc", **filters)]
            equal((filters, found), (filters, expected))
        refused(400, epics.create, {"title": " "})
        note = notes(made.notes, "Epic", "ada")
        holds(made.notes.get(note.id), title="No noise", file_name=None, noteable_id=made.id)
        part.delete()
        refused(404, epics.get, 2)
        self.epic = made

    def issues_of_epics(self):
        jam, oil = [self.project.issues.get(iid) for iid in (1, 3)]
        first, second = [self.epic.issues.create({"issue_id": issue.id}) for issue in (jam, oil)]
        equal((first.issue["iid"], first.epic["iid"]), (1, 1))

        def iids():
            return [(each.iid, each.epic_issue_id) for each in self.epic.issues.list()]

        equal(iids(), [(1, first.id), (3, second.id)])
        # The parameter names the following epic.
        second.move_after_id = first.id
        second.save()
        equal(iids(), [(3, second.id), (1, first.id)])
        first.delete()
        equal(iids(), [(3, second.id)])
        self.epic.delete()
        equal((self.group.epics.list(), self.project.issues.get(3).title), ([], "Oil"))

    def merge_requests(self):
        go(Merging(self), Merging.STEPS)

    def events(self):
        for kind, titles in [
            ("issue", {"Cards jam", "Oil", "Plans were lost"}), ("merge_request", {"Better cards"}), ("milestone", {"v3"}),
            ("note", {"Cards jam", "Better cards"}),
        ]:
            events = self.project.events.list(target_type=kind, get_all=True)
            told = {event.target_title for event in events}
            assert titles <= told, f"events of {kind}: {told}"

    def the_rest(self):
        self.milestone.delete()
        equal(self.project.issues.get(1).milestone, None)
        self.group.members.delete(self.walk.bob.id)
        refused(403, self.his.labels.create, {"name": "his", "color": "red"})
        self.project.delete()

    STEPS = [
        "labels", "milestones", "boards", "badges", "issues", "lists_of_issues", "things_of_issues", "moves_of_issues",
        "todos", "snippets", "project_snippets", "epics", "issues_of_epics", "merge_requests", "events", "the_rest",
    ]
