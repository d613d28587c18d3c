"""Walks through export and import of groups."""

import io
import tarfile

import gitlab

from checks import equal, holds, refused, until


class Transferring:
    """Takes from `walk`: ada, who owns the group of engines, and bob, who is not a member."""

    def __init__(self, walk):
        self.walk = walk
        groups = walk.her.groups
        self.group = groups.create({"name": "Cargo", "path": "cargo", "description": "What goes elsewhere"})
        low = groups.create({"name": "Low", "path": "low", "parent_id": self.group.id})
        self.group.labels.create({"name": "heavy", "color": "#ff0000"})
        low.milestones.create({"title": "Loaded", "due_date": "2099-01-31"})
        self.group.epics.create({"title": "Voyage", "labels": "heavy"})

    def exporting(self):
        export = self.group.exports.create()
        equal(export.message, "202 Accepted")

        def ready():
            try:
                self.archive = export.download()
                return True
            except gitlab.GitlabGetError as error:
                equal((error.response_code, error.error_message), (404, "404 Not found or has expired"))
                return False

        until("the export", ready)
        with tarfile.open(fileobj=io.BytesIO(self.archive), mode="r:gz") as files:
            names = files.getnames()
        assert {"VERSION", "tree/groups/_all.ndjson", f"tree/groups/{self.group.id}/labels.ndjson"} <= set(names), names
        pieces = []
        export.download(streamed=True, action=pieces.append)
        equal(b"".join(pieces), self.archive)
        refused(404, self.walk.him.groups.get(self.group.id, lazy=True).exports.create)
        refused(401, self.walk.anonymous.groups.get(self.group.id, lazy=True).exports.create)

    def importing(self):
        her = self.walk.her
        told = her.groups.import_group
        equal(told(io.BytesIO(self.archive), "copy", "A Copy")["message"], "202 Accepted")
        copy = her.groups.get("copy")
        holds(copy, path="copy", name="A Copy", visibility="private")
        until("the import", lambda: copy.imports.get().import_status not in ("scheduled", "started"))
        holds(copy.imports.get(), import_status="finished", import_error=None, groups_count=2, unmapped=[])
        holds(her.groups.get("copy"), description="What goes elsewhere", name="A Copy")
        equal([(each.name, each.color) for each in copy.labels.list()], [("heavy", "#ff0000")])
        equal([(each.title, each.labels) for each in copy.epics.list()], [("Voyage", ["heavy"])])
        low = her.groups.get("copy/low")
        equal([(each.title, each.due_date) for each in low.milestones.list()], [("Loaded", "2099-01-31")])
        equal([each.username for each in copy.members.list()], ["ada"])
        refused(400, told, io.BytesIO(self.archive), "copy", "Another")
        refused(400, told, io.BytesIO(b"no archive"), "other", "Other")
        below = told(io.BytesIO(self.archive), "below", "Below", parent_id=self.group.id)
        equal(below["message"], "202 Accepted")
        equal(her.groups.get("cargo/below").parent_id, self.group.id)
        equal(self.group.imports.get().import_status, "none")

    def the_rest(self):
        until("the import", lambda: self.walk.her.groups.get("cargo/below").imports.get().import_status == "finished")
        self.walk.her.groups.get("copy").delete()
        self.group.delete()

    STEPS = ["exporting", "importing", "the_rest"]
