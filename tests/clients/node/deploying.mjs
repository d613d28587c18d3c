// Steps through variables, deploy keys, freeze periods and feature flags. Limits of the client: it reads an instance
// variable instead of deleting it, it writes the names of strategy parameters in snake case, and it does not support
// feature gates.
import { equal, holds, lists, names, refused } from "./checks.mjs";

const KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";

async function variablesAt(resource, scoped, ...at) {
  const made = await resource.create(...at, "PLAIN", "a value\nof two lines");
  equal(made, {
    variable_type: "env_var",
    key: "PLAIN",
    value: "a value\nof two lines",
    protected: false,
    masked: false,
    ...(scoped ? { environment_scope: "*" } : {}),
  });
  equal(await resource.show(...at, "PLAIN"), made);
  await resource.create(...at, "CERT", "pem", { variableType: "file", protected: true });
  equal((await resource.all(...at)).map((each) => [each.key, each.variable_type, each.protected]), [
    ["PLAIN", "env_var", false],
    ["CERT", "file", true],
  ]);
  holds(await resource.edit(...at, "PLAIN", "other-value", { masked: true }), { value: "other-value", masked: true });
  equal(await refused(400, resource.edit(...at, "PLAIN", "short")), '{"value":["is invalid"]}');
  equal(await refused(400, resource.create(...at, "CERT", "x")), '{"key":["(CERT) has already been taken"]}');
  if (!scoped) return;
  await resource.create(...at, "CERT", "new", { environmentScope: "review/*" });
  await refused(409, resource.show(...at, "CERT"));
  const filter = { environment_scope: "review/*" };
  equal((await resource.edit(...at, "CERT", "newer", { filter })).value, "newer");
  equal((await resource.show(...at, "CERT", { filter })).value, "newer");
  equal((await resource.show(...at, "CERT", { filter: { environment_scope: "*" } })).value, "pem");
  await resource.remove(...at, "CERT", { filter });
  await resource.remove(...at, "CERT");
  await resource.remove(...at, "PLAIN");
  await refused(404, resource.show(...at, "PLAIN"));
  equal(await resource.all(...at), []);
}

async function variables({ api, root, group, project }) {
  const { InstanceLevelCICDVariables } = root;
  await variablesAt(InstanceLevelCICDVariables, false);
  for (const key of ["CERT", "PLAIN"]) {
    equal((await InstanceLevelCICDVariables.remove(key)).key, key);
    await InstanceLevelCICDVariables.requester.delete(`admin/ci/variables/${key}`);
  }
  equal(await InstanceLevelCICDVariables.all(), []);
  await refused(403, api.InstanceLevelCICDVariables.all());
  await variablesAt(api.ProjectVariables, true, project);
  await variablesAt(api.GroupVariables, true, group);
}

async function deployKeys({ api, root, group, project }) {
  const { DeployKeys } = api;
  const made = await DeployKeys.create(project, "deployer", `${KEY} deploy bot`, { canPush: true });
  holds(made, { title: "deployer", key: `${KEY} deploy bot`, can_push: true });
  equal(await DeployKeys.show(project, made.id), made);
  holds(await DeployKeys.edit(project, made.id, { title: "reader", canPush: false }), { title: "reader", can_push: false });
  equal((await DeployKeys.all({ projectId: project })).map((each) => [each.id, each.title]), [[made.id, "reader"]]);
  equal(names((await root.DeployKeys.all()).filter((each) => each.id === made.id), "key"), [`${KEY} deploy bot`]);
  await refused(403, DeployKeys.all());
  const text = await refused(400, DeployKeys.create(project, "x", "x"));
  equal(JSON.parse(text), { "deploy_key.key": ["is invalid"], "deploy_key.fingerprint": ["cannot be generated"] });
  const other = (await api.Projects.create({ name: "Printer", namespaceId: group })).id;
  equal((await DeployKeys.enable(other, made.id)).id, made.id);
  equal((await DeployKeys.all({ projectId: other })).map((each) => [each.title, each.can_push]), [["reader", false]]);
  await DeployKeys.remove(project, made.id);
  await refused(404, DeployKeys.show(project, made.id));
  // The other project still has the key.
  await DeployKeys.remove(other, made.id);
  equal((await root.DeployKeys.all()).filter((each) => each.id === made.id), []);
  await api.Projects.remove(other);
}

