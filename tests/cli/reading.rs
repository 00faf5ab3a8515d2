use super::harness::{Home, Output};

#[test]
fn req_04_a_silent_context_is_no_empty_one() {
    let output = Home::new()
        .run(&["--headless", "list", "-o", "json", "--demo"])
        .plain();
    assert_eq!(output.code, 3, "{}", output.err);
    let json = output.json();
    assert_eq!(json["complete"], false);
    assert!(!json["errors"].as_array().unwrap().is_empty());
    assert!(output.err.contains("warning: "), "{}", output.err);
}

#[test]
fn headless_alone_is_list() {
    let home = Home::new();
    let bare = home.run(&["--headless", "--demo=up=hv2+vc-old,latency=0ms"]);
    let list = home.demo(&["list"]);
    assert_eq!((bare.code, bare.out), (list.code, list.out));
}

#[test]
fn the_simulated_fleet_touches_nothing() {
    let home = Home::new();
    assert_eq!(home.demo(&["list"]).code, 0);
    assert_eq!(
        home.demo(&["snapshot", "create", "local/web", "--name", "s1"])
            .code,
        0
    );
    assert_eq!(home.files(), Vec::<String>::new());
}

#[test]
fn streams_of_events_keep_the_schema() {
    let words = ["stop", "local/web", "--progress", "json", "-o", "json"];
    let output = Home::new().demo(&words);
    assert_eq!(output.code, 0, "{}", output.err);
    // The harness holds every line against the schema.
    let count = output
        .err
        .lines()
        .filter(|line| line.starts_with('{'))
        .count();
    assert!(count > 0);
}

#[test]
fn req_20_control_characters_are_shown_in_tables_and_true_in_json() {
    let home = Home::new();
    let table = home.demo(&["list"]).plain();
    assert!(table.out.contains("evil\\x1b[2J"), "{}", table.out);
    let json = home.demo(&["list", "-o", "json"]).plain().json();
    let names = json["instances"].as_array().unwrap();
    assert!(
        names
            .iter()
            .any(|row| row["name"].as_str().unwrap().contains('\x1b'))
    );
    home.demo(&["list", "-o", "yaml"]).plain();
    home.demo(&["list", "-o", "name"]).plain();
}

#[test]
fn names_columns_and_paths() {
    let home = Home::new();
    let names = home.demo(&["list", "--context", "pve", "-o", "name"]);
    assert!(
        names.out.lines().all(|line| line.starts_with("pve/")),
        "{}",
        names.out
    );
    let path = home.demo(&[
        "list",
        "--context",
        "pve",
        "-o",
        "jsonpath={.instances[*].id}",
    ]);
    assert_eq!(path.out, names.out);
    let table = home.demo(&[
        "list",
        "--context",
        "pve",
        "--columns",
        "id",
        "--no-headers",
    ]);
    assert_eq!(table.out, names.out);
    assert_eq!(home.demo(&["list", "--columns", "colour"]).code, 2);
    assert_eq!(home.demo(&["list", "-o", "jsonpath=["]).code, 2);
}

#[test]
fn req_35_json_has_bytes_and_utc() {
    let json = Home::new()
        .demo(&["info", "local/web", "-o", "json"])
        .json();
    let row = &json["instances"][0];
    assert!(row["memory_bytes"].is_u64());
    assert!(row["observed_at"].as_str().unwrap().ends_with('Z'));
}

#[test]
fn not_found_and_ambiguous_are_five() {
    let home = Home::new();
    let missing = home.demo(&["info", "local/nobody"]);
    assert_eq!(missing.code, 5, "{}", missing.err);
    let twice = home.demo(&["stop", "web"]);
    assert_eq!(twice.code, 5, "{}", twice.err);
    assert!(
        twice.err.contains("local/web") && twice.err.contains("hv1/web"),
        "{}",
        twice.err
    );
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let home = Home::new();
    let mut child = home
        .command()
        .args([
            "--headless",
            "list",
            "-o",
            "json",
            "--demo=large,latency=0ms",
        ])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(!err.contains("panic") && !err.contains("pipe"), "{err}");
}

#[test]
fn a_batch_answers_per_line() {
    let lines = "# comment\n\nlist -o name --context pve\nnonsense\n";
    let home = Home::new();
    let output: Output = home.pipe(
        &[
            "--headless",
            "--demo=up=hv2+vc-old,latency=0ms",
            "batch",
            "/dev/stdin",
        ],
        lines,
    );
    assert_eq!(output.code, 3, "{}", output.err);
    assert!(output.err.contains("line 3: ok (0)"), "{}", output.err);
    assert!(output.err.contains("line 4: failed (2)"), "{}", output.err);
}

#[test]
fn broken_configuration_is_named_and_the_rest_works() {
    let home = Home::new();
    let dir = home.path().join(".config/corral");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("config.toml"), "discvoer = true\n").unwrap();
    let output = home.run(&["--headless", "list", "--no-discover", "-o", "json"]);
    assert_eq!(output.json()["schema"], "corral/1");
    assert!(output.err.contains("config.toml:1:1"), "{}", output.err);
    assert!(output.err.contains("discover"), "{}", output.err);
}

#[test]
fn a_wait_in_vain_says_a_line_that_waits_longer() {
    let home = Home::new();
    home.run(&["create", "web", "--disk", "1M"]);
    let output = home.run(&["wait", "web", "--for", "running", "--timeout", "1s"]);
    assert_eq!(output.code, 4, "{}", output.err);
    let line = output
        .err
        .split("Wait longer: corral ")
        .nth(1)
        .unwrap()
        .trim();
    let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    assert_eq!(line, "wait local/web --for running --timeout 30m");
    assert!(corral::action::grammar::parse(&words).is_ok(), "{line}");
}

#[test]
fn a_broken_definition_is_no_usage_error() {
    let home = Home::new();
    home.run(&["create", "web", "--disk", "1M"]);
    let file = home
        .files()
        .into_iter()
        .find(|file| file.ends_with("/vm.toml"))
        .unwrap();
    std::fs::write(file, "broken [").unwrap();
    for words in [&["info", "web"][..], &["snapshot", "list", "web"]] {
        let output = home.run(words);
        assert_eq!(output.code, 1, "{words:?}: {}", output.err);
        assert!(output.err.contains("vm.toml"), "{words:?}: {}", output.err);
    }
}
