//! Parts that are shared by several payloads.

use std::sync::Arc;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Serialize, Serializer};
use storage::entities::{Visibility, labels, namespaces, projects, users};

use super::PayloadContext;
use crate::kernel::urls;

/// The server does not support Git over SSH. The fields are present because receivers read them.
const NO_SSH_URL: &str = "";
/// Placeholder for the email address of a user without a public email address.
const REDACTED_EMAIL: &str = "[REDACTED]";

/// The project, including the legacy field names for older receivers.
#[derive(Debug, Default, Serialize)]
pub(super) struct ProjectPart {
    id: i64,
    name: String,
    description: Option<String>,
    web_url: String,
    avatar_url: Option<String>,
    git_ssh_url: &'static str,
    git_http_url: String,
    namespace: String,
    visibility_level: u8,
    path_with_namespace: String,
    default_branch: Option<String>,
    ci_config_path: Option<String>,
    homepage: String,
    url: String,
    ssh_url: &'static str,
    http_url: String,
}

/// The repository, in the legacy format for older receivers.
#[derive(Debug, Serialize)]
pub(super) struct RepositoryPart {
    name: String,
    url: String,
    description: Option<String>,
    homepage: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    git_http_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    git_ssh_url: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    visibility_level: Option<u8>,
}

/// The user who caused the event.
#[derive(Debug, Serialize)]
pub(super) struct UserPart {
    name: String,
    username: String,
    avatar_url: Option<String>,
    email: String,
}

/// A commit. Changed files are included in pushes only.
#[derive(Debug, Serialize)]
pub(super) struct CommitPart {
    id: String,
    message: String,
    title: String,
    timestamp: String,
    url: String,
    author: AuthorPart,
    #[serde(flatten)]
    files: Option<FilesPart>,
}

/// Author of a commit, as stored by Git.
#[derive(Debug, Serialize)]
struct AuthorPart {
    name: String,
    email: String,
}

#[derive(Debug, Serialize)]
struct FilesPart {
    added: Vec<String>,
    modified: Vec<String>,
    removed: Vec<String>,
}

/// A part that a payload can contain several times.
#[derive(Debug)]
pub(super) struct Shared<T>(Arc<T>);

