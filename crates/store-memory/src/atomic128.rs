//! Two instructions that safe code cannot use: the inlined 128-bit compare-and-swap, and the prefetch.
//!
//! Load and swap of a cached word (AMD Zen 4, medians of 200 × 10,000): `portable-atomic` 9.1 ns, since it
//! calls through a pointer and returns by memory; inlined 3.8 ns; a 64-bit swap 2.2 ns. Processors other than
//! x86-64 use `portable-atomic`. Prefetching: a batch of 16 takes 77 ns per decision at a million keys, and
//! 95 with plain loads in its place.
#![cfg_attr(target_arch = "x86_64", allow(unsafe_code, reason = "both are measured above and argued below"))]

use std::sync::atomic::Ordering;

/// An atomic 128-bit word.
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
        self.0.load(order)
    }

    #[inline]
    pub(crate) fn store(&self, new: u128, order: Ordering) {
        self.0.store(new, order);
    }

    /// # Errors
    /// What is there instead of `old`.
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
        std::is_x86_feature_detected!("cmpxchg16b") && std::is_x86_feature_detected!("avx"),
        Ordering::Relaxed,
    );
}

/// Acquires, as every load does on this processor.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
fn load_in_line(word: &portable_atomic::AtomicU128) -> u128 {
    let (low, high): (u64, u64);
    // SAFETY: `as_ptr` of a live atomic is valid for reads and aligned to 16 bytes, and the makers of
    // processors with AVX, which the caller made sure of, guarantee that an aligned 16-byte move is atomic.
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
    /// faster than one load of both, and a decision that swaps the word notices when they were.
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

    /// As [`AtomicU128::compare_exchange`].
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
    // access to it is atomic and of 16 bytes, by `portable-atomic`, which uses this instruction and 16-byte
    // moves on a processor that has it, as the caller made sure. rbx belongs to the compiler, so it is put
    // aside and brought back, and every operand has a register of its own that is not rbx; nothing here
    // touches the stack.
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
