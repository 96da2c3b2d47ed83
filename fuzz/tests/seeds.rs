//! Each target on its seeds, as they are and damaged: on the stable compiler, without libFuzzer.

use std::path::Path;

/// Damaged copies of each seed.
const COPIES: u64 = 300;

/// A number of `0..below` and the state after it (SplitMix64).
fn next(state: &mut u64, below: usize) -> usize {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)) as usize % below.max(1)
}

/// One to four changes: a byte replaced, dropped or repeated, a piece twice or gone.
fn damage(bytes: &mut Vec<u8>, state: &mut u64) {
    for _ in 0..=next(state, 4) {
        let at = next(state, bytes.len());
        let to = at + next(state, bytes.len() - at + 1);
        match next(state, 5) {
            _ if bytes.is_empty() => bytes.push(next(state, 256) as u8),
            0 => bytes[at] = next(state, 256) as u8,
            1 => bytes[at] ^= 1 << next(state, 8),
            2 => drop(bytes.remove(at)),
            3 => {
                let piece = bytes[at..to].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => drop(bytes.drain(at..to)),
        }
    }
}

fn on_seeds(name: &str, target: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(name);
    let mut seeds: Vec<_> =
        folder.read_dir().expect("seeds").map(|file| file.expect("a file").path()).collect();
    seeds.sort();
    assert!(!seeds.is_empty(), "{name} has no seeds");
    let mut state = 7;
    for seed in seeds {
        let whole = std::fs::read(&seed).expect("a seed");
        target(&whole);
        for _ in 0..COPIES {
            let mut damaged = whole.clone();
            damage(&mut damaged, &mut state);
            target(&damaged);
        }
    }
}

#[test]
fn any_bytes_over_http_are_answered() {
    on_seeds("http_body", tollgate_fuzz::http_body::answer_any_bytes);
}

#[test]
fn any_bytes_over_the_redis_protocol_are_answered() {
    on_seeds("resp", tollgate_fuzz::resp::send_any_bytes);
}

#[test]
fn any_bytes_over_grpc_are_answered() {
    on_seeds("rls", tollgate_fuzz::rls::call_any_bytes);
}

#[test]
fn any_text_is_read_as_rules() {
    on_seeds("rules", |bytes| tollgate_fuzz::rules::read_any_text(&String::from_utf8_lossy(bytes)));
}
