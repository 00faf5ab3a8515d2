//! A change as a list of calls: the plan shows them, and running it makes exactly those. What was made on the way is
//! taken away again when a later call fails.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::ctx::{Ctx, Seen};
use super::wire::{Call, Dom, Move};
use super::{streams, volumes};
use crate::backend::contract::{Prepared, ReadCx, TaskCx};
use crate::model::{
    Consistency, Error, ErrorKind, InstanceId, Outcome, Result, Step, print_duration, shown,
};

/// A look on behalf of a change.
pub const LOOK: Duration = Duration::from_secs(20);
/// How long a guest may take to do what it was asked for.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks.
const BETWEEN: Duration = Duration::from_millis(200);
/// A guest that has not booted loses a request: it is made again this often.
const AGAIN: Duration = Duration::from_secs(10);

/// One thing that is done.
#[derive(Clone, Debug)]
pub struct Act {
    title: String,
    what: Do,
    undo: Option<String>,
    /// Takes back what this made, when a later one fails.
    back: Option<Call>,
}

/// What is done.
#[derive(Clone, Debug)]
enum Do {
    /// A call of libvirt.
    Call(Call),
    /// A file of this machine into a volume.
    Upload(PathBuf, Call),
    /// Asks until it is off.
    UntilOff(Call, Dom, Option<Duration>),
    /// Asks the agent, and waits until it answers anew.
    UntilRebooted(Call, Dom),
    /// Moves, and may switch to post-copy.
    Migrate(Call, Dom, bool),
    /// Asks for a device, and waits until it is not there any more.
    UntilDetached(Call, Dom, String),
    /// Waits for a copy of a disk to be in step, and goes over to it.
    Pivot(Call, Dom, String),
}

impl Act {
    /// A call.
    pub fn call(title: impl Into<String>, call: Call) -> Self {
        Self {
            title: title.into(),
            what: Do::Call(call),
            undo: None,
            back: None,
        }
    }

    /// The bytes of a file into a volume.
    pub fn upload(title: impl Into<String>, from: PathBuf, pool: &str, name: &str) -> Self {
        let call = Call::Upload {
            pool: pool.to_owned(),
            name: name.to_owned(),
            from: from.display().to_string(),
        };
        Self {
            what: Do::Upload(from, call.clone()),
            ..Self::call(title, call)
        }
    }

    /// A shutdown, until it is done; by force after a while, where that is said.
    pub fn until_off(
        title: impl Into<String>,
        dom: Dom,
        agent: bool,
        force: Option<Duration>,
    ) -> Self {
        let call = Call::Shutdown {
            dom: dom.clone(),
            agent,
        };
        Self {
            what: Do::UntilOff(call.clone(), dom, force),
            ..Self::call(title, call)
        }
    }

    /// A reboot by the guest, until its agent is back.
    pub fn until_rebooted(title: impl Into<String>, dom: Dom) -> Self {
        let call = Call::Reboot {
            dom: dom.clone(),
            agent: true,
        };
        Self {
            what: Do::UntilRebooted(call.clone(), dom),
            ..Self::call(title, call)
        }
    }

    /// Takes a device out, until the guest has let go of it. `what` is a disk's place or a NIC's MAC.
    pub fn detached(title: impl Into<String>, call: Call, dom: Dom, what: &str) -> Self {
        Self {
            what: Do::UntilDetached(call.clone(), dom, what.to_owned()),
            ..Self::call(title, call)
        }
    }

    /// Moves it to another server, with progress; cancelled, it runs on here.
    pub fn migrate(title: impl Into<String>, dom: Dom, by: Move) -> Self {
        let postcopy = by.postcopy;
        let call = Call::Migrate {
            dom: dom.clone(),
            by,
        };
        Self {
            what: Do::Migrate(call.clone(), dom, postcopy),
            ..Self::call(title, call)
        }
    }

    /// Goes over to a copy of a disk once it is in step.
    pub fn pivot(title: impl Into<String>, dom: Dom, disk: &str) -> Self {
        let call = Call::BlockJobAbort {
            dom: dom.clone(),
            disk: disk.to_owned(),
            pivot: true,
        };
        Self {
            what: Do::Pivot(call.clone(), dom, disk.to_owned()),
            ..Self::call(title, call)
        }
    }

