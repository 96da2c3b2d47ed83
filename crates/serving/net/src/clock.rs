//! The clock that all connections of a surface read.

use std::fmt;
use std::sync::Arc;

use tollgate_core::{Clock, Timestamp};

/// A clock shared by the parts of a process. Its `Debug` does not read it.
#[derive(Clone)]
pub struct SharedClock(Arc<dyn Clock>);

impl SharedClock {
    /// The time now.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.0.now()
    }
}

impl From<Arc<dyn Clock>> for SharedClock {
    fn from(clock: Arc<dyn Clock>) -> Self {
        Self(clock)
    }
}

impl fmt::Debug for SharedClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedClock")
    }
}
