//! Allocation rules (Hive paper, figure 2 and 2.4):
//!
//! ```text
//! size=5 location=fr-par failure_domain=az consistency=strong read_consistency=strong
//!   repartition=fr-par:2,nl-ams:2,pl-waw:1 exclude=c7,fr-par/1/r2/c9 engine=lmdb
//! ```
//!
//! Words are separated by spaces, in any order, each at most once; none is required. `engine` is
//! Hive's own extension. Absent words mean: size 3, location `world`, failure domain `chassis`,
//! strong, strong, no repartition, nothing excluded, the node's default engine.
//!
//! Always: a parsed rule is consistent in itself (`repartition` sums to `size` and lies inside
//! `location`); `Display` gives text that parses to the same rule.
//! Not here: whether a world can meet the rule (`elect.rs`).

use crate::labels::{check_word, FailureDomain, LabelError};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use base_types::{ErrorCode, ReadConsistency, Refusal, WriteConsistency};
use core::fmt;
use core::str::FromStr;

/// The members of a cluster where a rule names no size.
pub const RULE_SIZE_DEFAULT: usize = 3;
/// The most members a cluster may have: every strong write waits for a majority of them.
pub const RULE_SIZE_MAX: usize = 63;
/// The longest rule, in bytes.
pub const RULE_BYTES_MAX: usize = 4096;
/// The most chassis one rule may exclude.
pub const RULE_EXCLUDES_MAX: usize = 64;

/// The words a rule may hold, as told in errors.
const WORDS: &str = "size, location, failure_domain, consistency, read_consistency, repartition, exclude, engine";

/// Where members may stand.
#[derive(Clone, PartialEq, Eq, Debug, Default, PartialOrd, Ord)]
pub enum Location {
    /// In every region.
    #[default]
    World,
    /// In one region.
    Region(String),
}

impl Location {
    /// Whether a region lies inside.
    pub fn holds(&self, region: &str) -> bool {
        match self {
            Location::World => true,
            Location::Region(own) => own == region,
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Location::World => "world",
            Location::Region(region) => region,
        })
    }
}

/// How a cluster wants its members to stand, and its default levels.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// The number of members.
    pub size: usize,
    /// Where they may stand.
    pub location: Location,
    /// What two of them never share.
    pub failure_domain: FailureDomain,
    /// The level of a write that names none.
    pub consistency: WriteConsistency,
    /// The level of a read that names none.
    pub read_consistency: ReadConsistency,
    /// Exactly so many members in each of these regions; empty: any.
    pub repartition: Vec<(String, usize)>,
    /// Chassis that are not elected, by name or by whole path.
    pub exclude: Vec<String>,
    /// The engine; the node's default where absent.
    pub engine: Option<String>,
}

impl Default for Rule {
    fn default() -> Self {
        Rule {
            size: RULE_SIZE_DEFAULT,
            location: Location::World,
            failure_domain: FailureDomain::Chassis,
            consistency: WriteConsistency::Strong,
            read_consistency: ReadConsistency::Strong,
            repartition: Vec::new(),
            exclude: Vec::new(),
            engine: None,
        }
    }
}

