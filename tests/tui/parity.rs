//! Every action once by keys and once by argv, on two fleets that are the same: the same plan, the
//! same calls at the backends, the same end.

use corral::action::grammar::{self, ParseFailure};
use corral::action::{Invocation, Row, Run, rows};
use corral::backend::demo::{Clock, Knobs};
use corral::model::{Consent, FieldKind, Gate, GroupNoun, Plan, Result, TargetState, Task};
use corral::tui::app::{Overlay, Pane};
use corral::tui::command::row_at;
use corral::tui::dialog::Act;
use corral::tui::edit::Line;
use corral::tui::input::Key;
use corral::tui::keymap::Keymap;
use corral::tui::msg::Effect;
use serde_json::Value;

use super::harness::Bench;

/// Something a user does in the full-screen view.
enum Do {
    /// Puts the cursor on an instance.
    On(&'static str),
    /// Puts the cursor on a context, in its pane.
    Context(&'static str),
    /// Puts the cursor on an image, in its pane.
    Image(&'static str),
    /// Keys.
    Press(&'static str),
    /// A text, character by character.
    Type(&'static str),
}

/// How it ends.
enum Ends {
    /// In a plan, and a task.
    Change,
    /// In a plan that does not come to be, for the same reason.
    Refused,
    /// In a plan that has nothing to change.
    Nothing,
    /// In the editor.
    Opens,
    /// In an answer.
    Answer,
    /// In an answer that goes on.
    Follow,
    /// In a pane that has the answer already.
    Shows(Pane),
    /// In the line for a shell: it needs a terminal or standard input of its own.
    Shell,
}

/// One action: as argv, and by keys. `{TASK}` is the task that `before` has made.
struct Case {
    argv: &'static str,
    keys: &'static [Do],
    ends: Ends,
    before: Option<&'static str>,
}

const fn case(argv: &'static str, keys: &'static [Do], ends: Ends) -> Case {
    Case {
        argv,
        keys,
        ends,
        before: None,
    }
}

impl Case {
    const fn after(mut self, line: &'static str) -> Self {
        self.before = Some(line);
        self
    }
}

use Do::{Context, Image, On, Press, Type};

/// A row that is missing here fails [`every_row_and_every_shape_has_its_case`].
const CASES: &[Case] = &[
    case("list", &[Press("g i")], Ends::Shows(Pane::Inventory)),
    case("list --filter tag:prod", &[], Ends::Answer),
    case("list --watch", &[], Ends::Follow),
    case("info local/web", &[], Ends::Answer),
    case("events local/web", &[], Ends::Answer),
    case("events --follow", &[], Ends::Follow),
    case("metrics local/web", &[], Ends::Answer),
    case(
        "wait local/web --for running --timeout 5s",
        &[],
        Ends::Answer,
    ),
    case(
        "start local/win11",
        &[On("local/win11"), Press("p s")],
        Ends::Change,
    ),
    case(
        "stop local/scratch",
        &[On("local/scratch"), Press("p t")],
        Ends::Change,
    ),
    case(
        "stop local/scratch --force",
        &[On("local/scratch"), Press("p f")],
        Ends::Change,
    ),
    case(
        "restart local/scratch",
        &[On("local/scratch"), Press("p r")],
        Ends::Change,
    ),
    case(
        "restart local/scratch --force",
        &[On("local/scratch"), Press("p x")],
        Ends::Change,
    ),
    case(
        "pause local/scratch",
        &[On("local/scratch"), Press("p p")],
        Ends::Change,
    ),
    case(
        "resume hv1/files",
        &[On("hv1/files"), Press("p u")],
        Ends::Change,
    ),
    case(
        "hibernate local/scratch",
        &[On("local/scratch"), Press("p h")],
        Ends::Change,
    ),
    case("gc --at 2026-01-01T00:00:00Z", &[], Ends::Nothing),
    case(
        "create extra --memory 4G",
        &[
            Press("+"),
            Type("extra"),
            Press("Tab Tab Tab Tab"),
            Type("4G"),
            Press("Shift-Tab Shift-Tab Shift-Tab Shift-Tab Shift-Tab Enter"),
        ],
        Ends::Change,
    ),
    case("create --fields extra --context local", &[], Ends::Answer),
    case(
        "delete local/win11",
        &[On("local/win11"), Press("D")],
        Ends::Change,
    ),
    case(
        "protect local/scratch --on",
        &[On("local/scratch"), Press("e p Space Shift-Tab Enter")],
        Ends::Change,
    ),
    case("logs local/web", &[], Ends::Answer),
    case("logs local/web --follow", &[], Ends::Follow),
    case(
        "hibernate local/scratch",
        &[On("local/scratch"), Press("p h")],
        Ends::Change,
    ),
    case(
        "tag local/scratch --add prod",
        &[
            On("local/scratch"),
            Press("e t"),
            Type("prod"),
            Press("Shift-Tab Enter"),
        ],
        Ends::Change,
    ),
    case(
        "note local/scratch --text hello",
        &[
            On("local/scratch"),
            Press("e o"),
            Type("hello"),
            Press("Shift-Tab Enter"),
        ],
        Ends::Change,
    ),
    case("template local/win11 --on", &[], Ends::Change),
    case("clone local/win11 --name extra", &[], Ends::Change),
    case("rename local/win11 --to extra", &[], Ends::Change),
    // Without a file the editor comes first.
    case(
        "edit local/win11",
        &[On("local/win11"), Press("e e")],
        Ends::Opens,
    ),
    case("edit local/win11 --file none.toml", &[], Ends::Refused),
    case("unlock local/win11", &[], Ends::Nothing),
    case(
        "autostart local/win11 --on",
        &[On("local/win11"), Press("e a Space Shift-Tab Enter")],
        Ends::Change,
    ),
    case("autostart --run --context vbox", &[], Ends::Change),
    case(
        "resize local/win11 --cpus 2",
        &[
            On("local/win11"),
            Press("e r"),
            Type("2"),
            Press("Shift-Tab Enter"),
        ],
        Ends::Change,
    ),
    case(
        "nic add local/win11",
        &[On("local/win11"), Press("e n Shift-Tab Enter")],
        Ends::Change,
    ),
    case("nic remove local/win11 --nic net0", &[], Ends::Change),
    case("disk list local/win11", &[], Ends::Answer),
    case(
        "disk add local/win11 --size 1G",
        &[
            On("local/win11"),
            Press("e d"),
            Type("1G"),
            Press("Shift-Tab Enter"),
        ],
        Ends::Change,
    ),
    case("disk remove local/win11 --disk disk0", &[], Ends::Change),
    case(
        "disk grow local/win11 --disk disk0 --by 1G",
        &[],
        Ends::Change,
    ),
    case(
        "disk move local/win11 --disk disk0 --to /other",
        &[],
        Ends::Change,
    ),
    case("media insert local/win11 --image x.iso", &[], Ends::Change),
    case("media eject local/win11", &[], Ends::Nothing),
    case("nic list local/win11", &[], Ends::Answer),
    case("clone local/win11 --name extra", &[], Ends::Change),
    case("rename local/win11 --to extra", &[], Ends::Change),
    case("image list", &[Press("g m")], Ends::Shows(Pane::Images)),
    case("image list --unused", &[], Ends::Answer),
    case("image search debian", &[], Ends::Answer),
    case("image pull fedora-42 --context local", &[], Ends::Change),
    case(
        "image pull fedora-42",
        &[Press("g m +"), Type("fedora-42"), Press("Shift-Tab Enter")],
        Ends::Change,
    ),
    case(
        "image delete local/alpine-3.22",
        &[Image("local/alpine-3.22"), Press("D")],
        Ends::Change,
    ),
    case("import disk.vmdk --name extra", &[], Ends::Change),
    case(
        "backup create local/win11 --at 2026-11-30T06:00:00Z",
        &[],
        Ends::Change,
    ),
    case("backup list", &[], Ends::Answer),
    case(
        "backup restore local/win11@2026-11-30T06-00-00Z",
        &[],
        Ends::Change,
    )
    .after("backup create local/win11 --at 2026-11-30T06:00:00Z"),
    case(
        "backup delete local/win11@2026-11-30T06-00-00Z",
        &[],
        Ends::Change,
    )
    .after("backup create local/win11 --at 2026-11-30T06:00:00Z"),
    case(
        "backup delete local/win11 --backup 2026-11-30T06-00-00Z",
        &[],
        Ends::Change,
    )
    .after("backup create local/win11 --at 2026-11-30T06:00:00Z"),
    case("ports list", &[], Ends::Answer),
    case(
        "ports publish local/scratch --port 8081:80",
        &[],
        Ends::Change,
    ),
    case("ports unpublish local/web --port 80", &[], Ends::Change),
    case("gc --at 2026-11-30T06:00:00Z", &[], Ends::Change),
    case(
        "export local/win11 --to target/parity-export",
        &[],
        Ends::Change,
    ),
    case(
        "cp notes.txt local/scratch:/root/notes.txt",
        &[],
        Ends::Change,
    ),
    case("sendkey local/scratch ctrl-alt-delete", &[], Ends::Change),
    case(
        "screenshot local/scratch --to target/parity.png --overwrite",
        &[],
        Ends::Answer,
    ),
    case(
        "snapshot create local/scratch --name s1",
        &[
            On("local/scratch"),
            Press("S"),
            Type("s1"),
            Press("Shift-Tab Enter"),
        ],
        Ends::Change,
    ),
    case("snapshot list local/web", &[], Ends::Answer),
    case(
        "snapshot restore local/web@base --stop",
        &[
            On("local/web"),
            Press("g s"),
            Press("R Space Shift-Tab Enter"),
        ],
        Ends::Change,
    ),
    case(
        "snapshot delete local/web@base",
        &[On("local/web"), Press("g s"), Press("D")],
        Ends::Change,
    ),
    case("dial local/web", &[], Ends::Shell),
    case("host list", &[Press("g h")], Ends::Shows(Pane::Hosts)),
    case("host info", &[], Ends::Answer),
    // Nothing that runs moves between kinds.
    case("migrate local/win11 --to hv1", &[], Ends::Refused),
    case("host drain hv1/hv1 --to lab", &[], Ends::Refused),
    case("storage list", &[Press("g n")], Ends::Shows(Pane::Places)),
    case("storage info", &[], Ends::Answer),
    case("network list", &[Press("g n")], Ends::Shows(Pane::Places)),
    case("network info", &[], Ends::Answer),
    case("tasks list", &[Press("g t")], Ends::Shows(Pane::Tasks)),
    case("tasks list --running", &[], Ends::Answer),
    case("tasks list --follow", &[], Ends::Follow),
    case("tasks show {TASK}", &[], Ends::Answer).after("snapshot create local/scratch --name t"),
    case("tasks cancel {TASK}", &[Press("g t X")], Ends::Change).after("stop local/stubborn"),
    case("tasks retry {TASK}", &[Press("g t R")], Ends::Change).after("start local/badboot"),
    case("history --last 200", &[Press("g y")], Ends::Answer),
    case("doctor", &[Press("g d")], Ends::Answer),
    case("doctor --fix", &[Press("g d F")], Ends::Nothing),
    case("matrix", &[Press("g u")], Ends::Answer),
    case("context list", &[Press("g x")], Ends::Shows(Pane::Contexts)),
    case("context get", &[], Ends::Answer),
    case(
        "context test local",
        &[Context("local"), Press("t")],
        Ends::Answer,
    ),
    case("context use local", &[], Ends::Change),
    case(
        "context add extra --backend qemu",
        &[
            Press("g x +"),
            Type("extra"),
            Press("Tab"),
            Type("qemu"),
            Press("Shift-Tab Shift-Tab Enter"),
        ],
        Ends::Change,
    ),
    case(
        "context add extra --backend qemu --fields",
        &[],
        Ends::Answer,
    ),
    case("context set local --set protected=true", &[], Ends::Change),
    case(
        "context remove local",
        &[Context("local"), Press("D")],
        Ends::Change,
    ),
    case(
        "context enable local",
        &[Context("local"), Press("E")],
        Ends::Change,
    ),
    case(
        "context disable local",
        &[Context("local"), Press("X")],
        Ends::Change,
    ),
    case("context trust local", &[], Ends::Refused),
    case("context trust --list", &[], Ends::Answer),
    case("config path", &[], Ends::Answer),
    case("config show", &[], Ends::Answer),
    case("config check", &[], Ends::Answer),
    case("ui go history", &[Press("g y")], Ends::Shows(Pane::History)),
    case("batch -", &[], Ends::Shell),
    case("completion bash", &[], Ends::Shell),
    case("man", &[], Ends::Shell),
];

/// Every task a person could mean by what is typed is known to both by the same word.
const CONFIG: &str = "[[context]]\nname = \"local\"\nbackend = \"qemu\"\n";

async fn fleet(case: &Case) -> (Bench, String) {
    let knobs = Knobs {
        clock: Clock::Fixed("2026-11-30T06:00:00Z".parse().unwrap()),
        ..Knobs::instant()
    };
    // The configuration is changed for real; everything else needs no disk.
    let config = case.argv.starts_with("context").then_some(CONFIG);
    let mut bench = Bench::with(100, 40, knobs, config).await;
    let mut task = String::new();
    if let Some(line) = case.before {
        let before = parsed(line);
        let plan = bench.engine.plan(&before.action).await.unwrap();
        let submitted = bench
            .engine
            .submit(&plan, &answer(&plan), &before.run)
            .await;
        task.clone_from(&submitted.unwrap().id);
        if case.argv.starts_with("tasks cancel") {
            // Under way in both fleets: cancelled before its first call it would make none.
            while bench.native().is_empty() {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
            bench.look().await;
        } else {
            bench.settle().await;
        }
    }
    (bench, task)
}

fn parsed(line: &str) -> Invocation {
    match grammar::parse(&grammar::tokenize(line).unwrap()) {
        Ok(invocation) => invocation,
        Err(ParseFailure::Bad(error)) => panic!("{line}: {error}"),
        Err(ParseFailure::Show(text)) => panic!("{line}: {text}"),
    }
}

fn answer(plan: &Plan) -> Consent {
    Consent {
        yes: plan.gate == Gate::Confirm,
        typed: match &plan.gate {
            Gate::Type { text } => Some(text.clone()),
            _ => None,
        },
    }
}

/// What is left of a plan when the two fleets' own clocks and numbers are taken away.
fn plain(value: impl serde::Serialize, task: &str) -> Value {
    fn walk(value: &mut Value) {
        match value {
            Value::Object(map) => {
                for key in ["observed_at", "at", "latency_ms", "seconds", "took_ms"] {
                    map.remove(key);
                }
                map.values_mut().for_each(walk);
            }
            Value::Array(list) => list.iter_mut().for_each(walk),
            _ => {}
        }
    }
    let text = serde_json::to_string(&value).unwrap();
    let mut value = serde_json::from_str(&named(&text, task)).unwrap();
    walk(&mut value);
    value
}

/// The same task has another ID in each fleet.
fn named(text: &str, task: &str) -> String {
    if task.is_empty() {
        return text.to_owned();
    }
    text.replace(task, "{TASK}")
}

/// A plan, or why there is none.
fn plan_of(plan: &Result<Plan>, task: &str) -> Value {
    match plan {
        Ok(plan) => plain(plan, task),
        Err(error) => Value::String(named(&error.to_string(), task)),
    }
}

/// How each target ended.
fn ends(task: &Task, about: &str) -> Vec<(String, String)> {
    let word = |state: &TargetState| match state {
        TargetState::Done(outcome) => format!("done {}", outcome.changed),
        other => format!("{other:?}"),
    };
    task.targets
        .iter()
        .map(|t| (named(&t.id.to_string(), about), word(&t.state)))
        .collect()
}

impl Bench {
    async fn go_on(&mut self, step: &Do) {
        match step {
            On(id) => self.select(id).await,
            Context(name) => {
                self.press("g x").await;
                self.row_of(Pane::Contexts, name).await;
            }
            Image(name) => {
                self.press("g m").await;
                self.row_of(Pane::Images, name).await;
            }
            Press(keys) => self.press(keys).await,
            Type(text) => self.type_text(text).await,
        }
    }

    /// Goes down to a row of the pane on the screen.
    async fn row_of(&mut self, pane: Pane, name: &str) {
        for _ in 0..40 {
            let key = self.app.cursors.get(&pane);
            if key.and_then(|c| c.key.as_deref()) == Some(name) {
                return;
            }
            self.press("Down").await;
        }
        panic!("{name} is in no row:\n{}", self.screen());
    }

    /// Answers the question on the screen, as a user does.
    async fn confirm(&mut self) {
        self.pass(1000).await;
        let Some(Overlay::Dialog(dialog)) = self.app.overlays.last() else {
            return;
        };
        let wanted = dialog.to_type().map(str::to_owned);
        let confirm = dialog
            .buttons((80, 24))
            .into_iter()
            .find(|b| b.act == Act::Confirm);
        match (wanted, confirm) {
            (Some(text), _) => {
                self.type_text(&text).await;
                self.press("Shift-Tab Enter").await;
            }
            (None, Some(button)) => self.key(Key::char(button.key.unwrap())).await,
            (None, None) => self.press("Esc").await,
        }
    }

    fn said(&self) -> String {
        self.app
            .notice
            .as_ref()
            .map_or_else(String::new, |n| n.text.clone())
    }
}

/// The task that is new, once everything has ended: what is cancelled ends, too.
async fn new_task(bench: &mut Bench, earlier: &str) -> Option<Task> {
    bench
        .settle()
        .await
        .into_iter()
        .find(|task| task.id != earlier)
}

/// Does it in the full-screen view, and the same by argv; both must agree.
async fn compare(case: &Case, by_keys: bool) {
    let (mut by_argv, argv_task) = fleet(case).await;
    let (mut in_view, view_task) = fleet(case).await;
    let line = case.argv.replace("{TASK}", &argv_task);
    let invocation = parsed(&line);
    let earlier = in_view.engine.board().all().len();
    let native = in_view.native().len();
    let way = if by_keys { "by keys" } else { "by :" };
    let what = format!("{} {way}", case.argv);
    if by_keys {
        for step in case.keys {
            in_view.go_on(step).await;
        }
    } else {
        in_view
            .command(&case.argv.replace("{TASK}", &view_task))
            .await;
    }
    match &case.ends {
        Ends::Change => {
            let planned = in_view.planned.last();
            let planned =
                planned.unwrap_or_else(|| panic!("{what}: no plan\n{}", in_view.screen()));
            let plan = by_argv.engine.plan(&invocation.action).await;
            assert_eq!(
                plan_of(planned, &view_task),
                plan_of(&plan, &argv_task),
                "{what}"
            );
            let plan = plan.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(plan.runnable().count() > 0, "{what}: {plan:?}");
            for target in &plan.targets {
                crate::undo::can_be_typed(&target.steps);
            }
            in_view.confirm().await;
            let submitted = by_argv
                .engine
                .submit(&plan, &answer(&plan), &invocation.run)
                .await;
            submitted.unwrap_or_else(|error| panic!("{what}: {error}"));
            let theirs = new_task(&mut by_argv, &argv_task).await.unwrap();
            let ours = new_task(&mut in_view, &view_task).await;
            let ours = ours.unwrap_or_else(|| panic!("{what}: no task\n{}", in_view.screen()));
            assert_eq!(
                plain(&ours.action, &view_task),
                plain(&theirs.action, &argv_task),
                "{what}"
            );
            assert_eq!(ends(&ours, &view_task), ends(&theirs, &argv_task), "{what}");
            assert_eq!(in_view.native(), by_argv.native(), "{what}");
        }
        Ends::Refused => {
            let plan = by_argv.engine.plan(&invocation.action).await;
            assert!(plan.is_err(), "{what} is planned");
            let planned = in_view.planned.last();
            let planned =
                planned.unwrap_or_else(|| panic!("{what}: no plan\n{}", in_view.screen()));
            assert_eq!(
                plan_of(planned, &view_task),
                plan_of(&plan, &argv_task),
                "{what}"
            );
            assert!(!in_view.said().is_empty(), "{what}: nothing is said");
        }
        Ends::Nothing => {
            let plan = by_argv.engine.plan(&invocation.action).await;
            let planned = in_view.planned.last();
            let planned =
                planned.unwrap_or_else(|| panic!("{what}: no plan\n{}", in_view.screen()));
            assert_eq!(
                plan_of(planned, &view_task),
                plan_of(&plan, &argv_task),
                "{what}"
            );
            let plan = plan.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(plan.changing().count(), 0, "{what}: {plan:?}");
            let text = in_view.screen();
            assert!(text.contains("nothing would change"), "{what}: {text}");
        }
        Ends::Answer => {
            let wanted = parsed(&case.argv.replace("{TASK}", &view_task)).action;
            let asked = in_view.answers.iter().find(|(action, _)| *action == wanted);
            let Some((_, ours)) = asked else {
                panic!(
                    "{what} asks {:?}",
                    in_view.answers.iter().map(|(a, _)| a).collect::<Vec<_>>()
                );
            };
            let theirs = by_argv.engine.read(invocation.action).await;
            match (ours, &theirs) {
                (Ok(ours), Ok(theirs)) => {
                    let kind = |data| std::mem::discriminant::<corral::model::Body>(data);
                    assert_eq!(kind(&ours.body), kind(&theirs.body), "{what}");
                }
                (ours, theirs) => panic!("{what}: {ours:?} and {theirs:?}"),
            }
        }
        Ends::Follow => {
            let follows = in_view.effects.iter().any(
                |effect| matches!(effect, Effect::Follow(_, action) if *action == invocation.action),
            );
            assert!(follows, "{what}");
        }
        Ends::Opens => {
            let opens = in_view.effects.iter().any(
                |effect| matches!(effect, Effect::Open(_, action) if *action == invocation.action),
            );
            assert!(opens, "{what}");
        }
        Ends::Shows(pane) => assert_eq!(in_view.app.pane, *pane, "{what}"),
        Ends::Shell => {
            let remedy = format!("corral {}", case.argv);
            assert!(
                in_view.said().contains(&remedy),
                "{what}: {}",
                in_view.said()
            );
        }
    }
    if !matches!(case.ends, Ends::Change) {
        assert_eq!(in_view.native().len(), native, "{what} changed something");
        assert_eq!(
            in_view.engine.board().all().len(),
            earlier,
            "{what} made a task"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_action_by_keys_is_the_action_by_argv() {
    for case in CASES.iter().filter(|case| !case.keys.is_empty()) {
        Box::pin(compare(case, true)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_action_by_the_command_line_of_the_view_is_the_action_by_argv() {
    for case in CASES {
        Box::pin(compare(case, false)).await;
    }
}

#[test]
fn every_row_and_every_shape_has_its_case() {
    let mut missing = Vec::new();
    let actions: Vec<_> = CASES
        .iter()
        .map(|case| parsed(&case.argv.replace("{TASK}", "20261130-051402-7f3a")).action)
        .collect();
    for row in rows() {
        let mine = || {
            CASES
                .iter()
                .zip(&actions)
                .filter(|(_, action)| action.verb == row.name)
        };
        if !mine().any(|(_, action)| row.shapes.iter().all(|(flag, _)| !action.args.flag(flag))) {
            missing.push(row.name.to_owned());
        }
        for (flag, _) in row.shapes {
            if !mine().any(|(_, action)| action.args.flag(flag)) {
                missing.push(format!("{} --{flag}", row.name));
            }
        }
        if bound(row) && !mine().any(|(case, _)| !case.keys.is_empty()) {
            missing.push(format!("{} has a key that no case presses", row.name));
        }
    }
    assert!(missing.is_empty(), "add a case for: {missing:#?}");
}

/// A key of the built-in keymap leads to it.
fn bound(row: &Row) -> bool {
    Keymap::built_in().all().iter().any(|binding| {
        let words = grammar::tokenize(&binding.run).unwrap();
        let words = match words.as_slice() {
            [ui, form, rest @ ..] if ui == "ui" && form == "form" => rest,
            [ui, ..] if ui == "ui" => return false,
            all => all,
        };
        row_at(words).is_some_and(|found| found.name == row.name)
    })
}

/// Fills the form in as somebody does who has the command line beside it.
#[tokio::test(flavor = "multi_thread")]
async fn every_form_gives_the_action_of_its_command_line() {
    for case in CASES
        .iter()
        .filter(|case| matches!(case.ends, Ends::Change))
    {
        let (mut bench, task) = fleet(case).await;
        let wanted = parsed(&case.argv.replace("{TASK}", &task)).action;
        if wanted.scope != corral::model::Scope::default() {
            // A form is for what is marked or under the cursor.
            continue;
        }
        let row = grammar::row_of(&wanted).unwrap();
        let new = matches!(row.noun, GroupNoun::NewInstance | GroupNoun::NewContext);
        let targets: Vec<&str> = wanted
            .targets
            .iter()
            .map(corral::model::Selector::as_str)
            .collect();
        let shown = if new { "" } else { &targets.join(" ") };
        bench
            .command(&format!("ui form {} {shown}", row.name))
            .await;
        let Some(Overlay::Form(form)) = bench.app.overlays.last_mut() else {
            panic!("{}: no form\n{}", case.argv, bench.screen());
        };
        for entry in &mut form.entries {
            if entry.positional {
                entry.line = Line::new(targets[0]);
            } else if entry.kind == FieldKind::Flag {
                entry.on = wanted.args.flag(entry.name);
            } else if wanted.args.has(entry.name) {
                let field = row.field(entry.name).unwrap();
                entry.line = Line::new(&printed(&wanted, field.name));
            }
        }
        form.focus = form.entries.len() + 1;
        bench.press("Enter").await;
        let asked = bench.effects.iter().rev().find_map(|effect| match effect {
            Effect::Plan(_, action) => Some(action.clone()),
            _ => None,
        });
        assert_eq!(
            asked.as_ref(),
            Some(&wanted),
            "{}\n{}",
            case.argv,
            bench.screen()
        );
    }
}

/// A value as it stands on the command line.
fn printed(action: &corral::model::Action, name: &str) -> String {
    let words = grammar::tokenize(&grammar::print(action)).unwrap();
    let flag = format!("--{name}");
    match words.iter().position(|w| *w == flag) {
        Some(at) => words[at + 1].clone(),
        // It stands without its name, after the targets.
        None => action.args.many(name).join(" "),
    }
}

/// What `a` lists for an instance is what its line says.
#[tokio::test(flavor = "multi_thread")]
async fn every_action_of_the_menu_is_the_action_by_argv() {
    let mut tried = 0;
    let count = {
        let mut bench = menu().await;
        bench.press("End").await;
        corral::tui::palette::actions(&bench.app).len()
    };
    for n in 0..count {
        let mut bench = menu().await;
        let row = corral::tui::palette::actions(&bench.app).swap_remove(n);
        for _ in 0..n {
            bench.press("Down").await;
        }
        let before = bench.effects.len();
        bench.press("Enter").await;
        if let Some(why) = &row.not {
            assert!(
                bench.said().contains(why),
                "{}: {}",
                row.title,
                bench.said()
            );
            continue;
        }
        if row.run.starts_with("ui form") {
            assert!(
                matches!(bench.app.overlays.last(), Some(Overlay::Form(_))),
                "{}",
                row.title
            );
            continue;
        }
        let line = row.run.replace("{ids}", "local/scratch");
        let asked = bench.effects[before..]
            .iter()
            .find_map(|effect| match effect {
                Effect::Plan(_, action) | Effect::Open(_, action) => Some(action.clone()),
                _ => None,
            });
        assert_eq!(asked, Some(parsed(&line).action), "{}", row.title);
        tried += 1;
    }
    assert!(tried >= 5, "{tried}");
    let listed = rows()
        .iter()
        .filter(|r| matches!(r.run, Run::Change(_)) && r.noun == GroupNoun::Instances);
    assert!(
        count >= listed.count(),
        "a change of instances is not in the menu"
    );
}

async fn menu() -> Bench {
    let mut bench = Bench::new().await;
    bench.select("local/scratch").await;
    bench.press("a").await;
    bench
}
