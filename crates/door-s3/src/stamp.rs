//! What every answer of the gateway carries beside its own: the request's id, for people who look for it in two logs.
//!
//! Always: an id is never given twice by a process, and those of two processes differ but by chance (64 drawn bits);
//! a refusal's document names the id that its headers name.
//! Held by: `ids_differ_and_a_refusal_names_its_own`, `answers_carry_what_tools_look_for`.
//! Not here: what is refused and why (`error`).

use hyper::header::{HeaderValue, CONTENT_LENGTH, CONTENT_TYPE};
use hyper::Response;
use s3s::Body;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::LazyLock;

/// What this process drew for its ids.
static DRAWN: LazyLock<u64> = LazyLock::new(|| getrandom::u64().unwrap_or_else(|_| u64::from(std::process::id())));
/// How many ids it gave.
static GIVEN: AtomicU64 = AtomicU64::new(0);
const ERROR_END: &[u8] = b"</Error>";

/// The id of one request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequestId {
    id: String,
    host: String,
}

impl RequestId {
    /// One that no other request has.
    pub fn new() -> RequestId {
        let number = GIVEN.fetch_add(1, Ordering::Relaxed);
        // A bijection of the number, so that ids of one process never meet.
        let mixed = (number ^ *DRAWN).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31) ^ *DRAWN;
        RequestId { id: format!("{mixed:016X}"), host: format!("{:016x}{mixed:016x}", *DRAWN) }
    }

    /// As the answer's header has it.
    pub fn as_str(&self) -> &str {
        &self.id
    }

    /// As `x-amz-id-2` has it.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Puts it on an answer, and into the document of a refusal.
    pub fn put_on(&self, response: &mut Response<Body>) {
        let failed = response.status().is_client_error() || response.status().is_server_error();
        let document = if failed { response.body().bytes() } else { None };
        if let Some(with_id) = document.and_then(|document| self.within(&document)) {
            response.headers_mut().remove(CONTENT_LENGTH);
            response.headers_mut().entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/xml"));
            *response.body_mut() = Body::from(with_id);
        }
        for (name, value) in [("x-amz-request-id", &self.id), ("x-amz-id-2", &self.host)] {
            if let Ok(value) = HeaderValue::from_str(value) {
                response.headers_mut().insert(name, value);
            }
        }
    }

    /// A refusal's document with the id; `None` where it is no such document or has one.
    fn within(&self, document: &[u8]) -> Option<Vec<u8>> {
        let start = document.strip_suffix(ERROR_END)?;
        if start.windows(b"<RequestId>".len()).any(|part| part == b"<RequestId>") {
            return None;
        }
        let more = format!("<RequestId>{}</RequestId><HostId>{}</HostId>", self.id, self.host);
        Some([start, more.as_bytes(), ERROR_END].concat())
    }
}

impl Default for RequestId {
    fn default() -> RequestId {
        RequestId::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ_and_a_refusal_names_its_own() {
        let ids: std::collections::HashSet<String> = (0..1000).map(|_| RequestId::new().id).collect();
        assert_eq!(ids.len(), 1000);
        let id = RequestId::new();
        let text = String::from_utf8(id.within(b"<Error><Code>A</Code></Error>").unwrap()).unwrap();
        assert!(text.contains(&format!("<RequestId>{}</RequestId>", id.as_str())), "{text}");
        assert_eq!(id.within(b"<ListBucketResult/>"), None);
        assert_eq!(id.within(text.as_bytes()), None);
    }
}
