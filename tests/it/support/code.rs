//! Projects with repositories that tests fill with the git program, and their members.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Stdio;

use ::git::RepositoryId;
use sea_orm::{ActiveModelTrait, ActiveValue::Set, EntityTrait};
use storage::entities::{AccessLevel, Visibility, namespaces, now, projects, protected_branches, protected_tags};

use super::{Client, TestServer, git};

/// A project of the administrator and its repository on disk.
pub struct Project<'a> {
    /// Server of the project.
    pub server: &'a TestServer,
    /// ID of the project.
    pub id: i64,
    /// Full path of the project.
    pub path: String,
    /// Directory of the repository.
    pub directory: PathBuf,
}

/// One commit for [`Project::import`].
pub struct NewCommit<'a> {
    /// Branch of the commit.
    pub branch: &'a str,
    /// Start of a new branch; `None` for a root commit.
    pub from: Option<&'a str>,
    /// `Name <address>` of the author.
    pub author: &'a str,
    /// Seconds since the epoch.
    pub time: i64,
    /// Changes in the format of `git fast-import`.
    pub changes: String,
}

impl Default for NewCommit<'_> {
    fn default() -> Self {
        Self {
            branch: "main",
            from: None,
            author: "Ada Lovelace <ada@example.com>",
            time: 1_600_000_000,
            changes: String::new(),
        }
    }
}

/// Returns the fast-import command that writes a file.
pub fn file(path: &str, content: &str) -> String {
    format!("M 100644 inline \"{path}\"\ndata {}\n{content}\n", content.len())
}

impl<'a> Project<'a> {
    /// Creates an empty project.
    pub async fn empty(server: &'a TestServer, name: &str, visibility: Visibility) -> Self {
        let root = namespaces::by_full_path(server.backend.database.read(), "root").await;
        let root = root.expect("a query").expect("the administrator's namespace");
        let id = server.insert_project(root.id, name, visibility).await.id;
        let on_disk = format!("{:?}", RepositoryId::of_project(id));
        let directory =
            server.data().join("repositories").join(&on_disk[..2]).join(&on_disk[2..4]).join(format!("{on_disk}.git"));
        Self { server, id, path: format!("{}/{name}", root.full_path), directory }
    }

    /// Creates a project with two commits on the protected default branch `main`. `feature/x` has one commit more than
    /// the first, and `merged` points to the first.
    pub async fn with_commits(server: &'a TestServer, name: &str, visibility: Visibility) -> Self {
        let project = Self::empty(server, name, visibility).await;
        project.import(&NewCommit {
            changes: format!(
                "{}{}{}M 100755 inline run.sh\ndata 2\n:\n\nM 120000 inline link\ndata 9\nREADME.md\n\
                 M 160000 570e7b2abdd848b95f2f578043fc23bd6f6fd24d module\n",
                file("README.md", "Hello\n"),
                file("docs/guide.md", "Read me.\n"),
                file("docs/deep/note.txt", "Deep.\n"),
            ),
            ..NewCommit::default()
        });
        project.import(&NewCommit {
            time: 1_600_000_100,
            author: "Bob <bob@example.com>",
            changes: file("README.md", "Hello, world\n"),
            ..NewCommit::default()
        });
        project.import(&NewCommit {
            branch: "feature/x",
            from: Some("refs/heads/main~1"),
            time: 1_600_000_200,
            changes: file("x.txt", "x\n"),
            ..NewCommit::default()
        });
        project.git(&["branch", "merged", "main~1"]);
        project.set_default_branch("main").await;
        project.protect("main", 40, 40).await;
        project
    }

    /// Returns an API path below the repository of the project.
    pub fn url(&self, rest: &str) -> String {
        format!("/projects/{}/repository{rest}", self.id)
    }

    /// Runs a `git` command that must succeed and returns its output without the last line break.
    pub fn git(&self, arguments: &[&str]) -> String {
        self.git_with(arguments, "")
    }

    /// Runs a `git` command like [`Self::git`], with input.
    pub fn git_with(&self, arguments: &[&str], input: &str) -> String {
        self.run(arguments, input.as_bytes()).trim_end().to_owned()
    }

    /// Runs a `git` command like [`Self::git`] and keeps the last line break.
    pub fn git_raw(&self, arguments: &[&str]) -> String {
        self.run(arguments, b"")
    }

