//! Where we differ on purpose: the step, our answer, and the law that forbids the other one.

use serde_json::Value;

/// An answer of ours that is not the one of a vector.
#[derive(Clone, Copy, Debug)]
pub struct Difference {
    /// Id of the vector.
    pub id: &'static str,
    /// The step, counted from 0.
    pub step: usize,
    /// Name of the answer that differs.
    pub name: &'static str,
    /// Our answer, as JSON.
    pub ours: &'static str,
    /// The law, in words.
    pub why: &'static str,
}

impl Difference {
    /// Our answer as a value.
    #[must_use]
    pub fn our_answer(&self) -> Value {
        serde_json::from_str(self.ours).unwrap_or(Value::Null)
    }
}

const NEVER_FITS: &str = "a cost above the burst never fits, so nothing waits for it (acceptance row 25)";
const GONE: &str = "a key goes as soon as it is like one never seen; there it stays a period longer";

const DIFFERENCES: &[(&str, usize, &str, &str, &str)] = &[
    ("b4j-block-over-capacity", 0, "ok", "false", NEVER_FITS),
    ("b4j-block-over-capacity", 0, "wait_ns", "0", NEVER_FITS),
    ("leaky-drop-giant", 0, "pending", "false", NEVER_FITS),
    (
        "xtime-cancel-multi",
        6,
        "act_at_ns",
        "400000000",
        "a reservation that has not begun is given back in full, also when others came later",
    ),
    (
        "towerres-total-timeout",
        1,
        "rejected_at_ns",
        "0",
        "a wait that cannot end in time fails at once, not at its end",
    ),
    (
        "xtime-set-burst",
        3,
        "act_at_ns",
        "800000000",
        "a larger burst takes effect at once: what was used stays used (I12)",
    ),
    ("governor-expiration", 4, "keys_left", "[]", GONE),
    ("governor-expiration", 5, "keys_left", "[]", GONE),
    (
        "leaky-idle-3",
        6,
        "wait_ns",
        "2000000000",
        "a key that is full again is like one never seen: its next take begins a new count of periods",
    ),
    ("guava-infinite-warmup", 8, "wait_s", "0.0", "without a limit nothing is owed, also not from before"),
    (
        "guava-infinite-warmup",
        8,
        "wait_us_exact",
        "0.0",
        "without a limit nothing is owed, also not from before",
    ),
    (
        "redis-rate-at-most",
        6,
        "retry_after_ns",
        "null",
        "a cost above the burst never fits; there it is promised for later (I7)",
    ),
    (
        "xtime-every",
        0,
        "rate_per_s",
        "null",
        "an interval of zero is a mistake; no limit is `Quota::unlimited`",
    ),
    (
        "xtime-every",
        1,
        "rate_per_s",
        "null",
        "an interval of zero is a mistake; no limit is `Quota::unlimited`",
    ),
];

/// Our answer to this part of this step, and the reason, if we differ from it on purpose.
#[must_use]
pub fn difference(id: &str, step: usize, name: &str) -> Option<Difference> {
    let known = |&&(of, number, part, ..): &&(&str, usize, &str, &str, &str)| {
        of == id && number == step && part == name
    };
    let &(id, step, name, ours, why) = DIFFERENCES.iter().find(known)?;
    Some(Difference { id, step, name, ours, why })
}
