//! What the pages of operations show of other parts: the versions that changed an operation, and their size in a larger
//! document.

use generator::portal::history::{self, Facts, Version};
use generator::portal::{self, Assets, HTML, PortalFile};
use generator::publish;
use serde_json::{Map, Value};

use super::{ROOT, text};
use crate::{loaded, small};

/// Number of operations of the smaller document.
const OPERATIONS: usize = 60;

fn files(root: &Value, versions: &[Version]) -> Vec<PortalFile> {
    let assets = Assets {
        style: Vec::new(),
        script: Vec::new(),
        icon: Vec::new(),
    };
    portal::files(root, None, &[], versions, assets)
}

fn page<'a>(files: &'a [PortalFile], path: &str) -> &'a str {
    text(files.iter().find(|file| file.path == path).expect(path))
}

#[test]
fn pages_of_operations_name_the_last_version_that_changed_them() {
    let root = publish::authored(&loaded(&small()).expect("a document").root);
    let current = history::facts(&root);
    let version = |name: &str, change: &dyn Fn(&mut Facts)| {
        let mut facts = current.clone();
        change(&mut facts);
        Version {
            name: name.to_owned(),
            facts,
        }
    };
    let versions = [
        version("2026-01-01", &|facts| {
            facts.retain(|key, _| key.split(' ').nth(1) != Some("delete_key"));
            facts.insert("access get_raw_key".to_owned(), "project owner".to_owned());
            // Nearly all operations have this response, so it is no change of the operation.
            facts.insert(
                "statuses create_key".to_owned(),
                current["statuses create_key"].replace(" 401", ""),
            );
        }),
        version("2026-02-02", &|facts| {
            facts.insert("access get_raw_key".to_owned(), "project owner".to_owned());
        }),
    ];
    let files = files(&root, &versions);
    let markdown = |id: &str| page(&files, &format!("docs/operation/{id}.md"));
    let added = "- Added in: [2026-02-02](/docs/changelog.md#2026-02-02)\n";
    assert!(
        markdown("delete_key").contains(added),
        "{}",
        markdown("delete_key")
    );
    let changed = "- Changed in: [Unreleased](/docs/changelog.md#unreleased)\n";
    assert!(
        markdown("get_raw_key").contains(changed),
        "{}",
        markdown("get_raw_key")
    );
    assert!(current["statuses create_key"].contains(" 401"));
    assert!(
        !markdown("create_key").contains("Changed in"),
        "{}",
        markdown("create_key")
    );
    assert!(page(&files, "docs/changelog").contains("id=\"2026-02-02\""));
}

/// Returns a document with all tags of the first operations.
fn part_of_document() -> Value {
    let mut root = ROOT.clone();
    let mut tags: Vec<String> = Vec::new();
    let mut count = 0;
    if let Some(paths) = root["paths"].as_object_mut() {
        paths.retain(|_, item| {
            let operations = item.as_object().into_iter().flat_map(Map::values);
            let own: Vec<_> = operations.filter_map(|one| one["tags"][0].as_str()).collect();
            count += own.len();
            if count <= OPERATIONS {
                tags.extend(own.into_iter().map(str::to_owned));
            }
            count <= OPERATIONS
        });
    }
    root["tags"]
        .as_array_mut()
        .expect("tags")
        .retain(|tag| tags.iter().any(|name| tag["name"] == name.as_str()));
    root["x-tagGroups"] = Value::Null;
    root
}

/// Returns a document with a copy of each operation, in a tag of its own.
fn doubled(root: &Value) -> Value {
    let mut doubled = root.clone();
    let copies = root["paths"]
        .as_object()
        .expect("paths")
        .iter()
        .map(|(path, item)| {
            let mut item = item.clone();
            for operation in item.as_object_mut().expect("an item").values_mut() {
                if let Some(id) = operation["operationId"].as_str() {
                    operation["operationId"] = format!("copy_of_{id}").into();
                    let tag = operation["tags"][0].as_str().expect("a tag");
                    operation["tags"][0] = format!("Copies of {tag}").into();
                }
            }
            (format!("{path}/copy"), item)
        });
    let copies: Map<String, Value> = copies.collect();
    doubled["paths"].as_object_mut().expect("paths").extend(copies);
    let tags = doubled["tags"].as_array_mut().expect("tags");
    let copies: Vec<Value> = tags
        .iter()
        .map(|tag| {
            let mut tag = tag.clone();
            tag["name"] = format!("Copies of {}", tag["name"].as_str().expect("a name")).into();
            tag
        })
        .collect();
    tags.extend(copies);
    doubled
}

fn main_part(html: &str) -> &str {
    html.split_once("<main ").expect("the main part").1
}

#[test]
fn twice_as_many_operations_enlarge_the_page_of_an_operation_by_a_tenth_at_most() {
    let root = part_of_document();
    let (before, after) = (files(&root, &[]), files(&doubled(&root), &[]));
    let pages = before
        .iter()
        .filter(|file| file.media_type == HTML && file.path.starts_with("docs/operation/"));
    let mut count = 0;
    for file in pages {
        let other = page(&after, &file.path);
        let (size, grown) = (file.content.len(), other.len());
        assert!(
            grown * 10 <= size * 11,
            "{}: {size} bytes, then {grown}",
            file.path
        );
        // Only the list of tags in the navigation becomes longer.
        assert_eq!(main_part(text(file)), main_part(other), "{}", file.path);
        count += 1;
    }
    assert!(count > OPERATIONS / 2, "{count} pages");
    assert!(
        after
            .iter()
            .any(|file| file.path.starts_with("docs/operation/copy_of_"))
    );
}
