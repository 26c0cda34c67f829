//! The console's part of the HTTP door: its files, its samples, and how its requests are refused.
//!
//! ```text
//! GET /console           → /console/
//! GET /console/…         files of the binary, for everybody that a request for numbers is answered for; they hold no data
//! GET /console/history   samples, as /metrics is: for known clients. ?since=MS: only newer ones
//! ```
//!
//! What the page asks goes to `POST /`, like any client's actions: the console adds no right and no way around browser.rs.
//!
//! Always: no refusal to a page asks for Basic credentials: a browser would open a window of its own for the password and then keep
//! it, and the page could not sign out. Held by: `a_page_is_not_challenged_for_a_password`.
//! Not here: the files (edge-console), where samples come from (history.rs).

use super::routes::{respond, Answered};
use edge_console::{asset, HEADERS};
use hyper::header::{HeaderName, HeaderValue, LOCATION, ORIGIN, WWW_AUTHENTICATE};
use hyper::HeaderMap;

/// The page without the slash that its relative links need.
const BARE: &str = "/console";
/// The samples.
pub(super) const HISTORY: &str = "/console/history";
/// The challenge to a page without a credential: it sends tokens or passwords by itself.
const PAGE_CHALLENGE: &str = "Bearer realm=\"hive\"";

/// Whether this is a file of the console.
pub(super) fn is_file(path: &str) -> bool {
    path == BARE || asset(path).is_some()
}

/// A file of the console.
pub(super) fn file(path: &str) -> Option<Answered> {
    if path == BARE {
        let mut answer = respond(308, "text/plain; charset=utf-8", Vec::new());
        answer.headers_mut().insert(LOCATION, HeaderValue::from_static("/console/"));
        return Some(answer);
    }
    let asset = asset(path)?;
    let mut answer = respond(200, asset.kind, asset.body.as_bytes().to_vec());
    for (name, value) in HEADERS {
        answer.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    Some(answer)
}

/// `since` of a query; what is no number asks for everything.
pub(super) fn since(query: Option<&str>) -> u64 {
    let fields = query.unwrap_or("").split('&');
    fields.filter_map(|field| field.strip_prefix("since=")).find_map(|ms| ms.parse().ok()).unwrap_or(0)
}

/// Whether a page asks, and not a program: only browsers name an origin, and only a page asks for what is below the console.
pub(super) fn is_page(path: &str, headers: &HeaderMap) -> bool {
    path.starts_with(BARE) || headers.contains_key(ORIGIN)
}

/// Leaves out the challenge that a browser would answer by itself.
pub(super) fn soften(mut answer: Answered) -> Answered {
    if let Some(challenge) = answer.headers_mut().get_mut(WWW_AUTHENTICATE) {
        *challenge = HeaderValue::from_static(PAGE_CHALLENGE);
    }
    answer
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_time_of_a_query_is_read_or_left() {
        for (query, since) in
            [(None, 0), (Some("since=17"), 17), (Some("a=b&since=5"), 5), (Some("since=-1"), 0), (Some("since"), 0)]
        {
            assert_eq!(super::since(query), since, "{query:?}");
        }
    }
}
