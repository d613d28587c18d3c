//! Rules for faults: `METHOD PATH [delay TIME] [STATUS | rate-limit | close] [retry-after SECONDS] [xCOUNT]`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use percent_encoding::percent_decode_str;

/// Path of the API, to which patterns are relative.
const API: &str = "/api/v4";
/// Maximum length of a rule, in bytes.
const MAX_LENGTH: usize = 1024;
/// Maximum delay.
const MAX_DELAY: Duration = Duration::from_secs(60);
/// Maximum of `retry-after`, in seconds.
const MAX_RETRY_AFTER: u32 = 24 * 60 * 60;
/// Seconds in `Retry-After` without `retry-after`: the minimum, so that tests are fast.
const RETRY_AFTER: u32 = 1;

/// Reason why a rule is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{rule}\": {cause}; write a rule such as \"GET /projects/*/issues 503 x3\"")]
pub struct InvalidRule {
    rule: String,
    cause: String,
}

/// What is sent instead of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// An error with this status.
    Status(u16),
    /// The error 429 with the headers of an exceeded rate limit.
    RateLimit,
    /// Nothing: the connection is closed.
    Close,
}

/// A fault of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Injection {
    /// Time before the response.
    pub(super) delay: Option<Duration>,
    /// What is sent; the response of the server if absent.
    pub(super) outcome: Option<Outcome>,
    /// Seconds in the header `Retry-After` of the statuses 429 and 503.
    pub(super) retry_after: u32,
}

impl Injection {
    /// Returns the status of the error.
    #[cfg(test)]
    pub(super) fn status(&self) -> Option<u16> {
        match self.outcome {
            Some(Outcome::Status(status)) => Some(status),
            Some(Outcome::RateLimit) => Some(429),
            Some(Outcome::Close) | None => None,
        }
    }
}

/// A segment of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    /// `*`: any segment.
    Any,
    /// `**` at the end: any number of segments.
    Rest,
    /// A decoded segment.
    Text(String),
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultRule {
    /// The method; any method if absent.
    method: Option<String>,
    pattern: Vec<Segment>,
    text: String,
    delay: Option<Duration>,
    outcome: Option<Outcome>,
    retry_after: Option<u32>,
    count: Option<u32>,
}

/// The decoded segments of a request path.
pub(super) struct RequestPath(Vec<String>);

impl RequestPath {
    /// Parses a path. An empty segment at the end does not matter.
    pub(super) fn parse(path: &str) -> Self {
        let path = path.trim_matches('/');
        let segments = path.split('/').filter(|_| !path.is_empty());
        Self(segments.map(decoded).collect())
    }

    /// Returns the segments below the path of the API, if it is such a path.
    fn below_api(&self) -> Option<&[String]> {
        let mut segments = self.0.as_slice();
        for part in API.trim_matches('/').split('/') {
            segments = match segments.split_first() {
                Some((first, rest)) if first == part => rest,
                _ => return None,
            };
        }
        Some(segments)
    }
}

fn decoded(segment: &str) -> String {
    percent_decode_str(segment).decode_utf8_lossy().into_owned()
}

impl FaultRule {
    /// Returns the maximum number of requests that the rule applies to.
    pub(super) fn count(&self) -> Option<u32> {
        self.count
    }

    /// Returns the fault of a request.
    pub(super) fn injection(&self) -> Injection {
        Injection {
            delay: self.delay,
            outcome: self.outcome,
            retry_after: self.retry_after.unwrap_or(RETRY_AFTER),
        }
    }

    /// Returns whether the rule applies to a request. The pattern is compared with the path below the API, and with the
    /// complete path.
    pub(super) fn matches(&self, method: &str, path: &RequestPath) -> bool {
        let is_method = self.method.as_ref().is_none_or(|own| own == method);
        is_method && (self.fits(&path.0) || path.below_api().is_some_and(|below| self.fits(below)))
    }

    fn fits(&self, segments: &[String]) -> bool {
        let mut segments = segments.iter();
        for pattern in &self.pattern {
            let fits = match (pattern, segments.next()) {
                (Segment::Rest, _) => return true,
                (Segment::Any, Some(_)) => true,
                (Segment::Text(text), Some(segment)) => text == segment,
                (_, None) => false,
            };
            if !fits {
                return false;
            }
        }
        segments.next().is_none()
    }
}

impl FromStr for FaultRule {
    type Err = InvalidRule;

