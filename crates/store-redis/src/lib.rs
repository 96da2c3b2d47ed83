//! Counters in Redis or Valkey, shared by a fleet: one atomic script a decision, or permits leased ahead of time.

