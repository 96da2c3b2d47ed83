//! Rows of an app that share a bucket: what they must agree in. Pure.

use std::collections::BTreeMap;

use crate::faults::{Fault, FieldFault};
use crate::table_rule::TableRule;

/// In what rows of one bucket differ: the first difference of each row from the first row of its bucket that
/// is not changed, or from the first one. Rows that are `off` do not count. `rows` are in the order of their
/// keys.
///
/// # Example
/// ```
/// # use tollgate_model::{buckets, table_rule::TableRuleInput};
/// let row = |key: &str, rate: &str| {
///     let (key, rate, max_permits, bucket) = (key.into(), rate.into(), "10".into(), "all".into());
///     TableRuleInput { key, rate, max_permits, bucket, ..TableRuleInput::default() }.check()
/// };
/// let rows = [row("book", "5")?, row("search", "6")?];
/// let faults = buckets::differences(&rows, |key| key == "book");
/// assert_eq!(faults[0].field, "rate");
/// let message = faults[0].fault.to_string();
/// assert!(message.starts_with("book shares the bucket all with search, which has \"6\""));
/// # Ok::<(), tollgate_model::ModelError>(())
/// ```
pub fn differences(rows: &[TableRule], is_changed: impl Fn(&str) -> bool) -> Vec<FieldFault> {
    let mut buckets: BTreeMap<&str, Vec<&TableRule>> = BTreeMap::new();
    for row in rows.iter().filter(|row| !row.bucket.is_empty() && row.state != "off") {
        buckets.entry(&row.bucket).or_default().push(row);
    }
    let mut faults = Vec::new();
    for members in buckets.values() {
        let kept = members.iter().find(|row| !is_changed(&row.key)).or(members.first());
        let Some(first) = kept else { continue };
        faults.extend(members.iter().filter_map(|row| difference(first, row)));
    }
    faults
}

fn difference(first: &TableRule, row: &TableRule) -> Option<FieldFault> {
    let fields = |row: &TableRule| {
        let rate = row.rate.to_string();
        let max_permits = row.max_permits.to_string();
        [
            ("rate", rate),
            ("max_permits", max_permits),
            ("per", row.per.clone()),
            ("sharing", row.sharing.clone()),
        ]
    };
    let (field, theirs) = fields(first).into_iter().zip(fields(row)).find(|(a, b)| a != b)?.0;
    let fault = Fault::BucketDiffers {
        key: row.key.clone(),
        bucket: row.bucket.clone(),
        other: first.key.clone(),
        theirs,
    };
    Some(FieldFault { field, fault })
}
