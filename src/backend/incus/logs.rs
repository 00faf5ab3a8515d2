//! What an instance wrote on its console, and what its driver did: the ring buffer and the log files of the server.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::{BoxStream, StreamExt as _};

use super::ctx::Ctx;
use super::json::named;
use super::seen::Seen;
use crate::backend::contract::{Logs, ReadCx};
use crate::link::http::Request;
use crate::model::{Error, Instance, LogSource, Result, shown};

/// The guest's console.
const CONSOLE: &str = "console";
/// Longest log that is read.
const LONGEST: u64 = 64 << 20;
/// A log that is followed is looked at so often.
const LOOK: Duration = Duration::from_secs(1);
/// One look at it takes at most this.
const LIMIT: Duration = Duration::from_secs(15);

/// The logs family.
#[derive(Clone, Debug)]
pub struct Written(pub Arc<Ctx>);

async fn text(ctx: &Ctx, cx: &ReadCx, seen: &Seen, source: &str) -> Result<String> {
    let path = match source {
        CONSOLE => seen.path(&["console"]),
        file => seen.path(&["logs", file]),
    };
    let asked = async {
        let answer = ctx.api()?.http.send(Request::get(&path)).await?;
        match answer.status() {
            200 => answer.whole(LONGEST).await,
            404 => Err(Error::not_found(format!(
                "{} has no log {:?}",
                seen.id,
                shown(source)
            ))),
            status => {
                use super::json::Look as _;
                let bytes = answer.whole(LONGEST).await?;
                let said: serde_json::Value = serde_json::from_slice(&bytes).unwrap_or_default();
                let said = said.text("error").unwrap_or("no reason given");
                Err(super::api::fault(u64::from(status), said))
            }
        }
    };
    let bytes = cx.within("the log", asked).await?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn lines(text: &str) -> Vec<String> {
    text.lines()
        .map(|line| line.trim_end_matches('\r').to_owned())
        .collect()
}

fn last(mut lines: Vec<String>, tail: usize) -> Vec<String> {
    let from = lines.len().saturating_sub(tail);
    lines.split_off(from)
}

async fn files(ctx: &Ctx, cx: &ReadCx, seen: &Seen) -> Result<Vec<String>> {
    let reply = ctx.api()?.get(cx, &seen.path(&["logs"])).await?;
    let urls = reply.metadata.as_array().cloned().unwrap_or_default();
    let names = urls.iter().filter_map(|url| named(url.as_str()?));
    Ok(names.map(|(name, _)| name).collect())
}

#[async_trait]
impl Logs for Written {
    async fn sources(&self, cx: &ReadCx, on: &Instance) -> Result<Vec<LogSource>> {
        let seen = Seen::now(&self.0, cx, &on.id).await?;
        let mut all = vec![LogSource {
            name: CONSOLE.to_owned(),
            title: "the guest's console".to_owned(),
            size_bytes: None,
        }];
        for name in files(&self.0, cx, &seen).await? {
            all.push(LogSource {
                title: format!("the server's {}", shown(&name)),
                name,
                size_bytes: None,
            });
        }
        Ok(all)
    }

    async fn read(
        &self,
        cx: &ReadCx,
        on: &Instance,
        source: &str,
        tail: usize,
    ) -> Result<Vec<String>> {
        let seen = Seen::now(&self.0, cx, &on.id).await?;
        if source != CONSOLE
            && !files(&self.0, cx, &seen)
                .await?
                .iter()
                .any(|name| name == source)
        {
            return Err(
                Error::not_found(format!("{} has no log {:?}", seen.id, shown(source)))
                    .remedy(format!("See corral logs {} --list", seen.id)),
            );
        }
        match text(&self.0, cx, &seen, source).await {
            Ok(text) => Ok(last(lines(&text), tail)),
            // Off, it has no console to be read.
            Err(_) if source == CONSOLE && !seen.state().is_active() => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    fn follow(
        &self,
        on: &Instance,
        source: &str,
        tail: usize,
    ) -> BoxStream<'static, Result<String>> {
        let state = Following {
            ctx: Arc::clone(&self.0),
            on: on.clone(),
            source: source.to_owned(),
            tail: Some(tail),
            seen: String::new(),
            ready: Vec::new(),
        };
        futures::stream::unfold(state, |mut state| async move {
            loop {
                if let Some(line) = state.ready.pop() {
                    return Some((Ok(line), state));
                }
                if state.tail.is_none() {
                    tokio::time::sleep(LOOK).await;
                }
                if let Err(error) = state.look().await {
                    if state.tail.take().is_some() {
                        return Some((Err(error), state));
                    }
                    // It may be away for a moment.
                    tokio::time::sleep(LOOK).await;
                }
            }
        })
        .boxed()
    }
}

/// A log that is followed: what was seen of it, and lines that wait, last first.
struct Following {
    ctx: Arc<Ctx>,
    on: Instance,
    source: String,
    /// So many lines first; `None` once they were told.
    tail: Option<usize>,
    seen: String,
    ready: Vec<String>,
}

impl Following {
    async fn look(&mut self) -> Result<()> {
        let cx = ReadCx::quiet(LIMIT);
        let seen = Seen::now(&self.ctx, &cx, &self.on.id).await?;
        let now = text(&self.ctx, &cx, &seen, &self.source).await?;
        // A line that has no end yet is told once it has.
        let whole = now.rfind('\n').map_or(0, |end| end + 1);
        let now = &now[..whole];
        let news = match self.tail.take() {
            Some(tail) => last(lines(now), tail),
            None => lines(fresh(&self.seen, now)),
        };
        self.ready = news.into_iter().rev().collect();
        now.clone_into(&mut self.seen);
        Ok(())
    }
}

/// What is new in `now`: a ring loses its beginning, so it begins with a line that was seen.
fn fresh<'a>(seen: &str, now: &'a str) -> &'a str {
    let starts = std::iter::once(0).chain(seen.match_indices('\n').map(|(at, _)| at + 1));
    // The longest that they have in common.
    starts
        .filter(|start| *start < seen.len())
        .find_map(|start| now.strip_prefix(&seen[start..]))
        .unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_that_turned_gives_only_what_is_new() {
        assert_eq!(fresh("a\nb\n", "a\nb\nc\n"), "c\n");
        assert_eq!(fresh("a\nb\n", "b\n"), "");
        assert_eq!(fresh("", "a\n"), "a\n");
        let long = "x\n".repeat(2000);
        let turned = format!("{}new\n", &long[1000..]);
        assert_eq!(fresh(&long, &turned), "new\n");
        assert_eq!(fresh("gone\n", "other\n"), "other\n");
    }
}
