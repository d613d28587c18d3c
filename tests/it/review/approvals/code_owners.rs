//! Approval rules of code owners.

use std::fmt::Write as _;

use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility};

use super::{Fixture, approved_by};
use crate::support::code::{NewCommit, file};
use crate::support::spaces::join;
use crate::support::{TestServer, on_every_database};

impl Fixture<'_> {
    /// Changes files of a branch, in the format of `git fast-import`.
    fn change(&self, branch: &str, changes: &str) {
        self.project.import(&NewCommit { branch, changes: changes.to_owned(), ..NewCommit::default() });
    }

    /// Replaces the file with code owners in the target branch.
    fn owners(&self, content: &str) {
        self.change("main", &file("CODEOWNERS", content));
    }

    async fn require_owners(&self, is_required: bool) {
        let body = json!({"code_owner_approval_required": is_required});
        let changed = self.root.patch(&self.url("/protected_branches/main"), body).await.expect(200).json();
        assert_eq!(changed["code_owner_approval_required"], is_required);
    }

    async fn state(&self) -> Vec<Value> {
        let state = self.root.get(&self.url("/merge_requests/1/approval_state")).await.expect(200).json();
        state["rules"].as_array().expect("a list").clone()
    }

    /// Returns the names of the rules that apply.
    async fn names(&self) -> Vec<String> {
        let rules = self.state().await.into_iter();
        rules.map(|rule| rule["name"].as_str().expect("a name").to_owned()).collect()
    }
}

fn usernames(users: &Value) -> Vec<&str> {
    let users = users.as_array().expect("a list").iter();
    users.map(|user| user["username"].as_str().expect("a name")).collect()
}

async fn code_owners_block_merges_into_branches_that_require_them(server: TestServer) {
    let fixture = Fixture::new(&server, "owned").await;
    let ann = fixture.member("ann", AccessLevel::Developer).await;
    let bob = fixture.member("bob", AccessLevel::Developer).await;
    fixture.owners("*.txt @ANN @stranger\n[Docs][2] @bob\n*.md\n^[Opt]\nx.* @bob bob@example.com\n");
    let state = fixture.state().await;
    assert_eq!(fixture.names().await, ["*.txt", "x.*"]);
    let first = &state[0];
    assert_eq!((&first["rule_type"], &first["code_owner"]), (&json!("code_owner"), &json!(true)));
    assert_eq!((&first["section"], &state[1]["section"]), (&json!(null), &json!("Opt")));
    assert_eq!((&first["approvals_required"], &first["approved"]), (&json!(0), &json!(true)));
    assert_eq!((usernames(&first["users"]), usernames(&first["eligible_approvers"])), (vec!["ann"], vec!["ann"]));
    assert_eq!((&first["source_rule"], &first["overridden"]), (&json!(null), &json!(false)));
    assert_eq!(fixture.detailed_status().await, "mergeable");

    fixture.require_owners(true).await;
    let state = fixture.state().await;
    assert_eq!((&state[0]["approvals_required"], &state[1]["approvals_required"]), (&json!(1), &json!(0)));
    assert_eq!((&state[0]["approved"], &state[1]["approved"]), (&json!(false), &json!(true)));
    let approvals = fixture.approvals().await;
    assert_eq!(
        approvals["approval_rules_left"],
        json!([{"id": state[0]["id"], "name": "*.txt", "rule_type": "code_owner"}])
    );
    assert_eq!((&approvals["approvals_required"], &approvals["approved"]), (&json!(1), &json!(false)));
    assert_eq!(fixture.detailed_status().await, "not_approved");
    fixture.approve(&bob.client).await.expect(201);
    fixture.merge().await.expect(405);
    let state = fixture.state().await;
    assert_eq!(usernames(&state[1]["approved_by"]), ["bob"]);
    fixture.approve(&ann.client).await.expect(201);
    assert_eq!(usernames(&fixture.state().await[0]["approved_by"]), ["ann"]);
    assert_eq!(fixture.detailed_status().await, "mergeable");
    fixture.merge().await.expect(200);
    // Merged merge requests have no rules of code owners.
    assert_eq!(fixture.names().await, [""; 0]);
}

