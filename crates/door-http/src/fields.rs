//! The fields of one JSON object, taken out by name and type.
//!
//! Always: a field of the wrong type, a missing one and one nobody asked for are refused by name.
//! Held by: `near_words_are_found_and_far_ones_are_not`, `golden_requests`.

use crate::json::{clip, Value};
use base64::engine::{general_purpose, DecodePaddingMode};
use base64::Engine as _;
use base_types::{ClusterName, ErrorCode, NodeId, Refusal};
use bytes::Bytes;
use std::borrow::Cow;
use std::str::FromStr;

/// Takes base64 with or without its padding.
const BASE64: general_purpose::GeneralPurpose = general_purpose::GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    general_purpose::GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// An object under inspection.
pub struct Fields<'a> {
    /// The body all borrowed text points into.
    body: &'a Bytes,
    /// What the object is, for messages: `action KvPut`, `step 3`.
    what: Cow<'static, str>,
    list: Vec<(Cow<'a, str>, Value<'a>)>,
}

impl<'a> Fields<'a> {
    /// The fields of `value`, which must be an object.
    pub fn new(body: &'a Bytes, what: impl Into<Cow<'static, str>>, value: Value<'a>) -> Result<Fields<'a>, Refusal> {
        let what = what.into();
        match value {
            Value::Object(list) => Ok(Fields { body, what, list }),
            other => Err(Refusal::new(ErrorCode::InvalidField, format!("{what} is {}; send an object", other.kind()))),
        }
    }

    /// From now on messages call the object this.
    pub fn rename(&mut self, what: impl Into<Cow<'static, str>>) {
        self.what = what.into();
    }

    /// What has not been taken out.
    pub fn rest(self) -> Vec<(Cow<'a, str>, Value<'a>)> {
        self.list
    }

    fn take(&mut self, name: &str) -> Option<Value<'a>> {
        let at = self.list.iter().position(|(known, _)| known == name)?;
        Some(self.list.swap_remove(at).1)
    }

