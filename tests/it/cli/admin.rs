//! `holdfast admin`.

use serde_json::json;

use crate::support::Client;
use crate::support::authenticator::Authenticator;
use crate::support::git::{self, Work};
use crate::support::process::{Site, TOKEN, on_every_site};
use crate::support::spaces::group;

async fn import_repo_preserves_tags_and_default_branch(site: Site) {
    site.serve(&[]).await.stop().await;
    let work = Work::new().await;
    work.git(&["branch", "-m", "trunk"]).await;
    let tip = work.commit("a", "1").await;
    work.git(&["tag", "-a", "-m", "One", "v1"]).await;
    let path = work.path.to_str().unwrap();
    let output = site.succeeds(&["admin", "import-repo", "--project", "root/p", "--visibility", "public", path]).await;
    assert!(output.contains("default branch trunk"), "{output}");
    // An import also works while a server runs.
    let server = site.serve(&[]).await;
    let clones = Work::empty();
    let open = format!("{}/root/p.git", server.base);
    clones.git(&["clone", "--quiet", &open, "c"]).await;
    let clone = clones.below("c");
    assert_eq!(clone.git(&["rev-parse", "HEAD"]).await, tip);
    assert_eq!(clone.git(&["rev-parse", "v1^{commit}"]).await, tip);
    let newer = work.commit("b", "2").await;
    site.import("p", &work.path).await;
    clone.git(&["pull", "--quiet"]).await;
    assert_eq!(clone.git(&["rev-parse", "HEAD"]).await, newer);
    server.stop().await;
    site.succeeds(&["doctor"]).await;
}

async fn import_repo_rejects_invalid_project_and_source(site: Site) {
    site.serve(&[]).await.stop().await;
    let work = Work::new().await;
    let path = work.path.to_str().unwrap();
    for (project, source, reason) in [
        ("p", path, "NAMESPACE/NAME"),
        ("unused_address/p", path, "Namespace not found"),
        ("root/-p", path, "name of a project"),
        ("root/p.git", path, "name of a project"),
        ("root/p", "/unused_address", "No such file"),
    ] {
        let output = site.fails(&["admin", "import-repo", "--project", project, source]).await;
        assert!(output.contains(reason), "{project}: {output}");
    }
    // A failed import can be repeated.
    site.import("p", &work.path).await;
    site.succeeds(&["doctor"]).await;
}

async fn created_users_and_tokens_work_on_running_server(site: Site) {
    let server = site.serve(&[]).await;
    let work = Work::new().await;
    let path = work.path.to_str().unwrap();
    let output = site.succeeds(&["admin", "create-user", "ann", "--email", "ann@example.com"]).await;
    assert!(output.contains("User ann has id"), "{output}");
    let password = output.lines().find_map(|line| line.strip_prefix("Password (shown once): ")).unwrap().to_owned();
    site.succeeds(&["admin", "import-repo", "--project", "ann/p", path]).await;
    let token = site.succeeds(&["admin", "create-token", "ann", "--scopes", "read_repository,read_user"]).await;
    for secret in [token.trim(), &password] {
        let url = git::address(&server.base, "ann", secret, "ann/p");
        work.git(&["ls-remote", "--exit-code", &url, "refs/heads/main"]).await;
    }
    for (arguments, reason) in [
        (&["admin", "create-user", "ANN", "--email", "x@example.com"][..], "Username has already been taken"),
        (&["admin", "create-token", "missing-user"], "user missing-user does not exist"),
        (&["admin", "create-token", "ann", "--scopes", "everything"], "scopes can only contain"),
    ] {
        let output = site.fails(arguments).await;
        assert!(output.contains(reason), "{output}");
    }
    server.stop().await;
}

