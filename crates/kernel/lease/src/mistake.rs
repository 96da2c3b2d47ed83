//! Deliberate mistakes, each of which the simulation must find.

/// A deliberate mistake in keeping a ledger or a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mistake {
    /// Refill that was lost while everything was out is credited when an epoch ends.
    CreditsLostRefill,
    /// A request that comes a second time is settled a second time.
    SettlesTwice,
    /// The life of a lease is counted from when its grant was received.
    ExpiryFromReceipt,
    /// Promises ahead of the refill may bring the permits leased out above the burst.
    NoCapOnPromises,
    /// A node spends permits that it has given back.
    SpendsWhatItGaveBack,
    /// A state is forgotten before it equals that of an unseen key.
    ForgetsEarly,
    /// When the ledger's clock goes back, its account goes back with it.
    ClockStepMints,
    /// Each admission of merged takes is dealt out twice.
    DealsTwice,
    /// A reply is taken for the reply to a later request.
    TakesLateReplies,
    /// Permits promised ahead are spent at once.
    SpendsPromises,
    /// A lease that was written off is credited when its node reports after all.
    CreditsWrittenOff,
    /// A window's lease is spent after the window's end.
    OutlivesWindow,
    /// A return may bring the level above the burst.
    OverfillsOnGiveBack,
    /// A lease lives for tau on any clock, however fast it runs.
    IgnoresDrift,
    /// A denial by the ledger is believed until time alone would bring some room, even if others give back.
    RemembersDenials,
    /// Where the ledger does not know of a few permits that were spent, any number is taken back.
    GivesBackPart,
    /// Permits spent of a lease that the ledger did not know of are taken back into the next lease.
    GivesBackDropped,
    /// Unspent permits that come back to a window are set against the hits that the window denied meanwhile.
    SwallowsWhatComesBack,
    /// A change of the rate rounds a debt up to a whole permit.
    RoundsDebtUp,
    /// A grant may be less than the caller's cost.
    GrantsParts,
    /// Nodes keep taking centrally beside nodes that are promised everything that comes back.
    NeverQueues,
    /// Entries of a window stay until its end.
    KeepsEntries,
    /// Central takes of one cost go to the ledger at a time.
    OneCostATrip,
    /// The news of a lost request is not reported again.
    ForgetsLostNews,
    /// A charge counts as far as it fits.
    ChargesWhatFits,
    /// The part of a charge beyond the deepest debt that is written in units is forgotten.
    ForgetsDeepDebt,
    /// Unspent permits that come back to a window forgive the charges beyond it.
    ForgivesCharges,
    /// A node answers a charge that its lease pays a part of, and forgets the rest.
    ForgetsTheRest,
    /// Permits that a node pays from its lease stay in the lease.
    PaysFromNothing,
    /// A node that once had a lease lets checks pass.
    ChecksNothing,
    /// Where there are more takers than places, each asks as soon as one permit is back.
    ForgetsTheCrowd,
    /// A grant below the callers' need does not keep the node from asking again for each of them.
    AsksForEachCaller,
    /// A node that deals a grant out gives back the permits beyond its own need, though callers wait.
    GivesBackWhatOthersWaitFor,
}
