//! Lua scripts, assembled from small files.
//!
//! The script for keys of one algorithm consists of the clock, the algorithm's step and `each.lua`; the
//! script for keys that are charged together, of the steps of their algorithms and `all.lua`. Quotas are
//! arguments, so there are as many scripts as algorithms, however many rules there are.

use std::sync::{LazyLock, OnceLock};

pub(crate) use tollgate_redis_link::Script;

/// The steps, one Lua file each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// One number that falls with time: buckets.
    Bucket,
    /// Hits of one window.
    Window,
    /// A count that never falls.
    Total,
    /// Permits that come back at the end of each period.
    Interval,
    /// Hits of two windows, the older weighted.
    Counter,
    /// A list with one entry for each instant.
    Entries,
    /// Takes that pay for those before.
    WarmUp,
    /// Classes that share a bucket.
    Priority,
}

const STEPS: [Step; 8] = [
    Step::Bucket,
    Step::Window,
    Step::Total,
    Step::Interval,
    Step::Counter,
    Step::Entries,
    Step::WarmUp,
    Step::Priority,
];

/// A replacement of foreign values before the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swap {
    /// No value is replaced.
    None,
    /// Strings that another rate has written are replaced by what the caller has computed.
    Strings,
    /// Lists that another rate has written are replaced by what the caller has computed.
    Lists,
}

impl Step {
    /// The name of the step for `all.lua`.
    pub(crate) const fn letter(self) -> char {
        match self {
            Self::Bucket => 'b',
            Self::Window => 'w',
            Self::Total => 't',
            Self::Interval => 'i',
            Self::Counter => 'c',
            Self::Entries => 'e',
            Self::WarmUp => 'u',
            Self::Priority => 'p',
        }
    }

    const fn function(self) -> &'static str {
        match self {
            Self::Bucket => "bucket",
            Self::Window => "window",
            Self::Total => "total",
            Self::Interval => "interval",
            Self::Counter => "counter",
            Self::Entries => "entries",
            Self::WarmUp => "warm_up",
            Self::Priority => "priority",
        }
    }

    const fn source(self) -> &'static str {
        match self {
            Self::Bucket => include_str!("lua/bucket.lua"),
            Self::Window => include_str!("lua/window.lua"),
            Self::Total => include_str!("lua/total.lua"),
            Self::Interval => include_str!("lua/interval.lua"),
            Self::Counter => include_str!("lua/counter.lua"),
            Self::Entries => include_str!("lua/entries.lua"),
            Self::WarmUp => include_str!("lua/warm_up.lua"),
            Self::Priority => include_str!("lua/priority.lua"),
        }
    }

    const fn arithmetic(self) -> Arithmetic {
        match self {
            Self::Bucket | Self::Window | Self::Total => Arithmetic::Doubles,
            Self::Interval | Self::Counter | Self::Entries => Arithmetic::Limbs,
            Self::WarmUp | Self::Priority => Arithmetic::Big,
        }
    }
}

/// The numbers with which a step counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arithmetic {
    Doubles,
    /// Spans of two limbs, which are divided.
    Limbs,
    /// Whole numbers of any size.
    Big,
}

const TIME: &str = include_str!("lua/time.lua");
const LIMBS: &str = include_str!("lua/limbs.lua");
const BIG: &str = include_str!("lua/big.lua");

/// The libraries that these steps need before them.
fn needed(steps: impl Iterator<Item = Step> + Clone) -> String {
    let has = |arithmetic| steps.clone().any(|step| step.arithmetic() == arithmetic);
    let source = |arithmetic, source| if has(arithmetic) { source } else { "" };
    [source(Arithmetic::Limbs, LIMBS), source(Arithmetic::Big, BIG)].concat()
}

const fn swap_source(swap: Swap) -> &'static str {
    match swap {
        Swap::None => "",
        Swap::Strings => include_str!("lua/swap.lua"),
        Swap::Lists => include_str!("lua/swap_list.lua"),
    }
}

/// The script for keys that take this step, each by itself.
pub fn each(step: Step, swap: Swap) -> &'static Script {
    static SCRIPTS: LazyLock<Vec<Script>> = LazyLock::new(|| {
        let by_step = |swap: Swap| {
            STEPS.map(|step| {
                let needed = needed(std::iter::once(step));
                let chosen = format!("local step = {}\n", step.function());
                let each = include_str!("lua/each.lua");
                Script::of(&[swap_source(swap), TIME, &needed, step.source(), &chosen, each])
            })
        };
        [by_step(Swap::None), by_step(Swap::Strings), by_step(Swap::Lists)].into_iter().flatten().collect()
    });
    &SCRIPTS[swap as usize * STEPS.len() + step as usize]
}

/// The script for keys that take these steps together.
pub(crate) fn all(steps: &[Step], swap: Swap) -> &'static Script {
    const SETS: usize = 1 << STEPS.len();
    static SCRIPTS: [OnceLock<Script>; 3 * SETS] = [const { OnceLock::new() }; 3 * SETS];
    let set = steps.iter().fold(0, |set, step| set | 1 << *step as usize);
    SCRIPTS[swap as usize * SETS + set].get_or_init(|| {
        let used = || STEPS.into_iter().filter(|step| set & (1 << *step as usize) != 0);
        let names: Vec<String> =
            used().map(|step| format!("{} = {}", step.letter(), step.function())).collect();
        let chosen = format!("local step_of = {{{}}}\n", names.join(", "));
        let steps: String = used().map(Step::source).collect();
        Script::of(&[swap_source(swap), TIME, &needed(used()), &steps, &chosen, include_str!("lua/all.lua")])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_on_one_key_carries_its_own_algorithm_alone() {
        let bucket = each(Step::Bucket, Swap::None);
        assert!(bucket.source().contains("local function bucket"));
        assert!(!bucket.source().contains("local function window") && !bucket.source().contains("divide"));
        assert_eq!(bucket.sha().len(), 40);
        assert!(each(Step::Entries, Swap::Lists).source().contains("RPUSH"));
    }

    #[test]
    fn keys_charged_together_share_one_script_whatever_their_order() {
        let a = [Step::Window, Step::Bucket, Step::Window];
        let b = [Step::Bucket, Step::Window];
        assert!(std::ptr::eq(all(&a, Swap::None), all(&b, Swap::None)));
        assert!(all(&a, Swap::None).source().contains("b = bucket, w = window"));
    }
}
