//! Award emoji.

use domain::discussion::award_emoji::Award;
use storage::entities::award_emoji::Model;

use crate::views::accounts::users::reference;
use contract::{AwardEmoji, AwardableType};

/// Returns an award emoji in the format of the contract.
#[must_use]
pub fn award(base: &str, given: Award) -> AwardEmoji {
    let Award { award, user } = given;
    let (awardable_type, awardable_id) = awardable(&award);
    AwardEmoji {
        id: award.id,
        name: award.name,
        user: reference(base, &user),
        created_at: award.created_at.into(),
        updated_at: award.updated_at.into(),
        awardable_id,
        awardable_type,
    }
}

/// Returns the awardable, which is exactly one of the columns.
fn awardable(award: &Model) -> (AwardableType, i64) {
    let kinds = [
        (AwardableType::Issue, award.issue_id),
        (AwardableType::MergeRequest, award.merge_request_id),
        (AwardableType::Snippet, award.snippet_id),
        (AwardableType::Epic, award.epic_id),
        (AwardableType::Note, award.note_id),
    ];
    let to = kinds.into_iter().find_map(|(kind, id)| Some((kind, id?)));
    to.unwrap_or((AwardableType::Issue, 0))
}
