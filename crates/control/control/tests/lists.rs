//! Lists of rules in each order, with each filter, for those who see all apps and for those who see some.
#![allow(clippy::expect_used, reason = "a failed step of a test must say which")]

use tollgate_control::rules::{self, Query, Sort};
use tollgate_control::table_rule::TableRuleInput;
use tollgate_control::{Role, Who};
use tollgate_harness::ControlPlane;
use tollgate_harness::people::stranger;
use tollgate_harness::rules::{create_rule, limit};

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
    let control = ControlPlane::start().await;
    for (app, key, rate, state) in RULES {
        let input = TableRuleInput { state: state.to_owned(), ..limit(key, rate) };
        create_rule(&control, app, input).await.expect("a rule");
        control.pass(1_000);
    }
    let roles = ["shop", "mail"].map(|app| (app.to_owned(), Role::Viewer)).into();
    let some = Who { roles, ..stranger("eva") };
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
