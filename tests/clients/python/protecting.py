"""Walks through protected branches and tags, approvals, push rules, status checks, job token scopes and signatures."""

import base64
import subprocess
import tempfile

import gitlab

from checks import equal, holds, refused

# The key and the signature of `SIGNED`, by `ssh-keygen -Y sign -n git`.
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAbRbNb4zqO76Z/cyQy9jE8ZrbxeghN+Lt2/sPrzZ8mn"
SIGNATURE = """-----BEGIN SSH SIGNATURE-----
U1NIU0lHAAAAAQAAADMAAAALc3NoLWVkMjU1MTkAAAAgBtFs1vjOo7vpn9zJDL2MTxmtvF
6CE34u3b+w+vNnyacAAAADZ2l0AAAAAAAAAAZzaGE1MTIAAABTAAAAC3NzaC1lZDI1NTE5
AAAAQHveL6APuuof2qKWZUPkuP3v8L1L6zomZGjEqCIKdrv5HpOnpipAGUvkfC3hepnKGY
H6MOlD7/r9SRHZy7aMvwQ=
-----END SSH SIGNATURE-----"""
SIGNED = """tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904
author Ada Lovelace <ada@example.com> 1700000000 +0000
committer Ada Lovelace <Ada@Example.com> 1700000100 +0000
gpgsig {}

Signed
"""
DEVELOPER, MAINTAINER = gitlab.const.AccessLevel.DEVELOPER, gitlab.const.AccessLevel.MAINTAINER


