//! Planning data of the demo: labels, milestones, issues, merge requests, an epic, a board, snippets and notes.

use poem::{Endpoint, Response};
use serde_json::{Value, json};

use super::spaces::DemoIds;
use super::{DemoApi, days_ago, in_days, number};
use crate::server::error::Error;

/// Creates all planning data.
pub(super) async fn create<E>(api: &DemoApi<'_, E>, demo_ids: &DemoIds) -> Result<(), Error>
where
    E: Endpoint<Output = Response>,
{
    let DemoIds {
        group, lighthouse, ..
    } = *demo_ids;
    let project = format!("/projects/{lighthouse}");
    let milestone = frame(api, group, &project).await?;
    let issues = issues(api, demo_ids, &project, milestone).await?;
    merge_requests(api, demo_ids, &project, milestone).await?;
    epics(api, group, &project, &issues).await
}

/// Creates labels, milestones and a board; returns the ID of the next milestone.
async fn frame<E>(api: &DemoApi<'_, E>, group: i64, project: &str) -> Result<i64, Error>
where
    E: Endpoint<Output = Response>,
{
    for (name, color, description) in [
        ("bug", "#d9534f", "Incorrect behavior"),
        ("feature", "#428bca", "New functionality"),
        ("documentation", "#5cb85c", "Missing or outdated documentation"),
    ] {
        let label = json!({"name": name, "color": color, "description": description});
        api.post("ada", &format!("/groups/{group}/labels"), label).await?;
    }
    let mut lists = Vec::new();
    for (name, color, priority) in [("doing", "#f0ad4e", json!(1)), ("stormy", "#5843ad", Value::Null)] {
        let label = json!({"name": name, "color": color, "priority": priority});
        let label = api.post("ben", &format!("{project}/labels"), label).await?;
        lists.push(number(&label, "id")?);
    }
    let board = api
        .post("ben", &format!("{project}/boards"), json!({"name": "The watch"}))
        .await?;
    let lists_of_board = format!("{project}/boards/{}/lists", number(&board, "id")?);
    for label_id in lists {
        api.post("ben", &lists_of_board, json!({"label_id": label_id}))
            .await?;
    }
    let done = json!({"title": "0.2", "description": "The one with the horn."});
    let done = number(
        &api.post("ben", &format!("{project}/milestones"), done).await?,
        "id",
    )?;
    let close = json!({"state_event": "close"});
    api.put("ben", &format!("{project}/milestones/{done}"), close)
        .await?;
    let next = json!({
        "title": "1.0", "description": "Ready for the autumn storms.", "start_date": in_days(0), "due_date": in_days(45),
    });
    number(
        &api.post("ben", &format!("{project}/milestones"), next).await?,
        "id",
    )
}

/// Creates the issues with their notes; returns their IDs.
async fn issues<E>(
    api: &DemoApi<'_, E>,
    demo_ids: &DemoIds,
    project: &str,
    milestone: i64,
) -> Result<Vec<i64>, Error>
where
    E: Endpoint<Output = Response>,
{
    let [_, ben, cleo, dana] = demo_ids.user_ids[..] else {
        return Err(Error::Demo("expected four users".to_owned()));
    };
    let all = [
        (
            "ada",
            json!({
                "title": "The lamp is too bright at full moon", "labels": "feature,doing", "assignee_ids": [cleo],
                "milestone_id": milestone, "weight": 3, "created_at": days_ago(21),
                "description": "Ships complain.\n\n- [x] Measure\n- [ ] Dim\n- [ ] Notify the ships",
            }),
        ),
        (
            "dana",
            json!({
                "title": "The horn cannot be heard behind the pier", "labels": "bug,stormy", "assignee_ids": [cleo, ben],
                "milestone_id": milestone, "due_date": in_days(10), "description": "Last night I heard it at the bakery only.",
            }),
        ),
        (
            "cleo",
            json!({"title": "Document how to start", "labels": "documentation", "description": "New keepers ask me each time."}),
        ),
        (
            "ben",
            json!({"title": "Power the lamp with solar energy", "labels": "feature", "weight": 8, "description": "See [the calculation](docs/solar.md)."}),
        ),
        (
            "ada",
            json!({
                "title": "The key of the lamp room is missing", "confidential": true, "assignee_ids": [ben], "created_at": days_ago(3),
                "description": "Please look for it quietly.",
            }),
        ),
        (
            "dana",
            json!({"title": "Count the ships that pass", "labels": "feature"}),
        ),
        (
            "ada",
            json!({"title": "The clock is a minute late", "labels": "bug", "created_at": days_ago(40)}),
        ),
    ];
    let mut ids = Vec::new();
    for (author, body) in all {
        ids.push(number(
            &api.post(author, &format!("{project}/issues"), body).await?,
            "id",
        )?);
    }
    for (author, iid, body) in [
        ("ben", 1, "Sixty percent should do. @cleo, can you try?"),
        ("cleo", 1, "I have a branch for it."),
        ("ben", 2, "Was the wind from the north?"),
        ("dana", 2, "It was. It rattled the window, too."),
        ("cleo", 4, "What does it do in November?"),
        ("ben", 5, "Not in my coat."),
        ("ben", 7, "Wound it again. It was Monday."),
    ] {
        api.post(
            author,
            &format!("{project}/issues/{iid}/notes"),
            json!({"body": body}),
        )
        .await?;
    }
    for (user, iid, name) in [
        ("ben", 1, "thumbsup"),
        ("dana", 1, "thumbsup"),
        ("cleo", 4, "sunny"),
        ("ada", 2, "ear"),
    ] {
        let award = json!({"name": name});
        api.post(user, &format!("{project}/issues/{iid}/award_emoji"), award)
            .await?;
    }
    let estimate = json!({"duration": "1d 2h"});
    api.post("cleo", &format!("{project}/issues/1/time_estimate"), estimate)
        .await?;
    let spent = json!({"duration": "3h 30m"});
    api.post("cleo", &format!("{project}/issues/1/add_spent_time"), spent)
        .await?;
    api.post("dana", &format!("{project}/issues/1/subscribe"), json!({}))
        .await?;
    let close = json!({"state_event": "close"});
    api.put("ada", &format!("{project}/issues/7"), close).await?;
    let far = json!({"title": "The far buoy drifts", "description": "By a mile since Tuesday.", "assignee_ids": [dana]});
    let far = api
        .post("ben", &format!("/projects/{}/issues", demo_ids.buoy), far)
        .await?;
    ids.push(number(&far, "id")?);
    Ok(ids)
}

/// Creates the merge requests: an open one that closes an issue, a merged one, a draft, and a closed one.
async fn merge_requests<E>(
    api: &DemoApi<'_, E>,
    demo_ids: &DemoIds,
    project: &str,
    milestone: i64,
) -> Result<(), Error>
where
    E: Endpoint<Output = Response>,
{
    let all = format!("{project}/merge_requests");
    let ben = demo_ids.user_ids.get(1);
    for (author, source, title, description, labels) in [
        (
            "cleo",
            "dimmer",
            "Dim the lamp at full moon",
            "Closes #1.\n\nSixty percent, as @ben suggested.",
            "feature",
        ),
        (
            "ben",
            "quick-start",
            "Document the quick start",
            "Closes #3. Written by @dana.",
            "documentation",
        ),
        (
            "ben",
            "solar",
            "Draft: Power the lamp with solar energy",
            "See #4; the calculation is not finished.",
            "feature",
        ),
        (
            "cleo",
            "louder-horn",
            "Sound the horn twice as often",
            "For #2.",
            "bug",
        ),
    ] {
        let body = json!({
            "source_branch": source, "target_branch": "main", "title": title, "description": description, "labels": labels,
            "assignee_ids": ben.into_iter().collect::<Vec<_>>(), "milestone_id": milestone, "remove_source_branch": source == "quick-start",
        });
        api.post(author, &all, body).await?;
    }
    for (author, iid, body) in [
        ("ben", 1, "Looks right. What happens at new moon?"),
        ("cleo", 1, "Then it is `100`."),
        (
            "ada",
            4,
            "The bakery asks us not to. Let us turn the horn instead.",
        ),
    ] {
        api.post(author, &format!("{all}/{iid}/notes"), json!({"body": body}))
            .await?;
    }
    api.post("ada", &format!("{all}/1/award_emoji"), json!({"name": "rocket"}))
        .await?;
    api.put("ben", &format!("{all}/2/merge"), json!({})).await?;
    api.put("cleo", &format!("{all}/4"), json!({"state_event": "close"}))
        .await?;
    Ok(())
}

/// Creates an epic with issues of both projects, snippets, and a comment on a commit.
async fn epics<E>(api: &DemoApi<'_, E>, group: i64, project: &str, issues: &[i64]) -> Result<(), Error>
where
    E: Endpoint<Output = Response>,
{
    let epic = json!({
        "title": "Be ready for the autumn storms", "labels": "feature", "start_date": in_days(0), "due_date": in_days(60),
        "description": "Lamp, horn and buoys.",
    });
    let epic = api.post("ada", &format!("/groups/{group}/epics"), epic).await?;
    let (iid, id) = (number(&epic, "iid")?, number(&epic, "id")?);
    for issue in [issues.first(), issues.get(1), issues.last()]
        .into_iter()
        .flatten()
    {
        api.post(
            "ada",
            &format!("/groups/{group}/epics/{iid}/issues/{issue}"),
            json!({}),
        )
        .await?;
    }
    let note = json!({"body": "The first one is due in six weeks."});
    api.post("ben", &format!("/groups/{group}/epics/{id}/notes"), note)
        .await?;
    let tides = json!({
        "title": "Tides of the week", "file_name": "tides.txt", "content": "Mon 04:12\nTue 05:01\nWed 05:48\n", "visibility": "public",
    });
    let tides = api.post("dana", &format!("{project}/snippets"), tides).await?;
    let note = json!({"body": "And on Thursday?"});
    api.post(
        "cleo",
        &format!("{project}/snippets/{}/notes", number(&tides, "id")?),
        note,
    )
    .await?;
    let own = json!({"title": "Ring the bell", "file_name": "bell.sh", "content": "printf '\\a'\n"});
    api.post("cleo", "/snippets", own).await?;
    let comment = json!({"note": "The chart requires ten seconds."});
    api.post(
        "dana",
        &format!("{project}/repository/commits/main~1/comments"),
        comment,
    )
    .await?;
    Ok(())
}
