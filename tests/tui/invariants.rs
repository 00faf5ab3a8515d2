//! What holds at every size, for every message.

use corral::model::shown_width;
use corral::tui::input::{Code, Input, Key};
use corral::tui::msg::{Msg, Reply};
use corral::tui::update;
use proptest::prelude::*;

use super::fixture::{app, at, fleet, setup};
use super::harness::draw;

fn any_key() -> impl Strategy<Value = Key> {
    let codes = prop_oneof![
        8 => proptest::char::range(' ', '~').prop_map(Code::Char),
        1 => any::<char>().prop_map(Code::Char),
        1 => Just(Code::Enter),
        2 => Just(Code::Esc),
        1 => Just(Code::Tab),
        1 => Just(Code::BackTab),
        1 => Just(Code::Backspace),
        1 => Just(Code::Up),
        1 => Just(Code::Down),
        1 => Just(Code::Left),
        1 => Just(Code::Right),
        1 => Just(Code::PageDown),
        1 => Just(Code::End),
    ];
    (codes, proptest::bool::weighted(0.05)).prop_map(|(code, ctrl)| Key { code, ctrl })
}

fn any_msg() -> impl Strategy<Value = Msg> {
    prop_oneof![
        20 => any_key().prop_map(|key| Msg::Input(Input::Key(key))),
        1 => any::<String>().prop_map(|text| Msg::Input(Input::Paste(text))),
        1 => (any::<u16>(), any::<u16>()).prop_map(|(x, y)| Msg::Input(Input::Click(x, y))),
        1 => any::<bool>().prop_map(|down| Msg::Input(Input::Wheel(down))),
        2 => (1u16..300, 1u16..100).prop_map(|(w, h)| Msg::Input(Input::Resize(w, h))),
        1 => Just(Msg::Tick),
        2 => Just(Msg::Drawn),
        1 => (0u64..50).prop_map(|n| Msg::Reply(n, Reply::Ended)),
        1 => (0u64..50).prop_map(|n| Msg::Reply(n, Reply::Planned(Err(super::fixture::silent())))),
        1 => any::<String>().prop_map(|text| Msg::Notice(text, true)),
    ]
}

/// Every line is exactly as wide as the screen, cluster by cluster.
fn check(app: &corral::tui::app::App) {
    let buffer = draw(app);
    let area = buffer.area;
    for y in area.top()..area.bottom() {
        let mut x = area.left();
        while x < area.right() {
            let symbol = buffer[(x, y)].symbol();
            assert!(!symbol.contains(char::is_control), "{symbol:?}");
            x += (shown_width(symbol) as u16).max(1);
        }
        assert_eq!(x, area.right(), "line {y} of {area:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn req_26_req_27_no_message_at_no_size_breaks_a_line(
        width in 1u16..260,
        height in 1u16..70,
        msgs in proptest::collection::vec(any_msg(), 0..60),
    ) {
        let mut app = app(setup(width, height), fleet());
        check(&app);
        for (n, msg) in msgs.into_iter().enumerate() {
            update::update(&mut app, at(n as u64 * 90), msg);
            if n % 4 == 0 {
                check(&app);
            }
        }
        check(&app);
    }
}

#[test]
fn req_26_it_draws_from_20_by_5_to_500_by_200() {
    for (width, height) in [(20, 5), (40, 10), (80, 24), (200, 60), (500, 200)] {
        check(&app(setup(width, height), fleet()));
    }
}
