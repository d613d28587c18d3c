//! Addresses that both answers and webhooks tell.

use crate::entities::{namespaces, projects};

/// The address of a picture, when there is one; `kind` is `user`, `group` or `project`.
#[must_use]
pub fn avatar_url(base: &str, kind: &str, id: i64, file: Option<&str>) -> Option<String> {
    file.map(|file| format!("{base}/uploads/-/system/{kind}/avatar/{id}/{file}"))
}

/// The whole path of a project.
#[must_use]
pub fn project_path(namespace: &namespaces::Model, project: &projects::Model) -> String {
    format!("{}/{}", namespace.full_path, project.path)
}

/// Where the repository of the project with this whole path would be reached by SSH.
#[must_use]
pub fn ssh_url(base: &str, path: &str) -> String {
    let host = base.split_once("://").map_or(base, |(_, rest)| rest);
    let host = host.split(['/', ':']).next().unwrap_or_default();
    format!("git@{host}:{path}.git")
}
