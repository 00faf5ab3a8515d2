use proptest::prelude::*;

use super::*;
use crate::model::{Address, Bytes, InstanceId, InstanceKind, Kind, State};

fn row(name: &str) -> Instance {
    let id = InstanceId::new("lab", None, name);
    let mut row = Instance::new(
        id,
        Kind::read("k"),
        InstanceKind::Vm,
        State::Running,
        Timestamp::UNIX_EPOCH,
    );
    row.cpus = Some(4);
    row.memory_bytes = Some(Bytes::gib(8));
    row.tags = vec!["Prod".to_owned()];
    row.addresses = Some(vec![Address {
        ip: "10.0.3.41".to_owned(),
        nic: None,
        source: None,
    }]);
    row
}

fn matches(filter: &str, row: &Instance) -> bool {
    Filter::parse(filter).unwrap().matches(
        row,
        FilterCx {
            now: Timestamp::UNIX_EPOCH,
        },
    )
}

#[test]
fn terms_mean_what_they_say() {
    let web = row("web-1");
    for yes in [
        "",
        "web",
        "WEB",
        "state:running,paused",
        "-template",
        "cpu:4..",
        "cpu:..4",
        "cpu:2..4",
        "mem:8G",
        "mem:..8GiB",
        "tag:prod",
        "ip:10.0.3.0/24",
        "ip:10.0.",
        "10.0.3.41",
        "-state:stopped",
        "name:web kind:vm",
        "id:lab/web",
        "-agent:yes",
        "problem:no",
    ] {
        assert!(matches(yes, &web), "{yes}");
    }
    for no in [
        "db",
        "state:stopped",
        "cpu:5..",
        "mem:..4G",
        "tag:pro",
        "ip:10.0.4.0/24",
        "template:yes",
        "-web",
    ] {
        assert!(!matches(no, &web), "{no}");
    }
}

#[test]
fn errors_say_where_and_what_is_allowed() {
    let error = Filter::parse("web stat:running").unwrap_err();
    assert_eq!(error.span, 4..16);
    assert!(error.message.contains("state"), "{}", error.message);
    assert!(
        Filter::parse("state:up")
            .unwrap_err()
            .message
            .contains("running")
    );
    assert!(Filter::parse("name:\"open").is_err());
    assert!(Filter::parse("ip:10.0.0.0/33").is_err());
    assert!(
        Filter::parse("fe80::1").is_ok(),
        "a value that holds a colon is no field"
    );
}

fn viewed(filter: &str, row: &Instance) -> bool {
    let filter = Filter::parse_as(filter, Syntax::View).unwrap();
    filter.matches(row, FilterCx { now: now() })
}

fn now() -> Timestamp {
    "2026-03-08T00:00:00Z".parse().unwrap()
}

fn wrong(filter: &str) -> String {
    Filter::parse(filter).unwrap_err().message
}

/// A row in which every field has a value of its own.
fn full() -> Instance {
    let mut full = row("web-1");
    full.macs = Some(vec!["52:54:00:12:34:56".to_owned()]);
    full.host = Some("Host1".to_owned());
    full.os = Some("Debian 13".to_owned());
    full.note = Some("the shop, as it will be".to_owned());
    full.disk_bytes = Some(Bytes::gib(20));
    full.created_at = Some("2026-03-01T00:00:00Z".parse().unwrap());
    full.uptime_seconds = Some(7200);
    full.agent = Some(true);
    full.locked = Some("backup".to_owned());
    full.template = true;
    full.protected = true;
    full.autostart = Some(true);
    full.stale = true;
    full
}

