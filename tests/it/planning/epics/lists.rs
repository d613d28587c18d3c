//! Filters and orders of epic lists.

use serde_json::{Value, json};

use super::{epic, group, join, titles};
use crate::support::{TestServer, on_every_database};

async fn list_epics_includes_ancestors_and_descendants_on_request(server: TestServer) {
    let root = server.root();
    let top = group(&server, "top", json!({})).await;
    let mid = group(&server, "mid", json!({"parent_id": top})).await;
    let low = group(&server, "low", json!({"parent_id": mid})).await;
    for (id, title) in [(top, "Top"), (mid, "Mid"), (low, "Low")] {
        epic(&root, id, title, json!({})).await;
    }
    let all = format!("/groups/{mid}/epics");
    for (query, expected) in [
        ("", vec!["Low", "Mid"]),
        ("?include_descendant_groups=false", vec!["Mid"]),
        ("?include_ancestor_groups=true", vec!["Low", "Mid", "Top"]),
        ("?include_ancestor_groups=true&include_descendant_groups=false", vec!["Mid", "Top"]),
    ] {
        assert_eq!(titles(&root, &format!("{all}{query}")).await, expected, "{query}");
    }
    let listed = root.get(&all).await.expect(200).json();
    let relative: Vec<&Value> =
        listed.as_array().expect("a list").iter().map(|epic| &epic["references"]["relative"]).collect();
    assert_eq!(relative, ["top/mid/low&1", "&1"]);
    assert_eq!(listed[0]["web_url"], format!("{}/groups/top/mid/low/-/epics/1", server.base));
    let page = root.get(&format!("{all}?per_page=1&page=2")).await.expect(200);
    assert_eq!((page.pluck("title"), page.header("X-Total")), (vec![json!("Mid")], "2"));
}

async fn list_epics_combines_filters_with_and(server: TestServer) {
    let (root, ann) = (server.root(), server.create_user("ann").await);
    let id = group(&server, "many", json!({})).await;
    join(&server, id, ann.id, 20).await;
    epic(&root, id, "Alpha", json!({"labels": "a,b", "created_at": "2016-01-01T00:00:00Z"})).await;
    epic(&ann.client, id, "beta Ärger", json!({"labels": "a"})).await;
    let (_, gamma) = epic(&root, id, "Gamma", json!({"description": "100% über alles"})).await;
    root.put(&format!("/groups/{id}/epics/3"), json!({"state_event": "close"})).await.expect(200);
    let award = json!({"body": ":tada:"});
    ann.client.post(&format!("/groups/{id}/epics/{gamma}/notes"), award).await.expect(201);
    let all = format!("/groups/{id}/epics");
    for (query, expected) in [
        ("order_by=title&sort=asc", vec!["Alpha", "beta Ärger", "Gamma"]),
        ("order_by=title", vec!["Gamma", "beta Ärger", "Alpha"]),
        ("sort=asc", vec!["Alpha", "beta Ärger", "Gamma"]),
        ("order_by=updated_at", vec!["Gamma", "beta Ärger", "Alpha"]),
        ("author_username=ANN", vec!["beta Ärger"]),
        ("author_username=missing-user", vec![]),
        ("author_id=1", vec!["Gamma", "Alpha"]),
        ("labels=a", vec!["beta Ärger", "Alpha"]),
        ("labels=a,b", vec!["Alpha"]),
        ("labels=unknown", vec![]),
        ("labels=None", vec!["Gamma"]),
        ("labels=any", vec!["beta Ärger", "Alpha"]),
        ("state=opened", vec!["beta Ärger", "Alpha"]),
        ("state=closed", vec!["Gamma"]),
        ("state=all&labels=a", vec!["beta Ärger", "Alpha"]),
        ("search=%C3%84RGER", vec!["beta Ärger"]),
        ("search=0%25%20%C3%9Cber", vec!["Gamma"]),
        ("search=%25lpha", vec![]),
        ("created_after=2017-01-01T00:00:00Z", vec!["Gamma", "beta Ärger"]),
        ("created_before=2017-01-01T00:00:00Z", vec!["Alpha"]),
        ("updated_before=2017-01-01T00:00:00Z", vec!["Alpha"]),
        ("updated_after=2017-01-01T00:00:00Z&author_id=1", vec!["Gamma"]),
        ("iids[]=1&iids[]=3", vec!["Gamma", "Alpha"]),
        ("iids[]=9", vec![]),
    ] {
        assert_eq!(titles(&root, &format!("{all}?{query}")).await, expected, "{query}");
    }
    for (query, expected) in [
        ("my_reaction_emoji=tada", vec!["Gamma"]),
        ("my_reaction_emoji=Any", vec!["Gamma"]),
        ("my_reaction_emoji=None", vec!["beta Ärger", "Alpha"]),
        ("my_reaction_emoji=rocket", vec![]),
    ] {
        assert_eq!(titles(&ann.client, &format!("{all}?{query}")).await, expected, "{query}");
    }
    let anonymous = titles(&server.anonymous(), &format!("{all}?my_reaction_emoji=tada")).await;
    assert_eq!(anonymous.len(), 3, "the filter does not apply to anonymous callers");
    for (query, message) in [
        ("author_id=1&author_username=ann", "author_id, author_username are mutually exclusive"),
        ("order_by=iid", "order_by does not have a valid value"),
        ("state=gone", "state does not have a valid value"),
        ("created_after=never", "created_after is invalid"),
    ] {
        assert_eq!(root.get(&format!("{all}?{query}")).await.expect(400).message(), message);
    }
}

on_every_database![list_epics_includes_ancestors_and_descendants_on_request, list_epics_combines_filters_with_and,];
