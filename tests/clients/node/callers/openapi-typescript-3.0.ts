// Uses the generated types. The test is that this file type-checks.
import createClient from "openapi-fetch";
import type { paths } from "./schema.js";

const client = createClient<paths>({ baseUrl: "http://127.0.0.1" });

export async function readProject(id: string): Promise<string> {
  const { data, error } = await client.GET("/api/v4/projects/{id}", { params: { path: { id } } });
  if (error) throw new Error(String(error.message));
  return data.path_with_namespace;
}

export async function commit(id: string): Promise<string> {
  const { data, error } = await client.POST("/api/v4/projects/{id}/repository/commits", {
    params: { path: { id } },
    body: {
      branch: "main",
      commit_message: "Add a file",
      actions: [{ action: "create", file_path: "a.txt", content: "a" }],
    },
  });
  if (error) throw new Error(String(error.message));
  return data.id;
}
