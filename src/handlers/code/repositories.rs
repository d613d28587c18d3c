//! Trees, blobs, comparisons, archives and contributors of a repository.

use domain::code::repositories::{self, ArchiveSelection, TreeFilter};
use domain::identity::access::ProjectAccess;
use domain::kernel::blob_content;
use domain::kernel::download::Download;
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};

use crate::api::routes::RepositoriesApi;
use crate::app::App;
use crate::views;
use contract::{
    ArchiveFormat, Blob, Commit, CompareRefsRequest, Comparison, Contributor, ContributorOrder,
    GetArchiveByFormatRequest, GetArchiveRequest, GetBlobRequest, GetMergeBaseRequest, GetRawBlobRequest,
    ListContributorsRequest, ListTreeRequest, SortDirection, TreeEntry,
};

impl RepositoriesApi for App {
    async fn list_tree(
        &self,
        access: ProjectAccess,
        request: ListTreeRequest,
        page: PageRequest,
    ) -> Result<Page<TreeEntry>> {
        let filter = TreeFilter {
            revision: request.r#ref,
            path: request.path,
            recursive: request.recursive,
        };
        let page = repositories::list_tree(&self.backend, &access, filter, &page).await?;
        Ok(page.map(views::code::tree::entry))
    }

    async fn get_blob(&self, access: ProjectAccess, request: GetBlobRequest) -> Result<Blob> {
        let blob = repositories::get_blob(&self.backend, &access, &request.sha).await?;
        Ok(views::code::blob::blob(&blob))
    }

    async fn get_raw_blob(&self, access: ProjectAccess, request: GetRawBlobRequest) -> Result<Download> {
        let blob = repositories::open_blob(&self.backend, &access, &request.sha).await?;
        let (content, is_text) = blob_content::content(blob).await?;
        let content_type = if is_text {
            "text/plain"
        } else {
            "application/octet-stream"
        };
        let sha = request.sha.to_ascii_lowercase();
        Ok(Download {
            content_type: content_type.to_owned(),
            file_name: sha.clone(),
            attachment: false,
            etag: Some(sha),
            headers: Vec::new(),
            content,
        })
    }

    async fn get_archive(&self, access: ProjectAccess, request: GetArchiveRequest) -> Result<Download> {
        let format = request.format.unwrap_or(ArchiveFormat::TarGz);
        let selection = ArchiveSelection {
            revision: request.sha,
            path: request.path,
            excluded_paths: request.exclude_paths.unwrap_or_default(),
            format: archive_format(format),
        };
        self.archive(&access, selection).await
    }

    async fn get_archive_by_format(
        &self,
        access: ProjectAccess,
        request: GetArchiveByFormatRequest,
    ) -> Result<Download> {
        let selection = ArchiveSelection {
            revision: request.sha,
            path: request.path,
            excluded_paths: request.exclude_paths.unwrap_or_default(),
            format: archive_format(request.format),
        };
        self.archive(&access, selection).await
    }

    async fn compare_refs(&self, access: ProjectAccess, request: CompareRefsRequest) -> Result<Comparison> {
        let (from, to) = (&request.from, &request.to);
        let comparison = repositories::compare(&self.backend, &access, from, to, request.straight).await?;
        Ok(views::code::comparison::comparison(
            comparison,
            &self.project_url(&access),
        ))
    }

    async fn list_contributors(
        &self,
        access: ProjectAccess,
        request: ListContributorsRequest,
        page: PageRequest,
    ) -> Result<Page<Contributor>> {
        let order = match request.order_by {
            Some(ContributorOrder::Name) => repositories::ContributorOrder::Name,
            Some(ContributorOrder::Email) => repositories::ContributorOrder::Email,
            Some(ContributorOrder::Commits) | None => repositories::ContributorOrder::Commits,
        };
        let descending = matches!(request.sort, Some(SortDirection::Desc));
        let page = repositories::list_contributors(&self.backend, &access, order, descending, &page).await?;
        Ok(page.map(views::code::contributor::contributor))
    }

    async fn get_merge_base(&self, access: ProjectAccess, request: GetMergeBaseRequest) -> Result<Commit> {
        let base = repositories::get_merge_base(&self.backend, &access, request.refs).await?;
        Ok(views::code::commit::commit(base, &self.project_url(&access)))
    }
}

impl App {
    async fn archive(&self, access: &ProjectAccess, selection: ArchiveSelection) -> Result<Download> {
        let archive = repositories::create_archive(&self.backend, access, selection).await?;
        Ok(views::code::archive::download(archive))
    }
}

/// Returns the format of an archive by its name.
fn archive_format(format: ArchiveFormat) -> repositories::ArchiveFormat {
    match format {
        ArchiveFormat::TarGz => repositories::ArchiveFormat::TarGz,
        ArchiveFormat::TarBz2
        | ArchiveFormat::Tbz
        | ArchiveFormat::Tbz2
        | ArchiveFormat::Tb2
        | ArchiveFormat::Bz2 => repositories::ArchiveFormat::TarBz2,
        ArchiveFormat::Zip => repositories::ArchiveFormat::Zip,
        ArchiveFormat::Tar => repositories::ArchiveFormat::Tar,
    }
}
