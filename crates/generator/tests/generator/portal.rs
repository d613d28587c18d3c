//! Pages of the documentation portal: completeness, markup, links, escaping and sizes.

mod agreement;
mod forms;
mod growth;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::LazyLock;

use generator::portal::{self, Assets, HTML, MARKDOWN, PortalFile, history};
use generator::{Generated, publish};
use heck::ToKebabCase;
use serde_json::{Value, json};

use super::{assets_folder, contract_folder, loaded, small};

/// Elements without an end tag.
const VOID: [&str; 5] = ["input", "link", "meta", "wbr", "br"];
/// Maximum size of the style sheet and the script together, compressed.
const MAX_ASSETS: usize = 12 * 1024;

static GENERATED: LazyLock<Generated> =
    LazyLock::new(|| generator::compile(&contract_folder(), &assets_folder()).expect("a contract"));

static ROOT: LazyLock<Value> = LazyLock::new(|| {
    let document = generator::load::load(&contract_folder()).expect("a document");
    publish::authored(&document.root)
});

fn text(file: &PortalFile) -> &str {
    std::str::from_utf8(&file.content).expect("UTF-8")
}

fn page(path: &str) -> &'static str {
    let found = GENERATED.portal.iter().find(|file| file.path == path);
    text(found.unwrap_or_else(|| panic!("{path} is missing")))
}

fn html() -> impl Iterator<Item = &'static PortalFile> {
    GENERATED.portal.iter().filter(|file| file.media_type == HTML)
}

fn compressed(content: &[u8]) -> usize {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
    encoder.write_all(content).expect("bytes");
    encoder.finish().expect("bytes").len()
}

/// Returns the operations of the document.
fn operations() -> Vec<&'static Value> {
    let items = ROOT["paths"].as_object().expect("paths").values();
    let parts = items.flat_map(|item| item.as_object().expect("an item").values());
    parts.filter(|part| part["operationId"].is_string()).collect()
}

/// A tag of a page: the name, and the attributes.
type Tag<'a> = (&'a str, BTreeMap<&'a str, &'a str>);

/// Returns the start and end tags of a page. The pages contain no comments, and `>` is escaped in attributes.
fn tags(html: &str) -> Vec<Tag<'_>> {
    let mut tags = Vec::new();
    for part in html.split('<').skip(1) {
        let (tag, _) = part.split_once('>').expect("the end of a tag");
        let (name, rest) = tag.split_once(' ').unwrap_or((tag, ""));
        let mut attributes = BTreeMap::new();
        let mut rest = rest.trim();
        while !rest.is_empty() {
            let end = rest.find([' ', '=']).unwrap_or(rest.len());
            let (key, after) = rest.split_at(end);
            let (value, after) = match after.strip_prefix("=\"") {
                Some(quoted) => quoted.split_once('"').expect("the end of a value"),
                None => ("", after),
            };
            assert!(attributes.insert(key, value).is_none(), "{tag}");
            rest = after.trim_start();
        }
        tags.push((name, attributes));
    }
    tags
}

#[test]
fn every_part_of_the_document_has_a_page_in_both_formats() {
    let mut expected: BTreeSet<String> = ["index", "roles", "errors", "schemas", "changelog", "not-found"]
        .map(|name| format!("docs/{name}"))
        .into();
    for operation in operations() {
        expected.insert(format!(
            "docs/operation/{}",
            operation["operationId"].as_str().expect("an ID")
        ));
    }
    for name in ROOT["components"]["schemas"].as_object().expect("schemas").keys() {
        expected.insert(format!("docs/schema/{name}"));
    }
    for tag in ROOT["tags"].as_array().expect("tags") {
        expected.insert(format!(
            "docs/tag/{}",
            tag["name"].as_str().expect("a name").to_kebab_case()
        ));
    }
    for guide in [
        "authentication",
        "requests",
        "paging",
        "errors",
        "roles",
        "rate-limits",
        "revalidation",
        "webhooks",
        "workflows",
        "limitations",
        "packages",
        "sdks",
        "testing",
    ] {
        expected.insert(format!("docs/guide/{guide}"));
    }
    let found: BTreeSet<String> = html().map(|file| file.path.clone()).collect();
    assert_eq!(found, expected);
    let markdown = GENERATED.portal.iter().filter(|file| file.media_type == MARKDOWN);
    let markdown: BTreeSet<String> = markdown
        .filter_map(|file| file.path.strip_suffix(".md").map(str::to_owned))
        .collect();
    assert_eq!(markdown, expected);
}

