//! Award emoji on noteables and notes.

mod changes;
mod names;
mod removal;

use sea_orm::sea_query::Expr;
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
    QueryTrait,
};

pub(crate) use changes::insert;
pub use changes::{create, delete};
pub(crate) use names::sole_emoji;
pub use removal::delete_all_of_user;

use storage::entities::award_emoji::{ActiveModel, Column, Entity, Model};
use storage::entities::notes;
use storage::entities::related_rows::RelatedRows;
use storage::entities::users::{self, UserSummary};

use crate::discussion::note_lookup;
use crate::discussion::noteable::{Noteable, NoteableKey};
use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::query::uncounted_page_of;
use crate::planning::system_notes::NoteableId;

/// Identifies a noteable, or a note on it, as in a request path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AwardableKey {
    /// Key of the noteable.
    pub noteable: NoteableKey,
    /// ID of the note; `None` for the noteable itself.
    pub note_id: Option<i64>,
}

/// A noteable or note that is visible to the caller.
#[derive(Debug, Clone)]
pub enum Awardable {
    /// A noteable.
    Noteable(Noteable),
    /// A note and its noteable.
    Note(Box<notes::Model>, Noteable),
}

/// An award emoji with its user.
#[derive(Debug, Clone)]
pub struct AwardEmojiDetail {
    /// The award emoji.
    pub award_emoji: Model,
    /// The user who awarded it.
    pub user: UserSummary,
}

/// Returns a page of award emoji in order of creation.
///
/// # Errors
/// Returns `Error::NotFound` if the target does not exist or the caller cannot see it.
pub async fn list(
    backend: &Backend,
    space: &SpaceAccess,
    key: AwardableKey,
    page: &PageRequest,
) -> Result<Page<AwardEmojiDetail>> {
    let db = backend.database.read();
    let awardable = Awardable::find(db, space, key).await?;
    let query = Entity::find()
        .filter(awardable.condition())
        .order_by_asc(Column::Id);
    let (found, total) = uncounted_page_of(db, query, page).await?;
    let mut related = RelatedRows::default();
    let counted = related.add(total.part());
    let user_ids = found.iter().map(|award_emoji| award_emoji.user_id);
    let users = related.add(UserSummary::part(db.get_database_backend(), user_ids));
    let mut rows = related.load(db).await?;
    let users = rows.take_by_owner(users, UserSummary::read)?;
    // A user who was deleted after the page was read has no award emoji.
    let items = found.into_iter().filter_map(|award_emoji| {
        let user = users.get(&award_emoji.user_id)?.clone();
        Some(AwardEmojiDetail { award_emoji, user })
    });
    Ok(Page {
        items: items.collect(),
        rest: total.position(&rows.take(counted)),
    })
}

/// Returns one award emoji.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist or belongs to another target.
pub async fn get(
    backend: &Backend,
    space: &SpaceAccess,
    key: AwardableKey,
    id: i64,
) -> Result<AwardEmojiDetail> {
    let db = backend.database.read();
    let noteable = Noteable::find(db, space, key.noteable).await?;
    let of_target = match key.note_id {
        None => Awardable::Noteable(noteable).condition(),
        Some(note_id) => {
            let note = note_lookup::visible(space, &noteable)
                .filter(notes::Column::Id.eq(note_id))
                .select_only()
                .column(notes::Column::Id);
            Column::NoteId.in_subquery(note.into_query())
        }
    };
    let found = Entity::find()
        .filter(of_target)
        .filter(Column::Id.eq(id))
        .find_also_related(users::Entity)
        .one(db)
        .await?;
    match found {
        Some((award_emoji, Some(user))) => Ok(AwardEmojiDetail {
            award_emoji,
            user: user.into(),
        }),
        _ => Err(Error::not_found("")),
    }
}

async fn find(db: &impl ConnectionTrait, awardable: &Awardable, id: i64) -> Result<Model> {
    let award_emoji = Entity::find()
        .filter(awardable.condition())
        .filter(Column::Id.eq(id))
        .one(db)
        .await?;
    award_emoji.ok_or_else(|| Error::not_found(""))
}

impl Awardable {
    /// Finds the target of a key.
    ///
    /// # Errors
    /// Returns `Error::NotFound` if it does not exist or the caller cannot see it.
    async fn find(db: &impl ConnectionTrait, space: &SpaceAccess, key: AwardableKey) -> Result<Self> {
        let noteable = Noteable::find(db, space, key.noteable).await?;
        Self::of_noteable(db, space, noteable, key.note_id).await
    }

    /// Like [`Self::find`], and locks the noteable until the transaction ends, so that changes of its award emoji
    /// are serialized.
    ///
    /// # Errors
    /// Returns `Error::NotFound` if it does not exist, was deleted concurrently, or the caller cannot see it.
    async fn lock(transaction: &DatabaseTransaction, space: &SpaceAccess, key: AwardableKey) -> Result<Self> {
        let noteable = Noteable::lock(transaction, space, key.noteable).await?;
        Self::of_noteable(transaction, space, noteable, key.note_id).await
    }

    async fn of_noteable(
        db: &impl ConnectionTrait,
        space: &SpaceAccess,
        noteable: Noteable,
        note_id: Option<i64>,
    ) -> Result<Self> {
        match note_id {
            None => Ok(Self::Noteable(noteable)),
            Some(id) => {
                let note = note_lookup::find(db, space, &noteable, id).await?;
                Ok(Self::Note(Box::new(note), noteable))
            }
        }
    }

    /// Returns the noteable.
    fn noteable(&self) -> &Noteable {
        match self {
            Self::Noteable(noteable) | Self::Note(_, noteable) => noteable,
        }
    }

    /// Returns the ID of the author, or `None` if the user was deleted.
    fn author_id(&self) -> Option<i64> {
        match self {
            Self::Noteable(noteable) => noteable.author_id(),
            Self::Note(note, _) => note.author_id,
        }
    }

    /// Returns the condition that an award emoji belongs to this target.
    fn condition(&self) -> Expr {
        match self {
            Self::Note(note, _) => Column::NoteId.eq(note.id),
            Self::Noteable(noteable) => match noteable.id() {
                NoteableId::Issue(id) => Column::IssueId.eq(id),
                NoteableId::MergeRequest(id) => Column::MergeRequestId.eq(id),
                NoteableId::Snippet(id) => Column::SnippetId.eq(id),
                NoteableId::Epic(id) => Column::EpicId.eq(id),
            },
        }
    }

    /// Returns a new row with only the target set.
    fn to_row(&self) -> ActiveModel {
        use sea_orm::ActiveValue::Set;

        let mut row = ActiveModel::default();
        match self {
            Self::Note(note, _) => row.note_id = Set(Some(note.id)),
            Self::Noteable(noteable) => match noteable.id() {
                NoteableId::Issue(id) => row.issue_id = Set(Some(id)),
                NoteableId::MergeRequest(id) => row.merge_request_id = Set(Some(id)),
                NoteableId::Snippet(id) => row.snippet_id = Set(Some(id)),
                NoteableId::Epic(id) => row.epic_id = Set(Some(id)),
            },
        }
        row
    }
}
