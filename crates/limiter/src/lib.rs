//! Policy, store and clock together decide; reload; what is observed
