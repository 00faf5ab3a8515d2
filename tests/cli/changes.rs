use super::harness::Home;

#[test]
fn a_dry_run_shows_the_plan_and_does_nothing() {
    let home = Home::new();
    let output = home.demo(&["stop", "local/web", "--dry-run"]).plain();
    assert_eq!(output.code, 0, "{}", output.err);
    // In a simulated fleet the command is one for that fleet.
    let command = output.out.lines().find(|line| line.starts_with("= corral"));
    let command = command.unwrap_or_else(|| panic!("{}", output.out));
    assert!(command.contains("--demo="), "{command}");
    assert!(command.ends_with(" stop local/web"), "{command}");
    assert!(output.out.contains("context local"), "{}", output.out);
}

#[test]
fn an_explicit_target_needs_no_yes() {
    let output = Home::new().demo(&["stop", "local/web"]);
    assert_eq!(output.code, 0, "{}", output.err);
    assert!(output.out.starts_with("local/web: "), "{}", output.out);
}

#[test]
fn req_13_nothing_is_deleted_without_the_name() {
    let home = Home::new();
    let refused = home.demo(&["delete", "local/win11"]).plain();
    assert_eq!(refused.code, 6, "{}", refused.err);
    assert!(refused.err.contains("--confirm win11"), "{}", refused.err);
    let yes = home.demo(&["delete", "local/win11", "-y"]);
    assert_eq!(yes.code, 6, "-y is no answer to a name: {}", yes.err);
    let wrong = home.demo(&["delete", "local/win11", "--confirm", "web"]);
    assert_eq!(wrong.code, 6, "{}", wrong.err);
    let right = home.demo(&["delete", "local/win11", "--confirm", "win11"]);
    assert_eq!(right.code, 0, "{}", right.err);
}

#[test]
fn req_14_a_refusal_shows_backend_context_name_and_id() {
    let output = Home::new().demo(&["delete", "pve/107"]);
    assert_eq!(output.code, 6);
    for part in ["pve/107", "context pve", "debian13-template"] {
        assert!(output.err.contains(part), "{part}: {}", output.err);
    }
}

#[test]
fn req_12_readonly_refuses_every_change() {
    let home = Home::new();
    for words in [
        &["start", "local/win11"][..],
        &["stop", "local/web"][..],
        &["restart", "local/web"][..],
        &["pause", "local/web"][..],
        &["delete", "local/win11", "--confirm", "win11"][..],
        &["snapshot", "create", "local/web", "--name", "s"][..],
        &["create", "new", "--context", "local"][..],
    ] {
        let mut all = vec!["--readonly"];
        all.extend(words);
        let output = home.demo(&all);
        assert_eq!(output.code, 6, "{words:?}: {}", output.err);
        assert!(
            output.err.contains("--readonly"),
            "{words:?}: {}",
            output.err
        );
    }
}

#[test]
fn bulk_asks_for_verb_and_number() {
    let home = Home::new();
    let asked = home
        .demo(&["stop", "--filter", "state:running context:pve"])
        .plain();
    assert_eq!(asked.code, 6, "{}", asked.err);
    assert!(asked.err.contains("Nothing was done"), "{}", asked.err);
    let none = home.demo(&["stop", "--filter", "name:no-such-thing", "-y"]);
    assert_eq!(none.code, 5, "{}", none.err);
}

#[test]
fn a_glob_is_refused_while_a_context_is_silent() {
    let output = Home::new().run(&["--headless", "--demo", "stop", "*/ci", "-y"]);
    assert_eq!(output.code, 6, "{}", output.err);
}

#[test]
fn already_as_wanted_is_success() {
    let output = Home::new().demo(&["stop", "local/win11", "-o", "json"]);
    assert_eq!(output.code, 0, "{}", output.err);
    let json = output.json();
    assert_eq!(
        json["task"]["targets"][0]["result"]["changed"], false,
        "{json}"
    );
}