    /// How a person takes it back.
    #[must_use]
    pub fn undo(mut self, undo: impl Into<String>) -> Self {
        self.undo = Some(undo.into());
        self
    }

    /// What takes back what it made, when a later one fails.
    #[must_use]
    pub fn back(mut self, call: Call) -> Self {
        self.back = Some(call);
        self
    }

    fn native(&self) -> &Call {
        match &self.what {
            Do::Call(call)
            | Do::Upload(_, call)
            | Do::UntilOff(call, ..)
            | Do::UntilRebooted(call, _)
            | Do::UntilDetached(call, ..)
            | Do::Migrate(call, ..)
            | Do::Pivot(call, ..) => call,
        }
    }

    fn step(&self) -> Step {
        let step = Step::new(&self.title, self.native().native().unwrap_or_default());
        match &self.undo {
            Some(undo) => step.undo(undo),
            None => step,
        }
    }
}

/// What has to be as it was when the plan was made, besides the domain itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Besides {
    /// Nothing.
    Nothing,
    /// The size of a volume.
    Volume(String),
    /// The snapshots.
    Snapshots,
}

impl Besides {
    async fn read(&self, ctx: &Ctx, cx: &ReadCx, seen: &Seen) -> Result<String> {
        Ok(match self {
            Self::Nothing => String::new(),
            Self::Volume(path) => volumes::at_path(ctx, cx, path)
                .await?
                .map_or_else(|| " -".to_owned(), |vol| format!(" {}", vol.capacity.0)),
            Self::Snapshots => {
                let all = super::snapshots::known(ctx, cx, seen).await?;
                let mut names: Vec<String> = all
                    .iter()
                    .map(|one| format!("{}{}", u8::from(one.shown.current), one.shown.name))
                    .collect();
                names.sort();
                format!(" {}", names.join("\u{1f}"))
            }
        })
    }
}

/// A change.
#[derive(Clone, Debug)]
pub struct Script {
    /// The instance; for a new one its ID to be.
    pub id: InstanceId,
    on: On,
    acts: Vec<Act>,
    /// What is said once it is done.
    said: String,
    /// The ID from then on.
    to: Option<InstanceId>,
    /// What a snapshot was, and its name, to be read back.
    snapshot: Option<String>,
    /// What it is made from has to be as it was, too.
    source: Option<InstanceId>,
}

#[derive(Clone, Debug)]
enum On {
    /// A domain that is there.
    Domain(Besides),
    /// A name that must be free.
    New(String),
}

impl Script {
    /// On a domain that is there.
    pub fn on(seen: &Seen, said: impl Into<String>) -> Self {
        Self {
            id: seen.id.clone(),
            on: On::Domain(Besides::Nothing),
            acts: Vec::new(),
            said: said.into(),
            to: None,
            snapshot: None,
            source: None,
        }
    }

    /// That makes a new domain.
    pub fn new(id: InstanceId, name: &str, said: impl Into<String>) -> Self {
        Self {
            to: Some(id.clone()),
            id,
            on: On::New(name.to_owned()),
            acts: Vec::new(),
            said: said.into(),
            snapshot: None,
            source: None,
        }
    }

    /// Holds only while this is as it is, too.
    #[must_use]
    pub fn besides(mut self, besides: Besides) -> Self {
        self.on = On::Domain(besides);
        self
    }

    /// One more act.
    #[must_use]
    pub fn act(mut self, act: Act) -> Self {
        self.acts.push(act);
        self
    }

    /// More acts.
    #[must_use]
    pub fn acts(mut self, acts: impl IntoIterator<Item = Act>) -> Self {
        self.acts.extend(acts);
        self
    }

    /// The ID from then on.
    #[must_use]
    pub fn to(mut self, id: InstanceId) -> Self {
        self.to = Some(id);
        self
    }

    /// Takes a snapshot of this name: what it is, is read back.
    #[must_use]
    pub fn snapshot(mut self, name: &str) -> Self {
        self.snapshot = Some(name.to_owned());
        self
    }

    /// Holds only while what it is made from is as it is.
    #[must_use]
    pub fn source(mut self, seen: &Seen) -> Self {
        self.source = Some(seen.id.clone());
        self
    }

    async fn token(&self, ctx: &Ctx, cx: &ReadCx) -> Result<String> {
        let token = self.own_token(ctx, cx).await?;
        Ok(match &self.source {
            Some(source) => format!("{token} of {}", ctx.look(cx, source).await?.token()),
            None => token,
        })
    }

