"""Walks through the container registry: images pushed by `skopeo`, read and deleted by the client."""

import gzip
import hashlib
import json
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

    def image(self, name, created):
        """Adds an image with this creation time and returns its manifest."""
        config = self.keep("config.v1+json", json.dumps({
            "created": created, "architecture": "amd64", "os": "linux", "config": {"Labels": {"name": name}},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(bytes(1024)).hexdigest()}"]},
        }).encode())
        layer = self.keep("layer.v1.tar+gzip", LAYER)
        manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": [layer]}
        descriptor = self.keep("manifest.v1+json", json.dumps(manifest).encode())
        self.images.append({**descriptor, "annotations": {"org.opencontainers.image.ref.name": name}})
        (self.directory / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": self.images}))
        return {"digest": descriptor["digest"], "config": config, "size": config["size"] + layer["size"]}


def skopeo(*arguments, fails=False):
    done = subprocess.run(["skopeo", "--insecure-policy", *arguments], capture_output=True, text=True, timeout=120)
    assert (done.returncode != 0) == fails, done.stderr
    return done.stdout


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

    STEPS = ["pushing", "reading", "deleting", "the_rest"]
