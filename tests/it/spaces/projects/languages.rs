//! Languages and licenses of projects.

use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility};

use crate::support::code::{NewCommit, Project, file};
use crate::support::{TestServer, on_every_database};

const MIT: &str = "MIT License\n\nCopyright (c) 1842 Ada Lovelace\n\n\
Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated \
documentation files (the \"Software\"), to deal in the Software without restriction, including without limitation the \
rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit \
persons to whom the Software is furnished to do so, subject to the following conditions:\n\n\
The above copyright notice and this permission notice shall be included in all copies or substantial portions of the \
Software.\n\n\
THE SOFTWARE IS PROVIDED \"AS IS\", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE \
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR \
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR \
OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.\n";

async fn languages_are_calculated_from_the_default_branch(server: TestServer) {
    let root = server.root();
    let project = Project::empty(&server, "code", Visibility::Public).await;
    let languages = format!("/projects/{}/languages", project.id);
    assert_eq!(root.get(&languages).await.expect(200).json(), json!({}));
    let rust = "fn main() { println!(\"hello, world\"); }\n";
    project.import(&NewCommit {
        changes: [
            file("src/main.rs", rust),
            file("run", "#!/bin/sh\necho hi\n"),
            file("lib/two.py", "print(2)\n"),
            file("node_modules/big/index.js", &"x();\n".repeat(1_000)),
            file("README.md", "# Title\n"),
            file("data.json", "{}"),
            "M 120000 inline link.py\ndata 10\nlib/two.py\n".to_owned(),
        ]
        .concat(),
        ..NewCommit::default()
    });
    project.set_default_branch("main").await;
    let shares = server.anonymous().get(&languages).await.expect(200).json();
    let total = (rust.len() + 18 + 9) as f64;
    let percent = |bytes: usize| ((bytes as f64 * 10_000.0 / total).round()) / 100.0;
    assert_eq!(shares, json!({"Python": percent(9), "Rust": percent(rust.len()), "Shell": percent(18)}));
    // The response is sorted by share, largest first.
    let names: Vec<&String> = shares.as_object().expect("an object").keys().collect();
    assert_eq!(names, ["Rust", "Shell", "Python"]);
    let ids_for = async |query: &str| root.get(&format!("/projects?{query}")).await.expect(200).pluck("id");
    assert_eq!(ids_for("with_programming_language=rUST").await, [json!(project.id)]);
    assert_eq!(ids_for("with_programming_language=JavaScript").await, Vec::<Value>::new());
    assert_eq!(ids_for("with_programming_language=Rust&archived=true").await, Vec::<Value>::new());
    // A new commit changes the result of the request and of the job.
    project.import(&NewCommit {
        time: 1_700_000_000,
        changes: "D src/main.rs\nD run\n".to_owned(),
        ..NewCommit::default()
    });
    let before = server.statements();
    assert_eq!(root.get(&languages).await.expect(200).json(), json!({"Python": 100.0}));
    let uncached = server.statements() - before;
    assert_eq!(root.get(&languages).await.expect(200).json(), json!({"Python": 100.0}));
    assert!(server.statements() - before - uncached < uncached, "the second response is cached");
    assert_eq!(ids_for("with_programming_language=Rust").await, Vec::<Value>::new());
}

async fn languages_require_permission_to_read_code(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "code", Visibility::Private).await;
    let languages = format!("/projects/{}/languages", project.id);
    let guest = server.create_user("guest").await;
    server.insert_member(project.id, guest.id, AccessLevel::Guest).await;
    guest.client.get(&languages).await.expect(403);
    server.anonymous().get(&languages).await.expect(404);
    server.with_token("wrong").get(&languages).await.expect(401);
    root.get("/projects/a%00b%2Fc/languages").await.expect(400);
    root.put(&format!("/projects/{}", project.id), json!({"repository_access_level": "disabled"})).await.expect(200);
    assert_eq!(root.get(&languages).await.expect(404).message(), "404 Repository Not Found");
}

async fn maintenance_job_updates_statistics_languages_and_license(server: TestServer) {
    let root = server.root();
    let created = root.post("/projects", json!({"path": "code", "initialize_with_readme": true})).await.expect(201);
    let id = created.json()["id"].as_i64().expect("an id");
    let commit = json!({"branch": "main", "commit_message": "x", "actions": [
        {"action": "create", "file_path": "a.py", "content": "print(1)\n"},
        {"action": "create", "file_path": "LICENSE", "content": MIT}]});
    root.post(&format!("/projects/{id}/repository/commits"), commit).await.expect(201);
    server.finish_jobs().await;
    let read = root.get(&format!("/projects/{id}?statistics=true&license=true")).await.expect(200).json();
    assert_eq!(read["statistics"]["commit_count"], 2);
    assert_eq!(read["statistics"]["storage_size"], read["statistics"]["repository_size"]);
    assert!(read["statistics"]["repository_size"].as_i64() > Some(0));
    assert_eq!(
        read["license"],
        json!({"key": "mit", "name": "MIT License", "nickname": null,
        "html_url": "https://spdx.org/licenses/MIT.html", "source_url": "https://opensource.org/licenses/MIT"})
    );
    assert_eq!(read["license_url"], format!("{}/root/code/-/blob/main/LICENSE", server.base));
    for (level, found) in [(AccessLevel::Guest, vec![]), (AccessLevel::Reporter, vec![json!(id)])] {
        let user = server.create_user(&format!("{level:?}").to_lowercase()).await;
        server.insert_member(id, user.id, level).await;
        assert_eq!(user.client.get("/projects").await.expect(200).pluck("id"), [json!(id)]);
        let listed = user.client.get("/projects?with_programming_language=Python").await.expect(200);
        assert_eq!(listed.pluck("id"), found, "{level:?}");
    }
    let list = root.get("/projects?with_programming_language=Python").await.expect(200);
    assert_eq!(list.pluck("id"), [json!(id)]);
    let plain = root.get(&format!("/projects/{id}")).await.expect(200).json();
    assert!(plain.get("license").is_none() && plain.get("license_url").is_none());
}

async fn license_is_null_for_unknown_text_and_for_guests(server: TestServer) {
    let root = server.root();
    let project = Project::empty(&server, "code", Visibility::Private).await;
    project.import(&NewCommit { changes: file("LICENSE", "All rights reserved.\n"), ..NewCommit::default() });
    project.set_default_branch("main").await;
    let read = root.get(&format!("/projects/{}?license=true", project.id)).await.expect(200).json();
    assert_eq!((&read["license"], &read["license_url"]), (&Value::Null, &Value::Null));
    let guest = server.create_user("guest").await;
    server.insert_member(project.id, guest.id, AccessLevel::Guest).await;
    let read = guest.client.get(&format!("/projects/{}?license=true", project.id)).await.expect(200).json();
    assert_eq!(read["license"], Value::Null);
}

on_every_database![
    languages_are_calculated_from_the_default_branch,
    languages_require_permission_to_read_code,
    maintenance_job_updates_statistics_languages_and_license,
    license_is_null_for_unknown_text_and_for_guests,
];
