//! Users of the demo, their groups and projects.

use poem::{Endpoint, Response};
use serde_json::json;

use super::{DemoApi, number};
use crate::server::error::Error;

/// IDs of the created resources.
pub(super) struct DemoIds {
    /// The group.
    pub group: i64,
    /// The main project of the group.
    pub lighthouse: i64,
    /// A project of the subgroup.
    pub buoy: i64,
    /// A personal project.
    pub notebook: i64,
    /// IDs of [`super::USERS`].
    pub user_ids: Vec<i64>,
}

/// User name, name, job title, and access level in the group.
const USER_DETAILS: [(&str, &str, &str, i64); 4] = [
    ("ada", "Ada Lindqvist", "Harbor master", 50),
    ("ben", "Ben Okafor", "Maintainer of the lamp", 40),
    ("cleo", "Cleo Marsh", "Developer", 30),
    ("dana", "Dana Petrov", "Keeper and tester", 20),
];

/// Creates the users and returns their IDs.
pub(super) async fn create_users<E>(api: &DemoApi<'_, E>, password: &str) -> Result<Vec<i64>, Error>
where
    E: Endpoint<Output = Response>,
{
    let mut user_ids = Vec::new();
    for (username, name, title, _) in USER_DETAILS {
        let user = json!({
            "username": username, "name": name, "email": format!("{username}@harbor.example"), "password": password,
            "job_title": title, "organization": "The Harbor", "skip_confirmation": true,
        });
        user_ids.push(number(&api.post("root", "/users", user).await?, "id")?);
    }
    Ok(user_ids)
}

/// Creates the groups and projects.
pub(super) async fn create<E>(api: &DemoApi<'_, E>, user_ids: Vec<i64>) -> Result<DemoIds, Error>
where
    E: Endpoint<Output = Response>,
{
    let harbor = json!({
        "name": "Harbor", "path": "harbor", "visibility": "public",
        "description": "Everything that keeps ships off the rocks.",
    });
    let group = number(&api.post("root", "/groups", harbor).await?, "id")?;
    for (user_id, (_, _, _, level)) in user_ids.iter().zip(USER_DETAILS) {
        let member = json!({"user_id": user_id, "access_level": level});
        api.post("root", &format!("/groups/{group}/members"), member)
            .await?;
    }
    let tools = json!({
        "name": "Tools", "path": "tools", "parent_id": group, "visibility": "internal",
        "description": "Small tools for daily work in the harbor.",
    });
    let tools = number(&api.post("ada", "/groups", tools).await?, "id")?;
    let lighthouse = json!({
        "name": "Lighthouse", "path": "lighthouse", "namespace_id": group, "visibility": "public",
        "description": "The controller of the lamp and the fog horn.", "tag_list": "embedded,rust",
    });
    let buoy = json!({
        "name": "Buoy", "path": "buoy", "namespace_id": tools, "visibility": "internal",
        "description": "Reads the buoys and prints where they are.", "tag_list": "python",
    });
    let notebook = json!({"name": "Notebook", "path": "notebook", "description": "For my eyes only."});
    let demo_ids = DemoIds {
        group,
        lighthouse: number(&api.post("ada", "/projects", lighthouse).await?, "id")?,
        buoy: number(&api.post("ben", "/projects", buoy).await?, "id")?,
        notebook: number(&api.post("cleo", "/projects", notebook).await?, "id")?,
        user_ids,
    };
    for user in ["ben", "cleo"] {
        api.post(
            user,
            &format!("/projects/{}/star", demo_ids.lighthouse),
            json!({}),
        )
        .await?;
    }
    let badge = json!({
        "name": "license", "link_url": "https://harbor.example/%{project_path}",
        "image_url": "https://harbor.example/badges/license.svg",
    });
    api.post("ada", &format!("/projects/{}/badges", demo_ids.lighthouse), badge)
        .await?;
    Ok(demo_ids)
}
