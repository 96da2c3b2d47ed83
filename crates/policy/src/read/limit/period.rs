//! `unit`, `unit_multiplier`, `period`, `time_zone`: over what length of time a limit counts.

use std::time::Duration;

use tollgate_core::{CivilUnit, Period};

use crate::read::scalar::shown;
use crate::read::spelling::did_you_mean;
use crate::read::{Fields, Path, Reader, duration};
use crate::rule::Unit;
use crate::tree::{Kind, Node};

/// A length of time, ready for a quota and for a key.
pub(super) struct Length {
    pub(super) period: Period,
    pub(super) span: Duration,
    pub(super) unit: Option<Unit>,
    /// Text that only this length has, such as `minute`, `10s` or `day:Asia/Shanghai`.
    pub(super) shown: String,
}

const UNITS: [Unit; 7] =
    [Unit::Second, Unit::Minute, Unit::Hour, Unit::Day, Unit::Week, Unit::Month, Unit::Year];

/// True for the name of a unit, in any letter case.
pub(super) fn is_unit(node: &Node) -> bool {
    matches!(&node.kind, Kind::Scalar(scalar) if unit(&scalar.text).is_some())
}

fn unit(name: &str) -> Option<Unit> {
    UNITS.into_iter().find(|unit| unit.name().eq_ignore_ascii_case(name))
}

impl Length {
    fn of_span(span: Duration) -> Self {
        let unit = UNITS.into_iter().find(|unit| Duration::from_secs(unit.seconds()) == span);
        let shown = unit.map_or_else(|| duration::show(span), |unit| unit.name().to_owned());
        Self { period: Period::Span(span), span, unit, shown }
    }
}

impl Reader<'_> {
    pub(super) fn length(&mut self, fields: &Fields<'_>, path: &Path<'_>, is_total: bool) -> Option<Length> {
        if is_total {
            for name in ["unit", "unit_multiplier", "period", "time_zone"] {
                if let Some(node) = fields.get(name) {
                    let message = "has no meaning for algorithm: total, which never refills; leave it out";
                    self.notes.fault(node.pos, path.key(name), message);
                }
            }
            let span = Duration::from_secs(1); // a total never looks at it
            return Some(Length { period: Period::Span(span), span, unit: None, shown: String::new() });
        }
        let unit = self.unit(fields, path);
        let zone = fields.get("time_zone").map(|node| self.time_zone(node, &path.key("time_zone")));
        let multiplier = match fields.get("unit_multiplier") {
            Some(node) => self.number(node, &path.key("unit_multiplier"), 1, u64::from(u32::MAX)),
            None => Some(1),
        };
        let Some(node) = fields.get("period") else {
            let (unit, multiplier) = (unit?, multiplier?);
            return match zone {
                None => Some(Length::of_span(Duration::from_secs(unit.seconds().saturating_mul(multiplier)))),
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
                self.notes.fault(node.pos, path.key(name), format!("stands beside period; {hint}"));
            }
        }
        let text = self.scalar(node, &here, "a length of time such as 10s")?;
        let Some(span) = duration::parse(&text.text) else {
            let message =
                format!("{} is no length of time; write one such as 500ms, 10s, 3h, 1d or 2w", shown(text));
            self.notes.fault(node.pos, here, message);
            return None;
        };
        Some(Length::of_span(span))
    }

    /// The unit; its absence is a fault unless there is a `period`.
    fn unit(&mut self, fields: &Fields<'_>, path: &Path<'_>) -> Option<Unit> {
        let names = UNITS.map(Unit::name);
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
            let hint = did_you_mean(&scalar.text, &names)
                .unwrap_or_else(|| format!("write one of {}", names.join(", ")));
            self.notes.fault(node.pos, here, format!("{} is no unit; {hint}", shown(scalar)));
        }
        unit
    }

    fn time_zone(&mut self, node: &Node, path: &Path<'_>) -> Option<(String, jiff::tz::TimeZone)> {
        let scalar = self.scalar(node, path, "a time zone such as Asia/Shanghai")?;
        if let Ok(zone) = jiff::tz::TimeZone::get(&scalar.text) {
            let name = zone.iana_name().map_or_else(|| scalar.text.clone(), str::to_owned);
            return Some((name, zone));
        }
        let message = format!("{} is no time zone; write one such as Asia/Shanghai or UTC", shown(scalar));
        self.notes.fault(node.pos, path, message);
        None
    }

    fn civil(
        &mut self,
        fields: &Fields<'_>,
        path: &Path<'_>,
        unit: Unit,
        multiplier: u64,
        (name, time_zone): (String, jiff::tz::TimeZone),
    ) -> Option<Length> {
        let civil = match unit {
            Unit::Day => CivilUnit::Day,
            Unit::Week => CivilUnit::Week,
            Unit::Month => CivilUnit::Month,
            Unit::Year => CivilUnit::Year,
            Unit::Second | Unit::Minute | Unit::Hour => {
                let message =
                    format!("has no effect on unit: {}; leave it out, or write unit: day", unit.name());
                self.notes.fault(fields.pos_of("time_zone"), path.key("time_zone"), message);
                return None;
            }
        };
        if multiplier != 1 {
            let message =
                "stands beside time_zone, which knows single days, weeks, months and years; leave one out";
            self.notes.fault(fields.pos_of("unit_multiplier"), path.key("unit_multiplier"), message);
            return None;
        }
        let period = Period::Civil { unit: civil, time_zone };
        let span = Duration::from_secs(unit.seconds());
        Some(Length { period, span, unit: Some(unit), shown: format!("{}:{name}", unit.name()) })
    }
}
