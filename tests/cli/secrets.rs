use super::harness::Home;

const CANARY: &str = "canary-5f1e-do-not-print";

/// Everything that corral writes or prints at the loudest level, with a secret in every place that one
/// can stand.
#[test]
fn req_19_no_secret_is_ever_printed_or_written() {
    let home = Home::new();
    let dir = home.path().join(".config/corral");
    std::fs::create_dir_all(&dir).unwrap();
    let config = dir.join("config.toml");
    std::fs::write(
        &config,
        format!("[[context]]\nname = \"p\"\nbackend = \"proxmox\"\nurl = \"https://127.0.0.1:9\"\nsecret = \"{CANARY}\"\n\
            [[context]]\nname = \"r\"\nbackend = \"qemu\"\nsecret = \"{CANARY}\"\n"),
    )
    .unwrap();
    for words in [
        &["list", "-o", "json"][..],
        &["list"][..],
        &["doctor", "-o", "json"][..],
        &["context", "list", "-o", "json"][..],
        &["context", "get", "p"][..],
        &["config", "show", "-o", "json"][..],
        &["config", "check"][..],
        &["history"][..],
    ] {
        let output = home
            .command()
            .args(["--headless", "--no-discover"])
            .args(words)
            .env("CORRAL_LOG", "trace")
            .env("MY_TOKEN", CANARY)
            .output()
            .unwrap();
        for text in [&output.stdout, &output.stderr] {
            assert!(!String::from_utf8_lossy(text).contains(CANARY), "{words:?}");
        }
    }
    // Changes, too: a secret by pipe, user-data of a guest, a password of its user.
    let plain = home.path().join("user-data");
    std::fs::write(&plain, format!("#cloud-config\npassword: {CANARY}\n")).unwrap();
    let plain = plain.display().to_string();
    for (words, input) in [
        (
            &["context", "add", "q", "--backend", "qemu", "--secret-stdin"][..],
            CANARY,
        ),
        (
            &[
                "create",
                "a",
                "--disk",
                "1M",
                "--context",
                "q",
                "--user-data",
                &plain,
            ],
            "",
        ),
        (&["info", "q/a", "-o", "json"], ""),
        (&["info", "q/a", "--native"], ""),
        (&["tasks", "-o", "json"], ""),
        (&["history", "-o", "json"], ""),
        (&["delete", "q/a", "--confirm", "a", "--dry-run"], ""),
        (&["config", "show"], ""),
    ] {
        let output = home.pipe(words, input);
        assert!(
            !output.out.contains(CANARY) && !output.err.contains(CANARY),
            "{words:?}"
        );
    }
    // What the user wrote, what the guest is to read, and where secrets are kept.
    let kept = ".config/corral/secrets";
    let theirs = [".local/share/corral/vms/a/seed.img", "user-data", kept]
        .map(|own| home.path().join(own).display().to_string());
    let mode = std::fs::metadata(home.path().join(kept).join("q")).unwrap();
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&mode.permissions()) & 0o777,
        0o600
    );
    for file in home.files() {
        if theirs.iter().any(|own| file.starts_with(own)) {
            continue;
        }
        if file != config.display().to_string() {
            let text = String::from_utf8_lossy(&std::fs::read(&file).unwrap()).into_owned();
            assert!(!text.contains(CANARY), "{file}");
        }
    }
}
