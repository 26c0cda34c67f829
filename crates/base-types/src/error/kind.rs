//! What a caller should do about a failure, and whether its write may have been applied.
//!
//! Always: a kind's byte on the wire is fixed; its HTTP status follows from it.
//! Held by: `refusal_bytes_are_kind_text_and_message`, `error_table_matches_its_golden_file`.
//! Not here: which code is of which kind (`code.rs`).

/// What the user should do about it (HOUSE_STYLE, "When things go wrong").
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum ErrorKind {
    /// Fix the request.
    Invalid = 0,
    /// The thing asked for does not exist.
    NotFound = 1,
    /// Reread, then retry.
    Conflict = 2,
    /// Back off, retry.
    Unavailable = 3,
    /// Back off, retry.
    Overloaded = 4,
    /// No room left on disk.
    Full = 5,
    /// Larger than the limit.
    TooLarge = 6,
    /// Check: the write may have happened.
    Unknown = 7,
    /// Call the operator.
    Corrupt = 8,
    /// Report a bug.
    Internal = 9,
    /// A condition of the request does not hold (compare-and-set, if-match).
    Precondition = 10,
    /// Say who you are: no credential, or one that counts for nothing.
    Unauthenticated = 11,
    /// Have it allowed: who asks is known and may not.
    Forbidden = 12,
}

impl ErrorKind {
    /// From its byte on the wire.
    pub fn from_byte(byte: u8) -> Option<Self> {
        const ALL: [ErrorKind; 13] = [
            ErrorKind::Invalid,
            ErrorKind::NotFound,
            ErrorKind::Conflict,
            ErrorKind::Unavailable,
            ErrorKind::Overloaded,
            ErrorKind::Full,
            ErrorKind::TooLarge,
            ErrorKind::Unknown,
            ErrorKind::Corrupt,
            ErrorKind::Internal,
            ErrorKind::Precondition,
            ErrorKind::Unauthenticated,
            ErrorKind::Forbidden,
        ];
        ALL.get(usize::from(byte)).copied()
    }

    /// Whether the same request may succeed later without being changed.
    pub const fn retryable(self) -> bool {
        matches!(self, Self::Unavailable | Self::Overloaded | Self::Unknown)
    }

    /// The HTTP status of most codes of this kind ([`crate::ErrorCode::status`]).
    pub const fn status(self) -> u16 {
        match self {
            Self::Invalid => 400,
            Self::Unauthenticated => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::Conflict => 409,
            Self::Precondition => 412,
            Self::TooLarge => 413,
            Self::Overloaded => 429,
            Self::Corrupt | Self::Internal => 500,
            Self::Unavailable => 503,
            Self::Unknown => 504,
            Self::Full => 507,
        }
    }

    /// The word used in the guide.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::NotFound => "not found",
            Self::Conflict => "conflict",
            Self::Unavailable => "unavailable",
            Self::Overloaded => "overloaded",
            Self::Full => "full",
            Self::TooLarge => "too large",
            Self::Unknown => "unknown",
            Self::Corrupt => "corrupt",
            Self::Internal => "internal",
            Self::Precondition => "precondition",
            Self::Unauthenticated => "unauthenticated",
            Self::Forbidden => "forbidden",
        }
    }
}

/// Whether a refused or failed write can have taken effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Outcome {
    /// It has not and never will.
    NotApplied,
    /// It may have, or may yet.
    Unknown,
}

impl Outcome {
    /// The word used in answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotApplied => "not_applied",
            Self::Unknown => "unknown",
        }
    }
}
