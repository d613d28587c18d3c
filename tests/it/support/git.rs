//! The real git client, and projects to use it on.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use holdfast::entities::access_tokens::Kind;
use holdfast::entities::{
    AccessLevel, Visibility, fold, members, namespace_ancestors, namespaces, now, projects, users,
};
use holdfast::git::{Repository, RepositoryId};
use holdfast::services::Backend;
use holdfast::services::access_tokens::{self, NewToken};
use holdfast::services::users::{self as accounts, NewUser};
use sea_orm::{ActiveModelTrait, ActiveValue::Set};

/// The password of every person.
pub const PASSWORD: &str = "correct horse battery";

/// A user with a token.
pub struct Person {
    /// The row.
    pub user: users::Model,
    /// A token with the scope `api`.
    pub token: String,
}

/// A user with a token of the scope `api`.
pub async fn person(backend: &Backend, name: &str) -> Person {
    let new = NewUser {
        username: name.to_owned(),
        name: name.to_owned(),
        email: format!("{name}@example.com"),
        password: Some(PASSWORD.to_owned()),
        admin: false,
    };
    let user = accounts::create(backend, new).await.expect("a user");
    let token = token(backend, user.id, &["api"]).await;
    Person { user, token }
}

/// A token of a user with these scopes.
pub async fn token(backend: &Backend, user_id: i64, scopes: &[&str]) -> String {
    let new = NewToken {
        user_id,
        name: "test".to_owned(),
        kind: Kind::Personal,
        scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
        expires_at: None,
        created_by_id: None,
        secret: None,
    };
    access_tokens::create(backend, new).await.expect("a token").1
}

/// The namespace of a path, made with all above it where it is missing.
pub async fn group(backend: &Backend, full_path: &str) -> i64 {
    let mut parent = None;
    let mut whole = String::new();
    for path in full_path.split('/') {
        if !whole.is_empty() {
            whole.push('/');
        }
        whole.push_str(path);
        let found = namespaces::by_full_path(backend.database.read(), &whole)
            .await
            .expect("a lookup");
        if let Some(found) = found {
            parent = Some(found.id);
            continue;
        }
        let row = namespaces::ActiveModel {
            kind: Set(namespaces::Kind::Group),
            parent_id: Set(parent),
            name: Set(path.to_owned()),
            name_key: Set(fold(path)),
            path: Set(path.to_owned()),
            full_path: Set(whole.clone()),
            full_path_key: Set(fold(&whole)),
            visibility: Set(Visibility::Public),
            created_at: Set(now()),
            updated_at: Set(now()),
            ..Default::default()
        };
        let row = row.insert(backend.database.write()).await.expect("a namespace");
        namespace_ancestors::insert(backend.database.write(), row.id, parent)
            .await
            .expect("ancestors");
        parent = Some(row.id);
    }
    parent.expect("a namespace")
}

/// A project of this path with an empty repository whose HEAD is `main`.
pub async fn project(backend: &Backend, full_path: &str, visibility: Visibility) -> projects::Model {
    let (namespace, path) = full_path.rsplit_once('/').expect("a whole path");
    let row = projects::ActiveModel {
        namespace_id: Set(group(backend, namespace).await),
        name: Set(path.to_owned()),
        name_key: Set(fold(path)),
        path: Set(path.to_owned()),
        path_key: Set(fold(path)),
        visibility: Set(visibility),
        last_activity_at: Set(now()),
        created_at: Set(now()),
        updated_at: Set(now()),
        ..Default::default()
    };
    let row = row.insert(backend.database.write()).await.expect("a project");
    backend
        .repositories
        .create(&RepositoryId::of_project(row.id), "main")
        .await
        .expect("a repository");
    row
}

/// Makes somebody a member of a project.
pub async fn member(backend: &Backend, project: &projects::Model, person: &Person, level: AccessLevel) {
    let row = members::ActiveModel {
        user_id: Set(person.user.id),
        project_id: Set(Some(project.id)),
        access_level: Set(level),
        created_at: Set(now()),
        updated_at: Set(now()),
        ..Default::default()
    };
    row.insert(backend.database.write()).await.expect("a member");
}

/// The row of a project as it is now.
pub async fn reload(backend: &Backend, project: &projects::Model) -> projects::Model {
    let found = projects::by_reference(backend.database.read(), &project.id.to_string()).await;
    found.expect("a lookup").expect("the project").0
}

/// The repository of a project.
pub fn repository(backend: &Backend, project: &projects::Model) -> Repository {
    backend
        .repositories
        .repository(&RepositoryId::of_project(project.id))
}

/// `http://name:password@host/path`.
pub fn address(base: &str, name: &str, password: &str, path: &str) -> String {
    let host = base.strip_prefix("http://").expect("an address");
    let password = super::client::segment(password);
    format!("http://{name}:{password}@{host}/{path}.git")
}

/// A directory in which the git client runs.
pub struct Work {
    /// Where it is.
    pub path: PathBuf,
    _guard: Option<tempfile::TempDir>,
}

impl Work {
    /// A working copy with a first commit on `main`.
    pub async fn new() -> Self {
        let work = Self::empty();
        work.git(&["init", "--quiet", "--initial-branch=main", "."]).await;
        work.commit("README", "hello").await;
        work
    }

    /// An empty directory.
    pub fn empty() -> Self {
        let guard = tempfile::tempdir().expect("a directory");
        Self {
            path: guard.path().to_owned(),
            _guard: Some(guard),
        }
    }

    /// A directory below.
    pub fn below(&self, name: &str) -> Self {
        Self {
            path: self.path.join(name),
            _guard: None,
        }
    }

    /// Writes a file and commits it; answers the commit's id.
    pub async fn commit(&self, file: &str, content: &str) -> String {
        std::fs::write(self.path.join(file), content).expect("a file");
        self.git(&["add", "--all"]).await;
        self.git(&["commit", "--quiet", "--allow-empty", "-m", file])
            .await;
        self.git(&["rev-parse", "HEAD"]).await
    }

    /// Runs git, which must succeed; answers what it printed.
    pub async fn git(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments).await;
        assert!(output.status.success(), "git {arguments:?}: {}", said(&output));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Runs git, which must fail; answers what it said.
    pub async fn fails(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments).await;
        assert!(
            !output.status.success(),
            "git {arguments:?} succeeded: {}",
            said(&output)
        );
        said(&output)
    }

    /// Runs git to whatever end.
    pub async fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().await.expect("git")
    }

    /// A run of git, untouched by the machine's configuration, not yet started.
    pub fn command(&self, arguments: &[&str]) -> tokio::process::Command {
        command(&self.path, arguments)
    }
}

fn command(directory: &Path, arguments: &[&str]) -> tokio::process::Command {
    let mut command = tokio::process::Command::new("git");
    command
        .args(["-c", "user.name=A", "-c", "user.email=a@example.com"])
        .args(["-c", "gc.auto=0", "-c", "maintenance.auto=false"])
        .args(arguments)
        .current_dir(directory)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("LC_ALL", "C")
        .env_remove("http_proxy")
        .env_remove("all_proxy")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

/// All that a program said.
pub fn said(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}