    async fn own_token(&self, ctx: &Ctx, cx: &ReadCx) -> Result<String> {
        match &self.on {
            On::Domain(besides) => {
                let seen = ctx.look(cx, &self.id).await?;
                let more = besides.read(ctx, cx, &seen).await?;
                Ok(format!("{}{more}", seen.token()))
            }
            On::New(name) => match ctx.find(cx, name).await {
                Ok(found) if found.listed.name == *name => Err(taken(ctx, name)),
                Ok(_) => Ok(format!("new {name}")),
                Err(error) if error.kind == ErrorKind::NotFound => Ok(format!("new {name}")),
                Err(error) => Err(error),
            },
        }
    }

    /// As a plan.
    ///
    /// # Errors
    /// Those of libvirt.
    pub async fn prepared(self, ctx: &Ctx, cx: &ReadCx) -> Result<Prepared> {
        let token = match self.token(ctx, cx).await {
            Ok(token) => token,
            Err(error) if error.kind == ErrorKind::Refused || error.kind == ErrorKind::Conflict => {
                return Ok(Prepared::failed("", &error));
            }
            Err(error) => return Err(error),
        };
        let steps = self
            .acts
            .iter()
            .filter(|act| act.native().native().is_some())
            .map(Act::step)
            .collect();
        Ok(Prepared::new(token, steps).with(self))
    }

    /// Does it.
    ///
    /// # Errors
    /// `Conflict` where something is not as it was planned for; those of libvirt.
    pub async fn run(self, ctx: &Ctx, cx: &TaskCx, token: &str) -> Result<Outcome> {
        let now = match self.token(ctx, &cx.read(LOOK)).await {
            Ok(now) => now,
            Err(error) if error.kind == ErrorKind::Refused => {
                return Err(Error::conflict(error.message));
            }
            Err(error) => return Err(error),
        };
        if now != token {
            return Err(Error::conflict(format!(
                "{} changed meanwhile. Nothing was done",
                self.id
            ))
            .remedy("Look at it and ask again."));
        }
        cx.checkpoint()?;
        let mut backs: Vec<(String, Call)> = Vec::new();
        let total = self.acts.len() as u64;
        for (n, act) in self.acts.iter().enumerate() {
            cx.step(&act.title);
            if total > 1 {
                cx.progress(n as u64, total);
            }
            if let Err(error) = self.one(ctx, cx, act).await {
                return Err(take_back(ctx, cx, backs, error).await);
            }
            if let Some(back) = &act.back {
                backs.push((act.title.clone(), back.clone()));
            }
        }
        if let On::Domain(_) = self.on
            && let Some(uuid) = token.split(' ').next()
        {
            // A watch may not have heard of it yet.
            ctx.forget(uuid);
        }
        let mut outcome = Outcome::changed(self.said);
        if let Some(name) = &self.snapshot {
            let got = read_back(ctx, cx, &self.id, name).await?;
            outcome.consistency = Some(got);
            outcome.message = Some(format!("{} is taken: {}", shown(name), got.as_str()));
        }
        outcome.id = self.to;
        Ok(outcome)
    }

    async fn one(&self, ctx: &Ctx, cx: &TaskCx, act: &Act) -> Result<()> {
        match &act.what {
            Do::Call(call) => ctx.client.change::<Value>(call.clone()).await.map(drop),
            Do::Upload(from, call) => streams::upload(ctx, cx, from, call.clone()).await,
            Do::UntilOff(call, dom, force) => self.until_off(ctx, cx, call, dom, *force).await,
            Do::UntilRebooted(call, dom) => self.until_rebooted(ctx, cx, call, dom).await,
            Do::UntilDetached(call, dom, what) => {
                self.until_detached(ctx, cx, call, dom, what).await
            }
            Do::Migrate(call, dom, postcopy) => self.migrate(ctx, cx, call, dom, *postcopy).await,
            Do::Pivot(call, dom, disk) => pivot(ctx, cx, call, dom, disk).await,
        }
    }