async fn rules_follow_the_branches_and_the_members(server: TestServer) {
    let fixture = Fixture::new(&server, "follow").await;
    let ann = fixture.member("ann", AccessLevel::Developer).await;
    let bob = fixture.member("bob", AccessLevel::Developer).await;
    fixture.member("eve", AccessLevel::Reporter).await;
    fixture.require_owners(true).await;
    assert_eq!(fixture.detailed_status().await, "mergeable");
    // The owners of the source branch do not count.
    fixture.change("feature/x", &file("CODEOWNERS", "* @eve\n"));
    assert_eq!(fixture.names().await, [""; 0]);
    fixture.owners("x.txt @ann\n");
    fixture.root.put(&fixture.url("/merge_requests/1"), json!({"description": "x"})).await.expect(200);
    assert_eq!(fixture.names().await, ["x.txt"]);
    fixture.approve(&ann.client).await.expect(201);
    let before = fixture.state().await;
    assert_eq!(before[0]["approved"], true);
    // The file changes after the approval.
    fixture.owners("x.txt @bob\n");
    let after = fixture.state().await;
    assert_eq!((&after[0]["approved"], &after[0]["id"]), (&json!(false), &before[0]["id"]));
    fixture.merge().await.expect(405);
    let member = fixture.url(&format!("/members/{}", bob.id));
    fixture.root.put(&member, json!({"access_level": 20})).await.expect(200);
    // No user can satisfy the rule now.
    assert_eq!(fixture.approvals().await["invalid_approvers_rules"][0]["name"], "x.txt");
    assert_eq!(fixture.approvals().await["approved"], true);
    fixture.root.put(&member, json!({"access_level": 30})).await.expect(200);
    assert_eq!(fixture.approvals().await["approved"], false);
    // Both paths of a renamed file, and those of deleted files, have owners.
    fixture.owners("/README.md @ann\n/new/ @bob\n/docs/deep/ @ann\n");
    fixture.change("feature/x", "R README.md new/name.md\nD docs/deep/note.txt\n");
    fixture.push("more.txt").await;
    server.finish_jobs().await;
    assert_eq!(fixture.names().await, ["/README.md", "/new/", "/docs/deep/"]);
}

async fn groups_and_email_addresses_are_owners(server: TestServer) {
    let fixture = Fixture::new(&server, "groups").await;
    let ann = fixture.member("ann", AccessLevel::Developer).await;
    fixture.member("bob", AccessLevel::Developer).await;
    fixture.require_owners(true).await;
    let team = server.insert_group("top/team", Visibility::Private).await;
    join(&fixture.root, &format!("/groups/{team}"), ann.id, 30).await;
    let stranger = server.create_user("stranger").await;
    join(&fixture.root, &format!("/groups/{team}"), stranger.id, 50).await;
    fixture.owners("*.txt @top/team\n[Mail]\n*.txt BOB@example.com stranger@example.com unknown@example.com\n");
    let state = fixture.state().await;
    assert_eq!(usernames(&state[0]["eligible_approvers"]), ["ann"]);
    assert_eq!(state[0]["groups"][0]["full_path"], "top/team");
    assert_eq!((usernames(&state[0]["users"]), usernames(&state[1]["users"])), (vec![], vec!["bob"]));
    let anonymous = server.anonymous();
    let url = fixture.url("/merge_requests/1/approval_state");
    let public = anonymous.get(&url).await.expect(200).json();
    let hidden = &public["rules"][0];
    assert_eq!((&hidden["groups"], &hidden["contains_hidden_groups"]), (&json!([]), &json!(true)));
    assert_eq!(hidden["eligible_approvers"], json!([]));
    fixture.approve(&ann.client).await.expect(201);
    let state = fixture.state().await;
    assert_eq!((&state[0]["approved"], &state[1]["approved"]), (&json!(true), &json!(false)));
    assert_eq!(approved_by(&fixture.approvals().await), ["ann"]);
    // The author cannot approve and is the only owner, so the rule is invalid.
    fixture.owners("*.txt @root\n");
    assert_eq!(fixture.state().await[0]["approved"], true);
}

async fn rules_of_code_owners_are_listed_and_cannot_be_changed(server: TestServer) {
    let fixture = Fixture::new(&server, "list").await;
    let ann = fixture.member("ann", AccessLevel::Developer).await;
    fixture.require_owners(true).await;
    fixture.owners("*.txt @ann\n");
    let all = fixture.url("/merge_requests/1/approval_rules");
    let listed = fixture.root.get(&all).await.expect(200).json();
    assert_eq!((&listed[0]["name"], &listed[0]["rule_type"]), (&json!("*.txt"), &json!("code_owner")));
    let one = format!("{all}/{}", listed[0]["id"]);
    assert_eq!(fixture.root.get(&one).await.expect(200).json(), listed[0]);
    fixture.root.put(&one, json!({"approvals_required": 0})).await.expect(403);
    fixture.root.delete(&one).await.expect(403);
    fixture.root.delete(&format!("{all}/4503599627370497")).await.expect(404);
    // Rules of the merge request replace those of the project, but not those of code owners.
    let own = json!({"name": "Own", "approvals_required": 0, "user_ids": [ann.id]});
    fixture.root.post(&all, own).await.expect(201);
    assert_eq!(fixture.names().await, ["Own", "*.txt"]);
    assert_eq!(fixture.root.get(&all).await.expect(200).pluck("name"), ["Own", "*.txt"]);
    assert_eq!(fixture.detailed_status().await, "not_approved");
}

