//! Deliberate mistakes that tests switch on: a simulation or a suite is trusted once it has found each of
//! them.
//!
//! A crate lists its mistakes in an enum `Mistake`, and keeps a [`Mistakes`] where it keeps its settings. The
//! one place that would make a mistake asks for it: `if mistakes.has(Mistake::SettlesTwice)`. [`KillPoints`]
//! end a process at a step of its work.
//!
//! Only the feature `armed` can switch anything on. Without it a [`Mistakes`] has no size, [`Mistakes::has`]
//! and [`KillPoints::pass`] are constants, and the compiler removes the places that ask. It is a feature, and
//! not a type parameter, since a parameter would be in the signature of everything that may err; and it is
//! one feature of this crate, so that the crates that use it need none of their own.
#![deny(missing_docs)] // it is published

mod kill_points;
#[cfg(not(feature = "armed"))]
use std::marker::PhantomData;

pub use kill_points::KillPoints;

/// The mistake to make, of those that `M` lists; none unless a test says so.
///
/// # Example
/// ```
/// # use tollgate_mistakes::Mistakes;
/// #[derive(Clone, Copy, PartialEq)]
/// enum Mistake {
///     AddsOne,
/// }
/// let double = |n: u32, mistakes: Mistakes<Mistake>| 2 * n + u32::from(mistakes.has(Mistake::AddsOne));
/// assert_eq!(double(2, Mistakes::none()), 4);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mistakes<M> {
    #[cfg(feature = "armed")]
    made: Option<M>,
    #[cfg(not(feature = "armed"))]
    listed: PhantomData<M>,
}

impl<M> Mistakes<M> {
    /// No mistake: what every product makes.
    #[inline]
    #[must_use]
    pub const fn none() -> Self {
        Self {
            #[cfg(feature = "armed")]
            made: None,
            #[cfg(not(feature = "armed"))]
            listed: PhantomData,
        }
    }
}

impl<M> Default for Mistakes<M> {
    fn default() -> Self {
        Self::none()
    }
}

#[cfg(feature = "armed")]
impl<M> From<Option<M>> for Mistakes<M> {
    fn from(made: Option<M>) -> Self {
        Self { made }
    }
}

#[cfg(feature = "armed")]
impl<M> From<M> for Mistakes<M> {
    fn from(mistake: M) -> Self {
        Self { made: Some(mistake) }
    }
}

impl<M: Copy + PartialEq> Mistakes<M> {
    /// Whether to make this mistake: never, without the feature `armed`.
    #[inline]
    #[must_use]
    pub fn has(self, mistake: M) -> bool {
        #[cfg(feature = "armed")]
        let is_made = self.made == Some(mistake);
        #[cfg(not(feature = "armed"))]
        let is_made = {
            let _ = mistake;
            false
        };
        is_made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Slip {
        First,
        Second,
    }

    #[test]
    fn a_product_makes_no_mistake() {
        let none = Mistakes::none();
        assert!(!none.has(Slip::First) && !none.has(Slip::Second));
        assert_eq!(none, Mistakes::default());
    }

    #[test]
    #[cfg(not(feature = "armed"))]
    fn a_build_without_mistakes_keeps_no_room_for_them() {
        assert_eq!((size_of::<Mistakes<Slip>>(), size_of::<KillPoints>()), (0, 0));
    }

    #[test]
    #[cfg(feature = "armed")]
    fn the_mistake_that_is_switched_on_is_the_one_that_is_made() {
        let made = Mistakes::from(Slip::Second);
        assert!(made.has(Slip::Second) && !made.has(Slip::First));
        assert_eq!(Mistakes::<Slip>::from(None), Mistakes::none());
    }
}
