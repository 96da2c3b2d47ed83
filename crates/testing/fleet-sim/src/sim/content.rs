//! The rules of the simulation: each text names its effect on a node.

use std::path::PathBuf;

use tollgate_fleet_agent::Parsed;
use tollgate_rule_files::RuleFile;

/// Effect of the rules of an app.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RulesEffect {
    Good,
    /// The parser reports a fault.
    Bad,
    /// The parser panics.
    Panics,
    /// The node crashes when it puts them in force.
    Poison,
}

impl RulesEffect {
    pub(crate) fn any(random: &mut fastrand::Rng) -> Self {
        match random.u8(..20) {
            0 => Self::Panics,
            1 | 2 => Self::Poison,
            3..=5 => Self::Bad,
            _ => Self::Good,
        }
    }
}

/// One document as it is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InForce {
    pub(crate) app: String,
    pub(crate) version: u64,
    pub(crate) kind: RulesEffect,
    /// The whole document.
    pub(crate) text: String,
}

/// The text of an app's only document.
pub(crate) fn text(app: &str, version: u64, kind: RulesEffect, domain: &str) -> String {
    format!("{app} {version} {kind:?} {domain}")
}

pub(crate) fn read(text: &str) -> InForce {
    let mut words = text.split(' ');
    let app = words.next().unwrap_or_default().to_owned();
    let version = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
    let kind = match words.next() {
        Some("Bad") => RulesEffect::Bad,
        Some("Panics") => RulesEffect::Panics,
        Some("Poison") => RulesEffect::Poison,
        _ => RulesEffect::Good,
    };
    InForce { app, version, kind, text: text.to_owned() }
}

type PlacedFault = (PathBuf, u32, u32, String, String);

/// Reads texts as `rule-files` would: all or every fault. The texts read go to the warnings.
pub(crate) fn parse(files: &[RuleFile]) -> Result<Parsed, Vec<PlacedFault>> {
    let mut faults = Vec::new();
    let mut parsed = Parsed::default();
    let mut domains = Vec::new();
    for file in files {
        let fault = |message: &str| (file.name.clone(), 1, 1, String::new(), message.to_owned());
        match read(&file.text).kind {
            RulesEffect::Bad => faults.push(fault("is bad")),
            RulesEffect::Panics => std::panic::resume_unwind(Box::new("cannot read this")),
            RulesEffect::Good | RulesEffect::Poison => {}
        }
        let domain = file.text.rsplit(' ').next().unwrap_or_default();
        if domains.contains(&domain) {
            faults.push(fault("is already the domain of another app"));
        }
        domains.push(domain);
        parsed.warnings.push(file.text.clone());
    }
    if faults.is_empty() { Ok(parsed) } else { Err(faults) }
}
