//! The one place that reads the clock of the machine
