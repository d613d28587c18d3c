//! All kinds of audit events. `docs/AUDIT.md` lists the kinds, and a test compares the list with this file.

use storage::entities::audit_events::AuditEntityType;

/// Effect of an action on its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The object was added.
    Add,
    /// The object was changed.
    Change,
    /// The object was removed.
    Remove,
    /// The action added, changed and removed no object.
    Message,
}

/// Declares the kinds, each with its name, its effect, its object and the types of its entities.
macro_rules! kinds {
    ($($(#[doc = $text:literal])+ $kind:ident = $name:literal, $change:ident $object:literal, [$($entity:ident),+];)*) => {
        /// Kind of an audit event.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum AuditKind {
            $($(#[doc = $text])+ $kind,)*
        }

        impl AuditKind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            /// Returns the name, unique among all kinds.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)* }
            }

            /// Returns the effect on the object.
            #[must_use]
            pub fn change(self) -> Change {
                match self { $(Self::$kind => Change::$change,)* }
            }

            /// Returns the name of the object, or of the action if the effect is [`Change::Message`].
            #[must_use]
            pub fn object(self) -> &'static str {
                match self { $(Self::$kind => $object,)* }
            }

            /// Returns the types of entities that the events can have.
            #[must_use]
            pub fn entity_types(self) -> &'static [AuditEntityType] {
                match self { $(Self::$kind => &[$(AuditEntityType::$entity),+],)* }
            }

            /// Returns the description.
            #[must_use]
            pub fn description(self) -> &'static str {
                match self { $(Self::$kind => concat!($($text),+).trim_ascii(),)* }
            }
        }
    };
}

