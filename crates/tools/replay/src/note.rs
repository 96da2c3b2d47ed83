//! Remarks on a trace for people, one sentence each, in both languages.

use std::fmt;

use serde::{Serialize, Serializer};
use tollgate_charts::Language;

use crate::tally::Broken;

/// A remark on a trace for people. Shown, and in JSON, it is an English sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// The first line does not name columns; the format that it seems to have.
    NoHeading(&'static str),
    /// The log ends before its end; where and why.
    CutOff(String),
    /// Lines that were left out.
    Broken {
        /// Number of broken lines.
        broken: u64,
        /// Number of all lines.
        lines: u64,
    },
    /// One of the first broken lines.
    BrokenLine(Broken),
    /// Lines that the mapping calls not admitted.
    NotAdmitted(u64),
    /// Times that go back.
    OutOfOrder {
        requests: u64,
        /// By how much at most.
        most: String,
        /// Those that were sorted.
        sorted: u64,
        /// Those that were later than the tolerance.
        late: u64,
        /// The line with the latest time.
        latest_line: u64,
    },
    /// A descriptor that no request has the fields of.
    NeverCame {
        /// A or B: the set of rules.
        side: &'static str,
        /// Keys of the descriptor.
        keys: String,
    },
    /// Requests that have the fields of no descriptor.
    Bare {
        /// A or B: the set of rules.
        side: &'static str,
        bare: u64,
        /// Number of all requests.
        requests: u64,
    },
    /// Requests that were not decided.
    Undecided {
        /// A or B: the set of rules.
        side: &'static str,
        requests: u64,
        /// Why, of the first.
        error: String,
    },
    /// Rules that share buckets.
    Buckets {
        /// A or B: the set of rules.
        side: &'static str,
        rules: usize,
    },
    /// Rules that are not compared with an exact limit.
    NotCompared {
        /// A or B: the set of rules.
        side: &'static str,
        rules: usize,
    },
    /// Rules with a queue.
    Queues {
        /// A or B: the set of rules.
        side: &'static str,
        rules: usize,
    },
}

impl Note {
    /// The remark as a sentence.
    #[must_use]
    pub fn text(&self, language: Language) -> String {
        match language {
            Language::En => self.to_string(),
            Language::Zh => self.chinese(),
        }
    }

    fn chinese(&self) -> String {
        match self {
            Self::NoHeading(what) => format!("第一行不是表头：{what}"),
            Self::CutOff(why) => format!("日志不完整（{why}），以下只包含此前读到的内容"),
            Self::Broken { broken, lines } => format!("共 {lines} 行，其中 {broken} 行无法解析，已跳过"),
            Self::BrokenLine(it) => format!("第 {} 行：{}：{}", it.line, it.why, it.quote),
            Self::NotAdmitted(lines) => format!("按字段映射，{lines} 行属于未放行的请求，已跳过"),
            Self::OutOfOrder { requests, most, sorted, late, latest_line } => format!(
                "{requests} 个请求的时间早于前面的请求，最多相差 {most}：{sorted} 个已重新排序，{late} 个超出容差。\
                 可用 --tolerance 调整排序范围。最晚的时间在第 {latest_line} 行"
            ),
            Self::NeverCame { side, keys } => {
                format!("规则 {side}：没有请求包含描述符（{keys}）所需的字段，见 --mapping")
            }
            Self::Bare { side, bare, requests } => {
                format!("规则 {side}：{requests} 个请求中有 {bare} 个不包含任何描述符所需的字段")
            }
            Self::Undecided { side, requests, error } => {
                format!("规则 {side}：{requests} 个请求没有得出结果：{error}")
            }
            Self::Buckets { side, rules } => {
                format!("规则 {side}：{rules} 条规则共用桶；桶中的每个键合并比较，列在最先遇到它的规则下")
            }
            Self::NotCompared { side, rules } => {
                format!(
                    "规则 {side}：{rules} 条规则带优先级，或在多个上限中含有共用桶的上限，因此不与精确上限比较"
                )
            }
            Self::Queues { side, rules } => {
                format!("规则 {side}：{rules} 条规则会排队；回放时，需要等待的请求直接计为拒绝")
            }
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHeading(what) => write!(f, "the first line is not a heading: {what}"),
            Self::CutOff(why) => {
                write!(f, "the log is cut off {why}; everything below is about what was read before")
            }
            Self::Broken { broken, lines } => {
                write!(f, "{broken} of {lines} lines are broken and were left out")
            }
            Self::BrokenLine(it) => write!(f, "line {}: {}: {}", it.line, it.why, it.quote),
            Self::NotAdmitted(lines) => write!(f, "{lines} lines were not admitted, as the mapping says"),
            Self::OutOfOrder { requests, most, sorted, late, latest_line } => write!(
                f,
                "{requests} requests are out of order, by up to {most}: {sorted} were sorted, {late} were more \
                 than the tolerance late; --tolerance sets how far they are sorted; the latest time is in \
                 line {latest_line}"
            ),
            Self::NeverCame { side, keys } => {
                write!(f, "rules {side}: no request has the fields of the descriptor ({keys}); see --mapping")
            }
            Self::Bare { side, bare, requests } => {
                write!(f, "rules {side}: {bare} of {requests} requests have the fields of no descriptor")
            }
            Self::Undecided { side, requests, error } => {
                write!(f, "rules {side}: {requests} requests were not decided: {error}")
            }
            Self::Buckets { side, rules } => write!(
                f,
                "rules {side}: {rules} rules share buckets; each key of a bucket is compared as one, and listed \
                 under the rule that met it first"
            ),
            Self::NotCompared { side, rules } => write!(
                f,
                "rules {side}: {rules} rules have priorities, or a bucket among several limits, and are not \
                 compared with an exact limit"
            ),
            Self::Queues { side, rules } => {
                write!(f, "rules {side}: {rules} rules queue; a replay denies at once what would have waited")
            }
        }
    }
}

impl Serialize for Note {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
