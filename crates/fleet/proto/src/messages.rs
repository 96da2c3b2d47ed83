//! The messages, as plain structs: field numbers are those of `proto/tollgate/fleet/v1/fleet.proto`, and a
//! test holds the two together.

use prost::Message as _;
use prost::bytes::Bytes;

/// A message from a node to the control plane.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodeSays {
    #[prost(oneof = "FromNode", tags = "1, 2, 3, 4, 5")]
    pub says: Option<FromNode>,
}

/// The messages of [`NodeSays`].
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum FromNode {
    /// First message of a node.
    #[prost(message, tag = "1")]
    Hello(Hello),
    /// Every app of a bundle is in force.
    #[prost(message, tag = "2")]
    Ack(Ack),
    /// Some apps of a bundle were rejected.
    #[prost(message, tag = "3")]
    Nack(Nack),
    /// Counts since the previous report.
    #[prost(message, tag = "4")]
    Report(Report),
    /// Answer to a command.
    #[prost(message, tag = "5")]
    Reply(Reply),
}

impl From<FromNode> for NodeSays {
    fn from(says: FromNode) -> Self {
        Self { says: Some(says) }
    }
}

/// A message from the control plane to a node.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ControlSays {
    #[prost(oneof = "FromControl", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9")]
    pub says: Option<FromControl>,
}

/// The messages of [`ControlSays`].
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum FromControl {
    /// Answer to Hello.
    #[prost(message, tag = "1")]
    Welcome(Welcome),
    /// A set of rules follows: its documents, then End.
    #[prost(message, tag = "2")]
    Begin(Begin),
    /// The rules of one domain of an app.
    #[prost(message, tag = "3")]
    Document(Document),
    /// The bundle is complete.
    #[prost(message, tag = "4")]
    End(End),
    /// The database contains this report and all before it.
    #[prost(message, tag = "5")]
    Seen(Seen),
    /// All blocks and allowances in force; replaces the previous ones.
    #[prost(message, tag = "6")]
    Overrides(Overrides),
    /// A request to one node.
    #[prost(message, tag = "7")]
    Command(Command),
    /// The stream ends.
    #[prost(message, tag = "8")]
    GoAway(GoAway),
    /// All versions that are being rolled out; replaces the previous ones.
    #[prost(message, tag = "9")]
    Candidates(Candidates),
}

impl From<FromControl> for ControlSays {
    fn from(says: FromControl) -> Self {
        Self { says: Some(says) }
    }
}

impl ControlSays {
    /// The encoded message. Messages for many nodes are encoded once.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        self.encode_to_vec().into()
    }

    /// Decodes a message.
    ///
    /// # Errors
    /// When `bytes` are not those of a message.
    pub fn from_bytes(bytes: Bytes) -> Result<Self, prost::DecodeError> {
        Self::decode(bytes)
    }
}

/// First message of a node.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Hello {
    /// Kept in the node's state folder.
    #[prost(string, tag = "1")]
    pub node: String,
    /// Grows with every start of the node.
    #[prost(uint64, tag = "2")]
    pub incarnation: u64,
    /// Name for people.
    #[prost(string, tag = "3")]
    pub name: String,
    /// For rollouts and filters.
    #[prost(message, repeated, tag = "4")]
    pub labels: Vec<Label>,
    /// Such as "tollgate 0.1.0".
    #[prost(string, tag = "5")]
    pub software: String,
    /// Highest language level of rules that the node reads.
    #[prost(uint32, tag = "6")]
    pub language: u32,
    /// Database that the versions of `held` belong to; empty on a node that never held any.
    #[prost(string, tag = "7")]
    pub epoch: String,
    /// Everything in force.
    #[prost(message, repeated, tag = "8")]
    pub held: Vec<Held>,
    /// Domains of the node's own rule files.
    #[prost(string, repeated, tag = "9")]
    pub local_domains: Vec<String>,
    /// Versions that crashed the node while it applied them; it does not try them again.
    #[prost(message, repeated, tag = "10")]
    pub crashed: Vec<Fault>,
    /// 32 random bytes of this node's own, from its state folder: no other node can attach with its id.
    #[prost(bytes = "vec", tag = "11")]
    pub secret: Vec<u8>,
}

/// A name and its value.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Label {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

/// A version of an app in force on a node.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Held {
    /// Name of the app.
    #[prost(string, tag = "1")]
    pub app: String,
    /// Version of the app.
    #[prost(uint64, tag = "2")]
    pub version: u64,
    /// Digest of the app's documents.
    #[prost(bytes = "vec", tag = "3")]
    pub sha256: Vec<u8>,
}

/// Every app of a bundle is in force.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Ack {
    /// Number of the bundle.
    #[prost(uint64, tag = "1")]
    pub bundle: u64,
    /// Everything in force now.
    #[prost(message, repeated, tag = "2")]
    pub held: Vec<Held>,
}

/// Some apps of a bundle were rejected. The others are in force.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Nack {
    /// Number of the bundle.
    #[prost(uint64, tag = "1")]
    pub bundle: u64,
    /// Faults of the rejected apps.
    #[prost(message, repeated, tag = "2")]
    pub faults: Vec<Fault>,
    /// Everything in force now.
    #[prost(message, repeated, tag = "3")]
    pub held: Vec<Held>,
}

