//! One counter of a store: its key, the quota that it is counted by, and where it is kept.

use tollgate_core::Quota;

/// The key of a counter's state: bytes that no two counters share. The limiter makes them, escaped, so that
/// no value chosen by a client can equal another counter's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key<'a>(pub &'a [u8]);

/// One counter of a store.
///
/// # Example
/// ```
/// # use tollgate_store::{Counter, Key, Sharing};
/// # use tollgate_core::Quota;
/// # use std::time::Duration;
/// let quota = Quota::fixed_window(5, Duration::from_secs(60))?;
/// let everywhere = Counter::new(Key(b"ann"), &quota);
/// assert_eq!(everywhere.sharing, Sharing::Exact);
/// let here = everywhere.shared(Sharing::Local);
/// assert_eq!((here.key, here.sharing), (Key(b"ann"), Sharing::Local));
/// # Ok::<(), tollgate_core::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Counter<'a> {
    /// The key of its state.
    pub key: Key<'a>,
    /// The quota that it is counted by.
    pub quota: &'a Quota,
    /// The place where it is kept.
    pub sharing: Sharing,
    /// The source of its quota.
    pub origin: Origin,
}

impl<'a> Counter<'a> {
    /// The counter of `key`, counted by `quota`, which is a rule's, and kept as [`Sharing::Exact`].
    #[must_use]
    pub const fn new(key: Key<'a>, quota: &'a Quota) -> Self {
        Self { key, quota, sharing: Sharing::Exact, origin: Origin::Rule }
    }

    /// The same counter, of a quota that came from `origin`. A counter has one origin.
    #[must_use]
    pub const fn from_origin(mut self, origin: Origin) -> Self {
        self.origin = origin;
        self
    }

    /// The same counter, kept as `sharing`.
    #[must_use]
    pub const fn shared(mut self, sharing: Sharing) -> Self {
        self.sharing = sharing;
        self
    }
}

/// The key of the slots of a concurrency limit, and the place where they are kept.
///
/// # Example
/// ```
/// # use tollgate_store::{Key, Sharing, SlotKey};
/// assert_eq!(SlotKey::new(Key(b"ann")).sharing, Sharing::Exact);
/// assert_eq!(SlotKey::new(Key(b"ann")).shared(Sharing::Local).sharing, Sharing::Local);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotKey<'a> {
    /// The key of the slots.
    pub key: Key<'a>,
    /// The place where they are kept. Slots are never leased: [`Sharing::Leased`] means [`Sharing::Exact`].
    pub sharing: Sharing,
}

impl<'a> SlotKey<'a> {
    /// Slots of `key`, kept as [`Sharing::Exact`].
    #[must_use]
    pub const fn new(key: Key<'a>) -> Self {
        Self { key, sharing: Sharing::Exact }
    }

    /// The same slots, kept as `sharing`.
    #[must_use]
    pub const fn shared(mut self, sharing: Sharing) -> Self {
        self.sharing = sharing;
        self
    }
}

/// The author of a counter's quota. A store that must drop counters for lack of room bounds those that its
/// callers make as they like, and drops none of the others for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Origin {
    /// A rule: the quota is known before the request.
    #[default]
    Rule,
    /// The caller: the quota came with the request.
    Request,
}

/// The place of a counter when several nodes run. The arithmetic is the same; a store that only one node uses
/// ignores this.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Sharing {
    /// In the store, with a call per decision.
    #[default]
    Exact,
    /// In the store, which hands out permits ahead of time.
    Leased,
    /// In this node's memory, even when a store is configured.
    Local,
}

impl Sharing {
    /// The name in rule files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Leased => "leased",
            Self::Local => "local",
        }
    }
}
