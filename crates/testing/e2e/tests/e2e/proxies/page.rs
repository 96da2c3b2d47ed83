//! The configurations of docs/proxies.md, as text.

use std::net::SocketAddr;

pub(crate) const PAGE: &str = include_str!("../../../../../../docs/proxies.md");

/// The block of the page whose fence is followed by `kind`, also an indented one.
pub(crate) fn block(kind: &str) -> String {
    let fence = format!("```{kind}\n");
    let place = PAGE.find(&fence).unwrap_or_else(|| panic!("the page has no block of {kind}"));
    let indent = PAGE[..place].rsplit('\n').next().expect("a line");
    let lines = PAGE[place + fence.len()..].lines();
    let lines = lines.map(|line| line.strip_prefix(indent).unwrap_or(line));
    lines.take_while(|line| !line.starts_with("```")).map(|line| format!("{line}\n")).collect()
}

/// The first text in backticks after `sentence`.
pub(crate) fn quoted_after(sentence: &str) -> &'static str {
    let (_, rest) = PAGE.split_once(sentence).unwrap_or_else(|| panic!("{sentence} is not on the page"));
    rest.split('`').nth(1).expect("something in backticks")
}

/// `text` with `to` for each `from`, which must be there.
pub(crate) fn replace(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from} is not in:\n{text}");
    text.replace(from, to)
}

/// A block with the addresses of this test for those of the page.
pub(crate) fn addressed(text: &str, tollgate: SocketAddr, app: SocketAddr) -> String {
    replace(&replace(text, "127.0.0.1:8080", &tollgate.to_string()), "127.0.0.1:3000", &app.to_string())
}
