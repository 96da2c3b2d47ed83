//! Draws a view: on a terminal of any size, made for 80×24; or as text.

use std::fmt::Write as _;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{
    Block, Borders, Cell, Paragraph, RenderDirection, Row as TableRow, Sparkline, Table, TableState,
};
use tollgate_human_text::is_hidden;

use crate::reading::{Store, TopKey};
use crate::view::{Row, Sort, Totals, View, share};

const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const DIM: Style = Style::new().fg(Color::DarkGray);
const BAD: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);

/// Draws `view` on the whole of `frame`.
pub(crate) fn draw(view: &View, frame: &mut Frame<'_>) {
    let [head, history, rules, keys, foot] = Layout::vertical([
        Constraint::Length(4),
        Constraint::Length(2),
        Constraint::Min(5),
        Constraint::Length(7),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(header(view)), head);
    draw_history(view, frame, history);
    draw_rules(view, frame, rules);
    draw_keys(view, frame, keys);
    frame.render_widget(Paragraph::new(footer(view)), foot);
}

fn header(view: &View) -> Vec<Line<'_>> {
    let totals = &view.totals;
    let state = if totals.state == "ready" { Style::new().fg(Color::Green) } else { BAD };
    let mut first = vec![
        Span::styled("tollgate top ", BOLD),
        Span::raw(clean(&view.server)),
        Span::raw("  "),
        Span::styled(totals.state, state),
    ];
    if view.is_paused {
        first.push(Span::styled("  paused", BAD));
    }
    vec![Line::from(first), decisions(totals), store(totals), rules(view)]
}

fn decisions(totals: &Totals) -> Line<'static> {
    if !totals.has_rates {
        return Line::styled("decisions  rates follow with the second reading", DIM);
    }
    let of_denied = 100.0 * share(totals.denied, totals.decisions);
    let mut text = format!(
        "decisions {}/s  denied {}/s ({of_denied:.1} %)",
        short(totals.decisions),
        short(totals.denied)
    );
    if let (Some(p50), Some(p99)) = (totals.p50, totals.p99) {
        let _ = write!(text, "  latency p50 ≤ {}  p99 ≤ {}", span(p50), span(p99));
    }
    Line::raw(text)
}

fn store(totals: &Totals) -> Line<'static> {
    let mut spans = match totals.store.name.as_str() {
        "" | "memory" => vec![Span::raw(format!(
            "store     {} keys  {} of {}",
            short(totals.tracked_keys),
            bytes(totals.table_bytes),
            bytes(totals.capacity_bytes)
        ))],
        _ => shared_store(totals),
    };
    for (what, rate) in [
        ("rejected", totals.rejected),
        ("evicted", totals.evictions),
        ("errors", totals.store_errors),
        ("degraded", totals.degraded),
    ] {
        if rate > 0.0 {
            spans.push(Span::styled(format!("  {what} {}/s", short(rate)), BAD));
        }
    }
    let open: Vec<String> = totals
        .connections
        .iter()
        .map(|(surface, open)| format!("{} {}", clean(surface), short(*open)))
        .collect();
    if !open.is_empty() {
        spans.push(Span::raw(format!("  connections {}", open.join(" "))));
    }
    Line::from(spans)
}

/// Which store, its state and its load.
fn shared_store(totals: &Totals) -> Vec<Span<'static>> {
    let Store { name, state, down_for_ms, why } = &totals.store;
    let name = Span::raw(format!("store     {}  ", clean(name)));
    if state != "up" {
        let long = down_for_ms.map_or_else(String::new, |ms| format!(" for {}", span(ms as f64 / 1e3)));
        let why = why.as_deref().map_or_else(String::new, |why| format!(": {}", clean(why)));
        return vec![name, Span::styled(format!("{}{long}{why}", clean(state).to_uppercase()), BAD)];
    }
    let calls = short(totals.store_calls);
    let nodes = short(totals.live_nodes);
    vec![
        name,
        Span::styled("up", Style::new().fg(Color::Green)),
        Span::raw(format!("  {calls} calls/s  nodes {nodes}")),
    ]
}

