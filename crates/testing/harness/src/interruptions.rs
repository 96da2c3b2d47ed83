//! Something that happens before a certain transaction of a control plane.

use std::sync::Arc;

use parking_lot::Mutex;
use tollgate_db::TimeSource;

/// No transaction has a number as high: so they are not counted.
const NOT_COUNTED: usize = 1_000_000;

/// Numbers the writing transactions of a control plane, from [`Interruptions::begin`] to
/// [`Interruptions::end`], and does something before each. A control plane asks for the time before each
/// transaction, so this is its clock, which stands still.
#[derive(Clone, Debug)]
pub struct Interruptions(Arc<Mutex<usize>>);

impl Default for Interruptions {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(NOT_COUNTED)))
    }
}

impl Interruptions {
    /// The clock. `work` runs before each writing transaction and gets its number, if they are numbered.
    pub fn time(&self, work: impl Fn(Option<usize>) + Send + Sync + 'static) -> TimeSource {
        let counted = Arc::clone(&self.0);
        TimeSource::Asked(Arc::new(move || {
            if std::thread::current().name() == Some("db-write") {
                let mut next = counted.lock(); // until `work` is done, so that `end` waits for it
                let number = *next;
                *next += 1;
                work((number < NOT_COUNTED).then_some(number));
            }
            1_800_000_000_000
        }))
    }

    /// The next transaction has the number 0.
    pub fn begin(&self) {
        *self.0.lock() = 0;
    }

    /// Transactions have no numbers any more. Returns how many had one, once all that happens before them has
    /// happened: a control plane may have begun the last by itself, to tidy up.
    pub fn end(&self) -> usize {
        std::mem::replace(&mut *self.0.lock(), NOT_COUNTED)
    }
}
