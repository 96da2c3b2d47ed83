//! `tollgate.check.v1`: decisions with exact times.

use super::rls::{Duration, Entry};

/// A request for an exact decision.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct CheckRequest {
    /// Name of the rules to ask.
    #[prost(bytes = "vec", tag = "1")]
    pub domain: Vec<u8>,
    /// Entries of the descriptor, outermost first.
    #[prost(message, repeated, tag = "2")]
    pub entries: Vec<Entry>,
    /// Permits; 1 if absent, 0 peeks.
    #[prost(uint64, optional, tag = "3")]
    pub hits: Option<u64>,
    /// Longest wait for a turn; absent for no wait.
    #[prost(message, optional, tag = "4")]
    pub max_wait: Option<Duration>,
    /// Permits that are used already, in place of `hits`.
    #[prost(uint64, optional, tag = "5")]
    pub consumed: Option<u64>,
}

/// The decision on a [`CheckRequest`].
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct CheckResponse {
    /// The permits were taken.
    #[prost(bool, tag = "1")]
    pub admitted: bool,
    /// Most permits that can be left; absent where no limit applies.
    #[prost(uint64, optional, tag = "2")]
    pub limit: Option<u64>,
    /// Permits that are left; absent as `limit`.
    #[prost(uint64, optional, tag = "3")]
    pub remaining: Option<u64>,
    /// Delay before acting.
    #[prost(message, optional, tag = "4")]
    pub delay: Option<Duration>,
    /// Until a retry passes; absent if no wait helps.
    #[prost(message, optional, tag = "5")]
    pub retry_after: Option<Duration>,
    /// Path of the rule.
    #[prost(string, tag = "6")]
    pub rule: String,
    /// Fallback that decided while the store was unavailable: `allow`, `deny` or `local`; empty if the store
    /// decided.
    #[prost(string, tag = "7")]
    pub degraded: String,
    /// It would have been denied without shadow mode.
    #[prost(bool, tag = "8")]
    pub shadow: bool,
    /// Permits that the program may lease now.
    #[prost(message, optional, tag = "9")]
    pub offer: Option<Offer>,
    /// Permits that were used beyond all that there were.
    #[prost(uint64, tag = "10")]
    pub owed: u64,
}

/// Permits to lease.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct Offer {
    /// Most permits of the lease.
    #[prost(uint64, tag = "1")]
    pub permits: u64,
    /// Time in which the limit refills that many permits.
    #[prost(message, optional, tag = "2")]
    pub refill: Option<Duration>,
}

/// A request for permits to spend later without asking.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct LeaseRequest {
    /// Name of the rules to ask.
    #[prost(bytes = "vec", tag = "1")]
    pub domain: Vec<u8>,
    /// Entries of the descriptor, outermost first.
    #[prost(message, repeated, tag = "2")]
    pub entries: Vec<Entry>,
    /// Number of permits.
    #[prost(uint64, tag = "3")]
    pub permits: u64,
}

/// A lease, or none.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct LeaseResponse {
    /// Id for returning the permits; empty if there is no lease.
    #[prost(string, tag = "1")]
    pub id: String,
    /// Time in which the limit refills the permits.
    #[prost(message, optional, tag = "2")]
    pub refill: Option<Duration>,
}

/// A lease ends.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct ReturnRequest {
    /// Id of the lease.
    #[prost(string, tag = "1")]
    pub id: String,
    /// Permits that are not returned.
    #[prost(uint64, tag = "2")]
    pub used: u64,
}

/// Result of a [`ReturnRequest`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct ReturnResponse {
    /// Permits that went back to the limit.
    #[prost(uint64, tag = "1")]
    pub returned: u64,
}
