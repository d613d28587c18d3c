//! Reading projects.

use serde_json::{Value, json};

use crate::support::spaces::{group, join, project};
use crate::support::{TestServer, on_every_database};

async fn get_project_returns_fields_by_role(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "engines", json!({"visibility": "public"})).await;
    let extra = json!({"namespace_id": engines, "visibility": "public", "initialize_with_readme": true});
    let work = project(&root, "work", extra).await;
    let one = format!("/projects/{work}?with_custom_attributes=true");
    for (level, user) in server.create_member_per_role(&root, engines).await {
        let read = user.client.get(&one).await.expect(200).json();
        assert_eq!(read["permissions"]["group_access"]["access_level"], level);
        assert_eq!(read["permissions"]["project_access"], Value::Null);
        assert_eq!(read.get("custom_attributes"), None);
    }
    let admin = root.get(&one).await.expect(200).json();
    assert_eq!((&admin["repository_storage"], &admin["custom_attributes"]), (&json!("default"), &json!([])));
    assert_eq!(admin["_links"]["self"], format!("{}/api/v4/projects/{work}", server.base));
}

async fn get_private_project_hides_default_branch_from_guests(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({"initialize_with_readme": true})).await;
    let path = format!("/projects/{work}");
    for (level, sees) in [(10, false), (20, true)] {
        let user = server.create_user(&format!("p{level}")).await;
        join(&root, &path, user.id, level).await;
        let read = user.client.get(&path).await.expect(200).json();
        assert_eq!(read["default_branch"].is_string(), sees, "{level}");
        assert_eq!(read["can_create_merge_request_in"], sees);
    }
}

async fn private_and_missing_project_return_identical_responses(server: TestServer) {
    let root = server.root();
    let hidden = project(&root, "hidden", json!({})).await;
    let non_member = server.create_user("stranger").await;
    let names = |response: &crate::support::ApiResponse| {
        let mut names: Vec<_> = response.headers.keys().map(|name| name.as_str().to_owned()).collect();
        names.sort();
        names
    };
    for reference in [hidden.to_string(), "root%2Fhidden".to_owned()] {
        for missing in ["999999", "root%2Fmissing", "999999999999999999999999", "word"] {
            let (existing, not) = (format!("/projects/{reference}"), format!("/projects/{missing}"));
            for client in [&non_member.client, &server.anonymous()] {
                let (existing, not) = (client.get(&existing).await.expect(404), client.get(&not).await.expect(404));
                assert_eq!(existing.body, not.body);
                assert_eq!(names(&existing), names(&not));
                assert_eq!(existing.message(), "404 Project Not Found");
            }
            let (a, b) = (non_member.client.delete(&existing).await, non_member.client.delete(&not).await);
            assert_eq!((a.status, &a.body, names(&a)), (404, &b.body, names(&b)));
            for action in ["archive", "unarchive"] {
                non_member.client.post(&format!("{existing}/{action}"), json!({})).await.expect(404);
            }
            non_member.client.put(&existing, json!({"description": "x"})).await.expect(404);
        }
    }
    assert_eq!(root.get("/projects/ROOT%2FHidden").await.expect(200).json()["id"], hidden);
}

on_every_database![
    get_project_returns_fields_by_role,
    get_private_project_hides_default_branch_from_guests,
    private_and_missing_project_return_identical_responses,
];
