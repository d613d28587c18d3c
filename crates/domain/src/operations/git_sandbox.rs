//! Warning if the kernel cannot restrict Git programs.

use git::launcher::{self, Protection};

/// Returns a warning if Git programs can access more than their repository.
pub async fn warning() -> Option<&'static str> {
    let protection = tokio::task::spawn_blocking(launcher::protection).await;
    match protection {
        Ok(Ok(protection)) => text(protection),
        _ => Some("Git programs cannot be started: the server has no access to its own executable in /proc"),
    }
}

fn text(protection: Protection) -> Option<&'static str> {
    match protection {
        Protection::Full => None,
        Protection::Partial => Some(
            "Git programs are restricted only partly: the kernel has an old version of Landlock; use Linux 6.12 or newer",
        ),
        Protection::None => Some(
            "Git programs can access all files of the server: the kernel has no Landlock; use Linux 6.12 or newer, and \
             enable it with the kernel parameter `lsm`",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_full_protection_has_no_warning() {
        assert_eq!(text(Protection::Full), None);
        assert!(text(Protection::Partial).is_some_and(|text| text.contains("partly")));
        assert!(text(Protection::None).is_some_and(|text| text.contains("no Landlock")));
    }
}
