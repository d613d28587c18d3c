//! Parser of the text format of Prometheus.

use std::collections::{BTreeMap, BTreeSet};

/// A metric in a text.
#[derive(Debug, Default)]
pub struct Family {
    pub help: String,
    pub metric_type: String,
    pub samples: Vec<Sample>,
}

/// A value.
#[derive(Debug)]
pub struct Sample {
    /// Name of the metric, and for histograms `_bucket`, `_sum` or `_count`.
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub value: f64,
}

impl Family {
    /// Returns the names of the labels, without `le` of buckets.
    pub fn label_names(&self) -> BTreeSet<&str> {
        let names = self.samples.iter().flat_map(|sample| sample.labels.keys());
        names.map(String::as_str).filter(|name| *name != "le").collect()
    }
}

/// The metrics of a server.
#[derive(Debug)]
pub struct Exposition(pub BTreeMap<String, Family>);

impl Exposition {
    /// Parses a text in which each metric has a help text and a type, once, before its values.
    pub fn parse(text: &str) -> Self {
        let mut families: BTreeMap<String, Family> = BTreeMap::new();
        let mut current = String::new();
        for line in text.lines().filter(|line| !line.is_empty()) {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').expect("a help text");
                let family = Family { help: help.to_owned(), ..Family::default() };
                assert!(families.insert(name.to_owned(), family).is_none(), "{name} appears twice");
                name.clone_into(&mut current);
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, metric_type) = rest.split_once(' ').expect("a type");
                assert_eq!(name, current, "a type without a help text");
                metric_type.clone_into(&mut families.get_mut(name).expect("a metric").metric_type);
            } else {
                let sample = Sample::parse(line);
                let suffix = sample.name.strip_prefix(&current).unwrap_or_else(|| panic!("{line} after {current}"));
                let family = families.get_mut(&current).expect("a metric");
                let suffixes: &[&str] =
                    if family.metric_type == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
                assert!(suffixes.contains(&suffix), "{line} after {current}");
                family.samples.push(sample);
            }
        }
        Self(families)
    }

    /// Returns the sum of the values with a name and at least these labels; `None` if there is no such value.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let base = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
        let family = self.0.get(name).or_else(|| self.0.get(base?))?;
        let matches = |sample: &&Sample| {
            let has = |(label, value): &(&str, &str)| sample.labels.get(*label).is_some_and(|found| found == value);
            sample.name == name && labels.iter().all(has)
        };
        family.samples.iter().filter(matches).map(|sample| sample.value).reduce(|sum, value| sum + value)
    }
}

impl Sample {
    fn parse(line: &str) -> Self {
        let (start, value) = line.rsplit_once(' ').expect("a value");
        let (name, labels) = match start.split_once('{') {
            Some((name, rest)) => (name, rest.strip_suffix('}').expect("a brace")),
            None => (start, ""),
        };
        let pairs = labels.split("\",").filter(|pair| !pair.is_empty());
        let labels = pairs.map(|pair| {
            let (label, value) = pair.split_once("=\"").expect("a label");
            (label.to_owned(), value.trim_end_matches('"').to_owned())
        });
        Self { name: name.to_owned(), labels: labels.collect(), value: value.parse().expect("a number") }
    }
}
