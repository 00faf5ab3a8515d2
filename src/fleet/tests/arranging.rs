//! Contexts that come, go and are opened again while the fleet runs.

use super::*;

fn at(name: &str, fake: &Arc<Fake>, url: &str) -> Member {
    let mut member = member(name, fake);
    member.spec.fields.insert("url".to_owned(), url.into());
    member
}

async fn settled(fleet: &Arc<Fleet>) -> Arc<FleetView> {
    fleet.settle(&Scope::default()).await
}

#[tokio::test(start_paused = true)]
async fn what_stays_is_not_asked_again_and_what_goes_takes_its_rows_along() {
    let (stays, goes, comes) = (
        Fake::new(rows("stays", &["a"])),
        Fake::new(rows("goes", &["b"])),
        Fake::new(rows("comes", &["c"])),
    );
    let fleet = Fleet::start(
        vec![member("stays", &stays), member("goes", &goes)],
        long_lived(),
    );
    settled(&fleet).await;
    let lists = stays.lists();
    assert!(fleet.arrange(vec![member("comes", &comes), member("stays", &stays)], &[]));
    assert_eq!(
        ids(&fleet.view()),
        ["stays/a"],
        "before the new one answers"
    );
    let view = settled(&fleet).await;
    assert_eq!(ids(&view), ["comes/c", "stays/a"]);
    assert_eq!(stays.lists(), lists, "it was asked anew");
    let asked = goes.lists();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(goes.lists(), asked, "it is asked after it went");
    assert!(fleet.member("goes").is_none());
    assert!(!fleet.arrange(vec![member("comes", &comes), member("stays", &stays)], &[]));
}

#[tokio::test(start_paused = true)]
async fn one_opened_again_shows_what_was_known_until_it_answers() {
    let old = Fake::new(rows("a", &["x"]));
    let fleet = Fleet::start(vec![member("a", &old)], long_lived());
    settled(&fleet).await;
    let new = Fake::new(Mode::Hang);
    let mut guarded = member("a", &new);
    guarded.spec.protected = true;
    assert!(fleet.arrange(vec![guarded], &[]));
    let view = fleet.view();
    assert_eq!(view.contexts[0].health, Health::Connecting);
    assert!(view.contexts[0].protected && view.contexts[0].answered_at.is_some());
    let row = &view.instances[0];
    assert!(row.stale && row.protected);
    assert_eq!(
        (row.state, row.last_state),
        (State::Unknown, Some(State::Running))
    );
    new.set(rows("a", &["x"]));
    fleet.refresh(None);
    let view = settled(&fleet).await;
    assert!(!view.instances[0].stale, "{view:?}");
}

#[tokio::test(start_paused = true)]
async fn another_server_under_the_name_inherits_nothing() {
    let (old, new) = (Fake::new(rows("a", &["x"])), Fake::new(Mode::Hang));
    let fleet = Fleet::start(vec![at("a", &old, "https://one")], long_lived());
    settled(&fleet).await;
    fleet.arrange(vec![at("a", &new, "https://two")], &[]);
    assert_eq!(ids(&fleet.view()), Vec::<String>::new());
    assert_eq!(fleet.view().contexts[0].answered_at, None);
}

#[tokio::test(start_paused = true)]
async fn a_change_under_way_is_settled_by_the_first_answer_after_it_was_opened_again() {
    let old = Fake::new(rows("a", &["x"]));
    let fleet = Fleet::start(vec![member("a", &old)], long_lived());
    for _ in 0..3 {
        fleet.refresh(None);
        settled(&fleet).await;
    }
    let id = row("a", "x", State::Running).id;
    fleet.set_pending(&id, "stop");
    let new = Fake::new(rows("a", &["x"]));
    assert!(fleet.arrange(vec![member("a", &new)], &["a".to_owned()]));
    assert_eq!(fleet.pending().len(), 1, "it is still under way");
    fleet.clear_pending(&id);
    settled(&fleet).await;
    assert_eq!(fleet.pending().len(), 0);
    assert!(new.lists() > 0);
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_a_context_that_goes_waits_no_longer() {
    let hangs = Fake::new(Mode::Hang);
    let fleet = Fleet::start(vec![member("a", &hangs)], long_lived());
    let waiting = {
        let fleet = Arc::clone(&fleet);
        tokio::spawn(async move { fleet.settle(&Scope::default()).await })
    };
    tokio::task::yield_now().await;
    let begun = tokio::time::Instant::now();
    fleet.arrange(Vec::new(), &[]);
    let view = waiting.await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(1));
    assert!(view.contexts.is_empty());
}