#[test]
fn pages_are_well_formed_and_have_one_title_and_distinct_identifiers() {
    for file in html() {
        let (mut open, mut identifiers, mut titles) = (Vec::new(), BTreeSet::new(), 0);
        for (name, attributes) in tags(text(file)) {
            match name.strip_prefix('/') {
                Some(closed) => assert_eq!(open.pop(), Some(closed), "{}", file.path),
                None if name == "!DOCTYPE" || VOID.contains(&name) => {}
                None => open.push(name),
            }
            titles += usize::from(name == "h1");
            if let Some(id) = attributes.get("id") {
                assert!(
                    identifiers.insert(*id),
                    "{}: the identifier {id} is not unique",
                    file.path
                );
            }
        }
        assert!(
            open.is_empty() && titles == 1,
            "{}: {open:?}, {titles} titles",
            file.path
        );
    }
}

#[test]
fn links_of_all_pages_lead_to_pages_and_identifiers() {
    let mut known: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for file in &GENERATED.portal {
        let tags = if file.media_type == HTML {
            tags(text(file))
        } else {
            Vec::new()
        };
        let identifiers = tags
            .into_iter()
            .filter_map(|(_, attributes)| attributes.get("id").copied());
        known.insert(format!("/{}", file.path), identifiers.collect());
    }
    let start = known["/docs/index"].clone();
    known.insert("/docs/".to_owned(), start);
    for file in html() {
        for (name, attributes) in tags(text(file)) {
            let Some(target) = attributes.get("href").or(attributes.get("src")) else {
                continue;
            };
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = if path.is_empty() {
                format!("/{}", file.path)
            } else {
                path.to_owned()
            };
            let outside =
                path.starts_with("/api/v4/openapi") || (path.starts_with("https://") && name == "a");
            if outside {
                continue;
            }
            let identifiers = known
                .get(&path)
                .unwrap_or_else(|| panic!("{}: {target}", file.path));
            assert!(
                anchor.is_empty() || identifiers.contains(anchor),
                "{}: {target}",
                file.path
            );
        }
    }
}

#[test]
fn links_of_all_markdown_pages_lead_to_files() {
    let known: BTreeSet<&str> = GENERATED.portal.iter().map(|file| file.path.as_str()).collect();
    let mut files = BTreeSet::new();
    for file in GENERATED.portal.iter().filter(|file| file.media_type == MARKDOWN) {
        for target in text(file).split("](/").skip(1) {
            let path = target.split([')', '#']).next().expect("a target");
            if path.starts_with("docs/") && path != "docs/" {
                assert!(known.contains(path), "{}: {path}", file.path);
                files.insert(path);
            }
        }
    }
    assert!(files.contains("docs/arazzo.yaml") && files.contains("docs/roles.md"));
}

#[test]
fn pages_contain_no_inline_scripts_and_styles() {
    for file in html() {
        for (name, attributes) in tags(text(file)) {
            let is_inline = name == "style" || (name == "script" && !attributes.contains_key("src"));
            assert!(!is_inline, "{}", file.path);
            let mut names = attributes.keys();
            assert!(
                !names.any(|name| *name == "style" || name.starts_with("on")),
                "{}",
                file.path
            );
        }
    }
}