fn rules(view: &View) -> Line<'_> {
    if let Some(fault) = &view.fault {
        return Line::styled(format!("no response: {}", clean(fault)), BAD);
    }
    let totals = &view.totals;
    match &totals.rule_fault {
        None => {
            let loaded =
                format!("rules     {} loaded, version {}", totals.rule_count, clean(&totals.version));
            let forgets = totals.forgets.as_ref().map(|(domain, rule, count)| {
                let domain = clean(domain);
                let rule = clean(rule);
                let count = short(*count);
                Span::styled(format!("  {domain}: {rule} forgot {count} charges, add post_paid: true"), BAD)
            });
            Line::from_iter([Span::raw(loaded)].into_iter().chain(forgets))
        }
        Some(fault) => Line::styled(format!("rules     NOT reloaded: {}", clean(fault)), BAD),
    }
}

fn draw_history(view: &View, frame: &mut Frame<'_>, area: Rect) {
    let lines = [
        ("decisions ", Color::Blue, view.history.iter().map(|(all, _)| *all).rev().collect::<Vec<_>>()),
        ("denied    ", Color::Red, view.history.iter().map(|(_, denied)| *denied).rev().collect::<Vec<_>>()),
    ];
    let most = view.history.iter().map(|(all, _)| *all).max().unwrap_or_default();
    for (row, (name, colour, rates)) in area.rows().zip(lines) {
        let [label, chart] = Layout::horizontal([Constraint::Length(10), Constraint::Min(0)]).areas(row);
        frame.render_widget(Span::styled(name, DIM), label);
        // One scale for both, so that the share is visible.
        let line = Sparkline::default()
            .data(rates)
            .max(most.max(1))
            .direction(RenderDirection::RightToLeft)
            .style(Style::new().fg(colour));
        frame.render_widget(line, chart);
    }
}

fn draw_rules(view: &View, frame: &mut Frame<'_>, area: Rect) {
    let title = |sort: Sort, name: &'static str| {
        let style = if view.sort == sort { BOLD.add_modifier(Modifier::UNDERLINED) } else { BOLD };
        Cell::from(Span::styled(name, style))
    };
    let header = TableRow::new([
        title(Sort::Rule, "rule"),
        title(Sort::Decisions, "decisions/s"),
        title(Sort::Denied, " denied/s"),
        title(Sort::Share, "  share"),
        Cell::from(Span::styled("   denied", BOLD)),
    ]);
    let widths = [
        Constraint::Min(10),
        Constraint::Length(11),
        Constraint::Length(9),
        Constraint::Length(7),
        Constraint::Length(9),
    ];
    let table = Table::new(view.rows.iter().map(table_row), widths)
        .header(header)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
        .block(Block::new().borders(Borders::TOP));
    let mut state = TableState::default();
    state.select((!view.rows.is_empty()).then_some(view.chosen));
    frame.render_stateful_widget(table, area, &mut state);
}

fn table_row(row: &Row) -> TableRow<'_> {
    let style = if row.denied > 0.0 { Style::new().fg(Color::Yellow) } else { Style::new() };
    TableRow::new([
        format!("{}: {}", clean(&row.domain), clean(&row.rule)),
        format!("{:>11}", short(row.decisions)),
        format!("{:>9}", short(row.denied)),
        format!("{:>5.1} %", 100.0 * row.share()),
        format!("{:>9}", short(row.denied_total as f64)),
    ])
    .style(style)
}

