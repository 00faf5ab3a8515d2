//! QMP against servers that hang, lie and die.

use proptest::prelude::*;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::UnixListener;

use super::*;
use crate::model::ErrorKind;

const GREETING: &str = include_str!("../../tests/fixtures/qemu/greeting.json");
const LIMIT: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(150);

fn one_line(json: &str) -> String {
    let value: Value = serde_json::from_str(json).unwrap();
    format!("{value}\n")
}

/// A server that greets, answers `qmp_capabilities`, then sends `answers` one per request. With
/// `{id}` in them, the request's ID. After the last it waits for the client to leave.
struct Server {
    dir: tempfile::TempDir,
}

impl Server {
    fn start(first: Vec<u8>, answers: Vec<Vec<u8>>, die: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join("qmp")).unwrap();
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let (read, mut write) = stream.into_split();
            let mut lines = BufReader::new(read).lines();
            let _ = write.write_all(&first).await;
            for answer in answers {
                let Ok(Some(line)) = lines.next_line().await else {
                    return;
                };
                let request: Value = serde_json::from_str(&line).unwrap();
                let text =
                    String::from_utf8_lossy(&answer).replace("{id}", &request["id"].to_string());
                let bytes = if text.contains('\u{fffd}') {
                    answer
                } else {
                    text.into_bytes()
                };
                let _ = write.write_all(&bytes).await;
            }
            if !die {
                while let Ok(Some(_)) = lines.next_line().await {}
            }
        });
        Self { dir }
    }

    fn greeting(answers: &[&str]) -> Self {
        Self::ending(answers, false)
    }

    fn ending(answers: &[&str], die: bool) -> Self {
        let mut all = vec![b"{\"return\": {}, \"id\": {id}}\r\n".to_vec()];
        all.extend(answers.iter().map(|a| a.as_bytes().to_vec()));
        Self::start(one_line(GREETING).into_bytes(), all, die)
    }

    async fn connect(&self) -> Result<Qmp> {
        Qmp::connect(&self.dir.path().join("qmp"), "vm", LIMIT).await
    }
}

#[tokio::test]
async fn answers_and_events_between_are_told_apart() {
    let events: Value = serde_json::from_str(include_str!(
        "../../tests/fixtures/qemu/events-powerdown.json"
    ))
    .unwrap();
    let status: Value =
        serde_json::from_str(include_str!("../../tests/fixtures/qemu/query-status.json")).unwrap();
    let mut answer = status.as_object().unwrap().clone();
    answer.insert("id".into(), json!(2));
    let text = format!(
        "{}\n\n{}\n{}\n",
        events[0],
        events[1],
        Value::Object(answer)
    );
    let server = Server::greeting(&[&text]);
    let mut qmp = server.connect().await.unwrap();
    assert_eq!(qmp.version(), "7.2.22");
    assert_eq!(qmp.peer_pid(), Some(std::process::id()));
    let status = qmp
        .execute("query-status", Value::Null, LIMIT)
        .await
        .unwrap();
    assert_eq!(status["status"], "running");
    assert_eq!(qmp.next_event().await.unwrap().name, "POWERDOWN");
    let left = qmp.take_events();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].data["reason"], "guest-shutdown");
    assert_eq!(left[0].at.unwrap().as_second(), 1_796_006_518);
}

#[tokio::test]
async fn errors_carry_the_words_of_qemu() {
    let server = Server::greeting(&[
        "{\"error\":{\"class\":\"CommandNotFound\",\"desc\":\"The command x has not been found\"},\"id\":{id}}\n",
        "{\"error\":{\"class\":\"GenericError\",\"desc\":\"no \\u001b[31mway\"},\"id\":{id}}\n",
        "{\"error\":7,\"id\":{id}}\n",
    ]);
    let mut qmp = server.connect().await.unwrap();
    let first = qmp.execute("x", json!({}), LIMIT).await.unwrap_err();
    assert_eq!(first.kind, ErrorKind::Unsupported);
    let second = qmp.execute("y", json!({"a": 1}), LIMIT).await.unwrap_err();
    assert_eq!(second.kind, ErrorKind::Backend);
    assert_eq!(second.message, "vm: QEMU refused y: no \\x1b[31mway");
    let third = qmp.execute("z", Value::Null, LIMIT).await.unwrap_err();
    assert!(third.message.contains("no reason"), "{third}");
}

