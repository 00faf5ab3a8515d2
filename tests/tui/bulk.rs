//! One change on many: what became of each, and again for those that failed only.

use corral::backend::demo::Knobs;
use corral::model::{TargetState, TaskState};

use super::harness::Bench;

/// Three of the forty fail with this seed; the assertions follow what really did.
fn knobs() -> Knobs {
    Knobs {
        change_failures: 0.08,
        seed: 4,
        ..Knobs::instant()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_forty_those_that_failed_stand_first_and_are_done_again_alone() {
    let mut bench = Bench::sized(100, 40, knobs()).await;
    bench
        .command("ui filter -template !context:xs !locked:yes state:running,stopped,crashed,paused,hibernated")
        .await;
    let ids: Vec<_> = bench
        .app
        .inventory
        .rows
        .iter()
        .take(40)
        .map(|row| row.id.clone())
        .collect();
    assert_eq!(ids.len(), 40);
    for id in &ids {
        bench.app.inventory.go_to(id);
        bench.press("Space").await;
    }
    assert_eq!(bench.app.inventory.marked.len(), 40);
    bench.command("tag {ids} --add bulk").await;
    bench.pass(1000).await;
    bench.type_text("tag 40").await;
    bench.press("Shift-Tab Enter").await;
    let tasks = bench.settle().await;
    assert_eq!(tasks.len(), 1, "{}", bench.screen());
    let failed: Vec<String> = tasks[0]
        .targets
        .iter()
        .filter(|target| matches!(target.state, TargetState::Failed(_)))
        .map(|target| target.id.to_string())
        .collect();
    let bad = failed.len();
    assert_eq!(
        (tasks[0].state, tasks[0].targets.len()),
        (TaskState::Partial, 40)
    );
    assert_eq!(bad, 3, "the seed gives another number");
    bench.press("u g t Enter").await;
    let text = bench.screen();
    assert!(text.contains(&format!("40/40, {bad} failed")), "{text}");
    assert!(
        text.contains(&format!(
            "{bad} failed, {} ended well · R does it again for {bad}",
            40 - bad
        )),
        "{text}"
    );
    // Those that failed stand before those that did not, each with its reason.
    let lines: Vec<&str> = text.lines().collect();
    let first = lines
        .iter()
        .position(|line| line.contains("R does it again"))
        .unwrap()
        + 1;
    for (line, id) in lines[first..].iter().zip(&failed) {
        assert!(
            line.contains(&format!("{id}: ")) && !line.contains(": done"),
            "{text}"
        );
    }
    bench.press("R").await;
    bench.pass(1000).await;
    let plan = bench.planned.last().unwrap().as_ref().unwrap();
    let planned: Vec<String> = plan
        .targets
        .iter()
        .map(|target| target.id.to_string())
        .collect();
    assert_eq!(planned, failed, "only those");
    let text = bench.screen();
    assert!(text.contains("Tag 3 instances?"), "{text}");
    bench.press("R").await;
    let tasks = bench.settle().await;
    let again: Vec<String> = tasks
        .iter()
        .find(|task| task.targets.len() == bad)
        .map(|task| task.targets.iter().map(|t| t.id.to_string()).collect())
        .unwrap_or_default();
    assert_eq!(again, failed, "{}", bench.screen());
}

#[tokio::test(flavor = "multi_thread")]
async fn going_back_leads_to_the_same_row_and_filter() {
    let mut bench = Bench::new().await;
    let at = |bench: &Bench| {
        let inventory = &bench.app.inventory;
        let row = inventory.selected().map(|row| row.id.to_string());
        (
            inventory.filter_text.clone(),
            inventory.context.clone(),
            row.unwrap_or_default(),
        )
    };
    bench.select("lab/default/cache").await;
    bench.press("/").await;
    bench.type_text("state:running").await;
    bench.press("Enter").await;
    bench.select("local/web").await;
    bench.press("2").await;
    bench.select("hv1/db").await;
    // To a host's instances and to a problem, which set filters of their own.
    bench.press("g h i").await;
    assert!(
        bench.app.inventory.filter_text.starts_with("host:"),
        "{}",
        bench.screen()
    );
    bench.press("< <").await;
    let running = |context: Option<&str>, id: &str| {
        (
            "state:running".to_owned(),
            context.map(str::to_owned),
            id.to_owned(),
        )
    };
    assert_eq!(
        at(&bench),
        running(Some("hv1"), "hv1/db"),
        "{}",
        bench.screen()
    );
    bench.press("<").await;
    assert_eq!(at(&bench), running(None, "local/web"));
    bench.press("<").await;
    assert_eq!(
        at(&bench),
        (String::new(), None, "lab/default/cache".to_owned())
    );
    bench.press("<").await;
    assert!(
        bench.screen().contains("there is nothing before this"),
        "{}",
        bench.screen()
    );
    bench.press("> >").await;
    assert_eq!(at(&bench), running(Some("hv1"), "hv1/db"));
}