/// Why a text is no rule.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RuleError {
    /// Longer than any rule.
    #[error("rule is {0} bytes long; write at most {RULE_BYTES_MAX}")]
    TooLong(usize),
    /// A word without `=`.
    #[error("rule word '{0}' has no '='; write word=value, for example size=3")]
    NoValue(String),
    /// A word that does not exist.
    #[error("rule word '{0}' is unknown; known are {WORDS}")]
    UnknownWord(String),
    /// A word said twice.
    #[error("rule word '{0}' is there twice; say it once")]
    RepeatedWord(String),
    /// Not a number.
    #[error("rule word '{word}' has the value '{value}'; write a whole number from 1 to {RULE_SIZE_MAX}")]
    BadNumber {
        /// Which word.
        word: &'static str,
        /// What was written.
        value: String,
    },
    /// No members.
    #[error("rule has size=0; write 1 to {RULE_SIZE_MAX}")]
    SizeZero,
    /// Too many members.
    #[error("rule has size={0}; write 1 to {RULE_SIZE_MAX}")]
    SizeTooLarge(usize),
    /// No such failure domain.
    #[error("rule has failure_domain={0}; known are chassis, rack, az, region")]
    UnknownDomain(String),
    /// No such level.
    #[error(
        "rule has {word}={value}; writes know hopeful, eventual, strong, absolute, s3; reads know eventual, strong"
    )]
    UnknownLevel {
        /// Which word.
        word: &'static str,
        /// What was written.
        value: String,
    },
    /// A name that is none.
    #[error("rule word '{word}' has a bad value: {error}")]
    BadName {
        /// Which word.
        word: &'static str,
        /// What is wrong with it.
        error: LabelError,
    },
    /// A part of `repartition` that is not `region:count`.
    #[error("rule word 'repartition' has the part '{0}'; write region:count parted by commas, for example fr-par:2,nl-ams:1")]
    BadRepartition(String),
    /// A region said twice.
    #[error("rule word 'repartition' names region '{0}' twice; say it once with the sum")]
    RepeatedRegion(String),
    /// The parts do not make the whole.
    #[error("rule has size={size}, but its repartition places {sum}; make them equal")]
    RepartitionSum {
        /// What `size` says.
        size: usize,
        /// What `repartition` says.
        sum: usize,
    },
    /// A region that the location bars.
    #[error("rule has location={location}, but its repartition names region '{region}'; write location=world or leave that region out")]
    RepartitionOutside {
        /// The location.
        location: String,
        /// The region.
        region: String,
    },
    /// Several members in one region that must not share a region.
    #[error("rule wants {count} members in region '{region}' and failure_domain=region, which lets one stand there; write a narrower failure_domain or {region}:1")]
    RepartitionSharesDomain {
        /// The region.
        region: String,
        /// How many it should hold.
        count: usize,
    },
    /// More members than there can be domains.
    #[error("rule wants {size} members in location={location} and failure_domain=region, which lets one stand there; write location=world or a narrower failure_domain")]
    SizeSharesDomain {
        /// What `size` says.
        size: usize,
        /// The region.
        location: String,
    },
    /// Too many chassis excluded.
    #[error("rule excludes {0} chassis; exclude at most {RULE_EXCLUDES_MAX}")]
    TooManyExcludes(usize),
    /// A chassis excluded twice.
    #[error("rule word 'exclude' names chassis '{0}' twice; say it once")]
    RepeatedExclude(String),
}

impl From<RuleError> for Refusal {
    fn from(error: RuleError) -> Refusal {
        Refusal::new(ErrorCode::InvalidRule, error.to_string())
    }
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Rule, RuleError> {
        if text.len() > RULE_BYTES_MAX {
            return Err(RuleError::TooLong(text.len()));
        }
        let mut rule = Rule::default();
        let mut seen: Vec<&str> = Vec::new();
        for part in text.split_ascii_whitespace() {
            let (word, value) = part.split_once('=').ok_or_else(|| RuleError::NoValue(part.to_string()))?;
            if seen.contains(&word) {
                return Err(RuleError::RepeatedWord(word.to_string()));
            }
            seen.push(word);
            rule.take_word(word, value)?;
        }
        // A repartition alone says the size.
        if !seen.contains(&"size") && !rule.repartition.is_empty() {
            rule.size = rule.repartition.iter().map(|(_, count)| count).sum();
        }
        rule.check()?;
        Ok(rule)
    }
}

impl Rule {
    fn take_word(&mut self, word: &str, value: &str) -> Result<(), RuleError> {
        match word {
            "size" => self.size = parse_count("size", value)?,
            "location" => self.location = parse_location(value)?,
            "failure_domain" => self.failure_domain = value.parse().map_err(RuleError::UnknownDomain)?,
            "consistency" => {
                self.consistency = value
                    .parse()
                    .map_err(|_| RuleError::UnknownLevel { word: "consistency", value: value.to_string() })?
            }
            "read_consistency" => {
                self.read_consistency = value
                    .parse()
                    .map_err(|_| RuleError::UnknownLevel { word: "read_consistency", value: value.to_string() })?
            }
            "repartition" => self.repartition = parse_repartition(value)?,
            "exclude" => self.exclude = parse_exclude(value)?,
            "engine" => {
                check_word("engine", value).map_err(|error| RuleError::BadName { word: "engine", error })?;
                self.engine = Some(value.to_string());
            }
            other => return Err(RuleError::UnknownWord(other.to_string())),
        }
        Ok(())
    }

