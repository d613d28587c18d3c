//! Projects with real repositories, made behind the API, and people with roles in them.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use holdfast::entities::access_tokens::Kind;
use holdfast::entities::{
    AccessLevel, Visibility, fold, members, namespaces, now, projects, protected_branches, users,
};
use holdfast::git::RepositoryId;
use holdfast::services::access_tokens::{self, NewToken};
use holdfast::services::users::{self as people, NewUser};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, ColumnTrait, EntityTrait, QueryFilter};

use super::client::segment;
use super::{Client, TestServer};

/// A history of four commits: two on `main`, one on `topic`, and the merge of both.
const HISTORY: &str = "\
commit refs/heads/main
mark :1
author Ada Lovelace <ada@example.com> 1577880000 +0200
committer Bob Hope <bob@example.com> 1577883600 -0330
data 15
Initial commit

M 100644 inline README.md
data 15
# Title

Hello

M 100755 inline bin/run
data 10
#!/bin/sh

M 100644 inline image.bin
data 4
a\0b

M 120000 inline link
data 9
README.md
M 160000 1234567890123456789012345678901234567890 sub
M 100644 inline crlf.txt
data 6
a\r
b\r

M 100644 inline empty
data 0

M 100644 inline docs/two words/\u{fc}bung.md
data 4
one

commit refs/heads/topic
mark :2
author Ada Lovelace <ada@example.com> 1577966400 +0000
committer Ada Lovelace <ada@example.com> 1577966400 +0000
data 10
Add topic

from :1
M 100644 inline topic.txt
data 6
topic

commit refs/heads/main
mark :3
author Ada Lovelace <ada@example.com> 1578052800 +0000
committer Ada Lovelace <ada@example.com> 1578052800 +0000
data 25
Greet the world

At last

from :1
M 100644 inline README.md
data 26
# Title

Hello, world
Bye

commit refs/heads/main
mark :4
author Ada Lovelace <ada@example.com> 1578139200 +0000
committer Ada Lovelace <ada@example.com> 1578139200 +0000
data 12
Merge topic

from :3
merge :2
M 100644 inline topic.txt
data 6
topic

tag v2.0
from :4
tagger Ada Lovelace <ada@example.com> 1578139200 +0000
data 4
Two

reset refs/tags/v1.0
from :1

reset refs/heads/ends-with.json
from :3

";

/// A project of the administrator with a repository on disk.
pub struct Sample<'a> {
    /// The server it is on.
    pub server: &'a TestServer,
    /// Its id.
    pub id: i64,
    /// The repository's directory.
    pub directory: PathBuf,
}

impl<'a> Sample<'a> {
    /// A private project with a history.
    pub async fn new(server: &'a TestServer) -> Self {
        let sample = Self::empty(server, Visibility::Private).await;
        sample.import(HISTORY.as_bytes());
        sample
            .update(|row| row.default_branch = Set(Some("main".to_owned())))
            .await;
        sample
    }

    /// A project whose repository is empty.
    pub async fn empty(server: &'a TestServer, visibility: Visibility) -> Self {
        let db = server.backend.database.write();
        let root = users::Entity::find()
            .filter(users::Column::Username.eq("root"))
            .one(db)
            .await
            .expect("users")
            .expect("the administrator");
        let home = namespaces::of_user(db, root.id)
            .await
            .expect("namespaces")
            .expect("a namespace");
        let name = format!("sample-{}", hex::encode(rand::random::<[u8; 4]>()));
        let row = projects::ActiveModel {
            namespace_id: Set(home.id),
            creator_id: Set(Some(root.id)),
            name: Set(name.clone()),
            name_key: Set(fold(&name)),
            path: Set(name.clone()),
            path_key: Set(fold(&name)),
            visibility: Set(visibility),
            last_activity_at: Set(now()),
            created_at: Set(now()),
            updated_at: Set(now()),
            ..Default::default()
        };
        let project = row.insert(db).await.expect("a project");
        let id = RepositoryId::of_project(project.id);
        server
            .backend
            .repositories
            .create(&id, "main")
            .await
            .expect("a repository");
        let name = format!("{id:?}");
        let directory = server
            .data()
            .join("repositories")
            .join(&name[..2])
            .join(&name[2..4])
            .join(format!("{name}.git"));
        Self {
            server,
            id: project.id,
            directory,
        }
    }

