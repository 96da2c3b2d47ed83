//! Known bugs of rollouts: the simulation must find each.

tollgate_fleet_proto::known_bugs! {
    /// A step by labels forgets the share that was reached before.
    ShareShrinks: shrinks,
    /// An acknowledgement of the step before counts for a node that has rejected the candidate since, or has
    /// yet to answer.
    LateAcknowledgement: counts_late_answers,
    /// A step ends without the answers of its nodes.
    StepNotWaited: waits_for_nobody,
    /// A node that rejects the candidate fails no gate.
    RejectionIgnored: ignores_rejections,
}
