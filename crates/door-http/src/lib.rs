//! The HTTP JSON API: JSON to actions, answers to JSON.
