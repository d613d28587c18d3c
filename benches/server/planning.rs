//! Issues of a large instance: 1,000 in each of 1,000 projects, with three notes each, and 50 labels in each
//! project; and the measured lists of issues.

use std::fmt::Write as _;

use chrono::NaiveDate;
use domain::kernel::Backend;
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseTransaction, DbBackend, EntityTrait, QueryFilter, QueryOrder,
    QuerySelect,
};
use storage::entities::{Visibility, projects, settings, users};

use crate::Result;
use crate::population::SECOND;

/// Number of projects with issues.
const PROJECTS: u64 = 1_000;
/// Number of issues in each project.
const ISSUES: usize = 1_000;
/// Number of labels in each project.
const LABELS: usize = 50;
/// Number of milestones in each project.
const MILESTONES: usize = 5;
/// Number of projects that are filled in one transaction.
const AT_ONCE: usize = 50;
/// Setting that marks the data as complete; its value must be increased when the issues change.
const COMPLETE: (&str, &str) = ("bench_issues", "3");

/// Lists of issues that the member requests: each filter alone, and common combinations. The others are
/// compared with the first.
pub const LISTS: &[&str] = &[
    "/issues?scope=all",
    "/issues?scope=all&state=opened",
    "/issues?scope=all&state=closed",
    "/issues?scope=all&labels=label-7",
    "/issues?scope=all&labels=None",
    "/issues?scope=all&labels=Any",
    "/issues?scope=all&labels=label-7&with_labels_details=true",
    "/issues?scope=all&milestone=v1",
    "/issues?scope=all&milestone=None",
    "/issues?scope=all&milestone=Any",
    "/issues?scope=all&milestone=%23upcoming",
    "/issues?scope=created_by_me",
    "/issues?scope=assigned_to_me",
    "/issues?scope=all&author_id=10",
    "/issues?scope=all&author_username=user-00009",
    "/issues?scope=all&assignee_id=10",
    "/issues?scope=all&assignee_username=user-00009",
    "/issues?scope=all&assignee_id=None",
    "/issues?scope=all&assignee_id=Any",
    "/issues?scope=all&my_reaction_emoji=tada",
    "/issues?scope=all&my_reaction_emoji=Any",
    "/issues?scope=all&my_reaction_emoji=None",
    "/issues?scope=all&weight=3",
    "/issues?scope=all&weight=Any",
    "/issues?scope=all&weight=None",
    "/issues?scope=all&iids[]=7&iids[]=9",
    "/issues?scope=all&order_by=updated_at",
    "/issues?scope=all&order_by=priority",
    "/issues?scope=all&order_by=due_date&sort=asc",
    "/issues?scope=all&order_by=label_priority",
    "/issues?scope=all&order_by=milestone_due",
    "/issues?scope=all&order_by=popularity",
    "/issues?scope=all&order_by=relative_position&sort=asc",
    "/issues?scope=all&order_by=weight",
    "/issues?scope=all&search=falcon",
    "/issues?scope=all&search=falcon&in=title",
    "/issues?scope=all&search=nowhere",
    "/issues?scope=all&created_after=2025-12-20T00:00:00Z",
    "/issues?scope=all&created_before=2025-01-03T00:00:00Z",
    "/issues?scope=all&updated_after=2025-12-20T00:00:00Z",
    "/issues?scope=all&updated_before=2025-01-03T00:00:00Z",
    "/issues?scope=all&confidential=true",
    "/issues?scope=all&confidential=false",
    "/issues?scope=all&non_archived=true",
    "/issues?scope=all&not[labels]=label-7",
    "/issues?scope=all&not[milestone]=v1",
    "/issues?scope=all&not[author_id]=10",
    "/issues?scope=all&not[author_username]=user-00009",
    "/issues?scope=all&not[assignee_id]=10",
    "/issues?scope=all&not[assignee_username]=user-00009",
    "/issues?scope=all&not[my_reaction_emoji]=tada",
    "/issues?scope=all&not[iids][]=7",
    "/issues?scope=all&not[search]=falcon",
    "/issues?scope=all&state=opened&labels=label-7&not[labels]=label-8",
    "/issues?scope=all&state=opened&milestone=v1&assignee_id=Any",
    "/issues?scope=all&state=opened&search=falcon&not[author_username]=user-00009&order_by=updated_at",
    "/issues?scope=all&labels=label-7,label-0&order_by=due_date&sort=asc",
    "/issues?scope=all&state=closed&updated_after=2025-12-01T00:00:00Z&order_by=updated_at",
    "/issues?scope=assigned_to_me&state=opened&not[milestone]=v1",
    "/groups/group-0/issues",
    "/groups/group-0/issues?state=opened&labels=label-7",
    "/projects/1/issues",
    "/projects/1/issues?state=opened&labels=label-7&order_by=updated_at",
    "/projects/1/issues?search=falcon",
];

