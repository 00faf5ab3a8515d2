//! A definition edited by a person: its text in a file, the editor's command, and what came of it.
//!
//! The file stays until the change is made, so that nothing that was typed is lost.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::engine::Engine;
use super::grammar::tokenize;
use super::paths::read_text;
use super::planner::resolve;
use crate::fleet::selector::Purpose;
use crate::link::child::Cmd;
use crate::link::files::write_atomically;
pub use crate::link::foreground::run;
use crate::model::{
    Action, Error, Instance, NativeFormat, NativeText, Operation, Result, encode_segment, shown,
};

/// Nobody goes on with a definition after this long.
const OLD: Duration = Duration::from_secs(30 * 86400);
/// What was typed for an argument may hold passwords: a task that failed was tried again by then, or never is.
const TYPED_OLD: Duration = Duration::from_secs(86400);
/// Arguments whose text may be typed.
const TYPED: [&str; 1] = ["user-data"];

/// A text that is open in an editor.
#[derive(Clone, Debug, PartialEq)]
pub struct Opened {
    /// What is to be done with it: `edit` with `--file` and `--base`.
    pub action: Action,
    /// The file.
    pub file: PathBuf,
    before: String,
}

/// The instance that an action names.
async fn one(engine: &Arc<Engine>, action: &Action) -> Result<Arc<Instance>> {
    let resolved = resolve(engine, action, Purpose::Change).await?;
    match resolved.targets.as_slice() {
        [instance] => Ok(Arc::clone(instance)),
        _ => Err(Error::invalid("edit takes exactly one instance")),
    }
}

/// The definition of the instance that an action names.
pub(super) async fn native(engine: &Arc<Engine>, action: &Action) -> Result<NativeText> {
    definition(engine, &*one(engine, action).await?).await
}

async fn definition(engine: &Arc<Engine>, instance: &Instance) -> Result<NativeText> {
    let context = &instance.context;
    let member = engine
        .fleet()
        .member(context)
        .ok_or_else(|| Error::not_found(format!("there is no context {context:?}")))?;
    let Some(family) = member.backend.families().edit() else {
        let why = member.backend.support(Operation::Edit, Some(instance));
        let why = why.reason().unwrap_or("it has no text to edit").to_owned();
        return Err(Error::unsupported(format!("{}: {why}", instance.id)));
    };
    let cx = engine.asking(engine.fleet().read_cx(context));
    cx.within(context, family.native(&cx, instance)).await
}

/// The text in a file.
///
/// # Errors
/// `Invalid` for what cannot be read, is too long or no text.
pub(super) fn read(file: &Path) -> Result<String> {
    // A plan is made twice, and a pipe can be read once.
    if fs::metadata(file).is_ok_and(|meta| !meta.is_file()) {
        let name = file.to_string_lossy();
        return Err(
            Error::invalid(format!("{} is not a plain file", shown(&name)))
                .remedy("From a pipe: --file -"),
        );
    }
    read_text(file)
}

/// Where an edited text is kept until it is taken.
fn keep(engine: &Engine, name: &str, format: NativeFormat, text: &str) -> Result<PathBuf> {
    let extension = match format {
        NativeFormat::Toml => "toml",
        NativeFormat::Xml => "xml",
        NativeFormat::Yaml => "yaml",
        NativeFormat::Json => "json",
        NativeFormat::Text => "txt",
    };
    let mut name = encode_segment(name);
    name.truncate(100);
    let stamp = Timestamp::now().as_millisecond();
    let dir = folder(engine);
    forget(&dir);
    let file = dir.join(format!("{name}-{stamp}.{extension}"));
    write_atomically(&file, text.as_bytes())?;
    Ok(file)
}

fn folder(engine: &Engine) -> PathBuf {
    engine.env().dirs.state.join("edits")
}

/// A text that was typed for an argument which is a file; the file.
///
/// # Errors
/// Where it cannot be written.
pub fn typed(engine: &Engine, argument: &str, text: &str) -> Result<String> {
    let text = format!("{}\n", text.trim_end());
    let file = keep(engine, argument, NativeFormat::Text, &text)?;
    Ok(file.to_string_lossy().into_owned())
}

