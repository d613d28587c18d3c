// A browser that can reach only the server, the pages of the documentation, and the steps that several tests share.
import { chromium } from "playwright-core";

export const [base, token, password, full] = process.argv.slice(2);
/** The index of the search. */
export const index = await (await fetch(`${base}/docs/search.json`)).json();

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
export const foreign = [];
export const faults = [];

/** Opens a page that records requests to other hosts, errors and violations of the content policy. */
export const open = async (options = {}) => {
  const context = await browser.newContext(options);
  // Builds on the same machine make the browser slow.
  context.setDefaultTimeout(120_000);
  const page = await context.newPage();
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(`${base}/`) && !url.startsWith(`blob:${base}/`)) foreign.push(url);
  });
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("console", (message) => {
    // The browser logs refused requests of the form, which the tests expect, and the missing icon of pages without HTML.
    if (message.type() === "error" && !/\/api\/v4\/|\/favicon.ico$/.test(message.location().url)) faults.push(`${page.url()}: ${message.text()}`);
  });
  return page;
};
export const close = () => browser.close();
/** Records the events of a page in these categories while it does something. */
export const traced = async (page, categories, action) => {
  await browser.startTracing(page, { categories });
  await action();
  return JSON.parse(await browser.stopTracing()).traceEvents;
};

export const operation = (page, id) => page.goto(`${base}/docs/operation/${id}`);
/** The control of a field of the form. */
export const control = (page, name) => page.locator("#try label").filter({ has: page.locator(`code:text-is("${name}")`) }).locator("input, select, textarea");
/** Sends the form, and returns the response. */
export const send = async (page) => {
  const [response] = await Promise.all([
    page.waitForResponse((answer) => new URL(answer.url()).pathname.startsWith("/api/")),
    page.click("#try button[type=submit]"),
  ]);
  await page.waitForSelector("#try .status");
  return response;
};
export const shown = (page) => page.locator("#try [aria-label=Body] code").textContent();
/** Signs in from a page of an operation, and returns to this page. */
export const signIn = async (page, id) => {
  await operation(page, id);
  await page.click(".tools >> text=Sign in");
  await page.fill("#login", "root");
  await page.fill("#password", password);
  await Promise.all([page.waitForURL(`**/docs/operation/${id}`), page.click("button[type=submit]")]);
  await page.waitForSelector("text=Signed in as root", { state: "attached" });
};
/** Types text into the search, and waits for the results. */
export const find = async (page, text) => {
  await page.fill(".search input", text);
  await page.waitForFunction(() => !document.querySelector(".search p").textContent.startsWith("Type"));
  return page.locator("#results [role=option]").evaluateAll((options) => options.map((option) => option.dataset.target));
};

/** The operation whose page has the most elements, and their number without the parts that scripts add. */
const largestOperation = async () => {
  const ids = index.operations.map(([id]) => id);
  let [most, largest] = [0, null];
  const read = async () => {
    for (let id = ids.pop(); id; id = ids.pop()) {
      const elements = (await (await fetch(`${base}/docs/operation/${id}`)).text()).split(/<[a-z]/).length;
      if (elements > most) [most, largest] = [elements, id];
    }
  };
  await Promise.all([1, 2, 3, 4].map(read));
  return largest;
};
export const largest = await largestOperation();
/** A deprecated operation. */
const { paths } = await (await fetch(`${base}/api/v4/openapi.json`)).json();
export const deprecated = Object.values(paths).flatMap((item) => Object.values(item)).find((one) => one.deprecated).operationId;
