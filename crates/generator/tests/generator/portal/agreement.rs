//! The pages about all operations agree with the document: the table of roles, the errors and the changes.

use std::collections::{BTreeMap, BTreeSet};

use generator::portal::history::{self, Change, Version};
use serde_json::Value;

use super::{ROOT, operations, page};
use crate::contract_folder;

/// Roles in ascending order. The columns of the table of roles are anonymous callers and these roles.
const ROLES: [&str; 7] = [
    "none",
    "guest",
    "reporter",
    "developer",
    "maintainer",
    "owner",
    "admin",
];

/// Returns the cells of an operation in the table of roles.
fn callers(access: &Value) -> Vec<&'static str> {
    let (on, min) = (access["on"].as_str().unwrap_or_default(), access["min"].as_str());
    let in_space = matches!(on, "project" | "group");
    let others = match (access["anonymous"] == true, in_space) {
        (false, _) => "no",
        (true, true) => "public",
        (true, false) => "yes",
    };
    if on == "scim" {
        return vec!["SCIM token of the group"];
    }
    let lowest = ROLES.iter().position(|role| Some(*role) == min).expect("a role");
    let cell = |(at, role): (usize, &&str)| match *role {
        "guest" | "reporter" | "developer" | "maintainer" if !in_space => "-",
        "owner" if !in_space && on != "user" => "-",
        _ if at >= lowest => "yes",
        _ => others,
    };
    let roles = ROLES.iter().enumerate().map(cell);
    std::iter::once(others).chain(roles).collect()
}

#[test]
fn table_of_roles_shows_the_access_rules_of_all_operations() {
    let mut rows = BTreeMap::new();
    let start = "<tr><th scope=\"row\"><a href=\"/docs/operation/";
    for row in page("docs/roles").split(start).skip(1) {
        let (row, _) = row.split_once("</tr>").expect("the end of the row");
        let (id, row) = row.split_once('"').expect("an ID");
        let cells = row.split("<td").skip(1).map(|cell| {
            let texts = cell.split('<').filter_map(|part| part.split_once('>'));
            texts.map(|(_, text)| text).collect::<String>()
        });
        let previous = rows.insert(id, cells.collect::<Vec<_>>());
        assert_eq!(previous, None, "{id}");
    }
    for operation in operations() {
        let id = operation["operationId"].as_str().expect("an ID");
        let row = rows.remove(id).expect(id);
        assert_eq!(row, callers(&operation["x-access"]), "{id}");
    }
    assert!(rows.is_empty(), "{rows:?}");
}

#[test]
fn page_of_errors_lists_the_operations_of_each_response() {
    let operations = operations();
    let mut sections: BTreeMap<&str, &str> = page("docs/errors.md")
        .split("\n## ")
        .skip(1)
        .filter_map(|section| section.split_once('\n'))
        .collect();
    for name in ROOT["components"]["responses"]
        .as_object()
        .expect("responses")
        .keys()
    {
        let section = sections.remove(name.as_str()).expect(name);
        let target = format!("#/components/responses/{name}");
        let (mut users, mut statuses) = (BTreeSet::new(), BTreeSet::new());
        for operation in &operations {
            for (status, response) in operation["responses"].as_object().expect("responses") {
                if response["$ref"] == target.as_str() {
                    users.insert(operation["operationId"].as_str().expect("an ID"));
                    statuses.insert(status);
                }
            }
        }
        for status in statuses {
            assert!(section.contains(&format!("Status `{status}`")), "{name}");
        }
        if section.contains("Nearly all operations can return this response.") {
            assert!(
                users.len() * 10 >= operations.len() * 8,
                "{name} has {} operations",
                users.len()
            );
            continue;
        }
        let count = format!("Operations with this response: {}\n", users.len());
        assert!(section.contains(&count), "{name}: {count}");
        let targets = section.split("(/docs/operation/").skip(1);
        let listed = targets
            .filter_map(|rest| rest.split_once(".md)"))
            .map(|(id, _)| id);
        assert_eq!(listed.collect::<BTreeSet<_>>(), users, "{name}");
    }
    assert!(sections.is_empty(), "{:?}", sections.keys());
}

