//! `holdfast admin group-domain`: verified email domains of groups.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use domain::spaces::verified_domains;

use super::context::{CommandResult, CommonOptions, error_text, print};

/// A subcommand of `admin group-domain`.
#[derive(Debug, Subcommand)]
pub(super) enum GroupDomainCommand {
    /// Verify a domain for a group, and confirm the addresses of its provisioned users in this domain
    Add(DomainOptions),
    /// Remove a domain from a group; the addresses of its provisioned users in this domain become unconfirmed
    Remove(DomainOptions),
    /// List the verified domains of a group
    List {
        /// Path of the group
        group: String,
        #[command(flatten)]
        common: CommonOptions,
    },
}

/// A domain of a group.
#[derive(Debug, Args)]
pub(super) struct DomainOptions {
    /// Path of the group
    group: String,
    /// Part of the addresses after the @; subdomains are separate domains
    domain: String,
    #[command(flatten)]
    common: CommonOptions,
}

/// Runs a subcommand.
pub(super) async fn run(command: GroupDomainCommand) -> CommandResult {
    match command {
        GroupDomainCommand::Add(options) => {
            let (_, backend) = options.common.open().await?;
            let confirmed = verified_domains::add(&backend, &options.group, &options.domain).await;
            let addresses = addresses(confirmed.map_err(error_text)?);
            print(&format!("Confirmed {addresses}.\n"));
        }
        GroupDomainCommand::Remove(options) => {
            let (_, backend) = options.common.open().await?;
            let changed = verified_domains::remove(&backend, &options.group, &options.domain).await;
            let addresses = addresses(changed.map_err(error_text)?);
            print(&format!("Removed the confirmation of {addresses}.\n"));
        }
        GroupDomainCommand::List { group, common } => {
            let (_, backend) = common.open().await?;
            let domains = verified_domains::list(&backend, &group)
                .await
                .map_err(error_text)?;
            for domain in domains {
                print(&format!("{domain}\n"));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn addresses(count: u64) -> String {
    match count {
        1 => "1 address".to_owned(),
        _ => format!("{count} addresses"),
    }
}
