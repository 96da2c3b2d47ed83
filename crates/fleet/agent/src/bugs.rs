//! Known bugs of this end: each must be found.

tollgate_fleet_proto::known_bugs! {
    /// An older version of an app replaces a newer one.
    OlderVersionsApplied: applies_older,
    /// A rejected app keeps the other apps of its bundle back.
    OneBadAppRejectsAll: rejects_all,
    /// Reports in doubt get a new number when they are repeated.
    RepeatedReportsRenumbered: renumbers,
    /// Reports in doubt are dropped when the stream breaks.
    UnseenReportsDropped: drops_unseen,
    /// No marker is written before rules are applied.
    NoMarker: leaves_out_marker,
    /// Rules are acknowledged before they are saved.
    AcknowledgedBeforeSaved: acknowledges_early,
    /// Rejected rules are acknowledged as if they were in force.
    RejectedRulesAcknowledged: acknowledges_rejected,
}
