//! Award emoji.

use domain::discussion::award_emoji::AwardEmojiDetail;
use storage::entities::award_emoji::Model;

use crate::views::accounts::users::reference;
use contract::{AwardEmoji, AwardableType};

/// Returns an award emoji in the format of the contract.
#[must_use]
pub fn award_emoji(base: &str, detail: AwardEmojiDetail) -> AwardEmoji {
    let AwardEmojiDetail { award_emoji, user } = detail;
    let (awardable_type, awardable_id) = awardable(&award_emoji);
    AwardEmoji {
        id: award_emoji.id,
        name: award_emoji.name,
        user: reference(base, user),
        created_at: award_emoji.created_at.into(),
        updated_at: award_emoji.updated_at.into(),
        awardable_id,
        awardable_type,
    }
}

/// Returns the type and ID of the awardable. Exactly one of the columns has a value.
fn awardable(award_emoji: &Model) -> (AwardableType, i64) {
    let columns = [
        (AwardableType::Issue, award_emoji.issue_id),
        (AwardableType::MergeRequest, award_emoji.merge_request_id),
        (AwardableType::Snippet, award_emoji.snippet_id),
        (AwardableType::Epic, award_emoji.epic_id),
        (AwardableType::Note, award_emoji.note_id),
    ];
    let target = columns.into_iter().find_map(|(kind, id)| Some((kind, id?)));
    target.unwrap_or((AwardableType::Issue, 0))
}
