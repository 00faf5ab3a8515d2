//! A running corral follows its configuration.

use std::sync::Arc;
use std::time::Duration;

use corral::action::grammar::{self, RunOptions};
use corral::action::reload;
use corral::backend::contract::ReadCx;
use corral::model::{Consent, ErrorKind, FleetView, Health, Result, Scope};
use futures::StreamExt as _;

use crate::running::{Running, context};

impl Running {
    /// A command line, to its end.
    async fn run(&self, line: &str) -> Result<()> {
        let words = grammar::tokenize(line)?;
        let Ok(invocation) = grammar::parse(&words) else {
            panic!("{line} is no command");
        };
        let plan = self.engine.plan(&invocation.action).await?;
        let consent = Consent {
            yes: true,
            typed: plan.targets.first().map(|target| target.name.clone()),
        };
        let options = RunOptions::default();
        let handle = self.engine.submit(&plan, &consent, &options).await?;
        self.engine.board().idle().await;
        let tasks = self.engine.board().all();
        let task = tasks.iter().find(|task| task.id == handle.id).unwrap();
        assert!(task.state.is_final());
        assert_eq!(task.state.as_str(), "done", "{line}: {:?}", task.log);
        Ok(())
    }

    /// Waits for the fleet to be so.
    async fn until(&self, what: &str, holds: impl Fn(&FleetView) -> bool) -> Arc<FleetView> {
        let mut changed = self.engine.fleet().subscribe();
        let wait = async {
            loop {
                let view = self.engine.fleet().view();
                if holds(&view) {
                    return view;
                }
                changed.changed().await.unwrap();
            }
        };
        match tokio::time::timeout(Duration::from_secs(20), wait).await {
            Ok(view) => view,
            Err(_) => panic!("never: {what}: {:#?}", self.engine.fleet().view()),
        }
    }
}

/// The IDs of a view.
fn ids(view: &FleetView) -> Vec<String> {
    view.instances
        .iter()
        .map(|row| row.id.to_string())
        .collect()
}

fn names(view: &FleetView) -> Vec<&str> {
    view.contexts.iter().map(|c| c.name.as_str()).collect()
}

