//! `tollgate.check.v1`: decisions with exact times.

use super::rls::{Duration, Entry};

/// A question: may this pass?
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct CheckRequest {
    /// Name of the rules to ask.
    #[prost(bytes = "vec", tag = "1")]
    pub domain: Vec<u8>,
    /// The descriptor.
    #[prost(message, repeated, tag = "2")]
    pub entries: Vec<Entry>,
    /// Permits; 1 if absent, 0 peeks.
    #[prost(uint64, optional, tag = "3")]
    pub hits: Option<u64>,
    /// How long it may wait for its turn; absent for not at all.
    #[prost(message, optional, tag = "4")]
    pub max_wait: Option<Duration>,
    /// Permits that are used already, in place of `hits`.
    #[prost(uint64, optional, tag = "5")]
    pub consumed: Option<u64>,
}

/// The decision.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct CheckResponse {
    /// The permits were taken.
    #[prost(bool, tag = "1")]
    pub admitted: bool,
    /// The most permits that can be there; absent where no limit applies.
    #[prost(uint64, optional, tag = "2")]
    pub limit: Option<u64>,
    /// Permits that are left; absent as `limit`.
    #[prost(uint64, optional, tag = "3")]
    pub remaining: Option<u64>,
    /// How much later to act.
    #[prost(message, optional, tag = "4")]
    pub delay: Option<Duration>,
    /// Until a retry passes; absent if no wait helps.
    #[prost(message, optional, tag = "5")]
    pub retry_after: Option<Duration>,
    /// Path of the rule.
    #[prost(string, tag = "6")]
    pub rule: String,
    /// How it was decided while the store was unavailable.
    #[prost(string, tag = "7")]
    pub degraded: String,
    /// It would have been denied without shadow mode.
    #[prost(bool, tag = "8")]
    pub shadow: bool,
    /// What a program may lease.
    #[prost(message, optional, tag = "9")]
    pub offer: Option<Offer>,
    /// Permits that were used beyond all that there were.
    #[prost(uint64, tag = "10")]
    pub owed: u64,
}

/// Permits to lease.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct Offer {
    /// At most.
    #[prost(uint64, tag = "1")]
    pub permits: u64,
    /// How long the limit takes to refill that many.
    #[prost(message, optional, tag = "2")]
    pub refill: Option<Duration>,
}

/// A program wants permits ahead.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct LeaseRequest {
    /// Name of the rules to ask.
    #[prost(bytes = "vec", tag = "1")]
    pub domain: Vec<u8>,
    /// The descriptor.
    #[prost(message, repeated, tag = "2")]
    pub entries: Vec<Entry>,
    /// How many.
    #[prost(uint64, tag = "3")]
    pub permits: u64,
}

/// A lease, or none.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct LeaseResponse {
    /// By which permits are returned; empty if there is none.
    #[prost(string, tag = "1")]
    pub id: String,
    /// How long the limit takes to refill the permits.
    #[prost(message, optional, tag = "2")]
    pub refill: Option<Duration>,
}

/// A lease ends.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct ReturnRequest {
    /// Which.
    #[prost(string, tag = "1")]
    pub id: String,
    /// Permits that are not returned.
    #[prost(uint64, tag = "2")]
    pub used: u64,
}

/// What was returned.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct ReturnResponse {
    /// Permits.
    #[prost(uint64, tag = "1")]
    pub returned: u64,
}
