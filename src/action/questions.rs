//! Questions from below for a front that shows them when its user is ready: they wait in a queue, and each is
//! answered, refused, or given up by whoever asked.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot};

use crate::backend::contract::Asker;
use crate::model::{Error, Prompt, Result, SecretText};

/// What a front is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A question, under this number.
    Put(u64, Prompt),
    /// Nobody waits for its answer any more.
    Withdrawn(u64),
}

#[derive(Default)]
struct Open {
    last: u64,
    waiting: HashMap<u64, oneshot::Sender<Option<SecretText>>>,
    closed: bool,
}

/// The queue.
pub struct Questions {
    open: Mutex<Open>,
    /// Not bounded: there are no more questions than there are tasks and reads that wait for one.
    told: mpsc::UnboundedSender<Asked>,
}

impl Questions {
    /// A queue, and what its front listens to.
    pub fn new() -> (Arc<Self>, mpsc::UnboundedReceiver<Asked>) {
        let (told, listen) = mpsc::unbounded_channel();
        let open = Mutex::default();
        (Arc::new(Self { open, told }), listen)
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a question; `None` refuses it.
    pub fn answer(&self, number: u64, text: Option<SecretText>) {
        let waiting = self.open().waiting.remove(&number);
        if let Some(waiting) = waiting {
            // Whoever asked may have given up just now.
            let _ = waiting.send(text);
        }
    }

    /// Nobody answers any more: what waits is refused, and so is what comes.
    pub fn close(&self) {
        let mut open = self.open();
        open.closed = true;
        open.waiting.clear();
    }
}

/// Takes a question back when whoever asked it gives up.
struct Waiting<'a> {
    questions: &'a Questions,
    number: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.questions.open().waiting.remove(&self.number).is_some() {
            let _ = self.questions.told.send(Asked::Withdrawn(self.number));
        }
    }
}

#[async_trait]
impl Asker for Questions {
    async fn ask(&self, prompt: Prompt) -> Result<SecretText> {
        let refused = Error::refused(format!("not answered: {}", prompt.question))
            .remedy(prompt.remedy.clone())
            .in_context(&prompt.context);
        let (answer, given) = oneshot::channel();
        let number = {
            let mut open = self.open();
            if open.closed {
                return Err(refused);
            }
            open.last += 1;
            let number = open.last;
            open.waiting.insert(number, answer);
            number
        };
        let _waiting = Waiting {
            questions: self,
            number,
        };
        if self.told.send(Asked::Put(number, prompt)).is_err() {
            return Err(refused);
        }
        given.await.ok().flatten().ok_or(refused)
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;
    use crate::model::PromptKind;

    fn prompt(context: &str) -> Prompt {
        Prompt {
            context: context.to_owned(),
            question: "Passphrase".to_owned(),
            facts: Vec::new(),
            answer: PromptKind::Secret,
            remedy: "corral context test pve".to_owned(),
        }
    }

    #[tokio::test]
    async fn each_question_has_its_own_answer_and_what_is_not_answered_is_refused() {
        let (questions, mut told) = Questions::new();
        let ask = |context: &'static str| {
            let questions = Arc::clone(&questions);
            tokio::spawn(async move { questions.ask(prompt(context)).await })
        };
        let first = ask("a");
        let Some(Asked::Put(one, _)) = told.recv().await else {
            panic!("nothing was asked")
        };
        let second = ask("b");
        let Some(Asked::Put(two, asked)) = told.recv().await else {
            panic!("nothing was asked")
        };
        assert_eq!(asked.context, "b");
        let given_up = ask("c");
        let Some(Asked::Put(three, _)) = told.recv().await else {
            panic!("nothing was asked")
        };
        given_up.abort();
        assert_eq!(told.recv().await, Some(Asked::Withdrawn(three)));
        questions.answer(two, Some("x".into()));
        assert_eq!(second.await.unwrap().unwrap().expose_secret(), "x");
        questions.answer(one, None);
        let error = first.await.unwrap().unwrap_err();
        assert_eq!(error.context.as_deref(), Some("a"));
        assert_eq!(error.remedy.as_deref(), Some("corral context test pve"));
        let last = ask("d");
        told.recv().await.unwrap();
        questions.close();
        assert!(last.await.unwrap().is_err());
        assert!(questions.ask(prompt("e")).await.is_err());
    }
}
