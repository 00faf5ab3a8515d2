//! Hosts, storage and networks, images.

use corral::backend::demo::{Clock, Knobs};
use corral::tui::app::Pane;
use corral::tui::input::Input;
use corral::tui::msg::Msg;

use super::frames::frame;
use super::harness::Bench;

async fn open(width: u16, keys: &str) -> Bench {
    let knobs = Knobs {
        clock: Clock::Fixed("2026-11-30T06:00:00Z".parse().unwrap()),
        ..Knobs::instant()
    };
    let mut bench = Bench::sized(width, 24, knobs).await;
    bench.press(keys).await;
    bench
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_show_their_loads_and_lead_to_their_instances() {
    let mut bench = open(120, "g h").await;
    frame("hosts", &bench.app);
    bench.press("Enter").await;
    let text = bench.screen();
    assert!(
        text.contains("Manager") && text.contains("8 instances on it"),
        "{text}"
    );
    bench.press("Esc").await;
    while bench
        .app
        .cursors
        .get(&Pane::Hosts)
        .is_none_or(|c| c.key.as_deref() != Some("pve/pve1"))
    {
        bench.press("Down").await;
    }
    bench.press("i").await;
    let text = bench.screen();
    assert_eq!(bench.app.pane, Pane::Inventory);
    assert!(!bench.app.inventory.rows.is_empty());
    for row in &bench.app.inventory.rows {
        assert_eq!(
            (row.context.as_str(), row.host.as_deref()),
            ("pve", Some("pve1")),
            "{text}"
        );
    }
    bench.press("<").await;
    assert_eq!(bench.app.pane, Pane::Hosts);
}

#[tokio::test(flavor = "multi_thread")]
async fn storage_networks_and_images_say_what_is_full_and_who_uses_them() {
    let mut bench = open(120, "g n").await;
    frame("places", &bench.app);
    let text = bench.screen();
    assert!(text.contains("storage") && text.contains('%'), "{text}");
    bench.press("G").await;
    assert!(bench.screen().contains("network"), "{}", bench.screen());
    bench.press("g m").await;
    frame("images", &bench.app);
    bench.press("Enter").await;
    assert!(bench.screen().contains("Checksum"), "{}", bench.screen());
}

#[tokio::test(flavor = "multi_thread")]
async fn they_draw_on_every_screen_and_say_who_is_silent() {
    for keys in ["g h", "g n", "g m"] {
        let mut bench = open(80, keys).await;
        for (width, height) in [(20, 5), (40, 12), (80, 24), (200, 60), (500, 200)] {
            bench.msg(Msg::Input(Input::Resize(width, height))).await;
            let text = bench.screen();
            assert_eq!(text.lines().count(), usize::from(height), "{keys}");
        }
    }
    let knobs = Knobs {
        refused: vec!["pve".to_owned()],
        ..Knobs::instant()
    };
    let mut bench = Bench::sized(160, 24, knobs).await;
    bench.press("g h").await;
    let text = bench.screen();
    assert!(text.contains("pve") && text.contains("error:"), "{text}");
    assert!(text.contains("laptop"), "the others are there: {text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_share_is_in_numbers_before_its_bar() {
    let mut bench = Bench::new().await;
    for pane in ["g h", "g n"] {
        bench.press(pane).await;
        let text = bench.screen();
        let rows = text.lines().filter(|line| line.contains('█'));
        for row in rows {
            assert!(row.contains('%'), "{pane}: {text}");
        }
    }
}
