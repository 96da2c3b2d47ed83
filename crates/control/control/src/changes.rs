//! Rules and how they change: apps, change sets, versions.
//!
//! `drafts` has what authors do with a change set, `reviews` what approvers do, and `publishing` makes it a
//! version of its app; all three use `operations`, the changes of rules in it, and `steps`, its ways from
//! state to state. `rules` and `file_rules` change one rule in one call, `transfer` and `import` a whole app.
//! `stored` has the tables of rules, `change_set` those of change sets, `versions` those of versions. Large
//! changes are worked out and written ahead of their transaction: `rehearsal`, `known`, `ahead` and
//! `staging`. Not here: what a rule is and what documents become of it (`tollgate-model`), and how a version
//! reaches the nodes (`rollouts`).

pub(crate) mod ahead;
pub mod app_settings;
pub mod apps;
pub mod change_set;
pub mod checks;
pub mod drafts;
pub mod file_rules;
pub(crate) mod import;
pub(crate) mod known;
pub(crate) mod operations;
pub(crate) mod past;
pub mod publishing;
pub(crate) mod rehearsal;
pub mod reviews;
pub mod rules;
pub(crate) mod staging;
pub(crate) mod steps;
pub(crate) mod stored;
pub mod transfer;
pub mod versions;

pub use drafts::{
    ChangeInput, Choice, Keep, MAX_OPEN, abandon, add_op, comment, create, own_draft, resolve, submit, update,
};
pub use operations::{Look, MAX_OPS, OpInput, look};
