"""Walks through users, groups, projects, repositories, planning and packages with an unmodified API client.

Usage: walk.py BASE_URL TOKEN compat|plain

The walk runs against a server with or without the option `compat`, which repeats headers under the names that such
clients know. CANNOT lists requests and responses that the client does not support, and `cannot` tests the list.
"""

import base64
import http.server
import io
import json
import pathlib
import sys
import tarfile
import threading
import zipfile

import gitlab
import requests

from checks import equal, go, refused, until
from deploying import Deploying
from flags import Flags
from packages import Packages
from pipelines import Pipelines
from planning import Planning
from protecting import Protecting
from registry import Registry
from scim import Scim
from shipping import Shipping
from templates import Templates
from transferring import Transferring

CANNOT = """
- Starring or subscribing twice, or undoing it twice: the response is 304, which the client raises as an error.
- The user who closed an issue is in `attributes["closed_by"]`, because a method of the client has the same name.
- `project.languages()` and other answers without a class are plain objects with all attributes.
- The client never reads headers with a vendor prefix, so `compat` has no effect on it. File metadata (`files.head`) is
  in such headers, which a caller reads under the server's names.
- `path=` of a list is the client's parameter for another URL; the commits of a file require `query_parameters`.
- Forks support only `namespace`; `namespace_id` and `namespace_path` can be passed as additional attributes.
- A list is iterated by keyset only with `order_by="id"`; the server rejects other orders with 405.
- Freeze periods have no class; the walk requests their paths.
- `variables` of a schedule is the client's manager; the variables of the response are in `attributes["variables"]`.
"""

PASSWORD = "walks a long way 42"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIC1lZHt8tfHU6emCnvkfhBBOCd0UGsSsNvg8JqKvMAgu"
SAMPLES = pathlib.Path(__file__).parents[3] / "crates/domain/src/kernel/public_keys/openpgp/samples"
GPG_KEY = (SAMPLES / "ada.asc").read_text().strip()
PNG = b"\x89PNG\r\n\x1a\n" + bytes(64)


