//! Any text as a rule file: never a panic, faults have places, and rules that load can be used.

use tollgate_policy::{Entry, Override, Unit};
use tollgate_rule_files::parse_text;

/// Reads `text` as a rule file and does with it what a server would.
///
/// # Panics
/// When a promise of the reader is broken.
pub fn read_any_text(text: &str) {
    let policy = match parse_text("any.yaml", text) {
        Ok(policy) => policy,
        Err(faults) => {
            // A place in the file, or just behind its end. Lines may end in CR alone.
            let lines = text.split(['\n', '\r']).count() + 1;
            assert!(!faults.as_slice().is_empty());
            for fault in faults.as_slice() {
                let shown = fault.to_string();
                assert!((1..=lines).contains(&(fault.place.line as usize)), "{shown}");
                assert!(fault.place.column >= 1 && !fault.message.is_empty(), "{shown}");
                assert!(!shown.contains('\n') && shown.len() < 3_000, "{shown}");
            }
            return;
        }
    };
    let mut rules = 0;
    for (number, rule) in policy.rules().enumerate() {
        assert_eq!(rule.index, number);
        assert!(
            rule.limits.is_empty() == rule.unlimited
                && rule.place.as_ref().is_some_and(|place| place.line >= 1)
        );
        rules += 1;
    }
    for domain in policy.domains() {
        assert!(policy.domain(domain.name()).is_some());
        for entries in [&[Entry::new("a", "b")][..], &[Entry::new("", ""), Entry::new("a", "10.0.0.1")]] {
            let mut key = Vec::new();
            if let Some(rule) = domain.find(entries) {
                assert!(rule.index < rules);
                rule.write_key(0, domain.name(), entries, &mut key);
                assert_ne!(key.is_empty(), !rule.unlimited);
                let mut stat = String::new();
                rule.write_stat(entries, &mut stat);
            }
            if let Ok(limit) = Override::new(1, Unit::Day) {
                limit.write_key(domain.find(entries), domain.name(), entries, &mut key);
            }
        }
    }
    let again = policy.clone().migrated_from(&policy, tollgate_policy::Timestamp::ZERO);
    assert_eq!(again.version(), policy.version());
}