/// Nothing comes of what was typed: its file goes.
pub fn typed_in_vain(engine: &Engine, file: &str) {
    let file = Path::new(file);
    if file.parent() == Some(&folder(engine)) {
        let _ = fs::remove_file(file);
    }
}

/// A change was made: the texts of it that were kept here are not needed any more.
pub(super) fn taken(engine: &Engine, action: &Action) {
    let folder = folder(engine);
    let texts = ["file", "user-data"].map(|name| action.args.text(name));
    for file in texts.into_iter().flatten().map(Path::new) {
        if file.parent() == Some(&folder) {
            let _ = fs::remove_file(file);
        }
    }
}

/// At the start: texts that nobody came back for go.
pub fn tidy(engine: &Engine) {
    if !engine.is_in_memory() {
        forget(&folder(engine));
    }
}

/// Texts that nobody came back for.
fn forget(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let was_typed = |what: &str| name.starts_with(&format!("{what}-"));
        let is_text = name.ends_with(".txt");
        let old = if is_text && TYPED.iter().any(|what| was_typed(what)) {
            TYPED_OLD
        } else {
            OLD
        };
        let age = entry.metadata().and_then(|meta| meta.modified());
        if age.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > old)) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Writes an instance's definition into a file, to be edited.
///
/// # Errors
/// `Refused` where nothing may be changed: nobody should type in vain. As the backend's, and where the file cannot be
/// written.
pub async fn open(engine: &Arc<Engine>, action: &Action) -> Result<Opened> {
    let instance = one(engine, action).await?;
    if let Some(why) = engine.readonly_reason(&instance.context) {
        let mut error = Error::refused(why.message);
        error.remedy = why.remedy;
        return Err(error);
    }
    let text = definition(engine, &instance).await?;
    let file = keep(engine, &instance.name, text.format, &text.text)?;
    let mut action = action.clone();
    action.args.set("file", file.to_string_lossy().into_owned());
    action.args.set("base", text.token);
    Ok(Opened {
        action,
        file,
        before: text.text,
    })
}

/// A text that came on standard input, kept in a file like any other.
///
/// # Errors
/// Where it cannot be written.
pub fn given(engine: &Arc<Engine>, action: &Action, text: &str) -> Result<Opened> {
    let file = keep(engine, "stdin", NativeFormat::Text, text)?;
    let mut action = action.clone();
    action.args.set("file", file.to_string_lossy().into_owned());
    Ok(Opened {
        action,
        file,
        before: String::new(),
    })
}

impl Opened {
    /// The editor, on this file.
    ///
    /// # Errors
    /// `NotFound` where there is none.
    pub fn editor(&self, engine: &Engine) -> Result<Cmd> {
        let vars = &engine.env().vars;
        let wanted = ["VISUAL", "EDITOR"]
            .iter()
            .filter_map(|name| vars.get(*name))
            .find(|text| !text.trim().is_empty());
        let words = match wanted {
            Some(text) => tokenize(text)?,
            None => ["sensible-editor", "nano", "vi"]
                .iter()
                .find(|name| engine.env().which(name).is_some())
                .map(|name| vec![(*name).to_owned()])
                .unwrap_or_default(),
        };
        let Some((program, args)) = words.split_first() else {
            return Err(
                Error::not_found("there is no editor").remedy("Set one: export EDITOR=nano")
            );
        };
        let found = if program.contains('/') {
            Some(PathBuf::from(program))
        } else {
            engine.env().which(program)
        };
        let program = found.ok_or_else(|| {
            Error::not_found(format!("the editor {} is not installed", shown(program)))
                .remedy("Set another: export EDITOR=nano")
        })?;
        Ok(Cmd::new(program).args(args).arg(&self.file))
    }

    /// Nothing was changed in it: the file goes.
    pub fn is_as_before(&self) -> bool {
        let same = fs::read(&self.file).is_ok_and(|bytes| bytes == self.before.as_bytes());
        if same {
            self.done();
        }
        same
    }

    /// It was taken, or nobody wants it.
    pub fn done(&self) {
        let _ = fs::remove_file(&self.file);
    }

    /// How to go on with what was typed.
    pub fn kept(&self) -> String {
        let file = shown(&self.file.to_string_lossy()).into_owned();
        format!(
            "What was typed is kept in {file}; mend it there, then: corral edit … --file {file}"
        )
    }
}
