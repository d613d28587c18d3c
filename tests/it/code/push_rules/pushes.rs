//! Pushes against push rules.

use std::path::Path;

use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility};

use super::replace_rule;
use crate::support::git::{Work, address};
use crate::support::users::TestUser;
use crate::support::{Client, TestServer, on_every_database};

/// A project with the branch `main` and the tag `t`, and a Maintainer who pushes.
pub struct Sample<'a> {
    pub server: &'a TestServer,
    pub user: TestUser,
    pub work: Work,
    pub url: String,
    pub path: String,
}

impl<'a> Sample<'a> {
    pub async fn new(server: &'a TestServer) -> Self {
        let project = server.insert_project_at("g/p", Visibility::Private).await;
        let user = server.create_user("dev").await;
        server.insert_member(project.id, user.id, AccessLevel::Maintainer).await;
        let work = Work::new().await;
        let url = address(&server.base, "dev", &user.token, "g/p");
        work.git(&["tag", "t"]).await;
        work.git(&["push", "--quiet", &url, "main", "t"]).await;
        let path = format!("/projects/{}", project.id);
        Self { server, user, work, url, path }
    }

    pub fn root(&self) -> Client {
        self.server.root()
    }

    pub async fn rule(&self, body: Value) {
        replace_rule(&self.root(), &self.path, body).await;
    }

    pub async fn no_rule(&self) {
        self.root().delete(&format!("{}/push_rule", self.path)).await.expect(204);
    }

    /// Returns the refs of the server.
    pub async fn refs(&self) -> String {
        self.work.git(&["ls-remote", &self.url]).await
    }

    /// Pushes, which must be refused with this text, and checks that nothing has changed.
    pub async fn refused(&self, refspecs: &[&str], text: &str) {
        let before = self.refs().await;
        let output = self.work.fails(&[&["push", self.url.as_str()][..], refspecs].concat()).await;
        assert!(output.contains(text), "{text}: {output}");
        assert!(output.contains("pre-receive hook declined"), "{output}");
        assert_eq!(self.refs().await, before, "{text}");
    }

    pub async fn pushed(&self, refspecs: &[&str]) {
        self.work.git(&[&["push", "--quiet", self.url.as_str()][..], refspecs].concat()).await;
    }

    /// Starts a branch `topic` at `main`.
    async fn branch(&self) {
        self.work.git(&["checkout", "--quiet", "-B", "topic", "main"]).await;
    }
}

/// Returns the number of quarantines of a repository.
fn quarantines(sample: &Sample<'_>) -> usize {
    fn count(folder: &Path) -> usize {
        let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
        entries
            .map(|entry| match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                true => {
                    let name = entry.file_name();
                    usize::from(name.to_string_lossy().starts_with("tmp_objdir-")) + count(&entry.path())
                }
                false => 0,
            })
            .sum()
    }
    count(&sample.server.data().join("repositories"))
}