#[test]
fn a_snapshot_is_never_another_one_than_was_written() {
    let home = Home::new();
    for (words, remedy) in [
        (&["delete", "hv1/db@a/base"][..], "hv1/db@a%2Fbase"),
        (&["restore", "hv1/db@a/base", "--stop"], "hv1/db@a%2Fbase"),
        (&["create", "hv1/db@q/r"], "hv1/db@q%2Fr"),
        (&["delete", "hv1/db@x@base"], "%40"),
        (&["create", "hv1/db@"], "Write both"),
        // The name behind one target says nothing of another one.
        (&["delete", "hv1/db@base", "hv1/web"], "hv1/web@base"),
        (&["delete", "hv1/web", "hv1/db@base"], "hv1/web@base"),
    ] {
        let all: Vec<&str> = ["snapshot"].iter().chain(words).copied().collect();
        let output = home.demo(&[&all[..], &["--dry-run"]].concat()).plain();
        assert_eq!(output.code, 2, "{words:?}: {} {}", output.out, output.err);
        assert!(output.err.contains(remedy), "{words:?}: {}", output.err);
    }
}

#[test]
fn a_line_of_a_batch_is_never_run_in_another_fleet_than_it_names() {
    let home = Home::new();
    let lines = "create a --disk 1M --demo\ncreate b --disk 1M --readonly\ncreate c --disk 1M --config /nope\n\
        create d --disk 1M --no-discover\ncreate e --disk 1M --headless\n";
    let output = home.pipe(&["batch", "-"], lines);
    assert_eq!(output.code, 1, "{}", output.err);
    for flag in ["demo", "readonly", "config", "no-discover", "headless"] {
        let said = format!("--{flag} holds for a whole run");
        assert!(output.err.contains(&said), "{flag}: {}", output.err);
    }
    let listed = home.run(&["list", "-o", "name"]);
    assert_eq!(listed.out, "", "nothing was made");
    // What the whole run has, a line may say too.
    let same = home.pipe(&["--headless", "batch", "-"], "list --headless\n");
    assert_eq!(same.code, 0, "{}", same.err);
}

#[test]
fn while_it_is_not_known_what_is_protected_everything_is() {
    let home = Home::new();
    let made = home.run(&["create", "web", "--disk", "1M"]);
    assert_eq!(made.code, 0, "{}", made.err);
    let state = home.path().join(".local/state/corral/protect.toml");
    for text in ["broken [", "", "format = 99\n"] {
        std::fs::write(&state, text).unwrap();
        let output = home.run(&["list", "--columns", "name,protected", "--no-headers"]);
        assert!(output.out.contains("yes"), "{text:?}: {}", output.out);
        assert!(
            output.err.contains("protect.toml"),
            "{text:?}: {}",
            output.err
        );
        let plan = home.run(&["--headless", "restart", "web", "-y"]);
        assert_eq!(plan.code, 6, "{text:?}: {}", plan.err);
        assert!(plan.err.contains("--confirm web"), "{text:?}: {}", plan.err);
        let doctor = home.run(&["doctor"]);
        assert!(
            doctor.out.contains("protect.toml"),
            "{text:?}: {}",
            doctor.out
        );
        assert_eq!(doctor.code, 1);
    }
    std::fs::remove_file(&state).unwrap();
    let output = home.run(&["list", "--columns", "name,protected", "--no-headers"]);
    assert!(
        output.out.contains("no") && output.err.contains("1 instance"),
        "{}",
        output.out
    );
}

#[test]
fn a_plan_asks_only_for_what_is_missing() {
    let home = Home::new();
    for (words, needs) in [
        // One named target is the yes, and what is already so needs none.
        (&["stop", "local/web"][..], None),
        (&["stop", "local/win11"], None),
        (
            &["stop", "--filter", "context:pve state:running"],
            Some("Needs: "),
        ),
        (&["delete", "local/win11"], Some("Needs: --confirm win11")),
    ] {
        let output = home.demo(&[words, &["--dry-run"]].concat());
        match needs {
            None => assert!(!output.out.contains("Needs"), "{words:?}: {}", output.out),
            Some(needs) => assert!(output.out.contains(needs), "{words:?}: {}", output.out),
        }
    }
    home.run(&["create", "web", "--disk", "1M"]);
    let plan = home.run(&["restart", "web", "--dry-run"]);
    assert!(
        plan.out.contains("it is only started"),
        "{} {}",
        plan.out,
        plan.err
    );
    assert!(!plan.out.contains("shut down"), "{}", plan.out);
}

