//! Messages between nodes and the ledger. Every number fits a double. Not here: how they are encoded.

/// One operation on a key's ledger. Everything that touches a leased key is one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerCall {
    /// The operation on the ledger.
    pub op: Op,
    /// For a fixed window on a calendar: the caller's end of the current window, in microseconds since the
    /// Unix epoch ([`Terms::window_ends_us`](crate::Terms::window_ends_us)). Used only to begin a window;
    /// else 0.
    pub window_ends_us: u64,
}

/// An operation on a key's ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A node reports the permits that it holds and has spent, and asks for more. The request may be
    /// repeated, lost or reordered safely.
    Lease(LeaseRequest),
    /// Central takes of equal cost, merged: as many of them as fit are admitted. At most 2^20 at once.
    ///
    /// A take that the network repeats charges twice and admits no more.
    Take {
        /// Permits per take; 0 peeks: the reply is whether nothing is owed beyond the burst.
        cost: u64,
        /// Number of takes.
        times: u64,
    },
    /// As [`Op::Take`], but a denial leaves no trace in a window either: for limits that are charged
    /// together, or not at all.
    Try {
        /// Permits per take; 0 peeks.
        cost: u64,
        /// Number of takes.
        times: u64,
    },
    /// Permits that were taken and not used. The network must not repeat it: a caller without an answer does
    /// not ask again.
    GiveBack {
        /// Permits to give back.
        cost: u64,
    },
    /// Permits that are used already: counted in full, even if they were not available. The reply says
    /// whether one was left before.
    ///
    /// The network must not repeat it: a caller without an answer does not ask again.
    Charge {
        /// Permits to charge.
        cost: u64,
    },
    /// A look at the account, which changes nothing.
    Peek,
}

/// A node's account of itself, and its request. It states the present state, not the changes, so that only
/// the newest one counts: earlier ones may be lost, come twice, or come late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseRequest {
    /// The node, for one life of its process: below 2^53, drawn at random when it starts, never used again.
    pub node: u64,
    /// Counts this node's requests for the key, from 1.
    pub seq: u64,
    /// Permits that the node holds and may still spend, counted when the request was sent, including those
    /// not yet valid. Granted permits that it neither holds nor has spent are given back thereby.
    pub held: u64,
    /// Permits spent since the node began with this key, in all.
    pub spent: u64,
    /// Permits that it would like to have in addition; 0 only reports.
    pub want: u64,
    /// The part of `want` that callers wait for.
    pub need: u64,
    /// A smaller grant is of no use and is not made: the cost of the first of these callers, or of a typical
    /// take. At most `want`.
    pub least: u64,
}

/// The ledger's reply: the result of the operation, and the account after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LedgerReply {
    /// The ledger's clock, in microseconds; never goes back except for [steps too large to wait
    /// out](crate::Ledger#clock).
    pub now_us: u64,
    /// Nothing was done: the request is older than one that was seen already, or no window could be begun,
    /// since the caller's [`LedgerCall::window_ends_us`] is not of the window that contains
    /// [`now_us`](Self::now_us). Compute the end anew and ask again.
    pub rejected: bool,
    /// For a lease: the number of the request that this answers.
    pub seq: u64,
    /// For a lease: the node may keep spending the permits that it reported to hold, counted from when this
    /// request was sent. If false, the ledger knows of none of it (it was reset, lost, or the lease was
    /// written off), and the node drops it.
    pub renewed: bool,
    /// For a lease: permits granted.
    pub granted: u64,
    /// For merged takes: the number admitted. For a charge: 1 where a permit was left before. For a peek and
    /// a return: 1 where nothing is owed beyond the burst.
    pub admitted: u64,
    /// Debt of the key after the operation, in [units](crate::Terms::interval): 0 when it is full. Above
    /// [`Terms::full`](crate::Terms::full) only as far as permits have been promised ahead of their refill,
    /// or were charged.
    pub taken: u64,
    /// Debt beyond `taken`, as the time in which it comes back, in microseconds: until then nothing does. 0
    /// except for deep debts.
    pub dry_us: u64,
    /// Permits leased out and reported in this epoch (for a window: in all).
    pub out: u64,
    /// Permits leased out and last reported in the epoch before.
    pub out_before: u64,
    /// When the epoch ends; of a window, when that ends. On the ledger's clock, in microseconds.
    pub ends_us: u64,
    /// Nodes that lease from this key.
    pub active: u64,
    /// Number of nodes, where the burst has no place for each of them and nothing is promised ahead; else 0.
    pub crowd: u64,
}

impl LedgerReply {
    /// Permits that nodes may still spend.
    #[inline]
    pub(crate) const fn all_out(&self) -> u64 {
        self.out + self.out_before
    }

    /// Microseconds of the ledger's clock until the epoch or the window ends.
    #[inline]
    pub(crate) const fn ends_in_us(&self) -> u64 {
        self.ends_us.saturating_sub(self.now_us)
    }
}
