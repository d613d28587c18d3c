//! `holdfast admin rotate-key`: replacement of the encryption key.

use std::process::ExitCode;

use clap::Args;
use domain::operations::key_rotation::{self, RotationEvent, RotationOptions};
use domain::secrets::EncryptedColumn;

use super::context::{CommandResult, CommonOptions, error_text, print};

/// Options of `admin rotate-key`.
#[derive(Debug, Args)]
pub(super) struct RotateKeyOptions {
    /// Only add the new key to the key file, which can then be copied to nodes that have a copy of the data directory
    #[arg(long, conflicts_with_all = ["discard_unreadable", "end_sessions"])]
    prepare: bool,
    /// Remove values that no key decrypts
    #[arg(long)]
    discard_unreadable: bool,
    /// End all sessions of web browsers
    #[arg(long)]
    end_sessions: bool,
    #[command(flatten)]
    common: CommonOptions,
}

/// Prints one line for each completed step; exits with 1 if values remain that no key decrypts.
pub(super) async fn run(arguments: RotateKeyOptions) -> CommandResult {
    let options = RotationOptions {
        only_add_key: arguments.prepare,
        discard_unreadable: arguments.discard_unreadable,
        end_sessions: arguments.end_sessions,
    };
    let (settings, backend) = arguments.common.open().await?;
    let mut report = |event: RotationEvent<'_>| print(&format!("{}\n", line(&event)));
    let rotated = key_rotation::rotate(&backend, &settings.data_dir, options, &mut report).await;
    let result = rotated.map_err(error_text)?;
    if options.only_add_key {
        print(
            "Copy the key file to all nodes that have a copy of the data directory, and run the command again without --prepare.\n",
        );
        return Ok(ExitCode::SUCCESS);
    }
    print(&format!(
        "Encrypted {} with the new key.\n",
        values(result.encrypted)
    ));
    if result.unreadable > 0 {
        return Err(format!(
            "no key decrypts {}; pass --discard-unreadable to remove them",
            values(result.unreadable)
        )
        .into());
    }
    Ok(ExitCode::SUCCESS)
}

fn line(event: &RotationEvent<'_>) -> String {
    match event {
        RotationEvent::KeyAdded { key } => format!("Added the key {key} to the key file."),
        RotationEvent::KeyReady { key } => format!("The key file contains the new key {key}."),
        RotationEvent::KeySwitched { key } => format!("The key {key} is the current key."),
        RotationEvent::Continued { key } => format!("Continuing the rotation to the key {key}."),
        RotationEvent::SessionsEnded { count } => format!("Ended sessions: {count}."),
        RotationEvent::ValuesEncrypted { column, count } => {
            format!("Encrypted {} of {}.", values(*count), name(*column))
        }
        RotationEvent::ValueUnreadable(value) => {
            format!(
                "Unreadable value of {} in the row {}: {}.",
                name(value.column),
                value.id,
                value.cause
            )
        }
        RotationEvent::ValuesDiscarded { column, count } => format!(
            "Removed {} of {}: {}.",
            values(*count),
            name(*column),
            key_rotation::consequence(*column)
        ),
        RotationEvent::FormerKeysRemoved { count } => format!("Removed former keys: {count}."),
    }
}

fn name(column: EncryptedColumn) -> String {
    format!("{}.{}", column.table(), column.column())
}

/// A number of values in words.
fn values(count: u64) -> String {
    match count {
        1 => "1 value".to_owned(),
        count => format!("{count} values"),
    }
}
