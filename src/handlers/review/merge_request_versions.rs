//! Versions and diffs of merge requests.

use domain::identity::access::ProjectAccess;
use domain::kernel::download::{Download, DownloadContent};
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};
use domain::review::merge_requests;
use futures_util::StreamExt;

use crate::api::routes::MergeRequestVersionsApi;
use crate::app::App;
use crate::views::review::merge_request_version as view;
use contract::{
    GetMergeRequestVersionRequest, GetRawMergeRequestDiffRequest, ListMergeRequestDiffsRequest,
    ListMergeRequestVersionsRequest, MergeRequestDiff, MergeRequestVersion, MergeRequestVersionDetail,
};

impl MergeRequestVersionsApi for App {
    async fn list_merge_request_versions(
        &self,
        access: ProjectAccess,
        request: ListMergeRequestVersionsRequest,
        page: PageRequest,
    ) -> Result<Page<MergeRequestVersion>> {
        let iid = request.merge_request_iid;
        let page = merge_requests::list_versions(&self.backend, &access, iid, &page).await?;
        Ok(page.map(view::version))
    }

    async fn get_merge_request_version(
        &self,
        access: ProjectAccess,
        request: GetMergeRequestVersionRequest,
    ) -> Result<MergeRequestVersionDetail> {
        let (iid, id) = (request.merge_request_iid, request.version_id);
        let detail = merge_requests::get_version(&self.backend, &access, iid, id).await?;
        Ok(view::detail(detail, request.unidiff, &self.project_url(&access)))
    }

    async fn list_merge_request_diffs(
        &self,
        access: ProjectAccess,
        request: ListMergeRequestDiffsRequest,
        page: PageRequest,
    ) -> Result<Page<MergeRequestDiff>> {
        let iid = request.merge_request_iid;
        let page = merge_requests::list_diffs(&self.backend, &access, iid, &page).await?;
        Ok(page.map(|entry| view::diff(entry, request.unidiff)))
    }

    async fn get_raw_merge_request_diff(
        &self,
        access: ProjectAccess,
        request: GetRawMergeRequestDiffRequest,
    ) -> Result<Download> {
        let iid = request.merge_request_iid;
        let stream = merge_requests::open_raw_diff(&self.backend, &access, iid).await?;
        Ok(Download {
            content_type: "text/plain".to_owned(),
            file_name: format!("{iid}.diff"),
            attachment: false,
            etag: None,
            headers: Vec::new(),
            content: DownloadContent::Stream(stream.boxed()),
        })
    }
}
