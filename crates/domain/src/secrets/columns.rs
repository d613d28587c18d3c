//! The encrypted columns of the database. Values can be encrypted only for the columns of this list, so that a
//! rotation of the key finds all of them.

use std::fmt::Display;

use sea_orm::{EnumIter, Iterable};

/// A column with encrypted values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter)]
pub enum EncryptedColumn {
    /// The registration token for runners of a project.
    ProjectRunnersToken,
    /// The URL that a project is imported from. After the import, its username and password are masked.
    ProjectImportUrl,
    /// The registration token for runners of a group.
    GroupRunnersToken,
    /// The token that a webhook sends to its receiver.
    WebhookToken,
    /// The password in the URL of a webhook.
    WebhookPassword,
    /// The custom headers of a webhook.
    WebhookCustomHeaders,
    /// The key of the signatures of deliveries of a webhook.
    WebhookSigningToken,
    /// The URL variables of a webhook.
    WebhookUrlVariables,
    /// The key of the signatures of requests to an external status check.
    StatusCheckSharedSecret,
    /// The username and password in the URL of a remote mirror.
    RemoteMirrorCredentials,
    /// The username and password in the URL of a pull mirror.
    PullMirrorCredentials,
    /// The value of a CI/CD variable.
    CiVariableValue,
    /// The value of a variable of a pipeline schedule.
    ScheduleVariableValue,
    /// The value of a variable of a pipeline.
    PipelineVariableValue,
    /// The token of a pipeline trigger.
    TriggerToken,
    /// The instance ID of feature flag clients.
    FeatureFlagsInstanceId,
    /// The token of a cluster.
    ClusterToken,
    /// The secret of a second factor.
    TwoFactorSecret,
}

/// The description of an encrypted column.
struct ColumnDescription {
    table: &'static str,
    column: &'static str,
    context: &'static str,
    /// The columns whose values identify the row in the context.
    key: &'static [&'static str],
}

/// The location that a value is encrypted for, such as `projects.runners_token:7`. A value can be decrypted only
/// for the same location, so that an attacker with write access to the database cannot copy values to other rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncryptionContext(String);

impl AsRef<str> for EncryptionContext {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl EncryptedColumn {
    /// Returns all encrypted columns.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::iter()
    }

    fn description(self) -> ColumnDescription {
        let (table, column, context, key): (_, _, _, &[&str]) = match self {
            Self::ProjectRunnersToken => (
                "projects",
                "runners_token_encrypted",
                "projects.runners_token",
                &["id"],
            ),
            Self::ProjectImportUrl => ("projects", "import_url_encrypted", "projects.import_url", &["id"]),
            Self::GroupRunnersToken => (
                "namespaces",
                "runners_token_encrypted",
                "namespaces.runners_token",
                &["id"],
            ),
            Self::WebhookToken => ("project_hooks", "token_encrypted", "project_hooks.token", &["id"]),
            Self::WebhookPassword => (
                "project_hooks",
                "password_encrypted",
                "project_hooks.password",
                &["id"],
            ),
            Self::WebhookCustomHeaders => (
                "project_hooks",
                "custom_headers_encrypted",
                "project_hooks.custom_headers",
                &["id"],
            ),
            Self::WebhookSigningToken => (
                "project_hooks",
                "signing_token_encrypted",
                "project_hooks.signing_token",
                &["id"],
            ),
            Self::WebhookUrlVariables => (
                "project_hooks",
                "url_variables_encrypted",
                "project_hooks.url_variables",
                &["id"],
            ),
            Self::StatusCheckSharedSecret => (
                "status_checks",
                "shared_secret_encrypted",
                "status_checks.shared_secret",
                &["id"],
            ),
            Self::RemoteMirrorCredentials => (
                "remote_mirrors",
                "credentials_encrypted",
                "remote_mirrors.credentials",
                &["id"],
            ),
            Self::PullMirrorCredentials => (
                "pull_mirrors",
                "credentials_encrypted",
                "pull_mirrors.credentials",
                &["id"],
            ),
            Self::CiVariableValue => ("ci_variables", "value_encrypted", "ci_variables.value", &["id"]),
            Self::ScheduleVariableValue => (
                "pipeline_schedule_variables",
                "value_encrypted",
                "pipeline_schedule_variables.value",
                &["schedule_id", "key"],
            ),
            Self::PipelineVariableValue => (
                "pipeline_variables",
                "value_encrypted",
                "pipeline_variables.value",
                &["pipeline_id", "key"],
            ),
            Self::TriggerToken => (
                "pipeline_triggers",
                "token_encrypted",
                "pipeline_triggers.token",
                &["digest"],
            ),
            Self::FeatureFlagsInstanceId => (
                "feature_flags_clients",
                "instance_id_encrypted",
                "feature_flags_clients.instance_id",
                &["digest"],
            ),
            Self::ClusterToken => (
                "cluster_platforms",
                "token_encrypted",
                "cluster_platforms.token",
                &["cluster_id"],
            ),
            Self::TwoFactorSecret => (
                "two_factor_secrets",
                "secret_encrypted",
                "two_factor_secrets.secret",
                &["user_id"],
            ),
        };
        ColumnDescription {
            table,
            column,
            context,
            key,
        }
    }

    /// Returns the name of the table, whose primary key is `id`.
    #[must_use]
    pub fn table(self) -> &'static str {
        self.description().table
    }

    /// Returns the name of the column.
    #[must_use]
    pub fn column(self) -> &'static str {
        self.description().column
    }

    /// Returns the columns of the table whose values identify a row in [`Self::context`], in their order.
    #[must_use]
    pub fn key(self) -> &'static [&'static str] {
        self.description().key
    }

    /// Returns the context of a row that is identified by the values of [`Self::key`].
    #[must_use]
    pub fn context(self, key: &[&dyn Display]) -> EncryptionContext {
        let description = self.description();
        debug_assert_eq!(key.len(), description.key.len(), "{}", description.context);
        let mut context = description.context.to_owned();
        for value in key {
            context.push(':');
            context.push_str(&value.to_string());
        }
        EncryptionContext(context)
    }
}
