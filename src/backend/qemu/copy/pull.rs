//! A file out of a guest.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::Copied;
use super::talk::{ANSWER, Talk, decode, lied};
use crate::backend::contract::TaskCx;
use crate::backend::portable::sums::Running;
use crate::link::files;
use crate::model::{Bytes, Error, Result, shown};

/// Asked for at a time; an answer has a third more.
const CHUNK: u64 = 512 << 10;
/// Until one chunk has come.
const SLOW: Duration = Duration::from_secs(60);
/// A file may grow while it is read; one that never ends is refused.
const GROWN: u64 = 256 << 20;

/// Reads `from` inside into `to` here, whole or not at all.
pub(super) async fn pull(
    cx: &TaskCx,
    talk: &mut Talk<'_>,
    from: &str,
    to: &Path,
    overwrite: bool,
) -> Result<Copied> {
    files::can_place(to, overwrite)?;
    let file = files::beside(to)?;
    let handle = talk.open(from, "r").await?;
    let read = read(cx, talk, handle, file.as_file()).await;
    // Also after a failure: a guest has few handles.
    let closed = talk.close(handle).await;
    let (size, hash) = read?;
    closed?;
    let mut notes = Vec::new();
    let compared = match talk.sha256(from, size).await? {
        Some(inside) if inside == hash => true,
        Some(_) if grown(talk, from, size).await => {
            notes.push("it was changed inside meanwhile".to_owned());
            false
        }
        Some(_) => {
            return Err(Error::backend(format!(
                "what came is not what {} holds: its SHA-256 differs. Nothing was written",
                shown(from)
            ))
            .remedy("It may have been changed meanwhile: try again"));
        }
        None => false,
    };
    match mode(talk, from).await {
        Some(mode) => {
            let mode = std::fs::Permissions::from_mode(mode);
            let set = file.as_file().set_permissions(mode);
            set.map_err(|e| files::fault("write", to, e))?;
        }
        None => notes.push("its mode is not known and became 600".to_owned()),
    }
    files::settle(file, to, overwrite)?;
    Ok(Copied {
        size,
        compared,
        notes,
    })
}

async fn read(
    cx: &TaskCx,
    talk: &mut Talk<'_>,
    handle: i64,
    mut out: &std::fs::File,
) -> Result<(u64, String)> {
    // Files of /proc have no length.
    let length = talk.length(handle).await.unwrap_or(0);
    let mut hash = Running::new();
    let mut done = 0;
    loop {
        cx.checkpoint()?;
        let args = json!({ "handle": handle, "count": CHUNK });
        let answer = talk.ask("guest-file-read", args, SLOW).await?;
        let (bytes, eof) = chunk(&answer)?;
        out.write_all(&bytes)
            .map_err(|e| files::fault("write", Path::new("the copy"), e))?;
        hash.update(&bytes);
        done += bytes.len() as u64;
        cx.progress(done, length.max(done));
        if eof {
            return Ok((done, hash.finish()));
        }
        if bytes.is_empty() {
            return Err(lied("guest-file-read gave nothing, and no end"));
        }
        if done > length.saturating_add(GROWN) {
            return Err(lied(&format!(
                "it said {} and has sent {} without an end",
                Bytes(length),
                Bytes(done)
            )));
        }
    }
}

/// What one `guest-file-read` gave, and whether it was the last.
fn chunk(answer: &Value) -> Result<(Vec<u8>, bool)> {
    let eof = answer
        .get("eof")
        .and_then(Value::as_bool)
        .ok_or_else(|| lied("guest-file-read does not say whether there is more"))?;
    let text = answer.get("buf-b64").and_then(Value::as_str).unwrap_or("");
    let bytes = decode(text)?;
    let count = answer.get("count").and_then(Value::as_u64);
    if count != Some(bytes.len() as u64) || bytes.len() as u64 > CHUNK {
        return Err(lied(&format!(
            "guest-file-read says {count:?} bytes and sent {}",
            bytes.len()
        )));
    }
    Ok((bytes, eof))
}

/// Whether the file has another length now.
async fn grown(talk: &mut Talk<'_>, path: &str, size: u64) -> bool {
    let Ok(handle) = talk.open(path, "r").await else {
        return true;
    };
    let length = talk.length(handle).await;
    let _ = talk.close(handle).await;
    length.is_ok_and(|length| length != size)
}

async fn mode(talk: &mut Talk<'_>, path: &str) -> Option<u32> {
    if !talk.can_run() {
        return None;
    }
    let ran = talk
        .run(&["stat", "-L", "-c", "%a", path], ANSWER)
        .await
        .ok()?;
    let text = String::from_utf8_lossy(&ran.out);
    let mode = u32::from_str_radix(text.trim(), 8).ok()?;
    // What makes a program run as another user means nothing here. The owner can always read it.
    Some(mode & 0o777 | 0o400)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_that_contradicts_itself_is_no_chunk() {
        let good = json!({ "count": 3, "buf-b64": "YWJj", "eof": false });
        assert_eq!(chunk(&good).unwrap(), (b"abc".to_vec(), false));
        let end = json!({ "count": 0, "buf-b64": "", "eof": true });
        assert_eq!(chunk(&end).unwrap(), (Vec::new(), true));
        for bad in [
            json!({ "count": 4, "buf-b64": "YWJj", "eof": false }),
            json!({ "count": 3, "buf-b64": "YW*j", "eof": false }),
            json!({ "count": 3, "buf-b64": "YWJj" }),
            json!({ "count": -3, "buf-b64": "YWJj", "eof": true }),
            json!({ "count": 3, "buf-b64": null, "eof": true }),
            json!(null),
        ] {
            assert!(chunk(&bad).is_err(), "{bad}");
        }
    }
}