fn answers(view: &FleetView, name: &str) -> bool {
    view.context(name).is_some_and(|c| c.health.is_ok())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contexts_come_and_go_with_their_rows_and_others_are_left_alone() {
    let corral = Running::new(&context("one", ""));
    corral
        .until("one answers", |view| answers(view, "one"))
        .await;
    let before = corral.engine.fleet().member("one").unwrap();

    corral.run("context add two --backend qemu").await.unwrap();
    let view = corral
        .until("two answers", |view| answers(view, "two"))
        .await;
    assert_eq!(names(&view), ["one", "two"]);
    assert_eq!(ids(&view), ["one/web", "two/web"]);

    corral.run("context disable one").await.unwrap();
    assert_eq!(ids(&corral.engine.fleet().view()), ["two/web"]);
    corral.run("context enable one").await.unwrap();
    let view = corral
        .until("one is back", |view| answers(view, "one"))
        .await;
    assert_eq!(names(&view), ["one", "two"], "in the order of the file");

    let two = corral.engine.fleet().member("two").unwrap();
    corral
        .run("context set one --set protected=true")
        .await
        .unwrap();
    let view = corral
        .until("one answers again", |view| answers(view, "one"))
        .await;
    assert!(view.context("one").unwrap().protected && view.instances[0].protected);
    corral.run("context remove one").await.unwrap();
    assert_eq!(ids(&corral.engine.fleet().view()), ["two/web"]);
    let now = corral.engine.fleet().member("two").unwrap();
    assert!(Arc::ptr_eq(&two, &now), "two was opened again");
    assert!(!Arc::ptr_eq(&before, &now));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guards_follow_the_file() {
    let corral = Running::new(&context("one", ""));
    corral
        .until("one answers", |view| answers(view, "one"))
        .await;
    corral
        .run("context set one --set readonly=true")
        .await
        .unwrap();
    let refusal = corral.engine.readonly_reason("one").unwrap();
    let remedy = refusal.remedy.unwrap();
    assert!(
        remedy.contains("context set one --set readonly=false"),
        "{remedy}"
    );
    let why = refusal.message;
    assert!(why.contains("context one is read-only"), "{why}");
    let mut news = reload::follow(Arc::clone(&corral.engine));
    corral.edit(&format!(
        "readonly = true\n[bulk]\nconcurrency = 2\n{}",
        context("one", "")
    ));
    let reloaded = news.next().await.unwrap();
    assert!(
        reloaded.readonly && reloaded.fault.is_none(),
        "{reloaded:?}"
    );
    assert_eq!(corral.engine.concurrency(), 2);
    let error = corral
        .run("context add two --backend qemu")
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused);
    corral.edit(&context("one", ""));
    assert!(!news.next().await.unwrap().readonly);
    assert_eq!(corral.engine.readonly_reason("one"), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_file_keeps_what_held_and_names_the_place() {
    let corral = Running::new(&context("one", ""));
    corral
        .until("one answers", |view| answers(view, "one"))
        .await;
    let member = corral.engine.fleet().member("one").unwrap();
    let mut news = reload::follow(Arc::clone(&corral.engine));
    corral.edit(&format!("{}\nreadonly = = true\n", context("one", "")));
    let reloaded = news.next().await.unwrap();
    let fault = reloaded.fault.unwrap();
    assert!(
        fault.contains("config.toml:6:12: this is not TOML"),
        "{fault}"
    );
    assert!(fault.contains("the contexts stay"), "{fault}");
    assert!(reloaded.readonly, "it may have said so");
    assert!(!reloaded.contexts_changed);
    assert_eq!(ids(&corral.engine.fleet().view()), ["one/web"]);
    assert!(Arc::ptr_eq(
        &member,
        &corral.engine.fleet().member("one").unwrap()
    ));
    // The same fault is told once.
    corral.edit(&format!("{}\nreadonly = = true\n ", context("one", "")));
    assert_eq!(news.next().await.unwrap().fault, None);
    corral.edit(&format!("{}{}", context("one", ""), context("two", "")));
    let reloaded = news.next().await.unwrap();
    assert!(reloaded.contexts_changed && !reloaded.readonly && reloaded.fault.is_none());
    assert_eq!(names(&corral.engine.fleet().view()), ["one", "two"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_that_does_not_come_holds_up_its_own_context_only() {
    let slow = context("slow", "secret = { command = [\"sleep\", \"60\"] }");
    let corral = Running::new(&format!("{slow}{}", context("fast", "")));
    let view = corral
        .until("fast answers", |view| answers(view, "fast"))
        .await;
    assert_eq!(view.context("slow").unwrap().health, Health::Connecting);
    let scope = Scope {
        contexts: vec!["fast".to_owned()],
        ..Scope::default()
    };
    let settled = corral.engine.fleet().settle(&scope).await;
    assert_eq!(settled.context("slow").unwrap().health, Health::Connecting);
    let view = corral
        .until("slow says why", |view| {
            view.context("slow").unwrap().health.error().is_some()
        })
        .await;
    let Health::LoginNeeded(error) = &view.context("slow").unwrap().health else {
        panic!("{view:?}");
    };
    assert_eq!(error.context.as_deref(), Some("slow"));
    assert!(
        error.message.contains("sleep did not give it within"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_command_that_failed_is_not_run_again_until_somebody_asks() {
    let home = tempfile::tempdir().unwrap();
    let log = home.path().join("log");
    let script = home.path().join("secret");
    let text = format!(
        "#!/bin/sh\necho x >>{0}; test $(wc -l <{0}) -gt 1 && echo canary\n",
        log.display()
    );
    std::fs::write(&script, text).unwrap();
    std::process::Command::new("chmod")
        .arg("755")
        .arg(&script)
        .status()
        .unwrap();
    let runs = || std::fs::read_to_string(&log).map_or(0, |text| text.lines().count());
    let secret = format!(
        "secret = {{ command = [{:?}] }}",
        script.display().to_string()
    );
    let corral = Running::new(&context("pve", &secret));
    corral
        .until("login needed", |view| {
            matches!(view.contexts[0].health, Health::LoginNeeded(_))
        })
        .await;
    let member = corral.engine.fleet().member("pve").unwrap();
    let cx = ReadCx::quiet(Duration::from_secs(5));
    assert!(member.backend.inventory(&cx).await.is_err());
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(runs(), 1, "a background refresh asked again");
    corral.engine.refresh(Some("pve"));
    let view = corral
        .until("pve answers", |view| answers(view, "pve"))
        .await;
    assert_eq!((runs(), ids(&view)), (2, vec!["pve/web".to_owned()]));
    let now = corral.engine.fleet().member("pve").unwrap();
    assert!(!Arc::ptr_eq(&member, &now), "it was not opened again");
    // One that answers is asked again, and its secret is not.
    let asked = runs();
    corral.engine.refresh(None);
    corral.engine.fleet().settle(&Scope::default()).await;
    assert_eq!(runs(), asked);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_goes_away_takes_no_guard_with_it() {
    let corral = Running::new(&context("one", "protected = true"));
    corral
        .until("one answers", |view| answers(view, "one"))
        .await;
    let mut news = reload::follow(Arc::clone(&corral.engine));
    std::fs::remove_file(&corral.engine.config().path).unwrap();
    let reloaded = news.next().await.unwrap();
    let fault = reloaded.fault.unwrap();
    assert!(fault.contains("it went away"), "{fault}");
    let view = corral.engine.fleet().view();
    assert!(view.context("one").unwrap().protected);
}
