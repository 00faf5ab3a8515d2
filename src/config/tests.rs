//! What a user sees of good and hostile files.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::model::{Dirs, Field, FieldKind, Secret};

const BOX: &[Field] = &[
    Field::new("url", FieldKind::Url, "where it answers").required(),
    Field::new("token-id", FieldKind::Name, "who asks"),
    Field::new("mode", FieldKind::Choice(&["fast", "safe"]), "how"),
    Field::new("memory", FieldKind::Bytes, "a size"),
    Field::new("slots", FieldKind::Count, "a number"),
    Field::new("tags", FieldKind::Text, "words").many(),
];
const KINDS: &[(&str, &[Field])] = &[("box", BOX), ("plain", &[])];

struct Home(tempfile::TempDir);

impl Home {
    fn with(text: impl AsRef<[u8]>) -> Self {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("config")).unwrap();
        let home = Self(home);
        std::fs::write(home.file(), text).unwrap();
        home.mode(0o600);
        home
    }

    fn file(&self) -> std::path::PathBuf {
        self.0.path().join("config/config.toml")
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.file()).unwrap()
    }

    fn mode(&self, mode: u32) {
        std::fs::set_permissions(self.file(), std::fs::Permissions::from_mode(mode)).unwrap();
    }

    fn load_with(&self, env: &[(&str, &str)], flags: &[(&str, toml::Value)]) -> Loaded {
        let env: BTreeMap<String, String> = env
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect();
        load(&LoadInput {
            dirs: &Dirs::under(self.0.path()),
            file: None,
            env: &env,
            flags: flags
                .iter()
                .map(|(k, v)| ((*k).to_owned(), v.clone()))
                .collect(),
            kinds: KINDS,
        })
    }

    fn load(&self) -> Loaded {
        self.load_with(&[], &[])
    }
}

fn told(loaded: &Loaded) -> Vec<String> {
    loaded
        .problems
        .iter()
        .map(|p| format!("{}:{} {}", p.line, p.column, p.message))
        .collect()
}

const GOOD: &str = r#"# mine
default-context = "pve"   # the cluster
discover = ["plain"]

[ui]
theme = "dusk"
columns = { 80 = ["name", "state"], 120 = ["name", "cpu"] }
sort = "-cpu"

[stop]
timeout = "90s"

# the cluster
[[context]]
name = "pve"
backend = "box"
url = "https://pve.example:8006"
token-id = "root@pam!corral"
secret = { command = ["pass", "pve/corral"] }   # never here
protected = true
interval = "10s"
memory = "4G"
tags = ["a", "b"]

[[context]]
name = "lab"
backend = "plain"
confirm = "relaxed"
[context.secret]
env = "LAB"
"#;

#[test]
fn a_column_may_say_its_width_and_a_wrong_one_is_told_how() {
    let good = Home::with("[ui]\ncolumns = { 0 = [\"name:30\", \"state\"] }\n").load();
    assert_eq!(told(&good), Vec::<String>::new());
    assert_eq!(
        good.settings.ui.columns_at(80).unwrap(),
        ["name:30", "state"]
    );
    for word in ["name:", "name:x", "state:2", "state:61", "state:-1"] {
        let bad = Home::with(format!("[ui]\ncolumns = {{ 0 = [\"{word}\"] }}\n")).load();
        assert!(
            told(&bad)[0].contains("NAME:WIDTH, 3 to 60"),
            "{:?}",
            told(&bad)
        );
    }
}

#[test]
fn a_good_file_is_read_whole() {
    let loaded = Home::with(GOOD).load();
    assert_eq!(told(&loaded), Vec::<String>::new());
    assert_eq!(loaded.settings.default_context.as_deref(), Some("pve"));
    assert_eq!(
        loaded.settings.discover,
        Discover::Kinds(vec!["plain".into()])
    );
    assert_eq!(loaded.settings.stop_timeout, Duration::from_secs(90));
    assert_eq!(
        loaded.settings.ui.columns_at(100).unwrap(),
        ["name", "state"]
    );
    assert_eq!(loaded.settings.ui.columns_at(79), None);
    assert_eq!(loaded.settings.ui.sort_at(10), Some("-cpu"));
    let [pve, lab] = &loaded.contexts[..] else {
        panic!("{:?}", loaded.contexts)
    };
    assert!(pve.protected && !pve.readonly && pve.enabled && pve.addresses);
    assert_eq!(pve.interval, Some(10));
    assert_eq!(pve.fields["memory"], 4u64 << 30);
    assert_eq!(pve.fields["tags"], serde_json::json!(["a", "b"]));
    assert_eq!(
        pve.secret,
        Some(Secret::Command(vec!["pass".into(), "pve/corral".into()]))
    );
    assert_eq!(lab.secret, Some(Secret::Env("LAB".into())));
    assert!(lab.relaxed);
}

