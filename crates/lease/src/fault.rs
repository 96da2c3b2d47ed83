//! Ways to keep a ledger or a lease wrongly. Compiled for tests only: each is a mistake that the simulation must find.

/// A mistake, made on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// Refill that was lost while all was out is credited when an epoch ends.
    CreditsLostRefill,
    /// A request that comes a second time is settled a second time.
    SettlesTwice,
    /// A lease ends so long after its grant was received.
    ExpiryFromReceipt,
    /// What is promised ahead of its refill may bring what is out above the burst.
    NoCapOnPromises,
    /// A node spends what it has given back.
    SpendsWhatItGaveBack,
    /// A state is forgotten before it equals that of an unseen key.
    ForgetsEarly,
    /// When the ledger's clock goes back, its account goes back with it.
    ClockStepMints,
    /// Of merged takes, each admission is dealt out twice.
    DealsTwice,
    /// A reply is taken for that to a later request.
    TakesLateReplies,
    /// Permits promised ahead are spent at once.
    SpendsPromises,
    /// A lease that was written off is credited when its node reports after all.
    CreditsWrittenOff,
    /// A window's lease is spent after the window's end.
    OutlivesWindow,
    /// What is given back may bring the level above the burst.
    OverfillsOnGiveBack,
    /// A lease lives for tau on any clock, however fast it runs.
    IgnoresDrift,
    /// That the ledger has no room is believed until time alone would bring some, whatever others give back.
    RemembersDenials,
    /// Where the ledger has not heard of a few permits that were spent, any number is taken back.
    GivesBackPart,
    /// What was spent of a lease that the ledger knew nothing of is taken back into the next.
    GivesBackDropped,
    /// What comes back unspent of a window is set against the hits that it refused meanwhile.
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
    /// What a lost request would have settled is not said again.
    ForgetsLostNews,
    /// Where there are more takers than places, each asks as soon as one permit is back.
    ForgetsTheCrowd,
}