class Walk:
    def __init__(self, base, token, compat):
        self.base, self.compat = base, compat
        self.root = gitlab.Gitlab(base, private_token=token, per_page=50)
        self.anonymous = gitlab.Gitlab(base)

    def as_user(self, token):
        return gitlab.Gitlab(self.base, private_token=token)

    def signing_in(self):
        self.root.auth()
        equal((self.root.user.username, self.root.user.is_admin), ("root", True))
        version, revision = self.root.version()
        # A development build has no revision.
        assert version[0].isdigit() and revision, (version, revision)
        refused(401, self.as_user("wrong").auth)
        settings = self.root.settings.get()
        settings.deletion_adjourned_period = 0
        settings.save()

    def users(self):
        users = self.root.users
        for name in ["ada", "bob", "eve"]:
            made = users.create({
                "username": name, "name": f"{name.title()} Name", "email": f"{name}@example.com", "password": PASSWORD,
                "skip_confirmation": True,
            })
            equal((made.username, made.state, made.name), (name, "active", f"{name.title()} Name"))
            setattr(self, name, made)
        message = refused(409, users.create, {
            "username": "ADA", "name": "Other", "email": "other@example.com", "password": PASSWORD,
        })
        assert "taken" in message.lower(), message
        equal([user.username for user in users.list(username="ada")], ["ada"])
        equal(sorted(user.username for user in users.list(search="Name", get_all=True)), ["ada", "bob", "eve"])
        self.ada.bio, self.ada.location = "Numbers", "London"
        self.ada.save()
        equal((users.get(self.ada.id).bio, users.get(self.ada.id).location), ("Numbers", "London"))
        equal(self.eve.block(), True)
        equal(users.get(self.eve.id).state, "blocked")
        equal(self.eve.unblock(), True)
        equal(users.get(self.eve.id).state, "active")

    def paging(self):
        names = [f"walker{number:02}" for number in range(25)]
        for name in names:
            self.root.users.create({
                "username": name, "name": name, "email": f"{name}@example.com", "password": PASSWORD,
                "skip_confirmation": True,
            })
        pages = self.root.users.list(search="walker", per_page=10, iterator=True, order_by="id", sort="asc")
        equal((pages.total, pages.total_pages, pages.per_page, pages.current_page), (25, 3, 10, 1))
        equal((pages.next_page, pages.prev_page), (2, None))
        equal([user.username for user in pages], names)
        second = self.root.users.list(search="walker", per_page=10, page=2, order_by="id", sort="asc", get_all=False)
        equal([user.username for user in second], names[10:20])
        made = [self.root.projects.create({"name": f"Paged {number}"}).id for number in range(7)]
        for sort in ["asc", "desc"]:
            listed = self.root.projects.list(
                iterator=True, pagination="keyset", order_by="id", sort=sort, per_page=3, owned=True)
            equal([project.id for project in listed], made if sort == "asc" else made[::-1])
        everything = self.root.projects.list(get_all=True, pagination="keyset", order_by="id", per_page=2)
        equal(len(everything), 7)
        for id in made:
            self.root.projects.delete(id)

    def things_of_users(self):
        key = self.ada.keys.create({"title": "laptop", "key": KEY})
        equal((key.title, [each.id for each in self.ada.keys.list()]), ("laptop", [key.id]))
        key.delete()
        equal(self.ada.keys.list(), [])
        gpg_key = self.ada.gpgkeys.create({"key": GPG_KEY})
        equal([each.id for each in self.ada.gpgkeys.list()], [gpg_key.id])
        gpg_key.delete()
        equal(self.ada.gpgkeys.list(), [])
        email = self.ada.emails.create({"email": "ada2@example.com", "skip_confirmation": True})
        assert email.id in [each.id for each in self.ada.emails.list()]
        email.delete()
        token = self.ada.impersonationtokens.create({"name": "walk", "scopes": ["api"], "expires_at": "2099-01-01"})
        self.her = self.as_user(token.token)
        self.her.auth()
        equal(self.her.user.username, "ada")
        equal([each.name for each in self.ada.impersonationtokens.list(state="active")], ["walk"])
        other = self.ada.impersonationtokens.create({"name": "gone", "scopes": ["read_user"]})
        other.delete()
        equal([each.name for each in self.ada.impersonationtokens.list(state="inactive")], ["gone"])
        refused(401, self.as_user(other.token).auth)
        status = self.her.user.status.get()
        status.message, status.emoji = "Counting", "coffee"
        status.save()
        equal(self.ada.status.get().message, "Counting")
        mine = self.her.user.keys.create({"title": "mine", "key": KEY})
        equal([each.title for each in self.her.user.keys.list()], ["mine"])
        mine.delete()
        mine = self.her.user.gpgkeys.create({"key": GPG_KEY})
        equal(self.her.user.gpgkeys.get(mine.id).key, GPG_KEY)
        mine.delete()
        personal = self.root.users.get(self.bob.id).personal_access_tokens.create(
            {"name": "his", "scopes": ["api"], "expires_at": "2099-01-01"})
        self.him = self.as_user(personal.token)
        self.him.auth()
        equal(self.him.user.username, "bob")
        listed = self.root.personal_access_tokens.list(user_id=self.bob.id)
        equal([each.name for each in listed], ["his"])
        equal(self.him.personal_access_tokens.get("self").name, "his")

    def groups(self):
        groups = self.her.groups
        self.engines = groups.create({"name": "Engines", "path": "engines", "visibility": "public"})
        self.low = groups.create({"name": "Low", "path": "low", "parent_id": self.engines.id, "visibility": "public"})
        equal((self.low.full_path, self.low.parent_id), ("engines/low", self.engines.id))
        equal(groups.get("engines/low").id, self.low.id)
        equal([group.path for group in self.engines.subgroups.list()], ["low"])
        equal([group.full_path for group in self.engines.descendant_groups.list()], ["engines/low"])
        self.low.description = "Below"
        self.low.save()
        equal(groups.get(self.low.id).description, "Below")
        equal([group.path for group in groups.list(owned=True, order_by="path", sort="desc")], ["low", "engines"])
        refused(404, self.him.groups.get, "no/such")
        readers = self.him.groups.create({"name": "Readers", "path": "readers"})
        member = readers.members.create({"user_id": self.ada.id, "access_level": gitlab.const.AccessLevel.GUEST})
        self.low.share(readers.id, gitlab.const.AccessLevel.REPORTER, expires_at="2099-01-01")
        shared = groups.get(self.low.id).shared_with_groups
        equal([(each["group_id"], each["group_access_level"], each["expires_at"]) for each in shared],
              [(readers.id, 20, "2099-01-01")])
        self.low.unshare(readers.id)
        equal(groups.get(self.low.id).shared_with_groups, [])
        member.delete()
        self.low.transfer()
        equal(groups.get(self.low.id).full_path, "low")
        self.low.transfer(self.engines.id)
        equal(groups.get(self.low.id).full_path, "engines/low")
        self.readers = readers

    def members(self):
        bob = self.engines.members.create({"user_id": self.bob.id, "access_level": gitlab.const.DEVELOPER_ACCESS})
        equal((bob.username, bob.access_level), ("bob", 30))
        refused(409, self.engines.members.create, {"user_id": self.bob.id, "access_level": 30})
        bob.access_level, bob.expires_at = gitlab.const.MAINTAINER_ACCESS, "2099-01-01"
        bob.save()
        found = self.engines.members.get(self.bob.id)
        equal((found.access_level, found.expires_at), (40, "2099-01-01"))
        equal(sorted(member.username for member in self.engines.members.list()), ["ada", "bob"])
        equal([member.username for member in self.engines.members.list(query="bo")], ["bob"])
        refused(404, self.low.members.get, self.bob.id)
        equal(self.low.members_all.get(self.bob.id).access_level, 40)
        equal(sorted(member.username for member in self.low.members_all.list()), ["ada", "bob"])
        bob.delete()
        refused(404, self.engines.members.get, self.bob.id)

    def projects(self):
        self.project = self.her.projects.create({
            "name": "Difference Engine", "path": "difference", "namespace_id": self.engines.id, "visibility": "public",
            "initialize_with_readme": True, "default_branch": "main", "description": "Brass", "merge_method": "ff",
        })
        project = self.project
        equal((project.path_with_namespace, project.default_branch, project.merge_method),
              ("engines/difference", "main", "ff"))
        equal(self.her.projects.get("engines/difference").id, project.id)
        equal(self.anonymous.projects.get(project.id).name, "Difference Engine")
        quiet = self.her.projects.create({"name": "Quiet", "issues_enabled": False, "merge_requests_enabled": False})
        loud = self.her.projects.create({"name": "Loud", "visibility": "internal"})
        loud.star()

        def paths(client=self.her, **filters):
            return [each.path for each in client.projects.list(order_by="path", sort="asc", get_all=True, **filters)]

        everything = ["difference", "loud", "quiet"]
        equal(paths(), everything)
        equal([each.path for each in self.her.projects.list(order_by="name", sort="desc")], ["quiet", "loud", "difference"])
        equal(paths(self.him), ["difference", "loud"])
        equal(paths(self.anonymous), ["difference"])
        for filters, expected in [
            ({"archived": True}, []), ({"archived": False}, everything), ({"visibility": "private"}, ["quiet"]),
            ({"owned": True}, everything), ({"membership": True}, everything), ({"starred": True}, ["loud"]),
            ({"search": "DIFF"}, ["difference"]), ({"search": "ENGINES", "search_namespaces": True}, ["difference"]),
            ({"simple": True}, everything), ({"statistics": True}, everything), ({"with_issues_enabled": True}, ["difference", "loud"]),
            ({"with_merge_requests_enabled": True}, ["difference", "loud"]), ({"min_access_level": 50}, everything),
            ({"id_after": project.id}, ["loud", "quiet"]), ({"id_before": quiet.id}, ["difference"]),
            ({"last_activity_after": "2020-01-01T00:00:00Z"}, everything), ({"last_activity_before": "2020-01-01T00:00:00Z"}, []),
            ({"with_custom_attributes": True}, everything), ({"with_programming_language": "Rust"}, []),
        ]:
            equal((filters, paths(**filters)), (filters, expected))
        statistics = self.her.projects.get(project.id, statistics=True).statistics
        equal(statistics["commit_count"] >= 0, True)
        equal(hasattr(self.her.projects.list(simple=True)[0], "visibility"), False)
        equal(sorted(each.path for each in self.engines.projects.list()), ["difference"])
        equal(sorted(each.path for each in self.ada.projects.list()), ["loud", "quiet"])
        equal(loud.star_count, 1)
        equal([each["user"]["username"] for each in self.her.http_list(f"/projects/{loud.id}/starrers")], ["ada"])
        loud.unstar()
        equal(loud.star_count, 0)
        project.description, project.issues_access_level = "Brass and steam", "private"
        project.save()
        equal((self.her.projects.get(project.id).description, project.issues_access_level), ("Brass and steam", "private"))
        project.avatar = PNG
        project.save()
        address = self.her.projects.get(project.id).avatar_url
        equal(requests.get(address, timeout=30).content, PNG)
        quiet.delete()
        refused(404, self.her.projects.get, quiet.id)
        self.loud = loud

    def changes_of_place(self):
        loud = self.loud
        loud.transfer("engines/low")
        equal(self.her.projects.get(loud.id).path_with_namespace, "engines/low/loud")
        loud.transfer(self.engines.id)
        equal(self.her.projects.get("engines/loud").id, loud.id)
        message = refused(404, loud.transfer, "readers")
        equal(message, "404 Target Namespace Not Found")
        refused(400, loud.transfer, "engines")
        self.root.groups.get(self.low.id).transfer_project(loud.id)
        equal(self.her.projects.get(loud.id).path_with_namespace, "engines/low/loud")
        loud.archive()
        equal((loud.archived, [each.id for each in self.her.projects.list(archived=True)]), (True, [loud.id]))
        loud.unarchive()
        equal(loud.archived, False)
        # The group is private, and ada is no longer a member.
        equal(refused(404, self.project.share, self.readers.id, 30), "404 Group Not Found")
        project = self.root.projects.get(self.project.id)
        project.share(self.readers.id, gitlab.const.AccessLevel.DEVELOPER, expires_at="2099-01-01")
        shared = self.her.projects.get(self.project.id).shared_with_groups
        equal([(each["group_full_path"], each["group_access_level"]) for each in shared], [])
        shared = self.him.projects.get(self.project.id).shared_with_groups
        equal([(each["group_full_path"], each["group_access_level"]) for each in shared], [("readers", 30)])
        refused(409, project.share, self.readers.id, 30)
        self.project.unshare(self.readers.id)

    def deletion_and_return(self):
        settings = self.root.settings.get()
        settings.deletion_adjourned_period = 7
        settings.save()
        equal(self.root.settings.get().deletion_adjourned_period, 7)
        self.loud.delete()
        marked = self.her.projects.get(self.loud.id)
        assert marked.marked_for_deletion_on is not None
        marked.restore()
        equal(self.her.projects.get(self.loud.id).marked_for_deletion_on, None)
        self.low.delete()
        assert self.her.groups.get(self.low.id).marked_for_deletion_on is not None
        self.her.groups.get(self.low.id).restore()
        equal(self.her.groups.get(self.low.id).marked_for_deletion_on, None)
        settings.deletion_adjourned_period = 0
        settings.save()
        self.loud.delete()
        refused(404, self.her.projects.get, self.loud.id)

    def forks(self):
        fork = self.project.forks.create({})
        fork = self.her.projects.get(fork.id)
        equal(fork.forked_from_project["id"], self.project.id)
        until("the copy", lambda: self.her.projects.get(fork.id).import_status == "finished")
        equal(fork.path_with_namespace, "ada/difference")
        equal(self.her.projects.get(fork.id).merge_method, "ff")
        other = self.project.forks.create({"namespace": "engines/low", "path": "copy", "name": "Copy"})
        equal(other.path_with_namespace, "engines/low/copy")
        refused(409, self.project.forks.create, {})
        equal(sorted(each.path for each in self.project.forks.list()), ["copy", "difference"])
        fork.delete_fork_relation()
        equal(hasattr(self.her.projects.get(fork.id), "forked_from_project"), False)
        fork.create_fork_relation(self.project.id)
        equal(self.her.projects.get(fork.id).forked_from_project["id"], self.project.id)
        fork.delete()

    def files(self):
        files = self.project.files
        made = files.create({"file_path": "src/main.rs", "branch": "main", "content": "fn main() {}\n", "commit_message": "Begin"})
        equal(made.file_path, "src/main.rs")
        files.create({
            "file_path": "bin", "branch": "main", "content": base64.b64encode(bytes(range(256))).decode(),
            "encoding": "base64", "commit_message": "Add bytes",
        })
        read = files.get("src/main.rs", ref="main")
        equal((read.decode(), read.size, read.file_name), (b"fn main() {}\n", 13, "main.rs"))
        equal(files.raw("bin", ref="main"), bytes(range(256)))
        read.content = "fn main() { work() }\n"
        read.save(branch="main", commit_message="Work")
        equal(files.raw("src/main.rs", ref="main"), b"fn main() { work() }\n")
        blame = files.blame("src/main.rs", ref="main")
        equal((blame[0]["lines"], blame[0]["commit"]["message"]), (["fn main() { work() }"], "Work"))
        head = files.head("src/main.rs", ref="main")
        equal((head["X-Service-File-Name"], head["X-Service-Size"]), ("main.rs", "21"))
        equal(any(name.lower().startswith("x-gitlab-") for name in head), self.compat)
        files.delete(file_path="bin", branch="main", commit_message="Drop")
        refused(404, files.get, "bin", ref="main")
        refused(400, files.create, {"file_path": "src/main.rs", "branch": "main", "content": "x", "commit_message": "Twice"})
        tree = self.project.repository_tree(recursive=True, get_all=True)
        equal(sorted(entry["path"] for entry in tree), ["README.md", "src", "src/main.rs"])
        blob = next(entry for entry in tree if entry["path"] == "src/main.rs")["id"]
        equal(base64.b64decode(self.project.repository_blob(blob)["content"]), b"fn main() { work() }\n")
        equal(self.project.repository_raw_blob(blob), b"fn main() { work() }\n")

    def commits(self):
        commits, branches = self.project.commits, self.project.branches
        branch = branches.create({"branch": "topic", "ref": "main"})
        equal((branch.name, branch.commit["title"]), ("topic", "Drop"))
        made = commits.create({
            "branch": "topic", "commit_message": "Do much\n\nAt once.",
            "actions": [
                {"action": "create", "file_path": "a/new", "content": "new\n"},
                {"action": "update", "file_path": "README.md", "content": "Read\n"},
                {"action": "move", "file_path": "src/lib.rs", "previous_path": "src/main.rs"},
                {"action": "chmod", "file_path": "README.md", "execute_filemode": True},
            ],
        })
        equal((made.title, made.message), ("Do much", "Do much\n\nAt once."))
        equal(made.stats["total"] > 0, True)
        diff = made.diff(get_all=True)
        equal(sorted(each["new_path"] for each in diff), ["README.md", "a/new", "src/lib.rs"])
        equal([each["renamed_file"] for each in diff if each["new_path"] == "src/lib.rs"], [True])
        equal({(each["type"], each["name"]) for each in made.refs(get_all=True)}, {("branch", "topic")})
        comment = made.comments.create({"note": "Good", "path": "a/new", "line": 1, "line_type": "new"})
        equal([(each.note, each.path, each.line) for each in made.comments.list()], [("Good", "a/new", 1)])
        equal(comment.author["username"], "ada")
        branches.create({"branch": "picked", "ref": "main"})
        made.cherry_pick(branch="picked")
        picked = commits.list(ref_name="picked", get_all=False)[0]
        equal(picked.title, "Do much")
        reverted = picked.revert(branch="picked")
        assert reverted["title"].startswith("Revert"), reverted
        equal(self.project.files.raw("src/main.rs", ref="picked"), b"fn main() { work() }\n")
        message = refused(400, picked.revert, branch="picked")
        assert "revert" in message.lower(), message
        listed = commits.list(query_parameters={"ref_name": "topic", "path": "a/new"}, get_all=True)
        equal([each.id for each in listed], [made.id])
        equal(commits.get(made.id[:8]).id, made.id)
        equal(commits.list(ref_name="main", all=True, get_all=False)[0].author_email, "ada@example.com")
        compared = self.project.repository_compare("main", "topic")
        equal(([each["title"] for each in compared["commits"]], len(compared["diffs"])), (["Do much"], 3))
        equal(self.project.repository_merge_base(["main", "topic"])["title"], "Drop")
        equal([each["email"] for each in self.project.repository_contributors(get_all=True)], ["ada@example.com"])
        branches.delete("picked")
        refused(404, branches.get, "picked")
        equal([each.name for each in branches.list(search="top")], ["topic"])
        self.project.delete_merged_branches()
        self.topic = made

    def tags_and_archives(self):
        tags = self.project.tags
        tag = tags.create({"tag_name": "v1", "ref": "main", "message": "First"})
        equal((tag.name, tag.message), ("v1", "First"))
        equal([each.name for each in tags.list(search="^v")], ["v1"])
        packed = self.project.repository_archive(sha="v1", format="tar.gz")
        names = tarfile.open(fileobj=io.BytesIO(packed)).getnames()
        assert any(name.endswith("/src/main.rs") for name in names), names
        names = zipfile.ZipFile(io.BytesIO(self.project.repository_archive(sha="topic", format="zip"))).namelist()
        assert any(name.endswith("/src/lib.rs") for name in names), names
        pieces = self.project.repository_archive(sha="v1", format="tar", iterator=True)
        assert len(b"".join(pieces)) > 512
        tag.delete()
        equal(tags.list(), [])
        languages = self.project.languages()
        equal(languages, {"Rust": 100.0})
        equal([each.path for each in self.her.projects.list(with_programming_language="rust")], ["difference"])

    def uploads(self):
        sent = self.project.upload("my notes.txt", filedata=b"remember")
        equal((sent["alt"], sent["markdown"]), ("my_notes.txt", f"[my_notes.txt]({sent['url']})"))
        address = f"{self.base}{sent['full_path']}"
        equal(requests.get(address, timeout=30).content, b"remember")
        refused(413, self.project.upload, "large", filedata=bytes((10 << 20) + 1))

    def hooks(self):
        arrived = []

        class Receiver(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                length = int(self.headers["Content-Length"])
                arrived.append((self.headers, json.loads(self.rfile.read(length))))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_):
                pass

        receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
        threading.Thread(target=receiver.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{receiver.server_port}/hook"
        hook = self.project.hooks.create({"url": url, "push_events": True, "token": "secret", "enable_ssl_verification": False})
        equal((hook.url, hook.push_events, hasattr(hook, "token")), (url, True, False))
        equal([each.id for each in self.project.hooks.list()], [hook.id])
        hook.test("push_events")
        headers, body = arrived.pop()
        equal((headers["X-Service-Token"], body["object_kind"]), ("secret", "push"))
        equal(any(name.lower().startswith("x-gitlab-") for name in headers), self.compat)
        self.project.files.create({"file_path": "pushed", "branch": "main", "content": "x", "commit_message": "Push"})
        until("the delivery", lambda: arrived)
        equal(arrived.pop()[1]["commits"][0]["title"], "Push")
        hook.url = f"{url}/2"
        hook.tag_push_events = True
        hook.save()
        equal(self.project.hooks.get(hook.id).url, f"{url}/2")
        refused(422, self.project.hooks.create, {"url": "ftp://example.com"})
        hook.delete()
        equal(self.project.hooks.list(), [])
        receiver.shutdown()

    def events(self):
        kinds = {event.action_name for event in self.project.events.list(get_all=True)}
        assert {"created", "pushed to"} <= kinds, kinds
        equal(self.her.events.list(get_all=False)[0].author_username, "ada")
        pushed = self.ada.events.list(action="pushed", get_all=True)
        assert pushed and all(event.push_data["ref_type"] in ("branch", "tag") for event in pushed)

    def planning(self):
        go(Planning(self), Planning.STEPS)

    def pipelines(self):
        go(Pipelines(self), Pipelines.STEPS)

    def protecting(self):
        go(Protecting(self), Protecting.STEPS)

    def deploying(self):
        go(Deploying(self), Deploying.STEPS)

    def shipping(self):
        go(Shipping(self), Shipping.STEPS)

    def templates(self):
        go(Templates(self), Templates.STEPS)

    def provisioning(self):
        go(Scim(self), Scim.STEPS)

    def registry(self):
        go(Registry(self), Registry.STEPS)

    def packages(self):
        go(Packages(self), Packages.STEPS)

    def flags(self):
        go(Flags(self), Flags.STEPS)

    def transferring(self):
        go(Transferring(self), Transferring.STEPS)

    def custom_attributes(self):
        for thing in [self.root.projects.get(self.project.id), self.root.groups.get(self.engines.id), self.root.users.get(self.ada.id)]:
            thing.customattributes.set("place", "London")
            equal([(each.key, each.value) for each in thing.customattributes.list()], [("place", "London")])
            thing.customattributes.set("place", "Paris")
            equal(thing.customattributes.get("place").value, "Paris")
        found = self.root.projects.list(custom_attributes={"place": "Paris"}, with_custom_attributes=True)
        equal([(each.id, each.custom_attributes) for each in found], [(self.project.id, [{"key": "place", "value": "Paris"}])])
        self.root.projects.get(self.project.id).customattributes.delete("place")
        refused(403, self.project.customattributes.list)

    def namespaces(self):
        equal([each.full_path for each in self.her.namespaces.list(get_all=True)], ["ada", "engines", "engines/low"])
        equal(self.her.namespaces.get("engines").id, self.engines.id)
        equal([each.full_path for each in self.her.namespaces.list(search="low")], ["engines/low"])

    def project_tokens(self):
        token = self.project.access_tokens.create(
            {"name": "robot", "scopes": ["api"], "access_level": 30, "expires_at": "2099-01-01"})
        robot = self.as_user(token.token)
        robot.projects.get(self.project.id).files.create(
            {"file_path": "made", "branch": "topic", "content": "x", "commit_message": "By a robot"})
        equal([each.name for each in self.project.access_tokens.list()], ["robot"])
        self.project.access_tokens.delete(token.id)
        refused(401, robot.projects.get, self.project.id)

    def settings(self):
        settings = self.root.settings.get()
        settings.default_project_visibility = "internal"
        settings.save()
        equal(self.her.projects.create({"name": "By default"}).visibility, "internal")
        settings.default_project_visibility = "private"
        settings.save()
        refused(403, self.her.settings.get)

    def cannot(self):
        """Tests the entries of CANNOT so that the list stays correct."""
        self.project.star()
        try:
            self.project.star()
            raise AssertionError("the client now accepts 304: remove the entry from CANNOT")
        except gitlab.GitlabError as error:
            equal(error.response_code, 304)
        refused(405, self.her.projects.list, pagination="keyset", get_all=False)

    def the_end(self):
        self.project.delete()
        refused(404, self.her.projects.get, self.project.id)
        self.engines.delete()
        refused(404, self.her.groups.get, self.engines.id)
        self.root.users.delete(self.bob.id, hard_delete=True)
        until("the removal", lambda: not self.root.users.list(username="bob"))
        refused(401, self.him.auth)


STEPS = [
    "signing_in", "users", "paging", "things_of_users", "groups", "members", "projects", "changes_of_place",
    "deletion_and_return", "forks", "files", "commits", "tags_and_archives", "uploads", "hooks", "events", "planning",
    "pipelines", "protecting", "deploying", "shipping", "templates", "provisioning", "registry", "packages", "flags",
    "transferring", "custom_attributes", "namespaces", "project_tokens", "settings", "cannot", "the_end",
]

if __name__ == "__main__":
    go(Walk(sys.argv[1], sys.argv[2], sys.argv[3] == "compat"), STEPS)
