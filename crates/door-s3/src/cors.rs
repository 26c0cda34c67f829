//! Requests of browsers from elsewhere: the answer to a preflight, and the headers of an answer.
//!
//! Pure. Always: without a rule that matches, no header lets a browser read anything.
//! Held by: `headers_name_the_origin_unless_everybody_may`.

use base_types::s3::CorsRule;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};

/// What a browser says of a request.
#[derive(Clone, Copy, Debug)]
pub struct CrossOrigin<'a> {
    /// Where the page is from.
    pub origin: &'a str,
    /// The method it uses, or will use.
    pub method: &'a str,
    /// The headers it will send; of an actual request nothing.
    pub headers: &'a str,
}

/// One `*` stands for anything.
fn fits(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, end)) => text.len() >= start.len() + end.len() && text.starts_with(start) && text.ends_with(end),
    }
}

fn names(list: &str) -> impl Iterator<Item = String> + '_ {
    list.split(',').map(|name| name.trim().to_ascii_lowercase()).filter(|name| !name.is_empty())
}

/// The first rule that allows a request.
pub fn matching<'r>(rules: &'r [CorsRule], asked: &CrossOrigin<'_>) -> Option<&'r CorsRule> {
    rules.iter().find(|rule| {
        let header_allowed =
            |name: String| rule.allowed_headers.iter().any(|allowed| fits(&allowed.to_ascii_lowercase(), &name));
        rule.allowed_origins.iter().any(|allowed| fits(allowed, asked.origin))
            && rule.allowed_methods.iter().any(|allowed| allowed == asked.method)
            && names(asked.headers).all(header_allowed)
    })
}

/// The headers that let a browser continue under a rule.
pub fn allow(rule: &CorsRule, asked: &CrossOrigin<'_>, preflight: bool) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let mut set = |name: &'static str, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    };
    let everybody = rule.allowed_origins.iter().any(|allowed| allowed == "*");
    set("access-control-allow-origin", if everybody { "*" } else { asked.origin });
    if !everybody {
        set("access-control-allow-credentials", "true");
    }
    set("vary", "Origin, Access-Control-Request-Headers, Access-Control-Request-Method");
    set("access-control-allow-methods", &rule.allowed_methods.join(", "));
    if !rule.expose_headers.is_empty() {
        set("access-control-expose-headers", &rule.expose_headers.join(", "));
    }
    if let Some(age) = rule.max_age_seconds {
        set("access-control-max-age", &age.to_string());
    }
    let wanted: Vec<String> = names(asked.headers).collect();
    if preflight && !wanted.is_empty() {
        set("access-control-allow-headers", &wanted.join(", "));
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(origins: &[&str], methods: &[&str], headers: &[&str]) -> CorsRule {
        let list = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        CorsRule {
            allowed_origins: list(origins),
            allowed_methods: list(methods),
            allowed_headers: list(headers),
            ..CorsRule::default()
        }
    }

    #[test]
    fn rules() {
        let rules = [
            rule(&["https://a.example"], &["GET"], &[]),
            rule(&["https://*.example"], &["PUT"], &["x-amz-*", "Content-Type"]),
        ];
        let table = [
            ("https://a.example", "GET", "", Some(0)),
            ("https://b.example", "GET", "", None),
            ("https://b.example", "PUT", "", Some(1)),
            ("https://b.example", "PUT", "X-Amz-Date, content-type", Some(1)),
            ("https://b.example", "PUT", "authorization", None),
            ("https://example", "PUT", "", None),
            ("https://.example", "PUT", "", Some(1)),
            ("null", "GET", "", None),
        ];
        for (origin, method, headers, expected) in table {
            let found = matching(&rules, &CrossOrigin { origin, method, headers });
            assert_eq!(found, expected.map(|at: usize| &rules[at]), "{origin} {method} {headers}");
        }
    }

    #[test]
    fn headers_name_the_origin_unless_everybody_may() {
        let asked = CrossOrigin { origin: "https://a.example", method: "GET", headers: "X-A" };
        let one = allow(&rule(&["https://*.example"], &["GET"], &["*"]), &asked, true);
        assert_eq!(one["access-control-allow-origin"], "https://a.example");
        assert_eq!(one["access-control-allow-headers"], "x-a");
        let all = allow(&rule(&["*"], &["GET"], &["*"]), &asked, false);
        assert_eq!(all["access-control-allow-origin"], "*");
        assert!(
            !all.contains_key("access-control-allow-credentials") && !all.contains_key("access-control-allow-headers")
        );
    }
}
