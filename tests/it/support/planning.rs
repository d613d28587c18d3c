//! Issues and merge requests created without the API.

use sea_orm::sea_query::Query;
use sea_orm::{ActiveModelTrait, ActiveValue::Set, ConnectionTrait, EntityTrait};
use storage::entities::{issue_labels, issues, now};

use super::TestServer;

impl TestServer {
    /// Creates an issue with these labels.
    pub async fn insert_issue(&self, project_id: i64, iid: i64, labels: &[i64]) -> issues::Model {
        let db = self.backend.database.write();
        let row = issues::ActiveModel {
            project_id: Set(project_id),
            iid: Set(iid),
            author_id: Set(Some(1)),
            title: Set(format!("Issue {iid}")),
            state: Set(issues::IssueState::Opened),
            created_at: Set(now()),
            updated_at: Set(now()),
            ..Default::default()
        };
        let issue = row.insert(db).await.expect("an issue");
        for label_id in labels {
            let row =
                issue_labels::ActiveModel { issue_id: Set(issue.id), label_id: Set(*label_id), ..Default::default() };
            row.insert(db).await.expect("a label");
        }
        issue
    }

    /// Updates the row of an issue.
    pub async fn update_issue_row(&self, id: i64, change: impl FnOnce(&mut issues::ActiveModel)) {
        let mut row = issues::ActiveModel { id: Set(id), ..Default::default() };
        change(&mut row);
        row.update(self.backend.database.write()).await.expect("a change");
    }

    /// Returns the current row of an issue.
    pub async fn issue(&self, id: i64) -> issues::Model {
        let found = issues::Entity::find_by_id(id).one(self.backend.database.read()).await;
        found.expect("the database").expect("the issue")
    }

    /// Creates an open merge request with these labels and a milestone, and returns its ID.
    pub async fn insert_merge_request(
        &self,
        project_id: i64,
        iid: i64,
        labels: &[i64],
        milestone_id: Option<i64>,
    ) -> i64 {
        let db = self.backend.database.write();
        let branch = format!("topic-{iid}");
        let insert = Query::insert()
            .into_table("merge_requests")
            .columns([
                "target_project_id",
                "source_project_id",
                "iid",
                "milestone_id",
                "source_branch",
                "target_branch",
                "title",
                "state",
                "head_sha",
                "base_sha",
                "start_sha",
                "merge_status",
                "created_at",
                "updated_at",
            ])
            .values_panic([
                project_id.into(),
                project_id.into(),
                iid.into(),
                milestone_id.into(),
                branch.clone().into(),
                "main".into(),
                branch.into(),
                "opened".into(),
                format!("{iid:040x}").into(),
                "".into(),
                "".into(),
                "unchecked".into(),
                now().into(),
                now().into(),
            ])
            .returning_col("id")
            .take();
        let row = db.query_one(&insert).await.expect("the database").expect("a row");
        let id: i64 = row.try_get("", "id").expect("an id");
        for label_id in labels {
            let insert = Query::insert()
                .into_table("merge_request_labels")
                .columns(["merge_request_id", "label_id"])
                .values_panic([id.into(), (*label_id).into()])
                .take();
            db.execute(&insert).await.expect("a label");
        }
        id
    }

    /// Returns the current value of a column of a merge request.
    pub async fn merge_request<T: sea_orm::TryGetable>(&self, id: i64, column: &'static str) -> T {
        let select = Query::select()
            .column(column)
            .from("merge_requests")
            .and_where(sea_orm::ExprTrait::eq(sea_orm::sea_query::Expr::col("id"), id))
            .take();
        let row = self.backend.database.read().query_one(&select).await;
        let row = row.expect("the database").expect("the merge request");
        row.try_get("", column).expect("a value")
    }
}