    fn from_str(text: &str) -> Result<Self, InvalidRule> {
        parse(text).map_err(|cause| InvalidRule {
            rule: text.chars().take(MAX_LENGTH).collect(),
            cause,
        })
    }
}

impl fmt::Display for FaultRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn parse(text: &str) -> Result<FaultRule, String> {
    if text.len() > MAX_LENGTH {
        return Err(format!("it is longer than {MAX_LENGTH} bytes"));
    }
    let mut words = text.split_ascii_whitespace();
    let method = words.next().ok_or("it is empty")?;
    let path = words.next().ok_or("the path is missing")?;
    let mut rule = FaultRule {
        method: parse_method(method)?,
        pattern: parse_pattern(path)?,
        text: text.split_ascii_whitespace().collect::<Vec<_>>().join(" "),
        delay: None,
        outcome: None,
        retry_after: None,
        count: None,
    };
    while let Some(word) = words.next() {
        match word {
            "delay" => {
                let time = words.next().ok_or("the time of `delay` is missing")?;
                set(&mut rule.delay, parse_delay(time)?, word)?;
            }
            "retry-after" => {
                let seconds = words.next().ok_or("the seconds of `retry-after` are missing")?;
                set(&mut rule.retry_after, parse_seconds(seconds)?, word)?;
            }
            "close" => set(&mut rule.outcome, Outcome::Close, word)?,
            "rate-limit" => set(&mut rule.outcome, Outcome::RateLimit, word)?,
            _ => match word.strip_prefix('x').and_then(|count| count.parse().ok()) {
                Some(0) => return Err("the count must be at least 1".to_owned()),
                Some(count) => set(&mut rule.count, count, word)?,
                None => set(&mut rule.outcome, parse_status(word)?, word)?,
            },
        }
    }
    match (rule.outcome, rule.delay, rule.retry_after) {
        (None, None, _) => Err("it has neither a status, nor `close`, `rate-limit` or `delay`".to_owned()),
        (Some(Outcome::Status(429 | 503) | Outcome::RateLimit), _, _) | (_, _, None) => Ok(rule),
        _ => Err("`retry-after` requires the status 429 or 503, or `rate-limit`".to_owned()),
    }
}

fn set<T>(field: &mut Option<T>, value: T, word: &str) -> Result<(), String> {
    match field.replace(value) {
        None => Ok(()),
        Some(_) => Err(format!("`{word}` repeats or contradicts a former word")),
    }
}

fn parse_method(word: &str) -> Result<Option<String>, String> {
    let is_method = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphabetic());
    match word {
        "*" => Ok(None),
        _ if is_method => Ok(Some(word.to_ascii_uppercase())),
        _ => Err(format!(
            "`{word}` is not a method; use a method such as GET, or *"
        )),
    }
}

fn parse_pattern(word: &str) -> Result<Vec<Segment>, String> {
    let path = word
        .strip_prefix('/')
        .ok_or_else(|| format!("`{word}` is not a path; paths start with /"))?;
    if word.contains(['?', '#']) {
        return Err(format!("`{word}` has a query; rules apply to paths"));
    }
    let path = path.trim_end_matches('/');
    let segments = path.split('/').filter(|_| !path.is_empty());
    let pattern: Vec<Segment> = segments
        .map(|segment| match segment {
            "*" => Segment::Any,
            "**" => Segment::Rest,
            text => Segment::Text(decoded(text)),
        })
        .collect();
    let rest = pattern.iter().position(|segment| *segment == Segment::Rest);
    match rest.is_some_and(|rest| rest + 1 < pattern.len()) {
        true => Err("`**` is allowed only at the end of a path".to_owned()),
        false => Ok(pattern),
    }
}

fn parse_delay(word: &str) -> Result<Duration, String> {
    let milliseconds = word.strip_suffix("ms").and_then(|number| number.parse().ok());
    let delay = match milliseconds {
        Some(number) => Some(Duration::from_millis(number)),
        None => word
            .strip_suffix('s')
            .and_then(|number| number.parse().ok())
            .map(Duration::from_secs),
    };
    let delay = delay.ok_or_else(|| format!("`{word}` is not a time; write 200ms or 2s"))?;
    match delay <= MAX_DELAY {
        true => Ok(delay),
        false => Err(format!(
            "the delay is longer than {} seconds",
            MAX_DELAY.as_secs()
        )),
    }
}

