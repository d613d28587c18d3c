//! Projects with real repositories, filled by the git program behind the server's back, and their members.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use holdfast::entities::projects::FeatureAccess;
use holdfast::entities::{
    AccessLevel, Visibility, access_tokens, fold, members, namespaces, now, projects, protected_branches,
};
use holdfast::git::RepositoryId;
use holdfast::services::{access_tokens as tokens, users};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, ColumnTrait, EntityTrait, QueryFilter};
use sha2::{Digest, Sha256};

use super::{Client, TestServer};

/// A project and its repository.
pub struct Project {
    /// The id.
    pub id: i64,
    /// The whole path.
    pub path: String,
    directory: PathBuf,
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

impl Project {
    /// An empty project of the administrator.
    pub async fn empty(server: &TestServer, name: &str, visibility: Visibility) -> Self {
        let db = server.backend.database.write();
        let namespace = namespaces::Entity::find()
            .filter(namespaces::Column::FullPathKey.eq("root"))
            .one(db)
            .await
            .expect("a query")
            .expect("the administrator's namespace");
        let row = projects::ActiveModel {
            namespace_id: Set(namespace.id),
            name: Set(name.to_owned()),
            name_key: Set(fold(name)),
            path: Set(name.to_owned()),
            path_key: Set(fold(name)),
            visibility: Set(visibility),
            last_activity_at: Set(now()),
            created_at: Set(now()),
            updated_at: Set(now()),
            ..Default::default()
        };
        let id = row.insert(db).await.expect("a project").id;
        let repository = RepositoryId::of_project(id);
        server
            .backend
            .repositories
            .create(&repository, "main")
            .await
            .expect("a repository");
        let name_on_disk = hex::encode(Sha256::digest(id.to_string()));
        let directory = server
            .data()
            .join("repositories")
            .join(&name_on_disk[..2])
            .join(&name_on_disk[2..4])
            .join(format!("{name_on_disk}.git"));
        Self {
            id,
            path: format!("{}/{name}", namespace.full_path),
            directory,
        }
    }

    /// A project with two commits on its protected default branch `main`, one more on `feature/x`, which comes
    /// from the first, and a branch `merged` at the first.
    pub async fn filled(server: &TestServer, name: &str, visibility: Visibility) -> Self {
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
        project.set_default_branch(server, "main").await;
        project.protect(server, "main", 40, 40).await;
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
        let mut child = Command::new("git")
            .args(arguments)
            .current_dir(&self.directory)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .envs(["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"].map(|name| (name, "Tess Tester")))
            .envs(["GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"].map(|name| (name, "tess@example.com")))
            .envs(["GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"].map(|name| (name, "1600000300 +0200")))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("git");
        // A program that fails before it has read everything says why below.
        let _ = child.stdin.take().expect("stdin").write_all(input.as_bytes());
        let output = child.wait_with_output().expect("output");
        assert!(
            output.status.success(),
            "git {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
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
        let exists = !self
            .git(&["for-each-ref", "--format=%(refname)", &tip])
            .is_empty();
        let own = exists.then(|| format!("{tip}^0"));
        if let Some(from) = commit.from.or(own.as_deref()) {
            let id = self.id(from);
            writeln!(stream, "from {id}").expect("text");
        }
        stream.push_str(&commit.changes);
        self.git_with(&["fast-import", "--quiet", "--force"], &stream);
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

    /// Says which branch is the default one.
    pub async fn set_default_branch(&self, server: &TestServer, name: &str) {
        self.update(
            server,
            projects::ActiveModel {
                default_branch: Set(Some(name.to_owned())),
                ..Default::default()
            },
        )
        .await;
    }

    /// Makes it read-only.
    pub async fn archive(&self, server: &TestServer) {
        self.update(
            server,
            projects::ActiveModel {
                archived: Set(true),
                ..Default::default()
            },
        )
        .await;
    }

    /// Says who may use the repository.
    pub async fn set_repository_access(&self, server: &TestServer, level: FeatureAccess) {
        self.update(
            server,
            projects::ActiveModel {
                repository_access_level: Set(level),
                ..Default::default()
            },
        )
        .await;
    }

    async fn update(&self, server: &TestServer, row: projects::ActiveModel) {
        let row = projects::ActiveModel {
            id: Set(self.id),
            ..row
        };
        row.update(server.backend.database.write())
            .await
            .expect("an update");
    }

    /// Protects a branch, or a pattern of names.
    pub async fn protect(&self, server: &TestServer, name: &str, push: i32, merge: i32) {
        let row = protected_branches::ActiveModel {
            project_id: Set(self.id),
            name: Set(name.to_owned()),
            push_access_level: Set(push),
            merge_access_level: Set(merge),
            created_at: Set(now()),
            updated_at: Set(now()),
            ..Default::default()
        };
        row.insert(server.backend.database.write())
            .await
            .expect("a protection");
    }

    /// A new user who holds a role in the project.
    pub async fn member(&self, server: &TestServer, name: &str, role: AccessLevel) -> Client {
        let (client, user_id) = person(server, name, &["api"]).await;
        let row = members::ActiveModel {
            user_id: Set(user_id),
            project_id: Set(Some(self.id)),
            access_level: Set(role),
            created_at: Set(now()),
            updated_at: Set(now()),
            ..Default::default()
        };
        row.insert(server.backend.database.write())
            .await
            .expect("a membership");
        client
    }
}

/// A new user with a token of these scopes, and their id.
pub async fn person(server: &TestServer, name: &str, scopes: &[&str]) -> (Client, i64) {
    let new = users::NewUser {
        username: name.to_owned(),
        name: format!("{name} of the tests"),
        email: format!("{name}@example.com"),
        ..users::NewUser::default()
    };
    let user = users::create(&server.backend, new).await.expect("a user");
    let new = tokens::NewToken {
        user_id: user.id,
        name: "test".to_owned(),
        kind: access_tokens::Kind::Personal,
        scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
        expires_at: None,
        created_by_id: None,
        secret: None,
    };
    let (_, secret) = tokens::create(&server.backend, new).await.expect("a token");
    (server.with_token(&secret), user.id)
}
