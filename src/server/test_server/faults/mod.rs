//! Faults that a test server injects into responses.

mod endpoint;
mod rule;

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

pub(super) use endpoint::FaultMiddleware;
pub use rule::{FaultRule, InvalidRule};
use rule::{Injection, Outcome, RequestPath};

/// Maximum number of rules.
const MAX_RULES: usize = 100;

/// The rules of a test server. The first one that applies to a request is used.
#[derive(Debug)]
pub struct Faults {
    /// The rules that a reset restores.
    start: Vec<FaultRule>,
    active: Mutex<ActiveRules>,
}

#[derive(Debug)]
struct ActiveRules {
    rules: Vec<ActiveRule>,
    next_id: u64,
}

#[derive(Debug)]
struct ActiveRule {
    id: u64,
    rule: FaultRule,
    injected: u64,
}

impl ActiveRule {
    /// Returns how many times the rule still applies; `None` without a limit.
    fn remaining(&self) -> Option<u64> {
        let count = self.rule.count().map(u64::from);
        count.map(|count| count.saturating_sub(self.injected))
    }

    fn description(&self) -> FaultDescription {
        FaultDescription {
            id: self.id,
            rule: self.rule.to_string(),
            injected: self.injected,
            remaining: self.remaining(),
        }
    }
}

/// A rule, as control requests return it.
#[derive(Debug, Serialize)]
pub struct FaultDescription {
    id: u64,
    rule: String,
    injected: u64,
    remaining: Option<u64>,
}

/// Reason why a rule cannot be added.
#[derive(Debug, thiserror::Error)]
#[error("there are {MAX_RULES} rules; remove some before you add another one")]
pub struct TooManyRules;

impl Faults {
    /// Starts with some rules.
    #[must_use]
    pub fn new(start: Vec<FaultRule>) -> Self {
        let faults = Self {
            start,
            active: Mutex::new(ActiveRules {
                rules: Vec::new(),
                next_id: 1,
            }),
        };
        faults.reset();
        faults
    }

    fn active(&self) -> MutexGuard<'_, ActiveRules> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Restores the rules of the start. Their IDs are the same as at the start.
    pub fn reset(&self) {
        let mut active = self.active();
        let numbered = (1..).zip(&self.start);
        active.rules = numbered
            .map(|(id, rule)| ActiveRule {
                id,
                rule: rule.clone(),
                injected: 0,
            })
            .collect();
        active.next_id = active.rules.len() as u64 + 1;
    }

    /// Returns all rules in their order.
    #[must_use]
    pub fn list(&self) -> Vec<FaultDescription> {
        self.active().rules.iter().map(ActiveRule::description).collect()
    }

    /// Adds a rule after the others.
    ///
    /// # Errors
    /// [`TooManyRules`].
    pub fn add(&self, rule: FaultRule) -> Result<FaultDescription, TooManyRules> {
        let mut active = self.active();
        if active.rules.len() >= MAX_RULES {
            return Err(TooManyRules);
        }
        let added = ActiveRule {
            id: active.next_id,
            rule,
            injected: 0,
        };
        let description = added.description();
        active.next_id += 1;
        active.rules.push(added);
        Ok(description)
    }

    /// Removes all rules.
    pub fn clear(&self) {
        self.active().rules.clear();
    }

    /// Removes a rule. Returns whether there was one with this ID.
    pub fn remove(&self, id: u64) -> bool {
        let mut active = self.active();
        let before = active.rules.len();
        active.rules.retain(|rule| rule.id != id);
        active.rules.len() < before
    }

    /// Returns the fault of a request, and counts it.
    fn inject(&self, method: &str, path: &str) -> Option<Injection> {
        let mut active = self.active();
        if active.rules.is_empty() {
            return None;
        }
        let path = RequestPath::parse(path);
        let applies =
            |rule: &&mut ActiveRule| rule.remaining() != Some(0) && rule.rule.matches(method, &path);
        let rule = active.rules.iter_mut().find(applies)?;
        rule.injected += 1;
        Some(rule.rule.injection())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(rules: &[&str]) -> Faults {
        Faults::new(rules.iter().map(|rule| rule.parse().expect("a rule")).collect())
    }

    #[test]
    fn rules_apply_as_often_as_counted_and_again_after_reset() {
        let faults = faults(&["GET /projects 503 x2", "GET /projects 500 x1"]);
        let statuses = || -> Vec<Option<u16>> {
            let injected = (0..4).map(|_| faults.inject("GET", "/api/v4/projects"));
            injected
                .map(|fault| fault.and_then(|fault| fault.status()))
                .collect()
        };
        assert_eq!(statuses(), [Some(503), Some(503), Some(500), None]);
        faults.reset();
        assert_eq!(statuses(), [Some(503), Some(503), Some(500), None]);
        assert!(faults.inject("POST", "/api/v4/projects").is_none());
    }

    #[test]
    fn rules_are_added_listed_and_removed() {
        let faults = faults(&["GET /a close"]);
        let added = faults
            .add("* /b delay 5ms".parse().expect("a rule"))
            .expect("room");
        assert_eq!((added.id, added.rule.as_str()), (2, "* /b delay 5ms"));
        assert_eq!(faults.list().len(), 2);
        assert!(faults.remove(1) && !faults.remove(1));
        assert!(faults.inject("GET", "/a").is_none());
        for _ in faults.list().len()..MAX_RULES {
            faults.add("GET /c 500".parse().expect("a rule")).expect("room");
        }
        assert!(faults.add("GET /c 500".parse().expect("a rule")).is_err());
        faults.clear();
        assert!(faults.list().is_empty());
    }
}
