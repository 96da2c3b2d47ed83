//! The report as one HTML file.

use tollgate_charts::{Axis, Bar, Bars, Chart, Color, Form, Language, Page, Series, Table, Unit, label};

use crate::instant::show;
use crate::note::Note;
use crate::report::{Compared, Report, RuleReport, SideReport, share, show_span};
use crate::texts::Texts;
use crate::timeline::{Span, Timeline};

/// The whole page. `notes` are the warnings that the command prints.
pub(crate) fn html(report: &Report, notes: &[Note], lang: Language) -> String {
    let texts = Texts::of(lang);
    let mut page = Page::new(lang.tag(), texts.title);
    let mut figures =
        vec![(texts.requests, report.lines.requests.to_string()), (texts.span, show_span(report.span_ns))];
    if let Some(begin_ns) = report.lines.first_ns {
        figures.insert(0, (texts.begins, show(begin_ns)));
    }
    page.figures(&figures);
    if !notes.is_empty() {
        page.heading(2, texts.notes);
        notes.iter().for_each(|note| page.warning(&note.text(lang)));
    }
    let compares = report.rules.len() > 1;
    if let Some(timeline) = &report.timeline {
        page.heading(2, texts.over_time);
        page.chart(&over_time(timeline, compares, texts), texts.numbers, &numbers(timeline, compares, texts));
    }
    if let Some(difference) = report.difference {
        let all = report.lines.requests;
        let count = |count: u64| format!("{count} ({})", share(count, all));
        page.heading(2, texts.difference);
        page.figures(&[
            (texts.newly_denied, count(difference.newly_denied)),
            (texts.newly_admitted, count(difference.newly_admitted)),
        ]);
    }
    for side in &report.rules {
        write_side(side, &mut page, texts);
    }
    page.finish()
}

fn over_time(timeline: &Timeline, compares: bool, texts: &Texts) -> Chart {
    let each_s = timeline.span_ns as f64 / 1e9;
    let points = |value: &dyn Fn(&Span) -> u64| {
        let spans = timeline.spans.iter().enumerate();
        let mut points: Vec<(f64, f64)> =
            spans.map(|(nth, span)| (nth as f64 * each_s, value(span) as f64)).collect();
        let last = points.last().map_or(0.0, |&(_, value)| value);
        points.push((timeline.spans.len() as f64 * each_s, last));
        points
    };
    let series = |name: &str, color, form, value: &dyn Fn(&Span) -> u64| Series {
        name: name.to_owned(),
        color,
        form,
        points: points(value),
    };
    let (admitted, denied) =
        if compares { (texts.admitted_a, texts.denied_a) } else { (texts.admitted, texts.denied) };
    let mut all = vec![
        series(texts.offered, Color::Offered, Form::Area, &|span| span.offered),
        series(admitted, Color::Admitted, Form::Steps, &|span| span.offered - span.denied),
        series(denied, Color::Denied, Form::Steps, &|span| span.denied),
    ];
    if compares {
        all.push(series(texts.denied_b, Color::Second, Form::Steps, &|span| span.denied_b));
    }
    let each = label(each_s, Unit::Seconds);
    Chart {
        title: texts.over_time.to_owned(),
        x: Axis::seconds(texts.time),
        y: Axis::numbers(format!("{} ({each})", texts.per_span)),
        series: all,
        marks: Vec::new(),
    }
}

fn numbers(timeline: &Timeline, compares: bool, texts: &Texts) -> Table {
    let mut columns = vec![texts.begin_of_span, texts.offered, texts.admitted, texts.denied];
    columns.extend(compares.then_some(texts.denied_b));
    let rows = timeline.spans.iter().enumerate().map(|(nth, span)| {
        let begin_ns = timeline.begin_ns.saturating_add(timeline.span_ns.saturating_mul(nth as u64));
        let mut row = vec![show(begin_ns)];
        row.extend([span.offered, span.offered - span.denied, span.denied].map(|count| count.to_string()));
        row.extend(compares.then(|| span.denied_b.to_string()));
        row
    });
    table(&columns, rows.collect())
}

fn table(columns: &[&str], rows: Vec<Vec<String>>) -> Table {
    Table { columns: columns.iter().map(|&name| name.to_owned()).collect(), rows }
}

