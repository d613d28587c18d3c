// Opens the documentation in a browser that can reach only the server: pages, search, the form that sends requests, sign-in,
// printed pages, pages without scripts, accessibility, the keyboard, and limits of size. With `full`, opens all pages, in all
// combinations of colors and widths, and measures times. Usage: node docs.mjs BASE TOKEN PASSWORD [full]
import assert from "node:assert/strict";
import { accessibility, largeText, motion, narrowPages } from "./docs/accessibility.mjs";
import { budgets, frames, memory, paint, tasks } from "./docs/budgets.mjs";
import { base, close, control, faults, find, foreign, full, index, open, operation, send, shown, signIn, token } from "./docs/browser.mjs";
import { focus, formByKeyboard, searchByKeyboard } from "./docs/keyboard.mjs";

// A browser that does not respond would stop the test forever.
const LIMIT = 20 * 60_000;
setTimeout(() => {
  console.error(`the browser did not finish within ${LIMIT / 1000} seconds`);
  process.exit(1);
}, LIMIT).unref();
const created = await fetch(`${base}/api/v4/projects`, {
  method: "POST",
  headers: { "Private-Token": token, "Content-Type": "application/json" },
  body: JSON.stringify({ name: "docs-tour", initialize_with_readme: true }),
});
assert.equal(created.status, 201, await created.text());

// Pages of operations have one layout, and so have those of schemas and tags. The tests of the generator check the content.
const STEP = full ? 1 : 12;
const everyPage = async () => {
  const some = (list) => list.filter((_, at) => at % STEP === 0);
  const paths = ["/docs/", "/docs/roles", "/docs/errors", "/docs/schemas", "/docs/changelog"];
  paths.push(...index.guides.map(([name]) => `/docs/guide/${name}`));
  paths.push(...some(index.tags).map((name) => `/docs/tag/${name.toLowerCase().replace(/[^a-z0-9]+/g, "-")}`));
  paths.push(...some(index.operations).map(([id]) => `/docs/operation/${id}`));
  paths.push(...some(index.schemas).map(([name]) => `/docs/schema/${name}`));
  const count = paths.length;
  const visit = async () => {
    const page = await open();
    for (let path = paths.pop(); path; path = paths.pop()) {
      const response = await page.goto(base + path);
      assert.equal(response.status(), 200, path);
      const [titles, overflow, elements] = await page.evaluate(() => [
        document.querySelectorAll("h1").length,
        document.documentElement.scrollWidth - innerWidth,
        document.querySelectorAll("*").length,
      ]);
      assert.equal(titles, 1, path);
      assert.ok(overflow <= 0, `${path} scrolls sideways by ${overflow}`);
      if (path.includes("/operation/")) assert.ok(elements <= 2000, `${path} has ${elements} elements`);
    }
    await page.context().close();
  };
  await Promise.all([1, 2, 3, 4].map(visit));
  console.log(`${count} pages have one title, no errors and no requests to other hosts`);
};

const search = async () => {
  const page = await open();
  await page.goto(`${base}/docs/`);
  assert.ok((await page.locator("main pre").first().textContent()).includes(`HOLDFAST=${base}\n`), "the samples name another server");
  for (const key of ["Control+k", "/"]) {
    await page.keyboard.press(key);
    await page.waitForSelector("dialog[open]");
    await page.keyboard.press("Escape");
    await page.waitForFunction(() => !document.querySelector("dialog").open);
  }
  await page.keyboard.press("Control+k");
  await page.click("dialog button:text-is('Close')");
  assert.equal(await page.locator("dialog[open]").count(), 0);
  await page.keyboard.press("Control+k");
  const titles = new Map();
  for (const [, , , title] of index.operations) titles.set(title, (titles.get(title) ?? 0) + 1);
  // In the page, because a round trip for each query takes most of the time.
  const queries = index.operations.filter((_, at) => full || at % 4 === 0).flatMap(([id, method, path, title]) => [
    { text: title, target: `/docs/operation/${id}`, limit: Math.max(2, titles.get(title)) },
    { text: `${method} ${path}`, target: `/docs/operation/${id}`, limit: 8 },
  ]);
  await find(page, "first");
  const positions = await page.evaluate(async (list) => {
    const input = document.querySelector(".search input");
    const found = [];
    for (const { text, target } of list) {
      input.value = text;
      input.dispatchEvent(new Event("input"));
      await new Promise((resolve) => setTimeout(resolve));
      const options = [...document.querySelectorAll("#results [role=option]")];
      found.push(options.findIndex((option) => option.dataset.target === target));
    }
    return found;
  }, queries);
  queries.forEach(({ text, limit }, at) => {
    assert.ok(positions[at] >= 0 && positions[at] < limit, `${text}: position ${positions[at]}`);
  });
  assert.deepEqual(await find(page, "xyzzy plugh"), []);
  assert.equal(await page.locator(".search p").textContent(), "Nothing found.");
  assert.equal((await find(page, "protect branch"))[0], "/docs/operation/protect_branch");
  assert.ok((await find(page, "Issue")).includes("/docs/schema/Issue"));
  await find(page, "get a branch");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowUp");
  await Promise.all([page.waitForURL("**/docs/operation/get_branch"), page.keyboard.press("Enter")]);
  await page.context().close();
  console.log("the search finds operations by their titles and their paths");
};

