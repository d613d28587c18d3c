//! Audit events of projects.

use storage::entities::projects::{Column, Model};
use storage::entities::{AccessLevel, namespaces, users};

use crate::audit::{self, AuditEntity, AuditEvent, AuditKind};
use crate::spaces::members::auditing::added;

/// Columns that affect who can do what, or which code is accepted.
const SETTINGS: [Column; 37] = [
    Column::Name,
    Column::Path,
    Column::DefaultBranch,
    Column::IssuesAccessLevel,
    Column::RepositoryAccessLevel,
    Column::MergeRequestsAccessLevel,
    Column::ForkingAccessLevel,
    Column::WikiAccessLevel,
    Column::BuildsAccessLevel,
    Column::SnippetsAccessLevel,
    Column::ContainerRegistryAccessLevel,
    Column::PackageRegistryAccessLevel,
    Column::ReleasesAccessLevel,
    Column::EnvironmentsAccessLevel,
    Column::FeatureFlagsAccessLevel,
    Column::InfrastructureAccessLevel,
    Column::MonitorAccessLevel,
    Column::SecurityAndComplianceAccessLevel,
    Column::MergeMethod,
    Column::RequestAccessEnabled,
    Column::SharedRunnersEnabled,
    Column::PublicJobs,
    Column::CiConfigPath,
    Column::OnlyAllowMergeIfPipelineSucceeds,
    Column::OnlyAllowMergeIfAllDiscussionsAreResolved,
    Column::OnlyAllowMergeIfAllStatusChecksPassed,
    Column::ApprovalsBeforeMerge,
    Column::ResetApprovalsOnPush,
    Column::MergeRequestsAuthorApproval,
    Column::MergeRequestsDisableCommittersApproval,
    Column::DisableOverridingApproversPerMergeRequest,
    Column::Mirror,
    Column::MirrorUserId,
    Column::OnlyMirrorProtectedBranches,
    Column::MirrorOverwritesDivergedBranches,
    Column::ExternalAuthorizationClassificationLabel,
    Column::RepositoryStorage,
];

/// Returns the events of a new project, and of its first Maintainer if one was added.
pub(super) fn created(
    namespace: &namespaces::Model,
    project: &Model,
    maintainer: Option<&users::Model>,
) -> Vec<AuditEvent> {
    let entity = AuditEntity::project(namespace, project);
    let created = AuditEvent::of(AuditKind::ProjectCreated, entity.clone());
    let mut events = vec![created.to(project.visibility.as_str())];
    events.extend(maintainer.map(|user| added(entity, user, AccessLevel::Maintainer, None)));
    events
}

/// Returns the events of the changes of a project.
pub(crate) fn changes(namespace: &namespaces::Model, before: &Model, after: &Model) -> Vec<AuditEvent> {
    let entity = AuditEntity::project(namespace, after);
    let of = |kind, columns: &[Column]| audit::changes(kind, &entity, before, after, columns);
    let mut events = of(AuditKind::ProjectSettingChanged, &SETTINGS);
    events.extend(of(AuditKind::ProjectVisibilityChanged, &[Column::Visibility]));
    events
}
