"""Walks through packages with the unmodified programs `npm`, `twine`, `pip` and `cargo`, and with the requests of `mvn`."""

import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

from checks import equal, refused

# Nothing of the environment of the caller must select another registry or compiler.
OTHERS = ("npm_", "pip_", "twine_", "cargo_", "rustc_", "rustflags")
ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.lower().startswith(OTHERS)}


def run(*command, fails=False, folder=None, **variables):
    """Runs a program and returns its output, or all its messages if it must fail."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=folder, env=ENVIRONMENT | variables)
    assert (done.returncode != 0) == fails, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr if fails else done.stdout


def wheel(folder, name, version, requires_python=">=3.7"):
    """Creates a wheel with one module, and returns its path."""
    module = name.lower().replace("-", "_").replace(".", "_")
    path = folder / f"{module}-{version}-py3-none-any.whl"
    information = f"{module}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{module}.py", f"VERSION = {version!r}\n")
        archive.writestr(f"{information}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
                         f"Requires-Python: {requires_python}\nSummary: Of a test\n")
        archive.writestr(f"{information}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{information}/RECORD", "")
    return path


class Packages:
    """Takes from `walk`: ada and her group of engines."""

    def __init__(self, walk):
        self.walk = walk
        self.project = walk.her.projects.create({"name": "Packed", "path": "packed", "namespace_id": walk.engines.id})
        self.directory = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.directory.name)
        scopes = ["read_package_registry", "write_package_registry"]
        self.deploy_token = self.project.deploytokens.create({"name": "packages", "scopes": scopes})
        self.api = f"{walk.base}/api/v4"

    def registry(self, path=None):
        """Returns the URL of the npm registry of the project, or below another path."""
        return f"{self.api}/{path or f'projects/{self.project.id}/packages/npm'}/"

    def npm(self, *arguments, token=None, registry=None, folder=None, fails=False):
        registry = registry or self.registry()
        settings = self.folder / "npmrc"
        credentials = f"{registry.split(':', 1)[1]}:_authToken={token}\n" if token else ""
        settings.write_text(f"registry={registry}\n{credentials}cache={self.folder / 'npm-cache'}\n"
                            "update-notifier=false\nfund=false\nfetch-retries=0\n")
        return run("npm", *arguments, "--userconfig", str(settings), folder=folder, fails=fails, HOME=str(self.folder))

    def package(self, name, version, **attributes):
        """Creates the folder of an npm package."""
        folder = self.folder / "npm" / f"{name.replace('/', '-')}-{version}"
        folder.mkdir(parents=True)
        manifest = {"name": name, "version": version, "main": "index.js", **attributes}
        (folder / "package.json").write_text(json.dumps(manifest))
        (folder / "index.js").write_text(f"module.exports = {json.dumps(version)};\n")
        return folder

    def installed(self, name, *versions, **options):
        """Installs an npm package in an empty folder, and returns the installed version."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        (folder / "package.json").write_text('{"private": true}')
        self.npm("install", *(f"{name}@{version}" for version in versions or ["latest"]), folder=folder, **options)
        return json.loads((folder / "node_modules" / name / "package.json").read_text())["version"]

    def npm_packages(self):
        personal, deploy = self.walk.her.private_token, self.deploy_token.token
        scoped = "@engines/web"
        self.npm("publish", folder=self.package("tiny", "0.1.0"), token=deploy)
        folder = self.package(scoped, "1.0.0", dependencies={"tiny": "^0.1.0"}, bin={"web": "index.js"})
        self.npm("publish", folder=folder, token=personal)
        assert "previously published" in self.npm("publish", folder=folder, token=personal, fails=True)
        self.npm("publish", "--tag", "next", folder=self.package(scoped, "2.0.0-rc.1"), token=deploy)
        for token in [personal, deploy]:
            equal(self.installed(scoped, token=token), "1.0.0")
            equal(self.installed(scoped, "next", token=token), "2.0.0-rc.1")
        shown = json.loads(self.npm("view", scoped, "--json", token=personal))
        equal((shown["dist-tags"], shown["versions"]), ({"latest": "1.0.0", "next": "2.0.0-rc.1"}, ["1.0.0", "2.0.0-rc.1"]))
        assert "E401" in self.npm("view", scoped, fails=True)
        assert "E401" in self.npm("view", scoped, token="wrong", fails=True)
        assert "E404" in self.npm("view", "missing", token=personal, fails=True)

    def npm_tags_and_deprecation(self):
        token, scoped = self.walk.her.private_token, "@engines/web"
        self.npm("dist-tag", "add", f"{scoped}@1.0.0", "stable", token=token)
        equal(self.npm("dist-tag", "ls", scoped, token=token).split("\n")[:3],
              ["latest: 1.0.0", "next: 2.0.0-rc.1", "stable: 1.0.0"])
        equal(self.installed(scoped, "stable", token=token), "1.0.0")
        self.npm("dist-tag", "rm", scoped, "stable", token=token)
        assert "E403" in self.npm("dist-tag", "rm", scoped, "next", token=self.deploy_token.token, fails=True)
        self.npm("deprecate", f"{scoped}@1.0.0", "use 2", token=token)
        equal(self.npm("view", f"{scoped}@1.0.0", "deprecated", token=token).strip(), "use 2")
        self.npm("deprecate", f"{scoped}@1.0.0", "", token=token)
        equal(self.npm("view", f"{scoped}@1.0.0", "deprecated", token=token).strip(), "")

    def npm_registries(self):
        """Installs from the registry of the group, of the instance, and of the project by its path."""
        token, path = self.walk.her.private_token, self.project.path_with_namespace.replace("/", "%2F")
        for registry in [f"groups/{self.walk.engines.id}/-/packages/npm", f"projects/{path}/packages/npm"]:
            equal(self.installed("@engines/web", token=token, registry=self.registry(registry)), "1.0.0")
        # Dependencies without a scope are not found in the registry of the instance.
        registry = self.registry("packages/npm")
        equal(self.installed("@engines/web", "next", token=token, registry=registry), "2.0.0-rc.1")
        assert "E404" in self.npm("view", "tiny", token=token, registry=registry, fails=True)

    def twine(self, *files, user="__token__", password=None, fails=False):
        return run(sys.executable, "-m", "twine", "upload", "--non-interactive", "--disable-progress-bar", "--verbose",
                   *map(str, files), fails=fails, HOME=str(self.folder), TWINE_USERNAME=user, TWINE_PASSWORD=password or
                   self.walk.her.private_token, TWINE_REPOSITORY_URL=f"{self.api}/projects/{self.project.id}/packages/pypi")

    def pip(self, requirement, index, user="__token__", password=None, fails=False):
        """Installs a Python package in an empty folder, and returns its modules or the messages of pip."""
        target = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        url = f"{self.api}/{index}/packages/pypi/simple"
        if password:
            url = url.replace("://", f"://{user}:{password}@")
        output = run(sys.executable, "-m", "pip", "install", "--isolated", "--no-input", "--no-cache-dir", "--no-deps",
                     "--disable-pip-version-check", "--retries=0", "--target", str(target), "--index-url", url,
                     requirement, fails=fails)
        return output if fails else {path.stem: path.read_text() for path in target.glob("*.py")}

    def python_packages(self):
        token, deploy = self.walk.her.private_token, self.deploy_token
        first = wheel(self.folder, "Analytical.Engine", "1.0")
        self.twine(first)
        assert "already been taken" in self.twine(first, fails=True)
        self.twine(wheel(self.folder, "Analytical.Engine", "1.1"), user=deploy.username, password=deploy.token)
        self.twine(wheel(self.folder, "Analytical.Engine", "2.0", ">=99"))
        assert "401" in self.twine(first, password="wrong", fails=True)
        project, group = f"projects/{self.project.id}", f"groups/{self.walk.engines.id}/-"
        newest = {"analytical_engine": "VERSION = '1.1'\n"}
        for index in [project, group]:
            # The newest version requires another version of Python.
            equal(self.pip("analytical_engine", index, password=token), newest)
            equal(self.pip("ANALYTICAL-engine==1.0", index, password=token), {"analytical_engine": "VERSION = '1.0'\n"})
        equal(self.pip("analytical-engine", project, deploy.username, deploy.token), newest)
        assert "No matching distribution" in self.pip("analytical-engine", project, fails=True)
        assert "No matching distribution" in self.pip("missing", project, password=token, fails=True)

    def crate(self, name, version, dependencies="", source=None):
        """Creates the folder of a crate in a new folder."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        (folder / "src").mkdir()
        (folder / "Cargo.toml").write_text(
            f'[package]\nname = "{name}"\nversion = "{version}"\nedition = "2021"\ndescription = "Of a test"\n'
            f'license = "MIT"\n\n[dependencies]\n{dependencies}\n\n[features]\nfast = []\n')
        if source:
            (folder / "src" / "main.rs").write_text(source)
        else:
            (folder / "src" / "lib.rs").write_text(f'pub const VERSION: &str = "{version}";\n')
        return folder

    def cargo(self, *arguments, token=None, folder=None, fails=False, project=None):
        """Runs `cargo` with an empty cache, and only with the registry of a project."""
        home = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        index = f"sparse+{self.api}/projects/{(project or self.project).id}/packages/cargo/"
        (home / "config.toml").write_text(f'[registries.engines]\nindex = "{index}"\n'
                                          '[registry]\nglobal-credential-providers = ["cargo:token"]\n[net]\nretry = 0\n')
        variables = {"CARGO_REGISTRIES_ENGINES_TOKEN": token} if token else {}
        return run("cargo", *arguments, folder=folder, fails=fails, CARGO_HOME=str(home),
                   CARGO_TARGET_DIR=str(self.folder / "target"), **variables)

    def cargo_packages(self):
        token, deploy = self.walk.her.private_token, self.deploy_token.token

        def publish(folder, token=token, fails=False):
            return self.cargo("publish", "--registry", "engines", "--allow-dirty", token=token, folder=folder, fails=fails)

        first = self.crate("gear-ratio", "1.0.0")
        assert "401" in publish(first, "wrong", fails=True)
        publish(first)
        publish(self.crate("gear-ratio", "1.1.0"), deploy)
        assert "already exists" in publish(first, fails=True)
        assert "differs only in case" in publish(self.crate("Gear_Ratio", "2.0.0"), fails=True)
        source = 'fn main() { println!("{}", gear_ratio::VERSION); }\n'
        dependency = 'gear-ratio = { version = "1", features = ["fast"], registry = "engines" }'
        folder = self.crate("mill", "1.0.0", dependency, source)
        assert "no token found for `engines`" in self.cargo("run", folder=folder, fails=True)
        assert "401" in self.cargo("run", folder=folder, token="wrong", fails=True)
        equal(self.cargo("run", "--quiet", folder=folder, token=token), "1.1.0\n")
        self.cargo("yank", "--registry", "engines", "gear-ratio@1.1.0", token=token)
        # A lock file can contain a yanked version, but a new one does not.
        equal(self.cargo("run", "--quiet", "--locked", folder=folder, token=deploy), "1.1.0\n")
        (folder / "Cargo.lock").unlink()
        equal(self.cargo("run", "--quiet", folder=folder, token=deploy), "1.0.0\n")
        self.cargo("yank", "--registry", "engines", "--undo", "gear-ratio@1.1.0", token=deploy)
        (folder / "Cargo.lock").unlink()
        equal(self.cargo("run", "--quiet", folder=folder, token=token), "1.1.0\n")
        # A published crate that depends on another one.
        renamed = 'ratio = { package = "gear-ratio", version = "1.0", registry = "engines", optional = true }'
        publish(self.crate("gearbox", "0.1.0", renamed, None))
        dependency = 'gearbox = { version = "0.1", features = ["ratio"], registry = "engines" }'
        folder = self.crate("windmill", "1.0.0", dependency, 'fn main() { println!("{}", gearbox::VERSION); }\n')
        equal(self.cargo("run", "--quiet", folder=folder, token=token), "0.1.0\n")
        assert " gear-ratio v1.1.0" in self.cargo("tree", "--locked", folder=folder, token=token)

    def public_crates(self):
        """Builds without a token."""
        project = self.walk.her.projects.create({"name": "Public crates", "path": "public-crates", "visibility": "public"})
        publish = ["publish", "--registry", "engines", "--allow-dirty"]
        folder = self.crate("gear-ratio", "1.0.0")
        assert "no token found" in self.cargo(*publish, folder=folder, project=project, fails=True)
        self.cargo(*publish, folder=folder, project=project, token=self.walk.her.private_token)
        source = 'fn main() { println!("{}", gear_ratio::VERSION); }\n'
        folder = self.crate("watermill", "1.0.0", 'gear-ratio = { version = "1", registry = "engines" }', source)
        equal(self.cargo("run", "--quiet", folder=folder, project=project), "1.0.0\n")
        project.delete()

    def maven_packages(self):
        """Sends the requests of `mvn deploy`, which `tests/clients/maven` runs."""
        client, group = self.walk.her, "com/example/gear"
        repository = f"/projects/{self.project.id}/packages/maven/{group}"

        def put(path, content):
            return client.http_request("put", f"{repository}/{path}", post_data=content, raw=True)

        for version in ("1.0", "1.1"):
            content = f"gear {version}".encode()
            put(f"{version}/gear-{version}.jar", content)
            put(f"{version}/gear-{version}.jar.sha1", hashlib.sha1(content).hexdigest().encode())
            refused(409, put, f"{version}/gear-{version}.jar.md5", b"0" * 32)
            put("maven-metadata.xml", client.http_request("get", f"{repository}/maven-metadata.xml").content)
        equal(client.http_request("get", f"{repository}/1.1/gear-1.1.jar").content, b"gear 1.1")
        listed = self.project.packages.list(package_type="maven", include_versionless=True, get_all=True)
        equal([(each.name, each.version) for each in listed], [(group, "1.0"), (group, None), (group, "1.1")])
        policy = f"/projects/{self.project.id}/packages/cleanup_policy"
        client.http_put(policy, post_data={"keep_n_duplicated_package_files": "10"})
        equal(client.http_get(policy)["keep_n_duplicated_package_files"], "10")
        listed[2].delete()
        metadata = client.http_request("get", f"{repository}/maven-metadata.xml").text
        equal(metadata.count("<version>"), 1)
        listed[0].delete()
        refused(404, client.http_request, "get", f"{repository}/maven-metadata.xml")

    def protected_packages(self):
        rules = self.project.package_protection_rules
        attributes = {"package_name_pattern": "gear*", "package_type": "cargo", "minimum_access_level_for_push": "maintainer",
                      "minimum_access_level_for_delete": "admin"}
        rule = rules.create(attributes)
        equal([each.package_name_pattern for each in rules.list(get_all=True)], ["gear*"])
        folder = self.crate("gear-ratio", "1.2.0")
        arguments = ["publish", "--registry", "engines", "--allow-dirty"]
        refusal = self.cargo(*arguments, folder=folder, token=self.deploy_token.token, fails=True)
        assert "Package protected." in refusal, refusal
        self.cargo(*arguments, folder=folder, token=self.walk.her.private_token)
        package = self.project.packages.list(package_type="cargo", get_all=True)[0]
        refused(403, package.delete)
        rule.minimum_access_level_for_delete = "owner"
        rule.save()
        package.delete()
        rules.delete(rule.id)

    def the_end(self):
        for package in self.project.packages.list(package_type="cargo", get_all=True):
            package.delete()
        kinds = {(each.package_type, each.name) for each in self.project.packages.list(get_all=True)}
        equal(kinds, {("npm", "tiny"), ("npm", "@engines/web"), ("pypi", "Analytical.Engine")})
        for package in self.project.packages.list(package_type="npm", get_all=True):
            package.delete()
        assert "E404" in self.npm("view", "@engines/web", token=self.walk.her.private_token, fails=True)
        self.project.delete()
        refused(404, self.walk.her.projects.get, self.project.id)
        self.directory.cleanup()

    STEPS = ["npm_packages", "npm_tags_and_deprecation", "npm_registries", "python_packages", "cargo_packages",
             "public_crates", "maven_packages", "protected_packages", "the_end"]
