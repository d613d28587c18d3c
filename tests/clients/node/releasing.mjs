// Steps through protected branches and tags, approvals, releases, packages, deploy tokens and mirrors.
import assert from "node:assert/strict";
import { AccessLevel } from "@gitbeaker/rest";
import { equal, holds, names, refused, until } from "./checks.mjs";

function commit(client, project, branch, filePath, options = {}) {
  return client.Commits.create(project, branch, `Add ${filePath}`, [{ action: "create", filePath, content: "x\n" }], options);
}

async function protectedBranches(place) {
  const { api, alan, his, group } = place;
  const { Branches, ProtectedBranches } = api;
  const project = await api.Projects.create({
    name: "Freight",
    namespaceId: group,
    visibility: "public",
    initializeWithReadme: true,
    defaultBranch: "main",
  });
  place.freight = project.id;
  const { freight } = place;
  for (const name of names(await ProtectedBranches.all(freight), "name")) await ProtectedBranches.unprotect(freight, name);
  const made = await ProtectedBranches.protect(freight, "stable/*", {
    pushAccessLevel: AccessLevel.MAINTAINER,
    mergeAccessLevel: AccessLevel.DEVELOPER,
  });
  holds(made, { name: "stable/*", allow_force_push: false });
  equal(names(made.push_access_levels, "access_level"), [40]);
  await refused(409, ProtectedBranches.protect(freight, "stable/*"));
  await refused(403, his.ProtectedBranches.protect(freight, "other"));
  equal((await Branches.create(freight, "stable/1", "main")).protected, true);
  await refused(403, commit(his, freight, "stable/1", "his.txt"));
  const edited = await ProtectedBranches.edit(freight, "stable/*", {
    allowForcePush: true,
    allowedToPush: [{ userId: alan.id }],
  });
  equal([edited.allow_force_push, names(edited.push_access_levels, "user_id")], [true, [null, alan.id]]);
  await commit(his, freight, "stable/1", "his.txt");
  equal(names(await ProtectedBranches.all(freight, { search: "stable" }), "name"), ["stable/*"]);
  await ProtectedBranches.unprotect(freight, "stable/*");
  await refused(404, ProtectedBranches.show(freight, "stable/*"));
}

async function protectedTags({ api, his, freight }) {
  const { ProtectedTags } = api;
  const made = await ProtectedTags.protect(freight, "v*", { createAccessLevel: AccessLevel.MAINTAINER });
  equal([made.name, names(made.create_access_levels, "access_level")], ["v*", [40]]);
  equal(names(await ProtectedTags.all(freight), "name"), ["v*"]);
  await refused(403, his.Tags.create(freight, "v0", "main"));
  await his.Tags.create(freight, "other", "main");
}

async function approvals({ api, grace, his, freight }) {
  const { MergeRequestApprovals, MergeRequests } = api;
  await MergeRequestApprovals.editConfiguration(freight, { mergeRequestsAuthorApproval: false });
  equal((await MergeRequestApprovals.showConfiguration(freight)).merge_requests_author_approval, false);
  const rule = await MergeRequestApprovals.createApprovalRule(freight, "Drivers", 1, { userIds: [grace.id] });
  equal(names(await MergeRequestApprovals.allApprovalRules(freight), "name"), ["Drivers"]);
  await commit(his, freight, "coal", "coal.txt", { startBranch: "main" });
  const { iid } = await his.MergeRequests.create(freight, "coal", "main", "Load coal");
  const state = async () => (await MergeRequestApprovals.showApprovalState(freight, iid)).rules.map((each) => [each.name, each.approved]);
  equal(await state(), [["Drivers", false]]);
  await refused(401, his.MergeRequestApprovals.approve(freight, iid));
  await refused(405, MergeRequests.merge(freight, iid));
  equal((await MergeRequestApprovals.approve(freight, iid)).approved, true);
  equal(await state(), [["Drivers", true]]);
  await MergeRequestApprovals.unapprove(freight, iid);
  equal(await state(), [["Drivers", false]]);
  await MergeRequestApprovals.editApprovalRule(freight, rule.id, "Anyone", 0);
  await MergeRequestApprovals.removeApprovalRule(freight, rule.id);
  equal(await MergeRequestApprovals.allApprovalRules(freight), []);
  equal((await MergeRequests.merge(freight, iid)).state, "merged");
}

