//! Statistics of the instance, of projects and of issues.

use contract::{
    ApplicationStatistics, DailyFetches, FetchStatistics, IssueCounts, IssueCountsByState, IssueStatistics,
    ProjectFetches,
};
use domain::code::fetch_statistics;
use domain::instance::statistics::InstanceStatistics;
use domain::planning::issues::StateCounts;

/// Returns the numbers of resources of the instance.
#[must_use]
pub fn application(counts: InstanceStatistics) -> ApplicationStatistics {
    ApplicationStatistics {
        forks: counts.forks.to_string(),
        issues: counts.issues.to_string(),
        merge_requests: counts.merge_requests.to_string(),
        notes: counts.notes.to_string(),
        snippets: counts.snippets.to_string(),
        ssh_keys: counts.ssh_keys.to_string(),
        milestones: counts.milestones.to_string(),
        users: counts.users.to_string(),
        groups: counts.groups.to_string(),
        projects: counts.projects.to_string(),
        active_users: counts.active_users.to_string(),
    }
}

/// Returns the numbers of fetches of a project.
#[must_use]
pub fn project(found: fetch_statistics::FetchStatistics) -> ProjectFetches {
    let days = found.days.into_iter();
    ProjectFetches {
        fetches: FetchStatistics {
            total: found.total,
            days: days.map(|(date, count)| DailyFetches { count, date }).collect(),
        },
    }
}

/// Returns the numbers of issues by state.
#[must_use]
pub fn issues(counts: StateCounts) -> IssueStatistics {
    IssueStatistics {
        statistics: IssueCounts {
            counts: IssueCountsByState {
                all: counts.opened + counts.closed,
                opened: counts.opened,
                closed: counts.closed,
            },
        },
    }
}
