//! Deterministic simulation of whole worlds.
