//! Helpers of tests: step tables, vectors, real processes
