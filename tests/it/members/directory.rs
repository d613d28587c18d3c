//! Members that directory synchronisation made.

use holdfast::entities::members;
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use serde_json::{Value, json};

use crate::support::places::{group, join, project};
use crate::support::{TestServer, scenario};

/// Marks a user's memberships as made by the directory, as its synchronisation does.
async fn mark(server: &TestServer, user_id: i64) {
    members::Entity::update_many()
        .col_expr(members::Column::Ldap, Expr::value(true))
        .filter(members::Column::UserId.eq(user_id))
        .exec(server.backend.database.write())
        .await
        .expect("an update");
}

scenario! {
    async fn the_role_that_the_directory_set_changes_only_while_it_is_overridden(server) {
        let root = server.root();
        let engines = group(&root, "engines", json!({})).await;
        let work = project(&root, "work", json!({"namespace_id": engines})).await;
        let ada = server.person("ada").await;
        join(&root, &format!("/groups/{engines}"), ada.id, 20).await;
        let one = format!("/groups/{engines}/members/{}", ada.id);
        assert_eq!(root.get(&one).await.expect(200).json().get("override"), None);
        mark(&server, ada.id).await;
        assert_eq!(root.get(&one).await.expect(200).json()["override"], json!(false));
        root.put(&one, json!({"access_level": 30})).await.expect(403);
        let path = format!("{one}/override");
        let on = root.post(&path, json!({})).await.expect(201).json();
        assert_eq!((&on["id"], &on["access_level"], &on["override"]), (&json!(ada.id), &json!(20), &json!(true)));
        assert_eq!(root.post(&path, json!({})).await.expect(201).json(), on);
        assert_eq!(root.put(&one, json!({"access_level": 30})).await.expect(200).json()["override"], json!(true));
        let all = root.get(&format!("/projects/{work}/members/all/{}", ada.id)).await.expect(200).json();
        assert_eq!((&all["access_level"], &all["override"]), (&json!(30), &json!(true)));
        let off = root.delete(&path).await.expect(200).json();
        assert_eq!((&off["access_level"], &off["override"]), (&json!(30), &json!(false)));
        root.put(&one, json!({"access_level": 20})).await.expect(403);
        // Removing is nobody's role.
        root.delete(&one).await.expect(204);
    }

    async fn only_members_of_the_directory_are_overridden_and_only_by_owners(server) {
        let root = server.root();
        let engines = group(&root, "engines", json!({})).await;
        let cast = server.cast(&root, engines).await;
        let target = server.person("target").await;
        join(&root, &format!("/groups/{engines}"), target.id, 20).await;
        let path = format!("/groups/{engines}/members/{}/override", target.id);
        root.post(&path, json!({})).await.expect(403);
        root.delete(&path).await.expect(403);
        mark(&server, target.id).await;
        for (level, person) in &cast {
            let wanted = |success: u16| if *level == 50 { success } else { 403 };
            assert_eq!(person.client.post(&path, json!({})).await.status, wanted(201), "{level}");
            assert_eq!(person.client.delete(&path).await.status, wanted(200), "{level}");
        }
        let unknown = format!("/groups/{engines}/members/999999/override");
        assert_eq!(root.post(&unknown, json!({})).await.expect(404).message(), "404 Not found");
        assert_eq!(root.delete(&unknown).await.expect(404).message(), "404 Not found");
        let shown = root.get(&format!("/groups/{engines}/members")).await.expect(200);
        assert_eq!(shown.pluck("group_saml_identity"), vec![Value::Null; 7]);
    }
}
