//! Refusals as etcd's clients know them: gRPC code and text.
//!
//! Always: every code of Hive has an answer ([`of_refusal`] ends in a match of all kinds). A text that etcd has is given to the letter,
//! since its clients compare it; what Hive says itself goes with it in the metadata `hive-code` and `hive-message`.
//! Not here: what is refused, and when.

use base_types::{ErrorCode, ErrorKind, Refusal};
use tonic::{Code, Status};

/// One of etcd's own errors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EtcdError {
    /// The gRPC code.
    pub code: Code,
    /// The text, to the letter.
    pub text: &'static str,
}

macro_rules! errors {
    ($($name:ident $code:ident $text:literal;)*) => {
        $(#[doc = $text] pub const $name: EtcdError = EtcdError { code: Code::$code, text: $text };)*
        /// All that this door gives.
        pub const ALL: &[EtcdError] = &[$($name,)*];
    };
}

errors! {
    EMPTY_KEY InvalidArgument "etcdserver: key is not provided";
    KEY_NOT_FOUND InvalidArgument "etcdserver: key not found";
    VALUE_PROVIDED InvalidArgument "etcdserver: value is provided";
    LEASE_PROVIDED InvalidArgument "etcdserver: lease is provided";
    TOO_MANY_OPS InvalidArgument "etcdserver: too many operations in txn request";
    DUPLICATE_KEY InvalidArgument "etcdserver: duplicate key given in txn request";
    INVALID_SORT_OPTION InvalidArgument "etcdserver: invalid sort option";
    COMPACTED OutOfRange "etcdserver: mvcc: required revision has been compacted";
    FUTURE_REVISION OutOfRange "etcdserver: mvcc: required revision is a future revision";
    NO_SPACE ResourceExhausted "etcdserver: mvcc: database space exceeded";
    LEASE_NOT_FOUND NotFound "etcdserver: requested lease not found";
    LEASE_EXISTS FailedPrecondition "etcdserver: lease already exists";
    LEASE_TTL_TOO_LARGE OutOfRange "etcdserver: too large lease TTL";
    MEMBER_NOT_FOUND NotFound "etcdserver: member not found";
    REQUEST_TOO_LARGE InvalidArgument "etcdserver: request is too large";
    TOO_MANY_REQUESTS ResourceExhausted "etcdserver: too many requests";
    USER_EXISTS FailedPrecondition "etcdserver: user name already exists";
    USER_EMPTY InvalidArgument "etcdserver: user name is empty";
    USER_NOT_FOUND FailedPrecondition "etcdserver: user name not found";
    ROLE_EXISTS FailedPrecondition "etcdserver: role name already exists";
    ROLE_NOT_FOUND FailedPrecondition "etcdserver: role name not found";
    ROLE_EMPTY InvalidArgument "etcdserver: role name is empty";
    AUTH_FAILED InvalidArgument "etcdserver: authentication failed, invalid user ID or password";
    PERMISSION_NOT_GIVEN InvalidArgument "etcdserver: permission not given";
    PERMISSION_DENIED PermissionDenied "etcdserver: permission denied";
    ROLE_NOT_GRANTED FailedPrecondition "etcdserver: role is not granted to the user";
    PERMISSION_NOT_GRANTED FailedPrecondition "etcdserver: permission is not granted to the role";
    INVALID_AUTH_MGMT InvalidArgument "etcdserver: invalid auth management";
    AUTH_NOT_ENABLED FailedPrecondition "etcdserver: authentication is not enabled";
    INVALID_AUTH_TOKEN Unauthenticated "etcdserver: invalid auth token";
    NO_LEADER Unavailable "etcdserver: no leader";
    LEADER_CHANGED Unavailable "etcdserver: leader changed";
    STOPPED Unavailable "etcdserver: server stopped";
    TIMEOUT Unavailable "etcdserver: request timed out";
    UNHEALTHY Unavailable "etcdserver: unhealthy cluster";
    CORRUPT DataLoss "etcdserver: corrupt cluster";
    BAD_LEADER_TRANSFEREE FailedPrecondition "etcdserver: bad leader transferee";
}

impl From<EtcdError> for Status {
    fn from(error: EtcdError) -> Status {
        Status::new(error.code, error.text)
    }
}

/// The bytes of a message that metadata carries at most.
const MESSAGE_BYTES_MAX: usize = 512;

/// What a refusal is called here.
pub fn of_refusal(refusal: &Refusal) -> Status {
    let mut status = match known(refusal.code) {
        Some(error) => error.into(),
        None => Status::new(plain(refusal.kind()), format!("hive: {refusal}")),
    };
    let metadata = status.metadata_mut();
    let text = |text: &str| text.escape_debug().take(MESSAGE_BYTES_MAX).collect::<String>();
    for (name, value) in [("hive-code", refusal.code.as_str()), ("hive-message", &refusal.message)] {
        // What is no ASCII is left out: it is a help for people only.
        if let Ok(value) = text(value).parse() {
            metadata.insert(name, value);
        }
    }
    status
}

/// The error of etcd that says the same.
fn known(code: ErrorCode) -> Option<EtcdError> {
    Some(match code {
        ErrorCode::EmptyKey => EMPTY_KEY,
        ErrorCode::KeyNotFound => KEY_NOT_FOUND,
        ErrorCode::StampCompacted => COMPACTED,
        ErrorCode::StampInFuture => FUTURE_REVISION,
        ErrorCode::NoSuchLease => LEASE_NOT_FOUND,
        ErrorCode::LeaseExists => LEASE_EXISTS,
        ErrorCode::NoSuchUser => USER_NOT_FOUND,
        ErrorCode::UserExists => USER_EXISTS,
        ErrorCode::NoSuchRole => ROLE_NOT_FOUND,
        ErrorCode::RoleExists => ROLE_EXISTS,
        ErrorCode::AccessOff => AUTH_NOT_ENABLED,
        ErrorCode::NoLeader => NO_LEADER,
        ErrorCode::NotLeader => LEADER_CHANGED,
        ErrorCode::ShuttingDown | ErrorCode::Superseded => STOPPED,
        // What is known not to be done and what may be done: etcd's clients take both as "may be done".
        ErrorCode::DeadlineExceeded | ErrorCode::OutcomeUnknown => TIMEOUT,
        // The server's own JSON: no client's request is too large by it.
        ErrorCode::BodyTooLarge => REQUEST_TOO_LARGE,
        _ => return of_kind(code.kind()),
    })
}

fn of_kind(kind: ErrorKind) -> Option<EtcdError> {
    match kind {
        ErrorKind::TooLarge => Some(REQUEST_TOO_LARGE),
        ErrorKind::Overloaded => Some(TOO_MANY_REQUESTS),
        ErrorKind::Full => Some(NO_SPACE),
        ErrorKind::Unknown => Some(TIMEOUT),
        ErrorKind::Corrupt => Some(CORRUPT),
        ErrorKind::Unauthenticated => Some(INVALID_AUTH_TOKEN),
        ErrorKind::Forbidden => Some(PERMISSION_DENIED),
        ErrorKind::Invalid
        | ErrorKind::NotFound
        | ErrorKind::Conflict
        | ErrorKind::Unavailable
        | ErrorKind::Internal
        | ErrorKind::Precondition => None,
    }
}

/// The gRPC code of what etcd has no text for.
fn plain(kind: ErrorKind) -> Code {
    match kind {
        ErrorKind::Invalid | ErrorKind::TooLarge => Code::InvalidArgument,
        ErrorKind::NotFound => Code::NotFound,
        ErrorKind::Conflict | ErrorKind::Precondition => Code::FailedPrecondition,
        ErrorKind::Unavailable | ErrorKind::Unknown => Code::Unavailable,
        ErrorKind::Overloaded | ErrorKind::Full => Code::ResourceExhausted,
        ErrorKind::Corrupt => Code::DataLoss,
        ErrorKind::Internal => Code::Internal,
        ErrorKind::Unauthenticated => Code::Unauthenticated,
        ErrorKind::Forbidden => Code::PermissionDenied,
    }
}

/// Something that etcd has and Hive does not, or does elsewhere.
pub fn elsewhere(text: &str) -> Status {
    Status::unimplemented(format!("hive: {text}"))
}

/// An answer of the store that does not belong to the question: a bug.
pub fn unexpected(asked: &str) -> Status {
    Status::internal(format!("hive: the store's answer is not one to {asked}; report this bug"))
}
