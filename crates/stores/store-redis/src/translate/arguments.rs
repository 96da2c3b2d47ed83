//! Arguments of steps: packed numbers, and groups of equal asks.

use tollgate_core::{Cost, MAX_COUNT, Timestamp};

use crate::ask::{Ask, KeyOperation};

/// A take of more permits than any key can have: it never fits, and a double holds it.
pub(super) const TOO_MANY: u64 = MAX_COUNT + 1;
/// The most whole parts of a span: later than every expiry.
const MOST_PARTS: u128 = 1 << 52;

/// Runs of equal takes or reservations; all other asks one by one.
pub(super) fn groups<'a>(asks: &'a [&'a Ask]) -> impl Iterator<Item = (u64, KeyOperation)> + 'a {
    let alike = |a: &&Ask, b: &&Ask| {
        a.kind == b.kind && matches!(a.kind, KeyOperation::Take(_) | KeyOperation::Reserve(..))
    };
    asks.chunk_by(alike).map(|run| (run.len() as u64, run[0].kind))
}

/// The groups of every step except the bucket's: a number of takes or a code, the cost, and whether a denial
/// changes nothing.
///
/// The codes: 0 charges, -1 gives back, -2 forgets the key, -3 looks at it, -4 asks whether a permit is left.
pub(super) fn push_counts(packed: &mut Packed, asks: &[&Ask], third: impl Fn(Cost, bool) -> f64) {
    for (n, kind) in groups(asks) {
        let most = |cost: Cost, most: u64| cost.permits().min(most);
        let (code, cost, third) = match kind {
            KeyOperation::Take(cost) => (n as f64, most(cost, TOO_MANY), third(cost, false)),
            KeyOperation::Reserve(cost, _) => (n as f64, most(cost, TOO_MANY), third(cost, true)),
            KeyOperation::Pay(Cost::PEEK) => (-4.0, 0, 0.0),
            KeyOperation::Charge(cost) | KeyOperation::Pay(cost) => (0.0, most(cost, MAX_COUNT), 0.0),
            KeyOperation::GiveBack(cost) => (-1.0, most(cost, MAX_COUNT), 0.0),
            KeyOperation::Reset => (-2.0, 0, 0.0),
            KeyOperation::Inspect => (-3.0, 0, 0.0),
        };
        packed.number(code).number(cost as f64).number(third);
    }
}

pub(super) fn holds(_: Cost, hold: bool) -> f64 {
    f64::from(u8::from(hold))
}

/// Numbers as a step unpacks them: doubles, lowest byte first, each a whole number below 2^53.
pub(super) struct Packed<'a>(pub(super) &'a mut Vec<u8>);

impl Packed<'_> {
    pub(super) fn number(&mut self, number: f64) -> &mut Self {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    /// A whole number below 2^53.
    pub(super) fn count(&mut self, count: u64) -> &mut Self {
        debug_assert!(count < 1 << 53, "{count} is not a whole double");
        self.number(count as f64)
    }

    /// Nanoseconds as ms, and ns within.
    pub(super) fn nanos(&mut self, nanos: u64) -> &mut Self {
        self.limbs(u128::from(nanos), 1_000_000)
    }

    /// A span as a number of whole parts, and the rest.
    pub(super) fn limbs(&mut self, span: u128, part: u64) -> &mut Self {
        let whole = span / u128::from(part);
        let rest = span % u128::from(part);
        self.count(whole.min(MOST_PARTS) as u64).count(rest as u64)
    }

    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(0);
        self
    }
}

/// The instant that counts, as `time.lua` reads it.
pub fn instant(now: Timestamp) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(16);
    Packed(&mut bytes).nanos(now.as_nanos());
    bytes
}
