//! The memory allocator of the `tollgate` binary: mimalloc, called in the cheapest way.
//!
//! The crate `mimalloc` passes each alignment on to mimalloc's aligned functions, which look for a block of
//! that alignment and often take a larger one. Nearly everything needs no more than a word's alignment, which
//! every block has. In an HTTP check five allocations took 417 instructions that way, and take 182 here
//! (`valgrind --tool=callgrind`, `tollgate bench --target http://… -c 1`).
#![allow(unsafe_code, reason = "an allocator cannot be written without; the reason is measured above")]

use std::alloc::{GlobalAlloc, Layout};

use libmimalloc_sys as mimalloc;

/// Alignment of every block: mimalloc's smallest unit is a word.
const WORD: usize = size_of::<usize>();

/// mimalloc, for `#[global_allocator]`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mimalloc;

// SAFETY: mimalloc's functions do what the C standard says of malloc, realloc and free, so that a block of at
// least `size` bytes lives until it is freed and is never handed out twice; null means that there is no
// memory. Blocks are aligned to a word at least, and those of the aligned functions to the requested
// alignment. They do not unwind. mimalloc takes a block back by its address alone, whichever function it came
// from.
unsafe impl GlobalAlloc for Mimalloc {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let block = match layout.align() {
            // SAFETY: any size is allowed.
            ..=WORD => unsafe { mimalloc::mi_malloc(layout.size()) },
            // SAFETY: a layout's alignment is a power of two.
            align => unsafe { mimalloc::mi_malloc_aligned(layout.size(), align) },
        };
        block.cast()
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let block = match layout.align() {
            // SAFETY: as in `alloc`.
            ..=WORD => unsafe { mimalloc::mi_zalloc(layout.size()) },
            // SAFETY: as in `alloc`.
            align => unsafe { mimalloc::mi_zalloc_aligned(layout.size(), align) },
        };
        block.cast()
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let block = block.cast();
        let block = match layout.align() {
            // SAFETY: the caller passes a live block of this allocator.
            ..=WORD => unsafe { mimalloc::mi_realloc(block, new_size) },
            // SAFETY: as above; the alignment is the block's.
            align => unsafe { mimalloc::mi_realloc_aligned(block, new_size, align) },
        };
        block.cast()
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _layout: Layout) {
        // SAFETY: the caller passes a live block of this allocator.
        unsafe { mimalloc::mi_free(block.cast()) }
    }
}
