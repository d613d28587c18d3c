//! Access rules of operations in words: roles, callers, scopes and plans.

use super::block::{Line, OperationLink, code, link, text};
use super::site::{BASE, Operation, items};
use crate::defaults::IF_NONE_MATCH;

/// Roles in ascending order, as in `x-access`, with their names.
const ROLES: [(&str, &str); 7] = [
    ("none", "Signed in"),
    ("guest", "Guest"),
    ("reporter", "Reporter"),
    ("developer", "Developer"),
    ("maintainer", "Maintainer"),
    ("owner", "Owner"),
    ("admin", "Administrator"),
];
/// Value of a caller who can call an operation.
pub(super) const YES: &str = "yes";
/// Value of a caller who can call an operation on public resources.
pub(super) const PUBLIC: &str = "public";
/// Value of a caller who cannot call an operation.
pub(super) const NO: &str = "no";

/// Returns the lowest role that can call an operation.
fn lowest_role(operation: &Operation<'_>) -> &'static str {
    match (operation.access("on"), operation.access("min")) {
        ("scim", _) => "SCIM token",
        ("user", "owner") => "The user",
        (_, "none") if operation.has_access("anonymous") => "Anonymous",
        (_, min) => ROLES
            .iter()
            .find(|(role, _)| *role == min)
            .map_or("Administrator", |(_, name)| name),
    }
}

/// Returns a link to an operation.
pub(super) fn link_to(operation: &Operation<'_>) -> OperationLink {
    OperationLink {
        method: operation.method.to_uppercase(),
        path: operation.path.to_owned(),
        id: operation.id.to_owned(),
        summary: operation.summary.to_owned(),
        role: lowest_role(operation).to_owned(),
        deprecated: operation.is_deprecated(),
    }
}

/// Returns the position of a role in ascending order.
pub(super) fn rank(role: &str) -> Option<usize> {
    ROLES.iter().position(|(known, _)| *known == role)
}

/// Returns each kind of caller, and whether this caller can call the operation.
pub(super) fn callers(operation: &Operation<'_>) -> Vec<(&'static str, &'static str)> {
    let (on, min) = (operation.access("on"), operation.access("min"));
    let anonymous = operation.has_access("anonymous");
    let in_space = matches!(on, "project" | "group");
    let open = match (anonymous, in_space && min != "none") {
        (false, _) => NO,
        (true, true) => PUBLIC,
        (true, false) if in_space => PUBLIC,
        (true, false) => YES,
    };
    let mut callers = vec![("Anonymous", open)];
    for (role, name) in ROLES {
        let is_role_of_space = !matches!(role, "none" | "admin");
        let applies = in_space || !is_role_of_space || (on == "user" && role == "owner");
        if !applies {
            continue;
        }
        let value = match rank(role) >= rank(min) {
            true => YES,
            false => open,
        };
        let name = if on == "user" && role == "owner" {
            "The user"
        } else {
            name
        };
        callers.push((name, value));
    }
    if on == "scim" {
        callers = vec![("Anonymous", NO), ("SCIM token of the group", YES)];
    }
    callers
}

/// Returns the facts about an operation: access, scopes, plan, feature gate, pages and limits.
pub(super) fn facts(operation: &Operation<'_>) -> Vec<(&'static str, Line)> {
    let mut facts = match operation.ignores_credentials() {
        true => vec![("Credentials", vec![text("None, except those in the parameters")])],
        false => vec![
            ("Lowest role", role(operation)),
            ("Without a token", without_token(operation)),
            ("Token scopes", scopes(operation)),
        ],
    };
    if let Some(tier) = operation.value["x-tier"].as_str().filter(|tier| *tier != "free") {
        facts.push(("Plan", vec![text(plan(tier))]));
    }
    if let Some(name) = operation.value["x-flag"]["name"].as_str() {
        let state = match operation.value["x-flag"]["default"] == true {
            true => " (open by default)",
            false => " (closed by default)",
        };
        facts.push(("Feature gate", vec![code(name), text(state)]));
    }
    if let Some(page) = operation.value["x-page"].as_str() {
        let kinds = if page == "keyset" {
            "Offset or keyset"
        } else {
            "Offset"
        };
        facts.push(("Pagination", vec![link(kinds, format!("{BASE}/guide/paging"))]));
    }
    if operation.value["x-job-token"] == true {
        facts.push(("CI/CD job token", vec![text("Accepted")]));
    }
    let client = &operation.value["x-package-client"];
    let accepted = match (client == true, client == "cargo") {
        (true, _) => Some("Deploy tokens, and tokens with HTTP Basic authentication"),
        (_, true) => Some(
            "Deploy tokens, tokens with HTTP Basic authentication, and a token as the value of Authorization",
        ),
        _ => None,
    };
    if let Some(accepted) = accepted {
        facts.push(("Package managers", vec![text(accepted)]));
    }
    let writes = !matches!(operation.method, "get" | "head");
    if operation.access("on") == "project" && writes {
        let answer = match operation.has_access("archived") {
            true => "Allowed",
            false => "Returns 403",
        };
        facts.push(("Archived project", vec![text(answer)]));
    }
    if operation.value.get("requestBody").is_some() {
        let limit = operation.value["x-body-limit"].as_u64().unwrap_or(1 << 20);
        facts.push(("Maximum body", vec![text(size(limit))]));
    }
    if operation
        .parameters
        .iter()
        .any(|parameter| parameter["name"] == IF_NONE_MATCH)
    {
        facts.push((
            "Revalidation",
            vec![link(IF_NONE_MATCH, format!("{BASE}/guide/revalidation"))],
        ));
    }
    if operation.has_access("first") {
        facts.push(("Order of checks", vec![text("Permission before parameters")]));
    }
    facts
}

fn role(operation: &Operation<'_>) -> Line {
    let target = format!("{BASE}/guide/roles");
    let space = match operation.access("on") {
        "project" => " in the project",
        "group" => " in the group",
        "scim" => " of the group",
        "user" => "",
        _ => " on the instance",
    };
    match (operation.access("on"), operation.access("min")) {
        ("scim", _) => vec![
            link("SCIM token", format!("{BASE}/guide/authentication")),
            text(space),
        ],
        ("user", "owner") => vec![link("The user", target), text(", or an administrator")],
        ("user", "none") => vec![link("Any signed-in user", target), text(" who can see the user")],
        ("instance", "none") => vec![link("Any signed-in user", target)],
        (on, "none") => vec![
            link("Any signed-in user", target),
            text(format!(" who can see the {on}")),
        ],
        (_, "admin") => vec![link("Administrator", target), text(" of the instance")],
        _ => vec![link(lowest_role(operation), target), text(space)],
    }
}

fn without_token(operation: &Operation<'_>) -> Line {
    let answer = match (operation.has_access("anonymous"), operation.access("on")) {
        (false, _) => "Returns 401",
        (true, "project") => "On public projects",
        (true, "group") => "On public groups",
        (true, _) => "Allowed",
    };
    vec![text(answer)]
}

fn scopes(operation: &Operation<'_>) -> Line {
    if operation.access("on") == "scim" {
        return vec![text("None: SCIM tokens have no scopes")];
    }
    let mut names: Vec<&str> = items(&operation.value["x-scope"])
        .filter_map(|scope| scope.as_str())
        .collect();
    if names.is_empty() {
        names = match operation.method {
            "get" | "head" => vec!["api", "read_api"],
            _ => vec!["api"],
        };
    }
    let mut line = Vec::new();
    for name in names {
        if !line.is_empty() {
            line.push(text(" or "));
        }
        line.push(code(name));
    }
    line
}

fn plan(tier: &str) -> String {
    let mut chars = tier.chars();
    let first = chars.next().map(|first| first.to_ascii_uppercase());
    let name: String = first.into_iter().chain(chars).collect();
    match tier {
        "ultimate" => name,
        _ => format!("{name} and above"),
    }
}

/// Returns a size in words.
fn size(bytes: u64) -> String {
    const GIB: u64 = 1 << 30;
    match bytes {
        GIB.. => format!("{} GiB", bytes / GIB),
        _ => format!("{} MiB", bytes >> 20),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn operation(value: &Value) -> Operation<'_> {
        Operation {
            id: "get_key",
            method: "get",
            path: "/keys",
            tag: "Keys",
            summary: "Get a key",
            value,
            parameters: Vec::new(),
        }
    }

    #[test]
    fn public_reads_are_open_to_all_callers_on_public_resources() {
        let value = json!({ "x-access": { "on": "project", "min": "reporter", "anonymous": true } });
        let callers = callers(&operation(&value));
        let expected = [PUBLIC, PUBLIC, PUBLIC, YES, YES, YES, YES, YES];
        assert_eq!(
            callers.iter().map(|(_, value)| *value).collect::<Vec<_>>(),
            expected
        );
        assert_eq!(lowest_role(&operation(&value)), "Reporter");
    }

    #[test]
    fn operations_outside_projects_and_groups_have_no_roles_of_members() {
        let value = json!({ "x-access": { "on": "instance", "min": "admin" } });
        let expected = [("Anonymous", NO), ("Signed in", NO), ("Administrator", YES)];
        assert_eq!(callers(&operation(&value)), expected);
        let value = json!({ "x-access": { "on": "user", "min": "owner" } });
        let expected = [
            ("Anonymous", NO),
            ("Signed in", NO),
            ("The user", YES),
            ("Administrator", YES),
        ];
        assert_eq!(callers(&operation(&value)), expected);
    }

    #[test]
    fn facts_of_operation_that_ignores_credentials_name_no_roles_and_scopes() {
        let value = json!({
            "x-access": { "on": "instance", "min": "none", "anonymous": true }, "security": [{}],
        });
        let facts = facts(&operation(&value));
        let expected = ("Credentials", vec![text("None, except those in the parameters")]);
        assert_eq!(facts, [expected]);
    }

    #[test]
    fn facts_name_default_scopes_and_limits() {
        let value =
            json!({ "x-access": { "on": "group", "min": "owner" }, "requestBody": {}, "x-tier": "premium" });
        let facts = facts(&operation(&value));
        assert!(facts.contains(&("Token scopes", vec![code("api"), text(" or "), code("read_api")])));
        assert!(facts.contains(&("Maximum body", vec![text("1 MiB")])));
        assert!(facts.contains(&("Plan", vec![text("Premium and above")])));
    }
}
