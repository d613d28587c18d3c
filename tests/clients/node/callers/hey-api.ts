// Uses the client that Hey API generates from the OpenAPI 3.1 form. The test is that this file type-checks, and that
// it succeeds with the data of the demo.
import { deepStrictEqual, strictEqual } from "node:assert";
import { client } from "./client/client.gen.js";
import { createIssue, createProjectLabel, getProject, listProjects, type ApiError } from "./client/index.js";

client.setConfig({ baseUrl: process.env.HOLDFAST, auth: process.env.TOKEN });
const path = { id: "engines/difference" };

function text({ message }: ApiError): string {
  if (typeof message === "string") return message;
  return Object.entries(message).map(([name, errors]) => `${name} ${errors.join(", ")}`).join("; ");
}

const page = await listProjects({ query: { page: 2, per_page: 1 } });
if (page.error) throw new Error(text(page.error));
strictEqual(page.data.length, 1);
strictEqual(page.response.headers.get("X-Page"), "2");

const project = await getProject({ path });
if (project.error) throw new Error(text(project.error));
const namespace: string = project.data.namespace.full_path;
strictEqual(namespace, "engines");

const issue = await createIssue({ path, body: { title: "Add a carry mechanism", labels: "brass,steam" } });
if (issue.error) throw new Error(text(issue.error));
const closed: string | null = issue.data.closed_at;
strictEqual(closed, null);
// Labels are strings, or objects if `with_labels_details` is true.
deepStrictEqual(issue.data.labels.map((label) => (typeof label === "string" ? label : label.name)), ["brass", "steam"]);

const missing = await getProject({ path: { id: "engines/missing" } });
strictEqual(missing.response.status, 404);
strictEqual(missing.error && text(missing.error), "404 Project Not Found");

const rejected = await createProjectLabel({ path, body: { name: "brass", color: "no color" } });
strictEqual(rejected.response.status, 400);
strictEqual(rejected.error && text(rejected.error), "color must be a valid color code");

// @ts-expect-error The document has no such attribute.
project.data.no_attribute;
console.log("@hey-api/openapi-ts: the caller succeeded");