fn draw_keys(view: &View, frame: &mut Frame<'_>, area: Rect) {
    let block = Block::new().borders(Borders::TOP);
    let Some(row) = view.chosen() else {
        frame.render_widget(Paragraph::new("no rules are loaded").block(block), area);
        return;
    };
    let title =
        format!(" most limited by {}: {} ({}) ", clean(&row.domain), clean(&row.rule), clean(&row.limits));
    let block = block.title(title);
    if row.top.is_empty() {
        frame.render_widget(Paragraph::new(Line::styled("no key yet", DIM)).block(block), area);
        return;
    }
    let longest = row.top.iter().map(|key| key.bounds().1).max().unwrap_or_default().max(1);
    let cells = |number: u64| (u128::from(number) * 20).div_ceil(u128::from(longest)) as usize;
    let rows = row.top.iter().map(|key| {
        let (least, most) = key.bounds();
        let bar = "█".repeat(cells(least)) + &"░".repeat(cells(most) - cells(least));
        TableRow::new([clean(&key.key), format!("{:>13}", between(key)), bar])
    });
    let widths = [Constraint::Min(10), Constraint::Length(13), Constraint::Length(20)];
    frame.render_widget(Table::new(rows, widths).block(block), area);
}

fn footer(view: &View) -> Line<'static> {
    let sort = match view.sort {
        Sort::Denied => "denied/s",
        Sort::Decisions => "decisions/s",
        Sort::Share => "denied share",
        Sort::Rule => "rule",
    };
    Line::styled(format!("q quit  ↑↓ select a rule  s sort (by {sort})  p pause"), DIM)
}

/// Recent denials of a key: one number, or the fewest and the most that it may be.
fn between(key: &TopKey) -> String {
    let (least, most) = key.bounds();
    let least = short(least as f64);
    let most = short(most as f64);
    if least == most { least } else { format!("{least}–{most}") }
}

/// The view as plain text, with this number of keys of each rule.
pub(crate) fn text(view: &View, keys: usize) -> String {
    let mut text = String::new();
    for line in header(view) {
        let _ = writeln!(text, "{line}"); // writing to a string does not fail
    }
    let _ = writeln!(text, "\ndecisions/s  denied/s    share    denied  rule");
    for row in &view.rows {
        let _ = writeln!(
            text,
            "{:>11} {:>9}  {:>5.1} % {:>9}  {}: {}",
            short(row.decisions),
            short(row.denied),
            100.0 * row.share(),
            short(row.denied_total as f64),
            clean(&row.domain),
            clean(&row.rule)
        );
        for key in row.top.iter().take(keys) {
            let _ = writeln!(text, "{:>43}  {}", between(key), clean(&key.key));
        }
    }
    text
}

/// Without characters that change how the text around them is shown: keys contain what clients send.
fn clean(text: &str) -> String {
    text.chars().map(|c| if is_hidden(c) { '\u{fffd}' } else { c }).collect()
}

/// At most six characters: `999`, `12.3k`, `4.56M`.
fn short(number: f64) -> String {
    match number {
        n if n < 10.0 && n.fract() != 0.0 => format!("{n:.1}"),
        n if n < 10_000.0 => format!("{n:.0}"),
        n if n < 1e6 => format!("{:.1}k", n / 1e3),
        n if n < 1e9 => format!("{:.2}M", n / 1e6),
        n => format!("{:.2}G", n / 1e9),
    }
}

fn bytes(number: f64) -> String {
    match number {
        n if n < 1024.0 => format!("{n:.0} B"),
        n if n < 1024.0 * 1024.0 => format!("{:.1} KiB", n / 1024.0),
        n if n < 1024.0 * 1024.0 * 1024.0 => format!("{:.1} MiB", n / 1024.0 / 1024.0),
        n => format!("{:.1} GiB", n / 1024.0 / 1024.0 / 1024.0),
    }
}

