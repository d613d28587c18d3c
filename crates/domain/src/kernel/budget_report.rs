//! Limits and use of every budget of this node, for metrics.

use git::SemaphoreUsage;
use parsers::json::MAX_VALUES;
use storage::database;

use crate::kernel::Backend;
use crate::kernel::budgets::ClientUsage;

/// Requests that a limit of a budget applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BudgetScope {
    /// All requests of this process together.
    Process,
    /// The requests of one address.
    Address,
    /// The requests of one user.
    User,
    /// The requests of one client: a user, or an anonymous address.
    Client,
    /// One request.
    Request,
}

impl BudgetScope {
    /// Returns the name in metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Address => "address",
            Self::User => "user",
            Self::Client => "client",
            Self::Request => "request",
        }
    }
}

/// A limit of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetLimit {
    /// Requests that it applies to.
    pub scope: BudgetScope,
    /// The limit; 0 is unlimited.
    pub limit: u64,
    /// Number of refused requests; `None` if they are counted elsewhere.
    pub refused: Option<u64>,
}

/// A budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetReport {
    /// The name in metrics.
    pub name: &'static str,
    /// The amount that all requests use now; `None` for a budget of single requests or of time.
    pub used: Option<u64>,
    /// Its limits.
    pub limits: Vec<BudgetLimit>,
}

/// Returns all budgets.
#[must_use]
pub fn report(backend: &Backend) -> Vec<BudgetReport> {
    use BudgetScope::{Address, Client, Process, Request, User};
    let budgets = &backend.budgets;
    let limit = |scope, limit, refused| BudgetLimit {
        scope,
        limit,
        refused: Some(refused),
    };
    let memory = [Process, Address, User].into_iter();
    let memory = memory.zip(budgets.memory.limits()).zip(budgets.memory.refused());
    let (per_user, per_address) = budgets.requests.limits();
    let (refused_users, refused_addresses) = budgets.requests.refused();
    let of_clients = |name, usage: &ClientUsage| {
        let (users, addresses) = usage.refused();
        let limits = vec![
            limit(Address, usage.limit(), addresses),
            limit(User, usage.limit(), users),
        ];
        BudgetReport {
            name,
            used: None,
            limits,
        }
    };
    let (refused_shares, refused_times) = database::refusals();
    let (parsers, used_parsers) = budgets.parser_slots();
    let slots = backend.repositories.slot_usage();
    vec![
        BudgetReport {
            name: "body_memory_bytes",
            used: Some(budgets.memory.used()),
            limits: memory
                .map(|((scope, size), refused)| limit(scope, size, refused))
                .collect(),
        },
        BudgetReport {
            name: "json_values",
            used: None,
            limits: vec![BudgetLimit {
                scope: Request,
                limit: MAX_VALUES,
                refused: None,
            }],
        },
        BudgetReport {
            name: "json_parsers",
            used: Some(used_parsers as u64),
            limits: vec![limit(Process, parsers as u64, 0)],
        },
        BudgetReport {
            name: "requests_per_minute",
            used: None,
            limits: vec![
                limit(Address, per_address.into(), refused_addresses),
                limit(User, per_user.into(), refused_users),
            ],
        },
        BudgetReport {
            name: "database_connections",
            used: Some(budgets.database.used() as u64),
            limits: vec![
                limit(Process, budgets.database_connections.into(), 0),
                limit(Client, budgets.database.share() as u64, refused_shares),
            ],
        },
        BudgetReport {
            name: "database_seconds",
            used: None,
            limits: vec![limit(
                Request,
                budgets.database_time.map_or(0, |time| time.as_secs()),
                refused_times,
            )],
        },
        of_clients("received_bytes", &budgets.received_bytes),
        of_clients("git_processor_seconds", &budgets.git_time),
        of_slots("git_operations", slots.work),
        of_slots("git_transfers", slots.transfers),
        of_slots("git_pushes", slots.pushes),
        of_slots("git_request_bytes", slots.request_bytes),
        of_slots("git_push_bytes", slots.push_bytes),
        of_slots("git_responses", slots.responses),
        of_slots("git_response_bytes", slots.response_bytes),
        of_slots("git_memory_bytes", backend.repositories.memory_usage()),
        of_slots("registry_uploads", backend.upload_slots.usage()),
        of_slots("webhook_payloads", backend.payload_slots.usage()),
    ]
}

fn of_slots(name: &'static str, usage: SemaphoreUsage) -> BudgetReport {
    let limit = |scope, count: usize, refused| BudgetLimit {
        scope,
        limit: count as u64,
        refused: Some(refused),
    };
    BudgetReport {
        name,
        used: Some(usage.used as u64),
        limits: vec![
            limit(BudgetScope::Process, usage.total, usage.refused),
            limit(BudgetScope::Client, usage.share, usage.refused_holders),
        ],
    }
}
