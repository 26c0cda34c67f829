//! Clients that upload in parts, and walks over pages of one snapshot.
//!
//! ```text
//!   Create ──▶ Part ──▶ Part ──▶ Complete (a put, in the history)
//!                         └────▶ Abort
//! ```
//!
//! Always: an upload's value in the history is the ETag that its parts come to, and no two uploads have one in common.
//! Not here: retries and history (`load`), whole puts (`s3_load`).

use crate::random::Random;
use crate::s3_load;
use base_types::action::{Action, ActionResult};
use base_types::s3::etag::multipart_etag;
use base_types::s3::{
    AbortMultipartUpload, CompleteMultipartUpload, CompletedPart, CreateMultipartUpload, Data, ListMultipartUploads,
    ListObjectsV2, ListParts, S3Action, S3Answer, UploadPart, Uploads, PART_BYTES_MIN,
};
use bytes::Bytes;
use proof_check::{Operation, Violation};
use std::collections::{BTreeMap, BTreeSet};

/// What became of an upload that was begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It is under way.
    Open,
    /// Its end was asked for; whether it came is not known.
    Doubtful,
    /// It was completed or aborted.
    Ended,
}

/// Every upload whose id a client received, by bucket.
pub type Fates = BTreeMap<(usize, String), Fate>;

/// Places of parts that are surely there, by bucket and key.
pub type Places = BTreeMap<(usize, String), Vec<String>>;

/// Of so many parts one is sent, and then sent again, other than it was.
const AGAIN_ONE_IN: u64 = 4;

#[derive(Clone)]
struct Part {
    etag: String,
    data: Data,
    size: u64,
}

/// One upload, as its client goes through it.
pub struct Upload {
    pub bucket: usize,
    key: Bytes,
    pub id: Option<String>,
    parts: Vec<Part>,
    /// What is sent, in order: a part's number and what it is then. A part that is sent again is another one.
    sends: Vec<(usize, Part)>,
    uploaded: usize,
    /// Parts that were listed before the end, page by page of one.
    listed: usize,
    abort: bool,
}

/// What its client asks next.
pub enum Next {
    /// Nothing that the history knows.
    Call(S3Action),
    /// The object is made.
    Put(Operation, S3Action),
}

impl Upload {
    /// A new one. Parts but the last must be large, so their bytes are said to be elsewhere.
    pub fn draw(random: &mut Random, client: usize, written: u64, bucket: usize) -> Upload {
        let count = random.between(1, 3);
        let part = |number: u64, time: u64| {
            let etag = format!("{client:08x}{number:03x}{time:01x}{written:020x}");
            match number < count {
                true => Part { data: Data::Location(format!("place/{etag}")), size: PART_BYTES_MIN, etag },
                false => Part { data: Data::Inline(Bytes::from(etag.clone())), size: etag.len() as u64, etag },
            }
        };
        let (mut parts, mut sends) = (Vec::new(), Vec::new());
        for number in 1..=count {
            let again = u64::from(random.below(AGAIN_ONE_IN) == 0);
            sends.extend((0..=again).map(|time| (number as usize, part(number, time))));
            parts.push(part(number, again));
        }
        let key = s3_load::key(random);
        // A page of a single part has no next page.
        let listed = if parts.len() == 1 { 1 } else { 0 };
        Upload { bucket, key, id: None, parts, sends, uploaded: 0, listed, abort: random.per_mille(200) }
    }

    fn key(&self) -> String {
        String::from_utf8_lossy(&self.key).into_owned()
    }

