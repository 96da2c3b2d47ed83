use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_unix_seconds(1_700_000_000 + seconds)
}

fn sketch(places: usize) -> (TopSettings, LazyTopKeys) {
    (TopSettings::new(places, 1 << 20), LazyTopKeys::default())
}

/// Counts a denial of each key at its time.
fn count<'a>(settings: &TopSettings, slot: &LazyTopKeys, denials: impl Iterator<Item = (u64, &'a str)>) {
    let sketch = settings.sketch(slot).expect("there is room");
    for (second, key) in denials {
        let hash = settings.hash([key.as_bytes()].into_iter());
        sketch.count(hash, 1, at(second), || ShownKey::of([key.as_bytes()].into_iter()));
    }
}

/// As a limiter does: not every one is counted.
fn note(settings: &TopSettings, slot: &LazyTopKeys, second: u64, key: &str) {
    let sketch = settings.sketch(slot).expect("there is room");
    if let Some(weight) = sketch.weight(at(second)) {
        let hash = settings.hash([key.as_bytes()].into_iter());
        sketch.count(hash, weight, at(second), || ShownKey::of([key.as_bytes()].into_iter()));
    }
}

fn shown(parts: &[&str]) -> String {
    ShownKey::of(parts.iter().map(|part| part.as_bytes())).as_str().to_owned()
}

#[test]
fn a_key_is_shown_with_escapes_and_cut_between_characters() {
    for (parts, want) in [
        (&["k1"][..], "k1".to_owned()),
        (&["k1", "gold", ""], "k1, gold, ".to_owned()),
        (&["a\nb\u{1b}[31m", "ü"], r"a\x0Ab\x1B[31m, ü".to_owned()),
        (&["a\u{202e}", "\u{85}", "\\"], r"a\xE2\x80\xAE, \xC2\x85, \\".to_owned()),
        (&[&"x".repeat(63)], "x".repeat(63)),
        (&[&"x".repeat(64)], "x".repeat(60) + "…"),
        (&[&"x".repeat(62), "y"], "x".repeat(60) + "…"),
        (&["x", &"漢".repeat(30)], "x, ".to_owned() + &"漢".repeat(19) + "…"),
        (&[&"x".repeat(61), "漢"], "x".repeat(60) + "…"),
    ] {
        assert_eq!(shown(parts), want);
    }
    for (bytes, want) in [
        (&b"a\xff\xfeb\0"[..], r"a\xFF\xFEb\x00".to_owned()),
        (&[0xff; 100], r"\xFF".repeat(15) + "…"),
        // The end of a long value, cut in the middle of a character, is not seen.
        ("漢".repeat(1_000).as_bytes(), "漢".repeat(20) + "…"),
    ] {
        assert_eq!(ShownKey::of([bytes].into_iter()).as_str(), want);
    }
}

#[test]
fn hashes_tell_where_a_part_ends() {
    let settings = TopSettings::new(1, 0);
    let lists: [&[&str]; 9] = [
        &[],
        &[""],
        &["", ""],
        &["ab"],
        &["a", "b"],
        &["b", "a"],
        &["a\0"],
        &["12345678"],
        &["1234567", "8"],
    ];
    let hashes: Vec<u64> =
        lists.iter().map(|list| settings.hash(list.iter().map(|it| it.as_bytes()))).collect();
    for (index, hash) in hashes.iter().enumerate() {
        assert!(!hashes[..index].contains(hash), "{:?}", lists[index]);
    }
}

#[test]
fn a_sketch_takes_what_the_documentation_says() {
    assert_eq!(TopKeys::size(65) - TopKeys::size(64), 96, "bytes per key, as --top-keys says");
    assert!(TopKeys::size(64) <= 6_400, "{} bytes per rule that denies", TopKeys::size(64));
}

#[test]
fn the_smallest_count_makes_room_and_its_successor_continues_from_it() {
    let (settings, slot) = sketch(2);
    count(&settings, &slot, ["a", "a", "a", "b", "b", "c"].into_iter().map(|key| (0, key)));
    let top = settings.sketch(&slot).expect("it is there").top(at(0));
    let told: Vec<_> = top.iter().map(|it| (it.key.as_str(), it.denied, it.at_most_over)).collect();
    assert_eq!(told, [("a", 3, 0), ("c", 3, 2)]);
}

