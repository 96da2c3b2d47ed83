//! Known bugs of rollouts: the simulation must find each.

tollgate_fleet_proto::known_bugs! {
    /// A step by labels forgets the share that was reached before.
    ShareShrinks: shrinks,
    /// Answers of the nodes of the step before count for those of this step.
    LateAcknowledgement: counts_late_answers,
    /// A step ends without the answers of its nodes.
    StepNotWaited: waits_for_nobody,
    /// A node that rejects the candidate fails no gate.
    RejectionIgnored: ignores_rejections,
}