async fn push_that_violates_a_rule_is_refused(server: TestServer) {
    let sample = Sample::new(&server).await;
    let large = "x".repeat((1 << 20) + 1);
    for (rule, file, content, text) in [
        (
            json!({"commit_message_regex": "^JIRA-[0-9]+"}),
            "no issue",
            "1",
            "Commit message does not follow the pattern '^JIRA-[0-9]+'",
        ),
        (
            json!({"commit_message_negative_regex": "(?i)secret"}),
            "a Secret plan",
            "1",
            "Commit message contains the forbidden pattern '(?i)secret'",
        ),
        (
            json!({"branch_name_regex": "^(feature|fix)/"}),
            "branch",
            "1",
            "Branch name does not follow the pattern '^(feature|fix)/'",
        ),
        (
            json!({"author_email_regex": r"@corp\.com$"}),
            "author",
            "1",
            r"Author's email 'a@example.com' does not follow the pattern '@corp\.com$'",
        ),
        (
            json!({"file_name_regex": r"\.exe$"}),
            "run.exe",
            "1",
            r#"File name run.exe was prohibited by the pattern "\.exe$"."#,
        ),
        (json!({"prevent_secrets": true}), "id_rsa", "1", "File name id_rsa was prohibited by the pattern"),
        (json!({"max_file_size": 1}), "large", &large, r#"File "large" is larger than the allowed size of 1 MB"#),
        (json!({"member_check": true}), "member", "1", "Author 'a@example.com' is not a member of team"),
        (
            json!({"commit_committer_check": true}),
            "committer",
            "1",
            "You cannot push commits for 'a@example.com'. You can only push commits that were committed with one of your own \
             verified emails.",
        ),
        (
            json!({"commit_committer_name_check": true}),
            "name",
            "1",
            "Committer name 'A' is not the name of your account 'Name of dev'",
        ),
        (json!({"reject_unsigned_commits": true}), "unsigned", "1", "Commit must be signed with a GPG key"),
        (json!({"reject_non_dco_commits": true}), "dco", "1", "Commit message must contain a DCO signoff"),
    ] {
        sample.rule(rule.clone()).await;
        sample.branch().await;
        sample.work.commit(file, content).await;
        // The violation is not in the last commit, and one ref refuses the others.
        sample.work.commit("ok", "1").await;
        sample.refused(&["topic", "main:refs/heads/feature/other"], text).await;
        sample.no_rule().await;
        // Nothing but the rule refused the push.
        sample.pushed(&["topic"]).await;
        // The commits are not new any more, so the rule allows further branches with them.
        sample.rule(rule).await;
        sample.pushed(&["topic:refs/heads/feature/copy"]).await;
        sample.pushed(&[":topic", ":feature/copy"]).await;
    }
    sample.rule(json!({"deny_delete_tag": true})).await;
    sample.refused(&[":t"], "You cannot delete a tag").await;
    let tag = format!("{}/repository/tags/t", sample.path);
    sample.user.client.delete(&tag).await.expect(204);
    assert_eq!(quarantines(&sample), 0);
}

/// Creates a signed commit on top of a commit, as the user of the sample.
async fn signed(sample: &Sample<'_>, message: &str) -> String {
    let tree = sample.work.git(&["rev-parse", "HEAD^{tree}"]).await;
    let parent = sample.work.git(&["rev-parse", "HEAD"]).await;
    let who = "Name of dev <DEV@example.com> 1700000000 +0000";
    let text = format!(
        "tree {tree}\nparent {parent}\nauthor {who}\ncommitter {who}\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n =x\n \
         -----END PGP SIGNATURE-----\n\n{message}\n"
    );
    let file = sample.work.path.join(".git/signed");
    std::fs::write(&file, text).expect("a file");
    sample.work.git(&["hash-object", "-t", "commit", "-w", file.to_str().expect("a path")]).await
}

async fn push_that_follows_all_rules_is_accepted(server: TestServer) {
    let sample = Sample::new(&server).await;
    let rule = json!({
        "commit_message_regex": "^JIRA-[0-9]+", "commit_message_negative_regex": "secret",
        "branch_name_regex": "^feature/", "author_email_regex": "(?i)^dev@example", "file_name_regex": r"\.exe$",
        "deny_delete_tag": true, "member_check": true, "prevent_secrets": true, "max_file_size": 1,
        "commit_committer_check": true, "commit_committer_name_check": true, "reject_unsigned_commits": true,
        "reject_non_dco_commits": true,
    });
    sample.rule(rule).await;
    let message = "More\n\nJIRA-1\n\nSigned-off-by: Dev <dev@example.com>";
    let good = signed(&sample, message).await;
    let refspec = format!("{good}:refs/heads/feature/x");
    sample.pushed(&[&refspec]).await;
    // The default branch has no rule for its name, and the deletion of a branch has no rules.
    sample.pushed(&[&format!("{good}:refs/heads/main"), ":feature/x"]).await;
    let bad = signed(&sample, "JIRA-1 secret\n\nSigned-off-by: Dev <dev@example.com>").await;
    sample.refused(&[&format!("{bad}:refs/heads/feature/y")], "contains the forbidden pattern 'secret'").await;
}

async fn every_ref_of_clients_is_checked(server: TestServer) {
    let sample = Sample::new(&server).await;
    sample.rule(json!({"file_name_regex": "^bad$", "max_file_size": 1})).await;
    sample.branch().await;
    sample.work.commit("bad", "1").await;
    sample.work.git(&["tag", "-a", "-m", "m", "annotated"]).await;
    let text = r#"File name bad was prohibited by the pattern "^bad$"."#;
    for refspec in ["topic", "topic:refs/notes/x", "topic:refs/tags/light", "annotated", "topic:refs/custom/x"] {
        sample.refused(&[refspec], text).await;
    }
    // A blob that is no file of a commit.
    std::fs::write(sample.work.path.join("blob"), vec![7; (1 << 20) + 1]).expect("a file");
    let blob = sample.work.git(&["hash-object", "-w", "blob"]).await;
    sample.work.git(&["tag", "blob", &blob]).await;
    sample.refused(&["blob"], &format!("File \"{blob}\" is larger than the allowed size of 1 MB")).await;
}

async fn files_that_exist_can_be_changed_and_merged(server: TestServer) {
    let sample = Sample::new(&server).await;
    sample.branch().await;
    sample.work.commit("old.exe", "1").await;
    sample.pushed(&["topic"]).await;
    sample.rule(json!({"file_name_regex": r"\.exe$"})).await;
    sample.work.commit("old.exe", "2").await;
    sample.pushed(&["topic"]).await;
    sample.work.git(&["mv", "old.exe", "new.exe"]).await;
    sample.work.commit("note", "1").await;
    sample.refused(&["topic"], "File name new.exe was prohibited").await;
    sample.work.git(&["reset", "--quiet", "--hard", "HEAD~1"]).await;
    // A merge adds no file that one of its parents has.
    sample.work.git(&["checkout", "--quiet", "main"]).await;
    sample.work.commit("main", "1").await;
    sample.work.git(&["merge", "--quiet", "--no-edit", "topic"]).await;
    sample.pushed(&["main"]).await;
    // Unless it adds a file of its own.
    sample.branch().await;
    sample.work.git(&["checkout", "--quiet", "-b", "side", "main~1"]).await;
    sample.work.commit("side", "1").await;
    sample.work.git(&["merge", "--quiet", "--no-commit", "--no-ff", "topic"]).await;
    sample.work.commit("evil.exe", "1").await;
    sample.refused(&["side"], "File name evil.exe was prohibited").await;
}

async fn committer_with_unconfirmed_address_is_refused(server: TestServer) {
    use sea_orm::{ActiveModelTrait, ActiveValue::Set, IntoActiveModel};
    let sample = Sample::new(&server).await;
    sample.rule(json!({"commit_committer_check": true, "member_check": true})).await;
    let id = signed(&sample, "m").await;
    let mut row = sample.user.row.clone().into_active_model();
    row.confirmed_at = Set(None);
    row.update(server.backend.database.write()).await.expect("a row");
    let refspec = format!("{id}:refs/heads/x");
    sample.refused(&[&refspec], "Committer email 'DEV@example.com' is not verified.").await;
    sample.rule(json!({"member_check": true})).await;
    sample.refused(&[&refspec], "Author 'DEV@example.com' is not a member of team").await;
    let mut row = sample.user.row.clone().into_active_model();
    row.confirmed_at = Set(Some(storage::entities::now()));
    row.update(server.backend.database.write()).await.expect("a row");
    sample.rule(json!({"commit_committer_check": true, "member_check": true})).await;
    sample.pushed(&[&refspec]).await;
}

async fn first_push_of_a_repository_is_checked(server: TestServer) {
    let sample = Sample::new(&server).await;
    let project = server.insert_project_at("g/empty", Visibility::Private).await;
    server.insert_member(project.id, sample.user.id, AccessLevel::Maintainer).await;
    let path = format!("/projects/{}", project.id);
    let url = address(&server.base, "dev", &sample.user.token, "g/empty");
    replace_rule(&sample.root(), &path, json!({"branch_name_regex": "^x", "file_name_regex": "^README$"})).await;
    let output = sample.work.fails(&["push", &url, "main"]).await;
    assert!(output.contains("File name README was prohibited"), "{output}");
    replace_rule(&sample.root(), &path, json!({"branch_name_regex": "^x"})).await;
    sample.work.git(&["push", "--quiet", &url, "main"]).await;
    let output = sample.work.fails(&["push", &url, "main:other"]).await;
    assert!(output.contains("Branch name does not follow the pattern '^x'"), "{output}");
}

on_every_database![
    push_that_violates_a_rule_is_refused,
    push_that_follows_all_rules_is_accepted,
    every_ref_of_clients_is_checked,
    files_that_exist_can_be_changed_and_merged,
    committer_with_unconfirmed_address_is_refused,
    first_push_of_a_repository_is_checked,
];