    /// What no single word can tell: whether the words agree.
    fn check(&self) -> Result<(), RuleError> {
        if self.size == 0 {
            return Err(RuleError::SizeZero);
        }
        if self.size > RULE_SIZE_MAX {
            return Err(RuleError::SizeTooLarge(self.size));
        }
        if let (Location::Region(region), FailureDomain::Region) = (&self.location, self.failure_domain) {
            if self.size > 1 {
                return Err(RuleError::SizeSharesDomain { size: self.size, location: region.clone() });
            }
        }
        if self.repartition.is_empty() {
            return Ok(());
        }
        for (region, count) in &self.repartition {
            if !self.location.holds(region) {
                return Err(RuleError::RepartitionOutside {
                    location: self.location.to_string(),
                    region: region.clone(),
                });
            }
            if self.failure_domain == FailureDomain::Region && *count > 1 {
                return Err(RuleError::RepartitionSharesDomain { region: region.clone(), count: *count });
            }
        }
        let sum = self.repartition.iter().map(|(_, count)| count).sum();
        if sum != self.size {
            return Err(RuleError::RepartitionSum { size: self.size, sum });
        }
        Ok(())
    }

    /// Whether a chassis is excluded.
    pub fn excludes(&self, labels: &crate::Labels) -> bool {
        self.exclude.iter().any(|name| labels.is_chassis(name))
    }
}

fn parse_count(word: &'static str, value: &str) -> Result<usize, RuleError> {
    // `parse` alone would take "+3".
    let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let number = if digits { value.parse::<usize>().ok() } else { None };
    number.ok_or_else(|| RuleError::BadNumber { word, value: value.to_string() })
}

fn parse_location(value: &str) -> Result<Location, RuleError> {
    if value == "world" {
        return Ok(Location::World);
    }
    check_word("location", value).map_err(|error| RuleError::BadName { word: "location", error })?;
    Ok(Location::Region(value.to_string()))
}

fn parse_repartition(value: &str) -> Result<Vec<(String, usize)>, RuleError> {
    let mut parts: Vec<(String, usize)> = Vec::new();
    for part in value.split(',') {
        let bad = || RuleError::BadRepartition(part.to_string());
        let (region, count) = part.split_once(':').ok_or_else(bad)?;
        check_word("repartition", region).map_err(|_| bad())?;
        let count = parse_count("repartition", count)?;
        if count == 0 {
            return Err(bad());
        }
        if count > RULE_SIZE_MAX {
            return Err(RuleError::SizeTooLarge(count));
        }
        if parts.iter().any(|(known, _)| known == region) {
            return Err(RuleError::RepeatedRegion(region.to_string()));
        }
        parts.push((region.to_string(), count));
    }
    Ok(parts)
}

fn parse_exclude(value: &str) -> Result<Vec<String>, RuleError> {
    let mut names: Vec<String> = Vec::new();
    for name in value.split(',') {
        for word in name.split('/') {
            check_word("exclude", word).map_err(|error| RuleError::BadName { word: "exclude", error })?;
        }
        if names.iter().any(|known| known == name) {
            return Err(RuleError::RepeatedExclude(name.to_string()));
        }
        names.push(name.to_string());
    }
    if names.len() > RULE_EXCLUDES_MAX {
        return Err(RuleError::TooManyExcludes(names.len()));
    }
    Ok(names)
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "size={} location={} failure_domain={} consistency={} read_consistency={}",
            self.size, self.location, self.failure_domain, self.consistency, self.read_consistency
        )?;
        for (place, (region, count)) in self.repartition.iter().enumerate() {
            write!(f, "{}{region}:{count}", if place == 0 { " repartition=" } else { "," })?;
        }
        for (place, name) in self.exclude.iter().enumerate() {
            write!(f, "{}{name}", if place == 0 { " exclude=" } else { "," })?;
        }
        if let Some(engine) = &self.engine {
            write!(f, " engine={engine}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