kinds! {
    /// A user signed in with a browser, or replaced an expired password at sign-in.
    UserSignedIn = "user_signed_in", Message "signed_in", [User];
    /// A sign-in with a browser had an unknown login or a wrong password.
    SignInFailed = "sign_in_failed", Message "sign_in_failed", [User, Instance];
    /// A sign-in with the correct password was refused because the account is not active.
    SignInRefused = "sign_in_refused", Message "sign_in_refused", [User];
    /// A sign-in had the correct password, and waits for the second factor.
    SecondFactorRequired = "second_factor_required", Message "second_factor_required", [User];
    /// A user signed out.
    UserSignedOut = "user_signed_out", Message "signed_out", [User];
    /// A code of a second factor was wrong.
    SecondFactorFailed = "second_factor_failed", Message "second_factor_failed", [User];
    /// A signed-in user entered a wrong current password.
    CurrentPasswordFailed = "current_password_failed", Message "current_password_failed", [User];
    /// Git over HTTP or the container registry accepted a password. Recorded at most once a day for each address.
    GitPasswordUsed = "git_password_used", Message "git_password_used", [User];
    /// Git over HTTP or the container registry refused a login or password.
    GitPasswordFailed = "git_password_failed", Message "git_password_failed", [User, Instance];

    /// An account was created.
    UserCreated = "user_created", Add "user", [User];
    /// An account was deleted.
    UserDeleted = "user_deleted", Remove "user", [User];
    /// An account was blocked.
    UserBlocked = "user_blocked", Change "state", [User];
    /// A blocked account was unblocked.
    UserUnblocked = "user_unblocked", Change "state", [User];
    /// An account was deactivated.
    UserDeactivated = "user_deactivated", Change "state", [User];
    /// A deactivated account was activated, by an administrator or by signing in.
    UserActivated = "user_activated", Change "state", [User];
    /// The failed sign-ins of an account were deleted.
    UserUnlocked = "user_unlocked", Message "unlocked", [User];
    /// An account became an administrator, or is no longer one.
    UserAdminChanged = "user_admin_changed", Change "admin", [User];
    /// The password of an account was replaced.
    UserPasswordChanged = "user_password_changed", Change "password", [User];
    /// The username of an account changed.
    UsernameChanged = "username_changed", Change "username", [User];
    /// The primary email address of an account changed.
    UserEmailChanged = "user_email_changed", Change "email", [User];
    /// A permission or limit of an account changed.
    UserSettingChanged = "user_setting_changed", Change "user_setting", [User];
    /// An identity at an identity provider was stored for an account.
    UserIdentityAdded = "user_identity_added", Add "identity", [User];
    /// An identity at an identity provider was removed from an account.
    UserIdentityRemoved = "user_identity_removed", Remove "identity", [User];
    /// A secondary email address was added.
    UserEmailAdded = "user_email_added", Add "email", [User];
    /// A secondary email address was removed.
    UserEmailRemoved = "user_email_removed", Remove "email", [User];
    /// An SSH key was added.
    UserKeyAdded = "user_key_added", Add "ssh_key", [User];
    /// An SSH key was removed.
    UserKeyRemoved = "user_key_removed", Remove "ssh_key", [User];
    /// A GPG key was added.
    GpgKeyAdded = "gpg_key_added", Add "gpg_key", [User];
    /// A GPG key was removed.
    GpgKeyRemoved = "gpg_key_removed", Remove "gpg_key", [User];
    /// A GPG key was revoked, and removed.
    GpgKeyRevoked = "gpg_key_revoked", Remove "gpg_key", [User];
    /// A user enabled two-factor authentication.
    TwoFactorEnabled = "two_factor_enabled", Change "two_factor", [User];
    /// A user disabled two-factor authentication.
    TwoFactorDisabled = "two_factor_disabled", Change "two_factor", [User];
    /// An administrator disabled the two-factor authentication of a user, or removed its unreadable secret.
    TwoFactorReset = "two_factor_reset", Change "two_factor", [User];
    /// A user replaced the recovery codes.
    RecoveryCodesCreated = "recovery_codes_created", Change "recovery_codes", [User];

    /// A personal access token was created.
    PersonalTokenCreated = "personal_access_token_created", Add "personal_access_token", [User];
    /// A personal access token was revoked.
    PersonalTokenRevoked = "personal_access_token_revoked", Remove "personal_access_token", [User];
    /// An impersonation token was created.
    ImpersonationTokenCreated = "impersonation_token_created", Add "impersonation_token", [User];
    /// An impersonation token was revoked.
    ImpersonationTokenRevoked = "impersonation_token_revoked", Remove "impersonation_token", [User];
    /// A project access token was created with its bot.
    ProjectTokenCreated = "project_access_token_created", Add "project_access_token", [Project];
    /// A project access token was revoked and its bot deleted.
    ProjectTokenRevoked = "project_access_token_revoked", Remove "project_access_token", [Project];
    /// An OAuth application was registered.
    OauthApplicationCreated = "oauth_application_created", Add "oauth_application", [Instance];
    /// The secret of an OAuth application was renewed.
    OauthSecretRenewed = "oauth_application_secret_renewed", Change "secret", [Instance];
    /// An OAuth application was deleted with its tokens.
    OauthApplicationDeleted = "oauth_application_deleted", Remove "oauth_application", [Instance];
    /// A user allowed an OAuth application to act on the user's behalf.
    OauthAccessGranted = "oauth_access_granted", Add "oauth_access", [User];
    /// OAuth tokens were revoked by their application or an operator, with the former password of the user, or because
    /// a code or refresh token was used twice.
    OauthTokensRevoked = "oauth_tokens_revoked", Remove "oauth_access", [User];
    /// A pipeline trigger was created.
    PipelineTriggerCreated = "pipeline_trigger_created", Add "pipeline_trigger", [Project];
    /// A pipeline trigger was changed.
    PipelineTriggerChanged = "pipeline_trigger_changed", Change "pipeline_trigger", [Project];
    /// A pipeline trigger was deleted.
    PipelineTriggerDeleted = "pipeline_trigger_deleted", Remove "pipeline_trigger", [Project];
    /// The instance ID of feature flag clients was replaced.
    FeatureFlagsInstanceIdReset = "feature_flags_instance_id_reset", Change "feature_flags_instance_id", [Project];
    /// A SCIM token was created for a group, and replaced the previous token if there was one.
    ScimTokenCreated = "scim_token_created", Add "scim_token", [Group];
    /// The SCIM token of a group was revoked.
    ScimTokenRevoked = "scim_token_revoked", Remove "scim_token", [Group];

    /// A user became a member.
    MemberAdded = "member_added", Add "user_access", [Group, Project];
    /// The role or the expiration date of a member changed.
    MemberChanged = "member_changed", Change "access_level", [Group, Project];
    /// A member left, was removed, or the membership expired.
    MemberRemoved = "member_removed", Remove "user_access", [Group, Project];
    /// The override of the role of an LDAP member was set or removed.
    MemberOverrideChanged = "member_override_changed", Change "override", [Group];
    /// A project was shared with a group.
    ProjectShared = "project_shared", Add "group_access", [Project];
    /// The share of a project was removed or expired.
    ProjectUnshared = "project_unshared", Remove "group_access", [Project];
    /// A group was shared with another group.
    GroupShared = "group_shared", Add "group_access", [Group];
    /// The share of a group was removed or expired.
    GroupUnshared = "group_unshared", Remove "group_access", [Group];

    /// A project was created.
    ProjectCreated = "project_created", Add "project", [Project];
    /// The deletion of a project started.
    ProjectDeleted = "project_deleted", Remove "project", [Project];
    /// The deletion of a project was scheduled.
    ProjectDeletionScheduled = "project_deletion_scheduled", Change "marked_for_deletion", [Project];
    /// The scheduled deletion of a project was canceled.
    ProjectRestored = "project_restored", Change "marked_for_deletion", [Project];
    /// A project was archived.
    ProjectArchived = "project_archived", Change "archived", [Project];
    /// A project was unarchived.
    ProjectUnarchived = "project_unarchived", Change "archived", [Project];
    /// A project was transferred to another namespace.
    ProjectTransferred = "project_transferred", Change "namespace", [Project];
    /// The visibility of a project changed.
    ProjectVisibilityChanged = "project_visibility_changed", Change "visibility", [Project];
    /// A setting of a project changed that has no event of its own.
    ProjectSettingChanged = "project_setting_changed", Change "project_setting", [Project];
    /// A branch was protected.
    BranchProtected = "branch_protected", Add "protected_branch", [Group, Project];
    /// The protection of a branch changed.
    BranchProtectionChanged = "branch_protection_changed", Change "protected_branch", [Group, Project];
    /// The protection of a branch was removed.
    BranchUnprotected = "branch_unprotected", Remove "protected_branch", [Group, Project];
    /// A tag was protected.
    TagProtected = "tag_protected", Add "protected_tag", [Project];
    /// The protection of a tag was removed.
    TagUnprotected = "tag_unprotected", Remove "protected_tag", [Project];
    /// The push rule of a group or project was created.
    PushRuleCreated = "push_rule_created", Add "push_rule", [Group, Project];
    /// The push rule of a group or project changed.
    PushRuleChanged = "push_rule_changed", Change "push_rule", [Group, Project];
    /// The push rule of a group or project was deleted.
    PushRuleDeleted = "push_rule_deleted", Remove "push_rule", [Group, Project];
    /// An approval rule was created.
    ApprovalRuleCreated = "approval_rule_created", Add "approval_rule", [Project];
    /// An approval rule changed.
    ApprovalRuleChanged = "approval_rule_changed", Change "approval_rule", [Project];
    /// An approval rule was deleted.
    ApprovalRuleDeleted = "approval_rule_deleted", Remove "approval_rule", [Project];
    /// A deploy key was added to a project, or a public deploy key was created.
    DeployKeyAdded = "deploy_key_added", Add "deploy_key", [Project, Instance];
    /// An external status check was created.
    StatusCheckCreated = "external_status_check_created", Add "external_status_check", [Project];
    /// An external status check changed.
    StatusCheckChanged = "external_status_check_changed", Change "external_status_check", [Project];
    /// An external status check was deleted.
    StatusCheckDeleted = "external_status_check_deleted", Remove "external_status_check", [Project];
    /// The title or push access of a deploy key changed.
    DeployKeyChanged = "deploy_key_changed", Change "deploy_key", [Project];
    /// A deploy key was removed from a project.
    DeployKeyRemoved = "deploy_key_removed", Remove "deploy_key", [Project];
    /// A deploy token was created.
    DeployTokenCreated = "deploy_token_created", Add "deploy_token", [Project, Group];
    /// A deploy token was deleted.
    DeployTokenDeleted = "deploy_token_deleted", Remove "deploy_token", [Project, Group];
    /// The limit of the job tokens that a project accepts was enabled or disabled.
    JobTokenScopeChanged = "job_token_scope_changed", Change "job_token_scope", [Project];
    /// A project or group was added to the allowlist of job tokens.
    JobTokenScopeEntryAdded = "job_token_scope_entry_added", Add "job_token_scope_entry", [Project];
    /// A project or group was removed from the allowlist of job tokens.
    JobTokenScopeEntryRemoved = "job_token_scope_entry_removed", Remove "job_token_scope_entry", [Project];
    /// A webhook was added.
    WebhookAdded = "webhook_added", Add "webhook", [Project];
    /// A webhook was changed.
    WebhookChanged = "webhook_changed", Change "webhook", [Project];
    /// A webhook was removed.
    WebhookRemoved = "webhook_removed", Remove "webhook", [Project];
    /// A remote mirror of a project was created.
    RemoteMirrorCreated = "remote_mirror_created", Add "remote_mirror", [Project];
    /// The settings of a remote mirror changed.
    RemoteMirrorChanged = "remote_mirror_changed", Change "remote_mirror", [Project];
    /// A remote mirror of a project was deleted.
    RemoteMirrorDeleted = "remote_mirror_deleted", Remove "remote_mirror", [Project];
    /// A pull mirror of a project was created, or its settings changed.
    PullMirrorChanged = "pull_mirror_changed", Change "pull_mirror", [Project];
    /// A cluster was added.
    ClusterAdded = "cluster_added", Add "cluster", [Project];
    /// A cluster was removed.
    ClusterRemoved = "cluster_removed", Remove "cluster", [Project];
    /// A repository of the container registry was deleted.
    RegistryRepositoryDeleted = "registry_repository_deleted", Remove "registry_repository", [Project];
    /// A single tag of the container registry was deleted.
    RegistryTagDeleted = "registry_tag_deleted", Remove "registry_tag", [Project];
    /// The deletion of tags of the container registry by rules was requested.
    RegistryTagsDeletionRequested = "registry_tags_deletion_requested", Remove "registry_tags", [Project];
    /// A manifest of the container registry was deleted with its tags.
    RegistryManifestDeleted = "registry_manifest_deleted", Remove "registry_manifest", [Project];
    /// A blob was removed from a repository of the container registry.
    RegistryBlobDeleted = "registry_blob_deleted", Remove "registry_blob", [Project];
    /// The expiration policy of the container registry changed.
    ContainerExpirationPolicyChanged = "container_expiration_policy_changed", Change "container_expiration_policy", [Project];
    /// A package was created with its first file.
    PackagePublished = "package_published", Add "package", [Project];
    /// A file was added to a package.
    PackageFileAdded = "package_file_added", Add "package_file", [Project];
    /// A package was deleted with its files.
    PackageDeleted = "package_deleted", Remove "package", [Project];
    /// A file of a package was deleted.
    PackageFileDeleted = "package_file_deleted", Remove "package_file", [Project];
    /// The cleanup policy of packages deleted older files with the same name.
    PackageFilesCleanedUp = "package_files_cleaned_up", Remove "package_files", [Project];
    /// The cleanup policy of packages changed.
    PackageCleanupPolicyChanged = "package_cleanup_policy_changed", Change "package_cleanup_policy", [Project];
    /// The deprecation of a version of a package changed.
    PackageDeprecationChanged = "package_deprecation_changed", Change "package_deprecation", [Project];
    /// A tag of a package was created or moved to another version.
    PackageTagChanged = "package_tag_changed", Change "package_tag", [Project];
    /// A tag of a package was deleted.
    PackageTagDeleted = "package_tag_deleted", Remove "package_tag", [Project];
    /// A version of a crate was yanked.
    PackageYanked = "package_yanked", Change "package_yank", [Project];
    /// The yank of a version of a crate was undone.
    PackageUnyanked = "package_unyanked", Change "package_yank", [Project];
    /// A package protection rule was created.
    PackageProtectionRuleCreated = "package_protection_rule_created", Add "package_protection_rule", [Project];
    /// A package protection rule changed.
    PackageProtectionRuleChanged = "package_protection_rule_changed", Change "package_protection_rule", [Project];
    /// A package protection rule was deleted.
    PackageProtectionRuleDeleted = "package_protection_rule_deleted", Remove "package_protection_rule", [Project];

    /// A group was created or imported.
    GroupCreated = "group_created", Add "group", [Group];
    /// The deletion of a group started.
    GroupDeleted = "group_deleted", Remove "group", [Group];
    /// The deletion of a group was scheduled.
    GroupDeletionScheduled = "group_deletion_scheduled", Change "marked_for_deletion", [Group];
    /// The scheduled deletion of a group was canceled.
    GroupRestored = "group_restored", Change "marked_for_deletion", [Group];
    /// A group was transferred to another parent.
    GroupTransferred = "group_transferred", Change "parent", [Group];
    /// The visibility of a group changed.
    GroupVisibilityChanged = "group_visibility_changed", Change "visibility", [Group];
    /// A setting of a group changed that has no event of its own.
    GroupSettingChanged = "group_setting_changed", Change "group_setting", [Group];
    /// An export of a group was started.
    GroupExported = "group_exported", Message "export_started", [Group];
    /// The single sign-on settings of a group changed.
    GroupSamlChanged = "group_saml_changed", Change "saml", [Group];
    /// An email domain was verified for a group.
    VerifiedDomainAdded = "verified_domain_added", Add "verified_domain", [Group];
    /// The verification of an email domain was removed from a group.
    VerifiedDomainRemoved = "verified_domain_removed", Remove "verified_domain", [Group];
    /// The identity provider of a group provisioned a user.
    ScimUserProvisioned = "scim_user_provisioned", Add "scim_identity", [Group];
    /// The identity provider of a group changed a user.
    ScimUserChanged = "scim_user_changed", Change "scim_identity", [Group];
    /// The identity provider of a group deprovisioned a user.
    ScimUserDeprovisioned = "scim_user_deprovisioned", Remove "scim_identity", [Group];

    /// A CI/CD variable was created.
    VariableCreated = "variable_created", Add "ci_variable", [Project, Group, Instance];
    /// A CI/CD variable was changed.
    VariableChanged = "variable_changed", Change "ci_variable", [Project, Group, Instance];
    /// A CI/CD variable was deleted.
    VariableDeleted = "variable_deleted", Remove "ci_variable", [Project, Group, Instance];
    /// A setting of the instance changed.
    ApplicationSettingChanged = "application_setting_changed", Change "application_setting", [Instance];
    /// A feature gate was set.
    FeatureGateChanged = "feature_gate_changed", Change "feature_gate", [Instance];
    /// A feature gate was deleted.
    FeatureGateDeleted = "feature_gate_deleted", Remove "feature_gate", [Instance];
    /// A job that failed permanently was queued again.
    JobRetried = "job_retried", Message "job_retried", [Instance];
    /// A job that failed permanently was deleted without running.
    JobDiscarded = "job_discarded", Remove "job", [Instance];
    /// The encryption key was replaced.
    EncryptionKeyReplaced = "encryption_key_replaced", Change "encryption_key", [Instance];
    /// Encrypted values that no key decrypts were removed from a column.
    EncryptedValuesRemoved = "encrypted_values_removed", Remove "encrypted_values", [Instance];
    /// The sessions of all users were ended.
    SessionsEnded = "sessions_ended", Remove "sessions", [Instance];
}
