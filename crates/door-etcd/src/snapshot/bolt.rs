//! Writes a file of bbolt, etcd's storage, from front to back: buckets in the order of their names, each bucket's pairs in the order of keys.
//!
//! ```text
//!   page 0, 1  meta: root, number of pages, checksum       page 2  free pages: none
//!   page 3 …   leaves as they fill; a branch once it has enough below it; the root bucket's pages last
//!   page       id u64 | flags u16 | count u16 | further pages u32 | elements | keys and values        little-endian
//! ```
//! Always: memory is that of one page for each level; a page that is not full is written only at the end of its bucket; a pair that is
//! larger than a page has pages that follow it. The two first pages are written last, so a file without them is none.
//! Held by: `what_is_written_is_read_back`, `large_values_have_pages_that_follow`.
//! Not here: which buckets etcd wants (`snapshot.rs`).

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};

/// The size of a page: what etcd takes on most machines. Each file says it itself.
const PAGE_BYTES: usize = 4_096;
const HEAD_BYTES: usize = 16;
/// An element of a page: of a leaf flags, place, lengths; of a branch place, length, page.
const ELEMENT_BYTES: usize = 16;
const BRANCH: u16 = 1;
const LEAF: u16 = 2;
const META: u16 = 4;
const FREE: u16 = 16;
/// A pair of a leaf that is a bucket.
const BUCKET: u32 = 1;
const MAGIC: u32 = 0xed0c_daed;
const VERSION: u32 = 2;
/// The first page that is neither meta nor the list of free ones.
const FIRST_PAGE: u64 = 3;
const WRITE_BUFFER_BYTES: usize = 256 << 10;

/// An element of a page that is being filled.
struct Element {
    /// Of a leaf.
    flags: u32,
    /// Of a branch: the page below.
    page: u64,
    key: Vec<u8>,
    value: Vec<u8>,
}

/// A page that is being filled.
#[derive(Default)]
struct Page {
    elements: Vec<Element>,
    bytes: usize,
}

/// The pages of a bucket on their way, leaves first.
#[derive(Default)]
struct Tree {
    levels: Vec<Page>,
    last_key: Option<Vec<u8>>,
}

/// A file that is being written.
pub struct BoltFile {
    out: BufWriter<File>,
    next_page: u64,
    /// Of the buckets that are written.
    root: Tree,
}

/// A bucket that is being written; [`BoltFile::end_bucket`] ends it.
pub struct Bucket {
    name: Vec<u8>,
    tree: Tree,
    is_empty: bool,
}

impl BoltFile {
    /// Begins a file, which must be empty.
    pub fn begin(file: File) -> io::Result<BoltFile> {
        let mut out = BufWriter::with_capacity(WRITE_BUFFER_BYTES, file);
        out.seek(SeekFrom::Start(FIRST_PAGE * PAGE_BYTES as u64))?;
        Ok(BoltFile { out, next_page: FIRST_PAGE, root: Tree::default() })
    }

    /// Begins a bucket. Names must rise.
    pub fn begin_bucket(&mut self, name: &str) -> Bucket {
        Bucket { name: name.as_bytes().to_vec(), tree: Tree::default(), is_empty: true }
    }

    /// Adds a pair to a bucket. Keys must rise.
    pub fn put(&mut self, bucket: &mut Bucket, key: Vec<u8>, value: Vec<u8>) -> io::Result<()> {
        bucket.is_empty = false;
        let element = Element { flags: 0, page: 0, key, value };
        bucket.tree.add(element, &mut self.out, &mut self.next_page)
    }

    /// Ends a bucket. One without pairs lies in its parent, as bbolt itself has it.
    pub fn end_bucket(&mut self, bucket: Bucket) -> io::Result<()> {
        let Bucket { name, mut tree, is_empty } = bucket;
        let page = if is_empty { 0 } else { tree.finish(&mut self.out, &mut self.next_page)? };
        // The page of its root, and a sequence that etcd does not use.
        let mut value = [page.to_le_bytes(), [0; 8]].concat();
        if is_empty {
            value.extend_from_slice(&head(0, LEAF, 0, 0));
        }
        let element = Element { flags: BUCKET, page: 0, key: name, value };
        self.root.add(element, &mut self.out, &mut self.next_page)
    }

    /// Ends the file, and gives it back with its length.
    pub fn end(mut self) -> io::Result<(File, u64)> {
        let root = self.root.finish(&mut self.out, &mut self.next_page)?;
        self.out.seek(SeekFrom::Start(0))?;
        for number in 0..2 {
            self.out.write_all(&meta(number, root, self.next_page))?;
        }
        self.out.write_all(&padded(head(2, FREE, 0, 0).to_vec()))?;
        let file = self.out.into_inner().map_err(|error| error.into_error())?;
        Ok((file, self.next_page * PAGE_BYTES as u64))
    }
}

