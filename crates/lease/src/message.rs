//! What goes between nodes and the ledger. Every number fits a double. Not here: how it is written on the wire.

/// One operation on a key's ledger. Everything that touches a leased key is one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// What to do.
    pub op: Op,
    /// Of a fixed window on a calendar: where the caller thinks that the window in force ends, in microseconds since the Unix
    /// epoch ([`Terms::window_ends_us`](super::Terms::window_ends_us)). Used only to begin a window; else 0.
    pub window_ends_us: u64,
}

/// What to do with a key's ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A node reports what it holds and has spent, and asks for more. Repeating, losing and reordering it is safe.
    Lease(Request),
    /// Central takes of equal cost, merged: as many of them as fit are admitted. At most 2^20 at once.
    ///
    /// A take that is repeated on its way charges twice and admits no more.
    Take {
        /// Permits each; 0 peeks, and answers whether nothing is owed beyond the burst.
        cost: u64,
        /// How many.
        times: u64,
    },
    /// As [`Op::Take`], and what is denied leaves no trace in a window either: where limits are charged together, or not at all.
    Try {
        /// Permits each; 0 peeks.
        cost: u64,
        /// How many.
        times: u64,
    },
    /// Permits that were taken and not used. Must not be repeated on its way: a caller that heard no answer does not ask again.
    GiveBack {
        /// Permits.
        cost: u64,
    },
    /// Permits that were used beyond what was taken: owed, whether they are there or not.
    Charge {
        /// Permits.
        cost: u64,
    },
    /// Changes nothing.
    Peek,
}

/// A node's account of itself, and its wish. It says what *is*, not what has changed, so that the newest one alone counts: those
/// before it may be lost, come twice, or come late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The life of the node that asks: below 2^53, drawn at random when it starts, never used again.
    pub node: u64,
    /// Counts this node's requests for the key, from 1.
    pub seq: u64,
    /// Permits that the node holds and may still spend, counted when the request was sent, those not yet valid included. What it
    /// was granted and neither holds nor has spent, it thereby gives back.
    pub held: u64,
    /// Permits spent since the node began with this key, in all.
    pub spent: u64,
    /// Permits that it would like to have in addition; 0 only reports.
    pub want: u64,
    /// Of these, what callers wait for. At most `want`.
    pub need: u64,
    /// A smaller grant is of no use and is not made: what the first of these callers costs, or what takes cost here. At most `want`.
    pub least: u64,
}

/// The ledger's answer: what became of the operation, and how things stand after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// The ledger's clock, in microseconds; never goes back but for [steps too large to wait out](super::Ledger#clock).
    pub now_us: u64,
    /// Nothing was done: the request is older than one that was seen already, or no window could be begun, since the caller's
    /// [`Call::window_ends_us`] is not of the window in which the ledger's [`now_us`](Self::now_us) lies. Work it out anew and ask again.
    pub refused: bool,
    /// Of a lease: the number of the request that this answers.
    pub seq: u64,
    /// Of a lease: the node may go on spending what it reported to hold, counted from the sending of this request. Else the ledger
    /// knows of none of it (it was reset, lost, or the lease was written off), and the node drops it.
    pub renewed: bool,
    /// Of a lease: permits granted.
    pub granted: u64,
    /// Of merged takes: how many were admitted. Of a peek and of what cannot be denied: 1 where nothing is owed beyond the burst.
    pub admitted: u64,
    /// What the key owes after the operation, in [units](super::Terms::interval): full is 0. Above [`Terms::full`](super::Terms::full) only as
    /// far as permits have been promised ahead of their refill, or were charged.
    pub taken: u64,
    /// Permits leased out and reported in this epoch (of a window: in all).
    pub out: u64,
    /// Permits leased out and last reported in the epoch before.
    pub out_before: u64,
    /// When the epoch ends; of a window, when that does. On the ledger's clock, in microseconds.
    pub ends_us: u64,
    /// Nodes that lease from this key.
    pub active: u64,
    /// Number of nodes, where the burst has no place for each of them and nothing is promised ahead; else 0.
    pub crowd: u64,
}
