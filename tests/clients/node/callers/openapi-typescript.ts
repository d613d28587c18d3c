// Uses the types that openapi-typescript generates from the OpenAPI 3.1 form. The test is that this file type-checks,
// and that it succeeds with the data of the demo.
import { deepStrictEqual, strictEqual } from "node:assert";
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

type ApiError = components["schemas"]["ApiError"];

const client = createClient<paths>({
  baseUrl: process.env.HOLDFAST,
  headers: { "Private-Token": process.env.TOKEN },
});
const id = "engines/difference";

function text({ message }: ApiError): string {
  if (typeof message === "string") return message;
  return Object.entries(message).map(([name, errors]) => `${name} ${errors.join(", ")}`).join("; ");
}

const page = await client.GET("/api/v4/projects", { params: { query: { page: 2, per_page: 1 } } });
if (page.error) throw new Error(text(page.error));
strictEqual(page.data.length, 1);
strictEqual(page.response.headers.get("X-Page"), "2");

const project = await client.GET("/api/v4/projects/{id}", { params: { path: { id } } });
if (project.error) throw new Error(text(project.error));
const namespace: string = project.data.namespace.full_path;
strictEqual(namespace, "engines");

const issue = await client.POST("/api/v4/projects/{id}/issues", {
  params: { path: { id } },
  body: { title: "Add a carry mechanism", labels: "brass,steam" },
});
if (issue.error) throw new Error(text(issue.error));
const closed: string | null = issue.data.closed_at;
strictEqual(closed, null);
// Labels are strings, or objects if `with_labels_details` is true.
deepStrictEqual(issue.data.labels.map((label) => (typeof label === "string" ? label : label.name)), ["brass", "steam"]);

const missing = await client.GET("/api/v4/projects/{id}", { params: { path: { id: "engines/missing" } } });
strictEqual(missing.response.status, 404);
strictEqual(missing.error && text(missing.error), "404 Project Not Found");

const rejected = await client.POST("/api/v4/projects/{id}/labels", {
  params: { path: { id } },
  body: { name: "brass", color: "no color" },
});
strictEqual(rejected.response.status, 400);
strictEqual(rejected.error && text(rejected.error), "color must be a valid color code");

// @ts-expect-error The document has no such attribute.
project.data.no_attribute;
console.log("openapi-typescript: the caller succeeded");
