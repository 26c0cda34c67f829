//! Byte forms of commands, queries, replies and rows: base-types has the trait and the macros; here are the types of this crate that have
//! an `Encode` of their own.
//! Not here: what the forms mean (docs/formats/s3-rows.md, docs/formats/backend-versioned.md).

use crate::memory::{Carried, MemoryPage};
pub(crate) use base_types::wire::Wire;
pub(crate) use base_types::{wire_enum, wire_struct};

base_types::wire_encode!(Carried, MemoryPage);
