//! Verbs that only a front carries out.

use super::super::row::{Group, Row, Run, Targets};
use crate::model::GroupNoun;

const UI: Row = Row {
    examples: &["ui", "ui go tasks", "ui quit"],
    details: "Opens the full-screen view. Inside it: ui go PANE, ui filter TEXT, ui theme NAME, ui quit and what keymaps bind.",
    noun: GroupNoun::Words,
    targets: Targets::Any,
    ..Row::new("ui", Group::Look, "Opens the full-screen view", Run::Front)
};

const BATCH: Row = Row {
    examples: &["batch -"],
    details: "One command line per line, without the word corral. Empty lines and lines that begin with # are skipped.",
    noun: GroupNoun::File,
    targets: Targets::One,
    ..Row::new(
        "batch",
        Group::Work,
        "Runs the command lines of a file",
        Run::Front,
    )
};

const COMPLETION: Row = Row {
    examples: &["completion bash"],
    details: "bash: corral completion bash > ~/.local/share/bash-completion/completions/corral",
    noun: GroupNoun::Shell,
    targets: Targets::One,
    ..Row::new(
        "completion",
        Group::Shell,
        "Prints a completion script",
        Run::Front,
    )
};

const MAN: Row = Row {
    examples: &["man"],
    ..Row::new("man", Group::Shell, "Prints the manual page", Run::Front)
};

pub(super) const ROWS: &[&Row] = &[&UI, &BATCH, &COMPLETION, &MAN];