#[test]
fn what_is_not_there_is_five() {
    let home = Home::new();
    home.run(&["create", "web", "--disk", "1M"]);
    for words in [
        &["snapshot", "restore", "web@nope", "--confirm", "web"][..],
        &["create", "a", "--image", "/nope/x.qcow2"],
    ] {
        for extra in [&[][..], &["--dry-run"]] {
            let output = home.run(&[words, extra].concat());
            assert_eq!(output.code, 5, "{words:?} {extra:?}: {}", output.err);
        }
    }
}

#[test]
fn a_named_config_file_that_is_not_there_forbids_changes() {
    let home = Home::new();
    let output = home.run(&["create", "a", "--disk", "1M", "--config", "/nope.toml"]);
    assert_eq!(output.code, 6, "{}", output.err);
    assert!(output.err.contains("/nope.toml"), "{}", output.err);
    assert!(output.err.contains("no such file"), "{}", output.err);
    assert_eq!(home.run(&["list", "-o", "name"]).out, "");
}

#[test]
fn a_taken_port_is_told_before_anything_is_started() {
    let home = Home::new();
    let asked = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = asked.local_addr().unwrap().port();
    drop(asked);
    let publish = format!("{port}:22");
    let made = home.run(&["create", "web", "--disk", "1M", "--publish", &publish]);
    assert_eq!(made.code, 0, "{}", made.err);
    let _taken = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    for extra in [&[][..], &["--dry-run"]] {
        let output = home.run(&[&["start", "web"], extra].concat());
        assert_eq!(output.code, 6, "{}", output.err);
        let said = output.out + &output.err;
        let place = format!("write another port into {}", home.path().display());
        assert!(said.contains(&place) && said.contains("vm.toml"), "{said}");
    }
}

#[test]
fn a_change_that_leaves_no_trace_says_so() {
    let home = Home::new();
    home.run(&["list"]);
    let state = home.path().join(".local/state/corral");
    std::fs::create_dir_all(state.join("journal.jsonl")).unwrap();
    let output = home.run(&["create", "a", "--disk", "1M"]);
    assert_eq!(output.code, 0, "{}", output.err);
    assert!(
        output.err.contains("missing in the history"),
        "{}",
        output.err
    );
}

#[test]
fn tasks_that_cannot_be_seen_are_not_called_none() {
    let home = Home::new();
    let state = home.path().join(".local/state/corral");
    std::fs::create_dir_all(&state).unwrap();
    std::fs::write(state.join("tasks"), "a file").unwrap();
    let output = home.run(&["tasks"]);
    assert_eq!(output.code, 1, "{} {}", output.out, output.err);
    assert!(output.err.contains("cannot be read"), "{}", output.err);
}

#[test]
fn the_phrase_for_several_says_what_is_lost() {
    let home = Home::new();
    for (verb, phrase) in [("delete", "delete 2"), ("restore", "restore 2")] {
        let both = ["snapshot", verb, "local/web", "hv1/db", "--name", "base"];
        let stop: &[&str] = if verb == "restore" { &["--stop"] } else { &[] };
        let plan = home.demo(&[&both[..], stop, &["--dry-run"]].concat());
        let needs = format!("--confirm '{phrase}'");
        assert!(plan.out.contains(&needs), "{verb}: {}", plan.out);
        // One says nothing for the other.
        for wrong in ["snapshot 2", "create 2"] {
            let refused = home.demo(&[&both[..], stop, &["--confirm", wrong]].concat());
            assert_eq!(refused.code, 6, "{verb} {wrong}: {}", refused.err);
            assert!(refused.err.contains(&needs), "{verb}: {}", refused.err);
        }
    }
}
