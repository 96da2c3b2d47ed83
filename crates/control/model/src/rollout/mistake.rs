//! Deliberate mistakes of rollouts: the simulation must find each.

/// A mistake that the simulation must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// A step by labels forgets the share that was reached before.
    ShareShrinks,
    /// Answers of the nodes of the step before count for those of this step.
    LateAcknowledgement,
    /// A step ends without the answers of its nodes.
    StepNotWaited,
    /// A node that rejects the candidate fails no gate.
    RejectionIgnored,
}
