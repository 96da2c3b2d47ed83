//! Instructions that safe code cannot use: the inlined 128-bit compare-and-swap and load, loads of parts of
//! such a word, and the prefetch.
//!
//! Load and swap of a cached word (AMD Zen 4, medians of 200 × 10,000): `portable-atomic` 9.1 ns, since it
//! calls through a pointer and returns by memory; inlined 3.8 ns; a 64-bit swap 2.2 ns. Processors other than
//! x86-64 use `portable-atomic`. Prefetching: a batch of 16 takes 77 ns per decision at a million keys, and
//! 95 with plain loads in its place.
#![cfg_attr(target_arch = "x86_64", allow(unsafe_code, reason = "they are measured above and argued below"))]

use std::sync::atomic::Ordering;

/// A 128-bit word with atomic access.
#[derive(Debug, Default)]
#[repr(transparent)]
pub(crate) struct AtomicU128(portable_atomic::AtomicU128);

impl AtomicU128 {
    #[inline]
    pub(crate) fn load(&self, order: Ordering) -> u128 {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if has_wide_atomics() {
            return load_in_line(&self.0);
        }
        if cfg!(all(target_arch = "x86_64", not(miri))) {
            // Not `load`: `portable-atomic` moves 16 bytes on every processor with AVX, even if its maker
            // does not document that as atomic.
            let same = self.0.compare_exchange(0, 0, Ordering::AcqRel, Ordering::Acquire);
            return same.unwrap_or_else(|is| is);
        }
        self.0.load(order)
    }

    #[inline]
    pub(crate) fn store(&self, new: u128, order: Ordering) {
        self.0.store(new, order);
    }

    /// # Errors
    /// The value found instead of `old`.
    #[inline]
    pub(crate) fn compare_exchange(
        &self,
        old: u128,
        new: u128,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u128, u128> {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if has_wide_atomics() {
            return compare_exchange_in_line(&self.0, old, new);
        }
        self.0.compare_exchange(old, new, success, failure)
    }
}

/// Whether the processor has the instructions below; [`detect_processor`] stores the answer, so this is one
/// load.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
fn has_wide_atomics() -> bool {
    HAS_WIDE_ATOMICS.load(Ordering::Relaxed)
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
static HAS_WIDE_ATOMICS: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

/// Detects the instructions of the processor; until then only those that every processor has are used.
pub(crate) fn detect_processor() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    HAS_WIDE_ATOMICS.store(
        std::is_x86_feature_detected!("cmpxchg16b")
            && std::is_x86_feature_detected!("avx")
            && guarantees_atomic_moves(maker()),
        Ordering::Relaxed,
    );
}

/// The name of the processor's maker.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn maker() -> [u8; 12] {
    let said = std::arch::x86_64::__cpuid(0);
    let mut name = [0; 12];
    for (part, register) in name.chunks_exact_mut(4).zip([said.ebx, said.edx, said.ecx]) {
        part.copy_from_slice(&register.to_le_bytes());
    }
    name
}

/// Whether the maker says in its manuals that an aligned 16-byte move is atomic on its processors with AVX:
/// Intel, AMD, and Zhaoxin (which has used two names).
#[cfg(all(target_arch = "x86_64", not(miri)))]
const fn guarantees_atomic_moves(maker: [u8; 12]) -> bool {
    matches!(&maker, b"GenuineIntel" | b"AuthenticAMD" | b"  Shanghai  " | b"CentaurHauls")
}

/// Acquires, as every load does on this processor.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
fn load_in_line(word: &portable_atomic::AtomicU128) -> u128 {
    let (low, high): (u64, u64);
    // SAFETY: `as_ptr` of a live atomic is valid for reads and aligned to 16 bytes, and the maker of this
    // processor guarantees that an aligned 16-byte move is atomic where it has AVX, as the caller made sure.
    // Nothing but the named registers is changed.
    unsafe {
        std::arch::asm!(
            "vmovdqa {both}, xmmword ptr [{place}]",
            "vmovq {low}, {both}",
            "vpextrq {high}, {both}, 1",
            place = in(reg) word.as_ptr(),
            both = out(xmm_reg) _,
            low = out(reg) low,
            high = out(reg) high,
            options(nostack, preserves_flags), // not `readonly`: no later read may come before it
        );
    }
    u128::from(high) << 64 | u128::from(low)
}

/// Proof that the processor has the instructions of the fast path; checked once per table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InLine(());

impl InLine {
    /// `None` where the processor lacks them.
    pub(crate) fn if_possible() -> Option<Self> {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if !has_wide_atomics() {
            return None;
        }
        Some(Self(()))
    }

    /// The word in two loads, the lower half first, so that the halves may be of different states. 1.5 ns
    /// faster than one load of both, and a decision that swaps the word notices if they were.
    #[inline]
    pub(crate) fn glance(self, word: &AtomicU128) -> u128 {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        return glance_in_line(&word.0);
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        word.load(Ordering::Acquire)
    }

    /// The lowest 32 bits of the word.
    #[inline]
    pub(crate) fn low_half(self, word: &AtomicU128) -> u32 {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        return low_half_in_line(&word.0);
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        return word.load(Ordering::Acquire) as u32;
    }