    /// Changes the project's row.
    pub async fn update(&self, change: impl FnOnce(&mut projects::ActiveModel)) {
        let mut row = projects::ActiveModel {
            id: Set(self.id),
            ..Default::default()
        };
        change(&mut row);
        row.update(self.server.backend.database.write())
            .await
            .expect("a change");
    }

    /// The project's row.
    pub async fn project(&self) -> projects::Model {
        projects::Entity::find_by_id(self.id)
            .one(self.server.backend.database.read())
            .await
            .expect("projects")
            .expect("the project")
    }

    /// Protects branches of a name or pattern.
    pub async fn protect(&self, name: &str, level: i32) {
        let row = protected_branches::ActiveModel {
            project_id: Set(self.id),
            name: Set(name.to_owned()),
            push_access_level: Set(level),
            merge_access_level: Set(level),
            created_at: Set(now()),
            updated_at: Set(now()),
            ..Default::default()
        };
        row.insert(self.server.backend.database.write())
            .await
            .expect("a protection");
    }

    /// A new user with a role in the project, or none.
    pub async fn member(&self, level: Option<AccessLevel>) -> Client {
        self.member_with_scopes(level, &["api"]).await
    }

    /// A new user whose token has these scopes.
    pub async fn member_with_scopes(&self, level: Option<AccessLevel>, scopes: &[&str]) -> Client {
        let username = format!("user-{}", hex::encode(rand::random::<[u8; 4]>()));
        let user = people::create(
            &self.server.backend,
            NewUser {
                name: format!("The {username}"),
                email: format!("{username}@example.com"),
                username,
                ..NewUser::default()
            },
        )
        .await
        .expect("a user");
        if let Some(level) = level {
            let row = members::ActiveModel {
                user_id: Set(user.id),
                project_id: Set(Some(self.id)),
                access_level: Set(level),
                created_at: Set(now()),
                updated_at: Set(now()),
                ..Default::default()
            };
            row.insert(self.server.backend.database.write())
                .await
                .expect("a member");
        }
        let token = NewToken {
            user_id: user.id,
            name: "test".to_owned(),
            kind: Kind::Personal,
            scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
            expires_at: None,
            created_by_id: None,
            secret: None,
        };
        let (_, secret) = access_tokens::create(&self.server.backend, token)
            .await
            .expect("a token");
        self.server.with_token(&secret)
    }

    /// What `git` prints in the repository; it has to succeed.
    pub fn git(&self, arguments: &[&str]) -> String {
        String::from_utf8_lossy(&self.git_with(arguments, b"")).into_owned()
    }

    /// The id that a revision stands for.
    pub fn id_of(&self, revision: &str) -> String {
        self.git(&["rev-parse", &format!("{revision}^{{commit}}")])
            .trim()
            .to_owned()
    }

    /// Feeds a stream to `git fast-import`.
    pub fn import(&self, stream: &[u8]) {
        self.git_with(&["fast-import", "--quiet", "--force"], stream);
    }

    /// Asserts that the repository is sound.
    pub fn fsck(&self) {
        self.git(&["fsck", "--strict", "--no-dangling"]);
    }

    fn git_with(&self, arguments: &[&str], input: &[u8]) -> Vec<u8> {
        let mut child = Command::new("git")
            .args(arguments)
            .current_dir(&self.directory)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("LC_ALL", "C")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("git");
        child
            .stdin
            .take()
            .expect("a pipe")
            .write_all(input)
            .expect("input");
        let output = child.wait_with_output().expect("an end");
        assert!(
            output.status.success(),
            "git {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        output.stdout
    }

    /// The address of a file.
    pub fn file(&self, path: &str) -> String {
        format!("/projects/{}/repository/files/{}", self.id, segment(path))
    }

    /// The address of the commits.
    pub fn commits(&self) -> String {
        format!("/projects/{}/repository/commits", self.id)
    }

    /// The address of a commit.
    pub fn commit(&self, revision: &str) -> String {
        format!("{}/{}", self.commits(), segment(revision))
    }
}
