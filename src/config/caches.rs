//! Division of the memory for caches.

use super::ConfigError;

/// Default memory for all caches together, in bytes.
const CACHE_BYTES: u64 = 96 << 20;

/// Memory for each kind of cache, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheSettings {
    /// Cached responses; 0 caches none.
    pub responses: u64,
    /// Cached results of Git.
    pub git: u64,
    /// Cached rows of the database.
    pub rows: u64,
}

impl CacheSettings {
    /// Divides `cache_bytes`. Responses get `response_cache_bytes`, or a sixth if it is absent. Results of Git get four
    /// fifths of the rest, because they are large and expensive to compute again, and rows a fifth.
    pub(super) fn new(
        cache_bytes: Option<u64>,
        response_cache_bytes: Option<u64>,
    ) -> Result<Self, ConfigError> {
        let all = cache_bytes.unwrap_or(CACHE_BYTES);
        let responses = response_cache_bytes.unwrap_or(all / 6);
        let rest = all.checked_sub(responses).ok_or_else(|| ConfigError::Value {
            name: "response_cache_bytes",
            cause: format!("must be at most cache_bytes, which is {all}"),
        })?;
        let rows = rest / 5;
        Ok(Self {
            responses,
            git: rest - rows,
            rows,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_to_the_setting() {
        let parts = |all, responses| CacheSettings::new(all, responses).expect("parts");
        for (all, responses) in [
            (None, None),
            (Some(0), None),
            (Some(7), None),
            (Some(6_000), Some(6_000)),
        ] {
            let parts = parts(all, responses);
            assert_eq!(
                parts.responses + parts.git + parts.rows,
                all.unwrap_or(CACHE_BYTES)
            );
        }
        let defaults = CacheSettings {
            responses: 16 << 20,
            git: 64 << 20,
            rows: 16 << 20,
        };
        assert_eq!(parts(None, None), defaults);
        assert_eq!(parts(None, Some(0)).responses, 0);
    }

    #[test]
    fn part_above_the_whole_is_rejected() {
        let error = CacheSettings::new(Some(10), Some(11))
            .expect_err("an error")
            .to_string();
        assert!(
            error.contains("response_cache_bytes") && error.contains("10"),
            "{error}"
        );
    }
}
