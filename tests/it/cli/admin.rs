//! `holdfast admin`.

use serde_json::json;

use crate::support::Client;
use crate::support::git::{self, Work};
use crate::support::places::group;
use crate::support::process::{Site, TOKEN, on_every_site};

async fn imported_repository_can_be_cloned_with_tags_and_default_branch(site: Site) {
    site.serve(&[]).await.stop().await;
    let work = Work::new().await;
    work.git(&["branch", "-m", "trunk"]).await;
    let tip = work.commit("a", "1").await;
    work.git(&["tag", "-a", "-m", "One", "v1"]).await;
    let path = work.path.to_str().unwrap();
    let said = site.succeeds(&["admin", "import-repo", "--project", "root/p", "--visibility", "public", path]).await;
    assert!(said.contains("default branch trunk"), "{said}");
    // A running server does not mind.
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

async fn imports_that_cannot_be_are_refused(site: Site) {
    site.serve(&[]).await.stop().await;
    let work = Work::new().await;
    let path = work.path.to_str().unwrap();
    for (project, source, reason) in [
        ("p", path, "NAMESPACE/NAME"),
        ("nowhere/p", path, "Namespace not found"),
        ("root/-p", path, "name of a project"),
        ("root/p.git", path, "name of a project"),
        ("root/p", "/nowhere", "No such file"),
    ] {
        let said = site.fails(&["admin", "import-repo", "--project", project, source]).await;
        assert!(said.contains(reason), "{project}: {said}");
    }
    // What was begun can be finished.
    site.import("p", &work.path).await;
    site.succeeds(&["doctor"]).await;
}

async fn users_and_tokens_are_good_at_once(site: Site) {
    let server = site.serve(&[]).await;
    let work = Work::new().await;
    let path = work.path.to_str().unwrap();
    let said = site.succeeds(&["admin", "create-user", "ann", "--email", "ann@example.com"]).await;
    assert!(said.contains("User ann has id"), "{said}");
    let password = said.lines().find_map(|line| line.strip_prefix("Password (shown once): ")).unwrap().to_owned();
    site.succeeds(&["admin", "import-repo", "--project", "ann/p", path]).await;
    let token = site.succeeds(&["admin", "create-token", "ann", "--scopes", "read_repository,read_user"]).await;
    for secret in [token.trim(), &password] {
        let url = git::address(&server.base, "ann", secret, "ann/p");
        work.git(&["ls-remote", "--exit-code", &url, "refs/heads/main"]).await;
    }
    for (arguments, reason) in [
        (&["admin", "create-user", "ANN", "--email", "x@example.com"][..], "Username has already been taken"),
        (&["admin", "create-token", "nobody"], "user nobody does not exist"),
        (&["admin", "create-token", "ann", "--scopes", "everything"], "scopes can only contain"),
    ] {
        let said = site.fails(arguments).await;
        assert!(said.contains(reason), "{said}");
    }
    server.stop().await;
}

async fn an_import_is_the_doing_of_somebody(site: Site) {
    let server = site.serve(&[]).await;
    let root = Client::new(&server.base, Some(TOKEN));
    let work = Work::new().await;
    work.commit("a", "1").await;
    let path = work.path.to_str().unwrap();
    site.succeeds(&["admin", "create-user", "ann", "--email", "ann@example.com"]).await;
    group(&root, "team", json!({})).await;
    let cases: [(&str, &[&str], &str); 3] =
        [("ann/p", &[], "ann"), ("team/p", &[], "root"), ("team/q", &["--author", "ANN"], "ann")];
    for (project, author, wanted) in cases {
        let arguments = [&["admin", "import-repo", "--project", project], author, &[path]].concat();
        site.succeeds(&arguments).await;
        let events = format!("/projects/{}/events", project.replace('/', "%2F"));
        let shown = root.get(&events).await.expect(200);
        assert_eq!(shown.pluck("action_name"), ["pushed new", "created"], "{project}");
        assert_eq!(shown.pluck("author_username"), [wanted, wanted], "{project}");
        assert_eq!(shown.json()[0]["push_data"]["ref"], "main", "{project}");
    }
    // What comes to a project that is there already is told as well.
    work.commit("b", "2").await;
    site.succeeds(&["admin", "import-repo", "--project", "team/q", path]).await;
    let shown = root.get("/projects/team%2Fq/events").await.expect(200);
    assert_eq!(shown.pluck("author_username"), ["root", "ann", "ann"]);
    let said = site.fails(&["admin", "import-repo", "--project", "team/r", "--author", "nobody", path]).await;
    assert!(said.contains("User not found"), "{said}");
    root.get("/projects/team%2Fr").await.expect(404);
    server.stop().await;
}

async fn a_directory_makes_members_whose_role_is_overridden(site: Site) {
    let server = site.serve(&[]).await;
    let root = Client::new(&server.base, Some(TOKEN));
    for name in ["ann", "bob"] {
        site.succeeds(&["admin", "create-user", name, "--email", &format!("{name}@example.com")]).await;
    }
    let engines = group(&root, "engines", json!({})).await;
    let sync = async |lines: &str, more: &[&str]| {
        let arguments = [&["admin", "sync-members", "--group", "engines"], more].concat();
        let file = site.beside("lines");
        std::fs::write(&file, lines).unwrap();
        let mut command = site.command(&arguments);
        let output = command.stdin(std::fs::File::open(file).unwrap()).output().await.unwrap();
        (output.status.success(), git::said(&output))
    };
    let (done, said) = sync("ann developer\n\nbob 20\ncid Guest\n", &[]).await;
    assert!(done && said.contains("cid does not exist.") && said.contains("2 joined, 0 changed, 0 left."), "{said}");
    let id = root.get("/users?username=ann").await.expect(200).json()[0]["id"].clone();
    let one = format!("/groups/{engines}/members/{id}");
    assert_eq!(root.get(&one).await.expect(200).json()["override"], false);
    root.put(&one, json!({"access_level": 40})).await.expect(403);
    root.post(&format!("{one}/override"), json!({})).await.expect(201);
    assert_eq!(root.put(&one, json!({"access_level": 40})).await.expect(200).json()["access_level"], 40);
    let (done, said) = sync("ann reporter\n", &[]).await;
    assert!(done && said.contains("0 joined, 0 changed, 1 left."), "{said}");
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
        let (done, said) = sync(lines, &[]).await;
        assert!(!done && said.contains(reason), "{lines}: {said}");
    }
    let (done, said) = sync("", &["--allow-empty"]).await;
    assert!(done && said.contains("1 left"), "{said}");
    root.get(&one).await.expect(404);
    let (done, said) = sync("ann guest", &["--plan", "free"]).await;
    assert!(!done && said.contains("does not include directory synchronization"), "{said}");
    server.stop().await;
}

on_every_site![
    imported_repository_can_be_cloned_with_tags_and_default_branch,
    imports_that_cannot_be_are_refused,
    users_and_tokens_are_good_at_once,
    an_import_is_the_doing_of_somebody,
    a_directory_makes_members_whose_role_is_overridden,
];
