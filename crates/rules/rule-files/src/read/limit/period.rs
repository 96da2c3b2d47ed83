//! `unit`, `unit_multiplier`, `period`, `time_zone`: the period of a limit.

use std::time::Duration;

use tollgate_core::{CivilUnit, Period};
use tollgate_human_text::{did_you_mean, parse_duration};
use tollgate_policy::Unit;

use super::rate::{Per, Rate};
use crate::read::guesses;
use crate::read::path::Path;
use crate::read::reader::{Fields, Reader};
use crate::read::scalar::quoted;
use crate::yaml_tree::{Kind, YamlNode};

/// True for the name of a unit, in any letter case.
pub(super) fn is_unit(node: &YamlNode) -> bool {
    matches!(&node.kind, Kind::Scalar(scalar) if unit(&scalar.text).is_some())
}

fn unit(name: &str) -> Option<Unit> {
    Unit::ALL.into_iter().find(|unit| unit.name().eq_ignore_ascii_case(name))
}

impl Reader<'_> {
    pub(super) fn period(
        &mut self,
        fields: &Fields<'_>,
        path: &Path<'_>,
        rate: Option<&Rate>,
        is_total: bool,
    ) -> Option<Period> {
        if is_total {
            for name in ["rate", "unit", "unit_multiplier", "period", "time_zone"] {
                if let Some(node) = fields.get(name) {
                    let message = "has no meaning for algorithm: total, which never refills; remove it";
                    self.notes.fault(node.pos, path.key(name), message);
                }
            }
            return Some(Unit::Second.into()); // a total ignores it
        }
        let unit = match rate.map(|rate| rate.per) {
            None => self.unit(fields, path),
            Some(Per::Unit(unit)) => Some(unit),
            Some(Per::Span(span)) => {
                if fields.get("time_zone").is_some() {
                    let message = "has no effect on such a rate; write it per day, week, month or year";
                    self.notes.fault(fields.pos_of("time_zone"), path.key("time_zone"), message);
                }
                return Some(Period::Span(span));
            }
        };
        let zone = fields.get("time_zone").map(|node| self.time_zone(node, &path.key("time_zone")));
        let multiplier = match fields.get("unit_multiplier") {
            Some(node) => self.number(node, &path.key("unit_multiplier"), 1, u64::from(u32::MAX)),
            None => Some(1),
        };
        let Some(node) = fields.get("period") else {
            let unit = unit?;
            let multiplier = multiplier?;
            return match zone {
                None => Some(Period::Span(Duration::from_secs(unit.seconds().saturating_mul(multiplier)))),
                Some(zone) => self.civil(fields, path, unit, multiplier, zone?),
            };
        };
        let here = path.key("period");
        for name in ["unit", "unit_multiplier", "time_zone"] {
            if let Some(node) = fields.get(name) {
                let hint = if name == "time_zone" {
                    "write unit: day, week, month or year"
                } else {
                    "keep one of the two"
                };
                let message = format!("cannot be combined with period; {hint}");
                self.notes.fault(node.pos, path.key(name), message);
            }
        }
        let text = self.scalar(node, &here, "a duration such as 10s")?;
        let Some(span) = parse_duration(&text.text) else {
            let message = format!(
                "invalid duration {}: expected something like 500ms, 10s, 3h, 1d or 2w",
                quoted(text)
            );
            self.notes.fault(node.pos, here, message);
            return None;
        };
        Some(Period::Span(span))
    }

    /// The unit. A missing unit is a fault unless there is a `period`.
    fn unit(&mut self, fields: &Fields<'_>, path: &Path<'_>) -> Option<Unit> {
        let names = Unit::ALL.map(Unit::name);
        let here = path.key("unit");
        let Some(node) = fields.get("unit") else {
            if fields.get("period").is_none() {
                let message = format!("is missing; write one of {}, or period: 10s", names.join(", "));
                self.notes.fault(fields.pos, here, message);
            }
            return None;
        };
        let scalar = self.scalar(node, &here, "a unit such as minute")?;
        let unit = unit(&scalar.text);
        if unit.is_none() {
            let hint = guesses::unit(&scalar.text)
                .or_else(|| did_you_mean(&scalar.text, &names))
                .unwrap_or_else(|| format!("write one of {}", names.join(", ")));
            self.notes.fault(node.pos, here, format!("unknown unit {}; {hint}", quoted(scalar)));
        }
        unit
    }

    fn time_zone(&mut self, node: &YamlNode, path: &Path<'_>) -> Option<jiff::tz::TimeZone> {
        let scalar = self.scalar(node, path, "a time zone such as Asia/Shanghai")?;
        if let Ok(zone) = jiff::tz::TimeZone::get(&scalar.text) {
            return Some(zone);
        }
        let message =
            format!("unknown time zone {}: expected something like Asia/Shanghai or UTC", quoted(scalar));
        self.notes.fault(node.pos, path, message);
        None
    }

    fn civil(
        &mut self,
        fields: &Fields<'_>,
        path: &Path<'_>,
        unit: Unit,
        multiplier: u64,
        time_zone: jiff::tz::TimeZone,
    ) -> Option<Period> {
        let unit = match unit {
            Unit::Day => CivilUnit::Day,
            Unit::Week => CivilUnit::Week,
            Unit::Month => CivilUnit::Month,
            Unit::Year => CivilUnit::Year,
            Unit::Second | Unit::Minute | Unit::Hour => {
                let message =
                    format!("has no effect on unit: {}; remove it, or write unit: day", unit.name());
                self.notes.fault(fields.pos_of("time_zone"), path.key("time_zone"), message);
                return None;
            }
        };
        if multiplier != 1 {
            let message = "cannot be combined with time_zone, whose units are single days, weeks, months and \
                           years; remove one of the two";
            self.notes.fault(fields.pos_of("unit_multiplier"), path.key("unit_multiplier"), message);
            return None;
        }
        Some(Period::Civil { unit, time_zone })
    }
}
