//! Lists of subgroups and descendants.

use serde_json::{Value, json};

use crate::support::spaces::{group, join};
use crate::support::{Client, TestServer, on_every_database};

async fn paths(client: &Client, list: &str) -> Vec<Value> {
    client.get(list).await.expect(200).pluck("path")
}

async fn subgroup_lists_return_visible_groups_of_caller(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({"visibility": "public"})).await;
    let open = group(&root, "open", json!({"parent_id": top, "visibility": "public"})).await;
    group(&root, "shut", json!({"parent_id": top})).await;
    group(&root, "deep", json!({"parent_id": open, "visibility": "internal"})).await;
    group(&root, "aside", json!({"visibility": "public"})).await;
    let (subgroups, all) = (format!("/groups/{top}/subgroups"), format!("/groups/{top}/descendant_groups"));
    let (anonymous, ada) = (server.anonymous(), server.create_user("ada").await);
    assert_eq!(
        (paths(&anonymous, &subgroups).await, paths(&anonymous, &all).await),
        (vec![json!("open")], vec![json!("open")])
    );
    assert_eq!(paths(&ada.client, &subgroups).await, [] as [Value; 0]);
    let available = "?all_available=true";
    assert_eq!(paths(&ada.client, &format!("{subgroups}{available}")).await, ["open"]);
    assert_eq!(paths(&ada.client, &format!("{all}{available}")).await, ["deep", "open"]);
    join(&root, &format!("/groups/{top}"), ada.id, 10).await;
    assert_eq!(paths(&ada.client, &subgroups).await, ["open", "shut"]);
    assert_eq!(paths(&ada.client, &all).await, ["deep", "open", "shut"]);
    assert_eq!(paths(&root, &format!("/groups/{top}/descendants")).await, ["deep", "open", "shut"]);
    assert_eq!(paths(&root, &format!("{all}?search=EE&order_by=path&sort=desc")).await, ["deep"]);
    assert_eq!(paths(&ada.client, &format!("{all}?owned=true")).await, [] as [Value; 0]);
    assert_eq!(paths(&root, &format!("{subgroups}?skip_groups[]={open}&statistics=true")).await, ["shut"]);
    let page = root.get(&format!("{all}?per_page=2&page=2")).await.expect(200);
    assert_eq!((page.pluck("path"), page.header("x-total")), (vec![json!("shut")], "3"));
}

async fn private_group_lists_return_404_to_non_members(server: TestServer) {
    let root = server.root();
    let hidden = group(&root, "hidden", json!({})).await;
    let non_member = server.create_user("stranger").await;
    for list in ["subgroups", "descendant_groups", "descendants", "projects"] {
        for client in [&non_member.client, &server.anonymous()] {
            let response = client.get(&format!("/groups/{hidden}/{list}")).await.expect(404);
            assert_eq!(response.message(), "404 Group Not Found");
        }
    }
}

async fn subgroup_lists_statement_count_is_constant(server: TestServer) {
    let root = server.root();
    let ada = server.create_user("ada").await;
    let top = group(&root, "top", json!({})).await;
    join(&root, &format!("/groups/{top}"), ada.id, 30).await;
    let mut parent = group(&root, "g1", json!({"parent_id": top})).await;
    let costs = async || {
        let mut costs = Vec::new();
        for list in ["subgroups", "descendant_groups", "descendants"] {
            let before = server.statements();
            ada.client.get(&format!("/groups/{top}/{list}")).await.expect(200);
            costs.push(server.statements() - before);
        }
        costs
    };
    // The first use of a token writes its time of last use.
    costs().await;
    let one = costs().await;
    for number in 2..=10 {
        parent = group(&root, &format!("g{number}"), json!({"parent_id": parent})).await;
        group(&root, &format!("h{number}"), json!({"parent_id": top})).await;
    }
    assert_eq!(costs().await, one);
    assert!(one.iter().all(|cost| *cost <= 8), "{one:?}");
}

on_every_database![
    subgroup_lists_return_visible_groups_of_caller,
    private_group_lists_return_404_to_non_members,
    subgroup_lists_statement_count_is_constant,
];
