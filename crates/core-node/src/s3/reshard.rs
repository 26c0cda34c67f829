//! Splits and merges of shards, run in the background.
