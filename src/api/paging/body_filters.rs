//! Filters in the body of a GET, which pagination links repeat in their query.

use contract::operation::{Operation, Paging, ParameterLocation};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};

use super::{MAX_REPEATED_BYTES, SECRET};

/// Parameters of every list, which the contract does not repeat for each operation.
const PAGING_PARAMETERS: [&str; 3] = ["page", "per_page", "pagination"];

/// Parameters in the body of a GET, encoded for a query.
#[derive(Debug, Default)]
pub struct BodyFilters {
    filters: Vec<BodyFilter>,
}

/// A parameter in a body, which overrides the parameter of the query.
#[derive(Debug)]
struct BodyFilter {
    name: &'static str,
    /// The encoded pairs; `None` if they are too long for a link or cannot be encoded.
    pairs: Option<Vec<String>>,
}

impl BodyFilters {
    /// Returns the parameters of a list in the body of a request. Other attributes have no effect.
    #[must_use]
    pub fn new(operation: &Operation, body: &Map<String, Value>) -> Self {
        if operation.paging == Paging::None || operation.method != "GET" {
            return Self::default();
        }
        let parameters = operation.parameters.iter();
        let of_query = parameters.filter(|parameter| parameter.location == ParameterLocation::Query);
        let names = of_query.map(|parameter| parameter.name).chain(PAGING_PARAMETERS);
        let sent = names.filter_map(|name| Some((name, body.get(name)?)));
        let filters = sent
            .filter(|(name, _)| !SECRET.contains(name))
            .map(|(name, value)| {
                let mut pairs = EncodedPairs::default();
                let complete = pairs.add(name, value);
                BodyFilter {
                    name,
                    pairs: complete.map(|()| pairs.pairs),
                }
            });
        Self {
            filters: filters.collect(),
        }
    }

    /// Returns whether the body contains no parameter.
    pub(super) fn is_empty(&self) -> bool {
        self.filters.is_empty()
    }

    /// Returns whether the body contains a parameter.
    pub(super) fn contains(&self, name: &str) -> bool {
        self.filters.iter().any(|filter| filter.name == name)
    }

    /// Returns the pairs of the parameters except some; `None` if a link cannot contain them.
    pub(super) fn pairs(&self, without: &[&str]) -> Option<Vec<String>> {
        let repeated = self
            .filters
            .iter()
            .filter(|filter| !without.contains(&filter.name));
        let pairs: Option<Vec<&[String]>> = repeated.map(|filter| filter.pairs.as_deref()).collect();
        pairs.map(|pairs| pairs.concat())
    }
}

/// The pairs of a parameter, with their size.
#[derive(Default)]
struct EncodedPairs {
    pairs: Vec<String>,
    bytes: usize,
}

impl EncodedPairs {
    /// Adds the pairs of a value with an encoded name. Returns `None` if they are too long, or if a name contains a
    /// bracket.
    fn add(&mut self, name: &str, value: &Value) -> Option<()> {
        self.check_room(name)?;
        let text = match value {
            Value::Null => return Some(()),
            Value::Array(items) => {
                // Hashes in a list are distinguished by their number.
                let has_hashes = items.iter().any(|item| item.is_array() || item.is_object());
                for (index, item) in items.iter().enumerate() {
                    let key = if has_hashes {
                        index.to_string()
                    } else {
                        String::new()
                    };
                    self.add(&format!("{name}%5B{key}%5D"), item)?;
                }
                return Some(());
            }
            Value::Object(entries) => {
                for (key, item) in entries {
                    self.check_room(key)?;
                    if key.is_empty() || key.contains(['[', ']']) {
                        return None;
                    }
                    self.add(&format!("{name}%5B{}%5D", encoded(key)), item)?;
                }
                return Some(());
            }
            Value::String(text) => {
                self.check_room(text)?;
                encoded(text)
            }
            Value::Bool(_) | Value::Number(_) => encoded(&value.to_string()),
        };
        let pair = format!("{name}={text}");
        self.check_room(&pair)?;
        self.bytes += pair.len() + 1;
        self.pairs.push(pair);
        Some(())
    }

    /// Returns `None` if a link cannot contain the text in addition.
    fn check_room(&self, text: &str) -> Option<()> {
        (self.bytes + text.len() < MAX_REPEATED_BYTES).then_some(())
    }
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

#[cfg(test)]
mod tests {
    use contract::table::operations;
    use serde_json::json;

    use super::*;

    fn filters(operation: &str, body: &Value) -> BodyFilters {
        let mut operations = operations().iter();
        let operation = operations
            .find(|known| known.id == operation)
            .expect("an operation");
        BodyFilters::new(operation, body.as_object().expect("an object"))
    }

    #[test]
    fn parameters_of_the_operation_are_encoded() {
        let body = json!({
            "search": "a b&c", "per_page": 5, "owned": true, "visibility": null, "sudo": "root", "strict": "true",
            "private_token": "secret", "nonsense": 1,
        });
        let filters = filters("list_projects", &body);
        let mut pairs = filters.pairs(&["page"]).expect("pairs");
        pairs.sort_unstable();
        assert_eq!(pairs, ["owned=true", "per_page=5", "search=a%20b%26c"]);
        assert!(filters.contains("visibility") && !filters.contains("sudo"));
    }

    #[test]
    fn nested_values_are_decoded_as_they_were_sent() {
        let body = json!({"not": {"labels": ["a,b", "ä"]}, "iids": [1, 2]});
        let pairs = filters("list_project_issues", &body).pairs(&[]).expect("pairs");
        let decoded = parsers::form::parse(pairs.join("&").as_bytes()).expect("parameters");
        assert_eq!(
            Value::Object(decoded),
            json!({"not": {"labels": ["a,b", "ä"]}, "iids": ["1", "2"]})
        );
    }

    #[test]
    fn values_that_no_link_can_contain_are_not_encoded() {
        for body in [
            json!({"search": "x".repeat(MAX_REPEATED_BYTES)}),
            json!({"search": "&".repeat(MAX_REPEATED_BYTES / 2)}),
            json!({"custom_attributes": {"a[b]": "x"}}),
            json!({"custom_attributes": {"": "x"}}),
            json!({"topic": vec!["topic"; MAX_REPEATED_BYTES / 10]}),
        ] {
            assert_eq!(filters("list_projects", &body).pairs(&[]), None);
        }
    }

    #[test]
    fn bodies_of_other_operations_have_no_filters() {
        assert!(filters("get_project", &json!({"statistics": true})).is_empty());
        assert!(filters("list_projects", &json!({})).is_empty());
    }
}