async fn disable_two_factor_admits_locked_out_administrator(site: Site) {
    let server = site.serve(&[]).await;
    let output = site.succeeds(&["admin", "create-user", "ann", "--email", "ann@example.com", "--admin"]).await;
    let password = output.lines().find_map(|line| line.strip_prefix("Password (shown once): ")).unwrap().to_owned();
    let token = site.succeeds(&["admin", "create-token", "ann"]).await;
    let ann = Client::new(&server.base, Some(token.trim()));
    let setup = ann.post("/user/two_factor", json!({ "current_password": password })).await.expect(201).json();
    let app = Authenticator::new(setup["secret"].as_str().unwrap());
    ann.post("/user/two_factor/confirm", json!({ "code": app.code() })).await.expect(201);
    assert_eq!(ann.get("/user").await.json()["two_factor_enabled"], true);
    let output = site.succeeds(&["admin", "disable-two-factor", "ANN"]).await;
    assert_eq!(output, "Two-factor authentication of ann is disabled.\n");
    assert_eq!(ann.get("/user").await.json()["two_factor_enabled"], false);
    for (name, reason) in [("ann", "is not enabled for this user"), ("missing-user", "missing-user does not exist")] {
        let output = site.fails(&["admin", "disable-two-factor", name]).await;
        assert!(output.contains(reason), "{output}");
    }
    server.stop().await;
}

async fn import_repo_records_events_of_author(site: Site) {
    let server = site.serve(&[]).await;
    let root = Client::new(&server.base, Some(TOKEN));
    let work = Work::new().await;
    work.commit("a", "1").await;
    let path = work.path.to_str().unwrap();
    site.succeeds(&["admin", "create-user", "ann", "--email", "ann@example.com"]).await;
    group(&root, "team", json!({})).await;
    let cases: [(&str, &[&str], &str); 3] =
        [("ann/p", &[], "ann"), ("team/p", &[], "root"), ("team/q", &["--author", "ANN"], "ann")];
    for (project, author, expected) in cases {
        let arguments = [&["admin", "import-repo", "--project", project], author, &[path]].concat();
        site.succeeds(&arguments).await;
        let events = format!("/projects/{}/events", project.replace('/', "%2F"));
        let shown = root.get(&events).await.expect(200);
        assert_eq!(shown.pluck("action_name"), ["pushed new", "created"], "{project}");
        assert_eq!(shown.pluck("author_username"), [expected, expected], "{project}");
        assert_eq!(shown.json()[0]["push_data"]["ref"], "main", "{project}");
    }
    // An import into an existing project records an event too.
    work.commit("b", "2").await;
    site.succeeds(&["admin", "import-repo", "--project", "team/q", path]).await;
    let shown = root.get("/projects/team%2Fq/events").await.expect(200);
    assert_eq!(shown.pluck("author_username"), ["root", "ann", "ann"]);
    let output = site.fails(&["admin", "import-repo", "--project", "team/r", "--author", "missing-user", path]).await;
    assert!(output.contains("User not found"), "{output}");
    root.get("/projects/team%2Fr").await.expect(404);
    server.stop().await;
}

