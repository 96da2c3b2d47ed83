//! Rules of other rate limiters, as a rule file. Not here: the command (`tollgate import`), and the reader of
//! rule files (`rule-files`).

pub mod nginx;
