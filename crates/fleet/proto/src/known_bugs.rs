//! Known bugs behind a switch that only the simulation's build of both ends has.

/// Declares `KnownBug`, and `Bugs` with a question for each bug. A product has none: there, each answer is a
/// constant `false`. The crate has a feature `known-bugs`.
#[doc(hidden)]
#[macro_export]
macro_rules! known_bugs {
    ($($(#[$doc:meta])* $bug:ident: $name:ident),* $(,)?) => {
        /// A bug that the simulation must find.
        #[cfg(feature = "known-bugs")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum KnownBug {
            $($(#[$doc])* $bug,)*
        }

        /// The bug that is switched on, if any; none in a product.
        #[derive(Clone, Copy, Debug, Default)]
        pub(crate) struct Bugs(#[cfg(feature = "known-bugs")] pub(crate) Option<KnownBug>);

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
