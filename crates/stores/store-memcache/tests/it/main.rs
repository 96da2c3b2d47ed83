//! The store on a real memcached: held to the suite of all stores, and tested while its server fails.

mod conformance;
mod faults;
mod foreign;
mod helpers;
mod servers;
mod together;
