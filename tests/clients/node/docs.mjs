// Opens the docs page in a browser that can reach only the server, authorizes with a pasted token, and
// executes a call on a project whose path contains a slash. Usage: node docs.mjs BASE TOKEN
import { chromium } from "playwright-core";
import assert from "node:assert/strict";

const [base, token] = process.argv.slice(2);
const api = (path, options = {}) =>
  fetch(`${base}/api/v4${path}`, {
    ...options,
    headers: { "Private-Token": token, "Content-Type": "application/json" },
  });
const created = await api("/projects", {
  method: "POST",
  body: JSON.stringify({ name: "docs-tour", initialize_with_readme: true }),
});
assert.equal(created.status, 201, await created.text());

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
  ],
});
try {
  const page = await browser.newPage();
  const foreign = [];
  const faults = [];
  page.on("request", (request) => {
    if (!request.url().startsWith(base) && !request.url().startsWith("data:")) foreign.push(request.url());
  });
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("console", (message) => {
    // Without a session the request for one returns 401, which the browser logs.
    if (message.type() === "error" && !message.location().url.endsWith("/-/session")) faults.push(message.text());
  });
  await page.goto(`${base}/docs`);
  await page.waitForSelector(".opblock-tag-section");

  await page.click("button.authorize");
  const section = page.locator(".auth-container", { hasText: "private_token_header" });
  await section.locator("input").fill(token);
  await section.locator("button.authorize").click();
  await page.click(".btn-done");

  const tag = page.locator("#operations-tag-Projects");
  await tag.click();
  const operation = page.locator("#operations-Projects-get_project");
  await operation.locator(".opblock-summary-control").click();
  await operation.locator("tr[data-param-name=id] input").fill("root/docs-tour");
  const [answer] = await Promise.all([
    page.waitForResponse((response) => response.url().includes("/api/v4/projects/")),
    operation.locator("button.execute").click(),
  ]);
  assert.ok(answer.url().includes("/projects/root%2Fdocs-tour"), answer.url());
  assert.equal(answer.status(), 200);
  assert.equal((await answer.json()).path_with_namespace, "root/docs-tour");
  assert.deepEqual(foreign, [], "the page sent requests to other hosts");
  assert.deepEqual(faults, [], "the page logged errors");
  console.log("the docs page works without access to other hosts and encodes project paths");
} finally {
  await browser.close();
}