#[test]
fn every_field_says_yes_and_no() {
    let full = full();
    let cases = [
        ("name:web", "name:db"),
        ("name:WEB*", "name:w*b"),
        ("name:w?b-1", "name:*-2"),
        ("id:lab/web-1", "id:lab/x"),
        ("id:lab/*", "id:other/*"),
        ("ip:10.0.3.", "ip:0.3."),
        ("ip:10.0.0.0/16", "ip:10.1.0.0/16"),
        ("ip:*.41", "ip:*.4"),
        ("mac:12:34", "mac:ff:ff"),
        ("tag:prod", "tag:pro"),
        ("tag:pro*", "tag:*x"),
        ("host:host", "host:host2"),
        ("context:lab", "context:la"),
        ("context:l*", "context:*x"),
        ("backend:k", "backend:q"),
        ("kind:vm", "kind:ct"),
        ("state:running,stopped", "state:stopped"),
        ("os:debian", "os:windows"),
        ("os:\"debian 13\"", "os:\"debian 12\""),
        ("cpu:4", "cpu:5"),
        ("cpu:2..4", "cpu:..3"),
        ("cpu:1,4", "cpu:1,5"),
        ("mem:..8GiB", "mem:8193M.."),
        ("mem:8G", "mem:7G"),
        ("disk:10G..", "disk:..10G"),
        ("older:7d", "older:8d"),
        ("older:1d..7d", "older:..1d"),
        ("up:2h", "up:3h"),
        ("up:..3h", "up:..1h"),
        ("agent:yes", "agent:no"),
        ("locked:yes", "locked:no"),
        ("problem:yes", "problem:no"),
        ("template:yes", "-template"),
        ("protected:yes", "protected:no"),
        ("autostart:true", "autostart:false"),
        ("stale:1", "stale:0"),
        ("note:\"shop, as\"", "note:\"shop; as\""),
    ];
    for (yes, no) in cases {
        let ask = |text: &str| {
            let filter = Filter::parse(text).unwrap_or_else(|e| panic!("{text}: {}", e.message));
            filter.matches(&full, FilterCx { now: now() })
        };
        assert!(ask(yes), "{yes}");
        assert!(!ask(&format!("-{yes}")), "-{yes}");
        assert!(!ask(no), "{no}");
    }
    let asked = |name: &str| {
        cases
            .iter()
            .any(|(yes, _)| yes.starts_with(&format!("{name}:")))
    };
    for field in FIELDS {
        assert!(asked(field.name), "no case for {}", field.name);
    }
}

#[test]
fn what_is_not_known_is_in_no_range() {
    let mut row = row("x");
    row.cpus = None;
    assert!(!matches("cpu:0..", &row));
    assert!(matches("-cpu:0..", &row));
}

#[test]
fn quotes_take_the_meaning_away() {
    let mut odd = row("x");
    odd.note = Some("a*b, -c \"d\" e\\f".to_owned());
    for yes in [
        "note:\"a*b, -c\"",
        "note:\"\\\"d\\\"\"",
        "note:\"e\\\\f\"",
        "\"-c\"",
        "note:a\"*\"b*",
    ] {
        assert!(matches(yes, &odd), "{yes}");
    }
    assert!(!matches("note:\"a?b\"", &odd));
    assert!(matches("-\"template\"", &odd), "the word, not the fact");
    assert!(matches("\"\"", &odd), "nothing is asked");
}

#[test]
fn the_view_knows_more_signs() {
    let web = row("web-1");
    for yes in [
        "mem>4G",
        "mem>=8GiB",
        "mem<9G",
        "mem<=8G",
        "cpu>3",
        "!tag:test",
        "!template",
        "!db",
        "-db",
        "cpu:4..",
    ] {
        assert!(viewed(yes, &web), "{yes}");
    }
    for no in ["mem>8G", "mem<8G", "cpu>4", "cpu<4", "!tag:prod", "!web"] {
        assert!(!viewed(no, &web), "{no}");
    }
    let bad = |text: &str| Filter::parse_as(text, Syntax::View).unwrap_err().message;
    assert!(bad("name>4").contains("cannot be more or less"));
    assert!(bad("mem>lots").starts_with("mem: "));
    assert!(bad("mem>").contains("takes"));
    assert!(bad("cpu<0").contains("nothing"));
    // A command line has no use for what a shell would take away, and says what to write.
    assert!(
        wrong("mem>8G").contains("write mem:8G.."),
        "{}",
        wrong("mem>8G")
    );
    assert!(wrong("mem<=8G").contains("write mem:..8G"));
    assert!(wrong("!tag:prod").contains("write -tag:prod"));
}

