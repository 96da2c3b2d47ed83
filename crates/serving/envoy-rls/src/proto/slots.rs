//! `tollgate.slots.v1`: slots of limits on what runs at the same time.

use super::rls::{Duration, Entry};

/// A holder wants a slot, or more time for the one that it has.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct AcquireRequest {
    /// Name of the rules to ask.
    #[prost(bytes = "vec", tag = "1")]
    pub domain: Vec<u8>,
    /// Entries of the descriptor, outermost first.
    #[prost(message, repeated, tag = "2")]
    pub entries: Vec<Entry>,
    /// The holder: 32 hexadecimal digits. Empty for a new one.
    #[prost(string, tag = "3")]
    pub id: String,
}

/// Whether it may run.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct AcquireResponse {
    #[prost(bool, tag = "1")]
    pub admitted: bool,
    /// The holder; empty if denied.
    #[prost(string, tag = "2")]
    pub id: String,
    /// Slots in all; absent if no slot was taken.
    #[prost(uint64, optional, tag = "3")]
    pub limit: Option<u64>,
    /// Slots that are free; absent as `limit`.
    #[prost(uint64, optional, tag = "4")]
    pub remaining: Option<u64>,
    /// Until the first slot expires; absent if no wait helps.
    #[prost(message, optional, tag = "5")]
    pub retry_after: Option<Duration>,
    /// Until the slot is free unless it is renewed or released.
    #[prost(message, optional, tag = "6")]
    pub expires_in: Option<Duration>,
    /// The holder had the slot already.
    #[prost(bool, tag = "7")]
    pub renewed: bool,
    /// Path of the rule.
    #[prost(string, tag = "8")]
    pub rule: String,
    /// Fallback that decided while the store was unavailable: `allow`, `deny` or `local`; empty if the store
    /// decided.
    #[prost(string, tag = "9")]
    pub degraded: String,
    /// It would have been denied without shadow mode.
    #[prost(bool, tag = "10")]
    pub shadow: bool,
}

/// A holder gives its slot up.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct ReleaseRequest {
    /// Name of the rules.
    #[prost(bytes = "vec", tag = "1")]
    pub domain: Vec<u8>,
    /// Entries of the descriptor, outermost first.
    #[prost(message, repeated, tag = "2")]
    pub entries: Vec<Entry>,
    /// The holder: 32 hexadecimal digits.
    #[prost(string, tag = "3")]
    pub id: String,
}

/// Result of a [`ReleaseRequest`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct ReleaseResponse {
    /// The slot was held until now.
    #[prost(bool, tag = "1")]
    pub released: bool,
}