impl Tree {
    fn add(&mut self, element: Element, out: &mut impl Write, next_page: &mut u64) -> io::Result<()> {
        // A file whose keys do not rise would be read wrongly: it is a bug of who writes it.
        assert!(self.last_key.as_ref().is_none_or(|last| *last < element.key), "keys of a bucket must rise");
        self.last_key = Some(element.key.clone());
        self.add_at(0, element, out, next_page)
    }

    fn add_at(&mut self, level: usize, element: Element, out: &mut impl Write, next_page: &mut u64) -> io::Result<()> {
        if self.levels.len() == level {
            self.levels.push(Page::default());
        }
        let bytes = ELEMENT_BYTES + element.key.len() + element.value.len();
        let page = &self.levels[level];
        if !page.elements.is_empty() && HEAD_BYTES + page.bytes + bytes > PAGE_BYTES {
            self.write(level, out, next_page)?;
        }
        let page = &mut self.levels[level];
        page.bytes += bytes;
        page.elements.push(element);
        Ok(())
    }

    /// Writes the page of a level, and names it in the level above.
    fn write(&mut self, level: usize, out: &mut impl Write, next_page: &mut u64) -> io::Result<()> {
        let page = std::mem::take(&mut self.levels[level]);
        let first = page.elements.first().map(|element| element.key.clone()).unwrap_or_default();
        let number = write_page(page, level == 0, out, next_page)?;
        let above = Element { flags: 0, page: number, key: first, value: Vec::new() };
        self.add_at(level + 1, above, out, next_page)
    }

    /// Writes what is left; the page of the root.
    fn finish(&mut self, out: &mut impl Write, next_page: &mut u64) -> io::Result<u64> {
        let mut level = 0;
        loop {
            if level + 1 == self.levels.len() {
                let page = std::mem::take(&mut self.levels[level]);
                return write_page(page, level == 0, out, next_page);
            }
            self.write(level, out, next_page)?;
            level += 1;
        }
    }
}

fn head(page: u64, flags: u16, count: u16, further: u32) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..8].copy_from_slice(&page.to_le_bytes());
    head[8..10].copy_from_slice(&flags.to_le_bytes());
    head[10..12].copy_from_slice(&count.to_le_bytes());
    head[12..].copy_from_slice(&further.to_le_bytes());
    head
}

fn padded(mut page: Vec<u8>) -> Vec<u8> {
    page.resize(page.len().next_multiple_of(PAGE_BYTES), 0);
    page
}

/// Writes a page, with those that follow it where it is larger than one; its number.
fn write_page(page: Page, leaf: bool, out: &mut impl Write, next_page: &mut u64) -> io::Result<u64> {
    let number = *next_page;
    let count = page.elements.len();
    let pages = (HEAD_BYTES + page.bytes).div_ceil(PAGE_BYTES);
    // A page holds at most 255 elements, and a pair's length was bounded when it was put.
    let flags = if leaf { LEAF } else { BRANCH };
    let mut bytes = head(number, flags, count as u16, pages as u32 - 1).to_vec();
    let mut place = HEAD_BYTES + count * ELEMENT_BYTES;
    for (index, element) in page.elements.iter().enumerate() {
        // Counted from the element itself.
        let offset = (place - HEAD_BYTES - index * ELEMENT_BYTES) as u32;
        let (key, value) = (element.key.len() as u32, element.value.len() as u32);
        match leaf {
            true => [element.flags, offset, key, value].iter().for_each(|word| bytes.extend(word.to_le_bytes())),
            false => {
                [offset, key].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
                bytes.extend(element.page.to_le_bytes());
            }
        }
        place += element.key.len() + element.value.len();
    }
    for element in &page.elements {
        bytes.extend_from_slice(&element.key);
        bytes.extend_from_slice(&element.value);
    }
    out.write_all(&padded(bytes))?;
    *next_page += pages as u64;
    Ok(number)
}

/// A meta page. bbolt takes the one of the later transaction; both say the same here.
fn meta(number: u64, root: u64, pages: u64) -> Vec<u8> {
    let mut body = Vec::new();
    for word in [MAGIC, VERSION, PAGE_BYTES as u32, 0] {
        body.extend(word.to_le_bytes());
    }
    let (sequence, free, transaction) = (0_u64, 2_u64, number);
    for word in [root, sequence, free, pages, transaction] {
        body.extend(word.to_le_bytes());
    }
    let sum = fnv1a(&body);
    body.extend(sum.to_le_bytes());
    padded([&head(number, META, 0, 0)[..], &body].concat())
}