#[test]
fn a_typing_error_gets_the_nearest_word() {
    for (text, near) in [
        ("stat:running", "state"),
        ("sttae:running", "state"),
        ("memory:4G", "mem"),
        ("contxt:lab", "context"),
        ("state:runing", "running"),
        ("state:stoped", "stopped"),
    ] {
        assert!(
            wrong(text).contains(&format!("did you mean {near}?")),
            "{}",
            wrong(text)
        );
    }
    assert!(wrong("zzyzx:1").contains("there are name, id"));
    assert!(wrong("state:zzz").contains("there are running"));
    assert!(wrong("state:").contains("takes a state"));
    assert!(wrong("state:running,").contains("takes a state"));
    assert!(wrong("agent:maybe").contains("yes or no"));
    assert!(wrong("cpu:8..4").contains("ends before it begins"));
    assert!(wrong("cpu:many").starts_with("cpu: "));
    assert!(wrong("older:soon").contains("not a duration"));
}

#[test]
fn completion_of_fields_and_values() {
    let mut rows = [row("web-1"), row("db 2"), row("web-10")];
    rows[1].tags = vec!["test".to_owned(), "it's".to_owned()];
    rows[1].cpus = Some(2);
    let contexts = ["lab".to_owned(), "prod".to_owned()];
    let known = Known {
        rows: rows.iter(),
        contexts: &contexts,
    };
    let words = |text: &str| -> Vec<String> {
        let found = complete(text, known.clone());
        found.words.into_iter().map(|(word, _)| word).collect()
    };
    assert_eq!(words("st"), ["state:", "stale:"]);
    assert_eq!(words("web -sta"), ["-state:", "-stale:"]);
    assert_eq!(words("state:sto"), ["state:stopped", "state:stopping"]);
    assert_eq!(words("state:running,pau"), ["state:running,paused"]);
    assert_eq!(words("!context:"), ["!context:lab", "!context:prod"]);
    assert_eq!(words("tag:"), ["tag:\"it's\"", "tag:Prod", "tag:test"]);
    assert_eq!(
        words("name:"),
        ["name:\"db 2\"", "name:web-1", "name:web-10"]
    );
    assert_eq!(words("name:\"db"), ["name:\"db 2\""]);
    assert_eq!(words("cpu:"), ["cpu:2", "cpu:4"]);
    assert_eq!(words("mem:"), ["mem:8G"]);
    assert_eq!(words("agent:"), ["agent:yes", "agent:no"]);
    assert_eq!(words("nothing:"), Vec::<String>::new());
    assert_eq!(words("state:running").len(), 1);
    assert_eq!(words("").len(), FIELDS.len());
    assert_eq!(complete("kind:vm st", known.clone()).from, 8);
    assert_eq!(complete("st", known.clone()).common(), "sta");
    assert_eq!(complete("name:w", known).common(), "name:web-1");
}

/// What a user may type, most of it near to a filter.
fn typed() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        Just("state:running".to_owned()),
        "[-!]?(name|id|ip|mac|tag|host|context|note|os|backend):[a-zA-Z0-9*?.\"\\\\, :/-]{0,8}",
        "[-!]?(cpu|mem|disk|older|up)(:|<|>|<=|>=)[0-9]{0,4}[KMGdhm]?(\\.\\.)?[0-9]{0,4}",
        "[-!]?(agent|template|problem)(:yes|:no)?",
        "\\PC{0,8}",
    ];
    prop::collection::vec(word, 0..5).prop_map(|words| words.join(" "))
}

