//! What lies over the panes says what matters, as far as there is room.

use super::fixture::{app, fleet, press, setup};
use super::harness::{Bench, screen};
use corral::backend::demo::Knobs;

#[tokio::test(flavor = "multi_thread")]
async fn the_menu_says_what_force_makes_of_an_action() {
    let mut bench = Bench::sized(120, 30, Knobs::instant()).await;
    bench.select("local/scratch").await;
    bench.press("a").await;
    let text = bench.screen();
    let row = |what: &str| {
        let row = text.lines().find(|line| line.contains(what));
        row.unwrap_or_else(|| panic!("no {what}\n{text}"))
            .to_owned()
    };
    assert!(row(" stop --force ").contains("Powers off now"), "{text}");
    assert!(row(" restart --force ").contains("Resets now"), "{text}");
    assert!(!row(" stop  ").contains("Powers off"), "{text}");
    // There is room for all of it at this width.
    assert!(text.contains("snapshot create --with-memory"), "{text}");
    for line in text.lines().filter(|line| line.contains('│')) {
        let inside = line.split('│').nth(1).unwrap();
        assert!(!inside.contains('…'), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_special_about_an_action_is_not_cut_away() {
    let mut bench = Bench::new().await;
    bench.select("local/scratch").await;
    bench.press("a").await;
    let number = bench.app.requests;
    let how = corral::model::Support::Emulated("not for all of them; the plan says which".into());
    let all = corral::model::Operation::ALL.map(|operation| (operation, how.clone()));
    let reply = corral::tui::msg::Reply::Support(all.to_vec());
    bench.msg(corral::tui::msg::Msg::Reply(number, reply)).await;
    let text = bench.screen();
    let row = text.lines().find(|line| line.contains(" stop --force "));
    let told = "not for all of them; the plan says which";
    assert!(row.unwrap().contains(told), "{text}");
}

#[test]
fn help_says_all_of_it_at_every_width() {
    for width in [30, 40, 80, 120] {
        let mut app = app(setup(width, 200), fleet());
        press(&mut app, "?");
        let text = screen(&app);
        // What stands in the box.
        let words: Vec<&str> = text
            .lines()
            .filter_map(|line| line.split('│').nth(1))
            .flat_map(str::split_whitespace)
            .collect();
        let said = words.join(" ");
        assert!(said.contains("Esc: nothing is done"), "{width}: {text}");
        assert!(
            said.contains("z leaves one pane on the screen"),
            "{width}: {text}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_marked_is_told_before_what_may_be_cut() {
    let mut bench = Bench::new().await;
    bench.select("local/scratch").await;
    bench.press("*").await;
    bench
        .command("ui filter a-long-word-that-nothing-has")
        .await;
    let text = bench.screen();
    assert!(
        text.contains("marked,") && text.contains("of them hidden"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_menu_of_actions_is_searched_and_no_letter_of_it_is_a_command() {
    let mut bench = Bench::new().await;
    bench.select("local/scratch").await;
    for typed in ["stop", "/restore", "ps"] {
        bench.press("a").await;
        bench.type_text(typed).await;
        assert!(bench.app.tasks.is_empty(), "{typed}: {}", bench.screen());
        assert!(
            !bench.app.overlays.is_empty(),
            "{typed}: {}",
            bench.screen()
        );
        bench.press("Esc Esc").await;
        assert!(bench.app.overlays.is_empty(), "{typed}: {}", bench.screen());
        assert_eq!(bench.app.inventory.sort, "name");
    }
    bench.press("a /").await;
    bench.type_text("hibern").await;
    let text = bench.screen();
    assert!(text.contains("/ hibern"), "{text}");
    assert!(!text.contains(" stop --force "), "{text}");
    bench.type_text("xx").await;
    assert!(
        bench.screen().contains("nothing has that in it"),
        "{}",
        bench.screen()
    );
    // All are shown again, then it closes.
    bench.press("Esc").await;
    assert!(
        bench.screen().contains(" stop --force "),
        "{}",
        bench.screen()
    );
    bench.press("/").await;
    bench.type_text("snapshot create").await;
    bench.press("Enter").await;
    let text = bench.screen();
    assert!(
        text.contains("corral snapshot create local/scratch"),
        "{text}"
    );
}