fn span(seconds: f64) -> String {
    match seconds {
        s if s.is_infinite() => "more".to_owned(),
        s if s < 1e-6 => format!("{:.0} ns", s * 1e9),
        s if s < 1e-3 => format!("{:.0} µs", s * 1e6),
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s => format!("{s:.0} s"),
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::view::tests::{reading, rule};

    fn drawn(view: &View, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal in memory");
        terminal.draw(|frame| draw(view, frame)).expect("it is drawn");
        terminal.backend().to_string()
    }

    fn busy() -> View {
        let metrics = "tollgate_tracked_keys{store=\"memory\"} 1200
tollgate_table_bytes{store=\"memory\"} 3145728
tollgate_table_capacity_bytes{store=\"memory\"} 1073741824
tollgate_connections{surface=\"grpc\"} 3
tollgate_connections{surface=\"http\"} 1";
        let mut view = View::new("http://127.0.0.1:8080", Sort::Denied);
        view.read(reading(100, vec![rule("api_key", 0, 0, &[]), rule("remote_address", 0, 0, &[])], metrics));
        let top = [("api_key=mallory", 180), ("api_key=\u{1b}[2Jeve", 20)];
        let rules = vec![rule("api_key", 12_000, 200, &top), rule("remote_address", 50, 0, &[])];
        view.read(reading(101, rules, metrics));
        view
    }

    #[test]
    fn everything_fits_on_80_by_24() {
        let shown = drawn(&busy(), 80, 24);
        for part in [
            "tollgate top http://127.0.0.1:8080  ready",
            "decisions 12.2k/s  denied 200/s (1.6 %)",
            "store     1200 keys  3.0 MiB of 1.0 GiB  connections grpc 3 http 1",
            "rules     2 loaded, version 0123456789ab",
            "shop: api_key",
            "shop: remote_address",
            "most limited by shop: api_key (5 per minute, fixed_window)",
            "api_key=mallory",
            "q quit",
        ] {
            assert!(shown.contains(part), "{part:?} in\n{shown}");
        }
        assert!(!shown.contains('\u{1b}'), "what clients send does not reach the terminal as it is");
    }

    #[test]
    fn no_size_of_a_terminal_is_too_small() {
        for (width, height) in [(1, 1), (2, 3), (10, 5), (20, 60), (300, 2), (79, 23), (200, 100)] {
            drawn(&busy(), width, height);
            drawn(&View::new("", Sort::Rule), width, height);
        }
    }

    #[test]
    fn a_fault_is_seen() {
        let mut view = busy();
        view.fail("the server is gone".into());
        assert!(drawn(&view, 80, 24).contains("no response: the server is gone"));
        let mut faulty = reading(102, vec![], "");
        faulty.rules.last_error = Some("shop.yaml:3:1: bad".into());
        view.read(faulty);
        assert!(drawn(&view, 80, 24).contains("NOT reloaded: shop.yaml:3:1: bad"));
    }

    #[test]
    fn requests_that_no_rule_answered_are_shown_as_a_rate() {
        let mut view = busy();
        let at = |seconds, grpc: u32, http: u32| {
            let metrics = format!(
                "tollgate_bad_requests_total{{surface=\"grpc\",status=\"OVER_LIMIT\",reason=\"too_large\"}} {grpc}\n\
                 tollgate_bad_requests_total{{surface=\"http\",status=\"404\",reason=\"unknown\"}} {http}"
            );
            reading(seconds, vec![], &metrics)
        };
        view.read(at(102, 5, 5));
        view.read(at(104, 11, 19));
        assert!(drawn(&view, 80, 24).contains("rejected 10/s"), "{}", drawn(&view, 80, 24));
        view.read(at(106, 11, 19));
        assert!(!drawn(&view, 80, 24).contains("rejected"), "none in the last interval");
    }

    #[test]
    fn the_rule_that_forgets_most_costs_is_named_with_the_way_out() {
        let mut view = busy();
        let at = |seconds, team: u32, model: u32| {
            let metrics = format!(
                "tollgate_forgotten_charges_total{{domain=\"llm\",rule=\"team\"}} {team}\n\
                 tollgate_forgotten_charges_total{{domain=\"llm\",rule=\"model\"}} {model}"
            );
            reading(seconds, vec![], &metrics)
        };
        view.read(at(102, 0, 0));
        assert!(!drawn(&view, 120, 24).contains("forgot"), "{}", drawn(&view, 120, 24));
        view.read(at(104, 3, 12));
        let want = "llm: model forgot 12 charges, add post_paid: true";
        assert!(drawn(&view, 120, 24).contains(want), "{}", drawn(&view, 120, 24));
        assert!(text(&view, 1).contains(want), "{}", text(&view, 1));
    }

    #[test]
    fn a_shared_store_is_shown_with_its_state() {
        let mut view = busy();
        let mut now = reading(102, vec![], "tollgate_store_calls_total 30\ntollgate_store_live_nodes 4");
        now.readiness.store.name = "redis at r:6379".into();
        now.readiness.store.state = "up".into();
        view.read(now.clone());
        assert!(drawn(&view, 80, 24).contains("store     redis at r:6379  up  30 calls/s  nodes 4"));
        now.readiness.store.state = "down".into();
        now.readiness.store.down_for_ms = Some(12_000);
        now.readiness.store.why = Some("LOADING".into());
        view.read(now);
        assert!(drawn(&view, 80, 24).contains("store     redis at r:6379  DOWN for 12 s: LOADING"));
    }

    #[test]
    fn text_has_every_rule_and_its_keys() {
        let text = text(&busy(), 10);
        assert!(text.contains("12.2k       200    1.6 %       200  shop: api_key\n"), "{text}");
        assert!(text.contains("180  api_key=mallory\n"), "{text}");
    }

    #[test]
    fn a_server_without_rules_shows_no_negative_zero() {
        let mut view = View::new("server", Sort::Denied);
        view.read(reading(100, vec![], ""));
        view.read(reading(101, vec![], ""));
        let text = text(&view, 10);
        assert!(text.contains("decisions 0/s  denied 0/s (0.0 %)") && !text.contains("-0"), "{text}");
    }

    #[test]
    fn a_count_that_is_not_exact_is_shown_as_two_bounds() {
        let key = |key: &str, denied, at_most_over, at_most_under| TopKey {
            key: key.into(),
            denied,
            at_most_over,
            at_most_under,
        };
        let mut view = busy();
        let mut now = reading(102, vec![rule("api_key", 12_000, 300, &[])], "");
        let keys = [key("newcomer", 180, 170, 0), key("mallory", 120, 0, 0), key("sampled", 90, 30, 20)];
        now.rules.domains[0].rules[0].top_limited = keys.into();
        view.read(now);
        let text = text(&view, 10);
        let of_a_key = |line: &&str| ["mallory", "sampled", "newcomer"].iter().any(|key| line.ends_with(key));
        let lines: Vec<_> = text.lines().filter(of_a_key).map(str::trim_start).collect();
        assert_eq!(lines, ["120  mallory", "60–110  sampled", "10–180  newcomer"], "{text}");
        assert!(!super::text(&view, 1).contains("sampled"));
        let shown = drawn(&view, 80, 24);
        assert!(shown.contains("60–110 ███████░░░░░"), "{shown}");
        assert!(shown.contains(&format!("10–180 ██{}", "░".repeat(18))), "{shown}");
    }

    #[test]
    fn figures_are_short() {
        for (number, want) in [
            (0.0, "0"),
            (0.25, "0.2"),
            (9_999.0, "9999"),
            (12_345.0, "12.3k"),
            (4_560_000.0, "4.56M"),
            (7e9, "7.00G"),
        ] {
            assert_eq!(short(number), want);
        }
        assert_eq!(
            (span(5e-7), span(2e-6), span(0.01), span(f64::INFINITY)),
            ("500 ns".into(), "2 µs".into(), "10 ms".into(), "more".into())
        );
        assert_eq!(bytes(1536.0), "1.5 KiB");
    }
}
