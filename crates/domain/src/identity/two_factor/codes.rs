//! Codes that prove a second factor, each of which is accepted once.

use chrono::{DateTime, Utc};
use rand::RngExt;
use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveValue::Set, ColumnTrait, Condition, ConnectionTrait, DatabaseTransaction, EntityTrait,
    PaginatorTrait, QueryFilter,
};
use storage::entities::{recovery_codes, two_factor_secrets};

use super::totp::{CODE_LENGTH, SharedSecret};
use crate::kernel::error::Result;
use crate::secrets::{self, EncryptedColumn, EncryptionContext, Keyring, Secret};

/// Number of recovery codes of a user.
pub const RECOVERY_CODES: usize = 10;
/// Length of a recovery code in characters: 16 of 32 possible characters are 80 bits.
const RECOVERY_CODE_LENGTH: usize = 16;
/// Characters between two hyphens of a recovery code.
const GROUP_LENGTH: usize = 4;
/// Characters of recovery codes, without those that look alike.
const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// Consumes a code of the app or a recovery code of a user whose row is locked. Returns `false` if the code is
/// wrong or was used before.
///
/// # Errors
/// Returns an error if the secret cannot be decrypted or the database fails.
pub(crate) async fn consume(
    transaction: &DatabaseTransaction,
    keyring: &Keyring,
    user_id: i64,
    code: &str,
    instant: DateTime<Utc>,
) -> Result<bool> {
    let code = normalized(code);
    match code.len() {
        CODE_LENGTH => consume_step(transaction, keyring, user_id, &code, instant).await,
        RECOVERY_CODE_LENGTH => consume_recovery_code(transaction, user_id, &code).await,
        _ => Ok(false),
    }
}

/// Returns a code without the separators with which apps and the server display it.
pub(super) fn normalized(code: &str) -> String {
    let characters = code.chars().filter(|char| !char.is_whitespace() && *char != '-');
    // Longer than every code, so that the code stays invalid.
    let bounded = characters.take(RECOVERY_CODE_LENGTH + 1);
    bounded.map(|char| char.to_ascii_lowercase()).collect()
}

/// Consumes a code of the app. The time step of each accepted code is higher than that of the code before, so
/// no code is accepted twice, on any node.
async fn consume_step(
    transaction: &DatabaseTransaction,
    keyring: &Keyring,
    user_id: i64,
    code: &str,
    instant: DateTime<Utc>,
) -> Result<bool> {
    let found = two_factor_secrets::of_user(transaction, user_id).await?;
    let Some(row) = found.filter(|row| row.enabled_at.is_some()) else {
        return Ok(false);
    };
    let Some(step) = decrypted(keyring, &row)?.step_of(code, instant)? else {
        return Ok(false);
    };
    let is_later = Condition::any()
        .add(two_factor_secrets::Column::LastUsedStep.is_null())
        .add(two_factor_secrets::Column::LastUsedStep.lt(step));
    let used = two_factor_secrets::Entity::update_many()
        .col_expr(two_factor_secrets::Column::LastUsedStep, Expr::value(step))
        .filter(two_factor_secrets::Column::Id.eq(row.id))
        .filter(is_later)
        .exec(transaction)
        .await?;
    Ok(used.rows_affected > 0)
}

async fn consume_recovery_code(transaction: &DatabaseTransaction, user_id: i64, code: &str) -> Result<bool> {
    let used = recovery_codes::Entity::delete_many()
        .filter(recovery_codes::Column::UserId.eq(user_id))
        .filter(recovery_codes::Column::Digest.eq(secrets::digest(code)))
        .exec(transaction)
        .await?;
    Ok(used.rows_affected > 0)
}

/// Returns the number of recovery codes of a user that are left.
///
/// # Errors
/// Returns an error if the database fails.
pub(super) async fn recovery_codes_left(db: &impl ConnectionTrait, user_id: i64) -> Result<u64> {
    let left = recovery_codes::Entity::find().filter(recovery_codes::Column::UserId.eq(user_id));
    Ok(left.count(db).await?)
}

/// Replaces the recovery codes of a user, and returns the new ones.
///
/// # Errors
/// Returns an error if the database fails.
pub(super) async fn replace_recovery_codes(
    transaction: &DatabaseTransaction,
    user_id: i64,
) -> Result<Vec<Secret<String>>> {
    delete_recovery_codes(transaction, user_id).await?;
    let codes: Vec<String> = std::iter::repeat_with(random_code).take(RECOVERY_CODES).collect();
    let rows = codes.iter().map(|code| recovery_codes::ActiveModel {
        user_id: Set(user_id),
        digest: Set(secrets::digest(code)),
        ..Default::default()
    });
    recovery_codes::Entity::insert_many(rows)
        .exec_without_returning(transaction)
        .await?;
    Ok(codes.iter().map(|code| grouped(code).into()).collect())
}

/// Deletes the recovery codes of a user.
///
/// # Errors
/// Returns an error if the database fails.
pub(super) async fn delete_recovery_codes(transaction: &DatabaseTransaction, user_id: i64) -> Result<()> {
    recovery_codes::Entity::delete_many()
        .filter(recovery_codes::Column::UserId.eq(user_id))
        .exec(transaction)
        .await?;
    Ok(())
}

fn random_code() -> String {
    let mut random = rand::rng();
    let characters = std::iter::repeat_with(|| ALPHABET[random.random_range(..ALPHABET.len())]);
    characters.take(RECOVERY_CODE_LENGTH).map(char::from).collect()
}

/// Returns a code with hyphens, which make it easier to copy by hand.
fn grouped(code: &str) -> String {
    let mut text = String::with_capacity(code.len() + code.len() / GROUP_LENGTH);
    for (position, char) in code.chars().enumerate() {
        if position > 0 && position % GROUP_LENGTH == 0 {
            text.push('-');
        }
        text.push(char);
    }
    text
}

/// Returns the decrypted secret of a row.
///
/// # Errors
/// Returns an error if the secret cannot be decrypted.
pub(super) fn decrypted(keyring: &Keyring, row: &two_factor_secrets::Model) -> Result<SharedSecret> {
    let secret = keyring.decrypt(&row.secret_encrypted, &secret_context(row.user_id))?;
    Ok(SharedSecret::new(secret))
}

/// Returns the context that the secret of a user is encrypted for.
pub(super) fn secret_context(user_id: i64) -> EncryptionContext {
    EncryptedColumn::TwoFactorSecret.context(&[&user_id])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_compared_without_separators_and_case() {
        assert_eq!(normalized(" 123 456\n"), "123456");
        let code = random_code();
        assert_eq!(code.len(), RECOVERY_CODE_LENGTH);
        assert_eq!(grouped(&code).len(), 19);
        assert_eq!(normalized(&grouped(&code).to_uppercase()), code);
        assert_eq!(normalized(&"a".repeat(1_000_000)).len(), RECOVERY_CODE_LENGTH + 1);
    }
}
