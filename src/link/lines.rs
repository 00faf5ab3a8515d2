//! Lines of a file that somebody else writes: the last ones, and those that come.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::Stream;
use tokio::time::Instant;

use super::files::fault;
use crate::model::Result;

/// Read at a time.
const BLOCK: u64 = 64 << 10;
/// A line that is longer is given in pieces: a guest may never end one.
const LONGEST: usize = 64 << 10;
/// However many lines are asked for, no more than this is read.
const MOST: u64 = 64 << 20;
/// Between two looks at a file that is followed.
const LOOK: Duration = Duration::from_millis(200);
/// A line without an end, such as a prompt, is given after so long.
const PROMPT: Duration = Duration::from_secs(2);

/// The last `count` lines, read from the end; none where there is no file yet.
///
/// # Errors
/// Where it cannot be read.
pub fn last(file: &Path, count: usize) -> Result<Vec<String>> {
    let mut out = Vec::new();
    if let Some(mut reader) = Reader::open(file)? {
        out = reader.last(count).map_err(|e| fault("read", file, e))?;
        out.extend(reader.rest());
        let more = out.len().saturating_sub(count);
        out.drain(..more);
    }
    Ok(out)
}

/// The last `count` lines, then each as it comes, for ever: also when the file is begun anew, cut
/// off, or made only later.
pub fn follow(file: PathBuf, count: usize) -> impl Stream<Item = Result<String>> + Send {
    let state = Following {
        file,
        reader: None,
        first: Some(count),
        ready: std::collections::VecDeque::new(),
        grown: Instant::now(),
    };
    futures::stream::unfold(Some(state), |state| async move {
        let mut state = state?;
        loop {
            if let Some(line) = state.ready.pop_front() {
                return Some((Ok(line), Some(state)));
            }
            // Nobody can go on where the file cannot be read.
            if let Err(error) = state.look() {
                return Some((Err(error), None));
            }
            if state.ready.is_empty() {
                tokio::time::sleep(LOOK).await;
            }
        }
    })
}

struct Following {
    file: PathBuf,
    reader: Option<Reader>,
    first: Option<usize>,
    ready: std::collections::VecDeque<String>,
    grown: Instant,
}

impl Following {
    fn look(&mut self) -> Result<()> {
        let failed = |e| fault("read", &self.file, e);
        if self.reader.is_none() {
            self.reader = Reader::open(&self.file)?;
            let first = self.first.take();
            if let (Some(reader), Some(count)) = (&mut self.reader, first) {
                let last = reader.last(count).map_err(failed)?;
                self.ready.extend(last);
            }
        }
        let Some(reader) = &mut self.reader else {
            return Ok(());
        };
        let lines = reader.read().map_err(failed)?;
        if reader.moved() {
            self.grown = Instant::now();
        }
        self.ready.extend(lines);
        if self.ready.is_empty() && self.grown.elapsed() > PROMPT {
            self.ready.extend(reader.rest());
        }
        // One that took its place is read from its beginning, what was left of this one first.
        if self.ready.is_empty() && reader.replaced(&self.file) {
            self.ready.extend(reader.rest());
            self.reader = None;
        }
        Ok(())
    }
}

/// A file being read, and the line that is not complete yet.
struct Reader {
    file: File,
    at: u64,
    before: u64,
    partial: Vec<u8>,
}

impl Reader {
    fn open(path: &Path) -> Result<Option<Self>> {
        match File::open(path) {
            Ok(file) => Ok(Some(Self {
                file,
                at: 0,
                before: 0,
                partial: Vec::new(),
            })),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(fault("read", path, e)),
        }
    }

    /// The last lines that are there; reading goes on behind them.
    fn last(&mut self, count: usize) -> std::io::Result<Vec<String>> {
        let end = self.file.metadata()?.len();
        let mut from = end;
        let mut newlines = 0;
        // Whether the last line has an end is not known yet, so one more is looked for.
        while from > 0 && newlines <= count && end - from < MOST {
            let size = BLOCK.min(from);
            from -= size;
            let mut block = vec![0; usize::try_from(size).unwrap_or_default()];
            self.file.seek(SeekFrom::Start(from))?;
            self.file.read_exact(&mut block)?;
            newlines += block.split(|b| *b == b'\n').count() - 1;
        }
        self.at = from;
        let mut lines = Vec::new();
        while self.at < end {
            let more = self.read_to(end)?;
            if more.is_empty() && !self.moved() {
                break;
            }
            lines.extend(more);
        }
        // Where it was cut in the middle of a line that line is none.
        if from > 0 && !lines.is_empty() {
            lines.remove(0);
        }
        let wanted = count.saturating_sub(usize::from(!self.partial.is_empty()));
        lines.drain(..lines.len().saturating_sub(wanted));
        Ok(lines)
    }

