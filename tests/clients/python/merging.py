"""Walks through merge requests: from a branch and from a fork, their commits and notes, and merging."""

from checks import equal, holds, refused, until
from things import awards, notes, subscriptions, times


class Merging:
    """Takes from `planning`: a project of ada with issues, and bob, who is a Developer of the project."""

    def __init__(self, planning):
        self.walk, self.group, self.milestone = planning.walk, planning.group, planning.milestone
        self.project, self.his = planning.project, planning.his
        self.requests = self.project.mergerequests

    def commit(self, project, branch, path, content="x\n", new=True):
        """Commits a file to a branch, which is created from main if it is new."""
        return project.commits.create({
            "branch": branch, "commit_message": f"Add {path}", **({"start_branch": "main"} if new else {}),
            "actions": [{"action": "create", "file_path": path, "content": content}],
        })

    def propose(self, branch, path, content="x\n", **more):
        """Creates a merge request by bob from a new branch that adds one file, and returns it as ada sees it."""
        self.commit(self.his, branch, path, content)
        made = self.his.mergerequests.create(
            {"source_branch": branch, "target_branch": "main", "title": f"Take {branch}", **more})
        return self.requests.get(made.iid)

    def has_branch(self, name, project=None):
        return [each.name for each in (project or self.project).branches.list(search=f"^{name}$")] == [name]

    def opening(self):
        walk = self.walk
        head = self.commit(self.his, "cards", "cards.txt")
        made = self.his.mergerequests.create({
            "source_branch": "cards", "target_branch": "main", "title": "Better cards", "description": "Closes #1\n- [x] cut",
            "labels": ["bug", "urgent"], "milestone_id": self.milestone.id, "assignee_ids": [walk.ada.id], "squash": True,
            "remove_source_branch": True,
        })
        id = self.project.id
        holds(
            made, iid=1, project_id=id, source_project_id=id, target_project_id=id, state="opened", source_branch="cards",
            target_branch="main", labels=["bug", "urgent"], squash=True, force_remove_source_branch=True, draft=False,
            work_in_progress=False, sha=head.id, merge_commit_sha=None, merged_at=None, merged_by=None, subscribed=True,
            references={"short": "!1", "relative": "!1", "full": "engines/analytical!1"}, merge_error=None, pipeline=None,
            task_completion_status={"count": 1, "completed_count": 1}, discussion_locked=False, user_notes_count=0,
        )
        equal((made.author["username"], made.assignee["username"], made.milestone["title"]), ("bob", "ada", "v3"))
        equal(made.web_url, f"{self.project.web_url}/-/merge_requests/1")
        read = self.requests.get(1, include_diverged_commits_count=True, include_rebase_in_progress=True)
        holds(
            read, merge_status="can_be_merged", has_conflicts=False, changes_count="1", user={"can_merge": True},
            diverged_commits_count=0, rebase_in_progress=False,
        )
        equal((read.diff_refs["head_sha"], read.diff_refs["base_sha"]), (head.id, head.parent_ids[0]))
        again = {"source_branch": "cards", "target_branch": "main", "title": "Twice"}
        refused(409, self.requests.create, again)
        refused(400, self.requests.create, {**again, "source_branch": "no-such"})
        self.propose("oil", "oil.txt", title="Draft: Oil the wheels")
        self.cards = self.requests.get(1)

    def lists(self):
        walk = self.walk

        def iids(manager=self.requests, **filters):
            return [each.iid for each in manager.list(order_by="created_at", sort="asc", get_all=True, **filters)]

        for filters, expected in [
            ({}, [1, 2]), ({"state": "opened"}, [1, 2]), ({"state": "merged"}, []), ({"labels": ["bug"]}, [1]),
            ({"labels": "None"}, [2]), ({"milestone": "v3"}, [1]), ({"milestone": "None"}, [2]),
            ({"assignee_id": walk.ada.id}, [1]), ({"assignee_id": "None"}, [2]), ({"author_id": walk.bob.id}, [1, 2]),
            ({"author_username": "ada"}, []), ({"scope": "assigned_to_me"}, [1]), ({"scope": "created_by_me"}, []),
            ({"source_branch": "oil"}, [2]), ({"target_branch": "main"}, [1, 2]), ({"target_branch": "oil"}, []),
            ({"search": "WHEELS"}, [2]), ({"search": "closes", "in": "title"}, []), ({"wip": "yes"}, [2]), ({"wip": "no"}, [1]),
            ({"iids": [2]}, [2]), ({"not": {"labels": "urgent"}}, [2]), ({"my_reaction_emoji": "Any"}, []),
            ({"created_after": "2020-01-01T00:00:00Z"}, [1, 2]), ({"updated_before": "2020-01-01T00:00:00Z"}, []),
        ]:
            equal((filters, iids(**filters)), (filters, expected))
        equal(iids(self.group.mergerequests), [1, 2])
        equal(iids(walk.him.mergerequests), [1, 2])
        equal(iids(walk.her.mergerequests), [])
        equal(iids(walk.her.mergerequests, scope="all"), [1, 2])
        equal(iids(walk.anonymous.projects.get(self.project.id).mergerequests), [1, 2])
        pages = self.requests.list(iterator=True, per_page=1, order_by="created_at", sort="asc")
        equal((pages.total, pages.total_pages, [each.iid for each in pages]), (2, 2, [1, 2]))
        equal(sorted(self.requests.list(view="simple", iids=[1])[0].attributes), [
            "created_at", "description", "id", "iid", "project_id", "state", "title", "updated_at", "web_url"])
        detailed = self.requests.list(labels=["bug"], with_labels_details=True)[0].labels
        equal([each["name"] for each in detailed], ["bug", "urgent"])

    def what_they_bring(self):
        cards, issue = self.cards, self.project.issues.get(1)
        second = self.commit(self.his, "cards", "holes.txt", "o\n", new=False)
        commits = cards.commits()
        equal((commits.total, [each.title for each in commits]), (2, ["Add holes.txt", "Add cards.txt"]))
        changes = cards.changes()
        equal((changes["iid"], changes["sha"], changes["overflow"]), (1, second.id, False))
        equal([(each["new_path"], each["new_file"], each["diff"]) for each in changes["changes"]], [
            ("cards.txt", True, "@@ -0,0 +1 @@\n+x\n"), ("holes.txt", True, "@@ -0,0 +1 @@\n+o\n")])
        closes = cards.closes_issues()
        equal((closes.total, [each.iid for each in closes]), (1, [1]))
        equal([each["iid"] for each in issue.closed_by()], [1])
        equal([each["iid"] for each in issue.related_merge_requests()], [1])
        equal(issue.merge_requests_count, 1)
        equal([each.iid for each in self.milestone.merge_requests()], [1])
        equal(sorted(each["username"] for each in cards.participants()), ["ada", "bob"])

    def what_is_said(self):
        cards, his = self.cards, self.his.mergerequests.get(1)
        times(cards)
        subscriptions(self.requests.get(2))
        note = notes(his.notes, "MergeRequest", "bob")
        awards(his.awardemojis, "MergeRequest", "bob")
        awards(note.awardemojis, "Note", "bob")
        cards.awardemojis.create({"name": "thumbsup"})
        refused(404, his.awardemojis.create, {"name": "thumbsup"})
        holds(self.requests.get(1), upvotes=1, user_notes_count=1)
        equal([each.iid for each in self.requests.list(my_reaction_emoji="thumbsup")], [1])

    def editing(self):
        oil = self.requests.get(2)
        holds(oil, draft=True, work_in_progress=True, title="Draft: Oil the wheels")
        refused(405, oil.merge)
        oil.title, oil.description, oil.labels = "Oil all wheels", "Slowly", ["loud"]
        oil.discussion_locked, oil.milestone_id, oil.squash = True, self.milestone.id, True
        oil.save()
        holds(self.requests.get(2), title="Oil all wheels", description="Slowly", draft=False, labels=["loud"], squash=True,
              discussion_locked=True)
        equal(oil.milestone["title"], "v3")
        oil.state_event = "close"
        oil.save()
        equal((oil.state, oil.closed_by["username"]), ("closed", "ada"))
        refused(405, oil.merge)
        equal([each.iid for each in self.requests.list(state="closed")], [2])
        oil.state_event = "reopen"
        oil.save()
        equal(oil.state, "opened")
        refused(403, self.his.mergerequests.delete, 2)
        oil.delete()
        refused(404, self.requests.get, 2)

    def squashing(self):
        """The two commits are squashed, the branch is deleted and the issue is closed."""
        cards = self.requests.get(1)
        refused(409, cards.merge, sha="0" * 40)
        answer = cards.merge(
            merge_commit_message="Merge the cards", squash_commit_message="All of the cards", should_remove_source_branch=True)
        equal((answer["state"], cards.state, cards.merged_by["username"]), ("merged", "merged", "ada"))
        merge, squashed = [self.project.commits.get(sha) for sha in (cards.merge_commit_sha, cards.squash_commit_sha)]
        equal((merge.message, squashed.message), ("Merge the cards", "All of the cards"))
        equal(merge.parent_ids[1], squashed.id)
        equal(self.project.branches.get("main").commit["id"], merge.id)
        until("the removal of the branch", lambda: not self.has_branch("cards"))
        until("the end of the issue", lambda: self.project.issues.get(1).state == "closed")
        refused(405, cards.merge)
        refused(400, self.requests.update, 1, {"state_event": "close"})
        equal([each.iid for each in self.requests.list(state="merged")], [1])

    def who_may_merge(self):
        """A Developer cannot merge into the protected default branch. The source branch is kept on request."""
        wheels = self.propose("wheels", "wheels.txt")
        his = self.his.mergerequests.get(wheels.iid)
        equal(his.user, {"can_merge": False})
        refused(401, his.merge)
        wheels.merge(should_remove_source_branch=False)
        equal((wheels.state, wheels.squash_commit_sha, self.has_branch("wheels")), ("merged", None, True))
        self.project.delete_merged_branches()
        until("the removal of merged branches", lambda: not self.has_branch("wheels"))

    def rebasing(self):
        """A fast-forward merge requires a rebase first."""
        self.project.merge_method = "ff"
        self.project.save()
        late, early = [self.propose(name, f"{name}.txt") for name in ("late", "early")]
        early.merge()
        equal(early.merge_commit_sha, None)
        equal(self.requests.get(late.iid, include_diverged_commits_count=True).diverged_commits_count, 1)
        refused(406, late.merge)
        late.rebase()
        until("the rebase", lambda: not self.requests.get(late.iid, include_rebase_in_progress=True).rebase_in_progress)
        rebased = self.requests.get(late.iid, include_diverged_commits_count=True)
        holds(rebased, merge_error=None, diverged_commits_count=0)
        assert rebased.sha != late.sha, "the head has not changed"
        rebased.merge(should_remove_source_branch=True)
        head = self.project.branches.get("main").commit
        equal((rebased.state, head["id"], head["title"]), ("merged", rebased.sha, "Add late.txt"))
        self.project.merge_method = "merge"
        self.project.save()

    def conflicts(self):
        first, second = [self.propose(name, "same.txt", f"{name}\n") for name in ("one", "other")]
        first.merge()
        holds(self.requests.get(second.iid), merge_status="cannot_be_merged", has_conflicts=True)
        refused(406, second.merge)
        second.delete()

    def waiting(self):
        """Without pipelines, an automatic merge stays pending until it is canceled."""
        self.project.only_allow_merge_if_pipeline_succeeds = True
        self.project.save()
        patient = self.propose("patient", "patient.txt")
        refused(406, patient.cancel_merge_when_pipeline_succeeds)
        refused(405, patient.merge)
        patient.merge(merge_when_pipeline_succeeds=True)
        holds(self.requests.get(patient.iid), merge_when_pipeline_succeeds=True, state="opened")
        patient.cancel_merge_when_pipeline_succeeds()
        holds(self.requests.get(patient.iid), merge_when_pipeline_succeeds=False, state="opened")
        self.project.only_allow_merge_if_pipeline_succeeds = False
        self.project.save()

    def from_a_fork(self):
        him = self.walk.him
        fork = him.projects.get(self.his.forks.create({}).id)
        until("the copy", lambda: him.projects.get(fork.id).import_status == "finished")
        self.commit(fork, "gears", "gears.txt")
        made = fork.mergerequests.create({
            "source_branch": "gears", "target_branch": "main", "title": "Gears", "target_project_id": self.project.id,
            "allow_collaboration": True,
        })
        holds(made, project_id=self.project.id, source_project_id=fork.id, target_project_id=self.project.id,
              allow_collaboration=True)
        gears = self.requests.get(made.iid)
        equal([each.title for each in gears.commits()], ["Add gears.txt"])
        equal([each["new_path"] for each in gears.changes()["changes"]], ["gears.txt"])
        gears.merge()
        equal(self.project.files.raw("gears.txt", ref="main"), b"x\n")
        equal((gears.state, self.has_branch("gears", fork)), ("merged", True))
        fork.delete()

    STEPS = [
        "opening", "lists", "what_they_bring", "what_is_said", "editing", "squashing", "who_may_merge", "rebasing",
        "conflicts", "waiting", "from_a_fork",
    ]
