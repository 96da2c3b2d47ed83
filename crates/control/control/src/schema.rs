//! The tables, as numbered changes, and which of them are not sealed. A change that was released is never
//! edited.

use tollgate_db::{Migration, Unsealed};

/// Tables and columns of which an edit by another program is not found. Everything else is sealed by the
/// transaction that changes it.
pub const UNSEALED: Unsealed = &[
    ("audit", &[]),     // has a chain of its own
    ("rules", &[]),     // is not there any more
    ("sequences", &[]), // the audit's is part of that chain; the others number news
    // What nodes count.
    ("history", &[]),
    ("reported", &[]),
    ("series", &[]),
    ("top_keys", &[]),
    // Which process moves rollouts on.
    ("leases", &[]),
    // When something was used last.
    ("logins", &["last_seen"]),
    ("nodes", &["last_seen"]),
    ("tokens", &["last_used_at"]),
    ("users", &["last_login_at"]),
];

/// All changes of the schema, in their order.
pub const MIGRATIONS: &[Migration] = &[
    Migration { number: 1, name: "apps, rules, versions, users, audit", sql: include_str!("schema/1.sql") },
    Migration { number: 2, name: "rule files, change sets", sql: include_str!("schema/2.sql") },
    Migration { number: 3, name: "history", sql: include_str!("schema/3.sql") },
    Migration { number: 4, name: "overrides", sql: include_str!("schema/4.sql") },
    Migration { number: 5, name: "tokens, links, preferences", sql: include_str!("schema/5.sql") },
    Migration { number: 6, name: "buckets that rows share", sql: include_str!("schema/6.sql") },
    Migration { number: 7, name: "rollouts", sql: include_str!("schema/7.sql") },
    Migration { number: 8, name: "trials", sql: include_str!("schema/8.sql") },
    Migration { number: 9, name: "secrets of nodes", sql: include_str!("schema/9.sql") },
    Migration { number: 10, name: "post-paid rows", sql: include_str!("schema/10.sql") },
    Migration { number: 11, name: "nodes", sql: include_str!("schema/11.sql") },
    Migration { number: 12, name: "digests of versions", sql: include_str!("schema/12.sql") },
    Migration { number: 13, name: "editions of rows", sql: include_str!("schema/13.sql") },
];
