//! Reservations of a resource that requests hold at the same time.
//!
//! A request that needs more than is left fails with [`Error::Overloaded`]; it does not wait, because waiting requests
//! need memory too.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use git::ResultMemory;

use super::UNCOUNTED_RESPONSE_BYTES;
use crate::kernel::error::{Error, Result};

/// Limits of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) total: u64,
    pub(super) per_address: u64,
    pub(super) per_user: u64,
}

impl Limits {
    /// An address gets most of the memory, because users share it behind a proxy that is not trusted. By default, the
    /// share of a user is enough to parse the largest body that the contract accepts.
    pub(super) fn of_memory(total: u64) -> Self {
        Self {
            total,
            per_address: total / 8 * 7,
            per_user: total / 8 * 6,
        }
    }
}

/// The client that holds a part of a budget.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Holder {
    /// ID of the signed-in user.
    pub user_id: Option<i64>,
    /// Client address; the network of an IPv6 address.
    pub address: Option<Arc<str>>,
}

/// A resource with a limit for the process and shares for addresses and users. Clones share the limit.
#[derive(Debug, Clone)]
pub struct Budget(Arc<BudgetParts>);

#[derive(Debug)]
struct BudgetParts {
    limits: Limits,
    usage: Mutex<Usage>,
    /// Number of refused reservations because of the limits of the process, the address and the user.
    refused: [AtomicU64; 3],
}

#[derive(Debug, Default)]
struct Usage {
    total: u64,
    by_address: HashMap<Arc<str>, u64>,
    by_user: HashMap<i64, u64>,
}

impl Budget {
    pub(super) fn new(limits: Limits) -> Self {
        Self(Arc::new(BudgetParts {
            limits,
            usage: Mutex::default(),
            refused: [const { AtomicU64::new(0) }; 3],
        }))
    }

    /// Returns an empty reservation of a client.
    #[must_use]
    pub fn reservation(&self, holder: Holder) -> Reservation {
        Reservation {
            budget: self.clone(),
            holder,
            amount: 0,
        }
    }

    /// Returns the amount that all requests hold.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.usage().total
    }

    /// Returns the limits of the process, an address and a user.
    #[must_use]
    pub fn limits(&self) -> [u64; 3] {
        let limits = self.0.limits;
        [limits.total, limits.per_address, limits.per_user]
    }

    /// Returns how many reservations were refused because of the limits of the process, the address and the user.
    #[must_use]
    pub fn refused(&self) -> [u64; 3] {
        self.0
            .refused
            .each_ref()
            .map(|count| count.load(Ordering::Relaxed))
    }

    fn usage(&self) -> MutexGuard<'_, Usage> {
        self.0.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, holder: &Holder, amount: u64) -> Result<()> {
        let limits = self.0.limits;
        let mut usage = self.usage();
        let fits = |used: u64, limit: u64| used.checked_add(amount).is_some_and(|sum| sum <= limit);
        let of_address = holder
            .address
            .as_ref()
            .map(|address| usage.by_address.get(address).copied().unwrap_or(0));
        let of_user = holder
            .user_id
            .map(|user_id| usage.by_user.get(&user_id).copied().unwrap_or(0));
        let has_room = [
            fits(usage.total, limits.total),
            of_address.is_none_or(|used| fits(used, limits.per_address)),
            of_user.is_none_or(|used| fits(used, limits.per_user)),
        ];
        if let Some(exceeded) = has_room.iter().position(|has_room| !has_room) {
            self.0.refused[exceeded].fetch_add(1, Ordering::Relaxed);
            return Err(Error::Overloaded);
        }
        usage.total += amount;
        if let Some(address) = &holder.address {
            *usage.by_address.entry(Arc::clone(address)).or_default() += amount;
        }
        if let Some(user_id) = holder.user_id {
            *usage.by_user.entry(user_id).or_default() += amount;
        }
        Ok(())
    }

    fn release(&self, holder: &Holder, amount: u64) {
        let mut usage = self.usage();
        usage.total = usage.total.saturating_sub(amount);
        if let Some(address) = &holder.address {
            subtract(&mut usage.by_address, address, amount);
        }
        if let Some(user_id) = holder.user_id {
            subtract(&mut usage.by_user, &user_id, amount);
        }
    }
}

/// Subtracts from an entry and removes it at zero, so that the map contains only current holders.
fn subtract<K: Eq + Hash>(used: &mut HashMap<K, u64>, key: &K, amount: u64) {
    if let Some(entry) = used.get_mut(key) {
        *entry = entry.saturating_sub(amount);
        if *entry == 0 {
            used.remove(key);
        }
    }
}

/// The part of a budget that a request holds, released on drop.
#[derive(Debug)]
pub struct Reservation {
    budget: Budget,
    holder: Holder,
    amount: u64,
}

impl Reservation {
    /// Returns the reserved amount.
    #[must_use]
    pub fn amount(&self) -> u64 {
        self.amount
    }

    /// Reserves more.
    ///
    /// # Errors
    /// Returns [`Error::Overloaded`] if less is left; the reservation is unchanged then.
    pub fn grow(&mut self, amount: u64) -> Result<()> {
        self.budget.take(&self.holder, amount)?;
        self.amount += amount;
        Ok(())
    }

