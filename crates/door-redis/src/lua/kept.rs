//! Libraries of functions as they are kept, and what a thread of the door remembers of them.
//!
//! By design: what is remembered may be out of date. What runs a function watches the version of the hash in which libraries are kept.
//! Not here: how they are read and changed (`script/functions.rs`).

use super::limits::LIBRARIES_REMEMBERED_BYTES_MAX;
use super::machine::Registered;
use base_types::codec::{DecodeError, Reader, Writer};
use base_types::redis::{KeyVersion, LIBRARIES_KEY, SCRIPTS_DATABASE};
use base_types::wire::Wire;
use bytes::Bytes;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// The form of a kept library (docs/formats/backend-redis.md).
const FORM: u8 = 1;

/// A library.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Library {
    pub name: String,
    pub functions: Vec<Registered>,
    /// With its first line.
    pub source: Bytes,
}

/// All of a keyspace, at one moment.
#[derive(Debug)]
pub(crate) struct Libraries {
    /// Of the hash in which they are kept; 0 where there are none.
    pub version: u64,
    pub all: Vec<Library>,
}

impl Library {
    /// Its form (docs/formats/backend-redis.md).
    pub fn encode(&self) -> Bytes {
        let mut out = Writer::with_capacity(self.source.len() + 128);
        out.u8(FORM);
        self.functions.put(&mut out);
        out.raw(&self.source);
        out.finish()
    }

    /// Reads it back.
    pub fn decode(name: &Bytes, value: &Bytes) -> Result<Library, DecodeError> {
        let mut input = Reader::new(value.clone());
        let form = input.u8("form of a library")?;
        if form != FORM {
            return Err(DecodeError::version("a library of functions", form, FORM));
        }
        let functions = Vec::take(&mut input)?;
        let name = String::from_utf8(name.to_vec()).map_err(|_| DecodeError::NotUtf8("name of a library"))?;
        Ok(Library { name, functions, source: input.rest() })
    }

    /// The source without the line that names it; lines are counted as before.
    pub fn body(&self) -> Bytes {
        let end = self.source.iter().position(|byte| *byte == b'\n').unwrap_or(self.source.len());
        self.source.slice(end..)
    }

    /// Whether it has a function of this name.
    pub fn has(&self, function: &str) -> bool {
        self.functions.iter().any(|own| own.name.eq_ignore_ascii_case(function))
    }
}

impl Libraries {
    /// A function, and the library that has it.
    pub fn function(&self, name: &str) -> Option<(&Library, &Registered)> {
        self.all.iter().find_map(|library| {
            let found = library.functions.iter().find(|function| function.name.eq_ignore_ascii_case(name))?;
            Some((library, found))
        })
    }

    /// What a run watches, so that it is aborted where a library has changed.
    pub fn watched(&self) -> KeyVersion {
        KeyVersion { database: SCRIPTS_DATABASE, key: Bytes::from_static(LIBRARIES_KEY), version: self.version }
    }

    pub fn bytes(&self) -> usize {
        self.all.iter().map(|library| library.source.len()).sum()
    }
}

/// The libraries of keyspaces that a thread of the door remembers. They may be out of date: who runs one watches their version.
#[derive(Default)]
pub(crate) struct RememberedLibraries(RefCell<HashMap<String, Rc<Libraries>>>);

impl RememberedLibraries {
    pub fn get(&self, keyspace: &str) -> Option<Rc<Libraries>> {
        self.0.borrow().get(keyspace).cloned()
    }

    pub fn put(&self, keyspace: &str, libraries: &Rc<Libraries>) {
        let mut all = self.0.borrow_mut();
        let bytes: usize = all.values().map(|own| own.bytes() + 128).sum();
        if bytes + libraries.bytes() > LIBRARIES_REMEMBERED_BYTES_MAX {
            all.clear();
        }
        all.insert(keyspace.to_owned(), libraries.clone());
    }

    pub fn forget(&self, keyspace: &str) {
        self.0.borrow_mut().remove(keyspace);
    }
}
