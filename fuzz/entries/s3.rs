//! Ways in to door-s3: a policy, a query, the head of a signed request, a document, a form, a form for STS.

/// See `door_s3::fuzz::policy`.
pub fn s3_policy(data: &[u8]) {
    door_s3::fuzz::policy(data);
}

/// See `door_s3::fuzz::query`.
pub fn s3_query(data: &[u8]) {
    door_s3::fuzz::query(data);
}

/// See `door_s3::fuzz::signature`.
pub fn s3_signature(data: &[u8]) {
    door_s3::fuzz::signature(data);
}

/// See `door_s3::fuzz::document`.
pub fn s3_document(data: &[u8]) {
    door_s3::fuzz::document(data);
}

/// See `door_s3::fuzz::form`.
pub fn s3_form(data: &[u8]) {
    door_s3::fuzz::form(data);
}

/// See `door_s3::fuzz::sts`.
pub fn sts_form(data: &[u8]) {
    door_s3::fuzz::sts(data);
}
