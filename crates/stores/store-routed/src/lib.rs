//! A shared store and this node's memory behind one [`Store`](tollgate_store::Store): each counter is kept
//! where its sharing says.
//!
//! [`RoutedStore`] sends counters of [`Sharing::Local`](tollgate_store::Sharing::Local) to the local store
//! and all others to the shared one, and puts the answers back into the order of the batch. Not here: what
//! happens to a take that the shared store does not answer (`limiter`), counting (the two stores).

mod all_or_none;
mod parts;
mod store;

pub use store::RoutedStore;