async function releases(place) {
  const { api, host, his, freight, group } = place;
  const { ProjectReleases, ReleaseLinks } = api;
  await api.ProjectMilestones.create(freight, "v1");
  const link = { name: "Package", url: `${host}/a.deb`, direct_asset_path: "/a.deb", link_type: "package" };
  const made = await ProjectReleases.create(freight, {
    tagName: "v1.0",
    ref: "main",
    tagMessage: "First",
    name: "First",
    description: "## Notes",
    milestones: ["v1"],
    assets: { links: [link] },
  });
  holds(made, { tag_name: "v1.0", name: "First", description: "## Notes", upcoming_release: false });
  equal([made.author.username, names(made.milestones), names(made.assets.links, "name")], ["grace", ["v1"], ["Package"]]);
  equal(names(made.assets.sources, "format"), ["zip", "tar.gz", "tar.bz2", "tar"]);
  equal(made.assets.count, 5);
  for (const { url } of made.assets.sources) equal((await fetch(url)).status, 200);
  await refused(409, ProjectReleases.create(freight, { tagName: "v1.0" }));
  // The tag is protected.
  await refused(403, his.ProjectReleases.create(freight, { tagName: "v2.0", ref: "main" }));
  equal((await ProjectReleases.edit(freight, "v1.0", { description: "More" })).description, "More");
  equal((await ProjectReleases.showLatest(freight)).tag_name, "v1.0");
  equal(names(await ProjectReleases.all(freight), "description"), ["More"]);
  equal(names(await api.GroupReleases.all(group), "tag_name"), ["v1.0"]);
  const added = await ReleaseLinks.create(freight, "v1.0", "Image", `${host}/image`, { linkType: "image" });
  equal(names(await ReleaseLinks.all(freight, "v1.0"), "name"), ["Image", "Package"]);
  equal((await ReleaseLinks.edit(freight, "v1.0", added.id, { name: "Runbook", linkType: "runbook" })).link_type, "runbook");
  equal((await ReleaseLinks.show(freight, "v1.0", added.id)).name, "Runbook");
  await ReleaseLinks.remove(freight, "v1.0", added.id);
  await ProjectReleases.remove(freight, "v1.0");
  await refused(404, ProjectReleases.show(freight, "v1.0"));
}

async function packages({ api, his, freight, group }) {
  const { PackageRegistry, Packages } = api;
  const file = (text) => ({ content: new Blob([text]), filename: "gear.txt" });
  const message = await PackageRegistry.publish(freight, "gear", "1.0", file("brass"));
  equal(message, { message: "201 Created" });
  const published = await his.PackageRegistry.publish(freight, "gear", "1.1", file("steel"), { select: "package_file" });
  holds(published, { file_name: "gear.txt", size: 5 });
  const answer = await PackageRegistry.download(freight, "gear", "1.1", "gear.txt");
  equal(typeof answer === "string" ? answer : await answer.text(), "steel");
  const versions = async (place) => names(await Packages.all({ ...place, orderBy: "version", packageName: "gear" }), "version");
  equal(await versions({ projectId: freight }), ["1.0", "1.1"]);
  equal(await versions({ groupId: group }), ["1.0", "1.1"]);
  const found = await Packages.show(freight, published.package_id);
  holds(found, { name: "gear", version: "1.1", package_type: "generic", status: "default" });
  const files = await Packages.allFiles(freight, found.id);
  equal(names(files, "file_name"), ["gear.txt"]);
  await refused(403, his.Packages.remove(freight, found.id));
  // The package is deleted with its last file.
  await Packages.removeFile(freight, found.id, files[0].id);
  await refused(404, Packages.show(freight, found.id));
  const [{ id }] = await Packages.all({ projectId: freight });
  await Packages.remove(freight, id);
  equal(await Packages.all({ projectId: freight }), []);
}

async function deployTokens({ api, root, his, freight, group }) {
  const { DeployTokens } = api;
  const expiresAt = "2099-01-01T00:00:00.000Z";
  for (const place of [{ projectId: freight }, { groupId: group }]) {
    const made = await DeployTokens.create("reader", ["read_repository"], { ...place, expiresAt });
    holds(made, { name: "reader", scopes: ["read_repository"], expires_at: expiresAt, revoked: false, expired: false });
    assert.ok(made.token);
    equal((await DeployTokens.show(made.id, place)).token, undefined);
    equal(names(await DeployTokens.all({ ...place, active: true }), "id"), [made.id]);
    assert.ok(names(await root.DeployTokens.all(), "id").includes(made.id));
    await refused(403, his.DeployTokens.all(place));
    await DeployTokens.remove(made.id, place);
    await refused(404, DeployTokens.show(made.id, place));
  }
}

async function mirrors({ api, grace, host, his, freight, group }) {
  const { ProjectRemoteMirrors } = api;
  const copy = await api.Projects.create({ name: "Copy", namespaceId: group });
  const url = new URL(`${copy.path_with_namespace}.git`, `${host}/`);
  Object.assign(url, { username: "grace", password: grace.token });
  const made = await ProjectRemoteMirrors.createPushMirror(freight, url.href, { enabled: true });
  holds(made, { enabled: true, only_protected_branches: false, update_status: "none" });
  assert.ok(!made.url.includes(grace.token), made.url);
  equal(names(await ProjectRemoteMirrors.all(freight), "id"), [made.id]);
  await ProjectRemoteMirrors.sync(freight, made.id);
  await until("the mirror", async () => (await ProjectRemoteMirrors.show(freight, made.id)).update_status === "finished");
  const branches = async (project) => names(await api.Branches.all(project), "name");
  equal(await branches(copy.id), await branches(freight));
  // The client sends POST in place of PUT.
  await refused(405, ProjectRemoteMirrors.edit(freight, made.id, { enabled: false }));
  await refused(403, his.ProjectRemoteMirrors.all(freight));
  await ProjectRemoteMirrors.remove(freight, made.id);
  equal(await ProjectRemoteMirrors.all(freight), []);
  await api.Projects.remove(copy.id);
  await api.Projects.remove(freight);
}

export const releasing = [protectedBranches, protectedTags, approvals, releases, packages, deployTokens, mirrors];