    /// Sends a stream to `git fast-import`.
    pub fn fast_import(&self, stream: &[u8]) {
        self.run(&["fast-import", "--quiet", "--force"], stream);
    }

    /// Checks the repository with `git fsck`.
    pub fn fsck(&self) {
        self.git(&["fsck", "--strict", "--no-dangling"]);
    }

    fn run(&self, arguments: &[&str], input: &[u8]) -> String {
        let mut child = git::command(&self.directory, arguments)
            .envs(["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"].map(|name| (name, "Tess Tester")))
            .envs(["GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"].map(|name| (name, "tess@example.com")))
            .envs(["GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"].map(|name| (name, "1600000300 +0200")))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("git");
        // A program that exits early reports its error below.
        let _ = child.stdin.take().expect("stdin").write_all(input);
        let output = child.wait_with_output().expect("output");
        assert!(output.status.success(), "git {arguments:?}: {}", git::output_text(&output));
        self.server.backend.database.invalidate();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Creates a commit on a branch and returns its ID.
    pub fn import(&self, commit: &NewCommit<'_>) -> String {
        let (author, time) = (commit.author, commit.time);
        let message = format!("Change {}\n\nAt {time}.\n", commit.branch);
        let mut stream = format!(
            "commit refs/heads/{}\nauthor {author} {time} +0200\ncommitter {author} {time} +0200\ndata {}\n{message}",
            commit.branch,
            message.len(),
        );
        let tip = format!("refs/heads/{}", commit.branch);
        let exists = !self.git(&["for-each-ref", "--format=%(refname)", &tip]).is_empty();
        let own = exists.then(|| format!("{tip}^0"));
        if let Some(from) = commit.from.or(own.as_deref()) {
            let id = self.id(from);
            writeln!(stream, "from {id}").expect("text");
        }
        stream.push_str(&commit.changes);
        self.fast_import(stream.as_bytes());
        self.id(&tip)
    }

    /// Returns the ID of a revision.
    pub fn id(&self, revision: &str) -> String {
        self.git(&["rev-parse", "--verify", revision])
    }

    /// Returns the names of the refs below a prefix.
    pub fn references(&self, prefix: &str) -> Vec<String> {
        let listed = self.git(&["for-each-ref", "--format=%(refname:lstrip=2)", prefix]);
        listed.lines().map(str::to_owned).collect()
    }

    /// Updates the row of the project.
    pub async fn update(&self, change: impl FnOnce(&mut projects::ActiveModel)) {
        let mut row = projects::ActiveModel { id: Set(self.id), ..Default::default() };
        change(&mut row);
        row.update(self.server.backend.database.write()).await.expect("a change");
    }

    /// Returns the row of the project.
    pub async fn project(&self) -> projects::Model {
        projects::Entity::find_by_id(self.id)
            .one(self.server.backend.database.read())
            .await
            .expect("projects")
            .expect("the project")
    }

    /// Sets the default branch.
    pub async fn set_default_branch(&self, name: &str) {
        self.update(|row| row.default_branch = Set(Some(name.to_owned()))).await;
    }

    /// Archives the project.
    pub async fn archive(&self) {
        self.update(|row| row.archived = Set(true)).await;
    }

    /// Protects a branch or a wildcard.
    pub async fn protect(&self, name: &str, push: i32, merge: i32) {
        let row = protected_branches::ActiveModel {
            project_id: Set(self.id),
            name: Set(name.to_owned()),
            push_access_level: Set(push),
            merge_access_level: Set(merge),
            created_at: Set(now()),
            updated_at: Set(now()),
            ..Default::default()
        };
        row.insert(self.server.backend.database.write()).await.expect("a protection");
    }

    /// Protects a tag or a wildcard.
    pub async fn protect_tags(&self, name: &str, level: i32) {
        let row = protected_tags::ActiveModel {
            project_id: Set(self.id),
            name: Set(name.to_owned()),
            create_access_level: Set(level),
            created_at: Set(now()),
            updated_at: Set(now()),
            ..Default::default()
        };
        row.insert(self.server.backend.database.write()).await.expect("a protection");
    }

    /// Creates a user with a role in the project and returns its client.
    pub async fn member(&self, name: &str, role: AccessLevel) -> Client {
        let user = self.server.create_user(name).await;
        self.server.insert_member(self.id, user.id, role).await;
        user.client
    }
}
