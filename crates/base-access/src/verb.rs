//! What may be done to a resource.
//!
//! Always: a verb's bit and word never change: rows hold the words (`tests::words_read_back`).
//! Not here: what they may be done to (pattern.rs).

use core::fmt;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

macro_rules! verbs {
    ($($verb:ident = $bit:literal $word:literal $meaning:literal;)*) => {
        /// What may be done to a resource.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub enum Verb {
            $(#[doc = $meaning] $verb = $bit,)*
        }

        impl Verb {
            /// Every verb.
            pub const ALL: &'static [Verb] = &[$(Verb::$verb,)*];

            /// Its word in rules.
            pub const fn as_str(self) -> &'static str {
                match self { $(Verb::$verb => $word,)* }
            }

            /// What it allows, for the guide.
            pub const fn meaning(self) -> &'static str {
                match self { $(Verb::$verb => $meaning,)* }
            }
        }
    };
}

verbs! {
    Read = 1 "read" "Reads values and objects by their keys.";
    List = 2 "list" "Lists keys, objects, versions and uploads.";
    Write = 4 "write" "Puts values and objects.";
    Delete = 8 "delete" "Deletes keys and objects.";
    Configure = 16 "configure" "Makes, changes and deletes keyspaces and buckets, and reads their settings.";
    Inspect = 32 "inspect" "Sees names, places, sizes and health, but no data.";
    Operate = 64 "operate" "Changes clusters and nodes: members, leaders, engines, recovery.";
    Secure = 128 "secure" "Changes users, roles, tokens, keys and accounts.";
}

/// A set of verbs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Verbs(u8);

impl Verbs {
    /// None.
    pub const NONE: Verbs = Verbs(0);
    /// All.
    pub const ALL: Verbs = Verbs(255);

    /// The set of these.
    pub const fn of(list: &[Verb]) -> Verbs {
        let (mut bits, mut at) = (0, 0);
        while at < list.len() {
            bits |= list[at] as u8;
            at += 1;
        }
        Verbs(bits)
    }

    /// Whether it has this one.
    pub const fn has(self, verb: Verb) -> bool {
        self.0 & verb as u8 != 0
    }

    /// Whether it has none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// What both have.
    pub const fn and(self, other: Verbs) -> Verbs {
        Verbs(self.0 & other.0)
    }

    /// What it has and the other has not.
    pub const fn without(self, other: Verbs) -> Verbs {
        Verbs(self.0 & !other.0)
    }

    fn words(self) -> impl Iterator<Item = &'static str> {
        Verb::ALL.iter().filter(move |verb| self.has(**verb)).map(|verb| verb.as_str())
    }
}

impl fmt::Display for Verbs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Verbs::ALL {
            return f.write_str("all");
        }
        for (at, word) in self.words().enumerate() {
            write!(f, "{}{word}", if at == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl core::str::FromStr for Verbs {
    type Err = String;

    /// `read,list` or `all`.
    fn from_str(text: &str) -> Result<Verbs, String> {
        if text == "all" {
            return Ok(Verbs::ALL);
        }
        let mut bits = 0;
        for word in text.split(',') {
            let verb = Verb::ALL.iter().find(|verb| verb.as_str() == word).ok_or_else(|| {
                let known: Vec<&str> = Verb::ALL.iter().map(|verb| verb.as_str()).collect();
                format!("'{}' is no verb; verbs are {} and all", word.escape_debug(), known.join(", "))
            })?;
            bits |= *verb as u8;
        }
        Ok(Verbs(bits))
    }
}

impl Serialize for Verbs {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Verbs {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Verbs, D::Error> {
        String::deserialize(input)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_read_back() {
        for bits in 1..=255u8 {
            let verbs = Verbs(bits);
            assert_eq!(verbs.to_string().parse::<Verbs>(), Ok(verbs));
        }
        assert_eq!(Verbs::of(&[Verb::Read, Verb::List]).to_string(), "read,list");
        assert!("read,fly".parse::<Verbs>().unwrap_err().contains("'fly' is no verb"));
        assert!("".parse::<Verbs>().is_err());
    }
}
