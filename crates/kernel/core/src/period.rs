//! The span over which a limit counts.

use core::time::Duration;

/// The span over which a limit counts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Period {
    /// A span of time; windows begin at its multiples since the Unix epoch.
    Span(Duration),
    /// A unit of a time zone's calendar: days begin at local midnight, weeks on Monday, months on the first.
    Civil {
        /// Day, week, month or year of the calendar.
        unit: CivilUnit,
        /// IANA name, such as `Asia/Shanghai`.
        time_zone: jiff::tz::TimeZone,
    },
}

/// Units of a civil calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CivilUnit {
    /// From midnight to midnight.
    Day,
    /// From Monday to Monday.
    Week,
    /// From the first to the first.
    Month,
    /// From 1 January to 1 January.
    Year,
}
