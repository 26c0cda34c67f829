//! A sketch: 16,384 registers, each the longest run of zeros among the hashes that fell to it; and what Redis writes of it.
//!
//! ```text
//!   "HYLL"  form: u8  0 0 0  count: u64 (low byte first; its highest bit: to be computed again)  registers
//!   form 0, dense     6 bits each, the lowest bit first
//!   form 1, sparse    00nnnnnn: n + 1 zeros    01nnnnnn nnnnnnnn: n + 1 zeros    1vvvvvnn: n + 1 registers of v + 1
//! ```
//! The hash is MurmurHash64A; the estimate is Ertl's (New cardinality estimation algorithms for HyperLogLog sketches, 2017).
//!
//! Always: a sketch that is read and written has the same registers.
//! Held by: `a_sketch_is_read_as_it_was_written`.
//! By design: sparse while that is short and dense from then on, as in Redis. The estimate takes only sums, products and square roots, which
//! every machine rounds alike.

use bytes::Bytes;

const INDEX_BITS: u32 = 14;
pub(super) const REGISTERS: usize = 1 << INDEX_BITS;
/// Hashes have so many bits for a run.
const RUN_BITS: usize = 64 - INDEX_BITS as usize;
/// Register values that a dense form can have.
const VALUES: usize = 64;

const MAGIC: &[u8] = b"HYLL";
const DENSE: u8 = 0;
const SPARSE: u8 = 1;
const HEAD_BYTES: usize = 16;
const COUNT_AT: usize = 8;
/// The bit of `count` that says that it is not known.
const STALE: u64 = 1 << 63;
const DENSE_BYTES: usize = HEAD_BYTES + REGISTERS / 4 * 3;
/// A sparse form has so many bytes of registers at most, as Redis' default is.
const SPARSE_BYTES_MAX: usize = 3_000;
/// The greatest value of a sparse form.
const SPARSE_VALUE_MAX: u8 = 32;
const SEED: u64 = 0xadc8_3b19;
/// 1 / (2 ln 2)
const ALPHA: f64 = 0.721_347_520_444_481_7;

/// Why a string is no sketch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Damage {
    NoSketch,
    Registers,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Sketch {
    registers: Vec<u8>,
    dense: bool,
    /// As it is written.
    count: u64,
}

impl Default for Sketch {
    fn default() -> Sketch {
        Sketch { registers: vec![0; REGISTERS], dense: false, count: 0 }
    }
}

/// Whether it is dense, its count, and the bytes of its registers.
fn open(value: &[u8]) -> Result<(bool, u64, &[u8]), Damage> {
    let (head, body) = value.split_at_checked(HEAD_BYTES).ok_or(Damage::NoSketch)?;
    let (Some(form), Some(count)) = (head.get(MAGIC.len()), head.get(COUNT_AT..)) else { return Err(Damage::NoSketch) };
    let dense = *form == DENSE;
    if !head.starts_with(MAGIC) || !matches!(*form, DENSE | SPARSE) || dense && value.len() != DENSE_BYTES {
        return Err(Damage::NoSketch);
    }
    Ok((dense, count.iter().rev().fold(0, |count, byte| count << 8 | u64::from(*byte)), body))
}

impl Sketch {
    pub fn read(value: &[u8]) -> Result<Sketch, Damage> {
        let (dense, count, body) = open(value)?;
        let registers = if dense { from_dense(body) } else { from_sparse(body)? };
        Ok(Sketch { registers, dense, count })
    }

    /// The count that is written in a sketch.
    pub fn kept_count(value: &[u8]) -> Result<Option<u64>, Damage> {
        let (_, count, _) = open(value)?;
        Ok((count & STALE == 0).then_some(count))
    }

    pub fn forget_count(&mut self) {
        self.count |= STALE;
    }

