//! Deliberate mistakes of this end: the simulation must find each.

/// A mistake that the simulation must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// A publication that comes while a node is busy is not sent to it afterwards.
    PublicationForgotten,
    /// A report is confirmed before it is stored.
    SeenBeforeStored,
    /// Nodes that hold a removed app keep it.
    RemovalForgotten,
    /// Rules that this database has never published are replaced once its version is above theirs.
    ForeignReplaced,
    /// Rules that a node rejected are sent again and again.
    RejectedSentAgain,
}
