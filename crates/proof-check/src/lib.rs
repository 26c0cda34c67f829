//! Checkers: linearizability, durability ledgers, listings.