    /// As `take`, with `null` the same as absent.
    fn take_some(&mut self, name: &str) -> Option<Value<'a>> {
        self.take(name).filter(|value| *value != Value::Null)
    }

    fn wrong(&self, name: &str, wanted: &str, got: &Value<'_>) -> Refusal {
        Refusal::new(ErrorCode::InvalidField, format!("{}: field '{name}' is {}; send {wanted}", self.what, got.kind()))
    }

    fn missing(&self, name: &str) -> Refusal {
        Refusal::new(ErrorCode::MissingField, format!("{} needs the field '{name}'; add it", self.what))
    }

    /// A text that may be absent.
    pub fn text(&mut self, name: &str) -> Result<Option<Cow<'a, str>>, Refusal> {
        match self.take_some(name) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(name, "a string", &other)),
        }
    }

    /// A text that must be there.
    pub fn text_needed(&mut self, name: &str) -> Result<Cow<'a, str>, Refusal> {
        self.text(name)?.ok_or_else(|| self.missing(name))
    }

    /// A level or another word with its own parser.
    pub fn word<T: FromStr>(&mut self, name: &str, code: ErrorCode) -> Result<Option<T>, Refusal>
    where
        T::Err: std::fmt::Display,
    {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let parsed = T::from_str(&text);
        parsed.map(Some).map_err(|error| Refusal::new(code, format!("field '{name}' is '{}': {error}", clip(&text))))
    }

    /// A whole number in a range.
    pub fn number(&mut self, name: &str, least: u64, most: u64) -> Result<Option<u64>, Refusal> {
        match self.take_some(name) {
            None => Ok(None),
            Some(Value::Unsigned(value)) if (least..=most).contains(&value) => Ok(Some(value)),
            Some(Value::Unsigned(value)) => {
                let message = format!("{}: field '{name}' is {value}; give {least} to {most}", self.what);
                Err(Refusal::new(ErrorCode::LimitOutOfRange, message))
            }
            Some(other) => Err(self.wrong(name, &format!("a whole number from {least} to {most}"), &other)),
        }
    }

    /// A number that must be there.
    pub fn number_needed(&mut self, name: &str, least: u64, most: u64) -> Result<u64, Refusal> {
        self.number(name, least, most)?.ok_or_else(|| self.missing(name))
    }

    /// A boolean, if it is there.
    pub fn boolean(&mut self, name: &str) -> Result<Option<bool>, Refusal> {
        match self.take_some(name) {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(value)),
            Some(other) => Err(self.wrong(name, "true or false", &other)),
        }
    }

    /// A boolean; false where absent.
    pub fn flag(&mut self, name: &str) -> Result<bool, Refusal> {
        match self.take_some(name) {
            None => Ok(false),
            Some(Value::Bool(value)) => Ok(value),
            Some(other) => Err(self.wrong(name, "true or false", &other)),
        }
    }

    /// Bytes: `<name>` as text, or `<name>_base64`.
    pub fn bytes(&mut self, name: &str, base64_name: &str) -> Result<Option<Bytes>, Refusal> {
        let plain = self.text(name)?;
        match (plain, self.text(base64_name)?) {
            (None, None) => Ok(None),
            (Some(text), None) => Ok(Some(self.shared(text))),
            (None, Some(text)) => self.decode(base64_name, &text).map(Some),
            (Some(_), Some(_)) => {
                let message = format!("{} has both '{name}' and '{base64_name}'; give one", self.what);
                Err(Refusal::new(ErrorCode::InvalidField, message))
            }
        }
    }

    /// Bytes that must be there.
    pub fn bytes_needed(&mut self, name: &str, base64_name: &str) -> Result<Bytes, Refusal> {
        self.bytes(name, base64_name)?.ok_or_else(|| self.missing(name))
    }

    /// A list of byte strings: texts, or `{"base64": …}` where they are no UTF-8.
    pub fn bytes_list(&mut self, name: &str) -> Result<Option<Vec<Bytes>>, Refusal> {
        let Some(items) = self.list_of(name)? else { return Ok(None) };
        let item = |item: Value<'a>| match item {
            Value::Text(text) => Ok(self.shared(text)),
            Value::Object(_) => {
                let mut fields = Fields::new(self.body, format!("an item of '{name}'"), item)?;
                fields.only(&["base64"], &[])?;
                let text = fields.text_needed("base64")?;
                self.decode(name, &text)
            }
            other => Err(self.wrong(name, "a list of strings", &other)),
        };
        items.into_iter().map(item).collect::<Result<Vec<Bytes>, Refusal>>().map(Some)
    }

    /// A list of anything.
    pub fn list_of(&mut self, name: &str) -> Result<Option<Vec<Value<'a>>>, Refusal> {
        match self.take_some(name) {
            None => Ok(None),
            Some(Value::List(items)) => Ok(Some(items)),
            Some(other) => Err(self.wrong(name, "a list", &other)),
        }
    }

    /// A cluster's name.
    pub fn cluster(&mut self, name: &str) -> Result<Option<ClusterName>, Refusal> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        text.parse()
            .map(Some)
            .map_err(|error: base_types::NameError| Refusal::new(ErrorCode::InvalidClusterName, error.to_string()))
    }

    /// A cluster's name that must be there.
    pub fn cluster_needed(&mut self, name: &str) -> Result<ClusterName, Refusal> {
        self.cluster(name)?.ok_or_else(|| self.missing(name))
    }

    /// A node's id.
    pub fn node(&mut self, name: &str) -> Result<Option<NodeId>, Refusal> {
        Ok(self.number(name, 1, u64::MAX)?.map(NodeId))
    }

    /// A node by id, which must be there.
    pub fn node_needed(&mut self, name: &str) -> Result<NodeId, Refusal> {
        self.number_needed(name, 1, u64::MAX).map(NodeId)
    }

    /// Refuses a field that is neither of `own` nor of `common`. Called before any is taken, so that a
    /// misspelt field is reported as such and not as a missing one.
    pub fn only(&self, own: &[&'static str], common: &[&'static str]) -> Result<(), Refusal> {
        let unknown = |name: &str| !own.contains(&name) && !common.contains(&name);
        let Some((name, _)) = self.list.iter().find(|(name, _)| unknown(name)) else { return Ok(()) };
        let known = [own, common].concat();
        let near = near(name, known.iter().copied());
        let hint = near.map_or(String::new(), |near| format!("; did you mean '{near}'?"));
        let message = format!("{} has no field '{}'; it knows {}{hint}", self.what, clip(name), known.join(", "));
        Err(Refusal::new(ErrorCode::UnknownField, message))
    }

    /// Text as bytes: a slice of the body where it was borrowed from it.
    fn shared(&self, text: Cow<'a, str>) -> Bytes {
        match text {
            Cow::Borrowed(text) if !text.is_empty() => self.body.slice_ref(text.as_bytes()),
            Cow::Borrowed(_) => Bytes::new(),
            Cow::Owned(text) => Bytes::from(text),
        }
    }

    fn decode(&self, name: &str, text: &str) -> Result<Bytes, Refusal> {
        let decoded = BASE64.decode(text);
        decoded.map(Bytes::from).map_err(|error| {
            let reason = error.to_string().to_lowercase();
            let message = format!(
                "{}: '{name}' is not base64 ({}); encode its bytes in the standard alphabet",
                self.what,
                reason.trim_end_matches('.')
            );
            Refusal::new(ErrorCode::InvalidField, message)
        })
    }
}

/// The longest word that is compared with known ones.
const NEAR_BYTES_MAX: usize = 32;

/// The known word a client may have meant.
pub fn near<'k>(word: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    if word.len() > NEAR_BYTES_MAX {
        return None;
    }
    let lower = word.to_ascii_lowercase();
    let scored = known.map(|known| (distance(lower.as_bytes(), known.to_ascii_lowercase().as_bytes()), known));
    scored
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, known)| *distance <= 1 + known.len() / 4)
        .map(|(_, known)| known)
}

/// How many letters must be added, removed or changed (Levenshtein).
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, &left) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &right) in b.iter().enumerate() {
            let changed = diagonal + usize::from(left != right);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_found_and_far_ones_are_not() {
        let known = ["KvPut", "KvGet", "KvDelete"];
        assert_eq!(near("kvput", known.into_iter()), Some("KvPut"));
        assert_eq!(near("KvDelte", known.into_iter()), Some("KvDelete"));
        assert_eq!(near("PutObject", known.into_iter()), None);
        assert_eq!(near(&"x".repeat(1_000_000), known.into_iter()), None);
    }

    #[test]
    fn base64_needs_no_padding() {
        let body = Bytes::from_static(br#"{"v_base64":"/w","w_base64":"/w=="}"#);
        let mut fields = Fields::new(&body, "test", crate::json::parse(&body).unwrap()).unwrap();
        assert_eq!(fields.bytes("v", "v_base64").unwrap().unwrap(), &[0xff][..]);
        assert_eq!(fields.bytes("w", "w_base64").unwrap().unwrap(), &[0xff][..]);
        assert_eq!(fields.only(&["v"], &[]), Ok(()), "all fields are taken");
    }
}
