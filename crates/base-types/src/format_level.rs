//! Format levels: which formats on disk and on the wire the nodes of a world may write (decision 0070).
//!
//! A level is a number that only rises. The world has one, kept in its cluster; every node keeps what it has heard of it beside its
//! data. A build writes a gated format only where `level.allows(Feature::…)`, and reads the formats of every level it serves.
//!
//! Always: levels are listed in `LEVELS` without a gap, and each feature has one of them (`levels_have_no_gap_and_features_a_level`). A released level never changes (docs/formats/README.md).
//! Not here: how a world's level is raised (core-backends' `allocator`), how nodes hear of it (core-node's `format_level.rs`).

use alloc::format;
use alloc::string::String;

/// A level of formats.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FormatLevel(pub u16);

impl FormatLevel {
    /// Level 1: the formats of 0.2.0. A world whose cluster names no level has this one.
    pub const FIRST: FormatLevel = FormatLevel(1);

    /// Whether a node whose world is at this level may write what the feature brings.
    pub fn allows(self, feature: Feature) -> bool {
        self >= feature.level()
    }
}

impl Default for FormatLevel {
    fn default() -> Self {
        FormatLevel::FIRST
    }
}

impl core::fmt::Display for FormatLevel {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(out, "{}", self.0)
    }
}

/// The lowest level that this build serves.
pub const LEVEL_MIN: FormatLevel = FormatLevel(1);
/// The greatest level that this build serves. The cargo feature `next-level` adds one, for tests of upgrades.
pub const LEVEL_MAX: FormatLevel = FormatLevel(if cfg!(feature = "next-level") { 2 } else { 1 });
/// The version of this build, as nodes report it.
pub const BUILD_VERSION: &str = if cfg!(feature = "next-level") {
    concat!(env!("CARGO_PKG_VERSION"), "+next-level")
} else {
    env!("CARGO_PKG_VERSION")
};

/// Every level that this source knows, with the version that brought it.
pub const LEVELS: &[(FormatLevel, &str)] = &[(FormatLevel(1), "0.2.0"), (FormatLevel(2), "0.2.0+next-level")];

/// A format that may be written from a level on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Feature {
    /// Entries say format 3 and hold what those of format 2 do. It tries the gates until the first feature of level 2 takes its place.
    TrialEntry,
}

impl Feature {
    /// Every feature with its level.
    pub const ALL: &'static [(Feature, &'static str, FormatLevel)] =
        &[(Feature::TrialEntry, "entries of format 3 (trial)", FormatLevel(2))];

    /// The level from which on it may be written.
    pub const fn level(self) -> FormatLevel {
        match self {
            Feature::TrialEntry => FormatLevel(2),
        }
    }

    /// The version that brought it.
    pub fn since(self) -> &'static str {
        since(self.level()).unwrap_or(BUILD_VERSION)
    }
}

/// The version that brought a level; `None`: this build has not heard of it.
pub fn since(level: FormatLevel) -> Option<&'static str> {
    LEVELS.iter().find(|(known, _)| *known == level).map(|(_, since)| *since)
}

/// What an operator is to install for a level: by its own table, or by what was kept beside the level.
pub fn remedy(level: FormatLevel, kept: Option<&str>) -> String {
    match since(level).or(kept) {
        Some(version) => format!("install hive {version} or later"),
        None => "install the version of hive that the other nodes of the world run (`hive ctl nodes`)".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_no_gap_and_features_a_level() {
        for (place, (level, _)) in LEVELS.iter().enumerate() {
            assert_eq!(usize::from(level.0), place + 1);
        }
        assert!(LEVEL_MIN <= LEVEL_MAX && since(LEVEL_MIN).is_some() && since(LEVEL_MAX).is_some());
        for (feature, _, level) in Feature::ALL {
            assert_eq!(feature.level(), *level);
            assert!(level.allows(*feature) && !FormatLevel(level.0 - 1).allows(*feature));
            assert_eq!(Some(feature.since()), since(*level));
        }
    }

    #[test]
    fn a_level_names_the_version_to_install() {
        assert_eq!(remedy(FormatLevel(1), None), "install hive 0.2.0 or later");
        assert_eq!(remedy(FormatLevel(900), Some("9.1.0")), "install hive 9.1.0 or later");
        assert!(remedy(FormatLevel(900), None).contains("hive ctl nodes"));
    }
}
