//! Window counters in memcached, shared by a fleet.

