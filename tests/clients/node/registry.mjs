// Steps through the container registry: images pushed by `skopeo`, read and deleted by the client.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { equal, holds, names, refused, until } from "./checks.mjs";

// An empty tar archive.
const tape = Buffer.alloc(1024);
const digest = (content) => `sha256:${createHash("sha256").update(content).digest("hex")}`;

// Writes images in the OCI layout into a directory; `times` are their creation times. Returns their manifests.
function layout(directory, times) {
  const blobs = join(directory, "blobs", "sha256");
  mkdirSync(blobs, { recursive: true });
  const keep = (kind, content) => {
    const found = { mediaType: `application/vnd.oci.image.${kind}`, digest: digest(content), size: content.length };
    writeFileSync(join(blobs, found.digest.slice(7)), content);
    return found;
  };
  const layer = keep("layer.v1.tar+gzip", gzipSync(tape));
  const manifests = Object.entries(times).map(([name, created]) => {
    const rootfs = { type: "layers", diff_ids: [digest(tape)] };
    const config = keep("config.v1+json", Buffer.from(JSON.stringify({ created, architecture: "amd64", os: "linux", rootfs })));
    const manifest = { schemaVersion: 2, mediaType: "application/vnd.oci.image.manifest.v1+json", config, layers: [layer] };
    const found = keep("manifest.v1+json", Buffer.from(JSON.stringify(manifest)));
    return { ...found, annotations: { "org.opencontainers.image.ref.name": name } };
  });
  writeFileSync(join(directory, "oci-layout"), JSON.stringify({ imageLayoutVersion: "1.0.0" }));
  writeFileSync(join(directory, "index.json"), JSON.stringify({ schemaVersion: 2, manifests }));
  return Object.fromEntries(manifests.map((each) => [each.annotations["org.opencontainers.image.ref.name"], each]));
}

async function images(place) {
  const { api, group, grace, host } = place;
  const project = await api.Projects.create({ name: "Images", namespaceId: group });
  const directory = mkdtempSync(join(tmpdir(), "images-"));
  const made = layout(directory, {
    a: "2026-01-01T12:00:00Z",
    b: "2026-01-02T12:00:00Z",
    c: "2026-01-03T12:00:00Z",
  });
  const path = `${project.path_with_namespace}/web`.toLowerCase();
  const server = host.split("://")[1];
  for (const tag of Object.keys(made)) {
    const target = `docker://${server}/${path}:${tag}`;
    const creds = `grace:${grace.token}`;
    execFileSync("skopeo", ["--insecure-policy", "copy", "--quiet", "--dest-tls-verify=false", "--dest-creds", creds, `oci:${directory}:${tag}`, target]);
  }
  rmSync(directory, { recursive: true });
  place.images = { project: project.id, path, made, location: `${server}/${path}` };
}

async function imagesRead(place) {
  const { api, group } = place;
  const { project, path, made, location } = place.images;
  const { ContainerRegistry } = api;
  const [repository] = await ContainerRegistry.allRepositories({ projectId: project, tags: true, tagsCount: true });
  holds(repository, { name: "web", path, location, project_id: project, tags_count: 3 });
  equal(names(repository.tags, "location"), ["a", "b", "c"].map((tag) => `${location}:${tag}`));
  equal(names(await ContainerRegistry.allRepositories({ groupId: group }), "id"), [repository.id]);
  holds(await ContainerRegistry.showRepository(repository.id, { tagsCount: true }), { id: repository.id, tags_count: 3 });
  equal(names(await ContainerRegistry.allTags(project, repository.id, { perPage: 2 }), "name"), ["a", "b", "c"]);
  const tag = await ContainerRegistry.showTag(project, repository.id, "b");
  holds(tag, { path: `${path}:b`, digest: made.b.digest, created_at: "2026-01-02T12:00:00.000Z" });
  await refused(404, ContainerRegistry.showTag(project, repository.id, "z"));
  place.images.repository = repository.id;
}

async function imagesDeleted({ api, images: { project, repository } }) {
  const { ContainerRegistry } = api;
  const left = async () => names(await ContainerRegistry.allTags(project, repository), "name").join();
  await ContainerRegistry.removeTag(project, repository, "a");
  equal(await left(), "b,c");
  await refused(400, ContainerRegistry.removeTags(project, repository, "*"));
  await ContainerRegistry.removeTags(project, repository, "[a-z]", { keepN: 1, olderThan: "1d" });
  await until("the deletion of tags", async () => (await left()) === "c");
  await refused(400, ContainerRegistry.removeTags(project, repository, ".*"));
  await ContainerRegistry.removeRepository(project, repository);
  equal(await ContainerRegistry.allRepositories({ projectId: project }), []);
  await api.Projects.remove(project);
}

export const registry = [images, imagesRead, imagesDeleted];
