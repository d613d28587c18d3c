//! Description templates of issues and merge requests in the repository of a project.

use sea_orm::ActiveValue::Set;
use serde_json::json;
use storage::entities::{AccessLevel, Visibility, projects};

use super::{content, keys};
use crate::support::client::segment;
use crate::support::code::{NewCommit, Project, file};
use crate::support::{TestServer, on_every_database};

/// Creates a project with description templates.
async fn with_templates<'a>(server: &'a TestServer, name: &str, visibility: Visibility) -> Project<'a> {
    let project = Project::with_commits(server, name, visibility).await;
    let long = |bytes: usize| "x".repeat(bytes);
    project.import(&NewCommit {
        time: 1_600_000_200,
        changes: [
            file(".service/issue_templates/Bug.md", "What is broken?\n"),
            file(".service/issue_templates/Empty.md", ""),
            file(".service/issue_templates/v1.2.md", "Dots.\n"),
            file(".service/issue_templates/a & b+c ä.md", "Odd.\n"),
            file(".service/issue_templates/most.md", &long(1 << 20)),
            file(".service/issue_templates/more.md", &long((1 << 20) + 1)),
            file(".service/issue_templates/.md", "Nameless.\n"),
            file(".service/issue_templates/notes.txt", "No template.\n"),
            file(".service/issue_templates/deep/inner.md", "Too deep.\n"),
            file(".gitlab/issue_templates/Bug.md", "The other one.\n"),
            file(".gitlab/issue_templates/Feature.md", "What is missing?\n"),
            file(".service/merge_request_templates/Default.md", "What and why?\n"),
            "M 120000 inline .service/issue_templates/link.md\ndata 6\nBug.md\n".to_owned(),
        ]
        .concat(),
        ..NewCommit::default()
    });
    project.import(&NewCommit {
        branch: "feature/x",
        time: 1_600_000_300,
        changes: file(".service/issue_templates/Elsewhere.md", "On a branch.\n"),
        ..NewCommit::default()
    });
    project
}

async fn description_templates_are_read_from_default_branch(server: TestServer) {
    let project = with_templates(&server, "work", Visibility::Private).await;
    let root = server.root();
    let issues = format!("/projects/{}/templates/issues", project.id);
    assert_eq!(keys(&root, &issues).await, ["Bug", "Empty", "a & b+c ä", "most", "v1.2", "Feature"]);
    let page = root.get(&format!("{issues}?per_page=2&page=2")).await.expect(200);
    assert_eq!(page.json(), json!([{ "key": "a & b+c ä", "name": "a & b+c ä" }, { "key": "most", "name": "most" }]));
    assert_eq!(page.header("x-total"), "6");
    // The folder `.service` takes precedence.
    let one = root.get(&format!("{issues}/Bug")).await.expect(200).json();
    assert_eq!(one, json!({ "name": "Bug", "content": "What is broken?\n" }));
    assert_eq!(content(&root, &format!("{issues}/Feature")).await, "What is missing?\n");
    assert_eq!(content(&root, &format!("{issues}/{}", segment("a & b+c ä"))).await, "Odd.\n");
    assert_eq!(content(&root, &format!("{issues}/most")).await.len(), 1 << 20);
    assert_eq!(content(&root, &format!("{issues}/Empty")).await, "");
    assert_eq!(content(&root, &format!("{issues}/v1.2")).await, "Dots.\n");
    for key in [
        "bug",
        "more",
        "link",
        "notes",
        "notes.txt",
        "deep/inner",
        "deep",
        "Elsewhere",
        "Default",
        "Bug.md",
        "../issue_templates/Bug",
    ] {
        root.get(&format!("{issues}/{}", segment(key))).await.expect(404);
    }
    let requests = format!("/projects/{}/templates/merge_requests", project.id);
    assert_eq!(keys(&root, &requests).await, ["Default"]);
    assert_eq!(content(&root, &format!("{requests}/Default")).await, "What and why?\n");
    // Description templates are not mixed with the other types.
    assert!(!keys(&root, &format!("/projects/{}/templates/dockerfiles", project.id)).await.contains(&"Bug".to_owned()));
    project.set_default_branch("feature/x").await;
    assert_eq!(keys(&root, &issues).await, ["Elsewhere"]);
    for deleted in ["gone", "a..b"] {
        project.set_default_branch(deleted).await;
        assert_eq!(keys(&root, &issues).await, [""; 0], "{deleted}");
    }
    let empty = Project::empty(&server, "empty", Visibility::Private).await;
    empty.set_default_branch("main").await;
    assert_eq!(keys(&root, &format!("/projects/{}/templates/issues", empty.id)).await, [""; 0]);
    root.get(&format!("/projects/{}/templates/issues/Bug", empty.id)).await.expect(404);
}

async fn description_templates_require_read_access_to_code(server: TestServer) {
    let open = with_templates(&server, "open", Visibility::Public).await;
    let hidden = with_templates(&server, "hidden", Visibility::Private).await;
    let (guest, reporter) =
        (hidden.member("guest", AccessLevel::Guest).await, hidden.member("reporter", AccessLevel::Reporter).await);
    let anonymous = server.anonymous();
    for (client, project, seen) in
        [(&anonymous, &open, true), (&guest, &open, true), (&guest, &hidden, false), (&reporter, &hidden, true)]
    {
        let issues = format!("/projects/{}/templates/issues", project.id);
        assert_eq!(keys(client, &issues).await.is_empty(), !seen);
        client.get(&format!("{issues}/Bug")).await.expect(if seen { 200 } else { 404 });
    }
    let issues = format!("/projects/{}/templates/issues", open.id);
    open.update(|row| row.repository_access_level = Set(projects::FeatureAccess::Private)).await;
    assert_eq!(keys(&anonymous, &issues).await, [""; 0]);
    anonymous.get(&format!("{issues}/Bug")).await.expect(404);
    open.update(|row| row.repository_access_level = Set(projects::FeatureAccess::Disabled)).await;
    assert_eq!(keys(&server.root(), &issues).await, [""; 0]);
    open.update(|row| row.repository_access_level = Set(projects::FeatureAccess::Enabled)).await;
    open.archive().await;
    assert_eq!(keys(&anonymous, &issues).await.len(), 6);
}

on_every_database![
    description_templates_are_read_from_default_branch,
    description_templates_require_read_access_to_code,
];
