use jiff::Timestamp;

use super::*;
use crate::model::EventLevel;

fn id(n: usize) -> InstanceId {
    InstanceId::new("a", None, &format!("vm{n}"))
}

fn event(of: Option<InstanceId>, message: &str, n: usize) -> Event {
    Event {
        at: Timestamp::from_second(i64::try_from(n).unwrap()).unwrap(),
        context: "a".to_owned(),
        instance: of,
        level: EventLevel::Info,
        kind: "state".to_owned(),
        message: message.to_owned(),
    }
}

fn sample() -> Sample {
    Sample {
        at: Timestamp::UNIX_EPOCH,
        cpu_percent: None,
        memory_bytes: None,
        disk_read_bps: None,
        disk_write_bps: None,
        net_rx_bps: None,
        net_tx_bps: None,
    }
}

#[tokio::test]
async fn what_is_kept_has_a_bound_for_each_and_for_all() {
    let recorder = Recorder::new(None);
    for n in 0..EVENTS + 10 {
        recorder.event(&event(Some(id(0)), "x", n), true);
    }
    assert_eq!(recorder.events(Some(&id(0)), None).await.len(), EVENTS);
    for n in 1..ALL_EVENTS + 50 {
        recorder.event(&event(Some(id(n)), "x", n), true);
    }
    let (_, count) = lock(&recorder.events).size();
    assert!(count <= ALL_EVENTS && count > ALL_EVENTS / 2, "{count}");
    assert!(
        recorder.events(Some(&id(0)), None).await.is_empty(),
        "the oldest went"
    );
    let newest = id(ALL_EVENTS + 49);
    assert_eq!(recorder.events(Some(&newest), None).await.len(), 1);
    for n in 0..ALL_SAMPLES / SAMPLES + 9 {
        for _ in 0..SAMPLES {
            recorder.sampled(vec![(id(n), sample())]);
        }
    }
    let (_, count) = lock(&recorder.samples).size();
    assert!(count <= ALL_SAMPLES, "{count}");
}

#[tokio::test]
async fn what_is_gone_leaves_its_last_word() {
    let recorder = Recorder::new(None);
    for (n, word) in ["started", "stopped", "deleted"].iter().enumerate() {
        recorder.event(&event(Some(id(1)), word, n), false);
    }
    recorder.sampled(vec![(id(1), sample()), (id(2), sample())]);
    recorder.gone(&[id(1), id(7)]);
    let kept = recorder.events(Some(&id(1)), None).await;
    let words: Vec<&str> = kept.iter().map(|e| e.message.as_str()).collect();
    assert_eq!(words, ["deleted"]);
    assert!(recorder.samples(&id(1)).is_empty());
    assert_eq!(recorder.samples(&id(2)).len(), 1);
    assert_eq!(lock(&recorder.samples).size(), (1, 1));
    recorder.forget("a");
    assert_eq!(lock(&recorder.events).size(), (0, 0));
    assert_eq!(lock(&recorder.samples).size(), (0, 0));
}

#[tokio::test]
async fn files_are_rotated_and_both_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let long = "x".repeat(1 << 20);
    let recorder = Recorder::new(Some(dir.path().to_owned()));
    for n in 0..6 {
        recorder.event(&event(None, &long, n), true);
    }
    recorder.event(&event(None, "kept at its backend", 9), false);
    recorder.flush().await;
    assert!(dir.path().join("events/a.jsonl.1").exists());
    // Another corral reads what this one wrote, torn lines and all.
    let file = dir.path().join("events/a.jsonl");
    let mut text = std::fs::read_to_string(&file).unwrap();
    text.push_str("{\"torn");
    std::fs::write(&file, text).unwrap();
    let other = Recorder::new(Some(dir.path().to_owned()));
    assert_eq!(other.events(None, Some("a")).await.len(), 6);
    assert_eq!(recorder.events(None, Some("a")).await.len(), 7);
}

#[tokio::test]
async fn a_disk_that_takes_nothing_holds_nobody_up() {
    let dir = tempfile::tempdir().unwrap();
    // A pipe that nobody reads: whoever opens it for writing waits.
    let events = dir.path().join("events");
    std::fs::create_dir_all(&events).unwrap();
    let pipe = events.join("a.jsonl");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let recorder = Recorder::new(Some(dir.path().to_owned()));
    for n in 0..12_000 {
        recorder.event(&event(Some(id(1)), "x", n), true);
    }
    assert_eq!(
        lock(&recorder.events)
            .of(&("a".to_owned(), Some(id(1))))
            .count(),
        EVENTS
    );
}
