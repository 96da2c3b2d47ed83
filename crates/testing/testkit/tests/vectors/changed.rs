//! Vectors that were changed on purpose: a changed vector must not pass, and nothing panics or hangs.

use std::panic::catch_unwind;

use serde_json::{Map, Value, json};
use tollgate_testkit::vectors::{ExpectedVerdict, File, difference, run};

/// Numbers from a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % below.max(1) as u64) as usize
    }
}

fn vectors() -> Vec<Value> {
    File::parse(include_str!("../../vectors/libraries.json")).expect("vectors").vectors
}

fn passing() -> Vec<Value> {
    let all: Vec<_> = vectors().into_iter().filter(|vector| run(vector) == ExpectedVerdict::Passed).collect();
    assert!(all.len() >= 90, "{} vectors pass", all.len());
    all
}

fn strange(dice: &mut Dice) -> Value {
    let all = [
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(-2.5e-300),
        json!(1e300),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(1_u64 << 62),
        json!(7),
        json!(1_000_000_000_000_u64),
        json!(""),
        json!("x"),
        json!("inf"),
        json!([]),
        json!([[], 1, -1]),
        json!({}),
        json!({"kind": "greedy", "capacity": u64::MAX, "refill": u64::MAX, "period_ns": 1, "initial": 0}),
    ];
    all[dice.roll(all.len())].clone()
}

/// Changes one part of `value`, however deep.
fn change(value: &mut Value, dice: &mut Dice) {
    let deeper = dice.roll(4) > 0;
    match value {
        Value::Array(list) if !list.is_empty() => {
            let at = dice.roll(list.len());
            match dice.roll(6) {
                _ if deeper => change(&mut list[at], dice),
                0 => drop(list.remove(at)),
                1 => list.push(list[at].clone()),
                2 => list.reverse(),
                3 => list.clear(),
                _ => list[at] = strange(dice),
            }
        }
        Value::Object(fields) if !fields.is_empty() => {
            let at = dice.roll(fields.len());
            let name = fields.keys().nth(at).expect("a field").clone();
            match dice.roll(4) {
                _ if deeper => change(&mut fields[&name], dice),
                0 => drop(fields.remove(&name)),
                1 => {
                    let value = fields.remove(&name).expect("a field");
                    fields.insert(format!("{name}_"), value);
                }
                2 => drop(fields.insert("deadline_ns".to_owned(), strange(dice))),
                _ => drop(fields.insert(name, strange(dice))),
            }
        }
        other => *other = strange(dice),
    }
}

#[test]
fn no_change_of_a_vector_makes_the_runner_panic_or_hang() {
    let vectors = vectors();
    let mut passed = 0;
    let mut skipped = 0;
    let mut failed = 0;
    for seed in 0..6_000 {
        let mut dice = Dice(seed);
        let mut vector = vectors[dice.roll(vectors.len())].clone();
        for _ in 0..=dice.roll(3) {
            change(&mut vector, &mut dice);
        }
        let verdict = catch_unwind(|| run(&vector)).unwrap_or_else(|_| panic!("seed {seed}: {vector}"));
        match verdict {
            ExpectedVerdict::Passed | ExpectedVerdict::Differs(_) => passed += 1,
            ExpectedVerdict::Failed(_) => failed += 1,
            ExpectedVerdict::Skipped(reason) => {
                assert!(!reason.is_empty(), "seed {seed}: {vector}");
                skipped += 1;
            }
        }
    }
    assert!(
        passed > 100 && skipped > 1_000 && failed > 100,
        "{passed} passed, {skipped} skipped, {failed} failed"
    );
}

/// Every expectation of `vector`: its step, its name.
fn expectations(vector: &Value) -> Vec<(usize, String)> {
    let steps = vector["steps"].as_array().expect("steps");
    let names = |step: &Value| step["expect"].as_object().cloned().unwrap_or_default();
    let of_step = |(at, step): (usize, &Value)| names(step).into_iter().map(move |(name, _)| (at, name));
    steps.iter().enumerate().flat_map(of_step).collect()
}

#[test]
fn no_vector_passes_of_which_one_answer_is_another_one() {
    let mut changed = 0;
    for vector in passing() {
        for (step, name) in expectations(&vector) {
            if name.starts_with("tol") {
                continue;
            }
            let mut other = vector.clone();
            let expected = &mut other["steps"][step]["expect"][&name];
            *expected = match (&*expected, name.as_str()) {
                (_, "ok_count_max") => json!(0),
                (Value::Bool(yes), _) => json!(!yes),
                (Value::Number(number), _) => {
                    let more = number.as_f64().expect("a number").abs() * 1.01 + 20_000_000.0;
                    if number.is_f64() { json!(more) } else { json!(more as u64) }
                }
                (Value::Null, _) => json!(123_456_789),
                (Value::String(text), _) => json!(format!("{text}!")),
                (Value::Array(list), _) => json!([list.len()]),
                (Value::Object(_), _) => json!({"other": 1}),
            };
            let verdict = run(&other);
            let id = vector["id"].as_str().expect("a name");
            assert!(difference(id, step, &name).is_none(), "{id} passes and differs");
            assert!(
                matches!(verdict, ExpectedVerdict::Failed(_)),
                "{verdict:?}: {name} of step {step}: {other}"
            );
            changed += 1;
        }
    }
    assert!(changed >= 600, "{changed} answers");
}

#[test]
fn a_field_that_nobody_knows_is_named_by_the_reason_wherever_it_is() {
    fn places(value: &Value, path: String, out: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                out.push(path.clone());
                for (name, value) in fields {
                    places(value, format!("{path}/{name}"), out);
                }
            }
            Value::Array(list) => {
                for (at, value) in list.iter().enumerate() {
                    places(value, format!("{path}/{at}"), out);
                }
            }
            _ => {}
        }
    }
    for vector in passing() {
        let mut all = Vec::new();
        places(&vector, String::new(), &mut all);
        for path in all {
            if path == "/params/partitions" {
                continue; // the names of classes are free
            }
            let mut other = vector.clone();
            let fields: &mut Map<String, Value> =
                other.pointer_mut(&path).and_then(Value::as_object_mut).expect("an object");
            fields.insert("tide".to_owned(), json!(1));
            let verdict = run(&other);
            assert!(
                matches!(&verdict, ExpectedVerdict::Skipped(reason) if reason.contains("`tide`")),
                "{verdict:?}: `tide` in {path:?} of {}",
                vector["id"]
            );
        }
    }
}

#[test]
fn a_vector_that_expects_nothing_does_not_pass() {
    for vector in passing() {
        let mut nothing = vector.clone();
        nothing["steps"] = json!([]);
        assert!(matches!(run(&nothing), ExpectedVerdict::Skipped(_)), "{nothing}");
        for step in nothing["steps"].as_array_mut().into_iter().flatten() {
            step["expect"] = json!({});
        }
        assert!(matches!(run(&nothing), ExpectedVerdict::Skipped(_)), "{nothing}");
        let mut without = vector.clone();
        without["steps"][0].as_object_mut().expect("a step").remove("expect");
        assert!(matches!(run(&without), ExpectedVerdict::Skipped(_)), "{without}");
    }
}
