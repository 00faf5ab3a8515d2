//! The curves of an instance's load.

use corral::backend::demo::Knobs;
use corral::model::{Bytes, Sample};
use corral::tui::app::Tab;
use corral::tui::msg::{Effect, Msg, Reply};
use jiff::Timestamp;

use super::harness::Bench;

fn readings(n: u32) -> Vec<Sample> {
    (0..n)
        .map(|i| Sample {
            at: Timestamp::from_second(1_700_000_000 + i64::from(i) * 5).unwrap(),
            cpu_percent: Some(if i == n / 2 { 80.0 } else { f64::from(i % 10) }),
            memory_bytes: Some(Bytes::mib(300 + u64::from(i))),
            disk_read_bps: Some(0),
            disk_write_bps: Some(4096 * u64::from(i)),
            net_rx_bps: None,
            net_tx_bps: None,
        })
        .collect()
}

async fn open(width: u16, height: u16) -> Bench {
    let mut bench = Bench::sized(width, height, Knobs::instant()).await;
    bench.select("local/web").await;
    bench.press("d").await;
    while bench.app.detail.tab != Tab::Metrics {
        bench.press(".").await;
    }
    bench
}

#[tokio::test(flavor = "multi_thread")]
async fn the_load_of_the_last_minutes_is_drawn_and_goes_on() {
    let mut bench = open(120, 40).await;
    assert!(bench.screen().contains("[Metrics]"));
    let asked = bench.effects.iter().rev().find_map(|effect| match effect {
        Effect::Samples(number, id) => Some((*number, id.to_string())),
        _ => None,
    });
    let (_, id) = asked.unwrap();
    assert_eq!(id, "local/web");
    // What nobody asked for changes nothing.
    bench
        .msg(Msg::Reply(9_999, Reply::Samples(readings(3))))
        .await;
    assert!(!bench.screen().contains("highest"));
    bench.hold = true;
    bench.msg(Msg::Tick).await;
    let number = bench.app.detail.sampled.unwrap();
    bench
        .msg(Msg::Reply(number, Reply::Samples(readings(120))))
        .await;
    let text = bench.screen();
    for word in [
        "CPU",
        "highest 80 %",
        "Memory",
        "419 MiB",
        "Disk write",
        "/s",
        "█",
    ] {
        assert!(text.contains(word), "{word} in\n{text}");
    }
    assert!(!text.contains("Received"), "it is not measured");
    let before = bench.effects.len();
    bench.msg(Msg::Drawn).await;
    assert_eq!(
        bench.effects.len(),
        before,
        "nothing is asked twice for one reading"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_is_off_says_so_and_small_screens_hold() {
    let mut bench = Bench::sized(40, 20, Knobs::instant()).await;
    bench.select("local/win11").await;
    bench.press("d").await;
    while bench.app.detail.tab != Tab::Metrics {
        bench.press(".").await;
    }
    let text = bench.screen();
    assert!(text.contains("does not run"), "{text}");
    bench.hold = true;
    for size in [(20, 5), (40, 12), (80, 24), (500, 200)] {
        let resize = corral::tui::input::Input::Resize(size.0, size.1);
        bench.msg(Msg::Input(resize)).await;
        bench.app.detail.samples = readings(120);
        let text = bench.screen();
        assert_eq!(text.lines().count(), usize::from(size.1));
    }
}
