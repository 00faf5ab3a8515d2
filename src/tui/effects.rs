//! Effects that ask or change: each a task of its own, answered under its number.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::{FutureExt as _, StreamExt as _};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::msg::{Effect, Msg, Reply, Typed};
use super::question::Given;
use crate::action::Engine;
use crate::action::questions::Questions;
use crate::action::{SoFar, by_hand, in_parts};
use crate::model::{Error, InstanceId, Operation, Result, Support};

/// Carries effects out.
pub struct Runner {
    engine: Arc<Engine>,
    replies: mpsc::Sender<Msg>,
    questions: Arc<Questions>,
    following: Option<AbortHandle>,
}

/// A future's panic is an error like another: the view lives on and says so.
async fn guarded<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    AssertUnwindSafe(work)
        .catch_unwind()
        .await
        .unwrap_or_else(|_| {
            Err(Error::backend("corral itself failed at this")
                .remedy("it is in the log; please report it"))
        })
}

impl Runner {
    /// Answers go to `replies`; those of the user to `questions`.
    pub fn new(engine: Arc<Engine>, replies: mpsc::Sender<Msg>, questions: Arc<Questions>) -> Self {
        Self {
            engine,
            replies,
            questions,
            following: None,
        }
    }

    /// Begins an effect; one that concerns the terminal comes back.
    pub fn begin(&mut self, effect: Effect) -> Option<Effect> {
        let engine = Arc::clone(&self.engine);
        let replies = self.replies.clone();
        match effect {
            Effect::Plan(number, action) => {
                tokio::spawn(async move {
                    let plan = guarded(engine.plan(&action)).await.map(Box::new);
                    send(&replies, number, Reply::Planned(plan)).await;
                });
            }
            Effect::Open(number, action) => {
                tokio::spawn(async move {
                    let opened = guarded(by_hand::open(&engine, &action)).await.map(Box::new);
                    send(&replies, number, Reply::Opened(opened)).await;
                });
            }
            Effect::KeepText(number, argument, Typed(text)) => {
                tokio::task::spawn_blocking(move || {
                    let file = by_hand::typed(&engine, argument, &text);
                    let kept = Reply::Kept(file.map(|file| (text, file)));
                    let _ = replies.blocking_send(Msg::Reply(number, kept));
                });
            }
            // At once: the view may be about to be left.
            Effect::ForgetText(file) => by_hand::typed_in_vain(&engine, &file),
            Effect::Submit(number, plan, consent, options) => {
                tokio::spawn(async move {
                    let task = guarded(engine.submit(&plan, &consent, &options)).await;
                    let id = task.map(|handle| handle.id.clone());
                    send(&replies, number, Reply::Submitted(id)).await;
                });
            }
            Effect::Read(number, action) => {
                tokio::spawn(async move {
                    let data = guarded(engine.read(action)).await.map(Box::new);
                    send(&replies, number, Reply::Read(data)).await;
                });
            }
            Effect::ReadInParts(number, action) => {
                tokio::spawn(async move {
                    let mut parts = in_parts(engine, action);
                    let mut whole = Err(Error::backend("corral itself failed at this"));
                    while let Ok(Some(told)) = guarded(async { Ok(parts.next().await) }).await {
                        match told {
                            SoFar::Part(part) => send(&replies, number, Reply::Part(part)).await,
                            SoFar::Whole(answer) => whole = answer,
                        }
                    }
                    send(&replies, number, Reply::Read(whole)).await;
                });
            }
            Effect::Follow(number, action) => {
                self.unfollow();
                let task = tokio::spawn(async move {
                    let mut stream = engine.follow(action);
                    while let Some(data) = stream.next().await {
                        send(&replies, number, Reply::Read(data.map(Box::new))).await;
                    }
                    send(&replies, number, Reply::Ended).await;
                });
                self.following = Some(task.abort_handle());
            }
            Effect::Unfollow => self.unfollow(),
            Effect::Support(number, ids) => {
                tokio::spawn(async move {
                    let cells = support(&engine, &ids);
                    send(&replies, number, Reply::Support(cells)).await;
                });
            }
            Effect::Samples(number, id) => {
                tokio::spawn(async move {
                    let samples = engine.fleet().samples(&id);
                    send(&replies, number, Reply::Samples(samples)).await;
                });
            }
            Effect::Answer(number, given) => {
                self.questions.answer(number, given.map(|Given(text)| text));
            }
            Effect::Keep(state) => engine.ui().keep(state, move |error| {
                let told = format!("not kept for the next time: {}", error.message);
                let _ = replies.blocking_send(Msg::Notice(told, true));
            }),
            Effect::Entered(line) => engine.entered().keep(line),
            Effect::Refresh(context) => engine.refresh(context.as_deref()),
            Effect::Watch(ids) => engine.fleet().watch_metrics(ids),
            other => return Some(other),
        }
        None
    }

    fn unfollow(&mut self) {
        if let Some(task) = self.following.take() {
            task.abort();
        }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.unfollow();
        // Nobody is there to answer any more.
        self.questions.close();
    }
}

async fn send(replies: &mpsc::Sender<Msg>, number: u64, reply: Reply) {
    // Nobody listens any more only when the view has been left.
    let _ = replies.send(Msg::Reply(number, reply)).await;
}

/// What can be done with all of these: the worst answer of each operation, with its reason.
fn support(engine: &Engine, ids: &[InstanceId]) -> Vec<(Operation, Support)> {
    let rank = |support: &Support| match support {
        Support::Native => 0,
        Support::Relayed => 1,
        Support::Emulated(_) => 2,
        Support::Conditional(_) => 3,
        Support::No(_) => 4,
    };
    let many = ids.len() > 1;
    Operation::ALL
        .into_iter()
        .filter_map(|operation| {
            let cells = ids.iter().map(|id| (id, engine.support(operation, id)));
            let (id, worst) = cells.max_by_key(|(_, s)| rank(s))?;
            let named = |why: String| if many { format!("{id}: {why}") } else { why };
            let worst = match worst {
                // Some of many can: the plan will say which cannot.
                Support::Conditional(_) | Support::No(_)
                    if many
                        && ids
                            .iter()
                            .any(|id| engine.support(operation, id).is_ready()) =>
                {
                    Support::Emulated("not for all of them; the plan says which".to_owned())
                }
                Support::Conditional(why) => Support::Conditional(named(why)),
                Support::No(why) => Support::No(named(why)),
                other => other,
            };
            Some((operation, worst))
        })
        .collect()
}