    /// The next call, on the bucket of this name.
    pub fn next(&self, bucket: &str) -> Next {
        let (bucket, key) = (bucket.to_string(), self.key());
        let Some(upload_id) = self.id.clone() else {
            return Next::Call(CreateMultipartUpload { bucket, key, ..CreateMultipartUpload::default() }.into());
        };
        if let Some((number, part)) = self.sends.get(self.uploaded) {
            let (part_number, data) = (*number as u32, part.data.clone());
            let (size, etag) = (part.size, part.etag.clone());
            let call = UploadPart { bucket, key, upload_id, part_number, data, size, etag, ..UploadPart::default() };
            return Next::Call(call.into());
        }
        if self.listed < self.parts.len() {
            let part_number_marker = (self.listed > 0).then_some(self.listed as u32);
            return Next::Call(ListParts { bucket, key, upload_id, max_parts: Some(1), part_number_marker }.into());
        }
        if self.abort {
            return Next::Call(
                AbortMultipartUpload { bucket, key, upload_id, if_match_initiated_time_ms: None }.into(),
            );
        }
        let named = (1..).zip(&self.parts).map(|(part_number, part)| CompletedPart {
            part_number,
            etag: part.etag.clone(),
            ..CompletedPart::default()
        });
        let parts = named.collect();
        let call = CompleteMultipartUpload { bucket, key, upload_id, parts, ..CompleteMultipartUpload::default() };
        let value = Bytes::from(multipart_etag(self.parts.iter().map(|part| part.etag.as_str())));
        Next::Put(Operation::Put { key: self.key.clone(), value }, call.into())
    }

    /// The key and the place of the part that goes next, if its bytes are elsewhere.
    pub fn place(&self) -> Option<(String, String)> {
        match &self.sends.get(self.uploaded).filter(|_| self.id.is_some())?.1.data {
            Data::Location(place) => Some((self.key(), place.clone())),
            _ => None,
        }
    }

    /// Whether the next call ends it.
    pub fn is_ending(&self) -> bool {
        self.id.is_some() && self.uploaded == self.sends.len() && self.listed == self.parts.len()
    }

    /// A page of one part shows the next one as it is, and whether there are more.
    pub fn check_page(&self, answer: &S3Answer) -> Option<Violation> {
        let S3Answer::Parts(page) = answer else { return None };
        let (number, part) = (self.listed + 1, self.parts.get(self.listed)?);
        let shown: Vec<_> = page.parts.iter().map(|part| (part.part_number as usize, part.etag.as_str())).collect();
        let right = shown == [(number, part.etag.as_str())] && page.is_truncated == (number < self.parts.len());
        (!right).then(|| {
            let message =
                format!("behind part {} of {:?} came {shown:?}, more: {}", self.listed, self.id, page.is_truncated);
            Violation::new("uploads", message, vec![])
        })
    }

    /// Its call was answered well. False: it is over.
    pub fn went_well(&mut self, answer: Option<&S3Answer>) -> bool {
        match (self.is_ending(), answer) {
            (true, _) => return false,
            (false, Some(S3Answer::UploadCreated(created))) => self.id = Some(created.upload_id.clone()),
            (false, Some(S3Answer::Parts(_))) => self.listed += 1,
            (false, _) => self.uploaded += 1,
        }
        true
    }
}

/// The value of an object of several parts, if its parts are whole and those its ETag was made of.
pub fn value_of_parts(etag: &str, data: &Data) -> Option<Bytes> {
    let Data::Parts(parts) = data else { return None };
    let whole = parts.iter().all(|part| match &part.data {
        Data::Inline(bytes) => bytes[..] == *part.etag.as_bytes() && part.size == bytes.len() as u64,
        Data::Location(place) => *place == format!("place/{}", part.etag) && part.size == PART_BYTES_MIN,
        Data::Parts(_) => false,
    });
    let sum = multipart_etag(parts.iter().map(|part| part.etag.as_str()));
    (whole && sum == etag).then(|| Bytes::from(sum))
}

/// The first call of a walk over all of a bucket at one instant.
pub fn walk(random: &mut Random, bucket: &str) -> S3Action {
    let max_keys = Some(*random.pick(&[2, 5, 9]));
    ListObjectsV2 { bucket: bucket.to_string(), max_keys, snapshot: true, ..ListObjectsV2::default() }.into()
}

/// Whether an answer was a page of a snapshot with more pages: it is kept, and the action becomes that for the next
/// page.
pub fn goes_on(action: &mut Action, walked: &mut Vec<(Bytes, Bytes)>, result: &ActionResult) -> bool {
    let (Action::S3(S3Action::ListObjectsV2(call)), ActionResult::S3(S3Answer::ObjectPage(page))) = (action, result)
    else {
        return false;
    };
    let Some(token) = page.next_continuation_token.clone().filter(|_| call.snapshot && page.is_truncated) else {
        return false;
    };
    let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    walked.extend(page.contents.iter().map(|entry| (bytes(&entry.key), bytes(&entry.etag))));
    call.continuation_token = Some(token);
    true
}

