//! Metrics dashboards that users star: one built-in dashboard and files in the repository.

mod annotations;

pub use annotations::{DashboardSubject, NewAnnotation, create};

use git::EntryKind;
use percent_encoding::percent_decode_str;
use sea_orm::{ActiveModelTrait, ActiveValue::Set, ColumnTrait, EntityTrait, QueryFilter};
use storage::database::Violation;
use storage::entities::now;
use storage::entities::starred_dashboards::{ActiveModel, Column, Entity, Model};

use crate::code::repository_access;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};

/// The built-in dashboard of every project.
const BUILT_IN_DASHBOARD: &str = "config/prometheus/common_metrics.yml";

/// Folders with dashboard files: that of this service and that of the reference service.
const FOLDERS: [&str; 2] = [".service/dashboards/", ".gitlab/dashboards/"];

/// Extension of dashboard files.
const EXTENSION: &str = ".yml";

/// Stars a dashboard for the caller; the path may be CGI-escaped.
///
/// # Errors
/// Returns `Forbidden` if the dashboards are not available to the caller. Returns a validation error if the path is not
/// a dashboard or is starred already.
pub async fn star(backend: &Backend, access: &ProjectAccess, path: &str) -> Result<Model> {
    access.check_monitor()?;
    let (user_id, path) = (access.caller.signed_in()?.id, unescape(path)?);
    if !dashboard_exists(backend, access, &path).await? {
        return Err(not_found());
    }
    let row = ActiveModel {
        user_id: Set(user_id),
        project_id: Set(access.project.id),
        dashboard_path: Set(path),
        created_at: Set(now()),
        ..Default::default()
    };
    let result = row.insert(backend.database.write()).await;
    result.map_err(|error| match Violation::of(&error) {
        Some(Violation::Unique(_)) => Error::attribute("dashboard_path", "has already been taken"),
        // The project was deleted concurrently.
        Some(Violation::ForeignKey(_)) => Error::not_found("Project"),
        _ => error.into(),
    })
}

/// Removes the caller's stars in a project, or that of one dashboard, and returns their number.
///
/// # Errors
/// Returns `Forbidden` as [`star`], and a validation error if the path is not valid text.
pub async fn unstar(backend: &Backend, access: &ProjectAccess, path: Option<&str>) -> Result<u64> {
    access.check_monitor()?;
    let mut own = Entity::delete_many()
        .filter(Column::UserId.eq(access.caller.signed_in()?.id))
        .filter(Column::ProjectId.eq(access.project.id));
    if let Some(path) = path {
        own = own.filter(Column::DashboardPath.eq(unescape(path)?));
    }
    let removed = own.exec(backend.database.write()).await?;
    Ok(removed.rows_affected)
}

fn not_found() -> Error {
    Error::Rejected("Dashboard with requested path can not be found".into())
}

/// Decodes the CGI escapes of a path once.
fn unescape(path: &str) -> Result<String> {
    let spaced = path.replace('+', " ");
    let text = percent_decode_str(&spaced).decode_utf8().ok();
    let text = text.filter(|text| !text.contains('\0'));
    let text = text.ok_or_else(|| Error::parameter("dashboard_path is invalid"))?;
    match text.trim().is_empty() {
        true => Err(Error::parameter("dashboard_path is empty")),
        false => Ok(text.into_owned()),
    }
}

/// Returns whether a path can be a dashboard file: directly in one of the folders.
fn is_dashboard_path(path: &str) -> bool {
    let inside = |folder: &&str| {
        let name = path.strip_prefix(*folder);
        name.is_some_and(|name| {
            name.len() > EXTENSION.len() && name.ends_with(EXTENSION) && !name.contains('/')
        })
    };
    FOLDERS.iter().any(inside)
}

/// Returns whether a dashboard exists on the default branch and is visible to the caller.
async fn dashboard_exists(backend: &Backend, access: &ProjectAccess, path: &str) -> Result<bool> {
    if path == BUILT_IN_DASHBOARD {
        return Ok(true);
    }
    if !is_dashboard_path(path) || !access.can_read_code() {
        return Ok(false);
    }
    let repository = repository_access::open(backend, access);
    let Some(commit) = repository_access::default_branch_head(&repository, &access.project).await? else {
        return Ok(false);
    };
    let found = repository.locate(commit, path).await?.entry;
    Ok(found.is_some_and(|entry| entry.kind == EntryKind::Blob && entry.path == path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashboard_path_is_unescaped_once() {
        for (sent, expected) in [
            (".service/dashboards/a.yml", ".service/dashboards/a.yml"),
            (".service%2Fdashboards%2Fa%26b.yml", ".service/dashboards/a&b.yml"),
            ("a+b%2Bc", "a b+c"),
            ("a%252Fb", "a%2Fb"),
            ("100%", "100%"),
            ("%zz", "%zz"),
            ("%C3%A4", "ä"),
        ] {
            assert_eq!(unescape(sent).expect("a path"), expected, "{sent}");
        }
        for bad in ["%FF", "%00", "a%00b", "+", "%20%09"] {
            assert!(unescape(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn dashboard_must_be_yml_file_directly_in_folder() {
        for good in [".service/dashboards/a.yml", ".gitlab/dashboards/a b.yml"] {
            assert!(is_dashboard_path(good), "{good}");
        }
        for bad in [
            ".service/dashboards/.yml",
            ".service/dashboards/a.yaml",
            ".service/dashboards/a/b.yml",
            ".service/dashboards/../a.yml",
            ".service/dashboards//a.yml",
            "service/dashboards/a.yml",
            "README.md",
            "a.yml",
        ] {
            assert!(!is_dashboard_path(bad), "{bad}");
        }
    }
}
