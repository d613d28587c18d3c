//! Conversions between enumerations of the contract and of the tables with the same values.

use storage::entities::{
    self, approval_rules, ci_variables, cluster_platforms, container_expiration_policies, deployments,
    environments, events, hook_deliveries, issue_links, issues, merge_requests, milestones, namespaces,
    package_cleanup_policies, package_protection_rules, packages, pipelines, project_hooks, projects,
    release_links, remote_mirrors, status_check_responses, todos, user_keys, vulnerabilities,
};

/// Converts a value between the contract and the tables.
///
/// The standard trait `From` cannot be used: both types are defined in other packages.
pub trait Convert<T> {
    /// Returns the value with the other type.
    fn convert(self) -> T;
}

macro_rules! convert_enum {
    ($($contract:path = $entity:path { $($word:ident),* })*) => {$(
        impl Convert<$entity> for $contract {
            fn convert(self) -> $entity {
                match self { $(<$contract>::$word => <$entity>::$word),* }
            }
        }

        impl Convert<$contract> for $entity {
            fn convert(self) -> $contract {
                match self { $(<$entity>::$word => <$contract>::$word),* }
            }
        }
    )*};
}

convert_enum! {
    contract::Visibility = entities::Visibility { Private, Internal, Public }
    contract::FeatureAccessLevel = projects::FeatureAccess { Disabled, Private, Enabled }
    contract::ApprovalRuleType = approval_rules::ApprovalRuleType { AnyApprover, Regular }
    contract::EventAction = events::EventAction {
        Approved, Closed, Commented, Created, Destroyed, Expired, Joined, Left, Merged, Pushed, Reopened, Updated
    }
    contract::SshKeyUsage = user_keys::KeyUsage { AuthAndSigning, Auth, Signing }
    contract::HookDeliveryState = hook_deliveries::DeliveryState { Pending, Delivered, Failed }
    contract::HookBranchFilterStrategy = project_hooks::BranchFilterStrategy { Wildcard, Regex, AllBranches }
    contract::IssueState = issues::IssueState { Opened, Closed }
    contract::IssueLinkType = issue_links::IssueLinkType { RelatesTo, Blocks, IsBlockedBy }
    contract::PackageStatus = packages::PackageStatus { Default, Hidden }
    contract::PackageProtectionLevel = package_protection_rules::ProtectionLevel { Maintainer, Owner, Admin }
    contract::ContainerExpirationCadence = container_expiration_policies::Cadence { V1d, V7d, V14d, V1month, V3month }
    contract::ContainerExpirationAge = container_expiration_policies::MinimumAge { V7d, V14d, V30d, V60d, V90d }
    contract::KeptPackageFiles = package_cleanup_policies::KeptFiles { All, V1, V10, V20, V30, V40, V50 }
    contract::PackageType = packages::PackageType { Generic, Npm, Pypi, Cargo, Maven }
    contract::MilestoneState = milestones::MilestoneState { Active, Closed }
    contract::ReleaseLinkType = release_links::ReleaseLinkType { Other, Runbook, Image, Package }
    contract::StatusCheckStatus = status_check_responses::StatusCheckStatus { Pending, Passed, Failed }
    contract::RemoteMirrorStatus = remote_mirrors::MirrorStatus {
        None, Scheduled, Started, Finished, Failed, ToRetry
    }
    contract::MergeRequestState = merge_requests::MergeRequestState { Opened, Closed, Locked, Merged }
    contract::MergeStatus = merge_requests::MergeStatus { Unchecked, CanBeMerged, CannotBeMerged }
    contract::MergeMethod = projects::MergeMethod { Merge, RebaseMerge, Ff }
    contract::SquashOption = projects::SquashOption { Never, Always, DefaultOn, DefaultOff }
    contract::AutoDevopsDeployStrategy = projects::DeployStrategy { Continuous, Manual, TimedIncremental }
    contract::ImportStatus = projects::ImportStatus { None, Scheduled, Started, Finished, Failed }
    contract::VariableType = ci_variables::VariableKind { EnvVar, File }
    contract::PipelineStatus = pipelines::PipelineStatus {
        Created, WaitingForResource, Preparing, Pending, Running, Success, Failed, Canceled, Skipped, Manual, Scheduled
    }
    contract::DeploymentStatus = deployments::DeploymentStatus { Created, Running, Success, Failed, Canceled }
    contract::EnvironmentState = environments::EnvironmentState { Available, Stopped }
    contract::ClusterAuthorization = cluster_platforms::Authorization { UnknownAuthorization, Rbac, Abac }
    contract::NamespaceKind = namespaces::NamespaceKind { User, Group }
    contract::ProjectCreationLevel = namespaces::ProjectCreation { Noone, Maintainer, Developer }
    contract::TodoAction = todos::TodoAction {
        Assigned, Mentioned, BuildFailed, Marked, ApprovalRequired, Unmergeable, DirectlyAddressed
    }
    contract::TodoState = todos::TodoState { Pending, Done }
    contract::SubgroupCreationLevel = namespaces::SubgroupCreation { Owner, Maintainer }
    contract::VulnerabilityState = vulnerabilities::VulnerabilityState { Opened, Confirmed, Resolved, Closed }
    contract::VulnerabilitySeverity = vulnerabilities::Severity { Info, Unknown, Low, Medium, High, Critical }
    contract::VulnerabilityConfidence = vulnerabilities::Confidence {
        Ignore, Unknown, Experimental, Low, Medium, High, Confirmed
    }
    contract::VulnerabilityReportType = vulnerabilities::ReportType {
        Sast, DependencyScanning, ContainerScanning, Dast, SecretDetection, CoverageFuzzing, ApiFuzzing,
        ClusterImageScanning, Generic
    }
}
