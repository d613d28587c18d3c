"""Walks through the container registry: images pushed by `skopeo`, read and deleted by the client.

`HOLDFAST_DATA` names the data directory of the server.
"""

import gzip
import hashlib
import json
import os
import pathlib
import subprocess
import tempfile

from checks import equal, holds, refused, until

# An empty tar archive.
LAYER = gzip.compress(bytes(1024), mtime=0)


class Layout:
    """A directory in the layout of OCI images."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.blobs = self.directory / "blobs/sha256"
        self.blobs.mkdir(parents=True)
        (self.directory / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
        self.images = []

    def keep(self, kind, content):
        digits = hashlib.sha256(content).hexdigest()
        (self.blobs / digits).write_bytes(content)
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digits}", "size": len(content)}

    def image(self, name, created, layers=None):
        """Adds an image with this creation time and these uncompressed layers, and returns its manifest."""
        contents, kind = ([bytes(1024)], "layer.v1.tar+gzip") if layers is None else (layers, "layer.v1.tar")
        config = self.keep("config.v1+json", json.dumps({
            "created": created, "architecture": "amd64", "os": "linux", "config": {"Labels": {"name": name}},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(each).hexdigest()}" for each in contents]},
        }).encode())
        kept = [self.keep(kind, LAYER if layers is None else each) for each in contents]
        layer = kept[0]
        manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": kept}
        descriptor = self.keep("manifest.v1+json", json.dumps(manifest).encode())
        self.images.append({**descriptor, "annotations": {"org.opencontainers.image.ref.name": name}})
        (self.directory / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": self.images}))
        return {"digest": descriptor["digest"], "config": config, "size": config["size"] + layer["size"]}


def skopeo(*arguments, fails=False):
    """Runs skopeo and returns its output, or its error messages if it must fail."""
    done = subprocess.run(["skopeo", "--insecure-policy", *arguments], capture_output=True, text=True, timeout=120)
    assert (done.returncode != 0) == fails, done.stderr
    return done.stderr if fails else done.stdout


def stored_objects():
    """Returns the number of objects of the registry that the server stores."""
    folder = pathlib.Path(os.environ["HOLDFAST_DATA"]) / "objects/registry"
    return sum(path.is_file() for path in folder.rglob("*"))


class Registry:
    """Takes from `walk`: ada and her group of engines."""

    def __init__(self, walk):
        self.walk, self.group = walk, walk.engines
        self.project = walk.her.projects.create({"name": "Images", "path": "images", "namespace_id": walk.engines.id})
        self.host = walk.base.split("://")[1]
        self.path = f"{self.project.path_with_namespace}/web"
        self.credentials = f"ada:{walk.her.private_token}"
        self.directory = tempfile.TemporaryDirectory()
        self.layout = Layout(f"{self.directory.name}/images")
        self.made = {
            name: self.layout.image(name, f"2026-01-0{day}T12:00:00Z")
            for name, day in [("v1", 1), ("v2", 2), ("v3", 3), ("latest", 4)]
        }

    def push(self, name, path, **named):
        source, target = f"oci:{self.layout.directory}:{name}", f"docker://{self.host}/{path}:{name}"
        skopeo("copy", "--dest-tls-verify=false", "--dest-creds", self.credentials, source, target, **named)

    def pushing(self):
        equal(self.project.repositories.list(), [])
        for name in self.made:
            self.push(name, self.path)
        self.push("v1", self.project.path_with_namespace)
        self.push("v1", "nobody/images", fails=True)
        back = f"{self.directory.name}/back"
        skopeo("copy", "--src-tls-verify=false", "--src-creds", self.credentials,
               f"docker://{self.host}/{self.path}:v2", f"oci:{back}:v2")
        pulled = json.loads((pathlib.Path(back) / "index.json").read_text())["manifests"][0]
        equal(pulled["digest"], self.made["v2"]["digest"])

    def copying_between_repositories(self):
        """Copies an image with several layers between repositories, where the layers are mounted, and back."""
        folder = pathlib.Path(self.directory.name)
        layout = Layout(folder / "large")
        layers = [bytes((n + seed) * (n % 13 + 1) % 251 for n in range(200_000)) for seed in range(3)]
        made = layout.image("large", "2021-02-03T04:05:06Z", layers)
        project = self.walk.her.projects.create({"name": "Copies", "path": "copies", "namespace_id": self.group.id})
        before = stored_objects()
        first, second = (f"docker://{self.host}/{project.path_with_namespace}/{name}" for name in ["app:v1", "copy/of:v2"])
        to = ["copy", "--preserve-digests", "--dest-tls-verify=false", "--dest-creds", self.credentials]
        skopeo(*to, f"oci:{layout.directory}:large", first)
        inspect = ["inspect", "--tls-verify=false", "--creds", self.credentials]
        shown = json.loads(skopeo(*inspect, first))
        equal((shown["Digest"], shown["RepoTags"]), (made["digest"], ["v1"]))
        equal((shown["Created"], len(shown["Layers"])), ("2021-02-03T04:05:06Z", 3))
        skopeo(*to, "--src-tls-verify=false", "--src-creds", self.credentials, first, second)
        # Three layers and a configuration, stored once.
        equal(stored_objects() - before, 4)
        skopeo("copy", "--preserve-digests", "--src-tls-verify=false", "--src-creds", self.credentials, second,
               f"oci:{folder / 'returned'}:large")
        names = lambda blobs: sorted(path.name for path in blobs.iterdir())
        returned = folder / "returned/blobs/sha256"
        for blob in returned.iterdir():
            equal(hashlib.sha256(blob.read_bytes()).hexdigest(), blob.name)
        equal(names(returned), names(layout.blobs))
        skopeo("delete", "--tls-verify=false", "--creds", self.credentials, first)
        skopeo(*inspect, first, fails=True)
        skopeo(*inspect, second)
        project.delete()

    def logging_in(self):
        """Lists tags without credentials, checks credentials, and pushes without permission."""
        project = self.walk.her.projects.create(
            {"name": "Public", "path": "public-images", "namespace_id": self.group.id, "visibility": "public"})
        path = project.path_with_namespace
        for name in ["v1", "v2"]:
            self.push(name, path)
        listed = json.loads(skopeo("list-tags", "--tls-verify=false", f"docker://{self.host}/{path}"))
        equal(listed["Tags"], ["v1", "v2"])
        login = ["login", "--tls-verify=false", "--authfile", f"{self.directory.name}/auth.json", "--username", "ada"]
        skopeo(*login, "--password", self.walk.her.private_token, self.host)
        skopeo(*login, "--password", "wrong", self.host, fails=True)
        token = self.walk.eve.impersonationtokens.create({"name": "images", "scopes": ["api"]}).token
        message = skopeo("copy", "--preserve-digests", "--dest-tls-verify=false", "--dest-creds", f"eve:{token}",
                         f"oci:{self.layout.directory}:v3", f"docker://{self.host}/{path}:v3", fails=True)
        assert "not allowed to push" in message, message
        project.visibility = "private"
        project.save()
        skopeo("inspect", "--tls-verify=false", "--no-creds", f"docker://{self.host}/{path}:v1", fails=True)
        project.delete()

    def reading(self):
        web, plain = sorted(self.project.repositories.list(tags=True, tags_count=True), key=lambda each: each.id)
        holds(web, name="web", path=self.path, project_id=self.project.id, location=f"{self.host}/{self.path}", tags_count=4)
        holds(plain, name="", path=self.project.path_with_namespace, tags_count=1)
        equal([tag["name"] for tag in web.attributes["tags"]], ["latest", "v1", "v2", "v3"])
        equal([each.id for each in self.project.repositories.list(name="web")], [web.id])
        equal([each.id for each in self.group.registry_repositories.list()], [web.id, plain.id])
        one = self.walk.her.registry_repositories.get(web.id, tags_count=True)
        holds(one, path=self.path, tags_count=4)
        self.web, self.plain = self.project.repositories.list()
        equal([tag.name for tag in self.web.tags.list(per_page=2, get_all=True)], ["latest", "v1", "v2", "v3"])
        tag, made = self.web.tags.get("v2"), self.made["v2"]
        holds(tag, path=f"{self.path}:v2", location=f"{self.host}/{self.path}:v2", digest=made["digest"],
              created_at="2026-01-02T12:00:00.000Z", total_size=made["size"], revision=made["config"]["digest"][7:],
              short_revision=made["config"]["digest"][7:16])
        refused(404, self.web.tags.get, "v9")
        refused(404, self.walk.anonymous.registry_repositories.get, web.id)

    def deleting(self):
        self.web.tags.get("v1").delete()
        refused(404, self.web.tags.delete, "v1")
        names = lambda: [tag.name for tag in self.web.tags.list(get_all=True)]
        equal(names(), ["latest", "v2", "v3"])
        refused(400, self.web.tags.delete_in_bulk, "(")
        refused(400, self.web.tags.delete_in_bulk, ".*", older_than="a while")
        self.web.tags.delete_in_bulk(".*", keep_n=1, name_regex_keep="v1", older_than="1h")
        until("the deletion of tags", lambda: names() == ["latest", "v3"])
        assert "once an hour" in refused(400, self.web.tags.delete_in_bulk, ".*")
        self.web.delete()
        equal([each.id for each in self.project.repositories.list()], [self.plain.id])
        self.push("v2", self.path)
        again = self.project.repositories.list(name="web")[0]
        assert again.id != self.web.id
        equal([tag.name for tag in again.tags.list(get_all=True)], ["v2"])

    def the_rest(self):
        self.project.container_registry_enabled = False
        self.project.save()
        refused(403, self.project.repositories.list)
        self.project.delete()
        self.directory.cleanup()

    STEPS = ["pushing", "copying_between_repositories", "logging_in", "reading", "deleting", "the_rest"]
