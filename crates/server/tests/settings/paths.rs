//! Relative paths in a settings file mean the same wherever the process was started.

use std::path::Path;

use super::*;

/// Reads a settings file in `folder`.
fn read_in(folder: &Path, text: &str) -> Result<Settings, Vec<Fault>> {
    let config = folder.join("tollgate.yaml");
    std::fs::write(&config, text).expect("written");
    Settings::read(&Sources { cores: 1, config: Some(config), ..Sources::default() })
}

/// The working directory of this test is that of its crate: `src` and `Cargo.toml` are there.
#[test]
fn a_relative_path_in_a_file_is_relative_to_the_file_then_to_the_working_directory() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["rules", "src"] {
        std::fs::create_dir(folder.path().join(name)).expect("made");
    }
    let beside = |name: &str| folder.path().join(name).display().to_string();
    let above = folder.path().join("../other").display().to_string();
    for (text, want, noted) in [
        ("rules", beside("rules"), None),
        ("./rules", beside("rules"), None),
        // Neither file is there: the missing one is looked for beside the settings file.
        ("nothing", beside("nothing"), None),
        ("../other", above, None),
        ("tests", "tests".to_owned(), Some("in the working directory is used")),
        ("src", beside("src"), Some("is used, and not src in the working directory")),
        ("/etc/hosts", "/etc/hosts".to_owned(), None),
    ] {
        let settings = read_in(folder.path(), &format!("rules: {text}\n")).expect("no fault");
        assert_eq!(settings.rules.paths, [PathBuf::from(want)], "{text}");
        assert_eq!(settings.notes.len(), usize::from(noted.is_some()), "{text}: {:?}", settings.notes);
        for (note, noted) in settings.notes.iter().zip(noted) {
            assert!(note.contains(noted) && note.contains("tollgate.yaml:1:"), "{text}: {note}");
        }
    }
    // The same for each path of a list, and for files that are read at once.
    std::fs::write(folder.path().join("token"), "correct-horse-battery\n").expect("written");
    let text = "rules: [rules, more]\nadmin_token_file: token\nstore: redis://a\nstore_tls_ca: ca.pem\n";
    let settings = read_in(folder.path(), text).expect("no fault");
    assert_eq!(settings.rules.paths, ["rules", "more"].map(|name| PathBuf::from(beside(name))));
    let fault = faults(read_in(folder.path(), "rules: rules\nadmin_token_file: missing\n"));
    assert!(fault[0].contains(&format!("{} cannot be read", beside("missing"))), "{fault:?}");
}

#[test]
fn paths_of_flags_and_variables_are_relative_to_the_working_directory() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("rules")).expect("made");
    let config = folder.path().join("tollgate.yaml");
    std::fs::write(&config, "log_level: warn\n").expect("written");
    let mut sources = Sources { cores: 1, config: Some(config), ..Sources::default() };
    sources.env = vec![("TOLLGATE_RULES".into(), "rules".into())];
    let paths = |sources: &Sources| Settings::read(sources).expect("no fault").rules.paths;
    assert_eq!(paths(&sources), [PathBuf::from("rules")]);
    sources.flags.insert("rules".to_owned(), vec!["more".to_owned()]);
    assert_eq!(paths(&sources), [PathBuf::from("more")]);
}

#[test]
fn every_setting_that_names_a_file_or_a_folder_is_a_path() {
    const ENDINGS: [&str; 5] = ["-file", "-ca", "-cert", "-key", "-dir"];
    for setting in SETTINGS.iter() {
        let is_one = setting.name == "rules" || ENDINGS.iter().any(|ending| setting.name.ends_with(ending));
        assert_eq!(setting.is_path(), is_one, "{}", setting.name);
    }
}
