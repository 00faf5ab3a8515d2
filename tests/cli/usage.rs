use corral::action::rows;

use super::harness::Home;

#[test]
fn every_verb_has_help() {
    let home = Home::new();
    for row in rows() {
        let mut words: Vec<&str> = row.name.split(' ').collect();
        words.push("--help");
        let output = home.run(&words).plain();
        assert_eq!(output.code, 0, "{}", row.name);
        assert!(
            output.out.contains(row.summary),
            "{}: {}",
            row.name,
            output.out
        );
    }
}

#[test]
fn what_is_misspelt_gets_the_nearest_word() {
    let home = Home::new();
    for (words, near) in [
        (&["lst"][..], "list"),
        (&["snapshot", "creat"][..], "create"),
        (&["list", "--fliter", "x"][..], "--filter"),
        (&["list", "-o", "jsn", "--demo"][..], "json"),
    ] {
        let output = home.run(words).plain();
        assert_eq!(output.code, 2, "{words:?}");
        assert!(output.err.contains(near), "{words:?}: {}", output.err);
        assert_eq!(output.out, "");
    }
}

#[test]
fn words_with_two_meanings_run_nothing() {
    let home = Home::new();
    for (word, choices) in [
        ("suspend", ["pause", "hibernate"]),
        ("destroy", ["stop --force", "delete"]),
        ("poweroff", ["corral stop", "--force"]),
        ("kill", ["stop --force", "cancel"]),
    ] {
        let output = home.run(&[word, "local/web"]);
        assert_eq!(output.code, 2);
        for choice in choices {
            assert!(output.err.contains(choice), "{word}: {}", output.err);
        }
    }
}

#[test]
fn the_word_of_a_group_alone_lists() {
    let home = Home::new();
    for (short, long) in [
        (
            vec!["context", "-o", "name"],
            vec!["context", "list", "-o", "name"],
        ),
        (vec!["tasks"], vec!["tasks", "list"]),
    ] {
        let output = home.run(&short);
        assert_eq!(output.code, 0, "{}", output.err);
        assert_eq!(output.out, home.run(&long).out);
    }
    // Behind it stands what could be here, and is not added.
    let names = home.run(&["context", "-o", "name"]).out;
    assert_eq!(names.lines().next(), Some("local"), "{names}");
    // Where a list needs to be told of what, the group says what there is.
    let output = home.run(&["snapshot", "--demo"]);
    assert_eq!(output.code, 2);
    assert!(output.err.contains("create, list"), "{}", output.err);
}

#[test]
fn req_29_no_terminal_is_one_line_and_two() {
    let output = Home::new().run(&[]).plain();
    assert_eq!(output.code, 2);
    assert_eq!(output.err.lines().count(), 1, "{}", output.err);
    assert_eq!(output.out, "");
}

#[test]
fn req_07_completion_touches_nothing() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish"] {
        let output = home.run(&["completion", shell]);
        assert_eq!(output.code, 0);
        assert!(output.out.contains("__complete"));
    }
    assert_eq!(home.run(&["completion", "tcsh"]).code, 2);
    let output = home.run(&["__complete", "st"]);
    assert!(
        output.out.contains("stop\t") && output.out.contains("start\t"),
        "{}",
        output.out
    );
    assert_eq!(home.files(), Vec::<String>::new());
}

#[test]
fn man_page_names_every_verb() {
    let page = Home::new().run(&["man"]).out;
    for row in rows() {
        assert!(
            page.contains(&format!("corral {}", row.name)),
            "{}",
            row.name
        );
    }
}

#[test]
fn what_cannot_come_is_not_waited_for() {
    let home = Home::new();
    for (words, remedy) in [
        (
            &["create", "x", "--for", "agent", "--dry-run"][..],
            "--start",
        ),
        (&["create", "x", "--start", "--for", "gone"][..], "running"),
        (&["stop", "local/x", "--for", "agent"][..], "stopped"),
        (&["start", "local/x", "--for", "paused"][..], "running"),
        (&["pause", "local/x", "--for", "agent"][..], "paused"),
        (&["delete", "local/x", "--for", "stopped"][..], "gone"),
        (
            &["snapshot", "create", "local/x", "--for", "gone"][..],
            "--for",
        ),
        (
            &["context", "disable", "local", "--for", "running"][..],
            "--for",
        ),
    ] {
        let output = home.run(words).plain();
        assert_eq!(output.code, 2, "{words:?}: {}", output.err);
        assert!(
            output.err.contains("--for") && output.err.contains(remedy),
            "{words:?}: {}",
            output.err
        );
    }
}

