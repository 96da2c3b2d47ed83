//! The plan of a rollout: its steps, how long each is watched, and what a failed gate does. Pure.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tollgate_fleet_proto::reach::{Selector, WHOLE};

use crate::faults::{Fault, ModelError, invalid};

/// Most steps of a plan.
pub const MAX_STEPS: usize = 20;
/// Longest time for which a step is watched, in seconds.
pub const MAX_SOAK_S: i64 = 86_400;
/// Time for which a step is watched if the plan names none, in seconds.
pub const SOAK_S: i64 = 60;
const MAX_NODES: u16 = 5_000;
const MAX_VALUES: usize = 100;
const MAX_LABEL: usize = 64;

/// One step: which nodes have the candidate from then on, besides those of the steps before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// This number of nodes.
    Nodes(u16),
    /// This percentage of the nodes, at least one.
    Percent(u8),
    /// Nodes with one of these labels.
    Labels(Selector),
    /// Every node.
    All,
}

impl Step {
    /// The share that it asks for, if it asks for one.
    pub(crate) fn share(&self) -> Option<u16> {
        match self {
            Self::Percent(percent) => Some(u16::from(*percent) * (WHOLE / 100)),
            Self::All => Some(WHOLE),
            Self::Nodes(_) | Self::Labels(_) => None,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nodes(1) => f.write_str("1 node"),
            Self::Nodes(nodes) => write!(f, "{nodes} nodes"),
            Self::Percent(percent) => write!(f, "{percent} %"),
            Self::Labels(Selector { key, values }) => write!(f, "{key} in ({})", values.join(", ")),
            Self::All => f.write_str("all"),
        }
    }
}

/// A text that is not a step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid step {0:?}: expected something like 1 node, 10 %, zone in (a, b) or all")]
pub struct StepError(String);

impl FromStr for Step {
    type Err = StepError;

    fn from_str(text: &str) -> Result<Self, StepError> {
        let wrong = || StepError(text.to_owned());
        let step = text.trim();
        if step.eq_ignore_ascii_case("all") {
            return Ok(Self::All);
        }
        if let Some(percent) = step.strip_suffix('%') {
            let percent: u8 = whole(percent).ok_or_else(wrong)?;
            return match percent {
                1..=99 => Ok(Self::Percent(percent)),
                100 => Ok(Self::All),
                _ => Err(wrong()),
            };
        }
        if let Some(nodes) = step.strip_suffix("nodes").or_else(|| step.strip_suffix("node")) {
            let nodes: u16 = whole(nodes).filter(|it| (1..=MAX_NODES).contains(it)).ok_or_else(wrong)?;
            return Ok(Self::Nodes(nodes));
        }
        selector(step).map(Self::Labels).ok_or_else(wrong)
    }
}

