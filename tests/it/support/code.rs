//! Projects with real repositories, filled by the git program behind the server's back, and their members.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Stdio;

use ::git::RepositoryId;
use sea_orm::{ActiveModelTrait, ActiveValue::Set, EntityTrait};
use storage::entities::{AccessLevel, Visibility, namespaces, now, projects, protected_branches};

use super::{Client, TestServer, git};

/// A project of the administrator and its repository on disk.
pub struct Project<'a> {
    /// The server it is on.
    pub server: &'a TestServer,
    /// The id.
    pub id: i64,
    /// The whole path.
    pub path: String,
    /// The repository's directory.
    pub directory: PathBuf,
}

/// One commit for [`Project::import`].
pub struct NewCommit<'a> {
    /// The branch it is made on.
    pub branch: &'a str,
    /// What a new branch starts from; nothing when absent.
    pub from: Option<&'a str>,
    /// `Name <address>` of the author.
    pub author: &'a str,
    /// Seconds since the epoch.
    pub time: i64,
    /// The changes, in the words of `git fast-import`.
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

/// The fast-import command that writes a file.
pub fn file(path: &str, content: &str) -> String {
    format!("M 100644 inline \"{path}\"\ndata {}\n{content}\n", content.len())
}

impl<'a> Project<'a> {
    /// An empty project.
    pub async fn empty(server: &'a TestServer, name: &str, visibility: Visibility) -> Self {
        let root = namespaces::by_full_path(server.backend.database.read(), "root").await;
        let root = root.expect("a query").expect("the administrator's namespace");
        let id = server.bare_project(root.id, name, visibility).await.id;
        let on_disk = format!("{:?}", RepositoryId::of_project(id));
        let directory =
            server.data().join("repositories").join(&on_disk[..2]).join(&on_disk[2..4]).join(format!("{on_disk}.git"));
        Self { server, id, path: format!("{}/{name}", root.full_path), directory }
    }

    /// A project with two commits on its protected default branch `main`, one more on `feature/x`, which comes
    /// from the first, and a branch `merged` at the first.
    pub async fn filled(server: &'a TestServer, name: &str, visibility: Visibility) -> Self {
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

    /// A path of the API below the project's repository.
    pub fn url(&self, rest: &str) -> String {
        format!("/projects/{}/repository{rest}", self.id)
    }

    /// What a `git` command prints in the repository, without its last line end; it has to succeed.
    pub fn git(&self, arguments: &[&str]) -> String {
        self.git_with(arguments, "")
    }

    /// As [`Self::git`], with an input.
    pub fn git_with(&self, arguments: &[&str], input: &str) -> String {
        self.run(arguments, input.as_bytes()).trim_end().to_owned()
    }

    /// As [`Self::git`], with all line ends.
    pub fn printed(&self, arguments: &[&str]) -> String {
        self.run(arguments, b"")
    }

    /// Feeds a stream to `git fast-import`.
    pub fn feed(&self, stream: &[u8]) {
        self.run(&["fast-import", "--quiet", "--force"], stream);
    }

    /// Asserts that the repository is sound.
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
        // A program that fails before it has read everything says why below.
        let _ = child.stdin.take().expect("stdin").write_all(input);
        let output = child.wait_with_output().expect("output");
        assert!(output.status.success(), "git {arguments:?}: {}", git::said(&output));
        self.server.backend.database.forget();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Makes a commit on a branch and answers its id.
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
        self.feed(stream.as_bytes());
        self.id(&tip)
    }

    /// The id that a revision names.
    pub fn id(&self, revision: &str) -> String {
        self.git(&["rev-parse", "--verify", revision])
    }

    /// The names of the references below a prefix.
    pub fn references(&self, prefix: &str) -> Vec<String> {
        let listed = self.git(&["for-each-ref", "--format=%(refname:lstrip=2)", prefix]);
        listed.lines().map(str::to_owned).collect()
    }

    /// Changes the project's row.
    pub async fn update(&self, change: impl FnOnce(&mut projects::ActiveModel)) {
        let mut row = projects::ActiveModel { id: Set(self.id), ..Default::default() };
        change(&mut row);
        row.update(self.server.backend.database.write()).await.expect("a change");
    }

    /// The project's row.
    pub async fn project(&self) -> projects::Model {
        projects::Entity::find_by_id(self.id)
            .one(self.server.backend.database.read())
            .await
            .expect("projects")
            .expect("the project")
    }

    /// Says which branch is the default one.
    pub async fn set_default_branch(&self, name: &str) {
        self.update(|row| row.default_branch = Set(Some(name.to_owned()))).await;
    }

    /// Makes it read-only.
    pub async fn archive(&self) {
        self.update(|row| row.archived = Set(true)).await;
    }

    /// Protects a branch, or a pattern of names.
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

    /// A new user who holds a role in the project.
    pub async fn member(&self, name: &str, role: AccessLevel) -> Client {
        let person = self.server.person(name).await;
        self.server.enrol(self.id, person.id, role).await;
        person.client
    }
}
