//! The commands of docs/replay.md, each run without changes, in order.

use std::path::Path;

use tollgate_replay::CommandOutcome;

use crate::{bound_of, log_of, replay_args};

const PAGE: &str = include_str!("../../../../../docs/replay.md");

/// The blocks of the page in this language.
fn blocks(language: &str) -> Vec<&'static str> {
    let parts = PAGE.split("```").skip(1).step_by(2).filter_map(|block| block.split_once('\n'));
    parts.filter(|(name, _)| *name == language).map(|(_, text)| text).collect()
}

#[test]
fn every_command_of_the_page_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let today = "domain: web\ndescriptors:\n  - {key: remote_address, rate_limit: {unit: second, \
                 requests_per_unit: 5}}\n";
    for (name, text) in [
        ("access.log", crate::logs::COMBINED),
        ("day.csv", &log_of(30)),
        ("today.yaml", today),
        ("tomorrow.yaml", &today.replace('5', "4")),
        ("llm.yaml", &today.replace("web", "llm").replace("remote_address", "tenant")),
        ("tokens.csv", "1700000000000,ann,2,1\n1700000000001,ann,2,2\n"),
        ("map.yaml", blocks("yaml").first().expect("a mapping")),
        ("llm-day.csv", "t_us,context_tokens,generated_tokens\n0,3,44\n4314579,2,1\n"),
        ("reserve.yaml", blocks("yaml").get(1).expect("another")),
    ] {
        std::fs::write(folder.path().join(name), text).expect("written");
    }
    let mut ran = 0;
    for line in blocks("sh").into_iter().flat_map(str::lines) {
        let (command, to) = line.split_once(" > ").map_or((line, None), |(command, to)| (command, Some(to)));
        let words = command.split_whitespace().map(|word| {
            let path = folder.path().join(word);
            if path.is_file() || word.ends_with(".html") {
                path.display().to_string()
            } else {
                word.to_owned()
            }
        });
        let words: Vec<String> = words.collect();
        let (outcome, out, talk) = match (words[0].as_str(), words[1].as_str()) {
            ("tollgate", "bound") => bound_of(Path::new(&words[2]), &words[3..].join(" ")),
            ("tollgate", "replay") => replay_args(None, &words[2..].join(" ")),
            _ => panic!("{line}: not one of ours"),
        };
        assert_ne!(outcome, CommandOutcome::CouldNotTell, "{line}: {talk}");
        assert!(!out.is_empty(), "{line}");
        if let Some(to) = to {
            std::fs::write(folder.path().join(to), out).expect("written");
        }
        ran += 1;
    }
    assert!(ran >= 10, "{ran} commands");
    std::fs::write(
        folder.path().join("six.csv"),
        "t_ms,client\n0,ann\n1,bob\n500,ann\n999,ann\n1001,bob\n1400,ann\n",
    )
    .expect("written");
    let (_, out, _) = bound_of(&folder.path().join("six.csv"), "--limit 2 --window 1s");
    assert_eq!(blocks("text").first(), Some(&out.as_str()), "the answer that the page shows");
}
