//! Buffers that calls use one after another: a pool for each thread, lent out by a guard, and vectors whose
//! allocation serves items of another lifetime.
#![deny(missing_docs)] // it is published

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::thread::LocalKey;

/// A set of buffers that one call works with. The transport owns the type and its thread's [`BufferPool`].
///
/// # Example
/// ```
/// # use std::thread::LocalKey;
/// use tollgate_buffers::{BufferPool, Buffers, CallBuffers};
///
/// #[derive(Debug, Default)]
/// struct Output {
///     bytes: Vec<u8>,
/// }
///
/// thread_local!(static OUTPUTS: BufferPool<Output> = const { BufferPool::new() });
///
/// impl Buffers for Output {
///     const KEPT: usize = 16;
///
///     fn pool() -> &'static LocalKey<BufferPool<Self>> {
///         &OUTPUTS
///     }
///
///     fn reset(&mut self) {
///         self.bytes.clear();
///         self.bytes.shrink_to(64 * 1024);
///     }
/// }
///
/// let mut output = CallBuffers::<Output>::take();
/// output.bytes.extend_from_slice(b"a reply");
/// drop(output); // also by `?` or when the call is cancelled
/// let again = CallBuffers::<Output>::take();
/// assert!(again.bytes.is_empty() && again.bytes.capacity() >= 7);
/// ```
pub trait Buffers: Default + 'static {
    /// Sets that a thread keeps while no call uses them.
    const KEPT: usize;

    /// The pool of the running thread.
    fn pool() -> &'static LocalKey<BufferPool<Self>>;

    /// Empties the buffers for the next call, and frees memory that a rare large call has added.
    fn reset(&mut self);
}

/// The buffers of one thread that no call uses now.
#[derive(Debug)]
pub struct BufferPool<B>(RefCell<Vec<Box<B>>>);

impl<B> BufferPool<B> {
    /// An empty pool.
    #[must_use]
    pub const fn new() -> Self {
        Self(RefCell::new(Vec::new()))
    }
}

impl<B> Default for BufferPool<B> {
    fn default() -> Self {
        Self::new()
    }
}

/// Buffers lent to one call. They go back to the pool of the thread that drops the guard, however the call
/// ends; only a panic discards them, since it may have left them in any state.
#[derive(Debug)]
pub struct CallBuffers<B: Buffers>(Option<Box<B>>);

impl<B: Buffers> CallBuffers<B> {
    /// Buffers of this thread's pool, or new ones.
    #[inline]
    #[must_use]
    pub fn take() -> Self {
        let kept = B::pool().try_with(|pool| pool.0.try_borrow_mut().ok().and_then(|mut pool| pool.pop()));
        Self(Some(kept.ok().flatten().unwrap_or_default()))
    }
}

impl<B: Buffers> Deref for CallBuffers<B> {
    type Target = B;

    #[inline]
    fn deref(&self) -> &B {
        self.0.as_deref().unwrap_or_else(|| unreachable!("taken on drop only"))
    }
}

impl<B: Buffers> DerefMut for CallBuffers<B> {
    #[inline]
    fn deref_mut(&mut self) -> &mut B {
        self.0.as_deref_mut().unwrap_or_else(|| unreachable!("taken on drop only"))
    }
}

impl<B: Buffers> Drop for CallBuffers<B> {
    #[inline]
    fn drop(&mut self) {
        let Some(mut buffers) = self.0.take() else { return };
        if std::thread::panicking() {
            return;
        }
        buffers.reset();
        // At a thread's end there is no pool any more.
        let _ = B::pool().try_with(|pool| {
            if let Ok(mut pool) = pool.0.try_borrow_mut()
                && pool.len() < B::KEPT
            {
                pool.push(buffers);
            }
        });
    }
}

/// The allocation of `items`, emptied, for items of the same type with another lifetime.
///
/// # Example
/// ```
/// # use tollgate_buffers::recycle;
/// let mut words: Vec<&'static str> = Vec::with_capacity(8);
/// for line in ["a b", "c d e"] {
///     let line = line.to_owned();
///     let mut split = recycle(words);
///     split.extend(line.split(' '));
///     assert!(split.len() >= 2 && split.capacity() >= 8);
///     words = recycle(split);
/// }
/// ```
#[inline]
#[must_use]
pub fn recycle<A, B>(mut items: Vec<A>) -> Vec<B> {
    const { assert!(size_of::<A>() == size_of::<B>() && align_of::<A>() == align_of::<B>()) };
    items.clear();
    // Collecting in place keeps the allocation.
    items.into_iter().map(|_| unreachable!("it is empty")).collect()
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[derive(Debug, Default)]
    struct Words {
        list: Vec<&'static str>,
    }

    thread_local!(static POOL: BufferPool<Words> = const { BufferPool::new() });

    impl Buffers for Words {
        const KEPT: usize = 2;

        fn pool() -> &'static LocalKey<BufferPool<Self>> {
            &POOL
        }

        fn reset(&mut self) {
            self.list.clear();
        }
    }

    fn pooled() -> usize {
        POOL.with(|pool| pool.0.borrow().len())
    }

    #[test]
    fn buffers_come_back_after_an_early_return_and_not_after_a_panic() {
        let fails = |at: Option<&'static str>| -> Option<()> {
            let mut words = CallBuffers::<Words>::take();
            words.list.push(at?);
            None
        };
        fails(None);
        assert_eq!(pooled(), 1);
        fails(Some("kept for the next call, emptied"));
        assert_eq!(pooled(), 1);
        assert!(CallBuffers::<Words>::take().list.is_empty());
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let mut words = CallBuffers::<Words>::take();
            words.list.push("half done");
            panic!("a fault");
        }));
        assert!(panicked.is_err());
        assert_eq!(pooled(), 0);
    }

    #[test]
    fn a_thread_keeps_no_more_than_it_should() {
        let three = [(); 3].map(|()| CallBuffers::<Words>::take());
        drop(three);
        assert_eq!(pooled(), Words::KEPT);
    }

    #[test]
    fn a_recycled_vector_keeps_its_allocation() {
        let long = "a text that lives shorter".to_owned();
        let mut borrowed: Vec<&str> = Vec::with_capacity(100);
        borrowed.push(&long);
        let place = borrowed.as_ptr().addr();
        let recycled: Vec<&'static str> = recycle(borrowed);
        assert_eq!((recycled.len(), recycled.capacity(), recycled.as_ptr().addr()), (0, 100, place));
    }
}
