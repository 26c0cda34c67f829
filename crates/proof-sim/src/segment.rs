//! What one segment file of a simulated disk holds.
//!
//! Always: reads as the flat file it stands for. Blocks are kept without the zeros they end with (most of
//! a small batch is padding) and are shared between a disk and its images until one of them is written.
//! Held by: `is_the_flat_file_it_stands_for`.
//! Not here: when bytes become durable, and how they are damaged (`disk`).

use core_log::BLOCK_BYTES;
use std::sync::Arc;

/// A segment file.
#[derive(Clone, Default, Debug)]
pub struct Segment {
    blocks: Vec<Option<Arc<[u8]>>>,
    bytes: usize,
}

/// The bytes up to the last that is not zero.
fn trimmed(block: &[u8]) -> &[u8] {
    const STRIDE: usize = 64;
    let mut end = block.len();
    while end >= STRIDE && block[end - STRIDE..end].iter().fold(0, |all, byte| all | byte) == 0 {
        end -= STRIDE;
    }
    while end > 0 && block[end - 1] == 0 {
        end -= 1;
    }
    &block[..end]
}

fn kept(block: &[u8]) -> Option<Arc<[u8]>> {
    let block = trimmed(block);
    (!block.is_empty()).then(|| Arc::from(block))
}

impl Segment {
    /// How long the file is.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether the file is empty.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Makes the file longer (with zeros) or shorter.
    pub fn resize(&mut self, bytes: usize) {
        self.blocks.resize(bytes.div_ceil(BLOCK_BYTES), None);
        self.bytes = bytes;
        if let (rest @ 1.., Some(Some(last))) = (bytes % BLOCK_BYTES, self.blocks.last()) {
            let last = kept(&last[..last.len().min(rest)]);
            self.blocks.pop();
            self.blocks.push(last);
        }
    }

    /// Writes; false, and nothing is changed, where that is not inside the file.
    pub fn write(&mut self, from: usize, bytes: &[u8]) -> bool {
        if from.checked_add(bytes.len()).is_none_or(|end| end > self.bytes) {
            return false;
        }
        let (mut at, mut rest) = (from, bytes);
        while !rest.is_empty() {
            let (number, inside) = (at / BLOCK_BYTES, at % BLOCK_BYTES);
            let (piece, behind) = rest.split_at(rest.len().min(BLOCK_BYTES - inside));
            self.blocks[number] = if piece.len() == BLOCK_BYTES {
                kept(piece)
            } else {
                let mut block = self.block(number);
                block[inside..inside + piece.len()].copy_from_slice(piece);
                kept(&block)
            };
            (at, rest) = (at + piece.len(), behind);
        }
        true
    }

    fn block(&self, number: usize) -> [u8; BLOCK_BYTES] {
        let mut whole = [0; BLOCK_BYTES];
        if let Some(block) = &self.blocks[number] {
            whole[..block.len()].copy_from_slice(block);
        }
        whole
    }

    /// Reads; `None` where that is not inside the file.
    pub fn read(&self, from: usize, bytes: usize) -> Option<Vec<u8>> {
        let end = from.checked_add(bytes).filter(|end| *end <= self.bytes)?;
        let mut out = vec![0; bytes];
        for number in from / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES) {
            let Some(block) = &self.blocks[number] else { continue };
            let start = number * BLOCK_BYTES;
            let (first, last) = (start.max(from), (start + block.len()).min(end));
            if first < last {
                out[first - from..last - from].copy_from_slice(&block[first - start..last - start]);
            }
        }
        Some(out)
    }

    /// The numbers of the sectors (of so many bytes; a block is a multiple) that hold anything but zeros.
    pub fn used_sectors(&self, sector_bytes: usize) -> impl Iterator<Item = usize> + '_ {
        let per_block = BLOCK_BYTES / sector_bytes;
        self.blocks.iter().enumerate().flat_map(move |(number, block)| {
            let sectors = block.as_deref().unwrap_or_default().chunks(sector_bytes).enumerate();
            let used = sectors.filter(|(_, sector)| sector.iter().any(|byte| *byte != 0));
            used.map(move |(sector, _)| number * per_block + sector)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn is_the_flat_file_it_stands_for() {
        let mut random = Random::stream(1, "segment");
        let (mut flat, mut segment) = (vec![0u8; 5 * BLOCK_BYTES], Segment::default());
        segment.resize(flat.len());
        for _ in 0..300 {
            let from = random.below(flat.len() as u64) as usize;
            let bytes = random.below((flat.len() - from) as u64 / 3 + 1) as usize;
            let byte = random.below(2) as u8 * 7;
            flat[from..from + bytes].fill(byte);
            assert!(segment.write(from, &vec![byte; bytes]));
            let at = random.below(flat.len() as u64) as usize;
            let count = random.below((flat.len() - at) as u64 + 1) as usize;
            assert_eq!(segment.read(at, count).as_deref(), Some(&flat[at..at + count]));
            let used: Vec<usize> = segment.used_sectors(512).collect();
            let held = flat.chunks(512).enumerate().filter(|(_, sector)| sector.iter().any(|byte| *byte != 0));
            assert_eq!(used, held.map(|(number, _)| number).collect::<Vec<_>>());
        }
        assert!(!segment.write(flat.len() - 1, &[1, 2]));
        assert_eq!(segment.read(1, flat.len()), None);
        segment.resize(5_000);
        segment.resize(9_000);
        flat.truncate(5_000);
        flat.resize(9_000, 0);
        assert_eq!(segment.read(0, 9_000), Some(flat));
    }
}