/// The call for a page of a bucket's uploads.
pub fn list_uploads(bucket: &str, behind: Option<&Uploads>, max_uploads: u32) -> S3Action {
    ListMultipartUploads {
        bucket: bucket.to_string(),
        key_marker: behind.and_then(|page| page.next_key_marker.clone()),
        upload_id_marker: behind.and_then(|page| page.next_upload_id_marker.clone()),
        max_uploads: Some(max_uploads),
        ..ListMultipartUploads::default()
    }
    .into()
}

/// Those under way are listed, those that ended are not.
pub fn check_listed(bucket: usize, listed: &[String], fates: &Fates) -> Option<Violation> {
    let names: BTreeSet<&str> = listed.iter().map(String::as_str).collect();
    let wrong = fates.iter().filter(|((of, _), _)| *of == bucket).find(|((_, id), fate)| match fate {
        Fate::Open => !names.contains(id.as_str()),
        Fate::Ended => names.contains(id.as_str()),
        Fate::Doubtful => false,
    });
    let message = match wrong {
        Some(((_, id), Fate::Open)) => format!("upload {id} of bucket {bucket} is under way and not listed"),
        Some(((_, id), _)) => format!("upload {id} of bucket {bucket} has ended and is listed"),
        None if names.len() < listed.len() => format!("an upload of bucket {bucket} is listed twice: {listed:?}"),
        None => return None,
    };
    Some(Violation::new("uploads", message, vec![]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_uploads_must_fit_their_fates() {
        let fate = |id: &str, fate| ((0, id.to_string()), fate);
        let fates: Fates = [fate("a", Fate::Open), fate("b", Fate::Ended), fate("c", Fate::Doubtful)].into();
        for (listed, broken) in
            [(&["a"][..], false), (&["a", "c"], false), (&["c"], true), (&["a", "b"], true), (&["a", "a"], true)]
        {
            let listed: Vec<String> = listed.iter().map(|id| id.to_string()).collect();
            assert_eq!(check_listed(0, &listed, &fates).is_some(), broken, "{listed:?}");
        }
    }

    #[test]
    fn a_page_of_parts_must_show_the_next_one() {
        let mut random = Random::stream(2, "upload");
        let mut upload = Upload::draw(&mut random, 3, 4, 0);
        while upload.parts.len() < 2 {
            upload = Upload::draw(&mut random, 3, 4, 0);
        }
        let etags: Vec<String> = upload.parts.iter().map(|part| part.etag.clone()).collect();
        let page = |number: usize, is_truncated| -> S3Answer {
            let entry = base_types::s3::PartEntry {
                part_number: number as u32,
                etag: etags[number - 1].clone(),
                ..base_types::s3::PartEntry::default()
            };
            base_types::s3::Parts { parts: vec![entry], is_truncated, ..base_types::s3::Parts::default() }.into()
        };
        assert_eq!(upload.check_page(&page(1, true)), None);
        assert!(upload.check_page(&page(1, false)).is_some(), "there are more");
        upload.listed = 1;
        assert!(upload.check_page(&page(1, true)).is_some(), "that was shown before");
        assert_eq!(upload.check_page(&page(2, etags.len() > 2)), None);
    }

    #[test]
    fn an_upload_goes_through_its_calls() {
        let mut random = Random::stream(1, "upload");
        let mut upload = Upload::draw(&mut random, 3, 4, 0);
        let mut names = Vec::new();
        loop {
            let name = match upload.next("b") {
                Next::Call(call) | Next::Put(_, call) => call.name(),
            };
            names.push(name);
            let created = base_types::s3::UploadCreated { upload_id: "u".to_string() };
            let answer = match *names.last().unwrap() {
                "CreateMultipartUpload" => Some(created.into()),
                "ListParts" => Some(base_types::s3::Parts::default().into()),
                _ => None,
            };
            assert!(names.len() < 12, "{names:?}");
            if !upload.went_well(answer.as_ref()) {
                break;
            }
        }
        assert_eq!(names.first(), Some(&"CreateMultipartUpload"));
        let between = |name: &&str| ["UploadPart", "ListParts"].contains(name);
        assert!(names[1..names.len() - 1].iter().all(between), "{names:?}");
        assert!(["CompleteMultipartUpload", "AbortMultipartUpload"].contains(names.last().unwrap()), "{names:?}");
    }
}
