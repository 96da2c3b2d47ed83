//! Which algorithm to choose: the table of docs/choosing.md, as part of the start page.

use tollgate_http_kit::page::escape;

const PAGE: &str = include_str!("../../../../docs/choosing.md");

/// The rows of the page's first table, as HTML.
pub(crate) fn table() -> String {
    let rows =
        PAGE.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let mut html = String::from("<table>\n");
    for row in rows.filter(|row| !row.starts_with("|-")) {
        html.push_str("<tr>");
        for cell in row.trim_matches('|').split('|') {
            html.push_str("<td>");
            html.push_str(&inline(cell.trim()));
        }
        html.push('\n');
    }
    html.push_str("</table>\n");
    html
}

/// The code and strong text of one cell, and the words of a link.
fn inline(cell: &str) -> String {
    let mut html = String::new();
    let mut rest = cell;
    let marks = [("`", "`", "code"), ("**", "**", "strong")];
    while let Some(at) = rest.find(['`', '*', '[']) {
        let (before, found) = rest.split_at(at);
        html.push_str(&escape(before));
        let marked = marks.iter().find_map(|(open, close, tag)| {
            let (inside, after) = found.strip_prefix(open)?.split_once(close)?;
            Some((format!("<{tag}>{}</{tag}>", escape(inside)), after))
        });
        let link = || {
            let (words, target) = found.strip_prefix('[')?.split_once("](")?;
            Some((inline(words), target.split_once(')')?.1))
        };
        match marked.or_else(link) {
            Some((made, after)) => {
                html.push_str(&made);
                rest = after;
            }
            None => {
                let (mark, after) = found.split_at(1);
                html.push_str(mark);
                rest = after;
            }
        }
    }
    html.push_str(&escape(rest));
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_on_choosing_is_a_table_of_the_start_page() {
        let html = table();
        for part in [
            "<tr><td>what you want<td>write<td>why\n",
            "<tr><td><strong>protect myself</strong>: my service",
            "<td><code>token_bucket</code><td>",
            "<code>leaky_bucket</code> with <code>form: queue</code>",
            "<code>fixed_window</code>",
            "<code>total</code>",
        ] {
            assert!(html.contains(part), "{part:?} in {html}");
        }
        assert!(!html.contains("](") && !html.contains("**"), "{html}");
        assert_eq!(inline("a * b ` <c> [d"), "a * b ` &lt;c&gt; [d");
    }
}
