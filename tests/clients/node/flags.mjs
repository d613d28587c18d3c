// Reads feature flags with the unmodified SDK `unleash-client`.
import { startUnleash } from "unleash-client";
import { equal, until } from "./checks.mjs";

async function flagsOfUnleashClient({ host, grace, api, group }) {
  const project = await api.Projects.create({ name: "Flagged", path: "flagged", namespaceId: group });
  const call = async (method, path, body) => {
    const response = await fetch(`${host}/api/v4/projects/${project.id}/${path}`, {
      method,
      headers: { "private-token": grace.token, "content-type": "application/json" },
      body: body && JSON.stringify(body),
    });
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
    return response.json();
  };
  const strategies = (scope) => [{ name: "default", scopes: [{ environment_scope: scope }] }];
  await call("POST", "feature_flags", { name: "everyone", strategies: strategies("*") });
  await call("POST", "feature_flags", { name: "staging-only", strategies: strategies("staging") });
  const { api_url: url, instance_id: instanceId } = await call("GET", "feature_flags_client");
  const sdk = await startUnleash({ url, appName: "production", instanceId, refreshInterval: 500, metricsInterval: 500 });
  try {
    equal([sdk.isEnabled("everyone"), sdk.isEnabled("staging-only")], [true, false]);
    await call("PUT", "feature_flags/everyone", { active: false });
    await until("changed features", async () => !sdk.isEnabled("everyone"));
  } finally {
    sdk.destroy();
  }
}

export const flags = [flagsOfUnleashClient];
