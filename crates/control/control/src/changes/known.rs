//! Results that a large change has before its transaction: everything that its rehearsal has read, compared
//! and compiled. Each has a name made of its inputs, so that a result of another version of an app is not
//! found. Not here: the rehearsal (`rehearsal`), and what is kept (`ahead`, and those who work it out).

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::ControlError;

/// The way a change runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Run {
    /// It ends where it turns out to be large.
    First,
    /// Nothing is written.
    Rehearsal,
    /// With what the rehearsal has found.
    Prepared,
    /// Whatever its size.
    AtOnce,
}

/// Results that are known before a change runs.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) run: Run,
    /// Changes of more rules are large.
    pub(crate) most: usize,
    found: Mutex<HashMap<String, Arc<dyn Any + Send + Sync>>>,
    /// The number of the next version, if it is taken already.
    pub(crate) taken: Option<Taken>,
}

/// The number of a version that is written already.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    pub(crate) app: String,
    pub(crate) app_id: String,
    /// The change makes the app.
    pub(crate) is_new: bool,
    pub(crate) version: i64,
}

impl Known {
    pub(crate) fn new(run: Run, most: usize) -> Self {
        Self { run, most, found: Mutex::default(), taken: None }
    }

    /// With all that a rehearsal has found.
    pub(crate) fn after(rehearsal: &Self) -> Self {
        let found = Mutex::new(std::mem::take(&mut *rehearsal.found.lock()));
        Self { found, ..Self::new(Run::Prepared, rehearsal.most) }
    }

    pub(crate) fn get<T: Any + Send + Sync>(&self, name: &str) -> Option<Arc<T>> {
        self.found.lock().get(name).cloned().and_then(|it| it.downcast().ok())
    }

    pub(crate) fn set<T: Any + Send + Sync>(&self, name: impl Into<String>, value: Arc<T>) {
        self.found.lock().insert(name.into(), value);
    }
}

/// The result of `work` on this number of rules; kept under its name if they are many.
///
/// # Errors
/// Those of `work`; [`ControlError::Large`] if it has to be found before the transaction.
pub(crate) fn known<T: Any + Send + Sync>(
    at: Option<&Known>,
    rules: usize,
    name: impl FnOnce() -> String,
    work: impl FnOnce() -> Result<T, ControlError>,
) -> Result<Arc<T>, ControlError> {
    let Some(ahead) = at.filter(|it| rules > it.most && it.run != Run::AtOnce) else {
        return work().map(Arc::new);
    };
    if ahead.run == Run::First {
        return Err(ControlError::Large);
    }
    let key = name();
    if let Some(found) = ahead.get(&key) {
        return Ok(found);
    }
    if ahead.run == Run::Prepared {
        return Err(ControlError::Large); // the app has changed
    }
    let made = Arc::new(work()?);
    ahead.set(key, Arc::clone(&made));
    Ok(made)
}

/// Keeps what the change itself has made.
pub(crate) fn keep<T: Any + Send + Sync>(
    at: Option<&Known>,
    rules: usize,
    name: impl FnOnce() -> String,
    value: impl FnOnce() -> T,
) {
    if let Some(ahead) = at.filter(|it| rules > it.most && it.run != Run::AtOnce) {
        ahead.set(name(), Arc::new(value()));
    }
}
