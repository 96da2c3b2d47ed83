//! Stands in until `tollgate-clock` has its clock: the same calibrated counter.
#[derive(Clone)]
pub(crate) struct SystemClock(quanta::Clock, u64);
impl SystemClock {
    pub(crate) fn new() -> Self {
        let c = quanta::Clock::new();
        let r = c.raw();
        Self(c, r)
    }
}
impl tollgate_core::Clock for SystemClock {
    #[inline]
    fn now(&self) -> tollgate_core::Timestamp {
        tollgate_core::Timestamp::from_nanos(
            1_795_000_000_000_000_000 + self.0.delta_as_nanos(self.1, self.0.raw()),
        )
    }
}
