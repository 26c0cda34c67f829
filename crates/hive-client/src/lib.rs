//! The Rust client.
