//! Lists of epics: filter, order and pagination.

use chrono::{DateTime, Utc};
use sea_orm::sea_query::{Expr, ExprTrait, Query};
use sea_orm::{ColumnTrait, Condition, EntityTrait, QueryFilter, QueryOrder, Select};
use storage::entities::epics::{self, Column, Entity};
use storage::entities::issues::IssueState;
use storage::entities::related_rows::RelatedRows;
use storage::entities::{award_emoji, epic_labels, fold, labels, namespace_ancestors, now, users};

use super::{EpicDetail, load_details};
use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::query::{at_or_before, contains, uncounted_page_with_texts};
use crate::planning::issuables::list::NO_LABEL;

/// Sort order of epics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EpicOrder {
    /// By time of creation.
    #[default]
    CreatedAt,
    /// By time of the last change.
    UpdatedAt,
    /// By title.
    Title,
}

/// Filter of epics, combined with AND. The field names are those of the contract.
#[allow(missing_docs)]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EpicFilter {
    pub author_id: Option<i64>,
    pub author_username: Option<String>,
    pub labels: Vec<String>,
    pub search: Option<String>,
    pub state: Option<IssueState>,
    pub created_after: Option<DateTime<Utc>>,
    pub created_before: Option<DateTime<Utc>>,
    pub updated_after: Option<DateTime<Utc>>,
    pub updated_before: Option<DateTime<Utc>>,
    pub my_reaction_emoji: Option<String>,
    pub iids: Option<Vec<i64>>,
    pub confidential: Option<bool>,
    /// Whether epics of subgroups are included.
    pub descendants: bool,
    /// Whether epics of ancestor groups are included.
    pub ancestors: bool,
    pub order: EpicOrder,
    pub ascending: bool,
}

/// Returns a page of the epics of a group that are visible to the caller. Ties are sorted newest first.
///
/// # Errors
/// Returns `Error::InvalidParameters` if filters exclude each other.
pub async fn list(
    backend: &Backend,
    space: &SpaceAccess,
    filter: &EpicFilter,
    page: &PageRequest,
) -> Result<Page<EpicDetail>> {
    if filter.author_id.is_some() && filter.author_username.is_some() {
        return Err(Error::parameter(
            "author_id, author_username are mutually exclusive",
        ));
    }
    let user_id = space.caller.as_user().map(|user| user.id);
    let epics = Entity::find()
        .filter(epics::visible(space.caller.viewer(), now().date_naive()))
        .filter(filter.in_groups(space.namespace.id))
        .filter(filter.on_columns())
        .filter(filter.on_related_rows(user_id));
    let db = backend.database.read();
    let epics = filter.sorted(epics);
    let (found, total) = uncounted_page_with_texts(db, &space.caller, epics, page).await?;
    let mut related = RelatedRows::default();
    let counted = related.add(total.part());
    let (items, mut rows) = load_details(db, space, found, related).await?;
    Ok(Page {
        items,
        rest: total.position(&rows.take(counted)),
    })
}

impl EpicFilter {
    /// Returns the condition for the groups that are searched.
    fn in_groups(&self, group_id: i64) -> Condition {
        let descendants = namespace_ancestors::at_or_below(group_id);
        let ancestors = namespace_ancestors::at_or_above(group_id);
        Condition::any()
            .add(Column::NamespaceId.eq(group_id))
            .add_option(
                self.descendants
                    .then(|| Column::NamespaceId.in_subquery(descendants)),
            )
            .add_option(self.ancestors.then(|| Column::NamespaceId.in_subquery(ancestors)))
    }

    /// Returns the conditions on columns of the epic.
    fn on_columns(&self) -> Condition {
        let text = self.search.as_deref().filter(|text| !text.is_empty()).map(fold);
        let search = text.map(|text| {
            Condition::any()
                .add(contains(Column::TitleKey, &text))
                .add(contains(Column::DescriptionKey, &text))
        });
        let iids = self
            .iids
            .as_ref()
            .map(|all| Column::Iid.is_in(all.iter().copied()));
        Condition::all()
            .add_option(self.author_id.map(|id| Column::AuthorId.eq(id)))
            .add_option(self.state.map(|state| Column::State.eq(state)))
            .add_option(self.confidential.map(|value| Column::Confidential.eq(value)))
            .add_option(self.created_after.map(|time| Column::CreatedAt.gte(time)))
            .add_option(
                self.created_before
                    .map(|time| at_or_before(Column::CreatedAt.into_expr(), time)),
            )
            .add_option(self.updated_after.map(|time| Column::UpdatedAt.gte(time)))
            .add_option(
                self.updated_before
                    .map(|time| at_or_before(Column::UpdatedAt.into_expr(), time)),
            )
            .add_option(iids)
            .add_option(search)
    }