#[test]
fn no_file_is_an_empty_file() {
    let home = tempfile::tempdir().unwrap();
    let loaded = load(&LoadInput {
        dirs: &Dirs::under(home.path()),
        file: None,
        env: &BTreeMap::new(),
        flags: Vec::new(),
        kinds: KINDS,
    });
    assert_eq!(loaded.settings, Settings::default());
    assert!(loaded.problems.is_empty() && loaded.contexts.is_empty());
    assert!(loaded.rows.iter().all(|row| row.source == "built-in"));
}

#[test]
fn req_40_every_fault_is_told_at_its_place_and_the_rest_works() {
    let home = Home::with(
        r#"deflt-context = "x"
readonly = "yes"
[ui]
icons = "emoji"
them = "dusk"
[bulk]
concurrency = 0
[[context]]
name = "ok"
backend = "box"
url = "https://a"
mode = "fats"
intervall = 5
slots = "many"
[[context]]
name = "pve"
backend = "bxo"
[[context]]
name = "bad name"
backend = "box"
[[context]]
backend = "plain"
[[context]]
name = "ok"
slots = 7
"#,
    );
    let loaded = home.load();
    let told = told(&loaded);
    for expected in [
        r#"1:1 unknown key "deflt-context". Did you mean "default-context"?"#,
        "2:12 readonly must be true or false, not a string; until it is mended it counts as true",
        r#"4:9 ui.icons must be one of "auto", "unicode", "ascii""#,
        r#"5:1 unknown key "them" in [ui]. Did you mean "theme"?"#,
        "7:15 bulk.concurrency must be a whole number from 1 to 64",
        r#"12:8 mode must be one of "fast", "safe" (did you mean "fast"?)"#,
        r#"13:1 unknown key "intervall" in context "ok" (box). Did you mean "interval"?"#,
        "14:9 slots must be a whole number, not a string",
        r#"17:11 no backend "bxo". Did you mean "box"? Allowed: "box", "plain""#,
        r#"19:8 "bad name" is no name for a context"#,
        "21:1 this context has no name",
        r#"23:1 context "ok" is written on line 8 already; this one extends it"#,
        "25:9 slots is not what it is on line 14; this one, on line 25, is used",
    ] {
        assert!(
            told.iter().any(|line| line.starts_with(expected)),
            "missing {expected}\nin {told:#?}"
        );
    }
    assert_eq!(told.len(), 13, "{told:#?}");
    assert!(
        loaded.settings.readonly,
        "a guard that cannot be read is set"
    );
    assert_eq!(loaded.settings.bulk_concurrency, 4);
    assert_eq!(loaded.contexts.len(), 1);
    assert_eq!(loaded.contexts[0].fields["slots"], 7);
}

#[test]
fn a_wrong_type_for_every_key_is_told_and_dropped() {
    let values = [
        "1979-05-27",
        "{ x = { y = 1 } }",
        "[[1]]",
        "nan",
        "-1",
        "\"\\u0007\"",
    ];
    for value in values {
        for key in schema::KEYS {
            let loaded = Home::with(format!("{} = {value}\n", key.name)).load();
            assert_eq!(
                loaded.problems.len(),
                1,
                "{} = {value}: {:?}",
                key.name,
                told(&loaded)
            );
            assert_eq!(loaded.problems[0].line, 1);
        }
        for field in COMMON_CONTEXT_KEYS.iter().chain(BOX) {
            if matches!(field.name, "name" | "backend")
                || (field.name == "secret" && value.starts_with('"'))
            {
                continue;
            }
            let text = format!(
                "[[context]]\nname = \"a\"\nbackend = \"box\"\n{}{} = {value}\n",
                if field.name == "url" {
                    ""
                } else {
                    "url = \"x://y\"\n"
                },
                field.name
            );
            let loaded = Home::with(text).load();
            assert!(!loaded.problems.is_empty(), "{} = {value}", field.name);
            assert_eq!(loaded.contexts.len(), 1, "{} = {value}", field.name);
        }
    }
}

