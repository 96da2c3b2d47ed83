//! Rules of other rate limiters, as a rule file. Not here: the command (`command/import`).

pub(crate) mod nginx;
