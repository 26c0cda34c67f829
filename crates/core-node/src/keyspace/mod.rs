//! Keyspaces (placeholder: helper "keyspaces" writes this module).
