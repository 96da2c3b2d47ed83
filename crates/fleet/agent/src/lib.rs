//! A node's end of the control plane's stream: rules come down and are put in force, reports go up.
//!
//! [`Agent`] is the protocol without I/O and without a clock. [`run`] carries out its actions over a real
//! stream, a state folder and a limiter that follows. Not here: the control plane's end (`fleet-hub`), what
//! rules mean (`policy`, `rule-files`).

mod agent;
mod apply;
mod backoff;
mod commands;
mod connect;
mod documents;
mod driver;
mod ids;
mod incoming;
mod mistake;
mod outbox;
mod overrides;
mod rules;
mod sample;
mod saved;
mod state_dir;
mod validate;
mod work;

pub use agent::{Action, Agent, AgentSettings, Event, Start};
pub use apply::{Apply, FollowApply};
pub use commands::carry_out;
pub use connect::{ConnectError, Endpoint};
pub use driver::{CarryOut, Judge, Seams, Status, run};
pub use ids::{LinkId, Ticket};
pub use mistake::Mistake;
pub use outbox::{Counts, RuleTotals, Sample};
pub use overrides::{interventions, put_in_force};
pub use rules::{AppRules, RuleDocument, RuleState};
pub use sample::sample;
pub use saved::{Marker, SavedError};
pub use state_dir::{Identity, StateDir};
pub use validate::{Job, Parsed, Parser, Validated, rule_files_parser};
