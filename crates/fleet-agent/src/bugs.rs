//! Known bugs behind a switch that only the simulation's build has: each must be found.

/// A bug that the simulation must find.
#[cfg(feature = "known-bugs")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownBug {
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

/// The bug that is switched on, if any; none in a product.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bugs(#[cfg(feature = "known-bugs")] pub(crate) Option<KnownBug>);

macro_rules! bugs {
    ($($name:ident = $bug:ident),* $(,)?) => {
        impl Bugs {$(
            #[cfg(feature = "known-bugs")]
            pub(crate) fn $name(self) -> bool {
                self.0 == Some(KnownBug::$bug)
            }
            #[cfg(not(feature = "known-bugs"))]
            pub(crate) const fn $name(self) -> bool {
                let _ = self;
                false
            }
        )*}
    };
}

bugs! {
    applies_older = OlderVersionsApplied,
    rejects_all = OneBadAppRejectsAll,
    renumbers = RepeatedReportsRenumbered,
    drops_unseen = UnseenReportsDropped,
    leaves_out_marker = NoMarker,
    acknowledges_early = AcknowledgedBeforeSaved,
    acknowledges_rejected = RejectedRulesAcknowledged,
}
