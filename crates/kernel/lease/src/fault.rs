//! Deliberate mistakes, each of which the simulation must find. Without the feature `faults` none is ever
//! made, and the compiler removes the places that would make them.

/// A deliberate mistake in keeping a ledger or a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// Refill that was lost while everything was out is credited when an epoch ends.
    CreditsLostRefill,
    /// A request that comes a second time is settled a second time.
    SettlesTwice,
    /// The life of a lease is counted from when its grant was received.
    ExpiryFromReceipt,
    /// Promises ahead of the refill may bring what is out above the burst.
    NoCapOnPromises,
    /// A node spends what it has given back.
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
    /// A denial by the ledger is believed until time alone would bring some room, whatever others give back.
    RemembersDenials,
    /// Where the ledger does not know of a few permits that were spent, any number is taken back.
    GivesBackPart,
    /// What was spent of a lease that the ledger knew nothing of is taken back into the next lease.
    GivesBackDropped,
    /// What comes back unspent of a window is set against the hits that the window denied meanwhile.
    SwallowsWhatComesBack,
    /// A change of the rate rounds what is owed up to a whole permit.
    RoundsDebtUp,
    /// A grant may be less than the caller's cost.
    GrantsParts,
    /// Nodes keep taking centrally beside nodes that are promised everything that comes back.
    NeverQueues,
    /// Entries of a window stay until its end.
    KeepsEntries,
    /// Central takes of one cost go to the ledger at a time.
    OneCostATrip,
    /// What a lost request would have settled is not reported again.
    ForgetsLostNews,
    /// A charge counts as far as it fits.
    ChargesWhatFits,
    /// What a charge owes beyond the deepest debt that is written in units is forgotten.
    ForgetsDeepDebt,
    /// What comes back unspent of a window forgives what was charged beyond it.
    ForgivesCharges,
    /// A node answers a charge that its lease pays a part of, and forgets the rest.
    ForgetsTheRest,
    /// What a node pays from its lease stays in the lease.
    PaysFromNothing,
    /// A node that once had a lease lets checks pass.
    ChecksNothing,
    /// Where there are more takers than places, each asks as soon as one permit is back.
    ForgetsTheCrowd,
    /// A grant that falls short of what callers wait for is no reason not to ask again for each of them.
    AsksForEachCaller,
    /// A node that deals a grant out gives back what it holds beyond its own need, though callers wait.
    GivesBackWhatOthersWaitFor,
}
