//! Counters in Redis or Valkey, shared by a fleet: one atomic script per decision, or permits leased ahead of
//! time.
#![deny(missing_docs)] // it is published

mod ask;
mod call;
mod check;
mod client;
mod config;
mod counting;
mod exact;
mod heartbeat;
mod keys;
mod leased;
mod mixed;
mod scan;
mod script;
mod slots;
mod stats;
mod store;
mod translate;

pub use check::{Finding, Severity};
pub use config::{HashTag, RedisConfig, StoreTime};
pub use stats::{LeaseStats, RedisStats};
pub use store::RedisStore;
pub use tollgate_redis_link::{
    FLIGHT_EDGES, FlightStats, LinkSettings, Login, Secret, Servers, TlsClientFiles,
};
pub use tollgate_store::remote::{BreakerSettings, ConfigError, ConnStats, HostPort, StoreState};

/// Script calls and their replies without connections, for the tests of the scripts. Not part of the API: it
/// may change at any time.
#[doc(hidden)]
pub mod internals {
    pub use crate::ask::{Answer, Ask, AskError, KeyOperation};
    pub use crate::call::{
        MOST_CALLS, Next, Replied, ReplyPart, ScriptCall, answers, argument, first, together,
        together_answers,
    };
    pub use crate::keys::redis_key;
    pub use crate::leased::ledger_script::{LedgerJob, LedgerReplyError, decode, encode, pack};
    pub use crate::script::{Step, Swap, each};
    pub use crate::slots::{SlotAction, SlotReply, call as slot_call, read as slot_reply};
    pub use crate::translate::instant;
}