/// Why a version of an app is not in force.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Fault {
    /// Name of the app.
    #[prost(string, tag = "1")]
    pub app: String,
    /// Version of the app.
    #[prost(uint64, tag = "2")]
    pub version: u64,
    /// Domain of the document; empty if the fault is not in one document.
    #[prost(string, tag = "3")]
    pub domain: String,
    /// From 1; 0 if there is no place.
    #[prost(uint32, tag = "4")]
    pub line: u32,
    /// In characters, from 1; 0 if there is no place.
    #[prost(uint32, tag = "5")]
    pub column: u32,
    /// Such as `descriptors[2].rate_limit.unit`.
    #[prost(string, tag = "6")]
    pub path: String,
    /// The error, and what to write instead.
    #[prost(string, tag = "7")]
    pub message: String,
}

/// Counts of a node. Reports of an incarnation are numbered 1, 2, 3 … and repeated until they are seen.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Report {
    /// Number of the report.
    #[prost(uint64, tag = "1")]
    pub sequence: u64,
    /// Time since the span ended, in ms.
    #[prost(uint64, tag = "2")]
    pub age_ms: u64,
    /// The time that the counts cover, in ms.
    #[prost(uint64, tag = "3")]
    pub span_ms: u64,
    /// Counts of rules that were used.
    #[prost(message, repeated, tag = "4")]
    pub rules: Vec<RuleCounts>,
    /// Keys that were limited most.
    #[prost(message, repeated, tag = "5")]
    pub top: Vec<TopKey>,
    #[prost(message, repeated, tag = "6")]
    pub costs: Vec<Cost>,
    /// Health of the store.
    #[prost(message, optional, tag = "7")]
    pub store: Option<Store>,
    /// Memory of the table of counters.
    #[prost(uint64, tag = "8")]
    pub table_bytes: u64,
    /// The node's wall clock, in ms since the Unix epoch.
    #[prost(uint64, tag = "9")]
    pub wall_ms: u64,
    /// Why accepted rules could not be saved; empty if they were.
    #[prost(string, tag = "10")]
    pub state_error: String,
    /// Why the node's own rule files as they are now are not in force; empty if they are.
    #[prost(string, tag = "11")]
    pub rules_error: String,
    /// Domains that were asked for and have no rules; only the first 100 since the start.
    #[prost(string, repeated, tag = "12")]
    pub unknown_domains: Vec<String>,
    /// Requests in the span that were not answered by the rules.
    #[prost(message, repeated, tag = "13")]
    pub rejected: Vec<RejectedRequests>,
}

/// Counts of one rule.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct RuleCounts {
    #[prost(string, tag = "1")]
    pub domain: String,
    /// Path of the rule.
    #[prost(string, tag = "2")]
    pub rule: String,
    /// Decisions that admitted.
    #[prost(uint64, tag = "3")]
    pub admitted: u64,
    /// Decisions that denied.
    #[prost(uint64, tag = "4")]
    pub denied: u64,
    /// Admitted by shadow mode alone.
    #[prost(uint64, tag = "5")]
    pub shadow_denied: u64,
    /// Decided without the store.
    #[prost(uint64, tag = "6")]
    pub degraded: u64,
    /// Hits near the limit.
    #[prost(uint64, tag = "7")]
    pub near: u64,
    /// Denied decisions that a limit in shadow would have denied too.
    #[prost(uint64, tag = "8")]
    pub both_denied: u64,
    /// Denied decisions on several uncounted hits, which may be the cost of finished work.
    #[prost(uint64, tag = "9")]
    pub forgotten: u64,
    /// Admitted decisions that the candidate's own counters would have denied.
    #[prost(uint64, tag = "10")]
    pub alone_denied: u64,
}

/// Requests that no rule was asked about, since they were not understood or came when there was no room.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct RejectedRequests {
    /// Such as `grpc`, `http` or `resp`.
    #[prost(string, tag = "1")]
    pub surface: String,
    /// Status of the reply, in the protocol's own words.
    #[prost(string, tag = "2")]
    pub status: String,
    /// One of a few words.
    #[prost(string, tag = "3")]
    pub reason: String,
    #[prost(uint64, tag = "4")]
    pub count: u64,
}

/// A key that was limited.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct TopKey {
    #[prost(string, tag = "1")]
    pub domain: String,
    /// Path of the rule.
    #[prost(string, tag = "2")]
    pub rule: String,
    #[prost(string, tag = "3")]
    pub key: String,
    /// Decisions that denied, in the span of the report.
    #[prost(uint64, tag = "4")]
    pub denied: u64,
}

/// Measured time of the work behind a rule.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Cost {
    #[prost(string, tag = "1")]
    pub domain: String,
    /// Path of the rule.
    #[prost(string, tag = "2")]
    pub rule: String,
    /// Number of measurements.
    #[prost(uint64, tag = "3")]
    pub count: u64,
    /// Their sum, in µs.
    #[prost(uint64, tag = "4")]
    pub sum_us: u64,
    /// The longest, in µs.
    #[prost(uint64, tag = "5")]
    pub max_us: u64,
    /// Number of pieces of work that failed.
    #[prost(uint64, tag = "6")]
    pub errors: u64,
}

