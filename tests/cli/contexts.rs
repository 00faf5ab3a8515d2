//! Contexts that are fetched, added and left alone by one-shot commands.

use super::harness::Home;

fn home(secret: &str) -> Home {
    let home = Home::new();
    let dir = home.path().join(".config/corral");
    std::fs::create_dir_all(&dir).unwrap();
    let text = format!(
        "discover = false\n[[context]]\nname = \"fast\"\nbackend = \"qemu\"\n\
         [[context]]\nname = \"locked\"\nbackend = \"qemu\"\nsecret = {{ command = [{secret}] }}\n"
    );
    std::fs::write(dir.join("config.toml"), text).unwrap();
    home
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