async fn sync_members_respects_role_override(site: Site) {
    let server = site.serve(&[]).await;
    let root = Client::new(&server.base, Some(TOKEN));
    for name in ["ann", "bob"] {
        site.succeeds(&["admin", "create-user", name, "--email", &format!("{name}@example.com")]).await;
    }
    let engines = group(&root, "engines", json!({})).await;
    let sync = async |lines: &str, more: &[&str]| {
        let arguments = [&["admin", "sync-members", "--group", "engines"], more].concat();
        let file = site.sibling_path("lines");
        std::fs::write(&file, lines).unwrap();
        let mut command = site.command(&arguments);
        let output = command.stdin(std::fs::File::open(file).unwrap()).output().await.unwrap();
        (output.status.success(), git::output_text(&output))
    };
    let (done, text) = sync("ann developer\n\nbob 20\ncid Guest\n", &[]).await;
    assert!(done && text.contains("cid does not exist.") && text.contains("2 joined, 0 changed, 0 left."), "{text}");
    let id = root.get("/users?username=ann").await.expect(200).json()[0]["id"].clone();
    let one = format!("/groups/{engines}/members/{id}");
    assert_eq!(root.get(&one).await.expect(200).json()["override"], false);
    root.put(&one, json!({"access_level": 40})).await.expect(403);
    root.post(&format!("{one}/override"), json!({})).await.expect(201);
    assert_eq!(root.put(&one, json!({"access_level": 40})).await.expect(200).json()["access_level"], 40);
    let (done, text) = sync("ann reporter\n", &[]).await;
    assert!(done && text.contains("0 joined, 0 changed, 1 left."), "{text}");
    assert_eq!(root.get(&one).await.expect(200).json()["access_level"], 40);
    root.delete(&format!("{one}/override")).await.expect(200);
    sync("ann reporter\n", &[]).await;
    assert_eq!(root.get(&one).await.expect(200).json()["access_level"], 20);
    for (lines, reason) in [
        ("", "--allow-empty"),
        ("ann", "USERNAME ROLE"),
        ("ann chief", "unknown group role chief"),
        ("ann 35", "unknown group role 35"),
    ] {
        let (done, text) = sync(lines, &[]).await;
        assert!(!done && text.contains(reason), "{lines}: {text}");
    }
    let (done, text) = sync("", &["--allow-empty"]).await;
    assert!(done && text.contains("1 left"), "{text}");
    root.get(&one).await.expect(404);
    let (done, text) = sync("ann guest", &["--plan", "free"]).await;
    assert!(!done && text.contains("does not include directory synchronization"), "{text}");
    server.stop().await;
}

async fn group_domain_confirms_emails_of_provisioned_users(site: Site) {
    let server = site.serve(&[]).await;
    let root = Client::new(&server.base, Some(TOKEN));
    let bank = group(&root, "bank", json!({})).await;
    root.put(&format!("/groups/{bank}/saml"), json!({ "enabled": true })).await.expect(200);
    let token = root.post(&format!("/groups/{bank}/scim_token"), json!({})).await.expect(201).json();
    let provider = Client::new(&server.base, None)
        .header("Authorization", &format!("Bearer {}", token["token"].as_str().unwrap()));
    let new = json!({
        "externalId": "1", "userName": "ada", "name": { "formatted": "Ada" },
        "emails": [{ "type": "work", "value": "ada@bank.example" }],
    });
    provider.post("//api/scim/v2/groups/bank/Users", new).await.expect(201);
    let confirmed =
        async || root.get("/users?search=ada@bank.example").await.expect(200).json()[0]["confirmed_at"].is_string();
    assert!(!confirmed().await);
    let domain = async |words: &[&str]| site.succeeds(&[&["admin", "group-domain"], words].concat()).await;
    assert_eq!(domain(&["add", "bank", "Bank.example"]).await, "Confirmed 1 address.\n");
    assert!(confirmed().await);
    assert_eq!(domain(&["add", "bank", "other.example"]).await, "Confirmed 0 addresses.\n");
    assert_eq!(domain(&["list", "bank"]).await, "bank.example\nother.example\n");
    assert_eq!(domain(&["remove", "bank", "bank.example"]).await, "Removed the confirmation of 1 address.\n");
    assert!(!confirmed().await);
    for (words, reason) in [
        (&["add", "missing", "bank.example"][..], "Group not found"),
        (&["add", "bank", "ada@bank.example"], "domain is invalid"),
        (&["remove", "bank", "bank.example"], "Domain not found"),
        (&["list", "missing"], "Group not found"),
    ] {
        let output = site.fails(&[&["admin", "group-domain"], words].concat()).await;
        assert!(output.contains(reason), "{words:?}: {output}");
    }
    server.stop().await;
}

on_every_site![
    import_repo_preserves_tags_and_default_branch,
    import_repo_rejects_invalid_project_and_source,
    created_users_and_tokens_work_on_running_server,
    disable_two_factor_admits_locked_out_administrator,
    import_repo_records_events_of_author,
    sync_members_respects_role_override,
    group_domain_confirms_emails_of_provisioned_users,
];