    /// Releases all but `amount`. A smaller reservation is unchanged.
    pub fn shrink_to(&mut self, amount: u64) {
        let excess = self.amount.saturating_sub(amount);
        self.budget.release(&self.holder, excess);
        self.amount -= excess;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

/// Memory of one request: its body, and its response until the client has read it. Clones share one reservation.
#[derive(Debug, Clone)]
pub struct RequestMemory(Arc<Mutex<Reservation>>);

impl RequestMemory {
    /// Wraps the reservation of a request.
    #[must_use]
    pub fn new(reservation: Reservation) -> Self {
        Self(Arc::new(Mutex::new(reservation)))
    }

    /// Reserves bytes in addition to those that the request holds.
    ///
    /// # Errors
    /// Returns [`Error::Overloaded`] if too little memory is left for the client or the process.
    pub fn reserve(&self, bytes: u64) -> Result<()> {
        self.reservation().grow(bytes)
    }

    /// Reserves memory for content from the database, which exists twice while it is read: as a row and as a value.
    /// Content that is not counted as a response needs no reservation.
    ///
    /// # Errors
    /// Returns [`Error::Overloaded`] if too little memory is left for the client or the process.
    pub fn reserve_content(&self, size: u64) -> Result<()> {
        match size > UNCOUNTED_RESPONSE_BYTES as u64 {
            true => self.reserve(size.saturating_mul(2)),
            false => Ok(()),
        }
    }

    /// Releases bytes that the request no longer holds.
    pub fn release(&self, bytes: u64) {
        let mut reservation = self.reservation();
        let rest = reservation.amount().saturating_sub(bytes);
        reservation.shrink_to(rest);
    }

    /// Changes the reservation to `bytes`.
    ///
    /// # Errors
    /// Returns [`Error::Overloaded`] if it grows and too little memory is left.
    pub fn resize(&self, bytes: u64) -> Result<()> {
        let mut reservation = self.reservation();
        reservation.shrink_to(bytes);
        let missing = bytes.saturating_sub(reservation.amount());
        reservation.grow(missing)
    }

    fn reservation(&self) -> MutexGuard<'_, Reservation> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ResultMemory for RequestMemory {
    fn reserve(&self, bytes: u64) -> bool {
        self.reservation().grow(bytes).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(user_id: Option<i64>, address: &str) -> Holder {
        Holder {
            user_id,
            address: Some(address.into()),
        }
    }

    #[test]
    fn user_and_address_hold_at_most_their_shares() {
        let budget = Budget::new(Limits::of_memory(800));
        let mut of_user = budget.reservation(holder(Some(1), "192.0.2.1"));
        assert!(of_user.grow(600).is_ok());
        assert!(matches!(of_user.grow(1), Err(Error::Overloaded)));
        assert_eq!((of_user.amount(), budget.used()), (600, 600));
        // Another address of the same user has the same share.
        let mut elsewhere = budget.reservation(holder(Some(1), "192.0.2.2"));
        assert!(elsewhere.grow(1).is_err());
        // Another user at the same address gets the rest of the address.
        let mut neighbor = budget.reservation(holder(Some(2), "192.0.2.1"));
        assert!(neighbor.grow(101).is_err() && neighbor.grow(100).is_ok());
        // Strangers get what is left of the total.
        let mut stranger = budget.reservation(holder(None, "192.0.2.3"));
        assert!(stranger.grow(101).is_err() && stranger.grow(100).is_ok());
        assert!(budget.reservation(Holder::default()).grow(1).is_err());
        assert_eq!((budget.limits(), budget.refused()), ([800, 700, 600], [2, 1, 2]));
    }

    #[test]
    fn one_reservation_is_limited_only_by_the_shares_of_its_holder() {
        let budget = Budget::new(Limits::of_memory(800));
        let mut anonymous = budget.reservation(holder(None, "192.0.2.1"));
        assert!(anonymous.grow(701).is_err() && anonymous.grow(700).is_ok());
        drop(anonymous);
        let mut unknown = budget.reservation(Holder::default());
        assert!(unknown.grow(801).is_err() && unknown.grow(800).is_ok());
        assert_eq!(budget.refused(), [1, 1, 0]);
    }

    #[test]
    fn dropped_and_shrunk_reservations_are_available_again() {
        let budget = Budget::new(Limits::of_memory(800));
        let mut first = budget.reservation(holder(Some(1), "192.0.2.1"));
        first.grow(600).expect("a reservation");
        first.shrink_to(700);
        assert_eq!(first.amount(), 600);
        first.shrink_to(100);
        assert_eq!((first.amount(), budget.used()), (100, 100));
        drop(first);
        assert_eq!(budget.used(), 0);
        let usage = budget.usage();
        assert!(usage.by_address.is_empty() && usage.by_user.is_empty());
    }

    #[test]
    fn failed_reservation_changes_nothing_and_sums_do_not_overflow() {
        let budget = Budget::new(Limits::of_memory(800));
        let mut reservation = budget.reservation(Holder::default());
        reservation.grow(1).expect("a reservation");
        assert!(reservation.grow(u64::MAX).is_err());
        assert_eq!((reservation.amount(), budget.used()), (1, 1));
    }
}
