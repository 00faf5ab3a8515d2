//! Texts that are read: definitions that fold, and search in whatever is on the screen.

use corral::tui::app::Tab;
use corral::tui::input::Input;
use corral::tui::msg::{Msg, Reply};

use super::harness::Bench;

async fn definition() -> Bench {
    let mut bench = Bench::sized(120, 30, corral::backend::demo::Knobs::instant()).await;
    bench.select("hv1/badboot").await;
    bench.press("Enter").await;
    bench.app.detail.tab = Tab::Native;
    bench.msg(Msg::Tick).await;
    bench
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_folds_where_the_cursor_is() {
    let mut bench = definition().await;
    let text = bench.screen();
    assert!(
        text.contains("- <domain") && text.contains("<target"),
        "{text}"
    );
    bench.press("j j j j j Enter").await;
    let text = bench.screen();
    assert!(text.contains("+   <devices> …"), "{text}");
    assert!(
        !text.contains("<target") && text.contains("</devices>"),
        "{text}"
    );
    bench.press("Enter").await;
    assert!(bench.screen().contains("<target"), "{}", bench.screen());
    bench.press("f").await;
    let text = bench.screen();
    assert!(
        text.contains("- <domain") && !text.contains("<target"),
        "{text}"
    );
    bench.press("f").await;
    assert!(bench.screen().contains("<target"), "{}", bench.screen());
    // The cursor stays on the screen, however small that is.
    for size in [(20, 5), (40, 12), (500, 200), (80, 24)] {
        bench.msg(Msg::Input(Input::Resize(size.0, size.1))).await;
        bench.press(&["PgDn"; 30].join(" ")).await;
        assert!(bench.screen().contains("</domain>"), "{}", bench.screen());
        bench.press(&["PgUp"; 30].join(" ")).await;
        assert!(bench.screen().contains("<domain"), "{}", bench.screen());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_folded_is_found_too_and_hits_are_counted() {
    let mut bench = definition().await;
    bench.press("f /").await;
    bench.type_text("virtio").await;
    assert!(bench.screen().contains("1 hit"), "{}", bench.screen());
    assert!(!bench.screen().contains("<target"));
    bench.press("Enter").await;
    let text = bench.screen();
    assert!(text.contains("hit 1 of 1"), "{text}");
    assert!(text.contains("bus='virtio'"), "it was opened: {text}");
    bench.press("Esc").await;
    bench.press("/").await;
    bench.type_text("DOMAIN").await;
    assert!(bench.screen().contains("0 hits"), "upper case is meant");
    bench.press("Ctrl-C").await;
    bench.type_text("domain").await;
    bench.press("Enter").await;
    assert!(bench.screen().contains("hit 2 of 2"), "from where we were");
    let last = bench.app.detail.line;
    bench.press("n").await;
    assert_ne!(bench.app.detail.line, last);
    assert!(
        bench.screen().contains("from the top again"),
        "{}",
        bench.screen()
    );
    bench.press("N").await;
    assert!(
        bench.screen().contains("from the end again"),
        "{}",
        bench.screen()
    );
    bench.press("Esc").await;
    assert!(bench.app.search.is_none() && bench.app.detail.open);
    bench.press("n").await;
    assert!(bench.screen().contains("nothing was searched for"));
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_of_a_definition_are_hidden_until_they_are_asked_for() {
    let mut bench = definition().await;
    let (of, mut detail) = bench.app.detail.detail.value.clone().unwrap();
    if let Some(native) = &mut detail.native {
        native.text = "<graphics type='vnc' passwd='hunter2'/>\n".to_owned();
    }
    bench.app.detail.detail.value = Some((of, detail));
    let text = bench.screen();
    assert!(
        text.contains("passwd='••••••'") && !text.contains("hunter2"),
        "{text}"
    );
    bench.command("ui search hunter2").await;
    assert!(
        bench.screen().contains("is not in it"),
        "{}",
        bench.screen()
    );
    bench.press("x").await;
    assert!(bench.screen().contains("hunter2"), "{}", bench.screen());
    bench.press("Tab Down").await;
    assert!(!bench.app.detail.secrets, "another one begins hidden");
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_opened_entries_lists_and_help_are_searched_alike() {
    let mut bench = Bench::new().await;
    bench.command("list").await;
    bench.command("snapshot list hv1/db").await;
    bench.press("/").await;
    bench.type_text("post").await;
    assert!(bench.screen().contains("2 hits"), "{}", bench.screen());
    bench.press("Enter n").await;
    assert!(bench.screen().contains("hit 2 of 2"), "{}", bench.screen());
    // The rows of a list.
    bench.press("Esc g u").await;
    bench.command("ui search hibernate").await;
    let row = bench.app.cursors[&bench.app.pane].key.clone();
    assert!(row.unwrap().contains("hibernate"));
    // What is opened.
    bench.press("Esc g d Enter").await;
    bench.press("/").await;
    bench.type_text("->").await;
    bench.press("Enter").await;
    assert!(bench.screen().contains("hit 1 of 1"), "{}", bench.screen());
    // Help, over everything.
    bench.press("Esc ? /").await;
    bench.type_text("suspend").await;
    assert!(bench.screen().contains("Keys valid here"));
    bench.press("Enter").await;
    let text = bench.screen();
    assert!(
        text.contains("Ctrl-Z") && text.contains("hit 1 of"),
        "{text}"
    );
    bench.press("Esc").await;
    assert!(bench.app.overlays.is_empty() && bench.app.search.is_none());
    // The inventory's list has its filter.
    bench.press("g i").await;
    bench.command("ui search web").await;
    assert!(
        bench.screen().contains("/ filters the list"),
        "{}",
        bench.screen()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_on_the_smallest_screen_breaks_nothing() {
    let mut bench = definition().await;
    bench.msg(Msg::Input(Input::Resize(20, 5))).await;
    bench.press("/").await;
    bench.type_text("a").await;
    bench.press("Enter n n n N").await;
    bench.msg(Msg::Reply(0, Reply::Ended)).await;
    assert_eq!(bench.screen().lines().count(), 5);
}
