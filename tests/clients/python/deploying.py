"""Walks through variables, deploy keys, deploy tokens, freeze periods, feature flags and feature gates."""

from checks import equal, holds, refused

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ"


def variables(variables, scoped):
    """Steps through variables of the instance, which have no environment scope, of a project or of a group."""
    made = variables.create({"key": "PLAIN", "value": "a value\nof two lines"})
    holds(made, key="PLAIN", value="a value\nof two lines", variable_type="env_var", protected=False, masked=False)
    equal(getattr(made, "environment_scope", None), "*" if scoped else None)
    variables.create({"key": "CERT", "value": "pem", "variable_type": "file", "protected": True})
    equal([(each.key, each.variable_type, each.protected) for each in variables.list(get_all=True)], [
        ("PLAIN", "env_var", False), ("CERT", "file", True)])
    made.value, made.masked = "other-value", True
    made.save()
    holds(variables.get("PLAIN"), value="other-value", masked=True, variable_type="env_var")
    equal(refused(400, variables.update, "PLAIN", {"value": "short"}), {"value": ["is invalid"]})
    equal(refused(400, variables.create, {"key": "CERT", "value": "x"}), {"key": ["(CERT) has already been taken"]})
    equal(refused(400, variables.create, {"key": "a-b", "value": "x"}), {"key": ["can contain only letters, digits and '_'."]})
    if scoped:
        variables.create({"key": "CERT", "value": "new", "environment_scope": "review/*"})
        refused(409, variables.get, "CERT")
        scope = {"environment_scope": "review/*"}
        equal(variables.get("CERT", filter=scope).value, "new")
        variables.update("CERT", {"value": "newer"}, filter=scope)
        equal(variables.get("CERT", filter=scope).value, "newer")
        equal(variables.get("CERT", filter={"environment_scope": "*"}).value, "pem")
        variables.delete("CERT", filter=scope)
    variables.delete("CERT")
    made.delete()
    refused(404, variables.get, "PLAIN")
    equal(variables.list(), [])


