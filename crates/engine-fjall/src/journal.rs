//! fjall's journals, judged before fjall reads them.
//!
//! fjall cuts a journal at the first entry it cannot parse, but refuses the whole database if an entry
//! parses and its batch's checksum fails: what a power cut leaves of a batch whose last sectors reached
//! the disk and whose middle did not. That batch was never acknowledged; it is cut off here. And it cuts
//! *any* journal, also one that later ones follow, whose batches it would then apply behind a gap: here
//! that is damage.
//!
//!   batch   1 │ items u32 │ number u64 │ items × item │ 3 │ checksum u64 │ 'F' 'J' 'L' 3
//!   item    2 │ kind u8 │ 0 │ keyspace u64 │ key bytes u16 │ value bytes u32 twice │ key │ value
//!
//! Integers little-endian; the checksum is XXH3-64 over the items as they stand. Journals are made
//! longer than needed, so zeroes follow the last batch.
//!
//! Always: nothing of an acknowledged batch is cut off unless it rotted, and then all after it is cut off too: the
//! state is an earlier one, at an index that the node can continue from.
//! Held by: `rot_in_the_last_journal_is_refused_or_leaves_an_earlier_state`, `every_cut_and_every_lost_sector_leaves_before_or_after`.
//! Not here: tables and files of values, whose blocks fjall checks as it reads them.

use base_engine::stored::failure::path_failure;
use base_engine::EngineError;
use std::fs::File;
use std::io::{BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::Xxh3;

const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const TRAILER: [u8; 4] = *b"FJL\x03";
/// Tag excluded.
const START_BYTES: usize = 12;
const ITEM_BYTES: usize = 20;
const END_BYTES: usize = 12;
const BUFFER_BYTES: usize = 256 << 10;

/// What ends the whole batches of a journal.
#[derive(Debug, PartialEq, Eq)]
enum Ending {
    /// A zero, or the file's end, at this offset.
    Clean(u64),
    /// A batch begun at this offset that does not parse.
    Broken(u64),
    /// A batch begun at the first offset that parses up to the second, with a wrong checksum.
    Mismatch(u64, u64),
}

/// Cuts off what a power cut left of an unacknowledged batch; refuses rot that would leave a gap.
pub fn mend(directory: &Path) -> Result<(), EngineError> {
    let journals = journals(directory)?;
    let Some((active, sealed)) = journals.split_last() else { return Ok(()) };
    for path in sealed {
        match read(path)? {
            Ending::Clean(at) if only_zeroes_from(path, at)? => {}
            Ending::Clean(at) | Ending::Broken(at) | Ending::Mismatch(at, _) => return Err(damaged(path, at)),
        }
    }
    let cut_at = match read(active)? {
        Ending::Clean(_) => return Ok(()),
        Ending::Mismatch(at, end) if !only_zeroes_from(active, end)? => return Err(damaged(active, at)),
        Ending::Mismatch(at, _) | Ending::Broken(at) => at,
    };
    let cut = File::options().write(true).open(active).and_then(|file| {
        file.set_len(cut_at)?;
        file.sync_all()
    });
    cut.map_err(|error| path_failure(active, &error))
}

fn damaged(path: &Path, at: u64) -> EngineError {
    EngineError::Corrupt(format!(
        "{}: the batch at offset {at} does not match its checksum, and others follow it; rebuild the replica",
        path.display()
    ))
}

/// Oldest first. What has another name is fjall's to judge.
fn journals(directory: &Path) -> Result<Vec<PathBuf>, EngineError> {
    let listing = std::fs::read_dir(directory).map_err(|error| path_failure(directory, &error))?;
    let mut found = Vec::new();
    for entry in listing {
        let path = entry.map_err(|error| path_failure(directory, &error))?.path();
        let number = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".jnl")?.parse::<u64>().ok());
        found.extend(number.map(|number| (number, path)));
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

fn read(path: &Path) -> Result<Ending, EngineError> {
    let failed = |error: std::io::Error| path_failure(path, &error);
    let file = File::open(path).map_err(failed)?;
    let bytes = file.metadata().map_err(failed)?.len();
    let mut reader = Reader { reader: BufReader::with_capacity(BUFFER_BYTES, file), at: 0, bytes };
    loop {
        let begun = reader.at;
        match reader.batch() {
            Ok(Some(true)) => {}
            Ok(Some(false)) => return Ok(Ending::Mismatch(begun, reader.at)),
            Ok(None) => return Ok(Ending::Clean(begun)),
            Err(error) if matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof) => {
                return Ok(Ending::Broken(begun))
            }
            Err(error) => return Err(failed(error)),
        }
    }
}

fn only_zeroes_from(path: &Path, at: u64) -> Result<bool, EngineError> {
    let failed = |error: std::io::Error| path_failure(path, &error);
    let mut file = File::open(path).map_err(failed)?;
    file.seek(SeekFrom::Start(at)).map_err(failed)?;
    let (zeroes, mut buffer) = (vec![0; BUFFER_BYTES], vec![0; BUFFER_BYTES]);
    loop {
        match file.read(&mut buffer).map_err(failed)? {
            0 => return Ok(true),
            length if buffer[..length] != zeroes[..length] => return Ok(false),
            _ => {}
        }
    }
}

struct Reader {
    reader: BufReader<File>,
    at: u64,
    bytes: u64,
}

fn broken() -> std::io::Error {
    std::io::Error::from(ErrorKind::InvalidData)
}

impl Reader {
    fn exact<const N: usize>(&mut self) -> std::io::Result<[u8; N]> {
        let mut out = [0; N];
        self.reader.read_exact(&mut out)?;
        self.at += N as u64;
        Ok(out)
    }

    /// `None`: here the batches end; else whether the next one's checksum holds.
    fn batch(&mut self) -> std::io::Result<Option<bool>> {
        if self.at == self.bytes {
            return Ok(None);
        }
        match self.exact::<1>()? {
            [0] => return Ok(None),
            [START] => {}
            _ => return Err(broken()),
        }
        let start = self.exact::<START_BYTES>()?;
        let items = u32::from_le_bytes([start[0], start[1], start[2], start[3]]);
        let mut sum = Xxh3::new();
        for _ in 0..items {
            self.item(&mut sum)?;
        }
        let end = self.exact::<{ 1 + END_BYTES }>()?;
        let found = end[1..9].try_into().map(u64::from_le_bytes).map_err(|_| broken())?;
        if end[0] != END || end[9..] != TRAILER {
            return Err(broken());
        }
        Ok(Some(found == sum.digest()))
    }

    fn item(&mut self, sum: &mut Xxh3) -> std::io::Result<()> {
        let head = self.exact::<{ 1 + ITEM_BYTES }>()?;
        let lengths = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (key, value, stored) = (u16::from_le_bytes([head[11], head[12]]), lengths(13), lengths(17));
        let rest = u64::from(key) + u64::from(stored);
        // Compression is off; a length beyond the file is a torn one.
        if head[0] != ITEM || head[2] != 0 || value != stored || rest > self.bytes.saturating_sub(self.at) {
            return Err(broken());
        }
        sum.update(&head);
        let mut left = rest;
        let mut buffer = [0; 4096];
        while left > 0 {
            let part = &mut buffer[..left.min(4096) as usize];
            self.reader.read_exact(part)?;
            sum.update(part);
            left -= part.len() as u64;
        }
        self.at += rest;
        Ok(())
    }
}
