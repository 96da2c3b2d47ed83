//! The three commands that bring their own rate. They differ in units, in the meaning of a burst, and in the
//! reply's order.

/// Which command it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `CL.THROTTLE`, as in redis-cell.
    Cell,
    /// `THROTTLE`, as in throttlecrab.
    Crab,
    /// `TOLLGATE.THROTTLE`: `CL.THROTTLE` in milliseconds.
    Millis,
}

impl Form {
    /// The command's name in lower case.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Cell => "cl.throttle",
            Self::Crab => "throttle",
            Self::Millis => "tollgate.throttle",
        }
    }
}
