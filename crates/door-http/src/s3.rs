//! The S3 calls in JSON: an object's fields to an [`S3Action`], an [`S3Answer`] to fields.
//!
//! The fields are those of the structs in `base_types::s3`, read by name; unknown, missing and wrong
//! ones are refused by name, as for every other action. What S3 calls have in common (bytes, stored
//! headers, conditions, checksums) is grouped in those structs and flat in JSON: [`GROUPS`].

use crate::json::{clip, Value};
use base_types::s3::{Data, S3Action, S3Answer, S3ErrorCode, INLINE_BYTES_MAX};
use base_types::{ErrorCode, Refusal};
use md5::Digest as _;
use serde::de::{self, value::StrDeserializer, DeserializeSeed, Deserializer, IntoDeserializer, Visitor};
use std::borrow::Cow;
use std::fmt;

/// A field of a struct, the calls that have it, and the JSON fields that go into it.
struct Group {
    field: &'static str,
    calls: &'static [&'static str],
    members: &'static [&'static str],
    /// What the members' names begin with in JSON beside their own.
    prefix: &'static str,
}

const GROUPS: &[Group] = &[
    Group { field: "data", calls: &["PutObject", "UploadPart"], members: &["body_base64", "location"], prefix: "" },
    Group {
        field: "headers",
        calls: &["PutObject", "CopyObject", "CreateMultipartUpload"],
        members: &[
            "content_type",
            "content_encoding",
            "content_language",
            "content_disposition",
            "cache_control",
            "expires",
            "website_redirect_location",
            "storage_class",
            "server_side_encryption",
            "metadata",
        ],
        prefix: "",
    },
    Group {
        field: "conditions",
        calls: &["PutObject", "CopyObject", "CompleteMultipartUpload", "DeleteObject"],
        members: &["if_match", "if_none_match", "if_match_last_modified_ms", "if_match_size"],
        prefix: "",
    },
    Group { field: "conditions", calls: &["GetObject", "HeadObject"], members: READ_CONDITIONS, prefix: "" },
    Group { field: "copy_source_conditions", calls: &["CopyObject"], members: READ_CONDITIONS, prefix: "copy_source_" },
    Group {
        field: "checksums",
        calls: &["PutObject", "UploadPart", "CompleteMultipartUpload"],
        members: &[
            "checksum_crc32",
            "checksum_crc32c",
            "checksum_crc64nvme",
            "checksum_sha1",
            "checksum_sha256",
            "checksum_type",
        ],
        prefix: "",
    },
];

const READ_CONDITIONS: &[&str] = &["if_match", "if_none_match", "if_modified_since_ms", "if_unmodified_since_ms"];

/// Whether a request of this name is an S3 call.
pub(crate) fn is_call(name: &str) -> bool {
    S3Action::NAMES.contains(&name)
}

/// The calls that are about no one bucket, or say themselves whose it must be.
const WITHOUT_OWNER: &[&str] = &[
    "CreateAccount",
    "DeleteAccount",
    "ListAccounts",
    "CreateAccessKey",
    "GetAccessKey",
    "SealAccessKey",
    "DeleteAccessKey",
    "ListAccessKeys",
    "CreateBucket",
    "DeleteBucket",
    "ListBuckets",
    "ListFreedData",
    "ForgetFreedData",
];

/// Whether a call of this name takes the field `expected_bucket_owner` beside its own.
pub(crate) fn names_owner_beside(name: &str) -> bool {
    !WITHOUT_OWNER.contains(&name)
}

/// Reads the call of this name from what is left of the body when the common fields are taken out.
pub(crate) fn parse(name: &str, fields: Vec<(Cow<'_, str>, Value<'_>)>) -> Result<S3Action, Refusal> {
    let parsed = S3Action::read(name, Tree(Value::Object(grouped(name, fields))));
    let parsed = parsed.unwrap_or_else(|| {
        Err(Wrong::new(ErrorCode::UnknownAction, "it is no S3 call; docs/guides/api lists them".to_owned()))
    });
    let mut call = parsed.map_err(|wrong| {
        let flat = if wrong.code == ErrorCode::UnknownField { flat_fields(name) } else { String::new() };
        Refusal::new(wrong.code, format!("action {name}: {}{flat}", wrong.message))
    })?;
    match &mut call {
        S3Action::PutObject(put) => describe_bytes(name, &put.data, &mut put.size, &mut put.etag)?,
        S3Action::UploadPart(part) => describe_bytes(name, &part.data, &mut part.size, &mut part.etag)?,
        _ => {}
    }
    Ok(call)
}

