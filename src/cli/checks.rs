//! Output of checks.

use domain::operations::check::Check;
use serde_json::json;

use super::context::print;

/// Prints checks as a table with the problems below it, or as JSON, and returns the number of problems.
pub(super) fn print_checks(checks: &[Check], warnings: &[String], as_json: bool) -> usize {
    let problems = checks.iter().map(|check| check.problems.len()).sum();
    if as_json {
        let document = json!({ "problems": problems, "checks": checks, "warnings": warnings });
        print(&format!("{document:#}\n"));
        return problems;
    }
    let width = checks.iter().map(|check| check.subject.len()).max().unwrap_or(0);
    print(&format!(
        "{:width$}  {:>9}  {:>8}\n",
        "Checked", "Number", "Problems"
    ));
    for check in checks {
        let (checked, problems) = (check.checked, check.problems.len());
        print(&format!(
            "{:width$}  {checked:>9}  {problems:>8}\n",
            check.subject
        ));
    }
    for problem in checks.iter().flat_map(|check| &check.problems) {
        print(&format!("{problem}\n"));
    }
    for warning in warnings {
        print(&format!("warning: {warning}\n"));
    }
    problems
}