class Protecting:
    """Takes from `walk`: ada, who owns the group of engines, and bob, who becomes a Developer of the project."""

    def __init__(self, walk):
        self.walk = walk
        self.project = walk.her.projects.create({
            "name": "Guarded", "namespace_id": walk.engines.id, "visibility": "public", "initialize_with_readme": True,
            "default_branch": "main",
        })
        self.project.members.create({"user_id": walk.bob.id, "access_level": DEVELOPER})
        self.his = walk.him.projects.get(self.project.id)

    def commit(self, project, branch, path, new=False, message="Add a file"):
        return project.commits.create({
            "branch": branch, "commit_message": message, **({"start_branch": "main"} if new else {}),
            "actions": [{"action": "create", "file_path": path, "content": f"{path}\n"}],
        })

    def protected_branches(self):
        project, branches = self.project, self.project.protectedbranches
        for name in [each.name for each in branches.list(get_all=True)]:
            branches.delete(name)
        made = branches.create({"name": "stable/*", "push_access_level": MAINTAINER, "merge_access_level": DEVELOPER})
        holds(made, name="stable/*", allow_force_push=False, code_owner_approval_required=False)
        equal([(each["access_level"], each["access_level_description"]) for each in made.push_access_levels],
              [(40, "Maintainers")])
        refused(409, branches.create, {"name": "stable/*"})
        refused(403, self.his.protectedbranches.create, {"name": "other"})
        project.branches.create({"branch": "stable/1", "ref": "main"})
        equal(project.branches.get("stable/1").protected, True)
        refused(403, self.commit, self.his, "stable/1", "his.txt")
        self.commit(project, "stable/1", "hers.txt")
        made.allow_force_push = True
        made.allowed_to_push = [{"user_id": self.walk.bob.id}]
        made.save()
        found = branches.get("stable/*")
        equal((found.allow_force_push, [each["user_id"] for each in found.push_access_levels]),
              (True, [None, self.walk.bob.id]))
        self.commit(self.his, "stable/1", "his.txt")
        made.delete()
        refused(404, branches.get, "stable/*")
        of_group = self.walk.engines.protectedbranches
        made = of_group.create({"name": "release", "push_access_level": 0})
        equal([each.name for each in of_group.list(get_all=True)], ["release"])
        project.branches.create({"branch": "topic", "ref": "main"})
        refused(403, self.commit, project, "release", "x.txt", new=True)
        made.delete()

    def protected_tags(self):
        tags = self.project.protectedtags
        made = tags.create({"name": "v*", "create_access_level": MAINTAINER})
        equal([(each["access_level"], each["access_level_description"]) for each in made.create_access_levels],
              [(40, "Maintainers")])
        equal([each.name for each in tags.list(get_all=True)], ["v*"])
        refused(403, self.his.tags.create, {"tag_name": "v1", "ref": "main"})
        self.his.tags.create({"tag_name": "other", "ref": "main"})
        equal(self.project.tags.create({"tag_name": "v1", "ref": "main"}).protected, True)
        refused(422, tags.create, {"name": "v*"})
        tags.delete("v*")
        refused(404, tags.get, "v*")
        self.his.tags.create({"tag_name": "v2", "ref": "main"})

    def approvals(self):
        project, walk = self.project, self.walk
        settings = project.approvals.get()
        settings.merge_requests_author_approval = False
        settings.reset_approvals_on_push = True
        settings.save()
        holds(project.approvals.get(), merge_requests_author_approval=False, reset_approvals_on_push=True)
        rule = project.approvalrules.create({"name": "Engineers", "approvals_required": 1, "user_ids": [walk.ada.id]})
        equal([(each.name, each.rule_type) for each in project.approvalrules.list(get_all=True)], [("Engineers", "regular")])
        self.commit(self.his, "work", "work.txt", new=True)
        made = self.his.mergerequests.create({"source_branch": "work", "target_branch": "main", "title": "Work"})
        self.request = project.mergerequests.get(made.iid)
        equal([(each["name"], each["approvals_required"], each["approved"]) for each in self.request.approval_state.get().rules],
              [("Engineers", 1, False)])
        holds(self.request.approvals.get(), approvals_required=1, approvals_left=1, approved=False)
        refused(401, made.approve)
        refused(405, self.request.merge)
        self.request.approve(sha=self.request.sha)
        state = self.request.approval_state.get()
        equal([(each["name"], each["approved"]) for each in state.rules], [("Engineers", True)])
        # A push removes the approval.
        self.commit(self.his, "work", "more.txt")
        equal(self.request.approvals.get().approved_by, [])
        self.request.approve()
        self.request.unapprove()
        equal(self.request.approvals.get().approvals_left, 1)
        own = self.request.approvals.set_approvers(2, approver_ids=[walk.ada.id], approval_rule_name="Own")
        equal((own.name, own.approvals_required), ("Own", 2))
        self.request.approval_rules.delete(own.id)
        rule.approvals_required = 0
        rule.name = "Anyone"
        rule.save()
        equal(self.request.approvals.get().approvals_left, 0)
        rule.delete()
        equal(project.approvalrules.list(), [])

    def versions(self):
        versions = self.request.diffs.list(get_all=True)
        equal([each.state for each in versions], ["collected"] * 2)
        equal(versions[0].head_commit_sha, self.project.branches.get("work").commit["id"])
        newest = self.request.diffs.get(versions[0].id)
        equal([each["new_path"] for each in newest.diffs], ["more.txt", "work.txt"])
        equal(len(newest.commits), 2)
        oldest = self.request.diffs.get(versions[1].id)
        equal([each["new_path"] for each in oldest.diffs], ["work.txt"])
        equal([each["title"] for each in self.project.commits.get(newest.head_commit_sha).merge_requests()], ["Work"])
        reference = self.request.merge_ref()
        equal(self.project.commits.get(reference["commit_id"]).id, reference["commit_id"])

    def status_checks(self):
        checks = self.project.external_status_checks
        made = checks.create({"name": "Steam", "external_url": "https://checks.example.com/steam"})
        equal([(each.name, each.external_url) for each in checks.list(get_all=True)],
              [("Steam", "https://checks.example.com/steam")])
        made.name = "Pressure"
        made.save()
        equal([(each.name, each.status) for each in self.request.status_checks.list(get_all=True)],
              [("Pressure", "pending")])
        path = f"{self.request.manager.path}/{self.request.iid}/status_check_responses"
        head = self.project.mergerequests.get(self.request.iid).sha
        self.walk.her.http_post(path, post_data={"sha": head, "external_status_check_id": made.id, "status": "passed"})
        equal([each.status for each in self.request.status_checks.list(get_all=True)], ["passed"])
        refused(403, self.his.external_status_checks.list)
        made.delete()
        equal(checks.list(), [])
        self.request.merge()
        equal(self.request.state, "merged")

    def push_rules(self):
        rules = self.project.pushrules
        made = rules.create({"commit_message_regex": "^(Add|Merge) ", "max_file_size": 1, "deny_delete_tag": True})
        holds(made, commit_message_regex="^(Add|Merge) ", max_file_size=1, deny_delete_tag=True, prevent_secrets=False)
        message = refused(400, self.commit, self.his, "topic", "rule.txt", message="Wrong")
        assert "does not follow the pattern" in message, message
        self.commit(self.his, "topic", "rule.txt")
        found = rules.get()
        found.commit_message_regex = ""
        found.prevent_secrets = True
        found.save()
        self.commit(self.his, "topic", "any.txt", message="Wrong")
        refused(400, self.commit, self.his, "topic", "id_rsa")
        found.delete()
        self.commit(self.his, "topic", "id_rsa")

    def job_token_scopes(self):
        walk = self.walk
        scope = self.project.job_token_scope.get()
        equal(scope.inbound_enabled, True)
        other = walk.her.projects.create({"name": "Caller"})
        scope.allowlist.create({"target_project_id": other.id})
        equal([each.id for each in scope.allowlist.list(get_all=True)], [self.project.id, other.id])
        refused(400, scope.allowlist.create, {"target_project_id": other.id})
        scope.allowlist.delete(other.id)
        scope.groups_allowlist.create({"target_group_id": walk.low.id})
        equal([each.id for each in scope.groups_allowlist.list(get_all=True)], [walk.low.id])
        scope.groups_allowlist.delete(walk.low.id)
        scope.enabled = False
        scope.save()
        equal(self.project.job_token_scope.get().inbound_enabled, False)
        refused(403, self.his.job_token_scope.get)
        other.delete()

    def signatures(self):
        unsigned = self.project.commits.get("main")
        equal(refused(404, unsigned.signature), "404 Signature Not Found")
        assert unsigned.sequence()["count"] >= 1
        with tempfile.TemporaryDirectory() as folder:
            def git(*arguments, content=""):
                done = subprocess.run(["git", "-C", folder, *arguments], input=content, capture_output=True, text=True)
                assert done.returncode == 0, done.stderr
                return done.stdout.strip()

            git("init", "--quiet", "--bare")
            git("hash-object", "-t", "tree", "-w", "--stdin")
            lines = SIGNATURE.replace("\n", "\n ")
            signed = git("hash-object", "-t", "commit", "-w", "--stdin", content=SIGNED.format(lines))
            credentials = base64.b64encode(f"ada:{self.walk.her.private_token}".encode()).decode()
            git("-c", f"http.extraHeader=Authorization: Basic {credentials}", "push", "--quiet",
                self.project.http_url_to_repo, f"{signed}:refs/heads/signed")
        commit = self.project.commits.get(signed)
        equal(commit.signature()["verification_status"], "unknown_key")
        key = self.walk.her.user.keys.create({"title": "signs", "key": KEY})
        found = commit.signature()
        equal((found["signature_type"], found["verification_status"], found["key"]["id"]), ("SSH", "verified", key.id))
        key.delete()
        self.project.delete()

    STEPS = [
        "protected_branches", "protected_tags", "approvals", "versions", "status_checks", "push_rules", "job_token_scopes",
        "signatures",
    ]