/// Returns the subject of a line of a list, which can be a link, and the text after it.
fn subject(line: &str) -> Option<(String, String)> {
    let (subject, text) = line.strip_prefix("- ")?.split_once(": ")?;
    let subject = match subject.strip_prefix("[`") {
        Some(link) => link.split('`').next().unwrap_or_default(),
        None => subject.trim_matches('`'),
    };
    Some((subject.to_owned(), text.to_owned()))
}

/// Returns the expected line of a change.
fn line(change: &Change) -> (String, String) {
    let mut text = change.kind().to_owned();
    if let Some(part) = change.key.splitn(3, ' ').nth(2) {
        text.push_str(&format!(" `{part}`"));
    }
    match (change.before.as_deref(), change.after.as_deref()) {
        (None, Some("listed" | "deprecated")) => text.push_str(" added"),
        (None, Some(after)) => text.push_str(&format!(" added: {after}")),
        (Some(before), Some(after)) => text.push_str(&format!(" changed from `{before}` to `{after}`")),
        _ => text.push_str(" removed"),
    }
    text.push_str(if change.is_breaking() { " (breaking)" } else { "" });
    (change.owner().to_owned(), text)
}

/// Returns the expected lines of changes of statuses: one for all operations with the same change.
fn status_lines(changes: &[&Change]) -> Vec<(String, String)> {
    let mut groups: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for change in changes {
        let [added, removed] = change.statuses().expect("statuses");
        let parts = [("added", added), ("removed", removed)];
        let parts = parts.into_iter().filter(|(_, statuses)| !statuses.is_empty());
        let parts =
            parts.map(|(verb, all)| format!("{verb} {}", all.into_iter().collect::<Vec<_>>().join(", ")));
        let text = parts.collect::<Vec<_>>().join(" ");
        groups.entry(text).or_default().push(change.owner());
    }
    let lines = groups.into_iter().map(|(text, owners)| match owners.as_slice() {
        [owner] => ((*owner).to_owned(), text),
        owners => (format!("{} operations", owners.len()), text),
    });
    lines.collect()
}

#[test]
fn page_of_changes_lists_all_differences_of_the_versions() {
    let mut versions = history::load(&contract_folder()).expect("versions");
    versions.push(Version {
        name: "Unreleased".to_owned(),
        facts: history::facts(&ROOT),
    });
    let text = page("docs/changelog.md");
    for pair in versions.windows(2) {
        let (before, after) = (&pair[0], &pair[1]);
        let heading = format!("\n## {}\n\nCompared with `{}`.\n", after.name, before.name);
        let (_, section) = text.split_once(&heading).expect("a section");
        let section = section.split("\n## ").next().unwrap_or_default();
        let mut found: Vec<_> = section.lines().filter_map(subject).collect();

        let changes = history::compare(&before.facts, &after.facts);
        let (statuses, rest): (Vec<&Change>, Vec<&Change>) =
            changes.iter().partition(|change| change.statuses().is_some());
        let (added, other): (Vec<&Change>, Vec<&Change>) = rest
            .into_iter()
            .partition(|change| change.kind() == "operation" && change.before.is_none());
        for change in &added {
            let link = format!("(/docs/operation/{}.md)", change.owner());
            let is_listed = |(subject, _): &(String, String)| subject.contains(&link);
            let at = found.iter().position(is_listed);
            // A later version can have removed the operation.
            if let Some(at) = at {
                found.remove(at);
            }
        }
        let mut expected: Vec<_> = other.iter().map(|change| line(change)).collect();
        expected.extend(status_lines(&statuses));
        expected.sort();
        found.sort();
        assert_eq!(found, expected, "{}", after.name);
        let breaking = other.iter().filter(|change| change.is_breaking()).count();
        for (title, count) in [
            ("Breaking changes", breaking),
            ("Other changes", other.len() - breaking),
        ] {
            let heading = format!("### {title}: {count}\n");
            assert_eq!(section.contains(&heading), count > 0, "{}: {heading}", after.name);
        }
        let ids = operations()
            .into_iter()
            .filter_map(|operation| operation["operationId"].as_str());
        let ids: BTreeSet<&str> = ids.collect();
        let count = added.iter().filter(|change| ids.contains(change.owner())).count();
        assert!(
            section.contains(&format!("### Added operations: {count}\n")),
            "{}",
            after.name
        );
    }
}
