//! A file into a guest.

use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::Copied;
use super::talk::{ANSWER, Talk, encode, lied};
use crate::backend::contract::TaskCx;
use crate::backend::portable::sums::Running;
use crate::link::files;
use crate::model::{Error, Result, shown};

/// Sent at a time.
const CHUNK: usize = 256 << 10;
/// Until one chunk was taken: the guest may have to write it to a slow disk first.
const SLOW: Duration = Duration::from_secs(60);

/// Writes `from` here to `to` inside: beside it first where commands can be run inside.
pub(super) async fn push(
    cx: &TaskCx,
    talk: &mut Talk<'_>,
    from: &Path,
    to: &str,
) -> Result<Copied> {
    let failed = |e| files::fault("read", from, e);
    let file = std::fs::File::open(from).map_err(failed)?;
    let meta = file.metadata().map_err(failed)?;
    let beside = talk.can_run();
    let part = if beside { part_of(to) } else { to.to_owned() };
    let mode = format!("{:o}", meta.permissions().mode() & 0o777);
    let put = async {
        let handle = talk.open(&part, "w").await?;
        let written = write(cx, talk, handle, file, meta.len()).await;
        let closed = talk.close(handle).await;
        let (size, hash) = written?;
        closed?;
        let inside = talk.sha256(&part, size).await?;
        if inside.as_ref().is_some_and(|inside| *inside != hash) {
            return Err(Error::backend(format!(
                "what arrived at {} is not what was sent: its SHA-256 differs",
                shown(to)
            ))
            .remedy("Try again; look at the guest's disk: corral logs"));
        }
        let mut notes = Vec::new();
        if beside {
            if !runs(talk, &["chmod", &mode, &part]).await {
                notes.push(format!("its mode {mode} could not be set"));
            }
            cx.checkpoint()?;
            if !runs(talk, &["mv", "-f", &part, to]).await {
                let message = format!("{} could not be given its name", shown(&part));
                return Err(Error::backend(message));
            }
        } else {
            notes.push("its mode is the agent's own".to_owned());
        }
        Ok(Copied {
            size,
            compared: inside.is_some(),
            notes,
        })
    };
    let error = match put.await {
        Ok(copied) => return Ok(copied),
        Err(error) => error,
    };
    // Nothing that looks like the whole file stays.
    let cleared = if beside {
        runs(talk, &["rm", "-f", &part]).await
    } else {
        empty(talk, &part).await
    };
    let what = match (cleared, beside) {
        (true, true) => format!("{} is as it was", shown(to)),
        (true, false) => format!("{} is empty now", shown(to)),
        (false, _) => format!("a part of it may be left inside, at {}", shown(&part)),
    };
    Err(Error {
        message: format!("{}. {what}", error.message.trim_end_matches('.')),
        ..error
    })
}

/// A name beside `to` that nobody has.
fn part_of(to: &str) -> String {
    let (dir, name) = to.rsplit_once('/').unwrap_or(("", to));
    // File systems take 255 bytes, and a name may use them all.
    let name: String = name.chars().take(40).collect();
    format!("{dir}/.{name}.{:08x}.part", rand::random::<u32>())
}

async fn write(
    cx: &TaskCx,
    talk: &mut Talk<'_>,
    handle: i64,
    mut file: std::fs::File,
    length: u64,
) -> Result<(u64, String)> {
    let mut hash = Running::new();
    let mut done = 0;
    let mut buffer = vec![0; CHUNK];
    loop {
        let n = file
            .read(&mut buffer)
            .map_err(|e| files::fault("read", Path::new("the file"), e))?;
        if n == 0 {
            break;
        }
        hash.update(&buffer[..n]);
        let mut rest = &buffer[..n];
        while !rest.is_empty() {
            cx.checkpoint()?;
            let args = json!({ "handle": handle, "buf-b64": encode(rest), "count": rest.len() });
            let answer = talk.ask("guest-file-write", args, SLOW).await?;
            let taken = taken(&answer, rest.len())?;
            rest = &rest[taken..];
            done += taken as u64;
            cx.progress(done, length.max(done));
        }
    }
    let args = json!({ "handle": handle });
    talk.ask("guest-file-flush", args, SLOW).await?;
    Ok((done, hash.finish()))
}

/// How much of `sent` bytes was taken; fewer is fine, none or more is not.
fn taken(answer: &Value, sent: usize) -> Result<usize> {
    let count = answer.get("count").and_then(Value::as_u64);
    count
        .and_then(|count| usize::try_from(count).ok())
        .filter(|count| (1..=sent).contains(count))
        .ok_or_else(|| {
            lied(&format!(
                "guest-file-write was sent {sent} bytes and says it wrote {count:?}"
            ))
        })
}

async fn runs(talk: &mut Talk<'_>, words: &[&str]) -> bool {
    let ran = talk.run(words, ANSWER).await;
    ran.is_ok_and(|ran| ran.code == 0)
}

async fn empty(talk: &mut Talk<'_>, path: &str) -> bool {
    match talk.open(path, "w").await {
        Ok(handle) => talk.close(handle).await.is_ok(),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_writes_go_on_and_impossible_ones_do_not() {
        assert_eq!(taken(&json!({ "count": 3 }), 5).unwrap(), 3);
        for bad in [
            json!({ "count": 0 }),
            json!({ "count": 6 }),
            json!({}),
            json!(null),
        ] {
            assert!(taken(&bad, 5).is_err(), "{bad}");
        }
        let part = part_of("/etc/x");
        assert!(part.starts_with("/etc/.x.") && part.len() == "/etc/.x.12345678.part".len());
        assert!(part_of(&format!("/{}", "n".repeat(255))).len() < 100);
    }
}