/// Digits alone: no sign.
fn whole<T: FromStr>(text: &str) -> Option<T> {
    let text = text.trim();
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// `zone in (a, b)`, `zone = a`.
fn selector(step: &str) -> Option<Selector> {
    let (key, values) = match step.split_once('=') {
        Some((key, value)) => (key, vec![value]),
        None => {
            let (key, list) = step.split_once(" in ")?;
            let list = list.trim().strip_prefix('(')?.strip_suffix(')')?;
            (key, list.split(',').collect())
        }
    };
    let label = |text: &str| {
        let text = text.trim();
        let is_valid = !text.is_empty()
            && text.len() <= MAX_LABEL
            && !text.chars().any(|it| it.is_whitespace() || it.is_control() || "(),=".contains(it));
        is_valid.then(|| text.to_owned())
    };
    let values: Vec<String> = values.into_iter().map(label).collect::<Option<_>>()?;
    (values.len() <= MAX_VALUES).then_some(())?;
    Some(Selector { key: label(key)?, values })
}

impl Serialize for Step {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Step {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The way of a version of an app to the nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Plan {
    /// In their order; without a step, all nodes get the version at once.
    pub steps: Vec<Step>,
    /// Time for which each step is watched, in seconds.
    pub soak_s: i64,
    /// A failed gate withdraws the version; otherwise the rollout halts and asks.
    pub auto_rollback: bool,
}

impl Default for Plan {
    fn default() -> Self {
        Self { steps: Vec::new(), soak_s: SOAK_S, auto_rollback: true }
    }
}

/// A plan as people and programs write it; an empty field has its default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanInput {
    /// One step per line.
    pub steps: String,
    pub soak_s: String,
    /// `yes` or `no`.
    pub auto_rollback: String,
}

impl PlanInput {
    /// The plan that this says.
    ///
    /// # Errors
    /// [`ModelError::Invalid`].
    pub fn check(&self) -> Result<Plan, ModelError> {
        let lines = self.steps.lines().map(str::trim).filter(|line| !line.is_empty());
        let steps: Vec<Step> =
            lines.map(str::parse).collect::<Result<_, StepError>>().map_err(|_| wrong())?;
        let soak_s = match self.soak_s.trim() {
            "" => SOAK_S,
            text => whole(text).ok_or_else(wrong_soak)?,
        };
        let auto_rollback = match &*self.auto_rollback {
            "" | "yes" => true,
            "no" => false,
            _ => return Err(invalid("auto_rollback", Fault::Choice { expected: "yes, no" })),
        };
        let plan = Plan { steps, soak_s, auto_rollback };
        plan.check()?;
        Ok(plan)
    }
}

fn wrong() -> ModelError {
    invalid("steps", Fault::Steps)
}

fn wrong_soak() -> ModelError {
    invalid("soak_s", Fault::Whole { min: 0, max: MAX_SOAK_S })
}

impl Plan {
    /// Whether every node gets the version at once.
    #[must_use]
    pub const fn is_at_once(&self) -> bool {
        self.steps.is_empty()
    }

    /// Whether it can be carried out: shares and numbers grow, and the last step is all nodes.
    ///
    /// # Errors
    /// [`ModelError::Invalid`].
    pub fn check(&self) -> Result<(), ModelError> {
        if !(0..=MAX_SOAK_S).contains(&self.soak_s) {
            return Err(wrong_soak());
        }
        if self.steps.len() > MAX_STEPS {
            return Err(invalid("steps", Fault::TooMany { max: MAX_STEPS }));
        }
        let alls = self.steps.iter().filter(|step| **step == Step::All).count();
        if !self.steps.is_empty() && (alls != 1 || self.steps.last() != Some(&Step::All)) {
            return Err(invalid("steps", Fault::LastStep));
        }
        let mut percent = 0;
        let mut nodes = 0;
        for step in &self.steps {
            let grows = match step {
                Step::Percent(next) => std::mem::replace(&mut percent, *next) < *next,
                Step::Nodes(next) => std::mem::replace(&mut nodes, *next) < *next,
                Step::Labels(_) | Step::All => true,
            };
            if !grows {
                return Err(invalid("steps", Fault::Growing));
            }
        }
        Ok(())
    }

    /// As people write it.
    #[must_use]
    pub fn to_input(&self) -> PlanInput {
        let steps: Vec<String> = self.steps.iter().map(ToString::to_string).collect();
        let auto_rollback = if self.auto_rollback { "yes" } else { "no" };
        PlanInput {
            steps: steps.join("\n"),
            soak_s: self.soak_s.to_string(),
            auto_rollback: auto_rollback.to_owned(),
        }
    }

    /// As JSON, for the database and the API.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::to_value(self).unwrap_or_default() // texts and numbers cannot fail
    }

    /// The plan that [`json`](Self::json) wrote.
    ///
    /// # Errors
    /// [`ModelError::Document`].
    pub fn read(app: &str, text: &str) -> Result<Self, ModelError> {
        serde_json::from_str(text)
            .map_err(|error| ModelError::Document { app: app.to_owned(), reason: error.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_written_as_people_say_it_and_read_back() {
        for (text, shown) in [
            ("1 node", Some("1 node")),
            ("1node", Some("1 node")),
            ("3 nodes", Some("3 nodes")),
            ("10 %", Some("10 %")),
            ("10%", Some("10 %")),
            ("100 %", Some("all")),
            (" ALL ", Some("all")),
            ("zone in (a,b)", Some("zone in (a, b)")),
            ("zone in ( a )", Some("zone in (a)")),
            ("zone=a", Some("zone in (a)")),
            ("机房 = 上海", Some("机房 in (上海)")),
            ("", None),
            ("0 %", None),
            ("101 %", None),
            ("-1 %", None),
            ("+5 %", None),
            ("1.5 %", None),
            ("0 nodes", None),
            ("5001 nodes", None),
            ("99999999999999999999 nodes", None),
            ("node", None),
            ("zone", None),
            ("zone in ()", None),
            ("zone in (a", None),
            ("zone in (a,,b)", None),
            ("zone = a = b", None),
            ("= a", None),
            ("zone in (a b)", None),
        ] {
            let read = text.parse::<Step>();
            assert_eq!(read.as_ref().ok().map(ToString::to_string).as_deref(), shown, "{text}");
            if let Ok(step) = read {
                assert_eq!(step.to_string().parse(), Ok(step), "{text}");
            }
        }
    }

    #[test]
    fn a_plan_ends_with_all_nodes_and_only_grows() {
        let plan = |steps: &str| PlanInput { steps: steps.replace('/', "\n"), ..PlanInput::default() };
        for (steps, fault) in [
            ("", None),
            ("all", None),
            ("1 node/10 %/50 %/all", None),
            ("zone in (a)/10 %/zone in (b)/all", None),
            ("1 node/10 %", Some(Fault::LastStep)),
            ("all/10 %", Some(Fault::LastStep)),
            ("all/all", Some(Fault::LastStep)),
            ("10 %/10 %/all", Some(Fault::Growing)),
            ("2 nodes/1 node/all", Some(Fault::Growing)),
            ("some/all", Some(Fault::Steps)),
        ] {
            let checked = plan(steps).check();
            match fault {
                None => {
                    let checked = checked.expect("valid");
                    assert_eq!(checked.to_input().check().expect("valid"), checked);
                    let json = checked.json().to_string();
                    assert_eq!(Plan::read("a", &json).expect("read"), checked);
                }
                Some(fault) => {
                    let Err(ModelError::Invalid(faults)) = checked else { panic!("{steps} is valid") };
                    assert_eq!(faults[0].fault, fault, "{steps}");
                }
            }
        }
        let long: String = (1..=MAX_STEPS).map(|it| format!("{it} %/")).collect();
        assert!(plan(&format!("{long}all")).check().is_err());
        for (soak_s, is_valid) in [("", true), ("0", true), ("86400", true), ("86401", false), ("-1", false)]
        {
            let input = PlanInput { soak_s: soak_s.to_owned(), ..PlanInput::default() };
            assert_eq!(input.check().is_ok(), is_valid, "{soak_s}");
        }
    }
}