/// Fills an instance with issues, unless it was filled before, and updates the database statistics.
pub async fn fill(backend: &Backend) -> Result<()> {
    let db = &backend.database;
    match settings::get(db.read(), COMPLETE.0).await?.as_deref() {
        Some(found) if found == COMPLETE.1 => return Ok(()),
        Some(_) => return Err("the instance has issues of before: remove it with its database".into()),
        None => {}
    }
    let places: Vec<i64> = projects::Entity::find()
        .select_only()
        .column(projects::Column::Id)
        .filter(projects::Column::Visibility.eq(Visibility::Public))
        .order_by_asc(projects::Column::Id)
        .limit(PROJECTS)
        .into_tuple()
        .all(db.read())
        .await?;
    let first = users::by_username(db.read(), "user-00000").await?;
    let first = first.ok_or("a user is missing")?.id;
    for some in places.chunks(AT_ONCE) {
        db.transaction(async |transaction| {
            for project_id in some {
                project(transaction, *project_id, first).await?;
            }
            Ok::<_, sea_orm::DbErr>(())
        })
        .await?;
    }
    db.write().execute_unprepared("ANALYZE").await?;
    Ok(settings::put(db.write(), COMPLETE.0, COMPLETE.1).await?)
}

/// Returns the SQL of a time; the day is an expression of a number from 1 on.
fn instant(backend: DbBackend, month: &str, day: &str) -> String {
    match backend {
        DbBackend::Postgres => {
            format!(
                "CAST('2025-' || lpad(CAST({month} AS text), 2, '0') || '-' || lpad(CAST({day} AS text), 2, '0') || 'T08:00:00Z' AS timestamptz)"
            )
        }
        _ => {
            format!("'2025-' || printf('%02d', {month}) || '-' || printf('%02d', {day}) || 'T08:00:00+00:00'")
        }
    }
}

/// Returns the SQL of a date.
fn day(backend: DbBackend, day: NaiveDate) -> String {
    match backend {
        DbBackend::Postgres => format!("CAST('{day}' AS date)"),
        _ => format!("'{day}'"),
    }
}

/// Returns the SQL of the numbers from 1 to `last`, as a table `n` with the column `i`.
fn numbers(last: usize) -> String {
    format!("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {last})")
}

/// Returns the SQL of a word that depends on the number of an issue.
fn word() -> String {
    let mut cases = format!("CASE i % {}", SECOND.len());
    for (number, word) in SECOND.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = write!(cases, " WHEN {number} THEN '{word}'");
    }
    cases + " END"
}