#[tokio::test]
async fn nobody_there_and_nobody_speaking_are_two_things() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("qmp");
    let gone = Qmp::connect(&path, "vm", LIMIT).await.unwrap_err();
    assert_eq!(gone.kind, ErrorKind::Unreachable);
    let _listener = UnixListener::bind(&path).unwrap();
    let hung = Qmp::connect(&path, "vm", SHORT).await.unwrap_err();
    assert_eq!(hung.kind, ErrorKind::TimedOut);
    assert!(hung.message.contains("no greeting"), "{hung}");
}

#[tokio::test]
async fn a_late_answer_is_not_taken_for_the_next_one() {
    let server = Server::greeting(&[
        "",
        "{\"return\": {\"late\": true}, \"id\": 2}\n{\"return\": {\"right\": true}, \"id\": {id}}\n",
    ]);
    let mut qmp = server.connect().await.unwrap();
    let slow = qmp.execute("slow", Value::Null, SHORT).await.unwrap_err();
    assert_eq!(slow.kind, ErrorKind::TimedOut);
    let next = qmp.execute("next", Value::Null, LIMIT).await.unwrap();
    assert_eq!(next["right"], true);
}

#[tokio::test]
async fn death_in_mid_answer_is_unreachable_and_stays_so() {
    let server = Server::ending(&["{\"return\": {\"sta"], true);
    let mut qmp = server.connect().await.unwrap();
    let error = qmp
        .execute("query-status", Value::Null, LIMIT)
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unreachable);
    assert!(error.message.contains("middle of an answer"), "{error}");
    let again = qmp
        .execute("query-status", Value::Null, LIMIT)
        .await
        .unwrap_err();
    assert_eq!(again.kind, ErrorKind::Unreachable);
}

#[tokio::test]
async fn lies_are_named() {
    for lie in [
        "[]\n",
        "null\n",
        "{}\n",
        "\"QMP\"\n",
        "hello\n",
        "{\"QMP\": 3}\n",
        "\u{0}\n",
    ] {
        let server = Server::start(lie.as_bytes().to_vec(), Vec::new(), false);
        let error = server.connect().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Backend, "{lie}");
    }
    for lie in ["{}\n", "{\"id\":{id}}\n", "{\"return\":1}\n", "3\n"] {
        let server = Server::greeting(&[lie]);
        let mut qmp = server.connect().await.unwrap();
        let error = qmp.execute("x", Value::Null, LIMIT).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Backend, "{lie}");
    }
}

#[tokio::test]
async fn an_endless_line_is_bounded() {
    let server = Server::start(vec![b'x'; MAX_LINE + 100_000], Vec::new(), false);
    let error = server.connect().await.unwrap_err();
    assert!(error.message.contains("8 MiB"), "{error}");
}

#[tokio::test]
async fn a_flood_of_events_is_bounded() {
    let flood = "{\"event\":\"RTC_CHANGE\",\"data\":null,\"timestamp\":\"never\"}\n".repeat(3000);
    let server = Server::greeting(&[&format!("{flood}{{\"return\":{{}},\"id\":{{id}}}}\n")]);
    let mut qmp = server.connect().await.unwrap();
    qmp.execute("x", Value::Null, LIMIT).await.unwrap();
    let events = qmp.take_events();
    assert_eq!(events.len(), MAX_EVENTS);
    assert_eq!(events[0].at, None);
    assert_eq!(events[0].data, json!({}));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever bytes come, in whatever place: an error or a value, never a panic or a hang.
    #[test]
    fn never_panics_on_any_bytes(first in proptest::collection::vec(any::<u8>(), 0..200), answer in proptest::collection::vec(any::<u8>(), 0..200), greet: bool) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let first = if greet { one_line(GREETING).into_bytes() } else { first };
            let server = Server::start(first, vec![b"{\"return\":{},\"id\":1}\n".to_vec(), answer], true);
            if let Ok(mut qmp) = Qmp::connect(&server.dir.path().join("qmp"), "vm", SHORT).await {
                let _ = qmp.execute("x", Value::Null, SHORT).await;
                let _ = tokio::time::timeout(SHORT, qmp.next_event()).await;
            }
        });
    }
}
