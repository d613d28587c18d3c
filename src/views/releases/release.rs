//! Releases and their links.

use std::sync::Arc;

use domain::kernel::urls::encode_segment;
use domain::releases::addresses::{self, SOURCE_FORMATS};
use domain::releases::details::{ReleaseCode, ReleaseDetail, ReleaseMilestone};
use storage::entities::release_evidences::EvidenceSummary;
use storage::entities::release_links::LinkSummary;

use crate::views::accounts::users::reference;
use crate::views::code::commit::commit;
use crate::views::enums::Convert;
use crate::views::html;
use crate::views::planning::milestone::milestone;
use contract::{
    MaybeUndefined, MilestoneIssueStats, Release, ReleaseAssets, ReleaseEvidence, ReleaseLink,
    ReleasePageLinks, ReleaseSource,
};

/// Returns a link; `project_url` is the URL of the project's page.
#[must_use]
pub fn link(link: impl Into<LinkSummary>, project_url: &str, tag: &str) -> ReleaseLink {
    let link = link.into();
    let direct_url = addresses::asset(project_url, tag, &link.url, link.filepath.as_deref());
    link_at(link, project_url, direct_url)
}

/// Returns a link without the permanent URL, which contains the tag.
fn link_without_tag(link: LinkSummary, project_url: &str) -> ReleaseLink {
    let url = link.url.clone();
    link_at(link, project_url, url)
}

fn link_at(link: LinkSummary, project_url: &str, direct_asset_url: String) -> ReleaseLink {
    ReleaseLink {
        id: link.id,
        direct_asset_url,
        external: addresses::is_external(project_url, &link.url),
        name: link.name,
        url: link.url,
        link_type: link.link_type.convert(),
    }
}

/// Returns a release; `base` is the base URL. Without access to the code, no attribute contains the tag, except the
/// name of a release that has no other name.
#[must_use]
pub fn release(base: &str, detail: ReleaseDetail) -> Release {
    let row = detail.release;
    let can_read_code = detail.can_read_code;
    let project_url = format!("{base}/{}", detail.full_path);
    let mut release = Release {
        tag_name: can_read_code.then(|| row.tag.clone()),
        name: row.name,
        description: row.description,
        description_html: None,
        created_at: row.created_at.into(),
        released_at: row.released_at.into(),
        upcoming_release: detail.is_upcoming,
        historical_release: detail.is_historical,
        author: None,
        commit: MaybeUndefined::Undefined,
        milestones: None,
        commit_path: None,
        tag_path: None,
        assets: None,
        evidences: None,
        links: None,
    };
    let Some(content) = detail.content else {
        return release;
    };
    let tag = row.tag;
    let links: Vec<ReleaseLink> = content
        .links
        .into_iter()
        .map(|one| match can_read_code {
            true => link(one, &project_url, &tag),
            false => link_without_tag(one, &project_url),
        })
        .collect();
    let sources = content.code.as_ref().map(|_| {
        let sources = SOURCE_FORMATS.map(|format| ReleaseSource {
            format: format.to_owned(),
            url: addresses::source(&project_url, &detail.path, &tag, format),
        });
        Vec::from(sources)
    });
    let count = links.len() + sources.as_ref().map_or(0, Vec::len);
    release.assets = Some(ReleaseAssets {
        count: i64::try_from(count).unwrap_or(i64::MAX),
        sources,
        links,
    });
    release.author = content.author.map(|author| reference(base, author));
    let milestones: Vec<_> = content
        .milestones
        .into_iter()
        .map(|one| release_milestone(base, Arc::unwrap_or_clone(one)))
        .collect();
    release.milestones = Some(milestones).filter(|milestones| !milestones.is_empty());
    release.links = can_read_code.then(|| page_links(&project_url, &tag, content.can_update));
    if let Some(code) = content.code {
        add_code(&mut release, code, &project_url, &detail.full_path, &tag);
    }
    release
}

/// Returns a release with its description as HTML.
#[must_use]
pub fn release_with_html(base: &str, detail: ReleaseDetail) -> Release {
    let release = release(base, detail);
    let description = release.description.as_deref().unwrap_or_default();
    Release {
        description_html: Some(html::escape(description)),
        ..release
    }
}

/// Adds the attributes for readers of the code.
fn add_code(release: &mut Release, code: ReleaseCode, project_url: &str, full_path: &str, tag: &str) {
    let page = addresses::page(project_url, tag);
    let evidence = |evidence: EvidenceSummary| ReleaseEvidence {
        sha: evidence.sha256,
        filepath: format!("{page}/evidences/{}.json", evidence.id),
        collected_at: evidence.collected_at.into(),
    };
    release.commit_path = code
        .commit
        .as_ref()
        .map(|commit| format!("/{full_path}/-/commit/{}", commit.id));
    release.tag_path = Some(format!("/{full_path}/-/tags/{}", encode_segment(tag)));
    release.evidences = Some(code.evidences.into_iter().map(evidence).collect());
    release.commit = match code.commit {
        Some(found) => MaybeUndefined::Value(commit(found, project_url)),
        None => MaybeUndefined::Null,
    };
}

fn page_links(project_url: &str, tag: &str, can_update: bool) -> ReleasePageLinks {
    let page = addresses::page(project_url, tag);
    let tag = encode_segment(tag);
    let list =
        |kind: &str, state: &str| format!("{project_url}/-/{kind}?release_tag={tag}&scope=all&state={state}");
    ReleasePageLinks {
        edit_url: can_update.then(|| format!("{page}/edit")),
        closed_issues_url: list("issues", "closed"),
        closed_merge_requests_url: list("merge_requests", "closed"),
        merged_merge_requests_url: list("merge_requests", "merged"),
        opened_issues_url: list("issues", "opened"),
        opened_merge_requests_url: list("merge_requests", "opened"),
        self_: page,
    }
}

fn release_milestone(base: &str, found: ReleaseMilestone) -> contract::ReleaseMilestone {
    let milestone = milestone(base, found.detail);
    contract::ReleaseMilestone {
        id: milestone.id,
        iid: milestone.iid,
        project_id: milestone.project_id,
        group_id: milestone.group_id,
        title: milestone.title,
        description: milestone.description,
        state: milestone.state,
        start_date: milestone.start_date,
        due_date: milestone.due_date,
        expired: milestone.expired,
        web_url: milestone.web_url,
        created_at: milestone.created_at,
        updated_at: milestone.updated_at,
        issue_stats: MilestoneIssueStats {
            total: found.total,
            closed: found.closed,
        },
    }
}