#[test]
fn later_layers_win_and_say_so() {
    let home = Home::with("readonly = true\n[stop]\ntimeout = 30\n[bulk]\nconcurrency = 2\n");
    let loaded = home.load_with(
        &[
            ("CORRAL_STOP_TIMEOUT", "40s"),
            ("CORRAL_BULK_CONCURRENCY", "x"),
            ("CORRAL_SSH_USER", ""),
        ],
        &[("stop.timeout", toml::Value::Integer(50))],
    );
    assert_eq!(loaded.settings.stop_timeout, Duration::from_secs(50));
    assert_eq!(loaded.settings.bulk_concurrency, 2);
    let source = |key: &str| {
        let row = loaded.rows.iter().find(|row| row.key == key).unwrap();
        (row.value.clone(), row.source.clone())
    };
    assert_eq!(source("stop.timeout"), ("50".into(), "flag".into()));
    assert_eq!(source("readonly"), ("true".into(), "file".into()));
    assert_eq!(source("discover"), ("true".into(), "built-in".into()));
    assert_eq!(loaded.problems.len(), 1);
    assert!(
        loaded.problems[0]
            .message
            .contains("CORRAL_BULK_CONCURRENCY")
    );
}

#[test]
fn broken_toml_is_one_message_and_its_guards_hold() {
    let loaded = Home::with("[ui]\ntheme = \"x\n").load();
    assert_eq!(loaded.problems.len(), 1);
    assert_eq!(loaded.problems[0].line, 2);
    assert_eq!(loaded.settings, Settings::default());
    let loaded = Home::with("readonly = true\n[ui\n").load();
    assert!(loaded.settings.readonly);
    assert!(loaded.problems[0].message.contains("until it is mended"));
}

#[test]
fn hostile_files_are_told_and_harmless() {
    for text in [
        b"\xff\xfe\x00a".to_vec(),
        b"a = \"\x00\"".to_vec(),
        b"# fine\nname = \"\xc3\x28\"".to_vec(),
        vec![b'x'; 2 << 20],
        "a = \u{1b}[2J".into(),
        "[".repeat(50_000).into(),
        format!("a = {}", "[".repeat(50_000)).into(),
        format!("{}a = 1", "a.".repeat(100_000)).into(),
        format!("[{}a]\nx = 1", "a.".repeat(100_000)).into(),
        (0..5000)
            .fold(String::new(), |text, i| {
                text + &format!(
                    "k{i} = 1
"
                )
            })
            .into(),
    ] {
        let loaded = Home::with(&text).load();
        assert!(!loaded.problems.is_empty());
        assert!(loaded.problems.len() <= 101);
        for problem in &loaded.problems {
            assert!(
                !problem.message.chars().any(char::is_control),
                "{problem:?}"
            );
            assert!(problem.message.len() < 2000);
        }
    }
}

#[test]
fn marks_and_line_ends_of_other_systems_are_fine() {
    let loaded = Home::with("\u{feff}readonly = true\r\n[ui]\r\nthme = 1\r\n").load();
    assert!(loaded.settings.readonly);
    assert_eq!((loaded.problems[0].line, loaded.problems[0].column), (3, 1));
}

#[test]
fn a_file_that_others_may_write_is_not_used() {
    let home = Home::with("default-context = \"x\"\n");
    home.mode(0o622);
    let loaded = home.load();
    assert_eq!(loaded.settings.default_context, None);
    assert!(loaded.settings.readonly);
    assert!(loaded.problems[0].message.contains("chmod go-w"));
}

#[test]
fn secrets_are_never_printed() {
    let home = Home::with(
        "[[context]]\nname = \"a\"\nbackend = \"plain\"\nsecret = \"hunter2hunter2\"\n[[context]]\nname = \"b\"\nbackend = \"plain\"\nsecret = [\"hunter2hunter2\"]\n[[context]]\nname = \"c\"\nbackend = \"plain\"\nsecret = { value = \"hunter2hunter2\" }\n",
    );
    let loaded = home.load();
    assert_eq!(loaded.problems.len(), 2);
    assert!(!format!("{loaded:?}").contains("hunter2"));
}

mod edits {
    use indexmap::IndexMap;
    use serde_json::{Value, json};

    use super::*;

