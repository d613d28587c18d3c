//! Check of the rules for files with submodules.

use crate::gitmodules::{GitmodulesError, check_gitmodules};

/// Checks a file. The end of the file also ends its last line.
pub fn gitmodules(input: &[u8]) {
    let checked = check_gitmodules(input);
    match check_gitmodules(&[input, b"\n"].concat()) {
        Ok(()) => assert_eq!(checked, Ok(())),
        Err(GitmodulesError::TooLarge) => {}
        // A newline can complete a variable that ends with a carriage return.
        Err(error) => assert!(
            checked == Err(error) || checked.is_ok(),
            "{checked:?}, but {error:?}"
        ),
    }
}