impl<T> Shared<T> {
    pub(super) fn new(part: T) -> Self {
        Self(Arc::new(part))
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Serialize> Serialize for Shared<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// A label.
#[derive(Debug, Serialize)]
pub(super) struct LabelPart {
    id: i64,
    title: String,
    color: String,
    project_id: Option<i64>,
    group_id: Option<i64>,
    description: Option<String>,
    template: bool,
    #[serde(rename = "type")]
    kind: &'static str,
    created_at: String,
    updated_at: String,
}

impl From<labels::Model> for LabelPart {
    fn from(label: labels::Model) -> Self {
        Self {
            id: label.id,
            title: label.title,
            color: label.color,
            project_id: label.project_id,
            group_id: label.namespace_id,
            description: label.description,
            template: false,
            kind: match label.namespace_id {
                Some(_) => "GroupLabel",
                None => "ProjectLabel",
            },
            created_at: date(label.created_at),
            updated_at: date(label.updated_at),
        }
    }
}

/// Formats a date in `object_attributes`. Typed clients parse exactly this format.
pub(super) fn date(time: DateTime<Utc>) -> String {
    time.format("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// Returns the number of a visibility in payloads.
pub(super) fn visibility_level(visibility: Visibility) -> u8 {
    match visibility {
        Visibility::Private => 0,
        Visibility::Internal => 10,
        Visibility::Public => 20,
    }
}

/// Returns the URL of a user's avatar.
pub(super) fn avatar_url(base_url: &str, user: &users::Model) -> Option<String> {
    Some(urls::user_avatar_url(base_url, user.id, user.avatar.as_deref()))
}

/// Returns the email address that a user shows to others. Receivers must not receive another address: a Maintainer
/// chooses the receiver, and cannot read the addresses of users.
pub(super) fn public_email(user: &users::Model) -> Option<&str> {
    user.public_email.as_deref().filter(|email| !email.is_empty())
}

impl ProjectPart {
    /// Creates the payload part of a project in its namespace.
    pub fn new(base_url: &str, namespace: &namespaces::Model, project: &projects::Model) -> Self {
        let path = urls::project_path(namespace, project);
        let web_url = format!("{base_url}/{path}");
        let http_url = format!("{web_url}.git");
        Self {
            id: project.id,
            name: project.name.clone(),
            description: project.description.clone(),
            avatar_url: urls::avatar_url(base_url, "project", project.id, project.avatar.as_deref()),
            git_ssh_url: NO_SSH_URL,
            git_http_url: http_url.clone(),
            namespace: namespace.name.clone(),
            visibility_level: visibility_level(project.visibility),
            path_with_namespace: path,
            default_branch: project.default_branch.clone(),
            ci_config_path: project.ci_config_path.clone(),
            homepage: web_url.clone(),
            web_url,
            url: http_url.clone(),
            ssh_url: NO_SSH_URL,
            http_url,
        }
    }

    /// Creates the payload part of a project that receivers may not see. It has only the ID.
    pub fn hidden(project: &projects::Model) -> Self {
        Self {
            id: project.id,
            ..Self::default()
        }
    }
}

impl PayloadContext {
    fn path(&self) -> String {
        urls::project_path(&self.namespace, &self.project)
    }

    /// Returns the URL of the project.
    pub(super) fn web_url(&self) -> String {
        format!("{}/{}", self.base_url, self.path())
    }

    /// Returns the URL of a commit.
    pub(super) fn commit_url(&self, id: &str) -> String {
        format!("{}/-/commit/{id}", self.web_url())
    }

    pub(super) fn project_part(&self) -> ProjectPart {
        ProjectPart::new(&self.base_url, &self.namespace, &self.project)
    }

    /// Returns the payload part of the repository. `with_urls` adds the fields of push payloads.
    pub(super) fn repository_part(&self, with_urls: bool) -> RepositoryPart {
        let web_url = self.web_url();
        let http_url = format!("{web_url}.git");
        RepositoryPart {
            name: self.project.name.clone(),
            description: self.project.description.clone(),
            git_http_url: with_urls.then(|| http_url.clone()),
            git_ssh_url: with_urls.then_some(NO_SSH_URL),
            visibility_level: with_urls.then(|| visibility_level(self.project.visibility)),
            homepage: web_url,
            url: http_url,
        }
    }

    /// Returns the author of the event, or a ghost user if the author was deleted.
    pub(super) fn user_part(&self) -> UserPart {
        match &self.author {
            Some(user) => self.person_part(user),
            None => UserPart {
                name: "Ghost User".to_owned(),
                username: "ghost".to_owned(),
                avatar_url: None,
                email: String::new(),
            },
        }
    }

    /// Returns the payload part of a user.
    pub(super) fn person_part(&self, user: &users::Model) -> UserPart {
        UserPart {
            name: user.name.clone(),
            username: user.username.clone(),
            avatar_url: avatar_url(&self.base_url, user),
            email: public_email(user).unwrap_or(REDACTED_EMAIL).to_owned(),
        }
    }

    pub(super) fn commit_part(&self, commit: git::Commit, files: Option<git::ChangedPaths>) -> CommitPart {
        let id = commit.id.to_string();
        CommitPart {
            url: self.commit_url(&id),
            title: commit.title().to_owned(),
            timestamp: commit.committer.time.to_rfc3339_opts(SecondsFormat::Secs, false),
            author: AuthorPart {
                name: commit.author.name,
                email: commit.author.email,
            },
            files: files.map(|files| FilesPart {
                added: files.added,
                modified: files.modified,
                removed: files.removed,
            }),
            message: commit.message,
            id,
        }
    }
}
