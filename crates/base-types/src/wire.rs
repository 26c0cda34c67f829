//! Byte forms of commands, queries, replies and rows, written down once: a type's fields in order.
//!
//! Always: enums begin with their variant's number; lists and byte strings with a varint length that
//! is checked against the bytes that are there (fuzz target `backend_shard`); integers are varints, but where told otherwise.
//! Not here: what the forms mean (docs/formats/s3-rows.md).

use crate::codec::{DecodeError, Reader, Writer};
use crate::s3::{Version, VersionStamp};
use crate::Refusal;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;

/// A thing with one byte form, within a larger one.
pub trait Wire: Sized {
    /// Writes its form.
    fn put(&self, out: &mut Writer);
    /// Reads it back.
    fn take(input: &mut Reader) -> Result<Self, DecodeError>;
}

macro_rules! wire_varint {
    ($($kind:ty),*) => {$(
        impl Wire for $kind {
            fn put(&self, out: &mut Writer) {
                out.varint(u64::from(*self));
            }
            fn take(input: &mut Reader) -> Result<Self, DecodeError> {
                <$kind>::try_from(input.varint(stringify!($kind))?).map_err(|_| DecodeError::TooLarge(stringify!($kind)))
            }
        }
    )*};
}
wire_varint!(u16, u32, u64);

/// Gives types that have an `Encode` of their own the same form within a larger one.
#[macro_export]
macro_rules! wire_encode {
    ($($kind:ty),*) => {$(
        impl base_types::wire::Wire for $kind {
            fn put(&self, out: &mut base_types::codec::Writer) {
                base_types::codec::Encode::encode(self, out);
            }
            fn take(input: &mut base_types::codec::Reader) -> Result<Self, base_types::codec::DecodeError> {
                <$kind as base_types::codec::Encode>::decode(input)
            }
        }
    )*};
}
wire_encode!(Version, VersionStamp, Refusal);

impl Wire for u8 {
    fn put(&self, out: &mut Writer) {
        out.u8(*self);
    }
    fn take(input: &mut Reader) -> Result<Self, DecodeError> {
        input.u8("byte")
    }
}

/// Sixteen bytes, little-endian: sums and tokens, not counts.
impl Wire for u128 {
    fn put(&self, out: &mut Writer) {
        out.u128(*self);
    }
    fn take(input: &mut Reader) -> Result<Self, DecodeError> {
        input.u128("sum")
    }
}

impl Wire for bool {
    fn put(&self, out: &mut Writer) {
        out.bool(*self);
    }
    fn take(input: &mut Reader) -> Result<Self, DecodeError> {
        input.bool("flag")
    }
}

impl Wire for Bytes {
    fn put(&self, out: &mut Writer) {
        out.bytes(self);
    }
    fn take(input: &mut Reader) -> Result<Self, DecodeError> {
        input.bytes("bytes")
    }
}

impl Wire for String {
    fn put(&self, out: &mut Writer) {
        out.string(self);
    }
    fn take(input: &mut Reader) -> Result<Self, DecodeError> {
        input.string("text")
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, out: &mut Writer) {
        out.option(self.as_ref(), |out, value| value.put(out));
    }
    fn take(input: &mut Reader) -> Result<Self, DecodeError> {
        input.option("option", T::take)
    }
}

/// Every element takes at least one byte, so a count is checked by what is left.
impl<T: Wire> Wire for Vec<T> {
    fn put(&self, out: &mut Writer) {
        out.varint(self.len() as u64);
        self.iter().for_each(|value| value.put(out));
    }
    fn take(input: &mut Reader) -> Result<Self, DecodeError> {
        let count = input.count("list")?;
        (0..count).map(|_| T::take(input)).collect()
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn put(&self, out: &mut Writer) {
        self.0.put(out);
        self.1.put(out);
    }
    fn take(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok((A::take(input)?, B::take(input)?))
    }
}

impl<T: Wire> Wire for Result<T, Refusal> {
    fn put(&self, out: &mut Writer) {
        match self {
            Ok(value) => value.put(out.u8(0)),
            Err(refusal) => refusal.put(out.u8(1)),
        }
    }
    fn take(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match input.u8("result")? {
            0 => Ok(T::take(input)?),
            1 => Err(Refusal::take(input)?),
            _ => return Err(DecodeError::Unknown("result")),
        })
    }
}

/// Declares a struct with its byte form: the fields in order.
#[macro_export]
macro_rules! wire_struct {
    ($(#[$meta:meta])* pub struct $name:ident { $($(#[$field_meta:meta])* pub $field:ident: $kind:ty,)* }) => {
        $(#[$meta])*
        pub struct $name { $($(#[$field_meta])* pub $field: $kind,)* }
        impl $crate::wire::Wire for $name {
            fn put(&self, out: &mut base_types::codec::Writer) {
                let _ = &out;
                $($crate::wire::Wire::put(&self.$field, out);)*
            }
            fn take(input: &mut base_types::codec::Reader) -> Result<Self, base_types::codec::DecodeError> {
                let _ = &input;
                Ok($name { $($field: $crate::wire::Wire::take(input)?,)* })
            }
        }
        $crate::encode_by_wire!($name);
    };
}

/// Declares an enum with its byte form: the variant's number, then its fields in order.
#[macro_export]
macro_rules! wire_enum {
    ($(#[$meta:meta])* pub enum $name:ident {
        $($(#[$variant_meta:meta])* $number:literal => $variant:ident $({ $($field:ident: $kind:ty),* $(,)? })?,)*
    }) => {
        $(#[$meta])*
        pub enum $name { $($(#[$variant_meta])* $variant $({ $($field: $kind),* })?,)* }
        impl $crate::wire::Wire for $name {
            fn put(&self, out: &mut base_types::codec::Writer) {
                match self {
                    $($name::$variant $({ $($field),* })? => {
                        out.u8($number);
                        $($($crate::wire::Wire::put($field, out);)*)?
                    })*
                }
            }
            fn take(input: &mut base_types::codec::Reader) -> Result<Self, base_types::codec::DecodeError> {
                Ok(match input.u8(stringify!($name))? {
                    $($number => $name::$variant $({ $($field: $crate::wire::Wire::take(input)?),* })?,)*
                    _ => return Err(base_types::codec::DecodeError::Unknown(stringify!($name))),
                })
            }
        }
        $crate::encode_by_wire!($name);
    };
}

/// Gives a type with a form of its own an `Encode`.
#[macro_export]
macro_rules! encode_by_wire {
    ($name:ident) => {
        impl base_types::codec::Encode for $name {
            fn encode(&self, out: &mut base_types::codec::Writer) {
                $crate::wire::Wire::put(self, out);
            }
            fn decode(input: &mut base_types::codec::Reader) -> Result<Self, base_types::codec::DecodeError> {
                $crate::wire::Wire::take(input)
            }
        }
    };
}