    fn values(pairs: &[(&str, Value)]) -> IndexMap<String, Value> {
        pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), v.clone()))
            .collect()
    }

    #[test]
    fn setting_a_key_touches_its_line_only() {
        let home = Home::with(GOOD);
        let changed = edit::set_context(
            &home.file(),
            "pve",
            &values(&[("secret", json!({"file": "/s"})), ("interval", json!(20))]),
            &[],
        );
        assert!(changed.unwrap());
        let expected = GOOD
            .replace(
                "{ command = [\"pass\", \"pve/corral\"] }",
                "{ file = \"/s\" }",
            )
            .replace("interval = \"10s\"", "interval = 20");
        assert_eq!(home.text(), expected);
        assert!(home.load().problems.is_empty());
    }

    #[test]
    fn adding_appends_and_removing_takes_the_default_along() {
        let home = Home::with(GOOD);
        edit::add_context(
            &home.file(),
            "new",
            "box",
            &values(&[("url", json!("x://y"))]),
        )
        .unwrap();
        assert!(home.text().starts_with(GOOD));
        assert_eq!(home.load().contexts.len(), 3);
        let again = edit::add_context(&home.file(), "new", "box", &IndexMap::new());
        assert_eq!(again.unwrap_err().kind, crate::model::ErrorKind::Conflict);
        assert!(edit::remove_context(&home.file(), "new").unwrap());
        assert_eq!(home.text(), GOOD);
        assert!(edit::remove_context(&home.file(), "pve").unwrap());
        let left = home.load();
        assert_eq!(left.settings.default_context, None);
        assert_eq!(left.contexts.len(), 1);
        assert!(home.text().contains("# mine"), "{}", home.text());
        assert!(!edit::remove_context(&home.file(), "pve").unwrap());
    }

    #[test]
    fn a_discovered_context_is_disabled_by_an_entry_and_enabled_again() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("deep/config.toml");
        assert!(edit::set_enabled(&file, "local", "plain", false).unwrap());
        assert!(!edit::set_enabled(&file, "local", "plain", false).unwrap());
        assert_eq!(
            std::fs::read_to_string(&file).unwrap(),
            "[[context]]\nname = \"local\"\nbackend = \"plain\"\nenabled = false\n"
        );
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(
            file.parent()
                .unwrap()
                .metadata()
                .unwrap()
                .permissions()
                .mode()
                & 0o777,
            0o700
        );
        assert!(edit::set_enabled(&file, "local", "plain", true).unwrap());
        assert!(!edit::set_enabled(&file, "local", "plain", true).unwrap());
    }

    #[test]
    fn the_default_is_set_and_cleared() {
        let home = Home::with("# top\n\n[ui]\ntheme = \"x\" # why\n");
        assert!(edit::set_default(&home.file(), Some("lab")).unwrap());
        assert!(!edit::set_default(&home.file(), Some("lab")).unwrap());
        assert_eq!(home.load().settings.default_context.as_deref(), Some("lab"));
        assert!(home.text().contains("# top\n\n[ui]\ntheme = \"x\" # why\n"));
        assert!(edit::set_default(&home.file(), None).unwrap());
        assert_eq!(home.text(), "# top\n\n[ui]\ntheme = \"x\" # why\n");
    }

    #[test]
    fn line_ends_and_mark_stay() {
        let text = "\u{feff}# a\r\n[[context]]\r\nname = \"a\" # x\r\nbackend = \"plain\"\r\n";
        let home = Home::with(text);
        assert!(
            edit::set_context(
                &home.file(),
                "a",
                &values(&[("readonly", json!(true))]),
                &[]
            )
            .unwrap()
        );
        assert_eq!(home.text(), format!("{text}readonly = true\r\n"));
    }

    #[test]
    fn a_link_stays_a_link() {
        let home = Home::with(GOOD);
        let real = home.0.path().join("dotfiles.toml");
        std::fs::rename(home.file(), &real).unwrap();
        std::os::unix::fs::symlink(&real, home.file()).unwrap();
        assert!(edit::set_default(&home.file(), Some("lab")).unwrap());
        assert!(home.file().symlink_metadata().unwrap().is_symlink());
        assert!(
            std::fs::read_to_string(real)
                .unwrap()
                .contains("default-context = \"lab\"   # the cluster")
        );
    }

    #[test]
    fn a_broken_file_is_left_alone() {
        let home = Home::with("[ui\n");
        let error = edit::set_default(&home.file(), Some("lab")).unwrap_err();
        assert!(error.message.contains("line 1"), "{error}");
        assert_eq!(home.text(), "[ui\n");
    }

    #[test]
    fn who_holds_the_lock_is_named() {
        let home = Home::with("");
        let lock = std::fs::File::create(home.file().with_added_extension("lock")).unwrap();
        lock.lock().unwrap();
        std::fs::write(home.file().with_added_extension("lock"), "4711").unwrap();
        let error = edit::set_default(&home.file(), Some("lab")).unwrap_err();
        assert_eq!(error.kind, crate::model::ErrorKind::Conflict);
        assert!(error.message.contains("4711"), "{error}");
    }
}

