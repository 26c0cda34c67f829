//! A reusable buffer at a block boundary, as O_DIRECT asks for.
//!
//! By design: grows to the largest write asked of it and is freed with its layout.

use core_log::BLOCK_BYTES;
use std::alloc::{alloc_zeroed, dealloc, handle_alloc_error, Layout};

/// The buffer.
pub struct AlignedBuffer {
    start: std::ptr::NonNull<u8>,
    layout: Layout,
}

// SAFETY: the buffer is owned memory and nothing else points to it.
unsafe impl Send for AlignedBuffer {}

fn layout(bytes: usize) -> Layout {
    let rounded = bytes.max(1).div_ceil(BLOCK_BYTES) * BLOCK_BYTES;
    Layout::from_size_align(rounded, BLOCK_BYTES).expect("a log batch is far below the address space")
}

impl AlignedBuffer {
    /// With room for `bytes`.
    pub fn new(bytes: usize) -> AlignedBuffer {
        let layout = layout(bytes);
        // SAFETY: the layout has a size above zero.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = std::ptr::NonNull::new(start) else { handle_alloc_error(layout) };
        AlignedBuffer { start, layout }
    }

    /// All it has room for: zeros until it was filled.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: allocated with this size and zeroed, so every byte has a value.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.layout.size()) }
    }

    /// The bytes of `source`, at an aligned address.
    pub fn filled(&mut self, source: &[u8]) -> &[u8] {
        if source.len() > self.layout.size() {
            *self = AlignedBuffer::new(source.len());
        }
        // SAFETY: the buffer holds at least `source.len()` bytes and the two do not overlap.
        unsafe {
            std::ptr::copy_nonoverlapping(source.as_ptr(), self.start.as_ptr(), source.len());
            std::slice::from_raw_parts(self.start.as_ptr(), source.len())
        }
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}
