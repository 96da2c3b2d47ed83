//! Deliberate mistakes of this end: the simulation must find each.

/// A mistake that the simulation must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// An older version of an app replaces a newer one.
    OlderVersionsApplied,
    /// A rejected app keeps the other apps of its bundle back.
    OneBadAppRejectsAll,
    /// Reports in doubt get a new number when they are repeated.
    RepeatedReportsRenumbered,
    /// Reports in doubt are dropped when the stream breaks.
    UnseenReportsDropped,
    /// No marker is written before rules are applied.
    NoMarker,
    /// Rules are acknowledged before they are saved.
    AcknowledgedBeforeSaved,
    /// Rejected rules are acknowledged as if they were in force.
    RejectedRulesAcknowledged,
}
