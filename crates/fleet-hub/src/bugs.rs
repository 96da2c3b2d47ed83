//! Known bugs behind a switch that only the simulation's build has: each must be found.

/// A bug that the simulation must find.
#[cfg(feature = "known-bugs")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownBug {
    /// A publication that comes while a node is busy is not sent to it afterwards.
    PublicationForgotten,
    /// A report is confirmed before it is stored.
    SeenBeforeStored,
    /// Nodes that hold a removed app keep it.
    RemovalForgotten,
    /// What a node rejected is sent again and again.
    RejectedSentAgain,
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
    forgets_publications = PublicationForgotten,
    confirms_early = SeenBeforeStored,
    forgets_removals = RemovalForgotten,
    insists = RejectedSentAgain,
}