/// Moves the members of groups into their group. One that is given already keeps what it has.
fn grouped<'a>(call: &str, fields: Vec<(Cow<'a, str>, Value<'a>)>) -> Vec<(Cow<'a, str>, Value<'a>)> {
    let mut out: Vec<(Cow<'a, str>, Value<'a>)> = Vec::with_capacity(fields.len());
    for (name, value) in fields {
        let group = GROUPS.iter().filter(|group| group.calls.contains(&call)).find_map(|group| {
            let inner = name.strip_prefix(group.prefix)?;
            let member = group.members.iter().find(|member| **member == inner)?;
            Some((group.field, *member))
        });
        let Some((field, member)) = group else {
            out.push((name, value));
            continue;
        };
        if value == Value::Null {
            continue;
        }
        match out.iter_mut().find(|(known, _)| known == field) {
            Some((_, Value::Object(inner))) => inner.push((member.into(), value)),
            _ => out.push((field.into(), Value::Object(vec![(member.into(), value)]))),
        }
    }
    out
}

fn flat_fields(call: &str) -> String {
    let groups = GROUPS.iter().filter(|group| group.calls.contains(&call));
    groups
        .flat_map(|group| group.members.iter().map(|member| format!(", {}{member}", group.prefix)))
        .collect::<Vec<_>>()
        .concat()
}

/// Length and MD5 of inline bytes are computed here where the client leaves them out; of bytes that
/// are elsewhere only the client knows them.
fn describe_bytes(call: &str, data: &Data, size: &mut u64, etag: &mut String) -> Result<(), Refusal> {
    let Data::Inline(bytes) = data else {
        if etag.is_empty() {
            let message = format!("action {call}: needs the field 'etag' where the bytes are at a location; add it");
            return Err(Refusal::new(ErrorCode::MissingField, message));
        }
        return Ok(());
    };
    if bytes.len() > INLINE_BYTES_MAX {
        let message = format!(
            "action {call}: body_base64 has {} bytes, and at most {INLINE_BYTES_MAX} are kept inline; put larger ones into a \
             data store and name them by 'location'",
            bytes.len()
        );
        return Err(S3ErrorCode::EntityTooLarge.because(message));
    }
    if *size != 0 && *size != bytes.len() as u64 {
        let message = format!(
            "action {call}: field 'size' is {size}, but body_base64 has {} bytes; correct it, or leave it out",
            bytes.len()
        );
        return Err(Refusal::new(ErrorCode::InvalidField, message));
    }
    *size = bytes.len() as u64;
    if etag.is_empty() {
        *etag = md5::Md5::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    }
    Ok(())
}

/// Writes an answer's fields, each with a comma before it.
pub(crate) fn write_answer(answer: &S3Answer, out: &mut Vec<u8>) {
    write_fields(out, |out| answer.write(&mut serde_json::Serializer::new(out)));
}

/// Writes the fields of what `write` writes as an object, each with a comma before it.
pub(crate) fn write_fields(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> Result<(), serde_json::Error>) {
    let start = out.len();
    // Writing to memory what has only text, numbers and lists in it cannot fail; a field is not lost silently.
    if let Err(error) = write(out) {
        out.truncate(start);
        out.extend_from_slice(b",\"unwritable\":");
        crate::json::write_text(&error.to_string(), out);
        return;
    }
    // `{"a":1}` becomes `,"a":1`, `{}` becomes nothing.
    out.pop();
    if out.len() == start + 1 {
        out.pop();
    } else {
        out[start] = b',';
    }
}

/// A refusal in the making.
#[derive(Debug)]
pub(crate) struct Wrong {
    pub(crate) code: ErrorCode,
    pub(crate) message: String,
}

impl Wrong {
    fn new(code: ErrorCode, message: String) -> Wrong {
        Wrong { code, message }
    }