async function freezePeriods({ api, project }) {
  const { FreezePeriods, Pipelines } = api;
  const made = await FreezePeriods.create(project, "0 23 * * fri", "0 7 * * mon", { cronTimezone: "Europe/Berlin" });
  holds(made, { freeze_start: "0 23 * * fri", freeze_end: "0 7 * * mon", cron_timezone: "Europe/Berlin" });
  equal([await FreezePeriods.show(project, made.id), await FreezePeriods.all(project)], [made, [made]]);
  holds(await FreezePeriods.edit(project, made.id, { freezeEnd: "0 6 * * 1" }), {
    freeze_start: "0 23 * * fri",
    freeze_end: "0 6 * * 1",
  });
  equal(await refused(400, FreezePeriods.edit(project, made.id, { freezeEnd: "x" })), '{"freeze_end":[" is invalid syntax"]}');
  const frozen = async () => {
    const { id } = await Pipelines.create(project, "main");
    return names(await Pipelines.allVariables(project, id), "key");
  };
  // The freeze period starts every minute and ended on the last 29 February.
  await FreezePeriods.edit(project, made.id, { freezeStart: "* * * * *", freezeEnd: "0 0 29 2 *", cronTimezone: "UTC" });
  equal(await frozen(), ["CI_DEPLOY_FREEZE"]);
  await FreezePeriods.remove(project, made.id);
  equal(await frozen(), []);
  await refused(404, FreezePeriods.show(project, made.id));
}

async function featureFlags({ api, project }) {
  const { FeatureFlags, FeatureFlagUserLists } = api;
  const list = await FeatureFlagUserLists.create(project, "early birds", "ada,bob");
  holds(list, { iid: 1, name: "early birds", user_xids: "ada,bob", project_id: project });
  holds(await FeatureFlagUserLists.edit(project, 1, { userXids: "ada" }), { name: "early birds", user_xids: "ada" });
  equal(names(await FeatureFlagUserLists.all(project), "name"), ["early birds"]);
  const made = await FeatureFlags.create(project, "new_checkout", "new_version_flag", {
    description: "The new checkout",
    active: false,
    strategies: [
      { name: "default", scopes: [{ environment_scope: "staging" }, { environment_scope: "review/*" }] },
      { name: "gitlabUserList", userListId: list.id },
    ],
  });
  holds(made, { name: "new_checkout", description: "The new checkout", active: false, version: "new_version_flag", scopes: [] });
  const told = (flag) =>
    flag.strategies.map((each) => [each.name, names(each.scopes, "environment_scope"), each.user_list?.iid ?? null]);
  const [first, second] = [["default", ["staging", "review/*"], null], ["gitlabUserList", ["*"], 1]];
  equal(told(made), [first, second]);
  equal(await FeatureFlags.show(project, "new_checkout"), made);
  const edited = await FeatureFlags.edit(project, "new_checkout", {
    name: "checkout",
    active: true,
    strategies: [{ name: "default" }],
  });
  equal([edited.name, edited.active, told(edited)], ["checkout", true, [first, second, ["default", ["*"], null]]]);
  const strategies = [{ name: "userWithId", parameters: { userIds: "a,b" } }];
  const text = await refused(400, FeatureFlags.edit(project, "checkout", { strategies }));
  equal(JSON.parse(text), { "strategies[0][parameters]": ["parameters are invalid"] });
  await lists(async (filters) => names(await FeatureFlags.all(project, filters), "name"), [
    [{}, ["checkout"]],
    [{ scope: "enabled" }, ["checkout"]],
    [{ scope: "disabled" }, []],
  ]);
  await refused(409, FeatureFlagUserLists.remove(project, 1));
  await FeatureFlags.remove(project, "checkout");
  await refused(404, FeatureFlags.show(project, "checkout"));
  await FeatureFlagUserLists.remove(project, 1);
  equal([await FeatureFlags.all(project), await FeatureFlagUserLists.all(project)], [[], []]);
}

export const deploying = [variables, deployKeys, freezePeriods, featureFlags];