#[test]
fn text_of_the_contract_is_escaped() {
    let hostile = "<img src=x onerror=\"alert(1)\"></script><script>alert(2)</script>";
    let mut root = publish::authored(&loaded(&small()).expect("a document").root);
    for item in root["paths"].as_object_mut().expect("paths").values_mut() {
        for operation in item.as_object_mut().expect("an item").values_mut() {
            if operation["operationId"].is_string() {
                operation["summary"] = Value::from(hostile);
                operation["description"] =
                    Value::from(format!("Code `{hostile}` and [{hostile}](/{hostile})."));
            }
        }
    }
    let assets = Assets {
        style: Vec::new(),
        script: Vec::new(),
        icon: Vec::new(),
    };
    let pages = portal::files(&root, None, &[], &[], assets);
    let mut escaped = 0;
    for file in pages.iter().filter(|file| file.media_type == HTML) {
        let text = text(file);
        assert!(
            !text.contains("<img") && !text.contains("alert(2)</script>"),
            "{}",
            file.path
        );
        escaped += text.matches("&lt;img src=x").count();
    }
    assert!(escaped > 0, "the text is missing");
}

#[test]
fn operation_pages_show_the_access_rules() {
    let roles = [
        ("guest", "Guest"),
        ("reporter", "Reporter"),
        ("developer", "Developer"),
        ("maintainer", "Maintainer"),
        ("owner", "Owner"),
    ];
    for operation in operations() {
        let id = operation["operationId"].as_str().expect("an ID");
        let access = &operation["x-access"];
        let page = page(&format!("docs/operation/{id}.md"));
        if let (Some("project" | "group"), Some(min)) = (access["on"].as_str(), access["min"].as_str())
            && let Some((_, name)) = roles.iter().find(|(role, _)| *role == min)
        {
            assert!(page.contains(&format!("- Lowest role: [{name}]")), "{id}");
        }
        let is_open = access["anonymous"] == true;
        assert_eq!(is_open, !page.contains("- Without a token: Returns 401"), "{id}");
        let ignores_credentials = operation["security"] == json!([{}]);
        assert_eq!(ignores_credentials, !page.contains("- Token scopes: "), "{id}");
        let needs_token = page.contains("Set `HOLDFAST` and `TOKEN`");
        assert_eq!(ignores_credentials, !needs_token, "{id}");
        for scope in operation["x-scope"].as_array().into_iter().flatten() {
            assert!(
                page.contains(&format!("`{}`", scope.as_str().expect("a scope"))),
                "{id}"
            );
        }
        let flag = operation["x-flag"]["name"].as_str().unwrap_or_default();
        assert!(page.contains(flag), "{id}");
    }
}

#[test]
fn page_of_a_deprecated_operation_links_to_its_replacement() {
    let html = page("docs/operation/list_descendants");
    assert!(html.contains("deprecated since version 4.0.0 of the API. Version 5.0.0 removes the operation."));
    assert!(html.contains("Use <a href=\"/docs/operation/list_descendant_groups\">"));
    let replacement = page("docs/operation/list_descendant_groups");
    assert!(!replacement.contains("deprecated since"));
}

#[test]
fn pages_show_the_versions_of_the_api_and_of_the_server() {
    let versions = format!("Version 4.0.0 of the API, Holdfast {}", env!("CARGO_PKG_VERSION"));
    for file in html() {
        assert!(text(file).contains(&versions), "{}", file.path);
    }
}

