//! All contenders, behind one trait: a pass over keys, one decision each.

mod floor;
#[cfg(feature = "peers")]
mod peers;
mod tollgate;

use std::time::Duration;

/// The implementation that decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ContenderKind {
    /// Our memory store, one take a call.
    Tollgate,
    /// Our memory store, sixteen takes a call, one clock read each.
    TollgateBatch,
    /// Our memory store with the default algorithm of rule files.
    TollgateFixedWindow,
    /// Ours without a key: a quota and its state behind a lock.
    TollgateUnkeyed,
    /// The library's limiter by key.
    TollgateKeyed,
    /// governor without a key.
    GovernorUnkeyed,
    /// governor's keyed limiter (dashmap).
    Governor,
    /// throttlecrab's library; not shareable by itself.
    Throttlecrab,
    /// The same behind a lock, as two threads need it.
    ThrottlecrabLocked,
    /// limitador's library with its memory storage.
    Limitador,
    /// Hash, 16-byte slot, one compare-and-swap, clock: what no keyed limiter can be faster than.
    Floor,
    /// The floor, sixteen at a time.
    FloorBatch,
}

impl ContenderKind {
    /// As tables call it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Tollgate => "**tollgate**",
            Self::TollgateBatch => "**tollgate, batches of 16**",
            Self::TollgateFixedWindow => "**tollgate, fixed_window**",
            Self::TollgateUnkeyed => "**tollgate, no key**",
            Self::TollgateKeyed => "**tollgate, library by key**",
            Self::GovernorUnkeyed => "governor direct",
            Self::Governor => "governor keyed",
            Self::Throttlecrab => "throttlecrab library",
            Self::ThrottlecrabLocked => "throttlecrab library, locked",
            Self::Limitador => "limitador crate, memory",
            Self::Floor => "floor",
            Self::FloorBatch => "floor, batches of 16",
        }
    }

    /// The word for the command line.
    pub(crate) fn word(self) -> String {
        clap::ValueEnum::to_possible_value(&self)
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// The quota of every key: one permit back per `every`, at most `burst`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allowance {
    pub(crate) every: Duration,
    pub(crate) burst: u32,
}

impl Allowance {
    /// For many keys: a hit is remembered for ten minutes, and no key runs dry (28 years to fill).
    pub(crate) const MANY: Self = Self { every: Duration::from_secs(600), burst: 1_500_000 };
    /// For one hot key: no run empties it.
    pub(crate) const ONE: Self = Self { every: Duration::from_secs(1), burst: 900_000_000 };
    /// Denied from the third hit on. (From the second would be plainer, but throttlecrab never denies at a
    /// burst of 1.)
    pub(crate) const NONE: Self = Self { every: Duration::from_secs(86_400), burst: 2 };
}

/// A limiter under test.
pub(crate) trait Contender: Send + Sync {
    /// Decides once for every key, in order, with the clock read that a real call needs. Returns the number
    /// of admitted keys.
    fn pass(&self, keys: &[String]) -> u64;
}

/// A contender ready to decide for up to `keys` keys; `None` if this build does not include it.
pub(crate) fn make(kind: ContenderKind, allowance: Allowance, keys: u64) -> Option<Box<dyn Contender>> {
    match kind {
        ContenderKind::Tollgate => Some(Box::new(tollgate::Tollgate::token_bucket(allowance)?)),
        ContenderKind::TollgateBatch => {
            Some(Box::new(tollgate::Batches(tollgate::Tollgate::token_bucket(allowance)?)))
        }
        ContenderKind::TollgateFixedWindow => Some(Box::new(tollgate::Tollgate::fixed_window(allowance)?)),
        ContenderKind::TollgateUnkeyed => Some(Box::new(tollgate::Unkeyed::new(allowance)?)),
        ContenderKind::TollgateKeyed => Some(Box::new(tollgate::Keyed::new(allowance)?)),
        ContenderKind::Floor => Some(Box::new(floor::Floor::new(allowance, keys))),
        ContenderKind::FloorBatch => Some(Box::new(floor::Batches(floor::Floor::new(allowance, keys)))),
        #[cfg(feature = "peers")]
        peer => peers::make(peer, allowance, keys),
        #[cfg(not(feature = "peers"))]
        _ => None,
    }
}
