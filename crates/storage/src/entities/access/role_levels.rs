//! Roles of a user on the projects of a page and on their namespaces.

use std::collections::HashMap;

use chrono::NaiveDate;
use sea_orm::sea_query::{Expr, ExprTrait, Query, SelectStatement, UnionType};
use sea_orm::{ConnectionTrait, DbBackend, DbErr};

use super::{MEMBER, group_grants, project_grants, together};
use crate::entities::related_rows::{PartKey, RelatedPart, RelatedRow, RelatedRowSets, RelatedRows, bigint};
use crate::entities::row_conditions::is_among;
use crate::entities::selectivity::TARGET_ID;
use crate::entities::{AccessLevel, members};

/// Roles of a user on the projects of a page and on their namespaces, by ID. Missing entries mean no role.
#[derive(Debug, Default)]
pub struct RoleLevels {
    /// Effective roles on the projects.
    pub projects: HashMap<i64, AccessLevel>,
    /// Roles on the projects by direct membership.
    pub direct: HashMap<i64, AccessLevel>,
    /// Roles on the namespaces.
    pub namespaces: HashMap<i64, AccessLevel>,
}

/// Returns the user's roles on several projects, each given with its namespace, in one statement.
///
/// # Errors
/// Any database error.
pub async fn levels(
    db: &impl ConnectionTrait,
    user_id: i64,
    found: &[(i64, i64)],
    today: NaiveDate,
) -> Result<RoleLevels, DbErr> {
    let mut related = RelatedRows::default();
    let parts = LevelParts::add(&mut related, db.get_database_backend(), user_id, found, today);
    parts.take(&mut related.load(db).await?, found)
}

/// The parts of a statement with the user's roles on several projects.
#[derive(Debug, Clone, Copy)]
pub struct LevelParts {
    projects: PartKey,
    namespaces: PartKey,
}

impl LevelParts {
    /// Adds the parts to a statement. Each project is given with its namespace.
    pub fn add(
        related: &mut RelatedRows,
        database: DbBackend,
        user_id: i64,
        found: &[(i64, i64)],
        today: NaiveDate,
    ) -> Self {
        if found.is_empty() {
            return Self {
                projects: related.add(None),
                namespaces: related.add(None),
            };
        }
        let namespace_ids = || found.iter().map(|(_, namespace)| *namespace);
        let inherited = group_grants(user_id, today).into_iter();
        let inherited =
            inherited.map(|grant| grant.rows(|target| is_among(database, target, namespace_ids())));
        let project_ids = || found.iter().map(|(project, _)| *project);
        let [direct, shared] = project_grants(user_id, today);
        let mut direct = direct.rows(|target| is_among(database, target, project_ids()));
        direct.expr_as(Expr::col((MEMBER, members::Column::AccessLevel)), DIRECT);
        let mut shared = shared.rows(|target| is_among(database, target, project_ids()));
        shared.expr_as(Expr::val(0), DIRECT);
        let projects = level_part([direct, shared]).with_id(bigint(Expr::col(DIRECT).max()));
        Self {
            projects: related.add(Some(projects)),
            namespaces: related.add(Some(level_part(inherited))),
        }
    }

    /// Removes the rows of the parts and returns the roles.
    ///
    /// # Errors
    /// An error if a number is not a role.
    pub fn take(self, rows: &mut RelatedRowSets, found: &[(i64, i64)]) -> Result<RoleLevels, DbErr> {
        let mut levels = RoleLevels {
            namespaces: rows.take_by_owner(self.namespaces, level_of)?,
            ..RoleLevels::default()
        };
        for row in rows.take(self.projects) {
            let (id, direct) = (row.owner_id, AccessLevel::from_number(row.id));
            levels.direct.extend(direct.map(|level| (id, level)));
            levels.projects.insert(id, level_of(row)?);
        }
        for (project, namespace) in found {
            if let Some(inherited) = levels.namespaces.get(namespace) {
                let level = levels.projects.entry(*project).or_insert(*inherited);
                *level = Ord::max(*level, *inherited);
            }
        }
        Ok(levels)
    }
}

/// Name of the column with the role of a direct member.
const DIRECT: &str = "direct";

/// Returns a part with the highest granted role of each target.
fn level_part(grants: impl IntoIterator<Item = SelectStatement>) -> RelatedPart {
    let rows = Query::select()
        .from_subquery(together(UnionType::All, grants), "grants")
        .group_by_col(TARGET_ID)
        .take();
    RelatedPart::new(rows, Expr::col(TARGET_ID)).with_number(bigint(Expr::col("access_level").max()))
}

fn level_of(row: RelatedRow) -> Result<AccessLevel, DbErr> {
    let number = row.number.unwrap_or_default();
    AccessLevel::from_number(number).ok_or_else(|| DbErr::Type(format!("{number} is not an access level")))
}