proptest! {
    #[test]
    fn req_40_loading_never_panics(text in any::<Vec<u8>>()) {
        let _ = Home::with(text).load();
    }

    #[test]
    fn req_40_loading_never_panics_on_text(text in "[a-z\\[\\]{}=\".,#\\n '0-9-]{0,200}") {
        let _ = Home::with(text).load();
    }

    #[test]
    fn req_40_a_mutated_file_never_panics(cuts in prop::collection::vec((0usize..GOOD.len(), any::<u8>(), any::<bool>()), 1..8)) {
        let mut bytes = GOOD.as_bytes().to_vec();
        for (at, byte, replace) in cuts {
            let at = at.min(bytes.len() - 1);
            if replace {
                bytes[at] = byte;
            } else {
                bytes.remove(at);
            }
        }
        let home = Home::with(&bytes);
        let loaded = home.load();
        for problem in &loaded.problems {
            prop_assert!(!problem.message.chars().any(char::is_control));
        }
        let _ = edit::set_default(&home.file(), Some("lab"));
    }
}

#[test]
fn guards_that_clash_are_told_with_both_lines_and_the_safer_one_holds() {
    let two = |one: &str, other: &str| {
        let part = |keys: &str| format!("[[context]]\nname = \"a\"\nbackend = \"plain\"\n{keys}\n");
        let loaded = Home::with(part(one) + &part(other)).load();
        let told: Vec<String> = loaded
            .problems
            .iter()
            .filter(|problem| !problem.warning)
            .map(|problem| format!("{}: {}", problem.line, problem.message))
            .collect();
        (loaded.contexts[0].clone(), told.join("\n"))
    };
    for (one, other) in [("true", "false"), ("false", "true")] {
        for key in ["readonly", "protected"] {
            let (entry, told) = two(&format!("{key} = {one}"), &format!("{key} = {other}"));
            let held = [entry.readonly, entry.protected];
            assert_eq!(held, [key == "readonly", key == "protected"]);
            assert!(told.starts_with(&format!("8: {key}")), "{told}");
            assert!(told.contains("line 4"), "{told}");
        }
    }
    for (one, other) in [
        ("normal", "relaxed"),
        ("relaxed", "normal"),
        ("relaxd", "relaxed"),
    ] {
        let (entry, told) = two(
            &format!("confirm = {one:?}"),
            &format!("confirm = {other:?}"),
        );
        assert!(!entry.relaxed, "{one} {other}");
        assert!(
            told.contains("8: confirm") && told.contains("line 4"),
            "{told}"
        );
    }
    let (entry, told) = two(
        "confirm = \"relaxed\"",
        "confirm = \"relaxed\"\nreadonly = true",
    );
    assert!(entry.relaxed && entry.readonly);
    assert_eq!(told, "", "the same, or said once, is no clash");
    let (_, told) = two("interval = 5", "interval = 9");
    assert_eq!(
        told, "",
        "of what guards nothing the later one is used, with a warning"
    );
}

#[test]
fn what_is_left_out_is_kept_in_mind() {
    let text = "[[context]]\nname = \"a\"\nbackend = \"bxo\"\n[[context]]\nname = \"b c\"\nbackend = \"plain\"\n\
        [[context]]\nname = \"off\"\nbackend = \"bxo\"\nenabled = false\n";
    let names = |loaded: Loaded| -> Vec<String> {
        loaded
            .dropped
            .into_iter()
            .map(|dropped| dropped.name)
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .collect()
    };
    assert_eq!(names(Home::with(text).load()), ["a", "config.toml:5"]);
    assert_eq!(names(Home::with("context = 3").load()), ["config.toml:1"]);
    assert_eq!(names(Home::with("[[context]\n").load()), ["config.toml:1"]);
    assert_eq!(names(Home::with("").load()), [""; 0]);
    let writable = Home::with("");
    writable.mode(0o666);
    assert_eq!(
        names(writable.load()).len(),
        1,
        "what it names is not known"
    );
}
