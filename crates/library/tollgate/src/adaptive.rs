//! Limits on concurrent calls that are learned from their latencies.
//!
//! | limit | lowers itself when | needs |
//! |---|---|---|
//! | [`Aimd`] | calls fail for overload, or take longer than a timeout | failures that say so |
//! | [`Vegas`] | calls take longer than the shortest did | a stable floor of latency |
//! | [`Gradient2`] | calls take longer than on average for long | nothing; failures are ignored unless set |
//!
//! Each is plain arithmetic: a [`Sample`] in, another limit out. No clock is read here, except in
//! [`AdaptiveLimiter`](crate::AdaptiveLimiter), which measures the calls that it admits. The numbers are
//! floating point, unlike those of quotas: they estimate, and no law depends on their last digit. That is why
//! they are not in `core`, which has neither floats nor `std`.
//!
//! # Example
//! ```
//! use std::time::Duration;
//! use tollgate::adaptive::{AdaptiveLimit, Aimd, Sample};
//!
//! let mut limit = Aimd::default();
//! let fast = Sample { rtt: Duration::from_millis(5), in_flight: 15, is_overload: false };
//! limit.update(fast);
//! assert_eq!(limit.limit(), 21);
//! limit.update(Sample { is_overload: true, ..fast });
//! assert_eq!(limit.limit(), 20); // nine tenths would be 18, below the minimum
//! ```

mod aimd;
mod average;
mod feed;
mod gradient2;
pub(crate) mod guard;
mod limit;
pub(crate) mod limiter;
pub(crate) mod partitioned;
mod vegas;
mod window;

pub use self::aimd::Aimd;
pub use self::average::Average;
pub use self::gradient2::{Gradient2, root_of};
pub use self::guard::Finish;
pub use self::limit::{AdaptiveLimit, Sample, SettingError};
pub use self::vegas::{Decrease, Vegas, log10_of};
pub use self::window::Window;
