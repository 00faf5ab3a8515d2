//! Contexts that are fetched, added and left alone by one-shot commands.

use super::harness::Home;

fn with_config(text: &str) -> Home {
    let home = Home::new();
    let dir = home.path().join(".config/corral");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("config.toml"), text).unwrap();
    home
}

fn home(secret: &str) -> Home {
    with_config(&format!(
        "discover = false\n[[context]]\nname = \"fast\"\nbackend = \"qemu\"\n\
         [[context]]\nname = \"locked\"\nbackend = \"qemu\"\nsecret = {{ command = [{secret}] }}\n"
    ))
}

#[test]
fn a_command_that_concerns_another_context_fetches_no_secret() {
    let home = home("\"touch\", \"asked\"");
    let asked = home.path().join("asked");
    for words in [
        &["list", "--context", "fast"][..],
        &["context", "test", "fast"][..],
        &["context", "get"][..],
        &["config", "show"][..],
        &["context", "use", "locked"][..],
    ] {
        let mut command = home.command();
        command.current_dir(home.path()).arg("--headless");
        let output = command.args(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        assert!(!asked.exists(), "{words:?} fetched it");
    }
    let mut command = home.command();
    command.current_dir(home.path());
    let listed = command.args(["--headless", "list", "--context", "locked"]);
    listed.output().unwrap();
    assert!(asked.exists(), "the one it concerns does");
}

#[test]
fn a_secret_that_is_not_there_is_told_with_its_context_and_hides_no_other() {
    let home = home("\"sh\", \"-c\", \"echo locked up >&2; exit 2\"");
    let output = home.run(&["--headless", "list", "-o", "json"]);
    assert_eq!(output.code, 3, "{}", output.err);
    let json = output.json();
    assert_eq!(json["errors"][0]["context"], "locked");
    let message = json["errors"][0]["message"].as_str().unwrap();
    assert!(message.contains("sh failed: locked up"), "{message}");
    assert_eq!(json["errors"].as_array().unwrap().len(), 1);
}

#[test]
fn a_context_added_by_a_line_of_a_batch_is_there_for_the_next_one() {
    let home = home("\"false\"");
    let lines = "context add lab --backend qemu -y\ncontext test lab\ncontext remove lab -y\nlist --context lab\n";
    let output = home.pipe(&["--headless", "batch", "-"], lines);
    for line in [
        "line 1: ok",
        "line 2: ok",
        "line 3: ok",
        "line 4: failed (5)",
    ] {
        assert!(output.err.contains(line), "{}", output.err);
    }
}

#[test]
fn a_context_that_the_configuration_spoils_makes_answers_incomplete() {
    let home = with_config("[[context]]\nname = \"pve\"\nbackend = \"nonsense\"\n");
    let output = home.run(&["--headless", "list", "-o", "json"]);
    assert_eq!(output.code, 3, "{}", output.err);
    let json = output.json();
    assert_eq!(json["complete"], false);
    let error = &json["errors"][0];
    assert_eq!(
        (&error["context"], &error["kind"]),
        (&"pve".into(), &"invalid".into())
    );
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains("config.toml:3:11: no backend"),
        "{message}"
    );
    assert_eq!(error["remedy"], "Mend it: corral config check");
    let other = home.run(&["--headless", "list", "--context", "local", "-o", "json"]);
    assert_eq!((other.code, &other.json()["complete"]), (0, &true.into()));
    // What it holds is not known, so nothing is done to all that match.
    assert_eq!(home.run(&["--headless", "stop", "*", "-y"]).code, 6);
    let doctor = home.run(&["--headless", "doctor"]);
    assert_eq!(
        doctor.out.matches("pve is left out").count(),
        1,
        "{}",
        doctor.out
    );
}

#[test]
fn a_file_that_cannot_be_read_makes_answers_incomplete() {
    let output = with_config("[[context]\n").run(&["--headless", "list", "-o", "json"]);
    assert_eq!(
        (output.code, &output.json()["complete"]),
        (3, &false.into())
    );
    assert_eq!(output.json()["errors"][0]["context"], "config.toml:1");
}

#[test]
fn a_guard_written_twice_is_never_weakened() {
    let part = "[[context]]\nname = \"local\"\nbackend = \"qemu\"\n";
    let home = with_config(&format!("{part}readonly = true\n{part}readonly = false\n"));
    let output = home.run(&["--headless", "create", "web", "--disk", "1G"]);
    assert_eq!(output.code, 6, "{}", output.err);
    let check = home.run(&["--headless", "config", "check"]);
    assert_eq!(check.code, 1);
    assert!(
        check.out.contains(":8:") && check.out.contains("line 4"),
        "{}",
        check.out
    );
}

#[test]
fn a_default_context_that_is_nowhere_is_told_with_its_place() {
    let home = with_config("readonly = false\ndefault-context = \"locl\"\n");
    let check = home.run(&["--headless", "config", "check"]);
    assert_eq!(check.code, 1, "{}", check.out);
    assert!(check.out.contains("config.toml:2:1"), "{}", check.out);
    assert!(
        check.out.contains("Did you mean \"local\"?"),
        "{}",
        check.out
    );
    let output = home.run(&["--headless", "create", "web", "--disk", "1G", "--dry-run"]);
    assert_eq!(output.code, 5);
    let error = output.err.lines().last().unwrap();
    assert!(
        error.contains("default context \"locl\"") && error.contains("config.toml:2"),
        "{error}"
    );
    // What discovery finds is a context too.
    let good = with_config("default-context = \"local\"\n");
    assert_eq!(good.run(&["--headless", "config", "check"]).code, 0);
}

#[test]
fn a_found_context_under_another_name_is_told_by_that_name() {
    let home = with_config("[[context]]\nname = \"p\"\nbackend = \"qemu\"\n");
    for words in [&["info", "local/web"][..], &["list", "--context", "local"]] {
        let output = home.run(words);
        assert_eq!(output.code, 5, "{words:?}");
        assert!(
            output.err.contains("Write p in its stead"),
            "{words:?}: {}",
            output.err
        );
    }
    let listed = home.run(&["context", "list"]);
    assert!(listed.out.contains("local"), "{}", listed.out);
}

#[test]
fn a_context_that_hides_a_found_one_says_so_before_it_does() {
    let home = Home::new();
    let add = &[
        "--headless",
        "context",
        "add",
        "q2",
        "--backend",
        "qemu",
        "-y",
    ][..];
    let plan = home.run(&[add, &["--dry-run"]].concat());
    assert_eq!(plan.code, 0, "{}", plan.err);
    assert!(plan.out.contains("the name local"), "{}", plan.out);
    // The default would lead nowhere.
    assert_eq!(
        home.run(&["--headless", "context", "use", "local", "-y"])
            .code,
        0
    );
    let refused = home.run(add);
    assert_eq!(refused.code, 6, "{}", refused.err);
    assert!(refused.err.contains("default context"), "{}", refused.err);
    std::fs::remove_file(home.path().join(".config/corral/config.toml")).unwrap();
    let added = home.run(add);
    assert_eq!(added.code, 0, "{}", added.err);
    assert!(added.out.contains("in the stead of local"), "{}", added.out);
}