    /// Returns the conditions on related rows. An anonymous caller has no award emoji to filter by.
    fn on_related_rows(&self, user_id: Option<i64>) -> Condition {
        let mut all = Condition::all();
        if let Some(name) = &self.author_username {
            let author_ids = Query::select()
                .column(users::Column::Id)
                .from(users::Entity)
                .and_where(users::Column::UsernameKey.eq(fold(name)))
                .take();
            all = all.add(Column::AuthorId.in_subquery(author_ids));
        }
        match keyword(self.labels.iter().map(String::as_str)) {
            Some(Keyword::None) => all = all.add(labeled(None).not()),
            Some(Keyword::Any) => all = all.add(labeled(None)),
            None => {
                let titles = self.labels.iter().map(|title| title.trim());
                for title in titles.filter(|title| !title.is_empty()) {
                    all = all.add(labeled(Some(title)));
                }
            }
        }
        if let (Some(name), Some(user_id)) = (self.my_reaction_emoji.as_deref(), user_id) {
            all = all.add(match keyword([name]) {
                Some(Keyword::None) => with_award_emoji(user_id, None).not(),
                Some(Keyword::Any) => with_award_emoji(user_id, None),
                None => with_award_emoji(user_id, Some(name)),
            });
        }
        all
    }

    fn sorted(&self, epics: Select<Entity>) -> Select<Entity> {
        let column = match self.order {
            EpicOrder::CreatedAt => Column::CreatedAt,
            EpicOrder::UpdatedAt => Column::UpdatedAt,
            EpicOrder::Title => Column::TitleKey,
        };
        let direction = match self.ascending {
            true => sea_orm::Order::Asc,
            false => sea_orm::Order::Desc,
        };
        epics.order_by(column, direction).order_by_desc(Column::Id)
    }
}

/// A keyword that means none or at least one. Case-insensitive.
enum Keyword {
    None,
    Any,
}

/// Returns the keyword among texts, if any. The one for none takes precedence.
fn keyword<'a>(texts: impl IntoIterator<Item = &'a str>) -> Option<Keyword> {
    let mut found = None;
    for text in texts {
        match text.trim().to_ascii_lowercase().as_str() {
            text if NO_LABEL.contains(&text) => return Some(Keyword::None),
            "any" => found = Some(Keyword::Any),
            _ => {}
        }
    }
    found
}

/// Matches epics with any label, or with the label of a title; checked row by row.
fn labeled(title: Option<&str>) -> Expr {
    let mut row = Query::select();
    row.expr(Expr::val(1)).from(epic_labels::Entity).and_where(
        Expr::col((epic_labels::Entity, epic_labels::Column::EpicId)).eq(Expr::col((Entity, Column::Id))),
    );
    if let Some(title) = title {
        let ids = Query::select()
            .column(labels::Column::Id)
            .from(labels::Entity)
            .and_where(labels::Column::Title.eq(title))
            .take();
        row.and_where(Expr::col((epic_labels::Entity, epic_labels::Column::LabelId)).in_subquery(ids));
    }
    Expr::exists(row.take())
}

/// Matches epics with an award emoji of a user, or with one of a given name; checked row by row.
fn with_award_emoji(user_id: i64, name: Option<&str>) -> Expr {
    let award = |column: award_emoji::Column| Expr::col((award_emoji::Entity, column));
    let mut row = Query::select();
    row.expr(Expr::val(1))
        .from(award_emoji::Entity)
        .and_where(award(award_emoji::Column::EpicId).eq(Expr::col((Entity, Column::Id))))
        .and_where(award(award_emoji::Column::UserId).eq(user_id));
    if let Some(name) = name {
        row.and_where(award(award_emoji::Column::Name).eq(name));
    }
    Expr::exists(row.take())
}