#[test]
fn a_setting_is_given_once_and_an_address_is_no_file() {
    let home = Home::new();
    let twice = ["create", "x", "--set", "bus=virtio", "--set", "bus=scsi"];
    let output = home.run(&twice).plain();
    assert_eq!(output.code, 2, "{}", output.err);
    assert!(output.err.contains("bus is given twice"), "{}", output.err);
    let endless = home.run(&["create", "x", "--user-data", "/dev/zero"]);
    assert_eq!(endless.code, 2, "{}", endless.err);
    assert!(endless.err.contains("too long"), "{}", endless.err);
    for (flag, address, word) in [
        (
            "--image",
            "https://127.0.0.1:1/x.qcow2",
            "corral image pull",
        ),
        ("--backing", "s3://b/x.qcow2", "Fetch it"),
        ("--cdrom", "file:///tmp/x.iso", "--cdrom /tmp/x.iso"),
    ] {
        let output = home.run(&["create", "x", flag, address]).plain();
        assert_eq!(output.code, 2, "{}", output.err);
        assert!(
            output.err.contains(address) && output.err.contains(word),
            "{}",
            output.err
        );
    }
}

#[test]
fn headless_alone_is_list_with_all_that_list_takes() {
    let home = Home::new();
    let output = home.run(&["--headless", "-o", "json"]);
    assert_eq!(output.code, 0, "{}", output.err);
    assert!(output.json()["instances"].is_array());
    assert_eq!(home.run(&["--headless", "--bogus"]).code, 2);
}

#[test]
fn what_cannot_be_printed_is_a_failure() {
    let home = Home::new();
    for words in [
        &["list", "-o", "json"][..],
        &["matrix"],
        &["completion", "bash"],
    ] {
        let full = std::fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let output = home.command().args(words).stdout(full).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{words:?}: {told}");
        assert!(told.contains("standard output cannot be written"), "{told}");
    }
}

#[test]
fn doctor_of_a_context_that_is_not_there_finds_no_health() {
    let output = Home::new().run(&["doctor", "--context", "nope"]);
    assert_eq!(output.code, 5, "{} {}", output.out, output.err);
}

#[test]
fn what_set_takes_is_listed_without_a_name() {
    let home = Home::new();
    for words in [
        &["create", "--fields"][..],
        &["create", "--context", "local", "--fields"],
        &["context", "add", "--backend", "qemu", "--fields"],
    ] {
        let output = home.run(words);
        assert_eq!(output.code, 0, "{words:?}: {}", output.err);
        assert!(output.out.contains('\t'), "{words:?}: {}", output.out);
    }
    for words in [&["create"][..], &["context", "add", "--backend", "qemu"]] {
        assert_eq!(home.run(words).code, 2, "{words:?}");
    }
}

#[test]
fn a_value_or_a_name_that_begins_with_a_hyphen_is_answered_with_what_works() {
    let home = Home::new();
    for (words, remedy) in [
        (&["create", "w", "--memory", "-5"][..], "--memory=-5"),
        (&["snapshot", "create", "web", "--name", "-x"], "--name=-x"),
        (&["create", "--", "-lead"], "cannot be a name"),
        (&["create", ""], "cannot be a name"),
        (&["info", "--", "-lead"], "see corral list"),
        (
            &["context", "add", "--backend", "qemu"],
            "See corral context add --help",
        ),
        (&["create", "--disk", "1G"], "See corral create --help"),
    ] {
        let output = home.run(words).plain();
        assert_eq!(output.code, 2, "{words:?}");
        assert!(output.err.contains(remedy), "{words:?}: {}", output.err);
        assert!(
            !output.err.contains("use '-- "),
            "{words:?}: {}",
            output.err
        );
    }
}

#[test]
fn a_new_instance_may_be_named_by_its_id() {
    let home = Home::new();
    for (name, id) in [
        ("local/x", "local/x"),
        ("id:local/y", "local/y"),
        ("name:a/b", "local/a%2Fb"),
    ] {
        let made = home.run(&["create", name, "--disk", "1M"]);
        assert_eq!(made.code, 0, "{name}: {}", made.err);
        assert!(
            made.out.starts_with(&format!("{id}: ")),
            "{name}: {}",
            made.out
        );
    }
    for words in [
        &["create", "nope/x"][..],
        &["create", "id:foo"],
        &["create", "local/"],
        &["create", "local/ns/x"],
    ] {
        let output = home.run(&[words, &["--disk", "1M"]].concat());
        assert_eq!(output.code, 2, "{words:?}: {}", output.err);
        assert!(output.err.contains("name:"), "{words:?}: {}", output.err);
    }
}

#[test]
fn help_is_a_verb_too() {
    let home = Home::new();
    let output = home.run(&["help", "list"]);
    assert_eq!(output.code, 0, "{}", output.err);
    assert_eq!(output.out, home.run(&["list", "--help"]).out);
    assert_eq!(home.run(&["help"]).out, home.run(&["--help"]).out);
}

#[test]
fn to_wait_and_not_to_wait_is_no_choice() {
    let home = Home::new();
    let output = home.demo(&["stop", "local/scratch", "--wait", "--no-wait"]);
    assert_eq!(output.code, 2, "{}", output.err);
    assert!(output.err.contains("exclude each other"), "{}", output.err);
}
