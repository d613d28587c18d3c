//! `docs/AUDIT.md` lists the kinds of audit events.

use std::collections::BTreeSet;

use domain::audit::{AuditEntityType, AuditKind};

fn entity_name(kind: AuditEntityType) -> &'static str {
    match kind {
        AuditEntityType::User => "User",
        AuditEntityType::Group => "Group",
        AuditEntityType::Project => "Project",
        AuditEntityType::Instance => "Instance",
    }
}

fn page_lists_every_kind() {
    let page = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/AUDIT.md"));
    let rows = page.lines().filter(|line| line.starts_with("| `") && !line.starts_with("| `GET "));
    let listed: Vec<&str> = rows.filter(|row| row.matches(" | ").count() == 2).collect();
    let expected: Vec<String> = AuditKind::ALL
        .iter()
        .map(|kind| {
            let entities: Vec<&str> = kind.entity_types().iter().map(|kind| entity_name(*kind)).collect();
            format!("| `{}` | {} | {} |", kind.name(), entities.join(", "), kind.description())
        })
        .collect();
    assert_eq!(listed, expected);
}

fn kinds_have_distinct_names() {
    let names: BTreeSet<&str> = AuditKind::ALL.iter().map(|kind| kind.name()).collect();
    assert_eq!(names.len(), AuditKind::ALL.len());
}

harness::tests![page_lists_every_kind, kinds_have_distinct_names];