const formSendsRequests = async () => {
  const page = await open();
  await operation(page, "get_project");
  assert.match(await page.locator("#try p.hint[role=status]").textContent(), /without credentials/);
  await control(page, "Token").fill(token);
  for (const typed of ["root/docs-tour", "root%2Fdocs-tour", "root%2fdocs-tour"]) {
    await control(page, "id").fill(typed);
    const response = await send(page);
    assert.equal(new URL(response.url()).pathname, "/api/v4/projects/root%2Fdocs-tour", typed);
    assert.equal(response.status(), 200);
    assert.equal(JSON.parse(await shown(page)).path_with_namespace, "root/docs-tour");
    const headers = await response.request().allHeaders();
    assert.equal(headers["private-token"], token);
    assert.equal(headers.cookie, undefined);
  }
  assert.equal(await page.evaluate((value) => Object.values(localStorage).includes(value), token), false);

  // Nothing is sent that was not entered.
  await operation(page, "list_project_issues");
  await control(page, "id").fill("root/docs-tour");
  assert.equal(new URL((await send(page)).url()).search, "");
  await page.locator("#try summary").filter({ hasText: "Query" }).click();
  await control(page, "iids[]").fill("1\n2\n");
  await control(page, "not[labels]").fill("a b,c&d");
  await control(page, "state").selectOption("opened");
  const query = new URL((await send(page)).url()).searchParams;
  assert.deepEqual([...query].sort(), [["iids[]", "1"], ["iids[]", "2"], ["not[labels]", "a b,c&d"], ["state", "opened"]]);

  // Names with special characters are one segment.
  await operation(page, "get_branch");
  await control(page, "id").fill("root/docs-tour");
  for (const name of ["a b", "a#b", "a?b", "a%b", "a+b&c=d", "zweig-ü-日本", "feature/x", "100%25"]) {
    await control(page, "branch").fill(name);
    const path = new URL((await send(page)).url()).pathname;
    assert.equal(path, `/api/v4/projects/root%2Fdocs-tour/repository/branches/${encodeURIComponent(name)}`);
  }
  await control(page, "branch").fill("..");
  await page.click("#try button[type=submit]");
  assert.match(await page.locator("#try .fault").textContent(), /cannot be \.\./);
  await control(page, "branch").fill("");
  await page.click("#try button[type=submit]");
  assert.equal(await page.locator("#try .fault").textContent(), "branch is required.");

  // A body is checked, sent as typed, and its response is text.
  await operation(page, "create_issue");
  await control(page, "id").fill("root/docs-tour");
  const body = page.locator("#try textarea[aria-label=Body]");
  assert.equal(await body.inputValue(), "");
  await body.fill("{");
  await page.click("#try button[type=submit]");
  assert.match(await page.locator("#try .fault").textContent(), /not JSON/);
  await page.click("text=Insert example");
  assert.ok(JSON.parse(await body.inputValue()).title);
  const title = "<script>document.title = 'changed'</script><img src=x onerror=alert(1)>";
  await body.fill(JSON.stringify({ title }));
  const issue = await send(page);
  assert.equal(issue.status(), 201);
  assert.equal(JSON.parse(await shown(page)).title, title);
  assert.equal(await page.locator("#try img").count(), 0);
  assert.equal(await page.title(), "Create an issue - Holdfast API");

  // A file is sent as a form, and other content is offered as a file.
  await operation(page, "upload_project_file");
  await control(page, "id").fill("root/docs-tour");
  await control(page, "file").setInputFiles({ name: "five.bin", mimeType: "application/octet-stream", buffer: Buffer.alloc(5 << 20, 7) });
  assert.equal((await send(page)).status(), 201);
  await operation(page, "get_archive");
  await control(page, "id").fill("root/docs-tour");
  await send(page);
  const [download] = await Promise.all([page.waitForEvent("download"), page.click("#try a[download]")]);
  assert.match(download.suggestedFilename(), /docs-tour/);

  // A deletion is confirmed once.
  await operation(page, "delete_issue");
  await control(page, "id").fill("root/docs-tour");
  await control(page, "issue_iid").fill("1");
  let sent = 0;
  page.on("request", (request) => (sent += request.method() === "DELETE" ? 1 : 0));
  await page.click("#try button[type=submit]");
  await page.waitForSelector("text=This request deletes data.");
  assert.equal(sent, 0);
  const [deleted] = await Promise.all([page.waitForResponse((answer) => answer.request().method() === "DELETE"), page.click("text=Send anyway")]);
  assert.equal(deleted.status(), 204);

  // A wrong token shows the error.
  await operation(page, "get_current_user");
  await control(page, "Token").fill("wrong");
  assert.equal((await send(page)).status(), 401);
  assert.match(await shown(page), /401 Unauthorized/);
  await page.context().close();
  console.log("the form encodes paths, and sends only values that were entered");
};