#[test]
fn counts_halve_every_five_minutes_and_keys_no_longer_denied_disappear() {
    let (settings, slot) = sketch(4);
    count(&settings, &slot, (0..8).map(|second| (second, "old")));
    for (after, want) in [
        (0, vec![("old", 8)]),
        (299, vec![("old", 8)]),
        (300, vec![("old", 4)]),
        (599, vec![("old", 4)]),
        (600, vec![("old", 2)]),
        (100, vec![("old", 2)]), // the clock stepped back
        (1_100, vec![("old", 1)]),
        (1_200, vec![]),
    ] {
        let top = settings.sketch(&slot).expect("it is there").top(at(after));
        assert_eq!(
            top.iter().map(|it| (it.key.as_str(), it.denied)).collect::<Vec<_>>(),
            want,
            "after {after} s"
        );
    }
    // After a long silence, a new one begins with one.
    count(&settings, &slot, [(1_000_000, "new")].into_iter());
    assert_eq!(settings.sketch(&slot).expect("it is there").top(at(1_000_299))[0].denied, 1);
}

#[test]
fn sketches_take_no_more_than_they_may_and_give_it_back() {
    let size = TopKeys::size(16);
    let settings = TopSettings::new(16, size * 2 + size / 2);
    let slots = [(); 3].map(|()| LazyTopKeys::default());
    let made: Vec<bool> = slots.iter().map(|slot| settings.sketch(slot).is_some()).collect();
    assert_eq!(made, [true, true, false]);
    assert_eq!(settings.bytes(), (size * 2, size * 2 + size / 2));
    assert!(settings.sketch(&slots[0]).is_some(), "what is there stays");
    drop(slots);
    assert_eq!(settings.bytes().0, 0);
    assert!(TopSettings::new(0, 1 << 20).is_off());
    assert!(size < 2_048, "{size} bytes a rule");
}

#[test]
fn on_a_zipf_stream_the_heaviest_keys_are_found_and_their_counts_are_near() {
    let (settings, slot) = sketch(32);
    // Key n comes as often as 1/n^1.2 says, of 10,000 keys; steps of the golden ratio are even, and not in
    // order.
    let weights: Vec<f64> = (1..=10_000_u32).map(|rank| f64::from(rank).powf(-1.2)).collect();
    let sums: Vec<f64> = weights
        .iter()
        .scan(0.0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        })
        .collect();
    let total = sums.last().copied().expect("there are some");
    let mut truth: HashMap<usize, u64> = HashMap::new();
    let mut place = 0.0_f64;
    for _ in 0..100_000 {
        place = (place + 0.618_033_988_749_895).fract();
        let key = sums.partition_point(|sum| *sum < place * total);
        *truth.entry(key).or_default() += 1;
        let name = format!("key {key}");
        count(&settings, &slot, [(0, name.as_str())].into_iter());
    }
    let top = settings.sketch(&slot).expect("it is there").top(at(0));
    // Four keys come more often than a place's share of all, 3,125 times.
    for (rank, it) in top.iter().take(4).enumerate() {
        assert_eq!(it.key, format!("key {rank}"));
        assert!(
            it.denied.abs_diff(truth[&rank]) * 20 <= truth[&rank],
            "{it:?}, and it came {} times",
            truth[&rank]
        );
    }
    for it in &top {
        let key: usize = it.key.trim_start_matches("key ").parse().expect("a number");
        assert!((truth[&key]..=truth[&key] + it.at_most_over).contains(&it.denied), "{it:?}");
        assert!(it.at_most_over <= 3_125);
    }
}

