//! What a selector finds, as the exit code and what is said.

use super::harness::Home;

/// A fleet in which `pve` refuses and everybody else answers.
fn without_pve(words: &[&str]) -> super::harness::Output {
    let mut all = vec![
        "--headless",
        "--demo=up=hv2+vc-old,refused=pve,pace=0,latency=0ms",
    ];
    all.extend(words);
    Home::new().run(&all)
}

#[test]
fn bulk_reads_that_match_nothing_are_five() {
    let home = Home::new();
    for words in [
        &["list", "zzz*"][..],
        &["list", "--filter", "tag:nobody"][..],
        &["info", "zzz*"][..],
        &["snapshot", "list", "--filter", "name:zzz"][..],
        &["events", "--filter", "name:zzz"][..],
        &["metrics", "local/zzz*"][..],
        &["matrix", "zzz*"][..],
        &["wait", "zzz*", "--for", "running"][..],
    ] {
        let output = home.demo(words).plain();
        assert_eq!(output.code, 5, "{words:?}: {} {}", output.out, output.err);
        assert!(
            output.err.contains("nothing matches"),
            "{words:?}: {}",
            output.err
        );
    }
    // A list is an answer all the same.
    let output = home.demo(&["list", "zzz*", "-o", "json"]);
    assert_eq!(output.code, 5);
    let json = output.json();
    assert_eq!(json["complete"], true);
    assert_eq!(json["instances"], serde_json::json!([]));
    assert_eq!(json["errors"][0]["kind"], "notfound");
    // Nothing is what was waited for.
    let gone = home.demo(&["wait", "zzz*", "--for", "gone"]);
    assert_eq!(gone.code, 0, "{}", gone.err);
}

#[test]
fn a_glob_in_a_context_that_answers_needs_nobody_else() {
    let output = without_pve(&["stop", "hv1/w*", "-y"]);
    assert_eq!(output.code, 0, "{}", output.err);
    let output = without_pve(&["list", "hv1/w*"]);
    assert_eq!(output.code, 0, "{}", output.err);
    let output = without_pve(&["stop", "pve/*", "-y"]);
    assert_eq!(output.code, 6, "{}", output.err);
    assert!(output.err.contains("--allow-partial"), "{}", output.err);
}

#[test]
fn allow_partial_goes_on_without_lists_it_and_exits_three() {
    let words = ["stop", "mailst*", "--allow-partial", "-y"];
    let output = without_pve(&words);
    assert_eq!(output.code, 3, "{} {}", output.out, output.err);
    assert!(output.out.contains("hv1/mailstore: "), "{}", output.out);
    assert!(output.err.contains("pve"), "{}", output.err);
    let mut dry = words.to_vec();
    dry.extend(["--dry-run", "-o", "json"]);
    let output = without_pve(&dry);
    assert_eq!(output.code, 3, "{}", output.err);
    assert_eq!(output.json()["plan"]["left_out"][0]["what"], "pve");
}

#[test]
fn an_answer_about_many_says_who_did_not_answer() {
    for words in [
        &["info", "mailst*"][..],
        &["list", "mailst*"][..],
        &["list", "zzz*"][..],
    ] {
        let mut all = words.to_vec();
        all.extend(["-o", "json"]);
        let output = without_pve(&all);
        assert_eq!(output.code, 3, "{words:?}: {}", output.err);
        assert_eq!(output.json()["complete"], false, "{words:?}");
    }
    // One that is named is all that was asked for.
    let output = without_pve(&["info", "hv1/mailstore", "-o", "json"]);
    assert_eq!(output.code, 0, "{}", output.err);
}

#[test]
fn a_filter_on_contexts_waits_for_no_other() {
    let home = Home::new();
    // hv2 and vc-old are silent; they cannot hold what is asked for.
    let demo = [
        "--headless",
        "--demo=pace=0,latency=0ms",
        "stop",
        "-y",
        "--dry-run",
        "--filter",
    ];
    let begun = std::time::Instant::now();
    let output = home.run(&[&demo[..], &["context:lab state:running"]].concat());
    assert!(matches!(output.code, 0 | 3), "{}", output.err);
    assert!(!output.err.contains("not answering"), "{}", output.err);
    // They are not even asked: nobody waits for their deadline.
    assert!(begun.elapsed() < std::time::Duration::from_secs(4));
    let output = home.run(&[&demo[..], &["-context:pve"]].concat());
    assert_eq!(output.code, 6, "{}", output.out);
}

#[test]
fn an_instance_that_cannot_be_read_hides_no_other() {
    let home = Home::new();
    for name in ["good", "bad"] {
        home.run(&["create", name, "--disk", "1M"]);
    }
    let definition = home.path().join(".local/share/corral/vms/bad/vm.toml");
    std::fs::write(definition, "name = [").unwrap();
    let output = home.run(&["info", "local/*", "-o", "json"]);
    assert_eq!(output.code, 3, "{}", output.err);
    let json = output.json();
    assert_eq!(json["instances"][0]["id"], "local/good");
    assert!(
        json["errors"][0]["message"]
            .as_str()
            .unwrap()
            .contains("bad")
    );
    assert_eq!(home.run(&["snapshot", "list", "local/*"]).code, 3);
    // Alone it is a failure, not a wrong command line.
    assert_eq!(home.run(&["info", "bad"]).code, 1);
}