async fn first_regular_file_names_the_owners(server: TestServer) {
    let fixture = Fixture::new(&server, "places").await;
    fixture.member("ann", AccessLevel::Developer).await;
    let content = |name: &str| format!("{name}.txt @ann\n* @ann\n[{name}]\n* @ann\n");
    let section = async || fixture.state().await.last().map(|rule| rule["section"].clone());
    fixture.change("main", &file(".gitlab/CODEOWNERS", &content("hidden")));
    assert_eq!(section().await, Some(json!("hidden")));
    fixture.change("main", &file("docs/CODEOWNERS", &content("docs")));
    assert_eq!(section().await, Some(json!("docs")));
    fixture.change("main", &file("CODEOWNERS", &content("root")));
    assert_eq!(section().await, Some(json!("root")));
    // A symbolic link, a directory and a submodule are not read.
    for other in [
        "M 120000 inline CODEOWNERS\ndata 6\nx.file\n".to_owned(),
        format!("D CODEOWNERS\n{}", file("CODEOWNERS/x", "* @ann\n")),
        "D CODEOWNERS\nM 160000 570e7b2abdd848b95f2f578043fc23bd6f6fd24d CODEOWNERS\n".to_owned(),
    ] {
        fixture.change("main", &other);
        assert_eq!(section().await, Some(json!("docs")), "{other}");
    }
    fixture.change("main", "D CODEOWNERS\nD docs/CODEOWNERS\nD .gitlab/CODEOWNERS\n");
    assert_eq!(section().await, None);
}

async fn hostile_files_are_read_within_limits(server: TestServer) {
    let fixture = Fixture::new(&server, "hostile").await;
    let ann = fixture.member("ann", AccessLevel::Developer).await;
    fixture.require_owners(true).await;
    let mut lines = String::new();
    for number in 0..9_998 {
        writeln!(lines, "/src/{number}/*.rs @ann").expect("text");
    }
    // Accepted files.
    for (content, names) in [
        ("\u{feff}x.txt\t@ann\r\n# @bob\r\n\r\ny @bob\r\n".to_owned(), vec!["x.txt"]),
        (format!("{lines}x.txt @ann\n"), vec!["x.txt"]),
        (format!("{}b @ann\nx.txt @ann\n", "*a".repeat(500)), vec!["x.txt"]),
        ("[broken @ann\n[[]] @ann\n\\\n! \nx.txt\n".to_owned(), vec![]),
        (String::new(), vec![]),
    ] {
        fixture.owners(&content);
        assert_eq!(fixture.names().await, names);
    }
    let stream = [
        &b"commit refs/heads/main\ncommitter T <t@example.com> 1700000000 +0000\ndata 1\nm\nfrom refs/heads/main^0\n"[..],
        b"M 100644 inline CODEOWNERS\ndata 15\n\xff\xfe @ann\n* @ann\n\n",
    ];
    fixture.project.fast_import(&stream.concat());
    assert_eq!(fixture.names().await, ["*"]);
    // Beyond a limit, an approval of any user is required.
    for content in [
        "x".repeat(1 << 20),
        "\n".repeat(10_001),
        format!("{} @ann\n", "x".repeat(1_025)),
        format!("x.txt{}\n", (0..101).map(|number| format!(" @u{number}")).collect::<String>()),
    ] {
        fixture.owners(&content);
        let state = fixture.state().await;
        let (name, kind) = (&state[0]["name"], &state[0]["rule_type"]);
        assert_eq!((name, kind, state.len()), (&json!("CODEOWNERS"), &json!("code_owner"), 1));
        assert_eq!((&state[0]["approvals_required"], &state[0]["approved"]), (&json!(1), &json!(false)));
        assert_eq!(fixture.detailed_status().await, "not_approved");
    }
    fixture.approve(&ann.client).await.expect(201);
    assert_eq!(fixture.detailed_status().await, "mergeable");
    fixture.unapprove(&ann.client).await.expect(201);
    // Many patterns with many changed files.
    let files: String = (0..300).map(|number| file(&format!("f/{}/{number}", "a".repeat(200)), "1")).collect();
    fixture.change("feature/x", &files);
    fixture.push("last.txt").await;
    server.finish_jobs().await;
    let patterns: String = (0..50).map(|number| format!("*{}{number} @ann\n", "a".repeat(100))).collect();
    fixture.owners(&patterns);
    assert_eq!(fixture.names().await, ["CODEOWNERS"]);
}

on_every_database![
    code_owners_block_merges_into_branches_that_require_them,
    rules_follow_the_branches_and_the_members,
    groups_and_email_addresses_are_owners,
    rules_of_code_owners_are_listed_and_cannot_be_changed,
    first_regular_file_names_the_owners,
    hostile_files_are_read_within_limits,
];