    async fn until_off(
        &self,
        ctx: &Ctx,
        cx: &TaskCx,
        call: &Call,
        dom: &Dom,
        force: Option<Duration>,
    ) -> Result<()> {
        let id = &self.id;
        let patience = cx.timeout.unwrap_or(PATIENCE);
        let began = Instant::now();
        let mut asked: Option<Instant> = None;
        loop {
            if asked.is_none_or(|at| at.elapsed() >= AGAIN) {
                let again = asked.is_some();
                asked = Some(Instant::now());
                let answer = if again {
                    ctx.client.again::<Value>(call.clone()).await
                } else {
                    ctx.client.change::<Value>(call.clone()).await
                };
                match answer {
                    Ok(_) => {}
                    // It went off while it was asked.
                    Err(error) if again => cx.log(error.to_string()),
                    Err(error) => return Err(error),
                }
            }
            if is_off(ctx, cx, dom).await? {
                return Ok(());
            }
            if cx.cancel.is_cancelled() {
                return Err(Error::refused(format!(
                    "cancelled; {id} was asked to shut down and may still do so"
                ))
                .remedy(format!("See what it does: corral info {id}")));
            }
            let waited = began.elapsed();
            if force.is_some_and(|after| waited >= after) {
                cx.step(format!("Power off {id}"));
                let off = Call::Destroy { dom: dom.clone() };
                return ctx.client.change::<Value>(off).await.map(drop);
            }
            if waited >= patience {
                let span = print_duration(Duration::from_secs(patience.as_secs()));
                return Err(Error::timed_out(format!(
                    "{id} is still running {span} after the shutdown request; the guest has not reacted"
                ))
                .remedy(format!(
                    "Wait: corral wait {id} --for stopped. Force: corral stop --force {id}"
                )));
            }
            cx.progress(waited.as_secs(), patience.as_secs());
            tokio::time::sleep(BETWEEN).await;
        }
    }

    async fn migrate(
        &self,
        ctx: &Ctx,
        cx: &TaskCx,
        call: &Call,
        dom: &Dom,
        postcopy: bool,
    ) -> Result<()> {
        let id = &self.id;
        let moved = ctx.client.change::<Value>(call.clone());
        tokio::pin!(moved);
        let (mut switched, mut aborted) = (false, false);
        loop {
            tokio::select! {
                ended = &mut moved => {
                    return match ended {
                        Ok(_) if aborted => {
                            cx.log("it was too late to cancel: it had arrived");
                            Ok(())
                        }
                        Ok(_) => Ok(()),
                        Err(_) if aborted => {
                            Err(Error::refused(format!("cancelled; {id} runs on where it was")))
                        }
                        Err(mut error) => {
                            error.message.push_str(&format!("; {id} runs on where it was"));
                            Err(error)
                        }
                    };
                }
                () = cx.cancel.cancelled(), if !aborted => {
                    aborted = true;
                    let abort = Call::AbortJob { dom: dom.clone() };
                    if let Err(error) = ctx.client.again::<Value>(abort).await {
                        cx.log(format!("it cannot be cancelled any more: {error}"));
                    }
                }
                () = tokio::time::sleep(BETWEEN) => {
                    let ask = Call::JobOf { dom: dom.clone() };
                    let Ok(Some(job)) = ctx
                        .client
                        .ask::<Option<super::wire::Job>>(&cx.read(LOOK), ask)
                        .await
                    else {
                        continue;
                    };
                    cx.progress(job.done, job.total);
                    if postcopy && !switched && job.iteration.is_some_and(|n| n > 1) {
                        switched = true;
                        cx.log("it goes on over there, and fetches the rest of its memory");
                        let start = Call::StartPostCopy { dom: dom.clone() };
                        if let Err(error) = ctx.client.again::<Value>(start).await {
                            cx.log(format!("no switch to post-copy: {error}"));
                        }
                    }
                }
            }
        }
    }

    async fn until_detached(
        &self,
        ctx: &Ctx,
        cx: &TaskCx,
        call: &Call,
        dom: &Dom,
        what: &str,
    ) -> Result<()> {
        ctx.client.change::<Value>(call.clone()).await?;
        // libvirt waits only a while for the guest, and then says that it asked.
        let until = Instant::now() + cx.timeout.unwrap_or(PATIENCE);
        loop {
            let looked = ctx.find(&cx.read(LOOK), &dom.uuid).await?;
            let live = super::domain::Domain::read(&looked.live)?;
            let there = live.disk(what).is_some()
                || live.nics.iter().any(|nic| nic.mac.as_deref() == Some(what));
            if !there {
                return Ok(());
            }
            if Instant::now() >= until || cx.cancel.is_cancelled() {
                let id = &self.id;
                return Err(Error::timed_out(format!(
                    "the guest of {id} does not let go of {what}; it was asked to and may still do so"
                ))
                .remedy(format!("See: corral info {id}. Or stop it: corral stop {id}")));
            }
            tokio::time::sleep(BETWEEN).await;
        }
    }

