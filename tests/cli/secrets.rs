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
        format!("[[context]]\nname = \"p\"\nbackend = \"proxmox\"\nurl = \"https://127.0.0.1:9\"\nsecret = \"{CANARY}\"\n"),
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
    for file in home.files() {
        if file != config.display().to_string() {
            let text = String::from_utf8_lossy(&std::fs::read(&file).unwrap()).into_owned();
            assert!(!text.contains(CANARY), "{file}");
        }
    }
}
