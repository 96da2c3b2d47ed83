//! Charts and pages: the positions of drawn values, and data that stays data.

use tollgate_charts::{
    Axis, Bar, Bars, Chart, Color, Form, Page, Series, Table, bars_svg, svg, svg_file, text,
};

fn chart() -> Chart {
    Chart {
        title: "Requests".into(),
        x: Axis::seconds("time"),
        y: Axis::numbers("a second"),
        series: vec![
            Series {
                name: "offered".into(),
                color: Color::Offered,
                form: Form::Area,
                points: vec![(0.0, 10.0), (30.0, 20.0), (60.0, f64::NAN), (60.0, 0.0)],
            },
            Series {
                name: "denied".into(),
                color: Color::Denied,
                form: Form::Dots,
                points: vec![(30.0, 10.0)],
            },
        ],
        marks: vec![(15.0, "limit".into())],
    }
}

#[test]
fn values_are_drawn_where_they_belong_and_nothing_is_not_a_number() {
    let drawn = svg(&chart());
    // 64 to 744 across, 254 up to 34.
    assert!(drawn.contains("d=\"M64.0 144.0H404.0V34.0H744.0V254.0\""), "{drawn}");
    assert!(drawn.contains("cx=\"404.0\" cy=\"144.0\""), "{drawn}");
    assert!(drawn.contains("<path class=\"mark limit\" d=\"M64 89.0H744\"/>"), "{drawn}");
    assert!(drawn.contains(">1 min</text>") && !drawn.contains("NaN"), "{drawn}");
    let alone = svg_file(&chart());
    assert!(alone.starts_with("<svg xmlns=") && alone.contains("prefers-color-scheme:dark"), "{alone}");
}

#[test]
fn a_chart_without_values_is_drawn_too() {
    let mut empty = chart();
    empty.series.iter_mut().for_each(|series| series.points.clear());
    empty.marks.clear();
    for drawn in [svg(&empty), text(&empty, 20, 3)] {
        assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
    }
    assert!(!bars_svg(&Bars { title: String::new(), bars: Vec::new(), mark: None }).contains("NaN"));
}

#[test]
fn in_a_terminal_each_series_has_columns_on_one_scale() {
    let drawn = text(&chart(), 12, 2);
    let want = [
        "Requests",
        "",
        "offered",
        "      20|      █████",
        "       0|███████████",
        "",
        "denied",
        "      20|",
        "       0|      █",
        "         0 s    1 min  time",
        "",
    ];
    assert_eq!(drawn, want.join("\n"));
}

#[test]
fn what_comes_from_data_never_becomes_markup() {
    const RUDE: &str = "</title><script>alert('1')</script>\"&\u{202e}\u{0}";
    let mut page = Page::new(RUDE, RUDE);
    page.heading(2, RUDE);
    page.text(RUDE);
    page.remark(RUDE);
    page.warning(RUDE);
    page.figures(&[(RUDE, RUDE.into())]);
    let table = Table { columns: vec![RUDE.into()], rows: vec![vec![RUDE.into()]] };
    page.table(&table);
    let mut rude = chart();
    rude.title = RUDE.into();
    (rude.x.label, rude.y.label, rude.series[0].name, rude.marks[0].1) =
        (RUDE.into(), RUDE.into(), RUDE.into(), RUDE.into());
    page.chart(&rude, RUDE, &table);
    page.bars(&Bars {
        title: RUDE.into(),
        bars: vec![Bar { name: RUDE.into(), value: 1.0, color: Color::Second }],
        mark: Some((1.0, RUDE.into())),
    });
    let html = page.finish();
    assert_eq!(html.matches("<script").count(), 0);
    assert_eq!(html.matches("</title>").count(), 3, "the page's and one of each chart");
    assert!(!html.contains('\u{202e}') && !html.contains('\u{0}'));
    assert!(!html.contains("='1'") && html.contains("&lt;script&gt;"));
    assert!(svg_file(&rude).matches('<').count() > 10 && !svg_file(&rude).contains("<script"));
}

#[test]
fn a_page_asks_nothing_of_a_network() {
    let mut page = Page::new("en", "Report");
    page.chart(&chart(), "numbers", &Table::default());
    let html = page.finish();
    for word in ["http://", "https://", "src=", "href=", "@import", "url("] {
        assert!(!html.contains(word), "{word}");
    }
    assert!(html.contains("default-src 'none'"));
}

/// A long legend takes more lines, and the chart below it begins lower; nothing is beyond its edge.
#[test]
fn a_legend_takes_as_many_lines_as_its_names_need() {
    let mut wide = chart();
    let series = wide.series[0].clone();
    wide.series = vec![series; 8];
    let one_line = wide.clone();
    wide.series.iter_mut().for_each(|series| series.name = "sliding_window, cells: 20".into());
    let drawn = svg(&wide);
    assert!(svg(&one_line).contains("viewBox=\"0 0 760 300\""), "{}", svg(&one_line));
    assert!(drawn.contains("viewBox=\"0 0 760 340\""), "{drawn}");
    let lines: std::collections::BTreeSet<_> =
        drawn.split("<rect class=\"key ").skip(1).filter_map(|key| key.split('"').nth(4)).collect();
    assert_eq!(lines.into_iter().collect::<Vec<_>>(), ["28", "48", "8"], "{drawn}");
    // 64 to 744 across as ever, and 40 lower.
    assert!(drawn.contains("d=\"M64.0 184.0H404.0V74.0H744.0V294.0\""), "{drawn}");
}