    async fn until_rebooted(&self, ctx: &Ctx, cx: &TaskCx, call: &Call, dom: &Dom) -> Result<()> {
        let conn = ctx.client.reader().await?;
        let mut events = conn.events();
        ctx.client.change::<Value>(call.clone()).await?;
        let until = tokio::time::Instant::now() + cx.timeout.unwrap_or(PATIENCE);
        loop {
            tokio::select! {
                event = events.recv() => match event {
                    Ok(event) if event.uuid == dom.uuid && event.kind == "reboot" => return Ok(()),
                    Ok(_) | Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => {}
                    Err(_) => return Err(Error::unreachable("the connection was lost; the guest was asked to reboot and may")),
                },
                () = cx.cancel.cancelled() => {
                    return Err(Error::refused(format!("too late to cancel: the guest of {} was asked to reboot and will", self.id))
                        .remedy(format!("See what it does: corral info {}", self.id)));
                }
                () = tokio::time::sleep_until(until) => {
                    return Err(Error::timed_out(format!("{} has not rebooted; it took the request", self.id))
                        .remedy(format!("Force: corral restart --force {}", self.id)));
                }
            }
        }
    }
}

/// Whether a domain is off; gone is off.
async fn is_off(ctx: &Ctx, cx: &TaskCx, dom: &Dom) -> Result<bool> {
    match ctx.find(&cx.read(LOOK), &dom.uuid).await {
        Ok(looked) => Ok(looked.listed.id.is_none()),
        Err(error) if error.kind == ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

async fn pivot(ctx: &Ctx, cx: &TaskCx, call: &Call, dom: &Dom, disk: &str) -> Result<()> {
    let stop = Call::BlockJobAbort {
        dom: dom.clone(),
        disk: disk.to_owned(),
        pivot: false,
    };
    loop {
        let ask = Call::BlockJobOf {
            dom: dom.clone(),
            disk: disk.to_owned(),
        };
        let job: Option<super::wire::Job> = ctx.client.ask(&cx.read(LOOK), ask).await?;
        let Some(job) = job else {
            return Err(Error::backend(format!(
                "the copy of {disk} has ended early"
            )));
        };
        cx.progress(job.done, job.total);
        if job.total > 0 && job.done >= job.total {
            return ctx.client.change::<Value>(call.clone()).await.map(drop);
        }
        if cx.cancel.is_cancelled() {
            ctx.client.change::<Value>(stop).await?;
            return Err(Error::refused("cancelled"));
        }
        tokio::time::sleep(BETWEEN).await;
    }
}

/// Takes back what was made before something failed; what cannot be taken back is said.
async fn take_back(ctx: &Ctx, cx: &TaskCx, backs: Vec<(String, Call)>, mut error: Error) -> Error {
    for (title, call) in backs.into_iter().rev() {
        let native = call.native().unwrap_or_default();
        match ctx.client.change::<Value>(call).await {
            Ok(_) => cx.log(format!("taken back: {native}")),
            Err(left) => {
                cx.log(format!("{title} cannot be taken back: {left}"));
                error
                    .message
                    .push_str(&format!("; left behind: {native} failed"));
            }
        }
    }
    error
}

async fn read_back(ctx: &Ctx, cx: &TaskCx, id: &InstanceId, name: &str) -> Result<Consistency> {
    let cx = cx.read(LOOK);
    let seen = ctx.look(&cx, id).await?;
    let all = super::snapshots::known(ctx, &cx, &seen).await?;
    all.iter()
        .find(|one| one.shown.name == name)
        .and_then(|one| one.shown.consistency)
        .ok_or_else(|| Error::backend(format!("{} was taken and is not there", shown(name))))
}

/// A name that somebody has.
pub fn taken(ctx: &Ctx, name: &str) -> Error {
    Error::refused(format!("{} is there already", ctx.id(name))).remedy("Choose another name.")
}