fn parse_seconds(word: &str) -> Result<u32, String> {
    let seconds = word.parse().ok().filter(|seconds| *seconds <= MAX_RETRY_AFTER);
    seconds.ok_or_else(|| format!("`{word}` is not a number of seconds up to {MAX_RETRY_AFTER}"))
}

fn parse_status(word: &str) -> Result<Outcome, String> {
    match word.parse() {
        Ok(status @ 400..=599) => Ok(Outcome::Status(status)),
        Ok(status) => Err(format!("{status} is not an error status (400 to 599)")),
        Err(_) => Err(format!("`{word}` is not known")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> FaultRule {
        text.parse().expect("a rule")
    }

    fn applies(text: &str, method: &str, path: &str) -> bool {
        rule(text).matches(method, &RequestPath::parse(path))
    }

    #[test]
    fn rules_have_actions_and_counts() {
        let parsed = rule("get  /projects 503 retry-after 7 delay 200ms x3");
        let injection = Injection {
            delay: Some(Duration::from_millis(200)),
            outcome: Some(Outcome::Status(503)),
            retry_after: 7,
        };
        assert_eq!((parsed.injection(), parsed.count()), (injection, Some(3)));
        assert_eq!(
            parsed.to_string(),
            "get /projects 503 retry-after 7 delay 200ms x3"
        );
        assert_eq!(rule("* / close").injection().outcome, Some(Outcome::Close));
        assert_eq!(
            rule("* / rate-limit").injection().outcome,
            Some(Outcome::RateLimit)
        );
        assert_eq!(
            rule("* / delay 2s").injection().delay,
            Some(Duration::from_secs(2))
        );
    }

    #[test]
    fn patterns_match_segment_by_segment_below_the_api_and_complete_paths() {
        for (text, path, expected) in [
            ("GET /projects 500", "/api/v4/projects", true),
            ("GET /projects 500", "/api/v4/projects/", true),
            ("GET /projects 500", "/api/v4/projects/1", false),
            ("GET /api/v4/projects 500", "/api/v4/projects", true),
            (
                "GET /projects/*/issues 500",
                "/api/v4/projects/a%2Fb/issues",
                true,
            ),
            ("GET /projects/a%2Fb 500", "/api/v4/projects/a%2fb", true),
            ("GET /projects/** 500", "/api/v4/projects", true),
            ("GET /projects/** 500", "/api/v4/projects/1/issues/2", true),
            ("GET /** 500", "/a/b.git/info/refs", true),
            ("GET /a/b.git/info/refs 500", "/a/b.git/info/refs", true),
            ("GET / 500", "/", true),
            ("GET / 500", "/api/v4", true),
            ("GET / 500", "/api", false),
            ("GET /* 500", "/api/v4/projects", true),
        ] {
            assert_eq!(applies(text, "GET", path), expected, "{text}, {path}");
        }
        assert!(!applies("POST /projects 500", "GET", "/api/v4/projects"));
        assert!(applies("* /projects 500", "DELETE", "/api/v4/projects"));
    }

    #[test]
    fn invalid_rules_are_refused_with_their_cause() {
        for (text, cause) in [
            ("", "it is empty"),
            ("GET", "the path is missing"),
            ("GET /projects", "it has neither"),
            ("GET /projects x3", "it has neither"),
            ("G=T /projects 503", "is not a method"),
            ("GET projects 503", "is not a path"),
            ("GET /projects?page=2 503", "has a query"),
            ("GET /**/issues 503", "only at the end"),
            ("GET /projects 200", "is not an error status"),
            ("GET /projects 99999999", "is not known"),
            ("GET /projects slow", "is not known"),
            ("GET /projects 503 500", "repeats or contradicts"),
            ("GET /projects 503 close", "repeats or contradicts"),
            ("GET /projects 503 x0", "at least 1"),
            ("GET /projects 503 x2 x3", "repeats or contradicts"),
            ("GET /projects delay", "is missing"),
            ("GET /projects delay 5", "is not a time"),
            ("GET /projects delay 61s", "is longer than"),
            ("GET /projects delay 99999999999999999999ms", "is not a time"),
            ("GET /projects 500 retry-after 1", "requires the status"),
            ("GET /projects 503 retry-after -1", "is not a number"),
            ("GET /projects 503 retry-after", "are missing"),
        ] {
            let error = text.parse::<FaultRule>().expect_err(text).to_string();
            assert!(error.contains(cause), "{text}: {error}");
        }
        let long = format!("GET /{} 503", "a".repeat(MAX_LENGTH));
        assert!(long.parse::<FaultRule>().is_err());
    }
}