    /// Whether the element changed it.
    pub fn add(&mut self, element: &[u8]) -> bool {
        let hash = murmur(element);
        let index = (hash % REGISTERS as u64) as usize;
        let rest = hash >> INDEX_BITS | 1 << RUN_BITS;
        let run = rest.trailing_zeros() as u8 + 1;
        match self.registers.get_mut(index) {
            Some(register) if *register < run => {
                *register = run;
                self.forget_count();
                true
            }
            _ => false,
        }
    }

    /// Of each register the greater one.
    pub fn merge(&mut self, other: &Sketch) {
        self.dense |= other.dense;
        for (own, other) in self.registers.iter_mut().zip(&other.registers) {
            *own = (*own).max(*other);
        }
    }

    pub fn write(&self) -> Bytes {
        let sparse = if self.dense { None } else { to_sparse(&self.registers) };
        let (form, body) = sparse.map_or_else(|| (DENSE, to_dense(&self.registers)), |body| (SPARSE, body));
        [MAGIC, &[form, 0, 0, 0], &self.count.to_le_bytes(), &body].concat().into()
    }

    /// How many distinct elements there are, about.
    pub fn estimate(&self) -> u64 {
        let mut with_value = [0_u32; VALUES];
        for register in &self.registers {
            if let Some(count) = with_value.get_mut(usize::from(*register)) {
                *count += 1;
            }
        }
        let (all, share) = (REGISTERS as f64, |count: u32| f64::from(count) / REGISTERS as f64);
        let full = with_value[RUN_BITS + 1];
        let mut sum = all * tau(share(REGISTERS as u32 - full));
        for count in with_value[1..=RUN_BITS].iter().rev() {
            sum = (sum + f64::from(*count)) * 0.5;
        }
        sum += all * sigma(share(with_value[0]));
        (ALPHA * all * all / sum).round() as u64
    }
}

/// What registers that are zero add: x + x^2 + 2 x^4 + 4 x^8 …
fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut weight, mut sum) = (1.0, x);
    // It converges in a few dozen steps at most: each squares `x`.
    loop {
        x *= x;
        let before = sum;
        sum += x * weight;
        weight += weight;
        if sum == before {
            return sum;
        }
    }
}

/// What registers that are full add.
fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut weight, mut sum) = (1.0, 1.0 - x);
    // As `sigma`: each step halves the weight.
    loop {
        x = x.sqrt();
        let before = sum;
        weight *= 0.5;
        sum -= (1.0 - x) * (1.0 - x) * weight;
        if sum == before {
            return sum / 3.0;
        }
    }
}

/// MurmurHash64A, with the seed that Redis has.
fn murmur(text: &[u8]) -> u64 {
    const FACTOR: u64 = 0xc6a4_a793_5bd1_e995;
    const SHIFT: u32 = 47;
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    let mut hash = SEED ^ (text.len() as u64).wrapping_mul(FACTOR);
    let words = text.chunks_exact(8);
    let rest = words.remainder();
    for word in words {
        let word = number(word).wrapping_mul(FACTOR);
        hash ^= (word ^ (word >> SHIFT)).wrapping_mul(FACTOR);
        hash = hash.wrapping_mul(FACTOR);
    }
    if !rest.is_empty() {
        hash = (hash ^ number(rest)).wrapping_mul(FACTOR);
    }
    hash = (hash ^ (hash >> SHIFT)).wrapping_mul(FACTOR);
    hash ^ (hash >> SHIFT)
}

fn from_dense(body: &[u8]) -> Vec<u8> {
    let (mut registers, triples) = (Vec::with_capacity(REGISTERS), body.chunks_exact(3));
    for triple in triples {
        let bits = triple.iter().rev().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        registers.extend([0, 6, 12, 18].map(|place| (bits >> place & 63) as u8));
    }
    registers
}

fn to_dense(registers: &[u8]) -> Vec<u8> {
    let mut body = Vec::with_capacity(DENSE_BYTES - HEAD_BYTES);
    for four in registers.chunks_exact(4) {
        let bits = four.iter().rev().fold(0_u32, |bits, register| bits << 6 | u32::from(register & 63));
        body.extend_from_slice(&bits.to_le_bytes()[..3]);
    }
    body
}

