//! Questions from below never take a key that was meant for something else.

use std::sync::Arc;

use corral::action::questions::{Asked, Questions};
use corral::model::{Error, Prompt, PromptKind, SecretText};
use corral::tui::app::Overlay;
use corral::tui::input::Input;
use corral::tui::msg::{Effect, Msg};
use corral::tui::question::Given;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;

use super::harness::Bench;

struct Asking {
    bench: Bench,
    asker: Arc<Questions>,
    asked: UnboundedReceiver<Asked>,
}

type Answer = JoinHandle<Result<SecretText, Error>>;

impl Asking {
    async fn new() -> Self {
        let bench = Bench::new().await;
        let (asker, asked) = Questions::new();
        bench.engine.set_asker(Arc::clone(&asker) as Arc<_>);
        Self {
            bench,
            asker,
            asked,
        }
    }

    /// As a backend asks; the view is told.
    async fn ask(&mut self, question: &str, answer: PromptKind) -> Answer {
        let prompt = Prompt {
            context: "pve".to_owned(),
            question: question.to_owned(),
            facts: vec!["root@pam on pve.example".to_owned()],
            answer,
            remedy: "corral context set pve --secret-stdin <FILE".to_owned(),
        };
        let asker = self.bench.engine.asker();
        let answer = tokio::spawn(async move { asker.ask(prompt).await });
        match self.asked.recv().await.unwrap() {
            Asked::Put(number, prompt) => self.bench.msg(Msg::Question(number, prompt)).await,
            Asked::Withdrawn(number) => panic!("{number} was taken back"),
        }
        answer
    }

    /// What the view answered goes down.
    fn pass_on(&mut self) -> usize {
        let mut answers = 0;
        for effect in self.bench.held.drain(..) {
            if let Effect::Answer(number, given) = effect {
                self.asker.answer(number, given.map(|Given(text)| text));
                answers += 1;
            }
        }
        answers
    }

    fn is_open(&self) -> bool {
        matches!(self.bench.app.overlays.last(), Some(Overlay::Question(_)))
    }
}

async fn text(answer: Answer) -> String {
    use secrecy::ExposeSecret as _;
    answer.await.unwrap().unwrap().expose_secret().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn it_waits_in_the_header_while_something_is_typed_and_takes_no_key_of_it() {
    let mut view = Asking::new().await;
    view.bench.press("/").await;
    view.bench.type_text("na").await;
    let answer = view.ask("Passphrase of the key", PromptKind::Secret).await;
    view.bench.type_text("me").await;
    let screen = view.bench.screen();
    assert!(
        !view.is_open() && screen.contains("? 1 question"),
        "{screen}"
    );
    assert_eq!(view.bench.app.inventory.filter_text, "name");
    // It opens once the line is closed, and what was typed ahead of it is lost on nothing.
    view.bench.press("Enter").await;
    assert!(view.is_open());
    view.bench.pass(20).await;
    view.bench.type_text("jj").await;
    view.bench.press("Esc Enter").await;
    assert!(
        view.is_open(),
        "an Esc that was typed before it stood there"
    );
    let screen = view.bench.screen();
    for wanted in [
        "Context pve asks",
        "Passphrase of the key",
        "root@pam",
        "(wait)",
    ] {
        assert!(screen.contains(wanted), "{wanted}:\n{screen}");
    }
    view.bench.pass(1000).await;
    view.bench.press("Enter").await;
    assert!(view.is_open(), "an empty answer is none");
    view.bench.type_text("hunter2").await;
    let screen = view.bench.screen();
    assert!(
        !screen.contains("hunter") && screen.contains("> •••••••"),
        "{screen}"
    );
    assert!(!format!("{:?}", view.bench.app).contains("hunter"));
    view.bench.press("Enter").await;
    assert!(!format!("{:?}", view.bench.effects).contains("hunter"));
    assert_eq!(view.pass_on(), 1);
    assert_eq!(text(answer).await, "hunter2");
    assert!(!view.is_open() && !view.bench.screen().contains("question"));
}

#[tokio::test(flavor = "multi_thread")]
async fn several_queue_and_esc_refuses_with_the_remedy() {
    let mut view = Asking::new().await;
    let first = view.ask("Passphrase", PromptKind::Secret).await;
    let second = view.ask("Is it so", PromptKind::YesNo).await;
    assert!(view.is_open());
    let screen = view.bench.screen();
    assert!(screen.contains("asks, 1 more wait"), "{screen}");
    view.bench.pass(1000).await;
    view.bench.press("Esc").await;
    let screen = view.bench.screen();
    assert!(view.is_open(), "the next one");
    assert!(screen.contains("Is it so"), "{screen}");
    view.bench.press("Y").await;
    assert!(view.is_open(), "not drawn and quiet yet");
    view.bench.pass(1000).await;
    view.bench.press("y").await;
    assert!(view.is_open(), "only the upper case letter");
    view.bench.press("Y").await;
    assert_eq!(view.pass_on(), 2);
    let error = first.await.unwrap().unwrap_err();
    let remedy = error.remedy.unwrap();
    assert!(
        remedy.contains("corral context set pve --secret-stdin"),
        "{remedy}"
    );
    assert_eq!(text(second).await, Prompt::YES);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_put_off_stays_away_until_it_is_asked_for_and_one_taken_back_goes() {
    let mut view = Asking::new().await;
    view.bench.press("g a").await;
    let screen = view.bench.screen();
    assert!(screen.contains("nobody asks anything"), "{screen}");
    let answer = view.ask("Login name", PromptKind::Text).await;
    view.bench.pass(1000).await;
    view.bench.press("Ctrl-C").await;
    assert!(!view.is_open());
    view.bench.press("j k").await;
    assert!(!view.is_open() && view.bench.screen().contains("? 1 question"));
    view.bench.press("g a").await;
    assert!(view.is_open());
    view.bench.pass(1000).await;
    view.bench
        .msg(Msg::Input(Input::Paste("root\n".to_owned())))
        .await;
    assert!(
        view.bench.screen().contains("> root"),
        "{}",
        view.bench.screen()
    );
    view.bench.press("Enter").await;
    view.pass_on();
    assert_eq!(text(answer).await, "root");
    let given_up = view.ask("Code", PromptKind::Secret).await;
    assert!(view.is_open());
    given_up.abort();
    let Some(Asked::Withdrawn(number)) = view.asked.recv().await else {
        panic!("it was not taken back")
    };
    view.bench.msg(Msg::Withdrawn(number)).await;
    assert!(!view.is_open());
    assert!(
        view.bench.screen().contains("taken back"),
        "{}",
        view.bench.screen()
    );
}
