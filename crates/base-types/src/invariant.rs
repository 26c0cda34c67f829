//! Invariants that parts of the core check about themselves (`check_invariants`).
//!
//! By design: a check reads and changes nothing that anybody else sees, so a build with the costly checks takes the same
//! steps as one without.
//! Not here: what is checked (the `invariants.rs` of each crate), and what becomes of it (`Lane::finish_turn`).

use alloc::string::String;

/// Whether checks that walk what they check are made, too: in debug builds, and in the simulator (feature `checks`).
/// The cheap ones are made in every build.
pub const THOROUGH: bool = cfg!(any(debug_assertions, feature = "checks"));

/// An invariant that does not hold: what was found, with the numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Broken(pub String);

impl core::fmt::Display for Broken {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "broken invariant: {}", self.0)
    }
}

/// Returns [`Broken`] with this text from the function unless the condition holds.
#[macro_export]
macro_rules! holds {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err($crate::invariant::Broken($crate::invariant::text(core::format_args!($($text)+))));
        }
    };
}

/// For [`holds!`]: the text of a finding.
#[doc(hidden)]
pub fn text(arguments: core::fmt::Arguments<'_>) -> String {
    alloc::fmt::format(arguments)
}
