//! Counters in this process: a keyed table of one-word states
