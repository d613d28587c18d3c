// Documentation portal: search, code samples, sign-in state and the form that sends requests.
// Text from the server is only added as text, never as markup. The token is stored only in the session of the tab.
"use strict";
(() => {
  const TOKEN = "docs.token";
  const LANGUAGE = "docs.language";
  const SAMPLE_ORIGIN = "http://127.0.0.1:8080";
  const MAX_SHOWN = 200_000;
  const MAX_RESULTS = 20;

  /** Creates an element. Functions are listeners, other values are attributes. */
  const element = (name, attributes = {}, ...children) => {
    const created = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (typeof value === "function") created.addEventListener(key, value);
      else if (value === true) created.setAttribute(key, "");
      else if (value !== false && value != null) created.setAttribute(key, value);
    }
    created.append(...children);
    return created;
  };
  const bytes = (count) => `${count.toLocaleString("en-US")} ${count === 1 ? "byte" : "bytes"}`;

  /** Returns null if the action fails: the address is malformed, or the browser blocks the storage of data. */
  const attempt = (action) => {
    try {
      return action();
    } catch {
      return null;
    }
  };

  // Addresses of the former page: #/Tag/operation_id.
  const former = location.hash.match(/^#\/([^/]+)(?:\/([a-z0-9_]+))?$/);
  if (former) {
    const tag = (attempt(() => decodeURIComponent(former[1])) ?? former[1]).trim().toLowerCase().replace(/[^a-z0-9]+/g, "-");
    location.replace(former[2] ? `/docs/operation/${former[2]}` : `/docs/tag/${tag}`);
    return;
  }

  const copyButton = (label, text) =>
    element("button", {
      type: "button",
      class: label === "Copy" ? "copy" : null,
      click: async (event) => {
        const button = event.currentTarget;
        let done = "Copied";
        try {
          await navigator.clipboard.writeText(text());
        } catch {
          done = "Copying failed";
        }
        button.textContent = done;
        setTimeout(() => (button.textContent = label), 1500);
      },
    }, label);

  for (const code of document.querySelectorAll("pre")) {
    // The samples can be run against this server.
    for (const node of code.querySelector("code").childNodes) if (node.nodeType === Node.TEXT_NODE) node.data = node.data.replace(SAMPLE_ORIGIN, location.origin);
    const block = element("div", { class: "block" });
    code.replaceWith(block);
    block.append(code, copyButton("Copy", () => code.textContent));
  }

  for (const line of document.querySelectorAll(".endpoint, .identity")) {
    const text = (line.matches(".identity") ? line.lastElementChild : line).textContent;
    line.append(" ", copyButton("Copy", () => text));
  }

  // Language of the samples.
  const languages = [...document.querySelectorAll("input[name=sample]")];
  for (const input of languages) {
    input.checked = input.id === (attempt(() => localStorage.getItem(LANGUAGE)) ?? "sample-curl");
    input.addEventListener("change", () => attempt(() => localStorage.setItem(LANGUAGE, input.id)));
  }
  if (languages.length && !languages.some((input) => input.checked)) languages[0].checked = true;

  // The current page is visible in the navigation. Positions are read in the next frame, because this script still changes the page.
  const here = document.querySelector("#navigation [aria-current]");
  const navigation = document.getElementById("navigation");
  if (here) {
    requestAnimationFrame(() => {
      if (navigation.clientHeight) navigation.scrollTop = Math.max(0, here.offsetTop - navigation.offsetTop - navigation.clientHeight / 3);
    });
  }

  // Filter of the table of roles.
  const roles = document.querySelector("table.roles");
  if (roles) {
    const filter = element("input", { type: "search", placeholder: "Filter operations", "aria-label": "Filter operations", class: "filter" });
    filter.addEventListener("input", () => {
      const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const group of roles.tBodies) {
        const tag = group.rows[0].textContent.toLowerCase();
        let found = false;
        for (const row of [...group.rows].slice(1)) {
          const text = `${tag} ${row.cells[0].textContent.toLowerCase()}`;
          row.hidden = !words.every((word) => text.includes(word));
          found ||= !row.hidden;
        }
        group.hidden = !found;
      }
    });
    roles.parentElement.before(filter);
  }

  // Search.
  let index;
  const loadIndex = () => (index ??= fetch("/docs/search.json").then((response) => response.json()).then(prepared));
  const words = (text) => text.toLowerCase().split(/[^\p{L}\p{N}]+/u).filter(Boolean);
  const prepared = (data) => {
    const entries = data.operations.map(([id, method, path, title, tag, names]) => ({
      title, kind: method, detail: path, id, target: `/docs/operation/${id}`, weight: 2,
      head: words(title).filter((word) => word !== "a" && word !== "an" && word !== "the").join(" "),
      fields: [[words(title), 8], [words(id), 5], [words(data.tags[tag] ?? ""), 3], [words(path), 3], [words(names), 1]],
    }));
    for (const [name, title] of data.guides) {
      entries.push({ title, kind: "Guide", detail: `/docs/guide/${name}`, id: name, target: `/docs/guide/${name}`, weight: 4, head: title.toLowerCase(), fields: [[words(title), 8]] });
    }
    data.tags.forEach((title) => {
      const slug = words(title).join("-");
      entries.push({ title, kind: "Tag", detail: `/docs/tag/${slug}`, id: slug, target: `/docs/tag/${slug}`, weight: 1, head: title.toLowerCase(), fields: [[words(title), 6]] });
    });
    for (const [name, names] of data.schemas) {
      const parts = words(name.replace(/([a-z0-9])([A-Z])/g, "$1 $2"));
      entries.push({ title: name, kind: "Schema", detail: "", id: name, target: `/docs/schema/${name}`, weight: 0, head: name.toLowerCase(), fields: [[[...parts, name.toLowerCase()], 4], [words(names), 0.5]] });
    }
    return entries;
  };
  const scoreWord = (entry, word) => {
    let best = 0;
    for (const [fieldWords, weight] of entry.fields) {
      for (const known of fieldWords) {
        const match = known === word ? 3 : known.startsWith(word) ? 2 : known.includes(word) ? 0.5 : 0;
        best = Math.max(best, match * weight);
      }
    }
    return best;
  };
  const find = (entries, query) => {
    const typed = query.trim().toLowerCase();
    const path = typed.replace(/^(get|post|put|patch|delete|head)\s+/, "").replace(/^\/api\/v4(?=\/)/, "");
    const parts = words(typed).filter((word, at, all) => all.length === 1 || !["a", "an", "the"].includes(word));
    if (!parts.length) return [];
    const head = parts.join(" ");
    const found = [];
    for (const entry of entries) {
      const scores = parts.map((word) => scoreWord(entry, word));
      let score = scores.every(Boolean) ? scores.reduce((sum, one) => sum + one, 0) / parts.length : 0;
      if (score && entry.head.startsWith(head)) score += 30;
      if (score && entry.head === head) score += 30;
      if (entry.id.toLowerCase() === typed) score += 200;
      if (path.startsWith("/") && entry.detail.toLowerCase() === path) score += 150;
      if (score) found.push([score + entry.weight, entry]);
    }
    found.sort(([one, a], [other, b]) => other - one || a.title.length - b.title.length);
    return found.map(([, entry]) => entry);
  };

  const searchInput = element("input", {
    type: "text", role: "combobox", "aria-label": "Search operations, schemas and guides", "aria-controls": "results",
    "aria-expanded": "false", "aria-autocomplete": "list", autocomplete: "off", spellcheck: "false", placeholder: "Search operations, schemas and guides",
  });
  const results = element("ul", { id: "results", role: "listbox", "aria-label": "Results" });
  const count = element("p", { role: "status" }, "Type to search.");
  const dialog = element("dialog", { class: "search", "aria-label": "Search" }, searchInput, results,
    element("div", { class: "row" }, count, element("button", { type: "button", click: () => dialog.close() }, "Close")));
  let selected = -1;
  const select = (at) => {
    const options = [...results.children];
    if (!options.length) return;
    selected = (at + options.length) % options.length;
    options.forEach((option, position) => option.setAttribute("aria-selected", String(position === selected)));
    options[selected].scrollIntoView({ block: "nearest" });
    searchInput.setAttribute("aria-activedescendant", options[selected].id);
  };
  const option = (entry, at) => {
    const created = element("li", { role: "option", id: `result-${at}`, "aria-selected": "false", "data-target": entry.target },
      element("span", { class: `method ${["Guide", "Tag", "Schema"].includes(entry.kind) ? "kind" : entry.kind.toLowerCase()}` }, entry.kind),
      element("span", {}, entry.title));
    if (entry.detail) created.append(element("small", {}, ...entry.detail.split(/(?=\/)/).flatMap((part) => [element("wbr"), part])));
    created.addEventListener("click", () => location.assign(entry.target));
    return created;
  };
  const search = async () => {
    let entries;
    try {
      entries = await loadIndex();
    } catch {
      index = undefined;
      count.textContent = "The index cannot be loaded. Try again.";
      return;
    }
    const found = find(entries, searchInput.value);
    results.replaceChildren(...found.slice(0, MAX_RESULTS).map(option));
    searchInput.setAttribute("aria-expanded", String(found.length > 0));
    searchInput.removeAttribute("aria-activedescendant");
    selected = -1;
    if (found.length) select(0);
    count.textContent = !searchInput.value.trim() ? "Type to search." : found.length === 1 ? "1 result" : found.length ? `${found.length} results` : "Nothing found.";
  };
  const openSearch = () => {
    if (dialog.open) return;
    dialog.showModal();
    searchInput.select();
    loadIndex().catch(() => (index = undefined));
  };
  searchInput.addEventListener("input", search);
  searchInput.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") select(selected + 1);
    else if (event.key === "ArrowUp") select(selected - 1);
    else if (event.key === "Enter" && results.children[selected]) location.assign(results.children[selected].dataset.target);
    else return;
    event.preventDefault();
  });
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  document.addEventListener("keydown", (event) => {
    const typing = event.target instanceof Element && event.target.closest("input, textarea, select, [contenteditable]");
    const shortcut = (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k";
    if (shortcut || (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey)) {
      event.preventDefault();
      openSearch();
    }
  });
  document.body.append(dialog);
  const tools = document.querySelector(".tools");
  tools.append(element("button", { type: "button", class: "find", click: openSearch }, "Search", element("kbd", {}, "Ctrl K")));

  // Sign-in state.
  let session = { user: null, csrf_token: null };
  const account = element("span", { role: "status" });
  tools.append(account);
  const showAccount = () => {
    const back = encodeURIComponent(location.pathname);
    if (session.user) {
      account.replaceChildren(element("span", { class: "user" }, `Signed in as ${session.user.username} `), element("button", { type: "button", click: signOut }, "Sign out"));
    } else {
      account.replaceChildren(element("a", { class: "button", href: `/users/sign_in?return_to=${back}` }, "Sign in"));
    }
    showCredentials();
  };
  const signOut = async () => {
    try {
      await fetch("/users/sign_out", { method: "POST", headers: { "X-CSRF-Token": session.csrf_token } });
    } finally {
      await loadSession();
    }
  };
  const loadSession = async () => {
    try {
      const response = await fetch("/-/session?optional=true", { headers: { Accept: "application/json" }, cache: "no-store" });
      session = response.ok ? await response.json() : { user: null, csrf_token: null };
    } catch {
      session = { user: null, csrf_token: null };
    }
    showAccount();
  };

  // The form that sends requests.
  let showCredentials = () => {};
  const panel = document.getElementById("try");
  if (panel) buildForm();
  loadSession();

  function buildForm() {
    const { method, path: template, scheme, mediaType, confirmation } = panel.dataset;
    const example = panel.querySelector("template")?.content.textContent ?? "";
    const fields = [...document.querySelectorAll("[data-in]")].map(field);
    const label = (name, note, control) => element("label", {}, element("span", {}, element("code", {}, name), element("small", { class: "hint" }, note)), control);

    function field(row) {
      const { in: location, name, control, values, example: sample } = row.dataset;
      const required = "required" in row.dataset;
      const choices = control === "boolean" ? ["true", "false"] : control === "choice" ? values.split("|") : null;
      let input;
      if (choices) {
        input = element("select", {}, element("option", { value: "" }, ""), ...choices.map((value) => element("option", { value }, value)));
      } else if (control === "list" || control === "map") {
        input = element("textarea", { rows: 2, placeholder: control === "map" ? "key=value, one on each line" : "One value on each line", spellcheck: "false" });
      } else if (control === "file") {
        input = element("input", { type: "file" });
      } else {
        input = element("input", { type: "text", placeholder: sample ? `Example: ${sample}` : null, inputmode: control === "integer" ? "numeric" : null, spellcheck: "false", autocomplete: "off" });
      }
      if (required) input.setAttribute("aria-required", "true");
      return { location, name, control, input, required };
    }

    /** Encodes a value as one segment of a path. A value that was typed with %2F is decoded first. */
    const segment = (value) => encodeURIComponent((/%2f/i.test(value) && attempt(() => decodeURIComponent(value))) || value);
    const lines = (value) => value.split("\n").map((line) => line.trim()).filter(Boolean);

    /** Returns the values of a field in a query or form. */
    const pairs = ({ name, control, input }) => {
      if (control === "file") return [...input.files].map((file) => [name, file]);
      if (input.value === "") return [];
      if (control === "list") return lines(input.value).map((line) => [name, line]);
      if (control !== "map") return [[name, input.value]];
      return lines(input.value).map((line) => {
        const at = line.indexOf("=");
        if (at < 1) throw new Error(`${name}: write each line as key=value.`);
        return [`${name}[${line.slice(0, at)}]`, line.slice(at + 1)];
      });
    };

    const address = () => {
      let path = template;
      const query = [];
      for (const one of fields) {
        if (one.location === "path" && one.input.value !== "") path = path.replace(`{${one.name}}`, () => segment(one.input.value));
        if (one.location === "query") query.push(...pairs(one).map((pair) => pair.map(encodeURIComponent).join("=")));
      }
      return query.length ? `${path}?${query.join("&")}` : path;
    };

    /** Returns the request that the fields describe. */
    const request = () => {
      for (const one of fields) {
        const value = one.control === "file" ? one.input.files.length : one.input.value;
        if (one.required && one.location !== "form" && !value) throw new Error(`${one.name} is required.`);
        if (one.location === "path" && /^\.{1,2}$/.test(one.input.value)) throw new Error(`${one.name} cannot be ${one.input.value}, because browsers remove this segment.`);
      }
      const headers = {};
      for (const one of fields) if (one.location === "header" && one.input.value) headers[one.name] = one.input.value;
      if (sudo.value) headers.Sudo = sudo.value;
      const form = fields.filter((one) => one.location === "form").flatMap(pairs);
      const text = body?.value.trim() ? body.value : null;
      if (text !== null && form.length) throw new Error("Send a JSON body or a form, not both.");
      if (text !== null) {
        try {
          JSON.parse(text);
        } catch (error) {
          throw new Error(`The body is not JSON: ${error.message}`);
        }
        headers["Content-Type"] = mediaType;
      }
      return { method, path: address(), headers, text, form };
    };

    const body = mediaType ? element("textarea", { rows: 6, spellcheck: "false", "aria-label": "Body" }) : null;
    const token = element("input", { type: "password", autocomplete: "off", spellcheck: "false" });
    const sudo = element("input", { type: "text", autocomplete: "off", spellcheck: "false" });
    const credentials = element("p", { class: "hint", role: "status" });
    const preview = element("p", { class: "address" });
    const fault = element("p", { class: "fault", role: "alert" });
    const output = element("div", { role: "region", "aria-label": "Response", "aria-live": "polite" });
    const send = element("button", { type: "submit", class: "primary" }, "Send");
    const cancel = element("button", { type: "button", hidden: true }, "Cancel");
    const form = element("form", { autocomplete: "off", novalidate: true });

    for (const location of ["path", "form", "query", "header"]) {
      const own = fields.filter((one) => one.location === location);
      if (!own.length) continue;
      const labels = own.map((one) => label(one.name, one.required ? "required" : one.control === "text" ? "" : one.control, one.input));
      if (location === "path" || location === "form") form.append(...labels);
      else form.append(element("details", { open: own.some((one) => one.required) }, element("summary", {}, `${location === "query" ? "Query" : "Headers"} (${own.length})`), ...labels));
    }
    if (body) {
      const insert = element("button", { type: "button", click: () => ((body.value = example), (body.rows = Math.min(20, example.split("\n").length + 1))) }, "Insert example");
      form.append(element("div", { class: "field" }, element("span", {}, "Body "), element("small", { class: "hint" }, mediaType), body, element("div", { class: "row" }, example ? insert : "")));
    }
    token.value = attempt(() => sessionStorage.getItem(TOKEN)) ?? "";
    token.addEventListener("input", () => {
      attempt(() => sessionStorage.setItem(TOKEN, token.value));
      showCredentials();
    });
    const access = element("details", { open: true }, element("summary", {}, "Credentials"), label("Token", "stored until the tab is closed", token));
    if (scheme !== "Bearer") access.append(label("Sudo", "user to act as, for administrators", sudo));
    form.append(access, credentials, preview, fault, element("div", { class: "row" }, send, cancel));
    panel.append(form, output);
    panel.hidden = false;

    showCredentials = () => {
      credentials.textContent = token.value ? "The request is sent with the token." : session.user && scheme !== "Bearer" ? `The request is sent with the session of ${session.user.username}.` : "The request is sent without credentials.";
    };
    const showAddress = () => {
      let text = template;
      try {
        text = address();
      } catch {
        // The message appears when the request is sent.
      }
      preview.textContent = `${method} ${text}`;
    };
    form.addEventListener("input", showAddress);
    showAddress();

    let running = null;
    let confirmed = !confirmation;
    const askOnce = () => {
      const yes = element("button", { type: "button", class: "primary", click: () => ((confirmed = true), form.requestSubmit()) }, "Send anyway");
      const no = element("button", { type: "button", click: () => (fault.replaceChildren(), send.focus()) }, "Cancel");
      fault.replaceChildren(`${confirmation} `, element("span", { class: "row" }, yes, no));
      yes.focus();
    };
    cancel.addEventListener("click", () => running?.abort());
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      fault.replaceChildren();
      let sent;
      try {
        sent = request();
      } catch (error) {
        fault.textContent = error.message;
        return;
      }
      if (!confirmed) return askOnce();
      confirmed = !confirmation;
      running?.abort();
      const controller = (running = new AbortController());
      send.disabled = true;
      cancel.hidden = false;
      try {
        await show(sent, controller.signal);
      } catch (error) {
        output.replaceChildren();
        fault.textContent = error.name === "AbortError" ? "The request was canceled." : `The request failed: ${error.message}`;
      } finally {
        send.disabled = false;
        cancel.hidden = true;
      }
    });

    const show = async (sent, signal) => {
      const headers = new Headers(sent.headers);
      const own = token.value.trim();
      if (own && scheme === "Bearer") headers.set("Authorization", `Bearer ${own}`);
      else if (own) headers.set("Private-Token", own);
      else if (session.csrf_token && method !== "GET" && method !== "HEAD") headers.set("X-CSRF-Token", session.csrf_token);
      let content = sent.text ?? undefined;
      if (sent.form.length) {
        content = new FormData();
        for (const [name, value] of sent.form) content.append(name, value);
      }
      const start = performance.now();
      // Without a token, the session is used. With a token, no cookie is sent.
      const response = await fetch(sent.path, { method, headers, body: content, signal, cache: "no-store", credentials: own ? "omit" : "same-origin" });
      const blob = await response.blob();
      const duration = Math.round(performance.now() - start);
      const parts = [
        element("p", { class: "row" }, element("span", { class: `status ${response.ok ? "good" : "bad"}` }, `${response.status} ${response.statusText}`.trim()),
          element("span", { class: "hint" }, `${duration} ms, ${bytes(blob.size)}`)),
        element("details", {}, element("summary", {}, "Headers"), codeBlock([...response.headers].map(([name, value]) => `${name}: ${value}`).join("\n"), "Headers")),
        ...(await shown(response, blob)),
        element("p", { class: "row" }, copyButton("Copy as curl", () => curl(sent, own)), copyButton("Copy as Python", () => python(sent, own)), copyButton("Copy as JavaScript", () => javascript(sent, own))),
      ];
      output.replaceChildren(...parts);
      output.scrollIntoView({ block: "nearest" });
    };

    const codeBlock = (text, name) => element("div", { class: "block" }, element("pre", { tabindex: 0, role: "group", "aria-label": name }, element("code", {}, text)), copyButton("Copy", () => text));

    /** Shows text, and offers other content as a file. */
    const shown = async (response, blob) => {
      if (!blob.size) return [];
      const type = response.headers.get("content-type") ?? "";
      const attached = (response.headers.get("content-disposition") ?? "").startsWith("attachment");
      const link = () => element("a", { class: "button", href: URL.createObjectURL(blob), download: fileName(response) }, `Download (${bytes(blob.size)})`);
      if (attached || !/^text\/|json|xml|yaml/.test(type)) return [element("p", { class: "row" }, link())];
      let text = await blob.text();
      // Numbers above 2^53 would change.
      if (/json/.test(type) && !/\d{16}/.test(text)) text = attempt(() => JSON.stringify(JSON.parse(text), null, 2)) ?? text;
      if (text.length <= MAX_SHOWN) return [codeBlock(text, "Body")];
      return [element("p", { class: "row" }, "The first part of the body:", link()), codeBlock(text.slice(0, MAX_SHOWN), "Body")];
    };
    const fileName = (response) => {
      const disposition = response.headers.get("content-disposition") ?? "";
      const name = disposition.match(/filename="?([^";]+)/)?.[1] ?? new URL(response.url).pathname.split("/").pop();
      return name.replace(/[^\w.-]+/g, "_") || "download";
    };

    // The request as it was sent, with the token as a variable.
    const shell = (text) => `'${text.replaceAll("'", "'\\''")}'`;
    const credential = (own, variable) => (!own ? [] : scheme === "Bearer" ? [["Authorization", `Bearer ${variable}`]] : [["Private-Token", variable]]);
    const url = (sent) => location.origin + sent.path;
    const curl = (sent, own) => {
      const parts = [method === "HEAD" ? "curl --head" : method === "GET" ? "curl" : `curl --request ${method}`];
      for (const [name, value] of credential(own, "$TOKEN")) parts.push(`--header "${name}: ${value}"`);
      for (const [name, value] of Object.entries(sent.headers)) parts.push(`--header ${shell(`${name}: ${value}`)}`);
      if (sent.text !== null) parts.push(`--data-binary ${shell(sent.text)}`);
      for (const [name, value] of sent.form) parts.push(value instanceof File ? `--form ${shell(`${name}=@${value.name}`)}` : `--form-string ${shell(`${name}=${value}`)}`);
      return [...parts, shell(url(sent))].join(" \\\n  ");
    };
    const quote = JSON.stringify;
    const headerCode = (sent, own, variable) => [
      ...credential(own, "").map(([name, prefix]) => `${quote(name)}: ${prefix ? `${quote(prefix)} + ` : ""}${variable}`),
      ...Object.entries(sent.headers).map(([name, value]) => `${quote(name)}: ${quote(value)}`),
    ].join(", ");
    const python = (sent, own) => {
      const parts = sent.form.map(([name, value]) => `(${quote(name)}, ${value instanceof File ? `open(${quote(value.name)}, "rb")` : `(None, ${quote(value)})`})`);
      const content = parts.length ? `    files=[${parts.join(", ")}],\n` : sent.text !== null ? `    data=${quote(sent.text)}.encode(),\n` : "";
      return `import os\nimport requests\n\nresponse = requests.request(\n    "${method}",\n    ${quote(url(sent))},\n    headers={${headerCode(sent, own, 'os.environ["TOKEN"]')}},\n${content})\nprint(response.status_code, response.text)`;
    };
    const javascript = (sent, own) => {
      const parts = sent.form.map(([name, value]) => `form.append(${quote(name)}, ${value instanceof File ? `await openAsBlob(${quote(value.name)}), ${quote(value.name)}` : quote(value)});\n`);
      const before = parts.length ? `import { openAsBlob } from "node:fs";\n\nconst form = new FormData();\n${parts.join("")}\n` : "";
      const content = parts.length ? "  body: form,\n" : sent.text !== null ? `  body: ${quote(sent.text)},\n` : "";
      return `${before}const response = await fetch(${quote(url(sent))}, {\n  method: "${method}",\n  headers: { ${headerCode(sent, own, "process.env.TOKEN")} },\n${content}});\nconsole.log(response.status, await response.text());`;
    };
  }
})();
