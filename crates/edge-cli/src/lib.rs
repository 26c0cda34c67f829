//! The binary hive.