    /// Lines that have come.
    fn read(&mut self) -> std::io::Result<Vec<String>> {
        let end = self.file.metadata()?.len();
        if end < self.at {
            // It was cut off: what is there is new.
            self.at = 0;
            self.partial.clear();
        }
        self.read_to(end)
    }

    fn read_to(&mut self, end: u64) -> std::io::Result<Vec<String>> {
        self.before = self.at;
        let size = (16 * BLOCK).min(end.saturating_sub(self.at));
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
        self.file.seek(SeekFrom::Start(self.at))?;
        (&self.file).take(size).read_to_end(&mut bytes)?;
        self.at += bytes.len() as u64;
        let mut lines = Vec::new();
        for byte in bytes {
            if byte != b'\n' {
                self.partial.push(byte);
            }
            if byte == b'\n' || self.partial.len() >= LONGEST {
                lines.push(text(&self.partial));
                self.partial.clear();
            }
        }
        Ok(lines)
    }

    /// Something was read.
    fn moved(&self) -> bool {
        self.at != self.before
    }

    /// A line whose end has not come.
    fn rest(&mut self) -> Option<String> {
        let partial = std::mem::take(&mut self.partial);
        (!partial.is_empty()).then(|| text(&partial))
    }

    fn replaced(&self, path: &Path) -> bool {
        let (Ok(own), Ok(there)) = (self.file.metadata(), std::fs::metadata(path)) else {
            return false;
        };
        (own.dev(), own.ino()) != (there.dev(), there.ino())
    }
}

/// Serial lines end in CR LF, those of some guests in more CRs.
fn text(line: &[u8]) -> String {
    let end = line
        .iter()
        .rposition(|b| *b != b'\r')
        .map_or(0, |at| at + 1);
    String::from_utf8_lossy(&line[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;

    use futures::StreamExt as _;

    use super::*;

    #[test]
    fn the_end_is_read_whatever_the_length() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("log");
        assert!(last(&file, 5).unwrap().is_empty());
        let text: String = (0..50_000).map(|n| format!("line {n}\r\n")).collect();
        fs::write(&file, &text).unwrap();
        assert_eq!(last(&file, 2).unwrap(), ["line 49998", "line 49999"]);
        assert_eq!(last(&file, 100_000).unwrap().len(), 50_000);
        assert!(last(&file, 0).unwrap().is_empty());
        fs::write(&file, format!("{text}login: ")).unwrap();
        assert_eq!(last(&file, 2).unwrap(), ["line 49999", "login: "]);
        fs::write(&file, "no end").unwrap();
        assert_eq!(last(&file, 1).unwrap(), ["no end"]);
        fs::write(&file, "a\n\nb\n").unwrap();
        assert_eq!(last(&file, 2).unwrap(), ["", "b"]);
        // A guest that never ends its line, and writes no text.
        fs::write(&file, vec![0xff; 3 * LONGEST]).unwrap();
        assert_eq!(last(&file, 10).unwrap().len(), 3);
    }

    #[tokio::test]
    async fn lines_come_across_all_that_happens_to_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("log");
        let mut lines = Box::pin(follow(file.clone(), 1));
        let writer = file.clone();
        let script = tokio::spawn(async move {
            let append = |text: &str| {
                let mut file = fs::OpenOptions::new()
                    .create(true)
                    .append(true)
                    .open(&writer)
                    .unwrap();
                file.write_all(text.as_bytes()).unwrap();
            };
            let pause = || tokio::time::sleep(3 * LOOK);
            append("old\none\n");
            pause().await;
            append("tw");
            pause().await;
            append("o\n");
            pause().await;
            fs::write(&writer, "cut\n").unwrap();
            pause().await;
            fs::rename(&writer, writer.with_extension("1")).unwrap();
            append("new\nlogin: ");
        });
        let mut seen = Vec::new();
        while seen.last().is_none_or(|line| line != "login: ") {
            seen.push(lines.next().await.unwrap().unwrap());
        }
        script.await.unwrap();
        assert!(
            seen.ends_with(&["one", "two", "cut", "new", "login: "].map(str::to_owned)),
            "{seen:?}"
        );
    }
}