fn from_sparse(mut body: &[u8]) -> Result<Vec<u8>, Damage> {
    let mut registers = Vec::with_capacity(REGISTERS);
    while let Some((code, rest)) = body.split_first() {
        let (value, length);
        (value, length, body) = match (code >> 6, rest) {
            (0b00, rest) => (0, usize::from(*code) + 1, rest),
            (0b01, [low, rest @ ..]) => (0, (usize::from(code & 63) << 8 | usize::from(*low)) + 1, rest),
            (0b01, []) => return Err(Damage::Registers),
            (_, rest) => ((code >> 2 & 31) + 1, usize::from(code & 3) + 1, rest),
        };
        if registers.len() + length > REGISTERS {
            return Err(Damage::Registers);
        }
        registers.resize(registers.len() + length, value);
    }
    if registers.len() == REGISTERS {
        Ok(registers)
    } else {
        Err(Damage::Registers)
    }
}

/// `None`: it would be too long, or cannot hold a value.
fn to_sparse(registers: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    for run in registers.chunk_by(|one, next| one == next) {
        let (value, mut left) = (*run.first()?, run.len());
        if value > SPARSE_VALUE_MAX {
            return None;
        }
        while left > 0 {
            let taken = match value {
                0 if left > 64 => {
                    let zeros = left - 1;
                    body.extend([0x40 | (zeros >> 8) as u8, zeros as u8]);
                    left
                }
                0 => {
                    body.push((left - 1) as u8);
                    left
                }
                _ => {
                    let taken = left.min(4);
                    body.push(0x80 | (value - 1) << 2 | (taken - 1) as u8);
                    taken
                }
            };
            left -= taken;
        }
        if body.len() > SPARSE_BYTES_MAX {
            return None;
        }
    }
    Some(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sketch_is_read_as_it_was_written() {
        let mut sketch = Sketch::default();
        let mut forms = [0, 0];
        for n in 0..20_000_u32 {
            sketch.add(format!("element {n}").as_bytes());
            if n % 97 == 0 {
                let read = Sketch::read(&sketch.write()).unwrap();
                assert_eq!(read.registers, sketch.registers, "{n}");
                forms[usize::from(read.dense)] += 1;
                sketch = read;
            }
        }
        assert!(forms[0] > 5 && forms[1] > 50, "{forms:?}");
    }

    #[test]
    fn values_that_are_too_great_for_sparse_are_dense() {
        let mut sketch = Sketch::default();
        sketch.registers[5] = SPARSE_VALUE_MAX;
        assert!(!Sketch::read(&sketch.write()).unwrap().dense);
        sketch.registers[5] = SPARSE_VALUE_MAX + 1;
        let read = Sketch::read(&sketch.write()).unwrap();
        assert_eq!((read.dense, read.registers), (true, sketch.registers));
    }

    #[test]
    fn what_is_no_sketch_is_damage() {
        let whole = Sketch::default().write();
        let with = |body: &[u8]| Sketch::read(&[&whole[..HEAD_BYTES], body].concat());
        assert_eq!(whole[HEAD_BYTES..], [0x7f, 0xff]);
        for body in [&[0x7f, 0xfe][..], &[0x7f, 0xff, 0], &[0x7f], &[], &[0x7f, 0xfe, 0x81]] {
            assert_eq!(with(body), Err(Damage::Registers), "{body:?}");
        }
        assert!(with(&[0x7f, 0xfe, 0x80]).is_ok());
        let mut other = whole.to_vec();
        other[4] = 2;
        assert_eq!(Sketch::read(&other), Err(Damage::NoSketch));
        other[4] = DENSE;
        assert_eq!(Sketch::read(&other), Err(Damage::NoSketch), "a dense one has one length");
        assert_eq!(Sketch::read(&whole[..HEAD_BYTES - 1]), Err(Damage::NoSketch));
    }
}