/// Fills one project. All data depends on the numbers of project and issue, so that it is the same in every
/// run.
async fn project(
    db: &DatabaseTransaction,
    id: i64,
    first_user: i64,
) -> std::result::Result<(), sea_orm::DbErr> {
    let backend = db.get_database_backend();
    // Uses primes above the number of issues, so that the creation time of an issue is independent of its
    // assignee and title.
    let part = |factor: usize, prime: usize| format!("(i * {factor} + {id}) % {prime}");
    let (made, changed) = (
        instant(
            backend,
            &format!("1 + {} % 12", part(631, 1009)),
            &format!("1 + {} % 28", part(389, 1013)),
        ),
        instant(
            backend,
            &format!("1 + {} % 12", part(557, 1019)),
            &format!("1 + {} % 28", part(743, 1021)),
        ),
    );
    let (due, reached) = (
        NaiveDate::from_ymd_opt(2025, 6, 1).unwrap_or_default(),
        NaiveDate::from_ymd_opt(2035, 9, 1).unwrap_or_default(),
    );
    let (due, reached) = (day(backend, due), day(backend, reached));
    let statements = [
        format!(
            "{} INSERT INTO labels (project_id, title, title_key, color, created_at, updated_at) \
             SELECT {id}, 'label-' || (i - 1), 'label-' || (i - 1), '#428BCA', {made}, {made} FROM n",
            numbers(LABELS)
        ),
        format!(
            "{} INSERT INTO milestones (project_id, iid, title, title_key, state, due_date, created_at, updated_at) \
             SELECT {id}, i, 'v' || i, 'v' || i, 'active', {reached}, {made}, {made} FROM n",
            numbers(MILESTONES)
        ),
        format!(
            "{} INSERT INTO issues (project_id, iid, author_id, title, description, state, confidential, milestone_id, \
             milestone_due_on, due_date, weight, label_priority, upvotes, user_notes_count, created_at, updated_at) \
             SELECT {id}, i, {first_user} + (i * 13 + {id}) % 1000, 'Mend the ' || {word} || ' ' || i, \
             'It creaks since the ' || {word} || ' came.', CASE WHEN i % 3 = 0 THEN 'closed' ELSE 'opened' END, \
             i % 50 = 0, CASE WHEN i % 4 = 0 THEN (SELECT id FROM milestones WHERE project_id = {id} \
             AND iid = 1 + i % {MILESTONES}) END, CASE WHEN i % 4 = 0 THEN {reached} END, \
             CASE WHEN i % 6 = 0 THEN {due} END, CASE WHEN i % 8 = 0 THEN i % 9 END, CASE WHEN i % 9 = 0 THEN i % 7 END, i % 5, 3, {made}, {changed} FROM n",
            numbers(ISSUES),
            word = word(),
        ),
        format!(
            "INSERT INTO issue_labels (issue_id, label_id) SELECT issues.id, labels.id FROM issues \
             JOIN labels ON labels.project_id = {id} AND labels.title IN ('label-' || (issues.iid % {LABELS}), \
             'label-' || ((issues.iid * 7 + 1) % {LABELS})) WHERE issues.project_id = {id} AND issues.iid % 5 <> 0"
        ),
        format!(
            "INSERT INTO issue_assignees (issue_id, user_id) SELECT id, {first_user} + (iid * 17 + {id}) % 1000 FROM issues \
             WHERE project_id = {id} AND iid % 3 <> 0"
        ),
        format!(
            "INSERT INTO award_emoji (issue_id, user_id, name, created_at, updated_at) SELECT id, {first_user}, 'tada', \
             created_at, created_at FROM issues WHERE project_id = {id} AND iid % 500 = 0"
        ),
        format!(
            "INSERT INTO notes (issue_id, author_id, body, created_at, updated_at) SELECT issues.id, {first_user} + iid % 1000, \
             'It still does.', issues.created_at, issues.updated_at FROM issues CROSS JOIN \
             (SELECT 1 AS k UNION ALL SELECT 2 UNION ALL SELECT 3) AS thrice WHERE project_id = {id}"
        ),
    ];
    for statement in statements {
        db.execute_unprepared(&statement).await?;
    }
    Ok(())
}
