//! Lists of rules in each order, with each filter, for those who see all apps and for those who see some.
#![allow(clippy::expect_used, reason = "a failed step of a test must say which")]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use tollgate_control::rules::{self, Query, Sort};
use tollgate_control::table_rule::TableRuleInput;
use tollgate_control::{Actor, Control, KnownNodes, Role, Who};
use tollgate_db::TimeSource;

/// App, key, rate, state; made in this order, a second apart.
const RULES: [(&str, &str, i64, &str); 7] = [
    ("shop", "b", 7, "on"),
    ("bank", "a", 7, "off"),
    ("shop", "a", 9, "shadow"),
    ("mail", "c", 1, "on"),
    ("bank", "z", 3, "on"),
    ("mail", "a", 7, "on"),
    ("shop", "c", 2, "off"),
];

#[tokio::test]
async fn every_order_filter_and_page_shows_what_the_reader_may_see_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let now = Arc::new(AtomicI64::new(1_800_000_000_000));
    let time = TimeSource::Manual(Arc::clone(&now));
    let control = Control::open(folder.path(), time, Arc::new(KnownNodes::default())).await.expect("open");
    for (app, key, rate, state) in RULES {
        let key = key.to_owned();
        let rate = rate.to_string();
        let state = state.to_owned();
        let input =
            TableRuleInput { key, rate, max_permits: "100".to_owned(), state, ..TableRuleInput::default() };
        let made = control.change(move |tx| rules::create(tx, &Actor::system(), app, &input));
        made.await.expect("a rule");
        now.fetch_add(1_000, Relaxed);
    }
    let roles = ["shop", "mail"].map(|app| (app.to_owned(), Role::Viewer)).into();
    let some = Who { kind: "user", user_id: "eva".into(), name: "eva".into(), roles, ..Who::system() };
    for (reader, may_see_bank) in [(Who::system(), true), (some, false)] {
        let seen: Vec<_> =
            RULES.into_iter().enumerate().filter(|it| may_see_bank || it.1.0 != "bank").collect();
        for sort in [Sort::Key, Sort::Rate, Sort::Updated] {
            for (app, state, search) in [
                ("", "", ""),
                ("shop", "", ""),
                ("", "on", ""),
                ("mail", "on", "a"),
                ("", "", "a"),
                ("", "", "%"),
            ] {
                let is_found = |(_, it): &(usize, (&str, &str, i64, &str))| {
                    (app.is_empty() || it.0 == app)
                        && (state.is_empty() || it.3 == state)
                        && (search.is_empty() || it.1.contains(search) || it.0.contains(search))
                };
                let mut want: Vec<_> = seen.iter().copied().filter(is_found).collect();
                want.sort_by_key(|(made, (app, key, rate, _))| match sort {
                    Sort::Key => (0, *app, *key),
                    Sort::Rate => (-rate, *app, *key),
                    Sort::Updated => (-i64::try_from(*made).expect("few"), *app, *key),
                });
                let want: Vec<_> = want.iter().map(|(_, it)| (it.0.to_owned(), it.1.to_owned())).collect();
                let mut found = Vec::new();
                for page in 1..=want.len().div_ceil(2).max(1) {
                    let query = Query {
                        app: app.to_owned(),
                        search: search.to_owned(),
                        state: state.to_owned(),
                        sort,
                        page: i64::try_from(page).expect("few"),
                        size: 2,
                    };
                    let reader = reader.clone();
                    let shown = control
                        .read(move |tx| rules::list(tx, &reader.assumed(), &query))
                        .await
                        .expect("a page");
                    let totals = (shown.matching, shown.total);
                    assert_eq!(totals, (want.len() as i64, seen.len() as i64), "{app} {state} {search}");
                    found.extend(shown.rules.into_iter().map(|it| (it.app, it.row.key)));
                }
                assert_eq!(found, want, "{sort:?}: app {app:?}, state {state:?}, search {search:?}");
            }
        }
    }
}
