//! Where a node stands, and which part of that counts as one failure domain.
//!
//! By design: domains nest. Az `1` of `fr-par` and az `1` of `nl-ams` are two domains, because an
//! instance is named by its whole path (`fr-par/1`), never by its last word.

use alloc::format;
use alloc::string::{String, ToString};
use base_types::codec::{DecodeError, Encode, Reader, Writer};
use core::fmt;
use core::str::FromStr;

/// The longest label, in bytes.
pub const LABEL_BYTES_MAX: usize = 64;

/// Where a node stands, widest first.
#[derive(Clone, PartialEq, Eq, Debug, Default, PartialOrd, Ord, Hash)]
pub struct Labels {
    /// For example `fr-par`.
    pub region: String,
    /// The availability zone, named within its region.
    pub az: String,
    /// The rack, named within its az.
    pub rack: String,
    /// The chassis, named within its rack.
    pub chassis: String,
}

/// Why a label cannot be taken.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LabelError {
    /// Nothing was said.
    #[error("label '{0}' is empty; every node names its region, az, rack and chassis")]
    Empty(&'static str),
    /// Too long.
    #[error("label '{label}' is {bytes} bytes long; at most {LABEL_BYTES_MAX} are taken")]
    TooLong {
        /// Which label.
        label: &'static str,
        /// How long it is.
        bytes: usize,
    },
    /// A character that would make a rule or a path ambiguous.
    #[error("label '{label}' holds '{character}'; letters, digits, '-', '_' and '.' are taken")]
    BadCharacter {
        /// Which label.
        label: &'static str,
        /// The first such character.
        character: char,
    },
    /// A region that would mean every region.
    #[error("a region cannot be called 'world': in a rule that word means every region")]
    World,
}

impl Labels {
    /// Refuses labels that a rule could not name.
    pub fn check(&self) -> Result<(), LabelError> {
        for (label, value) in
            [("region", &self.region), ("az", &self.az), ("rack", &self.rack), ("chassis", &self.chassis)]
        {
            check_word(label, value)?;
        }
        if self.region == "world" {
            return Err(LabelError::World);
        }
        Ok(())
    }

    /// The name of the failure domain this node stands in, for example `fr-par/1` for an az.
    pub fn domain(&self, domain: FailureDomain) -> String {
        match domain {
            FailureDomain::Region => self.region.clone(),
            FailureDomain::Az => format!("{}/{}", self.region, self.az),
            FailureDomain::Rack => format!("{}/{}/{}", self.region, self.az, self.rack),
            FailureDomain::Chassis => format!("{}/{}/{}/{}", self.region, self.az, self.rack, self.chassis),
        }
    }

    /// Whether `name` means this node's chassis: its own name, or its whole path (`fr-par/1/r2/c7`)
    /// where the same name stands in several racks.
    pub fn is_chassis(&self, name: &str) -> bool {
        if name.contains('/') {
            self.domain(FailureDomain::Chassis) == name
        } else {
            self.chassis == name
        }
    }
}

/// Refuses a word that is empty, too long, or holds a character a rule gives another meaning.
pub(crate) fn check_word(label: &'static str, value: &str) -> Result<(), LabelError> {
    if value.is_empty() {
        return Err(LabelError::Empty(label));
    }
    if value.len() > LABEL_BYTES_MAX {
        return Err(LabelError::TooLong { label, bytes: value.len() });
    }
    let fits = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    match value.chars().find(|c| !fits(c)) {
        Some(character) => Err(LabelError::BadCharacter { label, character }),
        None => Ok(()),
    }
}

impl Encode for Labels {
    fn encode(&self, out: &mut Writer) {
        out.string(&self.region).string(&self.az).string(&self.rack).string(&self.chassis);
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let labels = Labels {
            region: bounded(input, "region")?,
            az: bounded(input, "az")?,
            rack: bounded(input, "rack")?,
            chassis: bounded(input, "chassis")?,
        };
        Ok(labels)
    }
}

fn bounded(input: &mut Reader, what: &'static str) -> Result<String, DecodeError> {
    let text = input.string(what)?;
    if text.len() > LABEL_BYTES_MAX {
        return Err(DecodeError::TooLarge(what));
    }
    Ok(text)
}

/// What may fail as one; members of a cluster each stand in their own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub enum FailureDomain {
    /// One machine (the default).
    #[default]
    Chassis,
    /// One rack.
    Rack,
    /// One availability zone.
    Az,
    /// One region.
    Region,
}

impl FailureDomain {
    /// All of them, narrowest first.
    pub const ALL: [FailureDomain; 4] = [Self::Chassis, Self::Rack, Self::Az, Self::Region];

    /// The word used in rules.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Chassis => "chassis",
            Self::Rack => "rack",
            Self::Az => "az",
            Self::Region => "region",
        }
    }
}

impl fmt::Display for FailureDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for FailureDomain {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|domain| domain.name() == text).ok_or_else(|| text.to_string())
    }
}
