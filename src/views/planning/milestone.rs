//! Milestones.

use domain::planning::milestones::MilestoneDetail;

use crate::views::enums::Convert;
use crate::views::links;
use contract::Milestone;

/// Returns a milestone; `base` is the base URL.
#[must_use]
pub fn milestone(base: &str, detail: MilestoneDetail) -> Milestone {
    let MilestoneDetail {
        milestone,
        full_path,
        expired,
    } = detail;
    let page = match milestone.namespace_id {
        Some(_) => links::group(base, &full_path),
        None => format!("{base}/{full_path}"),
    };
    Milestone {
        id: milestone.id,
        iid: milestone.iid,
        project_id: milestone.project_id,
        group_id: milestone.namespace_id,
        title: milestone.title,
        description: milestone.description,
        state: milestone.state.convert(),
        start_date: milestone.start_date,
        due_date: milestone.due_date,
        expired,
        web_url: format!("{page}/-/milestones/{}", milestone.iid),
        created_at: milestone.created_at.into(),
        updated_at: milestone.updated_at.into(),
    }
}
