//! The operations of a change set as they are asked for, and the faults of those that cannot be.

use tollgate_api::params::OpBody;
use tollgate_api::views::Fault;
use tollgate_control::changes::OpInput;
use tollgate_control::{Content, ControlError, RuleKind, table_rule_yaml};

use crate::web::Failure;

/// A put or a delete with its content, which is valid by itself.
pub(super) fn input(op: OpBody) -> Result<OpInput, Failure> {
    let OpBody { op, kind, key, base, rule, yaml, file } = op;
    let kind = kind.as_deref().unwrap_or(if file.is_some() { "file" } else { "car" });
    let kind: RuleKind =
        kind.parse().map_err(|()| Failure::Bad("unknown `kind`: expected car or file".to_owned()))?;
    let bad = |detail: &str| Failure::Bad(detail.to_owned());
    let after = match (&*op, kind, rule, yaml, file) {
        ("delete", _, None, None, None) => None,
        ("put", RuleKind::TableRule, Some(rule), None, None) => {
            Some(Content::TableRule(Box::new(rule.input(Some(key.clone()))?.check()?)))
        }
        ("put", RuleKind::TableRule, None, Some(yaml), None) => {
            Some(Content::TableRule(Box::new(table_rule_yaml::read(&yaml)?.check()?)))
        }
        ("put", RuleKind::File, None, None, Some(file)) => {
            Some(Content::File(file.input(Some(key.clone())).check()?))
        }
        ("put" | "delete", ..) => {
            return Err(bad("a put has `rule`, `yaml` or `file`; a delete has none of them"));
        }
        _ => return Err(bad("unknown `op`: expected put or delete")),
    };
    Ok(OpInput { kind, key, base, after })
}

/// Every operation of a list.
pub(super) fn inputs(ops: Vec<OpBody>) -> Result<Vec<OpInput>, Failure> {
    ops.into_iter().map(input).collect()
}

/// The faults of an error that is about a text or its fields, or the error.
pub(super) fn faults_of(error: ControlError) -> Result<Vec<Fault>, ControlError> {
    match error {
        ControlError::Faulty(faults) => Ok(faults.into_iter().map(Fault::from).collect()),
        ControlError::Invalid(faults) => Ok(faults.into_iter().map(Fault::from).collect()),
        error => Err(error),
    }
}
