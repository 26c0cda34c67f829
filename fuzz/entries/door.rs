//! Ways in to door-http: a body, a plain query.

/// Any bytes as a body and as a query.
pub fn http_body(data: &[u8]) {
    door_http::fuzz(data);
}