class Deploying:
    """Takes from `walk`: ada, who owns the group of engines, and the administrator."""

    def __init__(self, walk):
        self.walk = walk
        new = {"namespace_id": walk.engines.id, "visibility": "public", "initialize_with_readme": True, "default_branch": "main"}
        self.project, self.other = [walk.her.projects.create({"name": name, **new}) for name in ("Store", "Printer")]

    def variables(self):
        walk = self.walk
        variables(walk.root.variables, scoped=False)
        variables(self.project.variables, scoped=True)
        variables(walk.engines.variables, scoped=True)
        refused(403, walk.her.variables.list)
        refused(401, walk.anonymous.projects.get(self.project.id).variables.list)

    def deploy_keys(self):
        keys = self.project.keys
        made = keys.create({"title": "deployer", "key": f"{KEY} deploy bot", "can_push": True})
        holds(made, title="deployer", key=f"{KEY} deploy bot", can_push=True)
        equal(keys.get(made.id).attributes, made.attributes)
        made.title, made.can_push = "reader", False
        made.save()
        equal([(each.id, each.title, each.can_push) for each in keys.list()], [(made.id, "reader", False)])
        listed = [each for each in self.walk.root.deploykeys.list(get_all=True) if each.id == made.id]
        equal([(each.title, each.key) for each in listed], [("reader", f"{KEY} deploy bot")])
        refused(403, self.walk.her.deploykeys.list)
        equal(refused(400, keys.create, {"title": "x", "key": "x"}), {
            "deploy_key.key": ["is invalid"], "deploy_key.fingerprint": ["cannot be generated"]})
        answer = self.other.keys.enable(made.id)
        equal((answer["id"], answer["title"]), (made.id, "reader"))
        equal([(each.title, each.can_push) for each in self.other.keys.list()], [("reader", False)])
        made.delete()
        refused(404, keys.get, made.id)
        # The other project still has the key.
        self.other.keys.delete(made.id)
        equal([each.id for each in self.walk.root.deploykeys.list(get_all=True) if each.id == made.id], [])

    def deploy_tokens(self):
        new = {"name": "cluster", "username": "robot", "expires_at": "2099-11-23", "scopes": ["read_registry"]}
        for owner in (self.project, self.walk.engines):
            tokens = owner.deploytokens
            made = tokens.create(new)
            holds(made, name="cluster", username="robot", expires_at="2099-11-23T00:00:00.000Z", scopes=["read_registry"])
            equal(made.token.startswith("hfdt-"), True)
            holds(tokens.get(made.id), name="cluster", revoked=False, expired=False)
            equal([each.id for each in tokens.list()], [made.id])
            equal(made.id in [each.id for each in self.walk.root.deploytokens.list(get_all=True)], True)
            equal(refused(400, tokens.create, {"name": "x", "scopes": ["api"]}), "scopes does not have a valid value")
            made.delete()
            refused(404, tokens.get, made.id)
            equal(tokens.list(), [])
        refused(403, self.walk.her.deploytokens.list)

    def remote_mirrors(self):
        mirrors, url = self.project.remote_mirrors, "https://git.example.com/mirror.git"
        made = mirrors.create({"url": url})
        holds(made, url=url, enabled=False, update_status="none", only_protected_branches=False)
        made.enabled = True
        made.only_protected_branches = True
        made.save()
        holds(mirrors.list()[0], enabled=True, only_protected_branches=True)
        secret = mirrors.create({"url": url.replace("//", "//user:secret@")})
        equal(secret.url, url.replace("//", "//*****:*****@"))
        equal([each.id for each in mirrors.list()], [made.id, secret.id])
        refused(400, mirrors.create, {"url": "ssh://git@git.example.com/mirror.git"})
        for each in (made, secret):
            mirrors.delete(each.id)
        equal(mirrors.list(), [])

    def pull_mirror(self):
        manager, url = self.project.pull_mirror, "https://git.example.com/mirror.git"
        refused(400, manager.get)
        made = manager.create({"url": url})
        holds(made, url=url, enabled=False, update_status="none", last_error=None)
        made.only_mirror_protected_branches = True
        made.save()
        secret = manager.create({"url": url, "auth_user": "user", "auth_password": "secret"})
        equal(secret.url, url.replace("//", "//*****:*****@"))
        holds(manager.get(), url=secret.url, enabled=False, only_mirror_protected_branches=True)
        # A disabled mirror is not updated.
        refused(400, manager.start)
        refused(400, manager.create, {"url": "ssh://git@git.example.com/mirror.git"})

    def snapshot(self):
        archive = self.walk.root.projects.get(self.project.id).snapshot()
        equal((archive[257:262], b"packed-refs" in archive), (b"ustar", True))
        refused(403, self.project.snapshot)

    def freeze_periods(self):
        """The client has no class for freeze periods, so the walk requests their paths."""
        her, all = self.walk.her, f"/projects/{self.project.id}/freeze_periods"
        new = {"freeze_start": "0 23 * * fri", "freeze_end": "0 7 * * mon", "cron_timezone": "Europe/Berlin"}
        made = her.http_post(all, post_data=new)
        equal({name: made[name] for name in new}, new)
        one = f"{all}/{made['id']}"
        equal((her.http_get(one), her.http_list(all)), (made, [made]))
        changed = her.http_put(one, post_data={"freeze_end": "0 6 * * 1"})
        equal((changed["freeze_end"], changed["freeze_start"]), ("0 6 * * 1", "0 23 * * fri"))
        equal(refused(400, her.http_put, one, post_data={"freeze_end": "x"}), {"freeze_end": [" is invalid syntax"]})

        def frozen():
            made = self.project.pipelines.create({"ref": "main"})
            return [(each.key, each.value) for each in made.variables.list()]

        # The freeze period starts every minute and ended on the last 29 February.
        her.http_put(one, post_data={"freeze_start": "* * * * *", "freeze_end": "0 0 29 2 *", "cron_timezone": "UTC"})
        equal(frozen(), [("CI_DEPLOY_FREEZE", "true")])
        her.http_delete(one)
        equal(frozen(), [])
        refused(404, her.http_get, one)

    def user_lists(self):
        lists = self.project.feature_flags_user_lists
        made = lists.create({"name": "early birds", "user_xids": ["ada", "bob"]})
        holds(made, iid=1, name="early birds", user_xids="ada,bob", project_id=self.project.id)
        made.name, made.user_xids = "birds", "ada"
        made.save()
        equal([(each.iid, each.name, each.user_xids) for each in lists.list()], [(1, "birds", "ada")])
        equal(lists.get(1).name, "birds")
        refused(400, lists.create, {"name": "birds", "user_xids": ""})
        self.list = made

    def feature_flags(self):
        flags = self.project.feature_flags
        made = flags.create({
            "name": "new_checkout", "description": "The new checkout", "version": "new_version_flag", "active": False,
            "strategies": [
                {"name": "default", "scopes": [{"environment_scope": "staging"}, {"environment_scope": "review/*"}]},
                {"name": "gradualRolloutUserId", "parameters": {"groupId": "default", "percentage": "25"}},
                {"name": "gitlabUserList", "user_list_id": self.list.id},
            ],
        })
        holds(made, name="new_checkout", description="The new checkout", version="new_version_flag", active=False, scopes=[])

        def told(flag):
            return [
                (each["name"], each["parameters"], [scope["environment_scope"] for scope in each["scopes"]],
                 each["user_list"] and each["user_list"]["iid"])
                for each in flag.strategies
            ]

        first, second, third = told(made)
        equal(first, ("default", {}, ["staging", "review/*"], None))
        equal(second, ("gradualRolloutUserId", {"groupId": "default", "percentage": "25"}, ["*"], None))
        equal(third, ("gitlabUserList", {}, ["*"], 1))
        equal(told(flags.get("new_checkout")), [first, second, third])
        # The client requests the flag by its former name.
        made.name, made.active = "checkout", True
        gone = {"id": made.strategies[1]["id"], "_destroy": True}
        made.strategies = [gone, {"name": "userWithId", "parameters": {"userIds": "a,b"}}]
        made.save()
        equal((made.name, made.active), ("checkout", True))
        equal(told(flags.get("checkout")), [first, third, ("userWithId", {"userIds": "a,b"}, ["*"], None)])
        refused(404, flags.get, "new_checkout")
        flags.create({"name": "plain", "active": False})
        for filters, expected in [
            ({}, ["checkout", "plain"]), ({"scope": "enabled"}, ["checkout"]), ({"scope": "disabled"}, ["plain"]),
        ]:
            equal([each.name for each in flags.list(get_all=True, **filters)], expected)
        refused(400, flags.create, {"name": "checkout"})
        # A user list that a strategy refers to.
        refused(409, self.list.delete)
        made.delete()
        flags.delete("plain")
        equal(flags.list(), [])
        self.list.delete()
        equal(self.project.feature_flags_user_lists.list(), [])

    def feature_gates(self):
        root = self.walk.root
        made = root.features.set("walk_gate", True, user="ada")
        equal((made.name, made.state), ("walk_gate", "conditional"))
        equal(made.gates, [{"key": "boolean", "value": False}, {"key": "actors", "value": [f"User:{self.walk.ada.id}"]}])
        made = root.features.set("walk_gate", 30)
        equal([each for each in made.gates if each["key"] == "percentage_of_time"], [{"key": "percentage_of_time", "value": 30}])
        on = root.features.set("walk_gate", "true")
        listed = [each.attributes for each in root.features.list() if each.name == "walk_gate"]
        equal((listed, on.state), ([on.attributes], "on"))
        # With unescaped slashes too.
        equal([each["state"] for each in root.http_list("/features") if each["name"] == "walk_gate"], ["on"])
        refused(403, self.walk.her.features.list)
        root.features.delete("walk_gate")
        equal([each.name for each in root.features.list() if each.name == "walk_gate"], [])

    def the_rest(self):
        self.project.delete()
        self.other.delete()

    STEPS = [
        "variables", "deploy_keys", "deploy_tokens", "remote_mirrors", "pull_mirror", "snapshot", "freeze_periods",
        "user_lists", "feature_flags", "feature_gates", "the_rest",
    ]