/// Health of the store.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Store {
    #[prost(string, tag = "1")]
    pub name: String,
    /// Whether it answers.
    #[prost(bool, tag = "2")]
    pub available: bool,
}

/// Answer to a command.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Reply {
    /// Number of the command.
    #[prost(uint64, tag = "1")]
    pub command: u64,
    /// Empty if the command succeeded.
    #[prost(string, tag = "2")]
    pub error: String,
    /// Result of the command, as JSON.
    #[prost(string, tag = "3")]
    pub body: String,
}

/// Answer to Hello.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Welcome {
    /// Names the database; versions of different epochs do not compare.
    #[prost(string, tag = "1")]
    pub epoch: String,
    /// The replica that answers.
    #[prost(string, tag = "2")]
    pub replica: String,
    /// Interval of reports, in ms.
    #[prost(uint32, tag = "3")]
    pub report_interval_ms: u32,
}

/// A set of rules follows: its documents, then End.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Begin {
    /// Number of the bundle.
    #[prost(uint64, tag = "1")]
    pub bundle: u64,
    /// The node drops apps that the bundle does not name.
    #[prost(bool, tag = "2")]
    pub full: bool,
    /// Apps that change.
    #[prost(message, repeated, tag = "3")]
    pub apps: Vec<AppVersion>,
    /// Names of apps that no longer exist.
    #[prost(string, repeated, tag = "4")]
    pub removed: Vec<String>,
}

/// One app of a bundle.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct AppVersion {
    /// Name of the app.
    #[prost(string, tag = "1")]
    pub app: String,
    /// Version of the app.
    #[prost(uint64, tag = "2")]
    pub version: u64,
    /// Number of its documents.
    #[prost(uint32, tag = "3")]
    pub documents: u32,
    /// Digest of the app's documents.
    #[prost(bytes = "vec", tag = "4")]
    pub sha256: Vec<u8>,
}

/// The rules of one domain of an app.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Document {
    /// Name of the app.
    #[prost(string, tag = "1")]
    pub app: String,
    /// Version of the app.
    #[prost(uint64, tag = "2")]
    pub version: u64,
    #[prost(string, tag = "3")]
    pub domain: String,
    /// SHA-256 of `yaml`.
    #[prost(bytes = "vec", tag = "4")]
    pub sha256: Vec<u8>,
    /// The text, of at most 4 MiB.
    #[prost(string, tag = "5")]
    pub yaml: String,
}

/// The bundle is complete.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct End {
    /// Number of the bundle.
    #[prost(uint64, tag = "1")]
    pub bundle: u64,
}

/// The database contains this report and all before it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct Seen {
    /// Number of the report.
    #[prost(uint64, tag = "1")]
    pub sequence: u64,
}

/// All blocks and allowances in force; replaces the previous ones.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Overrides {
    /// Grows with every change.
    #[prost(uint64, tag = "1")]
    pub revision: u64,
    /// All of them; an override that is missing has ended.
    #[prost(message, repeated, tag = "2")]
    pub overrides: Vec<Override>,
}

/// Blocks or allows a key, a caller or a domain for a time.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Override {
    #[prost(string, tag = "1")]
    pub domain: String,
    /// The descriptor's entries, outermost first; none for the whole domain.
    #[prost(message, repeated, tag = "2")]
    pub entries: Vec<Label>,
    /// Number of an [`Action`].
    #[prost(enumeration = "Action", tag = "3")]
    pub action: i32,
    /// In ms since the Unix epoch.
    #[prost(uint64, tag = "4")]
    pub until_ms: u64,
}

/// All versions that are being rolled out; replaces the previous ones. A node that has such a version charges
/// counters which only nodes with this version use, beside those that it decides by.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Candidates {
    #[prost(message, repeated, tag = "1")]
    pub apps: Vec<CandidateVersion>,
}

/// A version that is being rolled out.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct CandidateVersion {
    /// Name of the app.
    #[prost(string, tag = "1")]
    pub app: String,
    /// Version of the app.
    #[prost(uint64, tag = "2")]
    pub version: u64,
}

/// A request to one node.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Command {
    /// Number of the command.
    #[prost(uint64, tag = "1")]
    pub command: u64,
    /// inspect, reset, scan, store_test or explain.
    #[prost(string, tag = "2")]
    pub kind: String,
    /// Arguments of the command, as JSON.
    #[prost(string, tag = "3")]
    pub body: String,
}

/// The stream ends. The node comes back after this time.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct GoAway {
    /// Wait before the node connects again, in ms.
    #[prost(uint64, tag = "1")]
    pub after_ms: u64,
    /// For the log.
    #[prost(string, tag = "2")]
    pub reason: String,
}

/// Effect of an [`Override`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Action {
    /// Admits without counting.
    Allow = 0,
    Deny = 1,
}