    /// As [`AtomicU128::load`]: both halves at once.
    #[inline]
    pub(crate) fn load(self, word: &AtomicU128) -> u128 {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        return load_in_line(&word.0);
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        return word.load(Ordering::Acquire);
    }

    /// Compares and exchanges, as [`AtomicU128::compare_exchange`].
    #[inline]
    pub(crate) fn replace(self, word: &AtomicU128, old: u128, new: u128) -> Result<u128, u128> {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        return compare_exchange_in_line(&word.0, old, new);
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        word.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire)
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
fn glance_in_line(word: &portable_atomic::AtomicU128) -> u128 {
    let (low, high): (u64, u64);
    // SAFETY: `as_ptr` of a live atomic is valid for reads; aligned moves of 8 bytes are atomic and happen in
    // this order.
    unsafe {
        std::arch::asm!(
            "mov {low}, qword ptr [{place}]",
            "mov {high}, qword ptr [{place} + 8]",
            place = in(reg) word.as_ptr(),
            low = out(reg) low,
            high = lateout(reg) high,
            options(nostack, preserves_flags), // not `readonly`: no later read may come before it
        );
    }
    u128::from(high) << 64 | u128::from(low)
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
fn low_half_in_line(word: &portable_atomic::AtomicU128) -> u32 {
    let low: u32;
    // SAFETY: `as_ptr` of a live atomic is valid for reads; aligned moves of 4 bytes are atomic.
    unsafe {
        std::arch::asm!(
            "mov {low:e}, dword ptr [{place}]",
            place = in(reg) word.as_ptr(),
            low = lateout(reg) low,
            options(nostack, preserves_flags), // not `readonly`: no later read may come before it
        );
    }
    low
}

/// Sequentially consistent, as every locked instruction is.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
fn compare_exchange_in_line(word: &portable_atomic::AtomicU128, old: u128, new: u128) -> Result<u128, u128> {
    let (low, high): (u64, u64);
    let is_swapped: u8;
    // SAFETY: `as_ptr` of a live atomic is valid for reads and writes and aligned to 16 bytes. Every other
    // access to it is atomic: of 16 bytes, by the instructions of this file or by `portable-atomic`, which
    // uses this one on a processor that has it, as the caller made sure; or one of the loads of 4 and 8 bytes
    // above. Those mix sizes, which Rust's atomics may not, and are therefore instructions too: a locked
    // instruction excludes every other access to its cache line, of any size. rbx belongs to the compiler, so
    // it is put aside and brought back, and every operand has a register of its own that is not rbx; nothing
    // here touches the stack.
    unsafe {
        std::arch::asm!(
            "xchg r8, rbx",
            "lock cmpxchg16b xmmword ptr [rsi]",
            "sete cl",
            "mov rbx, r8",
            inout("r8") new as u64 => _,
            in("rsi") word.as_ptr(),
            in("rcx") (new >> 64) as u64,
            lateout("cl") is_swapped,
            inout("rax") old as u64 => low,
            inout("rdx") (old >> 64) as u64 => high,
            options(nostack),
        );
    }
    let found = u128::from(high) << 64 | u128::from(low);
    if is_swapped != 0 { Ok(found) } else { Err(found) }
}

/// Asks for the cache line of `place`, and does not wait for it.
#[inline]
pub(crate) fn prefetch<T>(place: &T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch reads nothing that the program can see and never faults; `place` is valid anyway.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(
            std::ptr::from_ref(place).cast(),
        );
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = place;
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_word_reads_as_it_was_written_with_and_without_the_instructions_of_the_processor() {
        let word = AtomicU128::default();
        let both = |want: u128| {
            assert_eq!(word.load(Ordering::Acquire), want);
            if let Some(in_line) = InLine::if_possible() {
                assert_eq!((in_line.load(&word), in_line.glance(&word)), (want, want));
                assert_eq!(in_line.low_half(&word), want as u32);
            }
        };
        let values = [0, 1, u128::MAX, 7 << 64 | 9];
        both(0);
        for pair in values.windows(2) {
            assert_eq!(
                word.compare_exchange(pair[0], pair[1], Ordering::AcqRel, Ordering::Acquire),
                Ok(pair[0])
            );
            both(pair[1]);
            detect_processor(); // until then only what every processor has is used
            both(pair[1]);
            let failed = word.compare_exchange(pair[0], 3, Ordering::AcqRel, Ordering::Acquire);
            assert_eq!(failed, Err(pair[1]));
        }
    }

    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[test]
    fn atomic_moves_are_taken_for_granted_only_where_the_maker_says_so() {
        for (maker, is_said) in [
            (b"GenuineIntel", true),
            (b"AuthenticAMD", true),
            (b"  Shanghai  ", true),
            (b"CentaurHauls", true),
            (b"HygonGenuine", false),
            (b"VIA VIA VIA ", false),
            (b"\0\0\0\0\0\0\0\0\0\0\0\0", false),
        ] {
            assert_eq!(guarantees_atomic_moves(*maker), is_said, "{}", maker.escape_ascii());
        }
        assert!(maker().iter().all(u8::is_ascii), "{}", maker().escape_ascii());
    }
}