#[test]
fn operation_pages_contain_all_parameters_attributes_and_responses() {
    let page = page("docs/operation/list_issues.md");
    for part in [
        "- `not[assignee_username][]` (list of string, query)",
        "- `iids[]` (list of integer, query)",
        "One of `opened`, `closed`, `all`",
    ] {
        assert!(page.contains(part), "{part}");
    }
    let page = self::page("docs/operation/create_branch.md");
    for part in [
        "`POST /api/v4/projects/{id}/repository/branches`",
        "- `branch` (string, required): Name of the branch.",
        "### Status 201",
        "[409](/docs/errors.md#conflict)",
        "[Common errors](/docs/errors.md): 400, 401, 403, 404, 414, 429, 431, 500, 503, 507.",
        "[Get a branch](/docs/operation/get_branch.md)",
        "--data '{\n  \"branch\": \"docs\",\n  \"ref\": \"main\"\n}'",
    ] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn guides_contain_sections_of_the_description_and_webhooks() {
    assert!(page("docs/guide/authentication.md").contains("| `read_api` | All reads of the API |"));
    let webhooks = page("docs/guide/webhooks.md");
    for name in ROOT["x-webhooks"].as_object().expect("webhooks").keys() {
        assert!(
            webhooks.contains(&format!("Value of `object_kind`: `{name}`.")),
            "{name}"
        );
    }
    for section in ROOT["info"]["description"]
        .as_str()
        .expect("a description")
        .split("\n## ")
        .skip(1)
    {
        let (title, body) = section.split_once('\n').expect("a section");
        let first = body.trim().lines().next().unwrap_or_default();
        let in_guides = html().filter(|file| file.path.starts_with("docs/guide/"));
        let words: Vec<&str> = first
            .split(['`', '.', '<'])
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .collect();
        assert!(
            in_guides
                .into_iter()
                .any(|file| text(file).contains(&words.join(" "))),
            "{title} is in no guide"
        );
    }
}

#[test]
fn lists_for_programs_name_every_operation() {
    let index: Value = serde_json::from_str(page("docs/search.json")).expect("JSON");
    let (llms, complete) = (page("docs/llms.txt"), page("docs/llms-full.txt"));
    let ids: BTreeSet<&str> = index["operations"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|one| one[0].as_str())
        .collect();
    for operation in operations() {
        let id = operation["operationId"].as_str().expect("an ID");
        assert!(
            ids.contains(id) && llms.contains(&format!("(/docs/operation/{id}.md)")),
            "{id}"
        );
        assert!(complete.contains(&format!("Operation ID: `{id}`")), "{id}");
    }
}

#[test]
fn pages_and_assets_are_small() {
    let document = GENERATED
        .documents
        .iter()
        .find(|document| document.file == "openapi.json")
        .expect("a document");
    let document = compressed(document.text.as_bytes());
    let operations = html().filter(|file| file.path.starts_with("docs/operation/"));
    let (size, path) = operations
        .map(|file| (compressed(&file.content), &file.path))
        .max()
        .expect("pages");
    assert!(
        size * 100 <= document * 6,
        "{path} has {size} bytes, the document {document}"
    );
    let index = compressed(page("docs/search.json").as_bytes());
    assert!(
        index * 100 <= document * 15,
        "the index has {index} bytes, the document {document}"
    );
    let assets = GENERATED
        .portal
        .iter()
        .filter(|file| file.path.starts_with("docs/docs."));
    let assets: usize = assets.map(|file| compressed(&file.content)).sum();
    assert!(assets <= MAX_ASSETS, "the assets have {assets} bytes");
}

#[test]
fn breaking_changes_are_listed_in_the_changelog() {
    let versions = history::load(&contract_folder()).expect("versions");
    let last = versions.last().expect("a version");
    let changelog = std::fs::read_to_string(contract_folder().join("../CHANGELOG.md")).expect("a changelog");
    let current = history::facts(&ROOT);
    let missing: Vec<String> = history::compare(&last.facts, &current)
        .iter()
        .filter(|change| change.is_breaking() && !changelog.contains(&format!("`{}`", change.owner())))
        .map(|change| format!("{}: {:?} became {:?}", change.key, change.before, change.after))
        .collect();
    assert!(
        missing.is_empty(),
        "CHANGELOG.md does not mention:\n{}",
        missing.join("\n")
    );
}