const sessions = async () => {
  const page = await open();
  await signIn(page, "create_project");
  await page.locator("#try textarea[aria-label=Body]").fill(JSON.stringify({ name: "docs-session" }));
  const response = await send(page);
  assert.equal(response.status(), 201, await response.text());
  const headers = await response.request().allHeaders();
  assert.ok(headers["x-csrf-token"] && !headers["private-token"]);
  await page.click("text=Sign out");
  await page.waitForSelector(".tools >> text=Sign in");
  assert.equal((await send(page)).status(), 401);
  await page.context().close();
  console.log("the form uses the session, and the page signs in and out");
};

const formerAddresses = async () => {
  const page = await open();
  await page.goto(`${base}/docs/#/Projects/get_project`);
  await page.waitForURL("**/docs/operation/get_project");
  const other = await open();
  await other.goto(`${base}/docs#/Repository%20Files`);
  await other.waitForURL("**/docs/tag/repository-files");
  // This address is malformed.
  await other.goto(`${base}/docs#/50%/get_project`);
  await other.waitForURL("**/docs/operation/get_project");
  await page.context().close();
  await other.context().close();
};

const blockedStorage = async () => {
  const page = await open();
  await page.addInitScript(() => {
    const get = () => {
      throw new DOMException("The browser blocks site data.", "SecurityError");
    };
    for (const name of ["localStorage", "sessionStorage"]) Object.defineProperty(window, name, { get });
  });
  await operation(page, "get_branch");
  await page.click("label:text-is('Python')");
  await control(page, "Token").fill(token);
  await page.keyboard.press("Control+k");
  await page.waitForSelector("dialog[open]");
  await page.context().close();
  console.log("pages work if the browser blocks site data");
};

const withoutScripts = async () => {
  const page = await open({ javaScriptEnabled: false, viewport: { width: 390, height: 844 } });
  for (const [path, text] of [["/docs/", "First request"], ["/docs/tag/branches", "Protect a branch"], ["/docs/operation/get_branch", "URL-encoded name of the branch."], ["/docs/schema/Branch", "Whether the branch is protected."]]) {
    await page.goto(base + path);
    assert.ok((await page.locator("main").innerText()).includes(text), path);
    assert.equal(await page.locator("#try:visible").count(), 0);
  }
  await page.goto(`${base}/docs/operation/get_branch`);
  await page.click("label:text-is('Python')");
  assert.ok(await page.locator("pre.python").isVisible());
  await page.click("a.menu");
  assert.ok(await page.locator("#navigation").isVisible());
  await page.context().close();
  console.log("pages are readable without scripts");
};

const copies = async () => {
  const page = await open({ permissions: ["clipboard-read", "clipboard-write"] });
  await operation(page, "get_branch");
  const copied = async (line) => {
    await page.click(`${line} > button:text-is("Copy")`);
    await page.waitForSelector(`${line} > button:text-is("Copied")`);
    return page.evaluate(() => navigator.clipboard.readText());
  };
  assert.equal(await copied(".endpoint"), "GET /api/v4/projects/{id}/repository/branches/{branch}");
  assert.equal(await copied(".identity"), "get_branch");
  await page.context().close();
  console.log("the path and the ID of an operation are copied");
};

const printedPages = async () => {
  const page = await open();
  await page.emulateMedia({ media: "print" });
  for (const [path, text] of [["/docs/operation/create_branch", "Name of the branch."], ["/docs/guide/paging", "Read all pages"]]) {
    await page.goto(base + path);
    for (const part of [".top", "#navigation", "#try", "footer", ".copy"]) {
      assert.equal(await page.locator(`${part}:visible`).count(), 0, `${path} prints ${part}`);
    }
    assert.ok(await page.locator("h1").isVisible(), path);
    assert.ok((await page.locator("main").innerText()).includes(text), path);
    // Code is not cut off.
    const cut = await page.locator("main pre:visible").evaluateAll((all) => all.some((one) => one.scrollHeight > one.clientHeight + 1 || one.scrollWidth > one.clientWidth + 1));
    assert.equal(cut, false, `${path} cuts off code`);
  }
  await page.context().close();
  console.log("printed pages contain the text without navigation and forms");
};

const steps = [
  everyPage, search, formSendsRequests, copies, printedPages, sessions, formerAddresses, blockedStorage, withoutScripts, narrowPages, largeText, motion, searchByKeyboard,
  formByKeyboard, focus, accessibility, budgets, memory,
];
// Other programs on the machine change these times.
if (full) steps.push(paint, tasks, frames);
try {
  for (const step of steps) {
    const start = Date.now();
    await step();
    console.log(`${step.name}: ${((Date.now() - start) / 1000).toFixed(1)} s`);
  }
  assert.deepEqual(foreign, [], "the pages sent requests to other hosts");
  assert.deepEqual(faults, [], "the pages logged errors");
} finally {
  await close();
}
