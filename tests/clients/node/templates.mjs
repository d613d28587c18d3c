// Steps through templates: built-in ones, through a project and through the older paths, and those of groups.
import assert from "node:assert/strict";
import { equal, holds, names, refused } from "./checks.mjs";

const year = new Date().getUTCFullYear();

async function files({ api, project }) {
  for (const [older, type, key] of [
    [api.DockerfileTemplates, "dockerfiles", "Node"],
    [api.GitignoreTemplates, "gitignores", "C++"],
    [api.GitLabCIYMLTemplates, "gitlab_ci_ymls", "Pages/HTML"],
  ]) {
    const all = names(await older.all(), "key");
    assert.ok(all.length > 10 && all.includes(key), `${type}: ${all}`);
    equal(names(await api.ProjectTemplates.all(project, type), "name"), all);
    equal((await api.ProjectTemplates.show(project, type, key)).content, (await older.show(key)).content);
    await refused(404, older.show("no-such"));
    await refused(404, api.ProjectTemplates.show(project, type, "no-such"));
  }
  await refused(400, api.ProjectTemplates.all(project, "no-such"));
}

async function licenses({ api, project }) {
  // The client's class for licenses requests `templates/Licenses`, in upper case, which is not a path of the API.
  await refused(404, api.LicenseTemplates.show("mit"));
  const mit = await api.ProjectTemplates.show(project, "licenses", "mit");
  holds(mit, { key: "mit", name: "MIT License", popular: true, nickname: null });
  const words = { project: "Compiler", fullname: "Grace" };
  const { content, permissions } = await api.ProjectTemplates.show(project, "licenses", "gpl-3.0", words);
  assert.ok(content.includes(`     Compiler\n     Copyright (C) ${year}  Grace\n`));
  assert.ok(permissions.includes("commercial-use"));
}

async function templatesOfGroups({ api, group, project }) {
  await api.Commits.create(project, "main", "Keep templates", [
    { action: "create", filePath: "Dockerfile/Own.dockerfile", content: "FROM engine\n" },
    { action: "create", filePath: ".service/issue_templates/Bug.md", content: "What is broken?\n" },
  ]);
  equal((await api.Groups.edit(group, { fileTemplateProjectId: project })).file_template_project_id, project);
  equal(names(await api.ProjectTemplates.all(project, "dockerfiles"), "key").slice(0, 2), ["Own", "Binary"]);
  equal((await api.ProjectTemplates.show(project, "dockerfiles", "Own")).content, "FROM engine\n");
  equal(await api.ProjectTemplates.all(project, "issues"), [{ key: "Bug", name: "Bug" }]);
  equal((await api.ProjectTemplates.show(project, "issues", "Bug")).content, "What is broken?\n");
  equal((await api.Groups.edit(group, { fileTemplateProjectId: null })).file_template_project_id, null);
}

export const templates = [files, licenses, templatesOfGroups];
