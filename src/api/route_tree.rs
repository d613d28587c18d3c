//! Finds the values of the path template that matches a path.
//!
//! The router of `poem` compiles a regular expression for each of its routes, which would take most of the time in which a
//! server starts. Other routers do not match empty names, as in `/projects//issues`.

use std::collections::HashMap;

/// Values by the segments of their path templates.
pub struct RouteTree<T> {
    literals: HashMap<&'static str, RouteTree<T>>,
    /// By the text before the parameter.
    prefixes: Vec<(&'static str, RouteTree<T>)>,
    parameter: Option<Box<RouteTree<T>>>,
    /// Values of the template that ends here.
    values: Vec<T>,
    /// Values of the template whose last parameter, the rest of the path, starts here.
    rest: Vec<T>,
}

impl<T> Default for RouteTree<T> {
    fn default() -> Self {
        Self {
            literals: HashMap::new(),
            prefixes: Vec::new(),
            parameter: None,
            values: Vec::new(),
            rest: Vec::new(),
        }
    }
}

impl<T> RouteTree<T> {
    /// Adds a value to a template such as `/projects/{id}/archive.{format}`. If `has_rest` is true, the last parameter is the
    /// rest of the path.
    pub fn insert(&mut self, template: &'static str, has_rest: bool, value: T) {
        let mut node = self;
        let mut segments = segments(template).peekable();
        while let Some(segment) = segments.next() {
            if has_rest && segments.peek().is_none() {
                node.rest.push(value);
                return;
            }
            node = match segment.split_once('{') {
                None => node.literals.entry(segment).or_default(),
                Some(("", _)) => node.parameter.get_or_insert_default(),
                Some((prefix, _)) => node.prefixed(prefix),
            };
        }
        node.values.push(value);
    }

    fn prefixed(&mut self, prefix: &'static str) -> &mut Self {
        let position = self.prefixes.iter().position(|(known, _)| *known == prefix);
        let position = position.unwrap_or_else(|| {
            self.prefixes.push((prefix, Self::default()));
            self.prefixes.len() - 1
        });
        &mut self.prefixes[position].1
    }

    /// Returns the values of the template that matches a path; none if there is no such template. A literal segment takes
    /// precedence over a parameter, and a parameter over the rest of the path.
    #[must_use]
    pub fn find(&self, path: &str) -> &[T] {
        let path = path.strip_prefix('/');
        path.and_then(|path| self.matching(path)).unwrap_or_default()
    }

    fn matching(&self, path: &str) -> Option<&[T]> {
        let (segment, rest) = match path.split_once('/') {
            Some((segment, rest)) => (segment, Some(rest)),
            None => (path, None),
        };
        // An empty name in the middle of a path is a value. At its end, it is not.
        let is_value = rest.is_some() || !segment.is_empty();
        let literal = || self.literals.get(segment)?.after_segment(rest);
        let prefixed = || {
            let mut matching = self.prefixes.iter().filter(|(prefix, _)| {
                segment
                    .strip_prefix(prefix)
                    .is_some_and(|value| !value.is_empty() || rest.is_some())
            });
            matching.find_map(|(_, node)| node.after_segment(rest))
        };
        let parameter = || {
            let node = self.parameter.as_ref().filter(|_| is_value)?;
            node.after_segment(rest)
        };
        let found = literal().or_else(prefixed).or_else(parameter);
        found.or_else(|| existing(&self.rest))
    }

    /// Returns the values for the path after the segment of this node.
    fn after_segment(&self, rest: Option<&str>) -> Option<&[T]> {
        match rest {
            Some(path) => self.matching(path),
            None => existing(&self.values),
        }
    }
}

fn existing<T>(values: &[T]) -> Option<&[T]> {
    (!values.is_empty()).then_some(values)
}

/// Returns the segments of a path that starts with a slash.
fn segments(path: &'static str) -> impl Iterator<Item = &'static str> {
    path.split('/').skip(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> RouteTree<&'static str> {
        let mut tree = RouteTree::default();
        for template in [
            "/projects",
            "/projects/{id}",
            "/projects/{id}/issues",
            "/projects/{id}/issues/{iid}",
            "/projects/{id}/issues/latest",
            "/projects/{id}/archive",
            "/projects/{id}/archive.{format}",
            "/projects/{name}/files/{file}/raw",
            "/projects/all/issues",
        ] {
            tree.insert(template, false, template);
        }
        tree.insert("/projects/{id}/npm/{package}", true, "rest");
        tree.insert("/projects/{id}/npm/-/ping", false, "ping");
        tree
    }

    #[test]
    fn path_matches_the_most_specific_template() {
        let tree = tree();
        for (path, expected) in [
            ("/projects", "/projects"),
            ("/projects/1", "/projects/{id}"),
            ("/projects/a%2Fb", "/projects/{id}"),
            ("/projects/all", "/projects/{id}"),
            ("/projects/all/issues", "/projects/all/issues"),
            // The literal `all` leads nowhere, so it is a value of the parameter.
            ("/projects/all/issues/3", "/projects/{id}/issues/{iid}"),
            ("/projects/1/issues/latest", "/projects/{id}/issues/latest"),
            ("/projects/1/archive", "/projects/{id}/archive"),
            ("/projects/1/archive.tar.gz", "/projects/{id}/archive.{format}"),
            ("/projects/1/files/a.txt/raw", "/projects/{name}/files/{file}/raw"),
            ("/projects/1/npm/web", "rest"),
            ("/projects/1/npm/@a/web/-/web-1.0.0.tgz", "rest"),
            ("/projects/1/npm/", "rest"),
            ("/projects/1/npm/-/ping", "ping"),
            ("/projects/1/npm/-/pong", "rest"),
        ] {
            assert_eq!(tree.find(path), [expected], "{path}");
        }
    }

    #[test]
    fn other_paths_match_nothing() {
        let tree = tree();
        for path in [
            "",
            "/",
            "*",
            "projects",
            "/projects/",
            "/projects/1/",
            "/projects//",
            "/projects/1/archive.",
            "/projects/1/archived",
            "/projects/1/npm",
            "/projects/1/files/a.txt",
            "/projects/1/issues/1/2",
            "/Projects",
            &"/".repeat(8000),
            &format!("/projects{}", "/a".repeat(4000)),
        ] {
            assert!(tree.find(path).is_empty(), "{path}");
        }
    }

    #[test]
    fn name_in_the_middle_of_a_path_can_be_empty() {
        let tree = tree();
        assert_eq!(tree.find("/projects//issues"), ["/projects/{id}/issues"]);
        assert_eq!(tree.find("/projects//npm//"), ["rest"]);
    }

    #[test]
    fn template_can_have_several_values() {
        let mut tree = tree();
        tree.insert("/projects/{id}", false, "second");
        assert_eq!(tree.find("/projects/1"), ["/projects/{id}", "second"]);
    }
}
