//! A sample project with a history of all kinds of changes, and its members.

use std::ops::Deref;

use storage::entities::{AccessLevel, Visibility};

use super::client::segment;
use super::code::Project;
use super::{Client, TestServer};

/// Four commits: two on `main`, one on `topic`, and the merge of both.
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

/// A sample project and the paths of its resources.
pub struct Sample<'a>(Project<'a>);

impl<'a> Deref for Sample<'a> {
    type Target = Project<'a>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<'a> Sample<'a> {
    /// Creates a private project with the history.
    pub async fn new(server: &'a TestServer) -> Self {
        let sample = Self::empty(server, Visibility::Private).await;
        sample.fast_import(HISTORY.as_bytes());
        sample.set_default_branch("main").await;
        sample
    }

    /// Creates a project with an empty repository.
    pub async fn empty(server: &'a TestServer, visibility: Visibility) -> Self {
        Self(Project::empty(server, &unused("sample"), visibility).await)
    }

    /// Creates a user with a role in the project, or without one, and returns its client.
    pub async fn member(&self, level: Option<AccessLevel>) -> Client {
        self.member_with_scopes(level, &["api"]).await
    }

    /// Creates a user with a token of these scopes and returns its client.
    pub async fn member_with_scopes(&self, level: Option<AccessLevel>, scopes: &[&str]) -> Client {
        let user = self.server.create_user_with_scopes(&unused("user"), scopes).await;
        if let Some(level) = level {
            self.server.insert_member(self.id, user.id, level).await;
        }
        user.client
    }

    /// Returns the commit ID of a revision.
    pub fn id_of(&self, revision: &str) -> String {
        self.id(&format!("{revision}^{{commit}}"))
    }

    /// Returns the API path of a file.
    pub fn file(&self, path: &str) -> String {
        format!("/projects/{}/repository/files/{}", self.id, segment(path))
    }

    /// Returns the API path of the commits.
    pub fn commits(&self) -> String {
        format!("/projects/{}/repository/commits", self.id)
    }

    /// Returns the API path of a commit.
    pub fn commit(&self, revision: &str) -> String {
        format!("{}/{}", self.commits(), segment(revision))
    }
}

/// Returns a unique name.
fn unused(kind: &str) -> String {
    format!("{kind}-{}", hex::encode(rand::random::<[u8; 4]>()))
}
