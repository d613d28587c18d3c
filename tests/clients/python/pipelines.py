"""Walks through pipelines: creation, lists, cancel and retry, commit statuses, schedules and triggers."""

import datetime

import gitlab

from checks import equal, holds, refused


class Pipelines:
    """Takes from `walk`: ada, who owns the group of engines, bob, who is not a member, and their clients."""

    def __init__(self, walk):
        self.walk = walk
        self.project = walk.her.projects.create({
            "name": "Mill", "namespace_id": walk.engines.id, "visibility": "public", "initialize_with_readme": True,
            "default_branch": "main",
        })
        self.project.branches.create({"branch": "topic", "ref": "main"})
        self.project.tags.create({"tag_name": "v1", "ref": "main"})
        self.project.members.create({"user_id": walk.bob.id, "access_level": gitlab.const.AccessLevel.DEVELOPER})
        self.his = walk.him.projects.get(self.project.id)
        self.head = self.project.commits.get("main")

    def variables_of(self, id, project=None):
        listed = (project or self.project).pipelines.get(id, lazy=True).variables.list(get_all=True)
        return [(each.key, each.value, each.variable_type) for each in listed]

    def making(self):
        made = self.project.pipelines.create({"ref": "main", "variables": [
            {"key": "DEPLOY", "value": "staging"}, {"key": "NOTES", "value": "x\ny", "variable_type": "file"},
        ]})
        holds(
            made, sha=self.head.id, ref="main", status="pending", tag=False, before_sha="0" * 40, yaml_errors=None, started_at=None,
            finished_at=None, committed_at=None, duration=None, coverage=None,
            web_url=f"{self.project.web_url}/-/pipelines/{made.id}",
        )
        equal((made.user["username"], made.detailed_status["text"]), ("ada", "pending"))
        equal(self.project.pipelines.get(made.id).attributes, made.attributes)
        equal(self.variables_of(made.id), [("DEPLOY", "staging", "env_var"), ("NOTES", "x\ny", "file")])
        equal(self.variables_of(made.id, self.his), self.variables_of(made.id))
        equal(made.variables.list(per_page=1, page=2, get_all=False)[0].key, "NOTES")
        equal(refused(400, self.project.pipelines.create, {"ref": "nowhere"}), {"base": ["Reference not found"]})
        refused(403, self.his.pipelines.create, {"ref": "main"})
        refused(403, self.his.pipelines.delete, made.id)
        refused(404, self.project.pipelines.get, made.id + 100)
        self.first = made

    def lists(self):
        walk, pipelines = self.walk, self.project.pipelines
        self.topic = self.his.pipelines.create({"ref": "topic"})
        self.tag = pipelines.create({"ref": "v1"})
        equal((self.tag.tag, self.topic.user["username"]), (True, "bob"))
        first, topic, tag = self.first.id, self.topic.id, self.tag.id
        for filters, expected in [
            ({}, [tag, topic, first]), ({"sort": "asc"}, [first, topic, tag]), ({"ref": "topic"}, [topic]),
            ({"order_by": "ref", "sort": "asc"}, [first, topic, tag]),
            ({"order_by": "user_id", "sort": "desc"}, [topic, tag, first]),
            ({"sha": self.head.id}, [tag, topic, first]), ({"sha": "0" * 40}, []), ({"status": "pending"}, [tag, topic, first]),
            ({"status": "success"}, []), ({"scope": "pending"}, [tag, topic, first]), ({"scope": "finished"}, []),
            ({"scope": "branches"}, [topic, first]), ({"scope": "tags"}, [tag]), ({"username": "bob"}, [topic]),
            ({"name": walk.bob.name}, [topic]), ({"yaml_errors": True}, []),
            ({"updated_after": "2020-01-01T00:00:00Z"}, [tag, topic, first]), ({"updated_before": "2020-01-01T00:00:00Z"}, []),
        ]:
            equal((filters, [each.id for each in pipelines.list(get_all=True, **filters)]), (filters, expected))
        equal([pipelines.latest().id, pipelines.latest(ref="topic").id], [first, topic])
        pages = pipelines.list(iterator=True, per_page=2)
        equal((pages.total, pages.total_pages, [each.id for each in pages]), (3, 2, [tag, topic, first]))
        equal(sorted(pipelines.list(get_all=True)[0].attributes), [
            "created_at", "id", "project_id", "ref", "sha", "status", "updated_at", "web_url"])
        seen = walk.anonymous.projects.get(self.project.id).pipelines.list(get_all=True)
        equal([each.id for each in seen], [tag, topic, first])

    def ending(self):
        topic = self.his.pipelines.get(self.topic.id)
        answer = topic.cancel()
        equal((answer["id"], answer["status"]), (topic.id, "canceled"))
        equal(topic.cancel()["status"], "canceled")
        topic.refresh()
        equal((topic.status, topic.finished_at is not None), ("canceled", True))
        equal([each.id for each in self.project.pipelines.list(scope="finished")], [topic.id])
        equal(topic.retry()["status"], "pending")
        topic.refresh()
        equal((topic.status, topic.finished_at), ("pending", None))
        refused(403, self.his.pipelines.get(self.first.id).cancel)
        self.project.pipelines.delete(topic.id)
        refused(404, self.project.pipelines.get, topic.id)

    def statuses(self):
        """Commit statuses of an external system and their effect on the pipeline."""
        statuses = self.head.statuses
        made = statuses.create({
            "state": "running", "ref": "main", "name": "build", "target_url": "https://ci.example.com/7",
            "description": "Half done", "coverage": 12.5,
        })
        holds(
            made, sha=self.head.id, ref="main", status="running", name="build", target_url="https://ci.example.com/7",
            description="Half done", coverage=12.5, allow_failure=False, finished_at=None, pipeline_id=self.first.id,
        )
        equal(made.author["username"], "ada")
        equal(self.project.pipelines.get(self.first.id).status, "running")
        statuses.create({"state": "failed", "ref": "main", "context": "lint"})
        again = statuses.create({"state": "success", "ref": "main", "name": "build", "coverage": 80})
        equal((again.id, again.status, again.finished_at is not None), (made.id, "success", True))
        one = self.project.pipelines.get(self.first.id)
        holds(one, status="failed", coverage="80.00")
        equal((one.detailed_status["text"], one.finished_at is not None), ("failed", True))
        equal(self.first.retry()["status"], "running")
        statuses.create({"state": "running", "ref": "main", "name": "lint"})
        statuses.create({"state": "success", "ref": "main", "name": "lint"})
        equal(self.project.pipelines.get(self.first.id).status, "success")
        statuses.create({"state": "pending", "ref": "v1", "name": "build"})
        for filters, expected in [
            ({"ref": "main"}, {("build", "success"), ("lint", "success")}), ({"name": "lint"}, {("lint", "success")}),
            ({"ref": "v1"}, {("build", "pending")}), ({"stage": "external", "ref": "v1"}, {("build", "pending")}),
            ({"stage": "test"}, set()),
            ({"ref": "main", "all": True}, {("build", "success"), ("lint", "failed"), ("lint", "success")}),
            ({"pipeline_id": self.tag.id}, {("build", "pending")}),
        ]:
            # `all` without a value is a parameter of the client itself.
            found = statuses.list(get_all=True, query_parameters=filters)
            equal((filters, {(each.name, each.status) for each in found}), (filters, expected))
        refused(400, statuses.create, {"state": "created", "ref": "main"})
        blocked = refused(400, statuses.create, {"state": "success", "target_url": "javascript:alert(1)"})
        equal(blocked, {"target_url": ["is blocked: Only allowed schemes are http, https"]})
        read = self.project.commits.get(self.head.id)
        equal((read.status, read.last_pipeline["id"]), ("pending", self.tag.id))

    def triggers(self):
        triggers = self.project.triggers
        made = triggers.create({"description": "nightly"})
        holds(made, description="nightly", last_used=None)
        equal((made.owner["username"], triggers.get(made.id).token), ("ada", made.token))
        other = self.walk.root.projects.get(self.project.id).triggers.get(made.id)
        assert made.token.startswith(other.token) and len(other.token) < len(made.token), other.token
        made.description = "hourly"
        made.save()
        equal([(each.id, each.description) for each in triggers.list()], [(made.id, "hourly")])
        refused(403, self.his.triggers.list)
        # The trigger token is the only credential.
        anonymous = self.walk.anonymous.projects.get(self.project.id)
        started = anonymous.trigger_pipeline("main", made.token, variables={"WHO": "nobody"})
        holds(started, ref="main", sha=self.head.id, status="pending")
        equal((started.user["username"], self.variables_of(started.id)), ("ada", [("WHO", "nobody", "env_var")]))
        assert triggers.get(made.id).last_used is not None
        refused(404, anonymous.trigger_pipeline, "main", "wrong")
        refused(400, anonymous.trigger_pipeline, "nowhere", made.token)
        made.delete()
        refused(404, triggers.get, made.id)
        refused(404, anonymous.trigger_pipeline, "main", made.token)

    def schedules(self):
        schedules = self.his.pipelineschedules
        made = schedules.create(
            {"description": "Nightly", "ref": "topic", "cron": "30 2 * * 1-5", "cron_timezone": "Asia/Tokyo", "active": False})
        holds(made, description="Nightly", ref="topic", cron="30 2 * * 1-5", cron_timezone="Asia/Tokyo", active=False,
              last_pipeline=None)
        equal((made.owner["username"], made.attributes["variables"]), ("bob", []))
        # Tokyo is always nine hours ahead of UTC.
        next_run = datetime.datetime.fromisoformat(made.next_run_at)
        equal((next_run.hour, next_run.minute, next_run > datetime.datetime.now(datetime.timezone.utc)), (17, 30, True))
        made.cron, made.cron_timezone, made.active = "0 0 1 1 *", "UTC", True
        made.save()
        next_year = datetime.datetime.now(datetime.timezone.utc).year + 1
        equal((made.active, datetime.datetime.fromisoformat(made.next_run_at).date()), (True, datetime.date(next_year, 1, 1)))
        for filters, expected in [({}, [made.id]), ({"scope": "active"}, [made.id]), ({"scope": "inactive"}, [])]:
            equal([each.id for each in schedules.list(get_all=True, **filters)], expected)
        variable = made.variables.create({"key": "DEPLOY", "value": "staging"})
        equal((variable.key, variable.value, variable.variable_type), ("DEPLOY", "staging", "env_var"))
        variable.value, variable.variable_type = "production", "file"
        variable.save()
        equal((variable.value, variable.variable_type), ("production", "file"))
        made.variables.create({"key": "GONE", "value": "x"}).delete()
        equal(schedules.get(made.id).attributes["variables"], [{"variable_type": "file", "key": "DEPLOY", "value": "production"}])
        # After `play`, the client keeps only the response.
        equal(schedules.get(made.id).play(), {"message": "201 Created"})
        last = schedules.get(made.id).last_pipeline
        holds(self.project.pipelines.get(last["id"]), ref="topic", status="pending", sha=self.head.id)
        equal(self.variables_of(last["id"]), [("DEPLOY", "production", "file")])
        for field, value in [("cron", "0 0 31 2 *"), ("cron", "@daily"), ("cron_timezone", "Mars/Base")]:
            message = refused(400, schedules.update, made.id, {field: value})
            equal(message, {field: [" is invalid syntax"]})
        hers = self.project.pipelineschedules.get(made.id)
        hers.take_ownership()
        equal((hers.owner["username"], schedules.get(made.id).owner["username"]), ("ada", "ada"))
        refused(403, schedules.delete, made.id)
        hers.delete()
        refused(404, schedules.get, made.id)

    def the_rest(self):
        for each in self.project.pipelines.list(get_all=True):
            each.delete()
        equal(self.project.pipelines.list(), [])
        equal(self.head.statuses.list(), [])
        self.project.delete()

    STEPS = ["making", "lists", "ending", "statuses", "triggers", "schedules", "the_rest"]