fn write_side(side: &SideReport, page: &mut Page, texts: &Texts) {
    let all = side.admitted + side.denied;
    page.heading(2, &format!("{} {}", texts.rules, side.label));
    page.remark(&format!("{} · {}", side.domain, side.version));
    page.figures(&[
        (texts.admitted, format!("{} ({})", side.admitted, share(side.admitted, all))),
        (texts.denied, format!("{} ({})", side.denied, share(side.denied, all))),
        (texts.unlimited, (side.unlimited + side.without_descriptor).to_string()),
    ]);
    page.remark(texts.wrongly);
    for rule in &side.rules {
        write_rule(rule, page, texts);
    }
}

fn write_rule(rule: &RuleReport, page: &mut Page, texts: &Texts) {
    page.heading(3, &format!("{}: {}", rule.path, rule.limits.join("; ")));
    let mut figures = vec![
        (texts.offered, rule.offered.to_string()),
        (texts.admitted, rule.admitted.to_string()),
        (texts.denied, rule.denied.to_string()),
        (texts.near, rule.near.to_string()),
    ];
    if rule.shadowed > 0 {
        figures.push((texts.shadowed, rule.shadowed.to_string()));
    }
    if rule.compared > 0 {
        figures.extend([
            (texts.keys, rule.keys.to_string()),
            (texts.keys_denied, rule.keys_denied.to_string()),
            (texts.wrongly_admitted, share(rule.wrongly_admitted, rule.compared)),
            (texts.wrongly_denied, share(rule.wrongly_denied, rule.compared)),
        ]);
    }
    if rule.keys_forgotten > 0 {
        figures.push((texts.keys_forgotten, rule.keys_forgotten.to_string()));
    }
    if rule.not_compared > 0 {
        figures.push((texts.not_compared, rule.not_compared.to_string()));
    }
    page.figures(&figures);
    write_worst(rule, page, texts);
    write_algorithms(&rule.algorithms, page, texts);
    if !rule.top_denied.is_empty() {
        let rows = rule.top_denied.iter().map(|top| vec![top.key.clone(), top.denied.to_string()]);
        page.heading(4, texts.most_denied);
        page.table(&table(&[texts.key, texts.denied], rows.collect()));
    }
    if !rule.suggested.is_empty() {
        let rows = rule.suggested.iter().map(|it| {
            let in_any = format!("{} / {}", it.limit, it.window);
            vec![format!("{} %", it.percentile), in_any, it.burst.to_string(), it.rate.clone()]
        });
        page.heading(4, texts.suggested);
        let columns = [texts.enough_for, texts.in_any, texts.or_burst, texts.at_rate];
        page.table(&table(&columns, rows.collect()));
    }
}

fn write_worst(rule: &RuleReport, page: &mut Page, texts: &Texts) {
    if rule.worst_windows.is_empty() {
        return;
    }
    let rows = rule.worst_windows.iter().map(|worst| {
        let admitted = worst.admitted.to_string();
        let allowed = worst.allowed.to_string();
        vec![worst.key.clone(), admitted, allowed, worst.from.clone(), worst.to.clone()]
    });
    page.heading(4, texts.worst_windows);
    let columns = [texts.key, texts.admitted, texts.limit, texts.from, texts.to];
    page.table(&table(&columns, rows.collect()));
}

fn write_algorithms(algorithms: &[Compared], page: &mut Page, texts: &Texts) {
    let worst_of = |it: &Compared| it.worst_window.as_ref().map_or(0, |worst| worst.admitted);
    let Some(limit) = algorithms.iter().find_map(|it| it.worst_window.as_ref()).map(|worst| worst.allowed)
    else {
        return;
    };
    page.heading(4, texts.algorithms);
    page.remark(texts.same_limit);
    let bar = |it: &Compared| {
        let worst = worst_of(it);
        let color = if worst > limit { Color::Denied } else { Color::Admitted };
        Bar { name: it.algorithm.clone(), value: worst as f64, color }
    };
    page.bars(&Bars {
        title: texts.worst_window.to_owned(),
        bars: algorithms.iter().map(bar).collect(),
        mark: Some((limit as f64, texts.limit.to_owned())),
    });
    let rows = algorithms.iter().map(|it| {
        let all = it.admitted + it.denied;
        vec![
            it.algorithm.clone(),
            it.admitted.to_string(),
            it.denied.to_string(),
            worst_of(it).to_string(),
            share(it.wrongly_admitted, all),
            share(it.wrongly_denied, all),
            it.not_compared.to_string(),
        ]
    });
    let columns = [
        texts.algorithm,
        texts.admitted,
        texts.denied,
        texts.worst_window,
        texts.wrongly_admitted,
        texts.wrongly_denied,
        texts.not_compared,
    ];
    page.table(&table(&columns, rows.collect()));
}
