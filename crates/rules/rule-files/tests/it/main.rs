//! Tests of reading rules, in one program, which builds faster than one for each.

mod addresses;
mod again;
mod any_text;
mod by_hand;
mod compatibility;
mod documentation;
mod faults;
mod keys;
mod loading;
mod manifests;
mod matching;
mod rates;
mod warnings;
mod watch;
