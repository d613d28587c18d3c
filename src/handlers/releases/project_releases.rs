//! Releases of projects and groups.

use domain::identity::access::{GroupAccess, ProjectAccess};
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};
use domain::kernel::patch::Patch;
use domain::kernel::urls::{encode_path, encode_segment};
use domain::releases::changes::{self, NewRelease};
use domain::releases::details::ReleaseDetail;
use domain::releases::listing::{self, ReleaseFilter};
use domain::releases::milestones::MilestoneSelection;
use domain::releases::{evidence, links};

use super::release_links::new_link;
use crate::api::response::Redirect;
use crate::api::routes::ReleasesApi;
use crate::app::App;
use crate::handlers::patch::IntoPatch;
use crate::views::releases::release as view;
use contract::{
    CollectReleaseEvidenceRequest, CreateReleaseRequest, DeleteReleaseRequest, DownloadReleaseAssetRequest,
    GetLatestReleasePathRequest, GetLatestReleaseRequest, GetReleaseRequest, ListGroupReleasesRequest,
    ListReleasesRequest, MaybeUndefined, Release, ReleaseOrder, SortDirection, UpdateReleaseRequest,
};

/// Returns the filter of a list.
fn filter(request: ListReleasesRequest) -> ReleaseFilter {
    ReleaseFilter {
        order: match request.order_by {
            Some(ReleaseOrder::CreatedAt) => listing::ReleaseOrder::CreatedAt,
            Some(ReleaseOrder::ReleasedAt) | None => listing::ReleaseOrder::ReleasedAt,
        },
        descending: !matches!(request.sort, Some(SortDirection::Asc)),
        updated_before: request.updated_before.map(|time| time.to_utc()),
        updated_after: request.updated_after.map(|time| time.to_utc()),
    }
}

/// Returns the milestones of a body. In an update, null is the empty list.
fn milestones(
    titles: MaybeUndefined<Vec<String>>,
    ids: MaybeUndefined<Vec<i64>>,
) -> Result<Option<MilestoneSelection>> {
    MilestoneSelection::of(list(titles), list(ids))
}

fn list<T>(sent: MaybeUndefined<Vec<T>>) -> Option<Vec<T>> {
    match sent.into_patch() {
        Patch::Keep => None,
        Patch::Clear => Some(Vec::new()),
        Patch::Set(list) => Some(list),
    }
}

impl App {
    fn release(&self, detail: ReleaseDetail) -> Release {
        view::release(&self.backend.instance.base_url, detail)
    }

    fn read_release(&self, detail: ReleaseDetail, with_html: bool) -> Release {
        match with_html {
            true => view::release_with_html(&self.backend.instance.base_url, detail),
            false => self.release(detail),
        }
    }

    /// Returns the redirect to a path below the latest release.
    async fn latest_release(&self, access: &ProjectAccess, suffix: &str) -> Result<Redirect> {
        let tag = listing::latest_tag(&self.backend, access).await?;
        let (base, id) = (&self.backend.instance.base_url, access.project.id);
        let tag = encode_segment(&tag);
        Ok(Redirect(format!(
            "{base}/api/v4/projects/{id}/releases/{tag}{suffix}"
        )))
    }
}

impl ReleasesApi for App {
    async fn list_releases(
        &self,
        access: ProjectAccess,
        request: ListReleasesRequest,
        page: PageRequest,
    ) -> Result<Page<Release>> {
        let with_html = request.include_html_description;
        let page = listing::list(&self.backend, &access, &filter(request), &page).await?;
        Ok(page.map(|detail| self.read_release(detail, with_html)))
    }

    async fn create_release(&self, access: ProjectAccess, request: CreateReleaseRequest) -> Result<Release> {
        let body = request.body;
        let links = body.assets.and_then(|assets| assets.links).unwrap_or_default();
        let new = NewRelease {
            tag: body.tag_name,
            tag_message: body.tag_message.into_patch().into_value(),
            revision: body.r#ref.into_patch().into_value(),
            name: body.name.into_patch().into_value(),
            description: body.description.into_patch().into_value(),
            released_at: body
                .released_at
                .into_patch()
                .into_value()
                .map(|time| time.to_utc()),
            milestones: milestones(body.milestones, body.milestone_ids)?,
            links: links.into_iter().map(new_link).collect(),
        };
        let detail = changes::create(&self.backend, &access, new).await?;
        Ok(self.release(detail))
    }

    async fn get_latest_release(
        &self,
        access: ProjectAccess,
        request: GetLatestReleaseRequest,
    ) -> Result<Redirect> {
        let query = match request.include_html_description {
            true => "?include_html_description=true",
            false => "",
        };
        self.latest_release(&access, query).await
    }

    async fn get_latest_release_path(
        &self,
        access: ProjectAccess,
        request: GetLatestReleasePathRequest,
    ) -> Result<Redirect> {
        let suffix = encode_path(&request.suffix_path);
        self.latest_release(&access, &format!("/{suffix}")).await
    }

    async fn get_release(&self, access: ProjectAccess, request: GetReleaseRequest) -> Result<Release> {
        let detail = listing::get(&self.backend, &access, &request.tag_name).await?;
        Ok(self.read_release(detail, request.include_html_description))
    }

    async fn update_release(&self, access: ProjectAccess, request: UpdateReleaseRequest) -> Result<Release> {
        let (tag, body) = (request.tag_name, request.body);
        let update = changes::ReleaseUpdate {
            name: body.name,
            description: body.description.into_patch(),
            released_at: body.released_at.map(|time| time.to_utc()),
            milestones: milestones(body.milestones, body.milestone_ids)?,
        };
        let detail = changes::update(&self.backend, &access, &tag, update).await?;
        Ok(self.release(detail))
    }

    async fn delete_release(&self, access: ProjectAccess, request: DeleteReleaseRequest) -> Result<Release> {
        let condition = request.if_unmodified_since.as_deref();
        let detail = changes::delete(&self.backend, &access, &request.tag_name, condition).await?;
        Ok(self.release(detail))
    }

    async fn download_release_asset(
        &self,
        access: ProjectAccess,
        request: DownloadReleaseAssetRequest,
    ) -> Result<Redirect> {
        let (tag, path) = (request.tag_name, request.direct_asset_path);
        let url = links::download_url(&self.backend, &access, &tag, &path).await?;
        Ok(Redirect(url))
    }

    async fn collect_release_evidence(
        &self,
        access: ProjectAccess,
        request: CollectReleaseEvidenceRequest,
    ) -> Result<()> {
        evidence::request(&self.backend, &access, &request.tag_name).await
    }

    async fn list_group_releases(
        &self,
        access: GroupAccess,
        request: ListGroupReleasesRequest,
        page: PageRequest,
    ) -> Result<Page<Release>> {
        let descending = !matches!(request.sort, Some(SortDirection::Asc));
        let page = listing::list_of_group(&self.backend, &access, descending, request.simple, &page).await?;
        Ok(page.map(|detail| self.release(detail)))
    }
}