proptest! {
    #[test]
    fn never_panics(text in typed()) {
        let full = full();
        for syntax in [Syntax::Shell, Syntax::View] {
            match Filter::parse_as(&text, syntax) {
                Ok(filter) => { filter.matches(&full, FilterCx { now: now() }); }
                Err(error) => {
                    prop_assert!(text.get(error.span).is_some());
                    prop_assert!(!error.message.is_empty());
                }
            }
        }
        let rows = [full];
        let found = complete(&text, Known { rows: rows.iter(), contexts: &["lab".to_owned()] });
        prop_assert!(text.get(found.from..).is_some());
        let _ = found.common();
    }

    #[test]
    fn what_is_printed_is_the_same_filter(text in typed()) {
        if let Ok(filter) = Filter::parse_as(&text, Syntax::View) {
            let printed = filter.to_string();
            prop_assert_eq!(Filter::parse(&printed), Ok(filter), "{}", printed);
        }
    }

    #[test]
    fn every_completed_word_is_understood(text in "(state|kind|agent|tag|name|context|cpu|mem|older|up|os|host):[a-z]?") {
        let rows = [full(), row("a \"b\" c"), row("-x*")];
        let found = complete(&text, Known { rows: rows.iter(), contexts: &["lab".to_owned()] });
        for (word, _) in found.words {
            prop_assert!(Filter::parse(&word).is_ok(), "{}", word);
        }
    }
}

#[test]
fn a_row_might_match_only_where_what_is_asked_for_is_not_known() {
    let mut running = row("web-1");
    (running.addresses, running.macs, running.state) = (None, None, State::Running);
    let mut stopped = running.clone();
    stopped.state = State::Stopped;
    let cx = FilterCx { now: now() };
    let might = |text: &str, row: &Instance| Filter::parse(text).unwrap().might_match(row, cx);
    assert!(might("ip:10.0.0.1", &running));
    assert!(might("10.0.0.1", &running));
    assert!(might("ip:10.0.0.1 name:web-1", &running));
    assert!(!might("ip:10.0.0.1 name:other", &running));
    assert!(!might("ip:10.0.0.1", &stopped), "what is off has none");
    assert!(might("mac:52:54:00:00:00:01", &stopped));
    assert!(might("52:54:00:00:00:01", &stopped));
    assert!(!might("-ip:10.0.0.1", &running));
    assert!(!might("web-2", &running));
    running.addresses = Some(Vec::new());
    assert!(!might("ip:10.0.0.1", &running), "known to have none");
    for (text, asked) in [
        ("fe80::1", Some(Asked::Addresses)),
        ("10.0.3", Some(Asked::Addresses)),
        ("1.2", None),
        ("52:54:00", Some(Asked::Macs)),
        ("-10.0.0.1", None),
        ("web", None),
    ] {
        assert_eq!(Filter::parse(text).unwrap().asks(), asked, "{text}");
    }
}

#[test]
fn completion_says_whom_a_value_would_find() {
    let mut rows: Vec<Instance> = (0..300).map(|n| row(&format!("web-{n}"))).collect();
    rows[7].tags = vec!["odd".to_owned()];
    let known = Known {
        rows: rows.iter(),
        contexts: &["lab".to_owned()],
    };
    let found = complete("name:", known.clone());
    assert_eq!((found.words.len(), found.more), (100, 200));
    assert_eq!(
        (found.words[99].0.as_str(), found.common()),
        ("name:web-99", "name:web-")
    );
    let found = complete("tag:o", known.clone());
    assert_eq!(
        found.words,
        [("tag:odd".to_owned(), rows[7].id.to_string())]
    );
    let found = complete("kind:", known);
    assert_eq!(
        found.words[0],
        ("kind:vm".to_owned(), "300 instances".to_owned())
    );
}
