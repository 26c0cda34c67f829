//! Something countable, shared out over those who take of it.
//!
//! Always: what is taken is at most the bound of all, and of one source at most the bound of one; sources that hold nothing
//! are not remembered, so memory is bounded by what is held.
//! Held by: `one_source_leaves_room_for_others`.

use std::collections::HashMap;
use std::net::IpAddr;

/// Whose share something counts against: an IPv4 address, or the /64 of an IPv6 address (one host has all of it).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Source(u128);

impl From<IpAddr> for Source {
    fn from(address: IpAddr) -> Source {
        match address.to_canonical() {
            IpAddr::V4(address) => Source(address.to_ipv6_mapped().to_bits()),
            IpAddr::V6(address) => Source(address.to_bits() >> 64 << 64),
        }
    }
}

/// How much there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    pub all: usize,
    pub one: usize,
}

impl Bounds {
    /// One source leaves a quarter to the others.
    pub fn leaving_a_quarter(all: usize) -> Bounds {
        Bounds { all, one: all - all / 4 }
    }
}

/// What is taken, in all and by source.
#[derive(Default, Debug)]
pub struct Shares {
    total: usize,
    by_source: HashMap<Source, usize>,
}

impl Shares {
    /// Takes `amount`, or nothing where a bound would be passed.
    pub fn take(&mut self, source: Source, amount: usize, bounds: Bounds) -> bool {
        let own = self.by_source.get(&source).copied().unwrap_or(0);
        if amount > bounds.all.saturating_sub(self.total) || amount > bounds.one.saturating_sub(own) {
            return false;
        }
        if amount > 0 {
            self.total += amount;
            self.by_source.insert(source, own + amount);
        }
        true
    }

    /// Gives back what was taken.
    pub fn give(&mut self, source: Source, amount: usize) {
        let Some(own) = self.by_source.get_mut(&source) else {
            assert_eq!(amount, 0, "given back without having been taken");
            return;
        };
        assert!(*own >= amount, "more is given back than was taken");
        *own -= amount;
        self.total -= amount;
        if *own == 0 {
            self.by_source.remove(&source);
        }
    }

    /// What is taken in all.
    pub fn total(&self) -> usize {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        text.parse::<IpAddr>().unwrap().into()
    }

    #[test]
    fn one_source_leaves_room_for_others() {
        let bounds = Bounds::leaving_a_quarter(8);
        let (mut shares, one, other) = (Shares::default(), source("10.0.0.1"), source("10.0.0.2"));
        assert!((0..6).all(|_| shares.take(one, 1, bounds)));
        assert!(!shares.take(one, 1, bounds), "more than its share");
        assert!(shares.take(other, 2, bounds));
        assert!(!shares.take(other, 1, bounds), "more than there is");
        shares.give(one, 6);
        shares.give(other, 2);
        assert_eq!((shares.total(), shares.by_source.len()), (0, 0));
        assert!(!shares.take(one, usize::MAX, bounds));
    }

    #[test]
    fn an_ipv6_host_is_one_source() {
        assert_eq!(source("2001:db8::1"), source("2001:db8::ffff:2"));
        assert_ne!(source("2001:db8:0:1::1"), source("2001:db8:0:2::1"));
        assert_eq!(source("::ffff:10.0.0.1"), source("10.0.0.1"));
        assert_ne!(source("10.0.0.1"), source("10.0.0.2"));
    }
}
