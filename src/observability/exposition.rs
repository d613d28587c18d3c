//! Text format of Prometheus, for values that are read when they are requested.

use std::fmt::Write;

use super::table::Metric;

/// Metrics in the text format.
#[derive(Default)]
pub(super) struct Exposition(String);

/// A value and the values of the labels of its metric, in their order.
pub(super) type Sample<'a> = (&'a [&'a str], f64);

impl Exposition {
    /// Adds a metric with all of its values. A metric without values does not appear.
    pub(super) fn add<'a>(&mut self, metric: &Metric, samples: impl IntoIterator<Item = Sample<'a>>) {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return;
        }
        let (name, text) = (metric.name, &mut self.0);
        // Writing to a text cannot fail.
        let _ = writeln!(text, "# HELP {name} {}", metric.help);
        let _ = writeln!(text, "# TYPE {name} {}", metric.metric_type.name());
        for (labels, value) in samples {
            debug_assert_eq!(labels.len(), metric.labels.len(), "{name}");
            text.push_str(name);
            for (position, (label, value)) in metric.labels.iter().zip(labels).enumerate() {
                text.push(if position == 0 { '{' } else { ',' });
                let _ = write!(text, "{label}=\"{}\"", escaped(value));
            }
            text.push_str(if metric.labels.is_empty() { " " } else { "} " });
            let _ = writeln!(text, "{value}");
        }
    }

    /// Adds a metric without labels, if its value is known.
    pub(super) fn value(&mut self, metric: &Metric, value: Option<f64>) {
        self.add(metric, value.map(|value| (&[][..], value)));
    }

    /// Returns the text.
    pub(super) fn into_text(self) -> String {
        self.0
    }
}

/// Returns the value of a label with escapes.
fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

/// Returns the value of a gauge. Numbers above 2^53 lose their last digits.
pub(super) fn number(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::super::table::{DISK_FREE, JOBS, PROCESS_CPU};
    use super::*;

    #[test]
    fn values_have_help_type_and_escaped_labels() {
        let mut exposition = Exposition::default();
        exposition.add(
            &JOBS,
            [(&["a\"\\\n", "waiting"][..], 2.0), (&["b", "failed"][..], 0.0)],
        );
        exposition.value(&DISK_FREE, Some(number(33_554_432)));
        exposition.value(&PROCESS_CPU, None);
        let text = exposition.into_text();
        let expected = "holdfast_jobs{kind=\"a\\\"\\\\\\n\",state=\"waiting\"} 2\n\
                        holdfast_jobs{kind=\"b\",state=\"failed\"} 0\n\
                        # HELP holdfast_disk_free_bytes ";
        assert!(text.contains(expected), "{text}");
        assert!(
            text.starts_with("# HELP holdfast_jobs Jobs ") && text.contains("\n# TYPE holdfast_jobs gauge\n")
        );
        assert!(text.ends_with("\nholdfast_disk_free_bytes 33554432\n"), "{text}");
    }
}
