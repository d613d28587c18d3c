//! Imports of groups.

use domain::transfers::imports::{ImportStatus, ItemKind, UnmappedItem as Row};
use storage::entities::group_imports::ImportState;

use contract::{GroupImport, GroupImportStatus, Unmapped, UnmappedKind};

/// Returns the status of a group import.
#[must_use]
pub fn group_import(status: ImportStatus) -> GroupImport {
    let count = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let Some(import) = status.import else {
        return GroupImport {
            id: status.group_id,
            import_status: GroupImportStatus::None,
            import_error: None,
            created_at: None,
            groups_count: 0,
            imported_groups_count: 0,
            unmapped_count: 0,
            unmapped: Vec::new(),
        };
    };
    GroupImport {
        id: status.group_id,
        import_status: match import.state {
            ImportState::Scheduled => GroupImportStatus::Scheduled,
            ImportState::Started => GroupImportStatus::Started,
            ImportState::Finished => GroupImportStatus::Finished,
            ImportState::Failed => GroupImportStatus::Failed,
        },
        import_error: import.error,
        created_at: Some(import.created_at.into()),
        groups_count: count(import.report.groups),
        imported_groups_count: count(import.entered),
        unmapped_count: count(import.report.unmapped_count),
        unmapped: import.report.unmapped.into_iter().map(unmapped).collect(),
    }
}

fn unmapped(row: Row) -> Unmapped {
    Unmapped {
        kind: match row.kind {
            ItemKind::Member => UnmappedKind::Member,
            ItemKind::Level => UnmappedKind::Level,
            ItemKind::Visibility => UnmappedKind::Visibility,
            ItemKind::Setting => UnmappedKind::Setting,
            ItemKind::Milestone => UnmappedKind::Milestone,
            ItemKind::Label => UnmappedKind::Label,
            ItemKind::Board => UnmappedKind::Board,
            ItemKind::List => UnmappedKind::List,
            ItemKind::Epic => UnmappedKind::Epic,
            ItemKind::Relation => UnmappedKind::Relation,
        },
        group: row.group,
        name: row.name,
        reason: row.reason,
    }
}