/// FNV-1a of 64 bits, which bbolt sums a meta page by.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::io::Read;

    /// A reader that knows as much of the format as the test needs, and checks what bbolt's own check does: each page is reached once.
    pub struct Reader {
        bytes: Vec<u8>,
        reached: BTreeMap<u64, u64>,
    }

    fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
        bytes[at..at + length].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    pub type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

    impl Reader {
        pub fn open(mut file: File) -> Reader {
            let mut bytes = Vec::new();
            file.seek(SeekFrom::Start(0)).unwrap();
            file.read_to_end(&mut bytes).unwrap();
            Reader { bytes, reached: BTreeMap::new() }
        }

        /// All buckets with their pairs.
        pub fn buckets(&mut self) -> BTreeMap<String, Pairs> {
            let meta = &self.bytes[PAGE_BYTES + HEAD_BYTES..];
            assert_eq!((number(meta, 0, 4), number(meta, 4, 4), number(meta, 8, 4)), (MAGIC.into(), 2, 4_096));
            assert_eq!(number(meta, 56, 8), fnv1a(&meta[..56]));
            let (root, pages) = (number(meta, 16, 8), number(meta, 40, 8));
            assert_eq!(self.bytes.len() as u64, pages * PAGE_BYTES as u64);
            let mut found = BTreeMap::new();
            for (flags, name, value) in self.pairs(root) {
                assert_eq!(flags, BUCKET);
                let pairs = match number(&value, 0, 8) {
                    0 => {
                        assert_eq!(value.len(), 32);
                        Vec::new()
                    }
                    page => self.pairs(page),
                };
                let pairs = pairs.into_iter().map(|(_, key, value)| (key, value)).collect();
                found.insert(String::from_utf8(name).unwrap(), pairs);
            }
            let mut next = FIRST_PAGE;
            for (page, count) in &self.reached {
                assert_eq!(*page, next, "each page is reached once, and none is left out");
                next += count;
            }
            assert_eq!(next, pages);
            found
        }

        fn pairs(&mut self, page: u64) -> Vec<(u32, Vec<u8>, Vec<u8>)> {
            let begin = page as usize * PAGE_BYTES;
            let bytes = self.bytes[begin..].to_vec();
            assert_eq!(number(&bytes, 0, 8), page);
            let (flags, count) = (number(&bytes, 8, 2) as u16, number(&bytes, 10, 2) as usize);
            assert!(self.reached.insert(page, 1 + number(&bytes, 12, 4)).is_none());
            let mut all = Vec::new();
            for element in (0..count).map(|index| HEAD_BYTES + index * ELEMENT_BYTES) {
                if flags == BRANCH {
                    let place = element + number(&bytes, element, 4) as usize;
                    let key = bytes[place..place + number(&bytes, element + 4, 4) as usize].to_vec();
                    let below = self.pairs(number(&bytes, element + 8, 8));
                    assert_eq!(below[0].1, key, "a branch names the first key below");
                    all.extend(below);
                    continue;
                }
                assert_eq!(flags, LEAF);
                let place = element + number(&bytes, element + 4, 4) as usize;
                let (key, value) = (number(&bytes, element + 8, 4) as usize, number(&bytes, element + 12, 4) as usize);
                let key_bytes = bytes[place..place + key].to_vec();
                let value_bytes = bytes[place + key..place + key + value].to_vec();
                all.push((number(&bytes, element, 4) as u32, key_bytes, value_bytes));
            }
            assert!(all.windows(2).all(|two| two[0].1 < two[1].1));
            all
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for count in [1_u64, 40, 100, 20_000] {
            let value = |n: u64| vec![n as u8; (n % 90) as usize];
            let mut file = BoltFile::begin(tempfile::tempfile().unwrap()).unwrap();
            let empty = file.begin_bucket("alarm");
            file.end_bucket(empty).unwrap();
            let mut bucket = file.begin_bucket("key");
            for n in 0..count {
                file.put(&mut bucket, n.to_be_bytes().to_vec(), value(n)).unwrap();
            }
            file.end_bucket(bucket).unwrap();
            let (file, length) = file.end().unwrap();
            assert_eq!(file.metadata().unwrap().len(), length);
            let found = Reader::open(file).buckets();
            let expected: Pairs = (0..count).map(|n| (n.to_be_bytes().to_vec(), value(n))).collect();
            assert_eq!(found["key"], expected);
            assert_eq!(found["alarm"], []);
        }
    }

    #[test]
    fn large_values_have_pages_that_follow() {
        let mut file = BoltFile::begin(tempfile::tempfile().unwrap()).unwrap();
        let mut bucket = file.begin_bucket("key");
        let sizes = [10, 4_063, 4_064, 4_065, 1 << 20, 3, 9_000];
        for (n, size) in sizes.iter().enumerate() {
            file.put(&mut bucket, vec![n as u8], vec![7; *size]).unwrap();
        }
        file.end_bucket(bucket).unwrap();
        let found = Reader::open(file.end().unwrap().0).buckets();
        assert_eq!(found["key"].iter().map(|(_, value)| value.len()).collect::<Vec<_>>(), sizes);
    }

    #[test]
    #[should_panic(expected = "keys of a bucket must rise")]
    fn keys_that_do_not_rise_are_a_bug() {
        let mut file = BoltFile::begin(tempfile::tempfile().unwrap()).unwrap();
        let mut bucket = file.begin_bucket("key");
        file.put(&mut bucket, vec![1], vec![]).unwrap();
        let _ = file.put(&mut bucket, vec![1], vec![]);
    }

    #[test]
    fn sums_are_fnv1a() {
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
