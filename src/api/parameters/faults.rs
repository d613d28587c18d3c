//! Collects the faults of the parameters of a request.

use contract::operation::InputType;
use domain::kernel::error::{Error, ParameterFaults, Result};

/// Maximum number of faults in a response.
const MAX_FAULTS: usize = 50;

/// Collects faults in the declared order of the parameters.
#[derive(Default)]
pub struct Faults(ParameterFaults);

impl Faults {
    /// Adds a fault, up to the maximum number.
    pub fn add(&mut self, text: impl Into<String>) {
        if self.0.texts.len() < MAX_FAULTS {
            self.0.texts.push(text.into());
        }
    }

    /// Adds the fault of a value that the type does not allow, with the allowed values.
    pub fn add_not_allowed(&mut self, name: &str, input: &InputType) {
        if self.0.texts.len() < MAX_FAULTS {
            self.0.add_not_allowed(name, allowed_values(input));
        }
    }

    /// Returns the texts of all faults.
    pub fn into_texts(self) -> Vec<String> {
        self.0.texts
    }

    /// # Errors
    /// [`Error::InvalidParameters`] with all faults.
    pub fn check(self) -> Result<()> {
        match self.0.texts.is_empty() {
            true => Ok(()),
            false => Err(Error::InvalidParameters(self.0)),
        }
    }
}

/// Returns the values of a type, or one description of a range of integers.
fn allowed_values(input: &InputType) -> Vec<String> {
    match input {
        InputType::Choice(choices) => choices.iter().map(ToString::to_string).collect(),
        InputType::Integer { values, .. } if !values.is_empty() => {
            values.iter().map(i64::to_string).collect()
        }
        InputType::Integer { min, max, .. } => match (min, max) {
            (Some(min), Some(max)) => vec![format!("{min} to {max}")],
            (Some(min), None) => vec![format!("at least {min}")],
            (None, Some(max)) => vec![format!("at most {max}")],
            (None, None) => Vec::new(),
        },
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn integer(min: Option<i64>, max: Option<i64>, values: &'static [i64]) -> String {
        allowed_values(&InputType::Integer { min, max, values }).join(", ")
    }

    #[test]
    fn allowed_values_are_a_list_or_a_range() {
        let choices = allowed_values(&InputType::Choice(&["asc", "desc"]));
        assert_eq!(choices.join(", "), "asc, desc");
        assert_eq!(integer(None, None, &[10, 20]), "10, 20");
        assert_eq!(integer(Some(0), Some(100), &[]), "0 to 100");
        assert_eq!(integer(Some(1), None, &[]), "at least 1");
        assert_eq!(integer(None, Some(9), &[]), "at most 9");
        assert_eq!(integer(None, None, &[]), "");
        assert!(allowed_values(&InputType::Boolean).is_empty());
    }

    #[test]
    fn faults_and_their_values_are_limited() {
        let mut faults = Faults::default();
        for number in 0..60 {
            faults.add_not_allowed(&format!("ids[{number}]"), &InputType::Choice(&["a"]));
        }
        let Err(Error::InvalidParameters(faults)) = faults.check() else {
            panic!("no error");
        };
        assert_eq!((faults.texts.len(), faults.allowed_values.len()), (50, 50));
        assert!(Faults::default().check().is_ok());
    }
}