#[test]
fn thousands_in_a_second_are_counted_one_by_one_and_of_more_every_eighth_for_eight() {
    let (settings, slot) = sketch(16);
    let names: Vec<String> = (0..8).map(|key| format!("key {key}")).collect();
    let top = || settings.sketch(&slot).expect("it is there").top(at(1));
    // Eight keys in turn: what takes every eighth in order would see one of them.
    (0..4_096).for_each(|round| note(&settings, &slot, 0, &names[round % 8]));
    assert!(
        top().iter().all(|it| (it.denied, it.at_most_over, it.at_most_under) == (512, 0, 0)),
        "{:?}",
        top()
    );
    (4_096..200_000).for_each(|round| note(&settings, &slot, 0, &names[round % 8]));
    for it in top() {
        assert!(it.denied.abs_diff(25_000) <= it.at_most_over, "{it:?}");
        assert!(it.at_most_over < 2_500, "{it:?}");
        assert!(it.denied - it.at_most_over <= 25_000 && 25_000 <= it.denied + it.at_most_under, "{it:?}");
    }
    // The next second begins anew.
    let before: u64 = top().iter().map(|it| it.denied).sum();
    (0..100).for_each(|round| note(&settings, &slot, 1, &names[round % 8]));
    assert_eq!(top().iter().map(|it| it.denied).sum::<u64>(), before + 100);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Keys in any order and by any shares, far above what is counted one by one: the counts are as exact as
    /// sampling allows, and their errors within the stated bound. (The bound is four standard deviations; six
    /// are allowed here, since many cases are tried.)
    #[test]
    fn an_estimate_is_as_near_as_it_says(shares in prop::collection::vec(1..100_u64, 1..12), seed in any::<u64>()) {
        let (settings, slot) = sketch(16);
        let sum = shares.iter().sum::<u64>();
        let mut truth = vec![0_u64; shares.len()];
        let mut state = seed | 1;
        for _ in 0..40_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let mut place = (state >> 33) % sum;
            let key = shares.iter().position(|&share| { let is_in = place < share; place = place.wrapping_sub(share); is_in });
            let key = key.expect("within the sum");
            truth[key] += 1;
            note(&settings, &slot, 0, &format!("key {key}"));
        }
        for it in settings.sketch(&slot).expect("it is there").top(at(0)) {
            let key: usize = it.key.trim_start_matches("key ").parse().expect("a number");
            let deviation = ((WEIGHT * truth[key]) as f64).sqrt();
            let is_near = it.denied.abs_diff(truth[key]) as f64 <= 6.0 * deviation + WEIGHT as f64;
            let is_over = it.denied.saturating_sub(truth[key]);
            prop_assert!(is_near && is_over <= it.at_most_over * 3 / 2 + WEIGHT, "{it:?}, and it came {} times", truth[key]);
        }
    }
}

proptest! {
    /// Any keys in any order, over time: no count is too low, none exceeds the truth by more than its stated
    /// error, and that error is at most the share of a place. A key with more denials than that has a place.
    #[test]
    fn no_count_is_too_low_or_more_too_high_than_it_says(
        denials in prop::collection::vec((0..40_u64, 0..30_usize), 1..400), places in 1..12_usize,
    ) {
        let (settings, slot) = sketch(places);
        let names: Vec<String> = (0..30).map(|key| format!("key {key}")).collect();
        let mut truth = [0_u64; 30];
        let mut now = 0;
        let mut aged = None::<u64>;
        let mut total = 0;
        for (later, key) in denials {
            now += later;
            let began = *aged.get_or_insert(now);
            let halvings = (now - began) / HALF_LIFE.as_secs();
            truth.iter_mut().for_each(|count| *count >>= halvings);
            total >>= halvings;
            aged = Some(began + halvings * HALF_LIFE.as_secs());
            truth[key] += 1;
            total += 1;
            count(&settings, &slot, [(now, names[key].as_str())].into_iter());
            let top = settings.sketch(&slot).expect("it is there").top(at(now));
            prop_assert!(top.len() <= places);
            for it in &top {
                let key = names.iter().position(|name| *name == it.key).expect("one of them");
                prop_assert!(it.denied >= truth[key], "{:?}, and it came {} times", it, truth[key]);
                prop_assert!(it.denied - it.at_most_over <= truth[key], "{:?}, and it came {} times", it, truth[key]);
            }
            let share = total / places as u64;
            prop_assert!(top.iter().all(|it| it.at_most_over <= share + 1), "{:?} of {}", top, total);
            for (key, &count) in truth.iter().enumerate() {
                let has_place = top.iter().any(|it| it.key == names[key]);
                prop_assert!(has_place || count <= share + 1, "{} came {} times", names[key], count);
            }
        }
    }
}

#[test]
fn many_threads_lose_nothing_but_what_is_counted_as_missed() {
    let (settings, slot) = sketch(4);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| count(&settings, &slot, (0..5_000).map(|_| (0, "hot"))));
        }
    });
    let sketch = settings.sketch(&slot).expect("it is there");
    assert_eq!(sketch.top(at(0))[0].denied + sketch.missed(), 20_000);
}