    fn inside(self, name: &str) -> Wrong {
        // Only wrong values tell where they are; the others name their field themselves.
        if self.code != ErrorCode::InvalidField {
            return self;
        }
        Wrong { message: format!("field '{}': {}", clip(name), self.message), ..self }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Wrong {}

impl de::Error for Wrong {
    fn custom<T: fmt::Display>(message: T) -> Wrong {
        Wrong::new(ErrorCode::InvalidField, message.to_string())
    }
    fn missing_field(field: &'static str) -> Wrong {
        Wrong::new(ErrorCode::MissingField, format!("needs the field '{field}'; add it"))
    }
    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Wrong {
        let message = format!("there is no field '{}'; known are {}", clip(field), expected.join(", "));
        Wrong::new(ErrorCode::UnknownField, message)
    }
    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Wrong {
        Wrong::new(
            ErrorCode::InvalidField,
            format!("'{}' is not known; known are {}", clip(variant), expected.join(", ")),
        )
    }
    fn invalid_type(got: de::Unexpected<'_>, expected: &dyn de::Expected) -> Wrong {
        let got = match got {
            de::Unexpected::Str(text) => format!("the text '{}'", clip(text)),
            other => other.to_string(),
        };
        Wrong::new(ErrorCode::InvalidField, format!("is {got}; send {}", in_words(expected.to_string())))
    }
}

/// What serde expects, in words of JSON.
fn in_words(expected: String) -> String {
    match expected.as_str() {
        "u8" | "u16" | "u32" | "u64" | "i32" | "i64" => "a whole number".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "an object".to_owned(),
        "a boolean" => "true or false".to_owned(),
        _ => expected,
    }
}

/// A parsed value as serde reads it.
pub(crate) struct Tree<'a>(pub(crate) Value<'a>);

impl<'de> Deserializer<'de> for Tree<'de> {
    type Error = Wrong;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(value),
            Value::Unsigned(value) => visitor.visit_u64(value),
            Value::Number(value) => visitor.visit_f64(value),
            Value::Text(Cow::Borrowed(text)) => visitor.visit_borrowed_str(text),
            Value::Text(Cow::Owned(text)) => visitor.visit_string(text),
            Value::List(items) => visitor.visit_seq(Items(items.into_iter())),
            Value::Object(fields) => visitor.visit_map(Members { rest: fields.into_iter(), value: None }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self.0 {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        match self.0 {
            Value::Text(word) => visitor.visit_enum(Choice { word, content: None }),
            Value::Object(mut fields) if fields.len() == 1 => match fields.pop() {
                Some((word, content)) => visitor.visit_enum(Choice { word, content: Some(content) }),
                None => Err(Wrong::new(ErrorCode::InvalidField, "is empty; send one word".to_owned())),
            },
            other => {
                let message = format!("is {}; send one of {}", other.kind(), variants.join(", "));
                Err(Wrong::new(ErrorCode::InvalidField, message))
            }
        }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

struct Items<'a>(std::vec::IntoIter<Value<'a>>);

impl<'de> de::SeqAccess<'de> for Items<'de> {
    type Error = Wrong;
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Wrong> {
        self.0.next().map(|value| seed.deserialize(Tree(value))).transpose()
    }
}

struct Members<'a> {
    rest: std::vec::IntoIter<(Cow<'a, str>, Value<'a>)>,
    value: Option<(Cow<'a, str>, Value<'a>)>,
}

impl<'de> de::MapAccess<'de> for Members<'de> {
    type Error = Wrong;
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Wrong> {
        // A field that is null is one that is not there, as for every other action.
        let next = self.rest.by_ref().find(|(_, value)| *value != Value::Null);
        let Some((name, value)) = next else { return Ok(None) };
        let key: StrDeserializer<'_, Wrong> = (*name).into_deserializer();
        let key = seed.deserialize(key)?;
        self.value = Some((name, value));
        Ok(Some(key))
    }
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Wrong> {
        match self.value.take() {
            Some((name, value)) => seed.deserialize(Tree(value)).map_err(|wrong| wrong.inside(&name)),
            None => Err(Wrong::new(ErrorCode::InvalidField, "a value without a name".to_owned())),
        }
    }
}

struct Choice<'a> {
    word: Cow<'a, str>,
    content: Option<Value<'a>>,
}

impl<'de> de::EnumAccess<'de> for Choice<'de> {
    type Error = Wrong;
    type Variant = Content<'de>;
    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Content<'de>), Wrong> {
        let word: StrDeserializer<'_, Wrong> = (*self.word).into_deserializer();
        Ok((seed.deserialize(word)?, Content(self.content)))
    }
}

struct Content<'a>(Option<Value<'a>>);

impl<'de> de::VariantAccess<'de> for Content<'de> {
    type Error = Wrong;
    fn unit_variant(self) -> Result<(), Wrong> {
        match self.0 {
            None => Ok(()),
            Some(value) => Err(Wrong::new(
                ErrorCode::InvalidField,
                format!("has {} beside the word; send the word alone", value.kind()),
            )),
        }
    }
    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Wrong> {
        match self.0 {
            Some(value) => seed.deserialize(Tree(value)),
            None => Err(Wrong::new(ErrorCode::InvalidField, "has a word alone; send a value beside it".to_owned())),
        }
    }
    fn tuple_variant<V: Visitor<'de>>(self, _length: usize, visitor: V) -> Result<V::Value, Wrong> {
        Tree(self.0.unwrap_or(Value::Null)).deserialize_any(visitor)
    }
    fn struct_variant<V: Visitor<'de>>(self, _fields: &'static [&'static str], visitor: V) -> Result<V::Value, Wrong> {
        Tree(self.0.unwrap_or(Value::Null)).deserialize_any(visitor)
    }
}

#[cfg(test)]
mod tests;
